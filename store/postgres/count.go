package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/dvt-engine/dvt/store"
)

// Count implements store.Runs. It is two statements: one of all runs, one of those that failed.
func (s *Store) Count(ctx context.Context, rf store.RunFilter, parts int) ([]store.RunCount, error) {
	rf.After, rf.Before, rf.Steps = nil, nil, false
	out := make([]store.RunCount, bounded(parts, store.MaxParts))
	err := s.do(ctx, "count", func(ctx context.Context, c *pgx.Conn) (err error) {
		var found matches
		if textRestricts(rf) {
			if found, err = match(ctx, c, rf); err != nil {
				return err
			}
		}
		return rf.CountInto(out, func(f store.RunFilter, each func(part, n int64)) error {
			return count(ctx, c, f, found, len(out), each)
		})
	})
	return out, err
}

func count(ctx context.Context, c *pgx.Conn, rf store.RunFilter, found matches, parts int,
	each func(part, n int64)) error {
	q := newListQuery(rf)
	q.limit = store.MaxCounted + 1
	page := q.page(found)
	if page == "" {
		return nil
	}
	width := max(1, rf.CreatedTo.UnixMicro()-rf.CreatedFrom.UnixMicro())
	part := q.bind(`(extract(epoch FROM p.created_at - ?::timestamptz) * 1e6)::bigint * ?::bigint / ?::bigint`,
		rf.CreatedFrom, parts, width)
	rows, err := c.Query(ctx, `SELECT `+part+`, count(*) FROM (`+page+`) p GROUP BY 1`, q.args...)
	if err != nil {
		return err
	}
	var at, n int64
	_, err = pgx.ForEachRow(rows, []any{&at, &n}, func() error {
		each(at, n)
		return nil
	})
	return err
}
