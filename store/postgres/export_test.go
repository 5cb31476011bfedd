package postgres

// Queued returns the number of callers that wait for a connection.
func (s *Store) Queued() int64 { return s.waiting.Load() }
