package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/dvt-engine/dvt/store"
)

const leaseCursorSQL = `INSERT INTO feed_cursor AS c (name, owner, generation, lease_until, position)
  VALUES ($1, $2, 1, clock_timestamp() + $3::interval, '')
  ON CONFLICT (name) DO UPDATE SET owner = excluded.owner, generation = c.generation + 1, lease_until = excluded.lease_until
  WHERE c.lease_until < clock_timestamp() OR c.owner = excluded.owner RETURNING name, owner, generation, position`

const (
	saveCursorSQL = `UPDATE feed_cursor SET position = $3, lease_until = clock_timestamp() + $4::interval
  WHERE name = $1 AND generation = $2`
	releaseCursorSQL = `UPDATE feed_cursor SET lease_until = 'epoch' WHERE name = $1 AND generation = $2`
)

// LeaseCursor implements store.Cursors.
func (s *Store) LeaseCursor(ctx context.Context, name, owner string, ttl time.Duration) (store.Cursor, error) {
	rows, err := collect(ctx, s, "lease cursor", func(row pgx.CollectableRow) (r store.Cursor, err error) {
		return r, row.Scan(&r.Name, &r.Owner, &r.Generation, &r.Position)
	}, leaseCursorSQL, name, owner, ttl)
	if err != nil {
		return store.Cursor{}, err
	}
	if len(rows) == 0 { // another owner holds the lease, so that no row was written
		return store.Cursor{}, store.ErrConflict
	}
	return rows[0], nil
}

// SaveCursor implements store.Cursors.
func (s *Store) SaveCursor(ctx context.Context, c store.Cursor, ttl time.Duration) error {
	return s.changeCursor(ctx, "save cursor", saveCursorSQL, c.Name, c.Generation, c.Position, ttl)
}

// ReleaseCursor implements store.Cursors.
func (s *Store) ReleaseCursor(ctx context.Context, c store.Cursor) error {
	return s.changeCursor(ctx, "release cursor", releaseCursorSQL, c.Name, c.Generation)
}

func (s *Store) changeCursor(ctx context.Context, what, sql string, args ...any) error {
	return s.do(ctx, what, func(ctx context.Context, c *pgx.Conn) error {
		tag, err := c.Exec(ctx, sql, args...)
		if err == nil && tag.RowsAffected() == 0 {
			err = store.ErrConflict
		}
		return err
	})
}
