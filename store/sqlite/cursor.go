package sqlite

import (
	"context"
	"errors"
	"time"

	"github.com/dvt-engine/dvt/store"
)

// LeaseCursor implements store.Cursors.
func (s *Store) LeaseCursor(ctx context.Context, name, owner string, ttl time.Duration) (out store.Cursor, err error) {
	err = s.write(ctx, func(c *conn) (err error) {
		now := s.now()
		out, err = collectOne(ctx, c, "lease cursor", func(row scanner) (r store.Cursor, err error) {
			return r, row.Scan(&r.Name, &r.Owner, &r.Generation, &r.Position)
		}, `INSERT INTO feed_cursor (name, owner, generation, lease_until, position) VALUES (?1, ?2, 1, ?3, '')
			ON CONFLICT (name) DO UPDATE SET owner = excluded.owner, generation = generation + 1, lease_until = excluded.lease_until
			WHERE lease_until < ?4 OR owner = excluded.owner RETURNING name, owner, generation, position`,
			name, owner, micros(now.Add(ttl)), micros(now))
		return err
	})
	if errors.Is(err, store.ErrNotFound) {
		err = store.ErrConflict // another owner holds the lease, so that no row was written
	}
	return out, err
}

// SaveCursor implements store.Cursors.
func (s *Store) SaveCursor(ctx context.Context, r store.Cursor, ttl time.Duration) error {
	return s.write(ctx, func(c *conn) error {
		n, err := c.exec(ctx, "save cursor", `UPDATE feed_cursor SET position = ?, lease_until = ?
			WHERE name = ? AND generation = ?`, r.Position, micros(s.now().Add(ttl)), r.Name, r.Generation)
		if err == nil && n == 0 {
			err = store.ErrConflict
		}
		return err
	})
}

// ReleaseCursor implements store.Cursors.
func (s *Store) ReleaseCursor(ctx context.Context, r store.Cursor) error {
	return s.write(ctx, func(c *conn) error {
		n, err := c.exec(ctx, "release cursor", `UPDATE feed_cursor SET lease_until = 0 WHERE name = ? AND generation = ?`,
			r.Name, r.Generation)
		if err == nil && n == 0 {
			err = store.ErrConflict
		}
		return err
	})
}
