package postgres

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/dvt-engine/dvt/internal/testserver"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
	"github.com/dvt-engine/dvt/store/storetest"
)

// Every statement of the previous version means something on today's schema.
// contract: R508
func TestUpgrade_EveryStatementOfThePreviousVersionPrepares(t *testing.T) {
	t.Parallel()
	dsn := testserver.Postgres(t)
	if err := Migrate(t.Context(), dsn); err != nil {
		t.Fatal(err)
	}
	c := dial(t, dsn)
	for name, sql := range storetest.Statements(t, oldSQL) {
		if _, err := c.Prepare(t.Context(), name, sql); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Indexes that this version put in the place of others serve the previous one, too.
// contract: R508
func TestUpgrade_LookUpsOfThePreviousVersionStayProbes(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	dsn := testserver.Postgres(t)
	if err := Migrate(ctx, dsn); err != nil {
		t.Fatal(err)
	}
	c := dial(t, dsn)
	if _, err := c.Exec(
		ctx, `INSERT INTO event SELECT 'r' || n % 20, n, 'e' || n, 'k' || n, 'StepStarted', 's' || n, '', 1, 1,
		now(), now(), 'engine', '{}' FROM generate_series(100, 20000) n`); err != nil {
		t.Fatal(err)
	}
	statements := storetest.Statements(t, oldSQL)
	keys, steps, attempts := []string{"k100", "k120"}, []string{"s100", "s120"}, []int32{1, 1}
	for name, q := range map[string]struct {
		index string
		args  []any
	}{
		"factsByKeySQL": {"event_key", []any{"r1", keys}}, "factsBegunSQL": {"event_attempt", []any{"r1", steps, attempts}},
		"factsTerminalSQL": {"event_attempt", []any{"r1", steps, attempts}}, "factsEndSQL": {"event_run_end", []any{"r1"}},
		"Events": {"event_pkey", []any{"r1", 100, 10}}, "EventsBefore": {"event_pkey", []any{"r1", 300, 10}},
	} {
		rows, err := c.Query(ctx, `EXPLAIN `+statements[name], q.args...)
		if err != nil {
			t.Fatal(err)
		}
		lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			t.Fatal(err)
		}
		if plan := strings.Join(lines, "\n"); strings.Contains(plan, "Seq Scan on event") ||
			!strings.Contains(plan, q.index) {
			t.Errorf("%s is no probe of %s:\n%s", name, q.index, plan)
		}
	}
}

// Servers of the previous version write and project while the database is
// migrated under them, and go on beside servers of this version.
// contract: R508
func TestUpgrade_ThePreviousVersionRunsOnWhileThisOneStarts(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	dsn := testserver.Postgres(t)
	migrateTo(t, dsn, upTo(t, 1))
	before := openOld(t, dsn)
	const runs = 4
	id := func(i int) run.Identity {
		return run.Identity{RunID: fmt.Sprint("r", i), TenantID: "t1", ProjectID: "p1", EnvironmentID: "e1", PlanID: "plan",
			PlanVersion: "1"}
	}
	for i := range runs {
		if err := before.create(ctx, id(i)); err != nil {
			t.Fatal(err)
		}
	}
	stop := make(chan struct{})
	stopped := func() bool {
		select {
		case <-stop:
			return true
		default:
			return false
		}
	}
	var writers, projectors sync.WaitGroup
	var leases atomic.Int64
	var written [2]atomic.Int64
	work := func(v version, as int) {
		draft := func(kind run.EventType, step string, la int) run.Draft {
			d := run.Draft{Type: kind, StepID: step, LogicalAttempt: la, EngineAttempt: 1, EmittedAt: time.Now(),
				EmittedBy: run.ByEngine, Payload: []byte(`{}`)}
			if kind == run.StepFailedEvent {
				d.Payload = []byte(`{"errorCode":"EXIT_STATUS","retryable":true}`)
			}
			return d
		}
		for i := range runs {
			for w := range 2 {
				own := fmt.Sprintf("s-%d-%d", as, w)
				writers.Go(func() {
					for n := 1; !stopped(); n++ {
						end := run.StepCompletedEvent
						if as == 1 {
							end = run.StepFailedEvent
						}
						for _, events := range [][]run.Draft{ // both programs fight for the attempts of the step "shared"
							{draft(run.StepStartedEvent, own, n), draft(run.StepStartedEvent, "shared", n)},
							{draft(run.StepCompletedEvent, own, n), draft(end, "shared", n)},
						} {
							if err := v.append(ctx, store.Append{RunID: id(i).RunID, Events: events}); err != nil {
								t.Errorf("version %d: append: %v", as+1, err)
								return
							}
							written[as].Add(1)
						}
					}
				})
			}
		}
		projectors.Go(func() {
			for !stopped() {
				if _, err := v.project(ctx); err != nil {
					t.Errorf("version %d: project: %v", as+1, err)
					return
				}
				n, err := v.lease(ctx)
				if err != nil {
					t.Errorf("version %d: lease: %v", as+1, err)
					return
				}
				leases.Add(int64(n))
			}
		})
	}
	// goOn waits until a version has written more than that.
	goOn := func(as int, than int64) {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); written[as].Load() <= than && !t.Failed(); time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("version %d does not get on", as+1)
			}
		}
	}
	work(before, 0)
	goOn(0, 0)
	time.Sleep(200 * time.Millisecond)
	if err := Migrate(ctx, dsn); err != nil {
		t.Error(err)
	}
	after, err := Open(ctx, dsn, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer after.Close()
	beside := written[0].Load()
	work(newer{after}, 1)
	time.Sleep(1500 * time.Millisecond)
	goOn(0, beside)
	goOn(1, 0)
	close(stop)
	writers.Wait()
	projectors.Wait()
	t.Logf("appends of version 1 before and after the migration: %d, %d; of version 2: %d", beside,
		written[0].Load()-beside, written[1].Load())
	for range runs { // what nobody had the time for
		n, err := before.lease(ctx)
		if err != nil {
			t.Fatal(err)
		}
		leases.Add(int64(n))
	}
	if n := leases.Load(); n != runs {
		t.Errorf("%d leases of %d runs", n, runs)
	}

	// One ends each run, whichever comes first.
	for i := range runs {
		var ends sync.WaitGroup
		for as, v := range []version{before, newer{after}} {
			kind := []run.EventType{run.RunCompleted, run.RunCancelled}[as]
			ends.Go(func() {
				d := run.Draft{Type: kind, LogicalAttempt: 1, EngineAttempt: 1, EmittedAt: time.Now(), EmittedBy: run.ByEngine,
					Payload: []byte(`{}`)}
				if err := v.append(ctx, store.Append{RunID: id(i).RunID, Events: []run.Draft{d}}); err != nil {
					t.Errorf("end by version %d: %v", as+1, err)
				}
			})
		}
		ends.Wait()
	}
	for range 3 { // the old one empties what the new one held back, too
		if _, err := before.project(ctx); err != nil {
			t.Fatal(err)
		}
	}
	c := dial(t, dsn)
	for i := range runs {
		verifyLog(t, c, id(i).RunID)
		sameState(t, before, after, c, id(i).RunID)
	}
}

// This version, with its statements and plans prepared, runs on while the next one migrates.
// contract: R508
func TestUpgrade_ThisVersionRunsOnWhileTheNextMigrates(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	dsn := testserver.Postgres(t)
	s, err := Open(ctx, dsn, Options{Migrate: true, MaxConns: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	round := func(n int) {
		t.Helper()
		writeOne(t, s, fmt.Sprint("r", n))
		both := []run.Draft{
			{Type: run.StepStartedEvent, StepID: "s2", LogicalAttempt: n, EngineAttempt: 1, EmittedAt: time.Now(),
				EmittedBy: run.ByEngine},
			{Type: run.StepCompletedEvent, StepID: "s2", LogicalAttempt: n, EngineAttempt: 1, EmittedAt: time.Now(),
				EmittedBy: run.ByEngine, Payload: []byte(`{}`)},
		}
		for range 2 { // the second time they are found
			if _, err := s.Append(ctx, store.Append{RunID: "r1", Events: both}); err != nil {
				t.Error(err)
			}
		}
		if _, err := s.Begin(ctx, store.Begin{RunID: "r1", StepID: "s3", LogicalAttempt: n, EngineAttempt: 1,
			EmittedAt: time.Now()}); err != nil {
			t.Error(err)
		}
		if _, err := (newer{s}).project(ctx); err != nil {
			t.Error(err)
		}
		if _, err := (newer{s}).lease(ctx); err != nil {
			t.Error(err)
		}
		if _, err := s.Heads(ctx, []string{"r1"}); err != nil {
			t.Error(err)
		}
		if _, err := s.Events(ctx, "r1", 0, 100); err != nil {
			t.Error(err)
		}
		if _, err := s.List(ctx, store.RunFilter{TenantID: "t1", Limit: 10}); err != nil {
			t.Error(err)
		}
	}
	round(1)
	round(2)
	alter := "SET LOCAL lock_timeout = '3s';\n"
	for _, r := range rights {
		if !strings.HasPrefix(r.table, "goose") {
			alter += "ALTER TABLE " + r.table + " ADD COLUMN later int NOT NULL DEFAULT 7;\n"
		}
	}
	migrateTo(t, dsn, upTo(t, schema, later, alter))
	round(3)
}

// verifyLog checks the log of a run and its head against the rules.
func verifyLog(t *testing.T, c *pgx.Conn, runID string) {
	t.Helper()
	var broken []string
	if err := c.QueryRow(t.Context(), `SELECT array_remove(ARRAY[
		CASE WHEN max(run_seq) <> count(*) OR min(run_seq) <> 1 THEN 'holes' END,
		CASE WHEN count(DISTINCT key) <> count(*) THEN 'a key twice' END,
		CASE WHEN count(DISTINCT event_id) <> count(*) THEN 'an event id twice' END,
		CASE WHEN max(run_seq) <> (SELECT last_seq FROM run_head WHERE run_id = $1) THEN 'head elsewhere' END,
		CASE WHEN max(persisted_at) <> (SELECT last_at FROM run_head WHERE run_id = $1) THEN 'time of the head' END,
		CASE WHEN NOT (SELECT terminal FROM run_head WHERE run_id = $1) THEN 'head not terminal' END,
		CASE WHEN count(*) FILTER (WHERE type LIKE 'Run%') <> 1 THEN 'ends' END,
		CASE WHEN count(*) FILTER (WHERE type = 'StepStarted') - count(*) FILTER (WHERE type IN ('StepCompleted', 'StepFailed'))
			<> (SELECT running FROM run_head WHERE run_id = $1) THEN 'running' END,
		CASE WHEN EXISTS (SELECT FROM (SELECT persisted_at, lag(persisted_at) OVER (ORDER BY run_seq) AS prev FROM event WHERE run_id = $1) x
			WHERE persisted_at < prev) THEN 'time falls' END,
		CASE WHEN (SELECT published_seq FROM run_state WHERE run_id = $1) <> max(run_seq) THEN 'not all published' END,
		CASE WHEN EXISTS (SELECT FROM run_dirty WHERE run_id = $1) THEN 'still dirty' END
		], NULL) FROM event WHERE run_id = $1`, runID).Scan(&broken); err != nil {
		t.Fatal(err)
	}
	if len(broken) > 0 {
		t.Errorf("%s: %v", runID, broken)
	}
}

// sameState compares what both programs load with what the log alone says.
func sameState(t *testing.T, before *old, after *Store, c *pgx.Conn, runID string) {
	t.Helper()
	states := make([]string, 0, 3)
	keep := func(l store.Loaded, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		doc, err := json.Marshal(struct {
			Header run.Header
			Steps  []*run.Step
			Head   run.Seq
		}{l.State.Header, l.State.Steps, l.Head.LastSeq})
		if err != nil {
			t.Fatal(err)
		}
		states = append(states, string(doc))
	}
	keep(before.load(t.Context(), runID))
	keep(after.Load(t.Context(), runID))
	for _, table := range []string{"run_state", "step_state"} {
		if _, err := c.Exec(t.Context(), `DELETE FROM `+table+` WHERE run_id = $1`, runID); err != nil {
			t.Fatal(err)
		}
	}
	keep(after.Load(t.Context(), runID))
	for i, name := range []string{"version 1", "version 2"} {
		if diff := cmp.Diff(states[2], states[i]); diff != "" {
			t.Errorf("%s: %s (-the log says, +it loads):\n%s", runID, name, diff)
		}
	}
}

func writeOne(t *testing.T, s *Store, runID string) {
	t.Helper()
	n := store.NewRun{Run: store.Run{Identity: run.Identity{RunID: runID, TenantID: "t1", ProjectID: "p1",
		EnvironmentID: "e1", PlanID: "plan", PlanVersion: "1"}}}
	if _, _, err := s.CreateRun(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	d := run.Draft{Type: run.StepStartedEvent, StepID: "s1", LogicalAttempt: 1, EngineAttempt: 1, EmittedAt: time.Now(),
		EmittedBy: run.ByEngine}
	if _, err := s.Append(t.Context(), store.Append{RunID: runID, Events: []run.Draft{d}}); err != nil {
		t.Fatal(err)
	}
}
