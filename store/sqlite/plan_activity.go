package sqlite

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// planPageSQL selects a page of plans, and for each the number of its open runs up to ?2.
const planPageSQL = `SELECT p.project_id, p.environment_id, p.plan_id, p.last_run_at, (SELECT count(*) FROM (
		SELECT 1 FROM run_state t INDEXED BY run_state_scope_status WHERE t.tenant_id = p.tenant_id AND t.project_id = p.project_id
			AND t.environment_id = p.environment_id AND t.plan_id = p.plan_id
			AND t.status IN ('PENDING', 'APPROVED', 'RUNNING', 'PAUSED') LIMIT ?2))
	FROM plan_activity p%s WHERE p.tenant_id = ?1%s
	ORDER BY p.last_run_at DESC, p.project_id DESC, p.environment_id DESC, p.plan_id DESC LIMIT ?`

// runsOfPlansSQL selects the newest ?2 runs of each plan in ?1, by the number of the plan in ?1. An index has the runs
// of one plan and status in order, so each status is a stream and the newest runs are merged from them.
var runsOfPlansSQL = func() string { //nolint:gochecknoglobals // a constant
	var streams []string
	for _, status := range run.Statuses() {
		streams = append(streams, fmt.Sprintf(`SELECT created_at, run_id FROM run_state INDEXED BY run_state_scope_status
		WHERE tenant_id = k.value ->> 0 AND project_id = k.value ->> 1 AND environment_id = k.value ->> 2
			AND plan_id = k.value ->> 3 AND status = '%s'`, status))
	}
	return `SELECT k.key, ` + listColumns + ` FROM json_each(?1) k CROSS JOIN run_state st ON st.run_id IN (SELECT run_id FROM (` +
		strings.Join(streams, ` UNION ALL `) + ` ORDER BY created_at DESC, run_id DESC LIMIT ?2))
	CROSS JOIN run_head h ON h.run_id = st.run_id`
}()

// ListPlans implements store.PlanHistories.
func (s *Store) ListPlans(ctx context.Context, f store.PlanFilter) (out []store.PlanRow, err error) {
	query, args := planPage(f)
	err = s.read(ctx, func(c *conn) error {
		out, err = collect(ctx, c, "list plans", func(at scanner) (r store.PlanRow, err error) {
			var last int64
			err = at.Scan(&r.ProjectID, &r.EnvironmentID, &r.PlanID, &last, &r.Open)
			r.TenantID, r.LastRunAt = f.TenantID, instant(last)
			return r, err
		}, query, args...)
		if err != nil {
			return err
		}
		return runsOfPlans(ctx, c, out, clamp(f.Runs, store.MaxPlanRuns))
	})
	return out, err
}

func planPage(f store.PlanFilter) (query string, args []any) {
	w := where{args: []any{f.TenantID, store.MaxOpenRuns}}
	if f.ProjectIDs != nil {
		w.add(`p.project_id IN (SELECT value FROM json_each(?))`, array(f.ProjectIDs))
	}
	if f.EnvironmentID != "" {
		w.add(`p.environment_id = ?`, f.EnvironmentID)
	}
	if f.PlanID != "" {
		w.add(`p.plan_id = ?`, f.PlanID)
	}
	if f.Text != "" {
		w.add(`instr(p.plan_id, ?) > 0`, f.Text)
	}
	if term, args := inScopes(`p.`, f.Scopes); term != "" {
		w.add(term, args...)
	}
	if a := f.After; a != nil {
		w.add(`(p.last_run_at, p.project_id, p.environment_id, p.plan_id) < (?, ?, ?, ?)`, micros(a.LastRunAt), a.ProjectID,
			a.EnvironmentID, a.PlanID)
	}
	more := ""
	for _, term := range w.terms {
		more += ` AND ` + term
	}
	index := ` INDEXED BY plan_activity_listed`
	if f.PlanID != "" {
		index = ` INDEXED BY sqlite_autoindex_plan_activity_1` // the primary key finds one plan
	}
	return fmt.Sprintf(planPageSQL, index, more), append(w.args, clamp(f.Limit, store.MaxPlans))
}

// runsOfPlans sets the newest n runs of each plan.
func runsOfPlans(ctx context.Context, c *conn, plans []store.PlanRow, n int) error {
	if len(plans) == 0 {
		return nil
	}
	keys := make([][4]string, len(plans))
	for i, p := range plans {
		keys[i] = [4]string{p.TenantID, p.ProjectID, p.EnvironmentID, p.PlanID}
	}
	doc, err := json.Marshal(keys)
	if err != nil {
		return err
	}
	err = c.query(ctx, "list runs of plans", runsOfPlansSQL, []any{string(doc), n}, func(at row) error {
		var r store.RunRow
		var i, created int64
		var header []byte
		if err := at.Scan(&i, &header, &created, &r.Head, &r.OpsRev, &r.ParentRunID); err != nil {
			return err
		}
		if err := json.Unmarshal(header, &r.Header); err != nil {
			return err
		}
		r.Header.CreatedAt = instant(created)
		plans[i].Runs = append(plans[i].Runs, r)
		return nil
	})
	for _, p := range plans {
		slices.SortFunc(p.Runs, store.NewestFirst)
	}
	return err
}

// PlanRuns implements store.PlanHistories.
func (s *Store) PlanRuns(ctx context.Context, k store.PlanKey, limit int) ([]store.PlanRun, error) {
	q := newListQuery(k.Filter(limit))
	const order = ` ORDER BY created_at DESC, run_id DESC`
	query := `SELECT r.run_id, r.created_at, r.plan_version, r.plan_ref, r.triggered_by FROM (` + q.page(store.TextMatches{}) +
		order + q.bind(` LIMIT ?`, clamp(limit, store.MaxPage)) + `) p CROSS JOIN run r ON r.run_id = p.run_id
		ORDER BY p.created_at DESC, p.run_id DESC`
	return readAll(ctx, s, "runs of a plan", func(at scanner) (r store.PlanRun, err error) {
		var created int64
		var ref []byte
		if err := at.Scan(&r.RunID, &created, &r.PlanVersion, &ref, &r.TriggeredBy); err != nil {
			return r, err
		}
		r.CreatedAt = instant(created)
		r.PlanSHA256, err = store.SHA256OfRef(ref)
		return r, err
	}, query, q.args...)
}

// stepEventsSQL finds the events of a step by the index of attempts.
const stepEventsSQL = `SELECT r.run_id, r.tenant_id, r.project_id, r.environment_id, r.plan_id, r.plan_version, ` + eventColumns + `
	FROM run r CROSS JOIN event e INDEXED BY event_attempt ON e.run_id = r.run_id AND e.step_id = ?3 AND e.step_id <> ''
	WHERE r.run_id IN (SELECT value FROM json_each(?1)) AND r.tenant_id = ?2 LIMIT ?4`

// StepEvents implements store.PlanHistories.
func (s *Store) StepEvents(ctx context.Context, tenantID, stepID string, runIDs []string) ([]run.Event, error) {
	if len(runIDs) > store.MaxStepRuns {
		return nil, fmt.Errorf("sqlite: step events of %d runs, at most %d", len(runIDs), store.MaxStepRuns)
	}
	var out []run.Event
	err := s.read(ctx, func(c *conn) error {
		return c.query(ctx, "step events", stepEventsSQL, []any{array(runIDs), tenantID, stepID, store.MaxStepEvents + 1},
			func(r row) error {
				id, err := scanIdentity(r[:6])
				if err != nil {
					return err
				}
				e, err := scanEvent(r[6:])
				e.Identity = id
				out = append(out, e)
				return err
			})
	})
	if err != nil {
		return nil, err
	}
	return store.SortStepEvents(out)
}
