package postgres

import (
	"testing"
	"time"

	"github.com/dvt-engine/dvt/internal/testserver"
	"github.com/dvt-engine/dvt/store"
)

// The migration that adds the activity of plans knows the runs that were there before it.
func TestMigrate_PlansOfOlderRunsAreListed(t *testing.T) {
	t.Parallel()
	dsn := testserver.Postgres(t)
	migrateTo(t, dsn, upTo(t, 20))
	for i, at := range []int64{1, 3, 2} {
		if _, err := dial(t, dsn).Exec(t.Context(), `INSERT INTO run (run_id, tenant_id, project_id, environment_id, plan_id,
			plan_version, triggered_by, request_id, plan_ref, trigger_source, parent_run_id, policy, created_at)
			VALUES ($1, 't1', 'p1', 'e1', 'nightly', '1', '', '', '{}', '', '', '{}', $2)`, string(rune('a'+i)), time.Unix(at, 0)); err != nil {
			t.Fatal(err)
		}
	}
	s, err := Open(t.Context(), dsn, Options{Migrate: true, MaxConns: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	plans, err := s.ListPlans(t.Context(), store.PlanFilter{TenantID: "t1", Limit: 10})
	if err != nil || len(plans) != 1 || plans[0].PlanID != "nightly" || !plans[0].LastRunAt.Equal(time.Unix(3, 0)) {
		t.Errorf("plans after the migration: %+v, %v; want nightly with the time of its newest run", plans, err)
	}
}
