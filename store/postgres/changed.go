package postgres

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/dvt-engine/dvt/store"
)

// changedSQL reads a page of changes and the bounds of the snapshot that shows it. Each row has the transaction that
// changed it last. Transactions below xmin have ended, so their changes are visible now or were rolled back. A
// transaction from xmin on may still commit after younger ones, so the cursor must not pass it (contract T186).
//
// $1 is the epoch of the cursor, $2 the xmin at the begin of its pass, and ($3, $4) the last row read. If the epoch
// differs, or $2 is beyond what this database has seen, the cursor is unknown and the feed is read from the beginning.
const changedSQL = `WITH here AS (
  SELECT epoch, xmin, xmax, known, CASE WHEN known THEN $3::xid8 ELSE '0'::xid8 END AS xid, CASE WHEN known THEN $4 ELSE '' END AS run_id
  FROM (SELECT *, epoch = $1 AND $2::xid8 <= xmax AS known
    FROM (SELECT ` + epochSQL + ` AS epoch, pg_snapshot_xmin(s) AS xmin, pg_snapshot_xmax(s) AS xmax FROM pg_current_snapshot() s) now) place
)
SELECT c.*, here.epoch, here.xmin::text::bigint, here.xmax::text::bigint, here.known
FROM here LEFT JOIN LATERAL (
  SELECT ` + listColumns + `,
    ARRAY(SELECT g.tag FROM run_tag g WHERE g.run_id = st.run_id ORDER BY g.tag) AS tags, st.xid::text::bigint AS changed_by
  FROM (SELECT * FROM run_state st WHERE (st.xid, st.run_id) > (here.xid, here.run_id) AND %s
    ORDER BY st.xid, st.run_id LIMIT $5) st JOIN run r USING (run_id) JOIN run_head h USING (run_id)
) c ON true
ORDER BY c.changed_by, c.run_id`

// ListChanged implements store.Feed.
func (s *Store) ListChanged(ctx context.Context, rf store.RunFilter, cursor string) (out []store.RunRow, next string,
	err error) {
	at := parseCursor(cursor)
	limit := pageSize(rf.Limit)
	if cursor == "" {
		limit = 0
	}
	f := filter{args: []any{at.epoch, xid(at.from), xid(at.xid), at.runID, limit}}
	if rf.TenantID == "" && rf.EveryTenant {
		f.add("true")
	} else {
		f.scope("st", rf)
	}
	var here feedPosition
	err = s.do(ctx, "changed", func(ctx context.Context, c *pgx.Conn) (err error) {
		out, here, err = readChanged(ctx, c, fmt.Sprintf(changedSQL, &f), f.args)
		return err
	})
	if err != nil {
		return nil, "", err
	}
	return out, here.next(at, len(out) > 0 && len(out) == limit), nil
}

// feedPosition is the part of a page of changes that is not in its rows.
type feedPosition struct {
	epoch      string
	xmin, xmax uint64
	known      bool // the cursor belongs to this history
	// The last row, and the transaction that changed it.
	xid   uint64
	runID string
}

func readChanged(ctx context.Context, c *pgx.Conn, sql string, args []any) (out []store.RunRow, here feedPosition,
	err error) {
	rows, err := c.Query(ctx, sql, args...)
	if err != nil {
		return nil, here, err
	}
	defer rows.Close()
	var tags []string
	position := []any{&here.xid, &here.epoch, &here.xmin, &here.xmax, &here.known}
	for rows.Next() {
		if rows.RawValues()[0] == nil { // only the position: nothing changed
			skip := make([]any, len(rows.RawValues())-len(position)+1)
			return nil, here, rows.Scan(append(skip, position[1:]...)...)
		}
		row, err := scanListed(rows, append([]any{&tags}, position...)...)
		if err != nil {
			return nil, here, err
		}
		row.Tags = tags
		here.runID = row.Header.RunID
		out = append(out, row)
	}
	return out, here, rows.Err()
}

// next returns the cursor after a page. Pages that follow a full one are one pass over the rows in the order of (xid,
// run). The pass ends at a page that is not full, or at a row of a transaction that had not begun when the pass began.
// The next pass starts at the xmin with which this one began, so that changes that were committed behind it are soon
// read.
//
// A full page always moves the cursor forward. Otherwise the feed would stall while a long transaction holds xmin back,
// or on rows of a restored dump whose xids this server has not reached.
func (p feedPosition) next(at cursor, full bool) string {
	pass := cursor{epoch: p.epoch, from: p.xmin, upto: p.xmax}
	if p.known && at.upto > 0 {
		pass.from, pass.upto = at.from, at.upto
	}
	if full && (p.xid < pass.upto || p.xid >= p.xmax) {
		pass.xid, pass.runID = p.xid, p.runID
		return pass.String()
	}
	return cursor{epoch: p.epoch, from: pass.from}.String()
}

// cursor is a position in the feed: "<epoch>/<from>" between passes, and "<epoch>/<from>/<upto>/<xid>/<run>" within
// one.
type cursor struct {
	epoch      string
	from, upto uint64 // xmin and xmax of the first page of the pass
	xid        uint64 // the last row read
	runID      string
}

const cursorMark = "/"

func (c cursor) String() string {
	parts := []string{c.epoch, xid(c.from)}
	if c.upto > 0 {
		parts = append(parts, xid(c.upto), xid(c.xid), c.runID)
	}
	return strings.Join(parts, cursorMark)
}

// parseCursor parses a cursor. An invalid cursor has no epoch, so the feed is read from the beginning.
func parseCursor(s string) cursor {
	parts := strings.SplitN(s, cursorMark, 5)
	if len(parts) != 2 && len(parts) != 5 {
		return cursor{}
	}
	numbers := make([]uint64, 3)
	for i, p := range parts[1:min(len(parts), 4)] {
		n, err := strconv.ParseUint(p, 10, 63)
		if err != nil {
			return cursor{}
		}
		numbers[i] = n
	}
	c := cursor{epoch: parts[0], from: numbers[0], upto: numbers[1], xid: numbers[2]}
	if len(parts) == 2 {
		c.xid = c.from
		return c
	}
	c.runID = parts[4]
	return c
}

// xid formats a transaction id as a parameter of type xid8.
func xid(n uint64) string { return strconv.FormatUint(n, 10) }

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
