package sqlite

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// Pages and counts walk a covering index that begins with the restricted columns. Conditions on other columns are
// checked in the index, so no row of the table is read in vain.
// contract: T101
func TestPlans_ListsAndCountsWalkIndexes(t *testing.T) {
	t.Parallel()
	s := open(t, filepath.Join(t.TempDir(), "dvt.db"), Options{})
	begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	ended := []run.Status{run.Completed, run.Failed}
	for want, f := range map[string]store.RunFilter{
		"COVERING INDEX run_state_triggered_by (tenant_id=? AND triggered_by=?)": {TriggeredBy: "ana",
			ProjectIDs: []string{"p1"}, EnvironmentID: "prod"},
		"COVERING INDEX run_state_triggered_by (tenant_id=? AND triggered_by=? AND created_at>? AND created_at<?)": {
			TriggeredBy: "ana", CreatedFrom: begin, CreatedTo: begin.Add(time.Hour),
		},
		"COVERING INDEX run_state_triggered_by_status (tenant_id=? AND triggered_by=? AND status=?)": {TriggeredBy: "ana",
			PlanID: "nightly", Statuses: ended},
		"COVERING INDEX run_state_scope_status (tenant_id=? AND project_id=? AND environment_id=? AND plan_id=? AND " +
			"status=? AND (created_at,run_id)<(?,?))": {
			PlanID: "nightly", ProjectIDs: []string{"p1"}, EnvironmentID: "prod", Statuses: ended,
			After: &store.RunPos{CreatedAt: begin, RunID: "r1"},
		},
		"COVERING INDEX run_state_project (tenant_id=? AND project_id=?)": {
			ProjectIDs: []string{"p1", "p2"}, Scopes: store.Scopes{{ProjectID: "p1", EnvironmentID: "dev"}, {ProjectID: "p2"}},
		},
		"COVERING INDEX run_state_tenant_status (tenant_id=? AND status=? AND created_at>? AND created_at<?)": {
			Statuses: []run.Status{run.Failed}, CreatedFrom: begin, CreatedTo: begin.Add(time.Hour),
		},
		"COVERING INDEX run_state_awaiting (tenant_id=? AND created_at>?)": {AwaitingOperator: true, CreatedFrom: begin,
			ProjectIDs: []string{"p1"}, Statuses: []run.Status{run.Failed}, PlanID: "nightly", TriggeredBy: "ana"},
		"COVERING INDEX run_tag_listed (tenant_id=? AND tag=? AND (created_at,run_id)<(?,?))": {Tag: "team:data",
			ProjectIDs: []string{"p1"}, After: &store.RunPos{CreatedAt: begin, RunID: "r1"}},
		"COVERING INDEX run_state_tenant (tenant_id=? AND created_at>? AND created_at<?)": {CreatedFrom: begin,
			CreatedTo: begin.Add(time.Hour)},
		"COVERING INDEX run_state_ended_tenant (tenant_id=? AND status=? AND ended_at>? AND (ended_at,run_id)<(?,?))": {
			Sort: store.SortEnded, After: &store.RunPos{CreatedAt: begin, RunID: "r1"}},
		"COVERING INDEX run_state_ended_project (tenant_id=? AND project_id=? AND status=? AND ended_at>?)": {
			Sort: store.SortEnded, ProjectIDs: []string{"p1", "p2"}, EnvironmentID: "prod", Ascending: true},
		"COVERING INDEX run_state_ended_environment (tenant_id=? AND environment_id=? AND status=? AND ended_at>?)": {
			Sort: store.SortEnded, EnvironmentID: "prod", Statuses: ended},
		"COVERING INDEX run_state_ended_plan (tenant_id=? AND plan_id=? AND status=? AND ended_at>?)": {
			Sort: store.SortEnded, PlanID: "nightly", ProjectIDs: []string{"p1"}, EnvironmentID: "prod"},
		"COVERING INDEX run_state_took_plan (tenant_id=? AND plan_id=? AND status=? AND took>? AND (took,run_id)<(?,?))": {
			Sort: store.SortDuration, PlanID: "nightly", After: &store.RunPos{Took: time.Minute, RunID: "r1"}},
		"INDEX run_state_awaiting_until (tenant_id=? AND (awaiting_until,run_id)>(?,?))": {Sort: store.SortTimeLeft,
			Ascending: true, PlanID: "nightly", After: &store.RunPos{CreatedAt: begin, RunID: "r1"}},
	} {
		f.TenantID, f.Limit = "t1", 10
		q := newListQuery(f)
		var plan []string
		err := s.read(t.Context(), func(c *conn) error {
			return c.query(t.Context(), "plan", "EXPLAIN QUERY PLAN "+q.statement(store.TextMatches{}), q.args,
				func(r row) error {
					detail, _ := r[3].(string)
					plan = append(plan, detail)
					return nil
				})
		})
		if err != nil {
			t.Fatal(err)
		}
		if text := strings.Join(plan, "\n"); !strings.Contains(text, want+"\n") || strings.Contains(text, "SCAN run_state") {
			t.Errorf("the plan does not contain %s, or it scans or sorts:\n%s", want, text)
		}
	}
}

// contract: T101
func TestPlans_RunScopesProbesAnIndex(t *testing.T) {
	t.Parallel()
	s := open(t, filepath.Join(t.TempDir(), "dvt.db"), Options{})
	for next, want := range map[string]string{
		nextScope: "SEARCH t USING COVERING INDEX run_state_scope_status (tenant_id=? AND project_id>?)",
		nextScopeInProject: "SEARCH t USING COVERING INDEX run_state_scope_status (tenant_id=? AND project_id=? AND " +
			"environment_id>?)",
	} {
		var plan []string
		err := s.read(t.Context(), func(c *conn) error {
			return c.query(t.Context(), "plan", "EXPLAIN QUERY PLAN "+fmt.Sprintf(scopesSQL, next), []any{"t1", "[]", 9},
				func(r row) error {
					detail, _ := r[3].(string)
					plan = append(plan, detail)
					return nil
				})
		})
		if err != nil {
			t.Fatal(err)
		}
		if text := strings.Join(plan, "\n"); !strings.Contains(text, want) || strings.Contains(text, "SCAN n") ||
			strings.Contains(text, "TEMP B-TREE") {
			t.Errorf("the plan does not contain %s, or it scans or sorts:\n%s", want, text)
		}
	}
}

// A page of plans walks the index of their activity and counts open runs in an index. The newest runs of plans and the
// events of a step are found in indexes. Nothing is sorted but the merged streams.
func TestPlans_PagesOfPlansWalkIndexes(t *testing.T) {
	t.Parallel()
	s := open(t, filepath.Join(t.TempDir(), "dvt.db"), Options{})
	page, args := planPage(store.PlanFilter{TenantID: "t1", ProjectIDs: []string{"p1"}, Limit: 20,
		After: &store.PlanPos{LastRunAt: time.Unix(1, 0)}})
	onePlan, ofOne := planPage(store.PlanFilter{TenantID: "t1", ProjectIDs: []string{"p1"}, EnvironmentID: "e1",
		PlanID: "nightly", Limit: 1})
	for name, c := range map[string]struct {
		query string
		args  []any
		want  []string
	}{
		"page": {page, args, []string{
			"SEARCH p USING COVERING INDEX plan_activity_listed (tenant_id=? AND (last_run_at,project_id,environment_id,plan_id)<",
			"SEARCH t USING COVERING INDEX run_state_scope_status (tenant_id=? AND project_id=? AND environment_id=? AND plan_id=? " +
				"AND status=?)",
		}},
		"one plan": {onePlan, ofOne, []string{
			"SEARCH p USING PRIMARY KEY (tenant_id=? AND project_id=? AND environment_id=? AND plan_id=?)",
		}},
		"newest runs": {runsOfPlansSQL, []any{`[["t1","p1","e1","nightly"]]`, 30}, []string{
			"MERGE (UNION ALL)", "SEARCH st USING PRIMARY KEY (run_id=?)",
			"SEARCH run_state USING COVERING INDEX run_state_scope_status (tenant_id=? AND project_id=? AND environment_id=? " +
				"AND plan_id=? AND status=?)",
		}},
		"events of a step": {stepEventsSQL, []any{`["r1"]`, "t1", "s1", 10}, []string{
			"SEARCH e USING INDEX event_attempt (run_id=? AND step_id=?)", "SEARCH r USING INDEX run_named (tenant_id=? AND run_id=?)",
		}},
	} {
		var plan []string
		err := s.read(t.Context(), func(conn *conn) error {
			return conn.query(t.Context(), "plan", "EXPLAIN QUERY PLAN "+c.query, c.args, func(r row) error {
				detail, _ := r[3].(string)
				plan = append(plan, detail)
				return nil
			})
		})
		if err != nil {
			t.Fatal(err)
		}
		text := strings.Join(plan, "\n")
		for _, want := range c.want {
			if !strings.Contains(text, want) {
				t.Errorf("%s: the plan does not contain %s:\n%s", name, want, text)
			}
		}
		for _, bad := range []string{"SCAN run_state", "SCAN p", "SCAN e", "SCAN r", "TEMP B-TREE FOR ORDER BY"} {
			if name != "one plan" && strings.Contains(text, bad) {
				t.Errorf("%s: the plan contains %s:\n%s", name, bad, text)
			}
		}
	}
}
