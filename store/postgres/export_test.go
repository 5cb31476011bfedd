package postgres

// Queued is how many callers wait for a connection.
func (s *Store) Queued() int64 { return s.waiting.Load() }
