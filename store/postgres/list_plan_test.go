package postgres

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/dvt-engine/dvt/internal/testserver"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// fillRunsSQL inserts runs. A few of them match the filters. Most are runs that a bad index would have to skip: runs of
// the same plan in other environments, runs of other plans, and runs that a program started.
const fillRunsSQL = `INSERT INTO %s SELECT 'r' || n, 't1', 'p1', CASE WHEN rare OR n %% 2 = 0 THEN 'prod' ELSE 'dev' END, CASE WHEN rare OR n %% 2 = 1 THEN 'nightly' ELSE 'hourly' END, %s,
	CASE WHEN rare THEN 'ana' ELSE 'scheduler' END%s FROM (SELECT n, n %% ($1 / 20) = 0 AS rare, timestamptz '2026-01-01Z' + n * interval '1 second' AS at FROM generate_series(1, $1::int) n) t`

// The number of rows that a page or a count reads does not grow with the number of runs.
// contract: T101
func TestList_RowsReadDoNotGrowWithTheRuns(t *testing.T) {
	t.Parallel()
	begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	scope := store.RunFilter{TenantID: "t1", ProjectIDs: []string{"p1"}, EnvironmentID: "prod", PlanID: "nightly"}
	filters := map[string]store.RunFilter{
		"the runs of a starter": {TenantID: "t1", TriggeredBy: "ana", Limit: 10},
		"the failed runs of a starter": {TenantID: "t1", TriggeredBy: "ana", Statuses: []run.Status{run.Failed},
			Limit: 10},
		"the runs of a starter in one environment": {TenantID: "t1", TriggeredBy: "ana", ProjectIDs: []string{"p1"},
			EnvironmentID: "prod", Limit: 10},
		"the last completed run":          withStatuses(scope, 1, run.Completed),
		"the last cancelled run of none":  withStatuses(scope, 1, run.Cancelled),
		"the runs of a median":            withStatuses(scope, 10, run.Completed, run.Failed, run.Cancelled),
		"the runs that await an operator": {TenantID: "t1", AwaitingOperator: true, Limit: 10},
		"the failed runs of a plan and those that await": {TenantID: "t1", PlanID: "nightly", AwaitingOperator: true,
			Statuses: []run.Status{run.Failed}, Limit: 10},
		"the runs that ended last": {TenantID: "t1", Sort: store.SortEnded, Limit: 10},
		"the failed runs of an environment that ended last": {TenantID: "t1", Sort: store.SortEnded, EnvironmentID: "prod",
			Statuses: []run.Status{run.Failed}, Limit: 10},
		"the runs of a project that ended after one": {TenantID: "t1", Sort: store.SortEnded, ProjectIDs: []string{"p1"},
			After: &store.RunPos{CreatedAt: begin.Add(10 * time.Minute), RunID: "r9"}, Limit: 10},
		"the runs of a plan that ended last": {TenantID: "t1", Sort: store.SortEnded, PlanID: "nightly", Limit: 10},
		"the longest runs of a plan":         {TenantID: "t1", Sort: store.SortDuration, PlanID: "nightly", Limit: 10},
		"the shortest runs of a plan after one": {TenantID: "t1", Sort: store.SortDuration, PlanID: "hourly",
			Ascending: true, After: &store.RunPos{Took: 5 * time.Microsecond, RunID: "r9"}, Limit: 10},
		"the runs with the least time left": {TenantID: "t1", Sort: store.SortTimeLeft, Ascending: true, Limit: 10},
		"a count of a minute": {TenantID: "t1", CreatedFrom: begin, CreatedTo: begin.Add(time.Minute),
			Limit: store.MaxCounted},
		"a count of the failed runs of a minute": {TenantID: "t1", CreatedFrom: begin, CreatedTo: begin.Add(time.Minute),
			Statuses: []run.Status{run.Failed}, Limit: store.MaxCounted},
		"a count of the runs of a starter": {TenantID: "t1", TriggeredBy: "ana", CreatedFrom: begin,
			CreatedTo: begin.Add(time.Minute), Limit: store.MaxCounted},
		"a count of a project and a plan": {TenantID: "t1", ProjectIDs: []string{"p1"}, PlanID: "nightly",
			CreatedFrom: begin, CreatedTo: begin.Add(time.Minute), Limit: store.MaxCounted},
	}
	most := map[string]float64{}
	for _, runs := range []int{1_000, 100_000} {
		dsn := testserver.Postgres(t)
		s, err := Open(t.Context(), dsn, Options{Migrate: true, MaxConns: 1})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		c := dial(t, dsn)
		for _, sql := range []string{
			fmt.Sprintf(fillRunsSQL, `run (run_id, tenant_id, project_id, environment_id, plan_id, plan_version, triggered_by, request_id, plan_ref, trigger_source, parent_run_id, policy, created_at)`,
				`'1'`, `, '', '{}', '', '', '{}', at`),
			fmt.Sprintf(fillRunsSQL, `run_status (run_id, tenant_id, project_id, environment_id, plan_id, status, triggered_by, created_at, awaiting_until, ended_at, took)`,
				`CASE WHEN rare AND n % 3 = 0 THEN 'FAILED' WHEN rare AND n % 3 = 1 THEN 'RUNNING' ELSE 'COMPLETED' END`,
				`, at, CASE WHEN rare AND n % 3 = 1 THEN at END, CASE WHEN rare AND n % 3 = 1 THEN NULL ELSE at END,
				CASE WHEN rare AND n % 3 = 1 THEN NULL ELSE n % 97 END`),
		} {
			if _, err := c.Exec(t.Context(), sql, runs); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := c.Exec(t.Context(), `VACUUM ANALYZE run, run_status`); err != nil {
			t.Fatal(err)
		}
		explain := func(name, query string, args ...any) {
			var doc []byte
			if err := c.QueryRow(t.Context(), "EXPLAIN (ANALYZE, FORMAT JSON) "+query, args...).Scan(&doc); err != nil {
				t.Fatal(err)
			}
			var plans []struct{ Plan planNode }
			if err := json.Unmarshal(doc, &plans); err != nil {
				t.Fatal(err)
			}
			read := plans[0].Plan.read()
			if runs == 1_000 {
				most[name] = max(read, 10)
			} else if read > 2*most[name] {
				t.Errorf("%s: reads %.0f rows of %d runs, but %.0f of 1000 runs; want no growth:\n%s",
					name, read, runs, most[name], doc)
			}
		}
		for name, rf := range filters {
			q := newListQuery(rf)
			q.limit = rf.Limit
			explain(name, q.page(store.TextMatches{}), q.args...)
		}
		explain("the scopes", fmt.Sprintf(scopesSQL, nextScope), "t1", []string{""}, 200)
		page, args := planPage(store.PlanFilter{TenantID: "t1", ProjectIDs: []string{"p1"}, Limit: 20})
		explain("a page of plans", page, args...)
		explain("the newest runs of plans", fmt.Sprintf(runsOfPlansSQL, 30), []string{"t1", "t1"}, []string{"p1", "p1"},
			[]string{"prod", "dev"}, []string{"nightly", "hourly"}, run.Statuses())
		nightly := store.PlanKey{TenantID: "t1", ProjectID: "p1", EnvironmentID: "prod", PlanID: "nightly"}
		one := newListQuery(nightly.Filter(30))
		query := planRuns(one)
		explain("the newest runs of one plan", query, one.args...)
		explain("the scopes of some projects", fmt.Sprintf(scopesSQL, nextScopeInProject), "t1", []string{"p1", "p0"}, 200)
	}
}

// withStatuses restricts a filter to statuses and a limit.
func withStatuses(f store.RunFilter, limit int, statuses ...run.Status) store.RunFilter {
	f.Statuses, f.Limit = statuses, limit
	return f
}

// planNode is a node of an executed query plan.
type planNode struct {
	Kind    string     `json:"Node Type"`
	Rows    float64    `json:"Actual Rows"`
	Loops   float64    `json:"Actual Loops"`
	Removed float64    `json:"Rows Removed by Filter"`
	Plans   []planNode `json:"Plans"`
}

// read returns the number of rows of tables and indexes that the plan has read.
func (n planNode) read() (rows float64) {
	if strings.Contains(n.Kind, "Scan") && n.Kind != "Subquery Scan" {
		rows = (n.Rows + n.Removed) * n.Loops
	}
	for _, p := range n.Plans {
		rows += p.read()
	}
	return rows
}
