package sqlite

import (
	"context"

	"github.com/dvt-engine/dvt/store"
)

// Count implements store.Runs. It is two statements: one of all runs, one of those that failed.
func (s *Store) Count(ctx context.Context, f store.RunFilter, parts int) ([]store.RunCount, error) {
	f.After, f.Before, f.Steps = nil, nil, false
	out := make([]store.RunCount, clamp(parts, store.MaxParts))
	err := s.read(ctx, func(c *conn) (err error) {
		var found matches
		if textRestricts(f) {
			if found, err = match(ctx, c, f); err != nil {
				return err
			}
		}
		return f.CountInto(out, func(f store.RunFilter, each func(part, n int64)) error {
			return count(ctx, c, f, found, len(out), each)
		})
	})
	return out, err
}

func count(ctx context.Context, c *conn, f store.RunFilter, found matches, parts int, each func(part, n int64)) error {
	q := newListQuery(f)
	page := q.page(found)
	if page == "" {
		return nil
	}
	from, to := micros(f.CreatedFrom), micros(f.CreatedTo)
	part := q.bind(`(created_at - ?) * ? / ?`, from, parts, max(1, to-from))
	sql := `SELECT ` + part + `, count(*) FROM (` + page + q.bind(` LIMIT ?`, store.MaxCounted+1) + `) GROUP BY 1`
	return c.query(ctx, "count runs", sql, q.args, func(r row) error {
		var part, n int64
		err := r.Scan(&part, &n)
		if err == nil {
			each(part, n)
		}
		return err
	})
}
