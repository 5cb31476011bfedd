package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// planPageSQL selects a page of plans, and for each the number of its open runs up to a limit.
const planPageSQL = `SELECT p.project_id, p.environment_id, p.plan_id, p.last_run_at, (SELECT count(*) FROM (
  SELECT FROM run_status l WHERE l.tenant_id = p.tenant_id AND l.project_id = p.project_id
    AND l.environment_id = p.environment_id AND l.plan_id = p.plan_id
    AND l.status IN ('PENDING', 'APPROVED', 'RUNNING', 'PAUSED') LIMIT %d) open)
FROM plan_activity p WHERE %s
ORDER BY p.last_run_at DESC, p.project_id DESC, p.environment_id DESC, p.plan_id DESC LIMIT %d`

// runsOfPlansSQL selects the newest runs of each plan, by the number of the plan from 1. An index has the runs of one
// plan and status in order, so each status is a stream and the newest runs are merged from them. The number of runs is
// not a parameter, because the query plan depends on it.
const runsOfPlansSQL = `SELECT k.n, ` + listColumns + `
FROM unnest($1::text[], $2::text[], $3::text[], $4::text[]) WITH ORDINALITY k (tenant, project, environment, plan, n), LATERAL (
  SELECT s.* FROM unnest($5::text[]) of_status (v), LATERAL (
    SELECT l.created_at, l.run_id FROM run_status l WHERE l.tenant_id = k.tenant AND l.project_id = k.project
      AND l.environment_id = k.environment AND l.plan_id = k.plan AND l.status = of_status.v
    ORDER BY l.created_at DESC, l.run_id DESC LIMIT %[1]d) s
  ORDER BY s.created_at DESC, s.run_id DESC LIMIT %[1]d) p
JOIN run r USING (run_id) JOIN run_head h USING (run_id) LEFT JOIN run_state st USING (run_id)`

// ListPlans implements store.PlanHistories.
func (s *Store) ListPlans(ctx context.Context, f store.PlanFilter) (out []store.PlanRow, err error) {
	query, args := planPage(f)
	err = s.do(ctx, "list plans", func(ctx context.Context, c *pgx.Conn) error {
		rows, err := c.Query(ctx, query, args...)
		if err != nil {
			return err
		}
		out, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (r store.PlanRow, err error) {
			r.TenantID = f.TenantID
			return r, row.Scan(&r.ProjectID, &r.EnvironmentID, &r.PlanID, utc{&r.LastRunAt}, &r.Open)
		})
		if err != nil || len(out) == 0 {
			return err
		}
		return runsOfPlans(ctx, c, out, clamp(f.Runs, store.MaxPlanRuns))
	})
	return out, err
}

func planPage(pf store.PlanFilter) (query string, args []any) {
	var f filter
	f.add("p.tenant_id = ?", pf.TenantID)
	if pf.ProjectIDs != nil {
		f.add("p.project_id = ANY(?)", pf.ProjectIDs)
	}
	if pf.EnvironmentID != "" {
		f.add("p.environment_id = ?", pf.EnvironmentID)
	}
	if pf.PlanID != "" {
		f.add("p.plan_id = ?", pf.PlanID)
	}
	if pf.Text != "" {
		f.add("strpos(p.plan_id, ?) > 0", pf.Text)
	}
	f.scopes("p", pf.Scopes)
	if a := pf.After; a != nil {
		f.add("(p.last_run_at, p.project_id, p.environment_id, p.plan_id) < (?, ?, ?, ?)", a.LastRunAt, a.ProjectID,
			a.EnvironmentID, a.PlanID)
	}
	return fmt.Sprintf(planPageSQL, store.MaxOpenRuns, &f, clamp(pf.Limit, store.MaxPlans)), f.args
}

// runsOfPlans sets the newest n runs of each plan.
func runsOfPlans(ctx context.Context, c *pgx.Conn, plans []store.PlanRow, n int) error {
	var keys [4][]string
	for _, p := range plans {
		for i, v := range [...]string{p.TenantID, p.ProjectID, p.EnvironmentID, p.PlanID} {
			keys[i] = append(keys[i], v)
		}
	}
	rows, err := c.Query(ctx, fmt.Sprintf(runsOfPlansSQL, n), keys[0], keys[1], keys[2], keys[3], run.Statuses())
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var i int
		r, err := scanListed(numberedRow{rows, &i})
		if err != nil {
			return err
		}
		plans[i-1].Runs = append(plans[i-1].Runs, r)
	}
	for _, p := range plans {
		slices.SortFunc(p.Runs, store.NewestFirst)
	}
	return rows.Err()
}

// numberedRow is a row with a number in front of the columns that Scan is called for.
type numberedRow struct {
	pgx.Row
	n *int
}

// Scan implements pgx.Row.
func (r numberedRow) Scan(to ...any) error { return r.Row.Scan(append([]any{r.n}, to...)...) }

// PlanRuns implements store.PlanHistories.
func (s *Store) PlanRuns(ctx context.Context, k store.PlanKey, limit int) ([]store.PlanRun, error) {
	q := newListQuery(k.Filter(limit))
	q.limit = clamp(limit, store.MaxPage)
	return collect(ctx, s, "runs of a plan", func(row pgx.CollectableRow) (r store.PlanRun, err error) {
		var ref json.RawMessage
		if err := row.Scan(&r.RunID, utc{&r.CreatedAt}, &r.PlanVersion, verbatim{&ref}, &r.TriggeredBy); err != nil {
			return r, err
		}
		r.PlanSHA256, err = store.SHA256OfRef(ref)
		return r, err
	}, planRuns(q), q.args...)
}

func planRuns(q *listQuery) string {
	return `WITH page AS MATERIALIZED (` + q.page(store.TextMatches{}) + `)
SELECT r.run_id, r.created_at, r.plan_version, r.plan_ref, r.triggered_by FROM page p JOIN run r USING (run_id)
ORDER BY p.created_at DESC, p.run_id DESC`
}

// stepEventsSQL finds the events of a step by the index of attempts.
const stepEventsSQL = `SELECT r.run_id, r.tenant_id, r.project_id, r.environment_id, r.plan_id, r.plan_version, ` + eventColumns + `
FROM run r, LATERAL (SELECT * FROM event e WHERE e.run_id = r.run_id AND e.step_id = $3 AND e.step_id <> '' LIMIT $4) e
WHERE r.run_id = ANY($1) AND r.tenant_id = $2 LIMIT $4`

// StepEvents implements store.PlanHistories.
func (s *Store) StepEvents(ctx context.Context, tenantID, stepID string, runIDs []string) ([]run.Event, error) {
	if len(runIDs) > store.MaxStepRuns {
		return nil, fmt.Errorf("postgres: step events of %d runs, at most %d", len(runIDs), store.MaxStepRuns)
	}
	evs, err := collect(ctx, s, "step events", func(row pgx.CollectableRow) (e run.Event, err error) {
		to := append([]any{&e.RunID}, identityTargets(&e.Identity)...)
		return e, row.Scan(append(to, eventTargets(&e)...)...)
	}, stepEventsSQL, runIDs, tenantID, stepID, store.MaxStepEvents+1)
	if err != nil {
		return nil, err
	}
	return store.SortStepEvents(evs)
}
