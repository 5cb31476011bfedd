package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/dvt-engine/dvt/bench/rig"

	"github.com/jackc/pgx/v5"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
	"github.com/dvt-engine/dvt/store"
	"github.com/dvt-engine/dvt/store/postgres"
	"github.com/dvt-engine/dvt/store/sqlite"
)

// Sizes of the lists. A page has 50 rows, and one more shows whether another page follows.
const (
	fewRuns, manyRuns = 1_000, 1_000_000
	pageRows          = 51
	listTurns         = 100
	otherWork         = 64 << 20 // bytes, more than the caches of a processor
)

// runList is a store with runs that were created one second apart. Its number of rare runs does not depend on its size:
// a thousand runs at equal distances are marked, and of these some are running, failed, of a small project or
// environment, or of a rare plan. All other runs are completed and alike.
type runList struct {
	store interface {
		store.Runs
		store.PlanHistories
	}
	runs  int
	runID string // id of one of the runs
}

var oldest = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC) //nolint:gochecknoglobals // a constant

// cursor returns the position of the i-th of several pages in the middle of the list.
func (l runList) cursor(i int) *store.RunPos {
	return &store.RunPos{CreatedAt: oldest.Add(time.Duration(l.runs/2+i*l.runs/(4*listTurns)) * time.Second)}
}

// expand replaces $RUNS and $RUN in a statement.
func (l runList) expand(statement string) string {
	return strings.NewReplacer("$RUNS", strconv.Itoa(l.runs), "$RUN", rig.RunName(0)).Replace(statement)
}

// query is one list request; i is the number of its earlier calls. If read is set, it makes the request instead of
// List.
type query struct {
	name   string
	filter func(l runList, i int) store.RunFilter
	read   func(ctx context.Context, l runList) error
}

// planQueries are those of the pages of plans. There are about 70 plans.
func planQueries() []query {
	key := store.PlanKey{TenantID: runtest.ID.TenantID, ProjectID: "p1", EnvironmentID: "prod", PlanID: "nightly-7"}
	return []query{
		{name: "a page of plans", read: func(ctx context.Context, l runList) error {
			_, err := l.store.ListPlans(ctx, store.PlanFilter{TenantID: key.TenantID, Runs: 30, Limit: 21})
			return err
		}},
		{name: "the runs of one plan", read: func(ctx context.Context, l runList) error {
			_, err := l.store.PlanRuns(ctx, key, 10)
			return err
		}},
	}
}

func always(f store.RunFilter) func(runList, int) store.RunFilter {
	return func(runList, int) store.RunFilter { return f }
}

func pageQueries() []query {
	return []query{
		{name: "the first page", filter: always(store.RunFilter{})},
		{name: "the oldest first", filter: always(store.RunFilter{Ascending: true})},
		{name: "the last page", filter: always(store.RunFilter{Before: &store.RunPos{}})},
		{name: "a page in the middle", filter: func(l runList, i int) store.RunFilter {
			return store.RunFilter{After: l.cursor(i)}
		}},
		{name: "a page in the middle, backward", filter: func(l runList, i int) store.RunFilter {
			return store.RunFilter{Before: l.cursor(i)}
		}},
		{name: "a page in the middle, the oldest first", filter: func(l runList, i int) store.RunFilter {
			return store.RunFilter{After: l.cursor(i), Ascending: true}
		}},
	}
}

func filterQueries() []query {
	failed, running := []run.Status{run.Failed}, []run.Status{run.Running}
	small := []string{"small"}
	return []query{
		{name: "a frequent status", filter: always(store.RunFilter{Statuses: []run.Status{run.Completed}})},
		{name: "a rare status", filter: always(store.RunFilter{Statuses: running})},
		{name: "two rare statuses", filter: always(
			store.RunFilter{Statuses: []run.Status{run.Running, run.Failed}})},
		{name: "two rare statuses, in the middle", filter: func(l runList, i int) store.RunFilter {
			return store.RunFilter{Statuses: []run.Status{run.Running, run.Failed}, After: l.cursor(i)}
		}},
		{name: "a large project", filter: always(store.RunFilter{ProjectIDs: []string{"p1"}})},
		{name: "a small project", filter: always(store.RunFilter{ProjectIDs: small})},
		{name: "several projects", filter: always(store.RunFilter{ProjectIDs: []string{"p1", "p2", "small"}})},
		{name: "a large environment", filter: always(store.RunFilter{EnvironmentID: "prod"})},
		{name: "a small environment", filter: always(store.RunFilter{EnvironmentID: "dev"})},
		{name: "a plan", filter: always(store.RunFilter{PlanID: "nightly-7"})},
		{name: "a plan of few runs", filter: always(store.RunFilter{PlanID: "once"})},
		{name: "a time range", filter: func(l runList, i int) store.RunFilter {
			to := l.cursor(i).CreatedAt
			return store.RunFilter{CreatedFrom: to.Add(-pageRows * time.Second), CreatedTo: to}
		}},
		{name: "the runs of a user", filter: always(store.RunFilter{TriggeredBy: "ana"})},
		{name: "a status of a user's runs", filter: always(
			store.RunFilter{TriggeredBy: "ana", Statuses: failed})},
		{name: "a substring of many plan ids", filter: always(store.RunFilter{Text: "ight"})},
		{name: "a substring of a rare plan id", filter: always(store.RunFilter{Text: "nce"})},
		{name: "a prefix of a run id", filter: func(l runList, _ int) store.RunFilter {
			return store.RunFilter{Text: l.runID[:8]}
		}},
		{name: "a text without matches", filter: always(store.RunFilter{Text: "nowhere"})},
		{name: "a status of a project", filter: always(store.RunFilter{ProjectIDs: small, Statuses: failed})},
		{name: "a status of several projects", filter: always(
			store.RunFilter{ProjectIDs: []string{"p1", "p2", "small"},
				Statuses: failed})},
		{name: "a status and a text", filter: always(store.RunFilter{Text: "ight", Statuses: failed})},
		{name: "a status of an environment", filter: always(
			store.RunFilter{EnvironmentID: "dev", Statuses: []run.Status{run.Completed}})},
		{name: "an environment of a project", filter: always(
			store.RunFilter{EnvironmentID: "prod", ProjectIDs: []string{"p1"}})},
	}
}

// lists measures each query on a store with many runs against a store with few. The sample is that of the query with
// the largest ratio. It takes turns over all queries: measured one after the other, the largest of 23 ratios was that
// of the query during which the machine did something else. Each query finds the processor's caches cold, as it would
// on a server that does other work: with warm caches the ratio is mostly that of a small store that fits in them.
func lists(large, small runList, queries []query, done func() error) *rig.Trial {
	other := make([]byte, otherWork)
	warm := false
	repeat := func(ctx context.Context) (worst rig.Sample, err error) {
		for turn := 0; !warm && turn < listTurns; turn++ { // a page that is read for the first time comes from the file
			for _, q := range queries {
				if _, err := q.timed(ctx, large, turn); err != nil {
					return worst, err
				}
			}
		}
		warm = true
		costs, floors := make([][]time.Duration, len(queries)), make([][]time.Duration, len(queries))
		for turn := range listTurns {
			for n, q := range queries {
				dirty(other)
				floor, err := q.timed(ctx, small, turn)
				if err != nil {
					return worst, err
				}
				dirty(other)
				cost, err := q.timed(ctx, large, turn)
				if err != nil {
					return worst, err
				}
				floors[n], costs[n] = append(floors[n], floor), append(costs[n], cost)
			}
		}
		name := ""
		for n, q := range queries {
			s := rig.Sample{Cost: rig.Quantile(costs[n], 0.5), Floor: rig.Quantile(floors[n], 0.5)}
			if name == "" || rig.AtMost(0).Value(s) > rig.AtMost(0).Value(worst) {
				name, worst = q.name, s
			}
		}
		fmt.Fprintf(os.Stderr, "       the worst ratio has %s: %s against %s\n", name, rig.Short(worst.Cost),
			rig.Short(worst.Floor))
		return worst, nil
	}
	return &rig.Trial{Repeat: repeat, Done: done}
}

// dirty writes to each line of memory, which evicts everything else from the processor's caches.
func dirty(memory []byte) {
	for i := 0; i < len(memory); i += 64 {
		memory[i]++
	}
}

// timed makes the request on l and returns how long it took; turn is the number of its earlier calls.
func (q query) timed(ctx context.Context, l runList, turn int) (time.Duration, error) {
	if q.read != nil {
		return rig.Timed(func() error { return q.read(ctx, l) })
	}
	f := q.filter(l, turn)
	f.TenantID, f.Limit = runtest.ID.TenantID, pageRows
	return rig.Timed(func() error {
		_, err := l.store.List(ctx, f)
		return err
	})
}

func postgresLists(queries []query) func(context.Context, *rig.Rig) (*rig.Trial, error) {
	return func(ctx context.Context, r *rig.Rig) (*rig.Trial, error) {
		var opened []*postgres.Store
		var sides []runList
		for _, n := range []int{manyRuns, fewRuns} {
			s, dsn, err := r.Store(ctx, rig.NativeFlush, 2)
			if err != nil {
				return nil, err
			}
			opened = append(opened, s)
			if err := rig.MakeRun(ctx, s, rig.RunName(0), 3); err != nil {
				return nil, err
			}
			l := runList{store: s, runs: n}
			if err := rig.Connected(ctx, dsn, func(conn *pgx.Conn) error { return fillList(ctx, conn, &l) }); err != nil {
				return nil, err
			}
			sides = append(sides, l)
		}
		return lists(sides[0], sides[1], queries, func() error {
			return errors.Join(opened[0].Close(),
				opened[1].Close())
		}), nil
	}
}

// marks computes the columns of a copied run from k, the kind of a marked run; k is null for all other runs.
const marks = `CASE WHEN k IN (4, 5, 10, 11) THEN 'small' ELSE 'p' || HASH END AS project_id,
  CASE WHEN k IN (6, 7) THEN 'dev' ELSE 'prod' END AS environment_id,
  CASE WHEN k IN (8, 9) THEN 'once' ELSE 'nightly-' || substr(run_id, 1, 1) END AS plan_id,
  CASE WHEN k IN (0, 1) THEN 'RUNNING' WHEN k IN (2, 3, 10, 11) THEN 'FAILED' ELSE 'COMPLETED' END AS status,
  CASE WHEN k IN (10, 11, 12, 13) THEN 'ana' ELSE 'scheduler' END AS triggered_by`

// fillListSQL copies the only run of the store. It replaces the triggers, which would work row by row, and turns them
// off.
var fillListSQL = []string{ //nolint:gochecknoglobals // a table
	`SET session_replication_role = replica`,
	`CREATE TEMP TABLE made AS SELECT n, run_id, ` + strings.ReplaceAll(marks, "HASH",
		"ascii(run_id) % 4") + `, timestamptz '2026-01-01Z' + n * interval '1 second' AS created_at
	FROM (SELECT n, md5('r' || n)::uuid::text AS run_id, CASE WHEN n % ($RUNS / 1000) = 0 THEN n / ($RUNS / 1000) % 20 END AS k FROM generate_series(0, $RUNS - 1) n) t`,
	`INSERT INTO run SELECT m.run_id, tenant_id, m.project_id, m.environment_id, m.plan_id, plan_version, NULL, request_id, plan_ref, m.triggered_by,
	trigger_source, parent_run_id, params, policy, m.created_at FROM made m, run ORDER BY n`,
	`INSERT INTO run_head SELECT m.run_id, last_seq, last_at, terminal, gate, running, ops_rev, signal_no FROM made m, run_head ORDER BY n`,
	`INSERT INTO run_state SELECT m.run_id, tenant_id, m.project_id, m.status, seq, rev, published_seq, replace(header::text, st.run_id, m.run_id)::json, xid
	FROM made m, run_state st ORDER BY n`,
	`INSERT INTO run_status (run_id, tenant_id, project_id, environment_id, plan_id, status, created_at, triggered_by, ended_at, took)
	SELECT m.run_id, tenant_id, m.project_id, m.environment_id, m.plan_id, m.status, m.created_at, m.triggered_by,
	CASE WHEN m.status <> 'RUNNING' THEN m.created_at + interval '1 minute' END, CASE WHEN m.status <> 'RUNNING' THEN 60000000 END
	FROM made m, run_status ORDER BY n`,
	`INSERT INTO run_plan SELECT DISTINCT tenant_id, m.plan_id, m.project_id FROM made m, run WHERE run.run_id = '$RUN'`,
	`INSERT INTO plan_activity SELECT tenant_id, m.project_id, m.environment_id, m.plan_id, max(m.created_at) FROM made m, run
	WHERE run.run_id = '$RUN' GROUP BY 1, 2, 3, 4`,
}

const listIndexesSQL = `SELECT 'DROP INDEX ' || indexname, indexdef FROM pg_indexes WHERE tablename IN ('run', 'run_state', 'run_status')
  AND indexname NOT IN (SELECT conname FROM pg_constraint)`

func fillList(ctx context.Context, conn *pgx.Conn, l *runList) error {
	began := time.Now()
	rows, err := conn.Query(ctx, listIndexesSQL)
	if err != nil {
		return err
	}
	indexes, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (x index, err error) {
		return x,
			row.Scan(&x.drop, &x.create)
	})
	if err != nil {
		return err
	}
	var statements []string
	for _, x := range indexes {
		statements = append(statements, x.drop)
	}
	for _, q := range fillListSQL {
		statements = append(statements, l.expand(q))
	}
	for _, x := range indexes {
		statements = append(statements, x.create)
	}
	for _, q := range append(statements, `VACUUM ANALYZE`, `CHECKPOINT`) {
		if _, err := conn.Exec(ctx, q); err != nil {
			return fmt.Errorf("%s: %w", q, err)
		}
	}
	fmt.Fprintf(os.Stderr, "       %d runs inserted after %s\n", l.runs, time.Since(began).Round(time.Second))
	return conn.QueryRow(ctx, `SELECT run_id FROM made LIMIT 1`).Scan(&l.runID)
}

func sqliteLists(queries []query) func(context.Context, *rig.Rig) (*rig.Trial, error) {
	return func(ctx context.Context, r *rig.Rig) (*rig.Trial, error) {
		var opened []*sqlite.Store
		var sides []runList
		dir, err := os.MkdirTemp(r.Dir, "lists-")
		if err != nil {
			return nil, err
		}
		for _, n := range []int{manyRuns, fewRuns} {
			file := filepath.Join(dir, fmt.Sprint(n, ".db"))
			s, err := sqlite.Open(ctx, file, sqlite.Options{})
			if err != nil {
				return nil, err
			}
			opened = append(opened, s)
			if err := rig.MakeRun(ctx, s, rig.RunName(0), 3); err != nil {
				return nil, err
			}
			l := runList{store: s, runs: n}
			if err := fillSQLiteList(ctx, file, &l); err != nil {
				return nil, err
			}
			sides = append(sides, l)
		}
		return lists(sides[0], sides[1], queries, func() error {
			return errors.Join(opened[0].Close(), opened[1].Close(), os.RemoveAll(dir))
		}), nil
	}
}

// fillSQLiteListSQL copies the only run of the store, in the order of ids, because the tables are ordered by id.
var fillSQLiteListSQL = []string{ //nolint:gochecknoglobals // a table
	`CREATE TEMP TABLE made AS SELECT n, run_id, ` + strings.ReplaceAll(marks, "HASH",
		"(unicode(run_id) % 4)") + `, unixepoch('2026-01-01') * 1000000 + n * 1000000 AS created_at
	FROM (SELECT n, iif(n % ($RUNS / 1000) = 0, n / ($RUNS / 1000) % 20, NULL) AS k, printf('%08x-', n * 2654435761 & 4294967295) || lower(hex(randomblob(13))) AS run_id
	FROM (WITH RECURSIVE t (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM t WHERE n + 1 < $RUNS) SELECT n FROM t)) ORDER BY run_id`,
	`INSERT INTO run SELECT m.run_id, tenant_id, m.project_id, m.environment_id, m.plan_id, plan_version, NULL, request_id, plan_ref, m.triggered_by,
	trigger_source, parent_run_id, params, policy, m.created_at FROM (SELECT * FROM run) r CROSS JOIN made m`,
	`INSERT INTO run_head SELECT m.run_id, last_seq, last_at, terminal, gate, running, ops_rev, signal_no FROM (SELECT * FROM run_head) h CROSS JOIN made m`,
	`INSERT INTO run_state SELECT m.run_id, tenant_id, m.project_id, m.environment_id, m.plan_id, m.status, m.created_at, seq, rev, published_seq, change,
	replace(header, st.run_id, m.run_id), m.triggered_by, NULL, iif(m.status = 'RUNNING', NULL, m.created_at + 60000000),
	iif(m.status = 'RUNNING', NULL, 60000000) FROM (SELECT * FROM run_state) st CROSS JOIN made m`,
}

func fillSQLiteList(ctx context.Context, file string, l *runList) (err error) {
	began := time.Now()
	db, err := openDurable(file)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	drops, creates, err := sqliteIndexes(ctx, db)
	if err != nil {
		return err
	}
	// The cache of 512 MiB keeps the new pages in memory.
	statements := append([]string{`PRAGMA cache_size = -524288`, `PRAGMA temp_store = memory`, `PRAGMA synchronous = off`},
		drops...)
	for _, q := range fillSQLiteListSQL {
		statements = append(statements, l.expand(q))
	}
	for _, q := range append(append(statements, creates...), `PRAGMA wal_checkpoint(TRUNCATE)`) {
		if _, err := db.ExecContext(ctx, q); err != nil {
			return fmt.Errorf("%s: %w", q, err)
		}
	}
	fmt.Fprintf(os.Stderr, "       %d runs inserted after %s\n", l.runs, time.Since(began).Round(time.Second))
	return db.QueryRowContext(ctx, `SELECT run_id FROM made LIMIT 1`).Scan(&l.runID)
}

// sqliteIndexes returns the statements that drop the indexes of run and run_state and those that create them again.
func sqliteIndexes(ctx context.Context, db *sql.DB) (drops, creates []string, err error) {
	rows, err := db.QueryContext(ctx, `SELECT 'DROP INDEX ' || name, sql FROM sqlite_schema
		WHERE type = 'index' AND sql IS NOT NULL AND tbl_name IN ('run', 'run_state')`)
	if err != nil {
		return nil, nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var drop, create string
		if err := rows.Scan(&drop, &create); err != nil {
			return nil, nil, err
		}
		drops, creates = append(drops, drop), append(creates, create)
	}
	return drops, creates, rows.Err()
}
