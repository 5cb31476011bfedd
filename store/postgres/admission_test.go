package postgres

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/dvt-engine/dvt/internal/testserver"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
	"github.com/dvt-engine/dvt/store"
)

// newCrowdedDatabase returns a database in which 20,000 runs wait in 1,000 lanes and 20,000 runs have been started.
func newCrowdedDatabase(t *testing.T) (dsn string, c *pgx.Conn) {
	t.Helper()
	dsn = testserver.Postgres(t)
	if err := Migrate(t.Context(), dsn); err != nil {
		t.Fatal(err)
	}
	c = dial(t, dsn)
	for _, query := range []string{
		`ALTER TABLE run_queue DISABLE TRIGGER USER`,
		`INSERT INTO run_head (run_id) SELECT 'r' || n FROM generate_series(1, 40000) n`,
		`INSERT INTO run_queue (run_id, tenant_id, project_id, status, waiting, not_before, expires_at, created_at)
			SELECT 'r' || n, 't' || n % 1000, 'p' || n % 1000, CASE WHEN n % 2 = 0 THEN 'PENDING' ELSE 'STARTED' END, n % 2 = 0,
				'9999-01-01', now() + n * interval '1 minute', now() FROM generate_series(1, 40000) n`,
		`INSERT INTO lane (tenant_id, project_id, waiting, pass, ready, ready_at)
			SELECT tenant_id, p, count(*), n % 7, n % 3 > 0, now() + n * interval '1 minute'
			FROM (SELECT tenant_id, p, substr(tenant_id, 2)::int n FROM run_queue, LATERAL (VALUES (''), (project_id)) v (p) WHERE waiting) q GROUP BY tenant_id, p, n`,
		`INSERT INTO bucket SELECT 't' || n, '', 'START_RUN', now() FROM generate_series(1, 5000) n`,
		`UPDATE lane SET waiting = 20000 WHERE tenant_id = ''`,
		`ALTER TABLE run_queue ENABLE TRIGGER USER`,
		`VACUUM ANALYZE`,
	} {
		if _, err := c.Exec(t.Context(), query); err != nil {
			t.Fatalf("%s: %v", query, err)
		}
	}
	return dsn, c
}

// The next run is found by the partial indexes of waiting and ready rows, so the cost does not depend on the other
// rows.
// contract: Q12
func TestPlans_PicksReadPartialIndexes(t *testing.T) {
	t.Parallel()
	_, c := newCrowdedDatabase(t)
	if _, err := c.Exec(t.Context(), `SET plan_cache_mode = force_generic_plan`); err != nil {
		t.Fatal(err)
	}
	for name, q := range map[string]struct {
		sql     string
		args    []any
		indexes []string
	}{
		"pick":    {pickSQL, nil, []string{"lane_tenants", "lane_projects", "run_queue_lane", "run_head_pkey"}},
		"outlook": {outlookSQL, nil, []string{"lane_tenants", "lane_held", "lane_pkey"}},
		"wake":    {wakeSQL, []any{maxWakes}, []string{"lane_held"}},
		"arrival": {arrivalSQL, []any{"t1", "p1"}, []string{"lane_pkey", "bucket_pkey"}},
		"rank":    {rankSQL, []any{"t1", "p1", 5, maxRanked}, []string{"run_queue_lane", "lane_pkey"}},
		"expired": {expiredWaitingSQL, []any{10}, []string{"run_queue_expiry"}},
		"lease":   {leaseSQL, []any{"w", time.Minute, 10}, []string{"run_queue_due"}},
		"stuck":   {stuckStartsSQL, []any{time.Minute, 10}, []string{"run_queue_due"}},
		"admit":   {admitSQL, []any{"r2", time.Now()}, []string{"run_queue_pkey"}},
	} {
		rows, err := c.Query(t.Context(), `EXPLAIN `+q.sql, q.args...)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		plan := strings.Join(lines, "\n")
		for _, index := range q.indexes {
			if !strings.Contains(plan, index) {
				t.Errorf("%s does not use %s:\n%s", name, index, plan)
			}
		}
		if strings.Contains(plan, "Seq Scan on run_queue") || strings.Contains(plan, "Seq Scan on lane") {
			t.Errorf("%s reads a whole table:\n%s", name, plan)
		}
	}
}

// Transactions that end runs and transactions that admit runs take their locks in the same order.
// contract: T207
func TestAdmit_NoDeadlockWithEnds(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	dsn := testserver.Postgres(t)
	s, err := Open(ctx, dsn, Options{Migrate: true, MaxConns: 24})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	terms := store.Unlimited()
	terms.Tenant.MaxActive = 4
	deadlocks := func() (n int) {
		t.Helper()
		if err := s.pool.Load().QueryRow(
			ctx, `SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()`).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	done := make(chan error)
	const workers, each = 20, 12
	for w := range workers {
		go func() { done <- churn(ctx, s, w, each, terms) }()
	}
	for range workers {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	time.Sleep(1200 * time.Millisecond) // idle sessions report their statistics once a second
	if n := deadlocks(); n != 0 {
		t.Errorf("%d deadlocks, want none", n)
	}
}

// churn creates, admits, leases and ends runs.
func churn(ctx context.Context, s *Store, w, each int, terms store.Terms) error {
	for n := range each {
		id := run.Identity{
			RunID: fmt.Sprintf("r%d-%d", w, n), TenantID: fmt.Sprint("t", n%3), ProjectID: fmt.Sprint("p", w%2),
			EnvironmentID: "e1", PlanID: "plan", PlanVersion: "1",
		}
		_, _, err := s.CreateRun(ctx, store.NewRun{
			Run: store.Run{Identity: id, RequestKey: run.Key(id.RunID)}, Plan: []byte(`{}`),
			Events:  []run.Draft{runtest.Draft(run.RunApproved, "", 1)},
			Enqueue: &store.Enqueue{Terms: terms}, Wait: func(store.Admission) ([]run.Draft, error) { return nil, nil },
		})
		if err != nil {
			return err
		}
		if _, err := s.AdmitWaiting(ctx, func(string, string) store.Terms { return terms }, 8); err != nil {
			return err
		}
		rows, err := s.Lease(ctx, fmt.Sprint(w), time.Minute, 3)
		if err != nil {
			return err
		}
		for _, q := range rows {
			if _, err := s.Append(
				ctx, store.Append{RunID: q.RunID, Events: []run.Draft{runtest.Draft(run.RunCancelled, "", 1)}}); err != nil {
				return err
			}
		}
	}
	return nil
}
