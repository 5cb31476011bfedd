package sqlite

import (
	"context"
	"time"
)

// Ping implements store.Ops.
func (s *Store) Ping(ctx context.Context) error {
	_, err := s.Epoch(ctx)
	return err
}

// proof is how old the last commit may be to show that the file can be written.
const proof = 5 * time.Second

// Writable implements store.Ops: where no commit of the last seconds shows it, one of its own does.
func (s *Store) Writable(ctx context.Context) error {
	if time.Now().UnixNano()-s.writer.committed.Load() < int64(proof) {
		return nil
	}
	return s.write(ctx, func(c *conn) error {
		_, err := c.exec(ctx, "try to write", `UPDATE meta SET value = value WHERE name = 'epoch'`)
		return err
	})
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
