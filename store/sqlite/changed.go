package sqlite

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/dvt-engine/dvt/store"
)

// changedSQL reads the epoch and the newest change as the first row, and a page of changes. If the cursor has another
// epoch (?1), or its change (?2, of the run ?3) is beyond the newest one, it does not belong to this history and the
// feed is read from the beginning.
const changedSQL = `WITH here (epoch, newest) AS MATERIALIZED (
  SELECT (SELECT value FROM meta WHERE name = 'epoch'), (SELECT CAST(value AS INTEGER) FROM meta WHERE name = 'change'))
SELECT NULL AS header, 0 AS created_at, 0 AS last_seq, 0 AS ops_rev, newest AS change, '' AS run_id, epoch,
	0 AS kind, NULL AS tags, '' AS parent_run_id FROM here
UNION ALL SELECT * FROM (
  SELECT st.header, st.created_at, h.last_seq, h.ops_rev, st.change, st.run_id, '', 1,
    (SELECT json_group_array(tag) FROM (SELECT tag FROM run_tag g WHERE g.run_id = st.run_id ORDER BY tag)),
    (SELECT parent_run_id FROM run WHERE run_id = st.run_id)
  FROM run_state st INDEXED BY run_state_change JOIN run_head h ON h.run_id = st.run_id
  WHERE (st.change, st.run_id) > (SELECT iif(epoch = ?1 AND newest + 1 >= ?2, ?2, 0), ?3 FROM here) AND `

// ListChanged implements store.Feed. Changes are numbered under the write lock, so the order of their numbers is the
// order of commits and no row has to be read twice.
func (s *Store) ListChanged(ctx context.Context, f store.RunFilter, cursor string) (out []store.RunRow, next string,
	err error) {
	limit := clamp(f.Limit, store.MaxPage)
	if cursor == "" {
		limit = 0
	}
	w := scope(f)
	if f.TenantID == "" && f.EveryTenant {
		w = &where{terms: []string{"true"}}
	}
	was, after, runID := parseCursor(cursor)
	var epoch, lastRun string
	var newest, last int64
	err = s.read(ctx, func(c *conn) error {
		return c.query(ctx, "changed runs", changedSQL+w.String()+
			` ORDER BY st.change, st.run_id LIMIT ?) ORDER BY kind, change, run_id`,
			append(append([]any{was, after, runID}, w.args...), limit), func(row row) error {
				var r store.RunRow
				var header, tags []byte
				var created, change int64
				var id, of string
				var kind int
				if err := row.Scan(&header, &created, &r.Head, &r.OpsRev, &change, &id, &of, &kind, &tags,
					&r.ParentRunID); err != nil {
					return err
				}
				if kind == 0 {
					epoch, newest = of, change
					return nil
				}
				last, lastRun = change, id
				if err := errors.Join(json.Unmarshal(header, &r.Header), json.Unmarshal(tags, &r.Tags)); err != nil {
					return err
				}
				r.Header.CreatedAt = instant(created)
				out = append(out, r)
				return nil
			})
	})
	if err != nil {
		return nil, "", err
	}
	if len(out) < limit || limit == 0 { // the page reached the newest change
		last, lastRun = newest+1, ""
	}
	return out, epoch + cursorMark + strconv.FormatInt(last, 10) + cursorMark + lastRun, nil
}

const cursorMark = ":"

// parseCursor parses a cursor, which is the last row read. An invalid cursor has no epoch, so the feed is read from the
// beginning.
func parseCursor(cursor string) (epoch string, change int64, runID string) {
	parts := strings.SplitN(cursor, cursorMark, 3)
	if len(parts) != 3 {
		return "", 0, ""
	}
	n, err := strconv.ParseInt(parts[1], 10, 64)
	if err != nil {
		return "", 0, ""
	}
	return parts[0], n, parts[2]
}

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
