package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// listColumns are the columns of a row of a list: the run, its checkpoint if it has one, and its head.
const listColumns = `r.run_id, r.tenant_id, r.project_id, r.environment_id, r.plan_id, r.plan_version,
  r.created_at, r.triggered_by, st.header, h.last_seq, h.ops_rev, r.parent_run_id`

// listSQL reads the rows of a page. listStepsSQL also reads their steps, one more than the maximum, so that List can
// detect an excess.
const (
	listSQL = `WITH page AS MATERIALIZED (%[1]s)
SELECT ` + listColumns + `, p.%[4]s FROM page p JOIN run r USING (run_id) JOIN run_head h USING (run_id) LEFT JOIN run_state st USING (run_id)
ORDER BY p.%[4]s %[2]s, p.run_id %[2]s`

	listStepsSQL = `WITH page AS MATERIALIZED (%[1]s), step AS MATERIALIZED (
  SELECT s.run_id, s.ord, s.body FROM page JOIN step_state s USING (run_id) LIMIT %[3]d)
SELECT ` + listColumns + `, steps, p.%[4]s FROM page p JOIN run r USING (run_id) JOIN run_head h USING (run_id) LEFT JOIN run_state st USING (run_id)
  LEFT JOIN (SELECT run_id, json_agg(body ORDER BY ord) AS steps FROM step GROUP BY run_id) s USING (run_id)
ORDER BY p.%[4]s %[2]s, p.run_id %[2]s`
)

// List implements store.Runs. It uses one statement, and one more before it if the filter has a text.
func (s *Store) List(ctx context.Context, rf store.RunFilter) (out []store.RunRow, err error) {
	if len(rf.SortObstacles()) > 0 {
		return nil, store.ErrSort
	}
	err = s.do(ctx, "list", func(ctx context.Context, c *pgx.Conn) (err error) {
		var found store.TextMatches
		if rf.TextRestricts() {
			if found, err = match(ctx, c, rf); err != nil {
				return err
			}
		}
		out, err = list(ctx, c, rf, found)
		return err
	})
	if err != nil {
		return nil, err
	}
	if isBackward(rf) {
		slices.Reverse(out)
	}
	return out, nil
}

func list(ctx context.Context, c *pgx.Conn, rf store.RunFilter, found store.TextMatches) ([]store.RunRow, error) {
	q := newListQuery(rf)
	page := q.page(found)
	if page == "" {
		return nil, nil
	}
	of := listSQL
	if rf.Steps {
		of = listStepsSQL
	}
	sql := fmt.Sprintf(of, page, q.direction, store.MaxListSteps+1, q.key)
	rows, err := c.Query(ctx, sql, q.args...)
	if err != nil {
		return nil, err
	}
	steps := 0
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (r store.RunRow, err error) {
		var doc json.RawMessage
		var at time.Time
		var took int64
		var more []any
		if rf.Steps {
			more = append(more, verbatim{&doc})
		}
		if rf.Sort == store.SortDuration {
			more = append(more, &took)
		} else {
			more = append(more, utc{&at})
		}
		if r, err = scanListed(row, more...); err != nil {
			return r, err
		}
		if rf.Sort != "" {
			r.Pos = store.RunPos{CreatedAt: at, Took: time.Duration(took) * time.Microsecond, RunID: r.Header.RunID}
		}
		if doc == nil {
			return r, nil
		}
		if err := unmarshal(doc, &r.Steps); err != nil {
			return r, err
		}
		if steps += len(r.Steps); steps > store.MaxListSteps {
			return r, store.ErrTooMany
		}
		return r, nil
	})
}

// scanListed reads listColumns and scans the columns behind them into more.
func scanListed(row pgx.Row, more ...any) (store.RunRow, error) {
	var r store.RunRow
	var header json.RawMessage
	h := &r.Header
	targets := append([]any{&h.RunID}, identityTargets(&h.Identity)...)
	targets = append(targets, utc{&h.CreatedAt}, &h.TriggeredBy, verbatim{&header}, &r.Head, &r.OpsRev, &r.ParentRunID)
	if err := row.Scan(append(targets, more...)...); err != nil {
		return store.RunRow{}, err
	}
	if header == nil {
		h.Rev, h.Status = run.ReducerRev, run.Pending
		return r, nil
	}
	created := h.CreatedAt // lists are ordered by the column, not by the header
	r.Header = run.Header{}
	err := unmarshal(header, &r.Header)
	r.Header.CreatedAt = created
	return r, err
}

// Count implements store.Runs. It uses two statements: one counts all runs, the other one the failed runs.
func (s *Store) Count(ctx context.Context, rf store.RunFilter, parts int) ([]store.RunCount, error) {
	rf.After, rf.Before, rf.Steps, rf.Sort = nil, nil, false, ""
	out := make([]store.RunCount, clamp(parts, store.MaxParts))
	err := s.do(ctx, "count", func(ctx context.Context, c *pgx.Conn) (err error) {
		var found store.TextMatches
		if rf.TextRestricts() {
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

func count(ctx context.Context, c *pgx.Conn, rf store.RunFilter, found store.TextMatches, parts int,
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

// awaitingSQL reads the page from the index first, so that the joins do not change the plan.
const awaitingSQL = `WITH page AS MATERIALIZED (
  SELECT l.run_id, l.awaiting_until FROM run_status l WHERE %s ORDER BY l.awaiting_until, l.run_id LIMIT %d)
SELECT ` + listColumns + ` FROM page p JOIN run r USING (run_id) JOIN run_head h USING (run_id) LEFT JOIN run_state st USING (run_id)
ORDER BY p.awaiting_until, p.run_id`

// ListAwaitingRuns implements store.Attention.
func (s *Store) ListAwaitingRuns(ctx context.Context, wf store.WaitFilter) ([]store.RunRow, error) {
	var f filter
	f.scope("l", store.RunFilter{TenantID: wf.TenantID, ProjectIDs: wf.ProjectIDs})
	f.scopes("l", wf.Scopes)
	if wf.EnvironmentID != "" {
		f.add("l.environment_id = ?", wf.EnvironmentID)
	}
	f.add(fmt.Sprintf(isAwaiting, "l."))
	return collect(ctx, s, "awaiting runs", func(row pgx.CollectableRow) (store.RunRow, error) { return scanListed(row) },
		fmt.Sprintf(awaitingSQL, &f, pageSize(wf.Limit)), f.args...)
}

// CountUpTo implements store.Attention. It uses one statement, and one more before it if the filter has a text.
func (s *Store) CountUpTo(ctx context.Context, rf store.RunFilter, limit int) (n int, err error) {
	rf.After, rf.Before, rf.Steps, rf.Sort = nil, nil, false, ""
	err = s.do(ctx, "count up to", func(ctx context.Context, c *pgx.Conn) (err error) {
		var found store.TextMatches
		if rf.TextRestricts() {
			if found, err = match(ctx, c, rf); err != nil {
				return err
			}
		}
		q := newListQuery(rf)
		q.limit = clamp(limit, store.MaxCountUpTo)
		page := q.page(found)
		if page == "" {
			return nil
		}
		return c.QueryRow(ctx, `SELECT count(*) FROM (`+page+`) p`, q.args...).Scan(&n)
	})
	return n, err
}
