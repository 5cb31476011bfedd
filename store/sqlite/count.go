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
		var all int64
		err = count(ctx, c, f, found, len(out), func(part, n int64) {
			all += n
			out[part].Total = n
		})
		failed, ok := f.Failed()
		switch {
		case err != nil || !ok:
			return err
		case all > store.MaxCounted:
			return store.ErrTooMany
		}
		return count(ctx, c, failed, found, len(out), func(part, n int64) { out[part].Failed = min(n, out[part].Total) })
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
