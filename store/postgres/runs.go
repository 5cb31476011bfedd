package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

const runColumns = `r.run_id, r.tenant_id, r.project_id, r.environment_id, r.plan_id, r.plan_version,
  coalesce(r.request_key, ''), r.request_id, r.plan_ref, r.triggered_by, r.trigger_source, r.parent_run_id,
  r.params, r.policy, r.created_at`

func scanRun(row pgx.Row) (store.Run, error) {
	var r store.Run
	var ref, policy json.RawMessage
	if err := row.Scan(&r.RunID, &r.TenantID, &r.ProjectID, &r.EnvironmentID, &r.PlanID, &r.PlanVersion,
		&r.RequestKey, &r.RequestID, verbatim{&ref}, &r.TriggeredBy, &r.TriggerSource, &r.ParentRunID,
		verbatim{&r.Params}, verbatim{&policy}, utc{&r.CreatedAt}); err != nil {
		return store.Run{}, err
	}
	if err := unmarshal(ref, &r.PlanRef); err != nil {
		return store.Run{}, err
	}
	return r, unmarshal(policy, &r.Policy)
}

// Get implements store.Runs.
func (s *Store) Get(ctx context.Context, runID string) (store.Run, error) {
	return s.oneRun(ctx, `SELECT `+runColumns+` FROM run r WHERE run_id = $1`, runID)
}

// ByRequest implements store.Runs.
func (s *Store) ByRequest(ctx context.Context, key run.Key) (store.Run, error) {
	return s.oneRun(ctx, byRequestSQL, string(key))
}

const byRequestSQL = `SELECT ` + runColumns + ` FROM run r WHERE request_key = $1`

func (s *Store) oneRun(ctx context.Context, sql, arg string) (r store.Run, err error) {
	err = s.do(ctx, "run", func(ctx context.Context, c *pgx.Conn) error {
		r, err = scanRun(c.QueryRow(ctx, sql, arg))
		return err
	})
	return r, err
}

// identity is what never changes about a run, from memory when it was read before.
func (s *Store) identity(ctx context.Context, runID string) (run.Identity, error) {
	if id, ok := s.identities.Get(runID); ok {
		return id, nil
	}
	id := run.Identity{RunID: runID}
	err := s.do(ctx, "run", func(ctx context.Context, c *pgx.Conn) error {
		return c.QueryRow(ctx, identitySQL, runID).Scan(identityTargets(&id)...)
	})
	if err != nil {
		return run.Identity{}, err
	}
	s.identities.Add(runID, id)
	return id, nil
}

// PutPlan implements store.Runs; the body that is there stays.
func (s *Store) PutPlan(ctx context.Context, sha256 string, doc []byte) error {
	return s.do(ctx, "put plan", func(ctx context.Context, c *pgx.Conn) error {
		_, err := c.Exec(ctx, putPlanSQL, sha256, doc)
		return err
	})
}

const putPlanSQL = `INSERT INTO plan_body (sha256, body) VALUES ($1, $2) ON CONFLICT (sha256) DO NOTHING`

// Plan implements store.Runs.
func (s *Store) Plan(ctx context.Context, sha256 string) (doc []byte, err error) {
	err = s.do(ctx, "plan", func(ctx context.Context, c *pgx.Conn) error {
		return c.QueryRow(ctx, `SELECT body FROM plan_body WHERE sha256 = $1`, sha256).Scan(&doc)
	})
	return doc, err
}

// A row of a list: facts of the run, its checkpoint if there is one, its head.
const listColumns = `r.run_id, r.tenant_id, r.project_id, r.environment_id, r.plan_id, r.plan_version,
  r.created_at, r.triggered_by, st.header, h.last_seq, h.ops_rev`

// filter builds the conditions of a RunFilter.
type filter struct {
	where []string
	args  []any
}

func (f *filter) add(condition string, args ...any) {
	for _, a := range args {
		f.args = append(f.args, a)
		condition = strings.Replace(condition, "?", fmt.Sprintf("$%d", len(f.args)), 1)
	}
	f.where = append(f.where, condition)
}

// scope restricts a table to the tenant and the projects of rf.
func (f *filter) scope(table string, rf store.RunFilter) {
	f.add(table+".tenant_id = ?", rf.TenantID)
	if rf.ProjectIDs != nil {
		f.add(table+".project_id = ANY(?)", rf.ProjectIDs)
	}
}

// narrow adds the other conditions. CreatedFrom is inclusive, CreatedTo exclusive.
func (f *filter) narrow(rf store.RunFilter) {
	if rf.EnvironmentID != "" {
		f.add("r.environment_id = ?", rf.EnvironmentID)
	}
	if len(rf.Statuses) > 0 {
		f.add("coalesce(st.status, 'PENDING') = ANY(?)", rf.Statuses)
	}
	if rf.PlanID != "" {
		f.add("r.plan_id = ?", rf.PlanID)
	}
	if rf.Text != "" {
		f.add("(starts_with(r.run_id, ?) OR strpos(r.plan_id, ?) > 0)", rf.Text, rf.Text)
	}
	if !rf.CreatedFrom.IsZero() {
		f.add("r.created_at >= ?", rf.CreatedFrom)
	}
	if !rf.CreatedTo.IsZero() {
		f.add("r.created_at < ?", rf.CreatedTo)
	}
}

// List implements store.Runs.
func (s *Store) List(ctx context.Context, rf store.RunFilter) (out []store.RunRow, err error) {
	var f filter
	f.scope("r", rf)
	f.narrow(rf)
	after, before := "<", ">"
	if rf.Ascending {
		after, before = before, after
	}
	if p := rf.After; p != nil {
		f.add("(r.created_at, r.run_id) "+after+" (?, ?)", p.CreatedAt, p.RunID)
	}
	if p := rf.Before; p != nil {
		f.add("(r.created_at, r.run_id) "+before+" (?, ?)", p.CreatedAt, p.RunID)
	}
	// Only Before: the page that ends there, found by walking back from it.
	backward := rf.Before != nil && rf.After == nil
	direction := "DESC"
	if rf.Ascending != backward {
		direction = "ASC"
	}
	f.args = append(f.args, bounded(rf.Limit, maxList))
	sql := fmt.Sprintf(`SELECT %s FROM run r JOIN run_head h USING (run_id) LEFT JOIN run_state st USING (run_id)
		WHERE %s ORDER BY r.created_at %s, r.run_id %s LIMIT $%d`,
		listColumns, strings.Join(f.where, " AND "), direction, direction, len(f.args))
	err = s.do(ctx, "list", func(ctx context.Context, c *pgx.Conn) error {
		rows, err := c.Query(ctx, sql, f.args...)
		if err != nil {
			return err
		}
		out, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (store.RunRow, error) { return scanListed(row) })
		return err
	})
	if backward {
		slices.Reverse(out)
	}
	return out, err
}

// maxList is the longest List: a page of 200 and one to see that there is more.
const maxList = 201

// scanListed reads listColumns and what more stands after them.
func scanListed(row pgx.Row, more ...any) (store.RunRow, error) {
	var r store.RunRow
	var header json.RawMessage
	h := &r.Header
	targets := append([]any{&h.RunID}, identityTargets(&h.Identity)...)
	targets = append(targets, utc{&h.CreatedAt}, &h.TriggeredBy, verbatim{&header}, &r.Head, &r.OpsRev)
	if err := row.Scan(append(targets, more...)...); err != nil {
		return store.RunRow{}, err
	}
	if header == nil {
		h.Rev, h.Status = run.ReducerRev, run.Pending
		return r, nil
	}
	created := h.CreatedAt // what lists are ordered by
	r.Header = run.Header{}
	err := unmarshal(header, &r.Header)
	r.Header.CreatedAt = created
	return r, err
}
