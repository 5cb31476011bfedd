package sqlite

import "context"

// Ping implements store.Ops.
func (s *Store) Ping(ctx context.Context) error {
	_, err := s.Epoch(ctx)
	return err
}

// Epoch implements store.Ops. For one file it is the manual part alone.
func (s *Store) Epoch(ctx context.Context) (string, error) {
	return readOne(ctx, s, "epoch", value[string], epochSQL)
}

const epochSQL = `SELECT value FROM meta WHERE name = 'epoch'`

// BumpEpoch implements store.Ops.
func (s *Store) BumpEpoch(ctx context.Context) error {
	return s.write(ctx, func(c *conn) error {
		_, err := c.exec(ctx, "bump epoch", `UPDATE meta SET value = lower(hex(randomblob(8))) WHERE name = 'epoch'`)
		return err
	})
}
