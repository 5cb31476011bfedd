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

// Pages and counts walk an index that begins with all that is asked for, or has the rest of it: no row is read to be
// left out.
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
		"COVERING INDEX run_state_tenant (tenant_id=? AND created_at>? AND created_at<?)": {CreatedFrom: begin,
			CreatedTo: begin.Add(time.Hour)},
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
		if said := strings.Join(plan, "\n"); !strings.Contains(said, want+"\n") || strings.Contains(said, "SCAN run_state") {
			t.Errorf("not %s:\n%s", want, said)
		}
	}
}

// contract: T101
func TestPlans_PlacesProbeAnIndex(t *testing.T) {
	t.Parallel()
	s := open(t, filepath.Join(t.TempDir(), "dvt.db"), Options{})
	for next, want := range map[string]string{
		nextPlace: "SEARCH t USING COVERING INDEX run_state_scope_status (tenant_id=? AND project_id>?)",
		nextPlaceWithinIt: "SEARCH t USING COVERING INDEX run_state_scope_status (tenant_id=? AND project_id=? AND " +
			"environment_id>?)",
	} {
		var plan []string
		err := s.read(t.Context(), func(c *conn) error {
			return c.query(t.Context(), "plan", "EXPLAIN QUERY PLAN "+fmt.Sprintf(placesSQL, next), []any{"t1", "[]", 9},
				func(r row) error {
					detail, _ := r[3].(string)
					plan = append(plan, detail)
					return nil
				})
		})
		if err != nil {
			t.Fatal(err)
		}
		if said := strings.Join(plan, "\n"); !strings.Contains(said, want) || strings.Contains(said, "SCAN n") ||
			strings.Contains(said, "TEMP B-TREE") {
			t.Errorf("not %s:\n%s", want, said)
		}
	}
}
