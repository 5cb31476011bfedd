package postgres

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/dvt-engine/dvt/store"
)

// Changed implements store.Runs. A cursor is "<epoch>/<xid>": what transactions
// below xid wrote has been seen, everything from xid on is read again (T186).
// Only tenant and projects of the filter restrict, so that a row that leaves a
// list is seen to leave. At most Limit rows, and no fewer than two, come at
// once; the next call goes on. A cursor of another epoch, or not of this store,
// starts from the beginning.
func (s *Store) Changed(ctx context.Context, rf store.RunFilter, cursor string) (out []store.RunRow, next string, err error) {
	limit := max(2, pageSize(rf.Limit)) // one transaction touches one row, so two make progress
	var epoch string
	var xmin, last uint64
	err = s.do(ctx, "changed", func(ctx context.Context, c *pgx.Conn) error {
		var b pgx.Batch
		// The snapshot of the place is older than that of the rows: that costs
		// repeats, not rows.
		b.Queue(`SELECT ` + epochSQL + `, pg_snapshot_xmin(pg_current_snapshot())::text::bigint`).QueryRow(
			func(row pgx.Row) error { return row.Scan(&epoch, &xmin) })
		if cursor != "" {
			sql, args := changedSQL(rf, cursor, limit)
			b.Queue(sql, args...).Query(func(rows pgx.Rows) (err error) {
				out, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (store.RunRow, error) { return scanListed(row, &last) })
				return err
			})
		}
		return c.SendBatch(ctx, &b).Close()
	})
	if err != nil {
		return nil, "", err
	}
	if len(out) == limit {
		xmin = min(xmin, last)
	}
	return out, epoch + cursorMark + strconv.FormatUint(xmin, 10), nil
}

const cursorMark = "/"

func changedSQL(rf store.RunFilter, cursor string, limit int) (string, []any) {
	epoch, xid, _ := strings.Cut(cursor, cursorMark)
	if _, err := strconv.ParseUint(xid, 10, 63); err != nil {
		epoch, xid = "", "0"
	}
	var f filter
	f.scope("st", rf)
	f.add("st.xid >= (SELECT CASE WHEN "+epochSQL+" = ? THEN ? ELSE '0' END)::xid8", epoch, xid)
	f.args = append(f.args, limit)
	return fmt.Sprintf(`SELECT %s, st.xid::text::bigint FROM run_state st JOIN run r USING (run_id) JOIN run_head h USING (run_id)
		WHERE %s ORDER BY st.xid LIMIT $%d`, listColumns, strings.Join(f.where, " AND "), len(f.args)), f.args
}
