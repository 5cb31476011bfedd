package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/dvt-engine/dvt/internal/testserver"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

func upgradeRun(i int) run.Identity {
	return run.Identity{RunID: fmt.Sprint("r", i), TenantID: "t1", ProjectID: "p1", EnvironmentID: "e1", PlanID: "plan",
		PlanVersion: "1"}
}

// draft returns an event of a step with the current time.
func draft(kind run.EventType, step string, attempt int) run.Draft {
	d := run.Draft{Type: kind, StepID: step, LogicalAttempt: attempt, EngineAttempt: 1, EmittedAt: time.Now(),
		EmittedBy: run.ByEngine, Payload: []byte(`{}`)}
	if kind == run.StepFailedEvent {
		d.Payload = []byte(`{"errorCode":"EXIT_STATUS","retryable":true}`)
	}
	return d
}

// projectAll saves and publishes every dirty run. For every second run it acts as if the bus refused the message.
func projectAll(ctx context.Context, s *Store) error {
	dirty, err := s.Dirty(ctx, 0, 100)
	for i, d := range dirty {
		if i%2 == 1 {
			r, err := s.RecordRefusal(ctx, d.RunID, d.HeadSeq, "test", 0)
			if err == nil {
				_, err = s.AddDeadLetter(ctx, d.RunID, r.Upto, "test")
			}
			if err != nil && !errors.Is(err, store.ErrNotFound) {
				return err
			}
			continue
		}
		l, err := s.Load(ctx, d.RunID)
		if err == nil {
			_, err = s.Save(ctx, l.State, l.Changes)
		}
		if err == nil {
			err = s.MarkPublished(ctx, d.RunID, l.Head.LastSeq, l.Head.OpsRev)
		}
		if err != nil {
			return err
		}
	}
	return err
}

// Servers of this version write, lease and project while the database is migrated to the synthetic next version. They
// continue beside servers of the next version.
// contract: R508
func TestUpgrade_ThisVersionContinuesWhileTheNextStarts(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	dsn := testserver.Postgres(t)
	before, err := Open(ctx, dsn, Options{Migrate: true})
	if err != nil {
		t.Fatal(err)
	}
	defer before.Close()
	const runs = 4
	for i := range runs {
		if _, _, err := before.CreateRun(ctx, store.NewRun{Run: store.Run{Identity: upgradeRun(i), TriggeredBy: "ola"},
			Enqueue: &store.Enqueue{Terms: store.Unlimited()}}); err != nil {
			t.Fatal(err)
		}
	}
	var stopped atomic.Bool
	var servers sync.WaitGroup
	var leases atomic.Int64
	var written [2]atomic.Int64
	work := func(s *Store, as int) {
		end := []run.EventType{run.StepCompletedEvent, run.StepFailedEvent}[as]
		for i := range runs {
			for w := range 2 {
				own := fmt.Sprintf("s-%d-%d", as, w)
				servers.Go(func() {
					for n := 1; !stopped.Load(); n++ {
						for _, events := range [][]run.Draft{ // both versions compete for the attempts of the step "shared"
							{draft(run.StepStartedEvent, own, n), draft(run.StepStartedEvent, "shared", n)},
							{draft(run.StepCompletedEvent, own, n), draft(end, "shared", n)},
						} {
							if _, err := s.Append(ctx, store.Append{RunID: upgradeRun(i).RunID, Events: events}); err != nil {
								t.Errorf("server %d: append: %v", as, err)
								return
							}
							written[as].Add(1)
						}
					}
				})
			}
		}
		servers.Go(func() {
			for !stopped.Load() {
				if err := projectAll(ctx, s); err != nil {
					t.Errorf("server %d: project: %v", as, err)
					return
				}
				rows, err := s.Lease(ctx, fmt.Sprint("server", as), time.Minute, 1)
				if err != nil {
					t.Errorf("server %d: lease: %v", as, err)
					return
				}
				leases.Add(int64(len(rows)))
			}
		})
	}
	waitFor := func(as int, more int64) {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); written[as].Load() <= more && !t.Failed(); time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("server %d appended nothing within a minute", as)
			}
		}
	}
	work(before, 0)
	waitFor(0, 0)
	time.Sleep(200 * time.Millisecond)
	if err := nextVersion(t).Run(ctx, dsn); err != nil {
		t.Error(err)
	}
	after, err := Open(ctx, dsn, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer after.Close()
	beside := written[0].Load()
	work(after, 1)
	time.Sleep(1500 * time.Millisecond)
	waitFor(0, beside)
	waitFor(1, 0)
	stopped.Store(true)
	servers.Wait()
	if n := leases.Load(); n != runs {
		t.Errorf("%d leases of %d runs, want one for each", n, runs)
	}
	for i := range runs { // both versions try to end the run
		var ends sync.WaitGroup
		for as, s := range []*Store{before, after} {
			kind := []run.EventType{run.RunCompleted, run.RunCancelled}[as]
			ends.Go(func() {
				if _, err := s.Append(ctx, store.Append{RunID: upgradeRun(i).RunID,
					Events: []run.Draft{draft(kind, "", 1)}}); err != nil {
					t.Errorf("end by server %d: %v", as, err)
				}
			})
		}
		ends.Wait()
	}
	for range 3 {
		if err := projectAll(ctx, before); err != nil {
			t.Fatal(err)
		}
	}
	c := dial(t, dsn)
	for i := range runs {
		verifyLog(t, c, upgradeRun(i).RunID)
	}
}

// A server that has prepared its statements continues while every table gets a new column.
// contract: R508
func TestUpgrade_PreparedStatementsSurviveNewColumns(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	dsn := testserver.Postgres(t)
	s, err := Open(ctx, dsn, Options{Migrate: true, MaxConns: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	useAll := func(n int) {
		t.Helper()
		writeOne(t, s, fmt.Sprint("r", n))
		both := []run.Draft{draft(run.StepStartedEvent, "s2", n), draft(run.StepCompletedEvent, "s2", n)}
		check := func(what string, err error) {
			t.Helper()
			if err != nil {
				t.Errorf("%s: %v", what, err)
			}
		}
		for range 2 { // the second append finds duplicates
			_, err := s.Append(ctx, store.Append{RunID: "r1", Events: both})
			check("append", err)
		}
		_, err := s.StartAttempt(ctx, store.StartAttempt{RunID: "r1", StepID: "s3", LogicalAttempt: n, EngineAttempt: 1,
			EmittedAt: time.Now()})
		check("start attempt", err)
		check("project", projectAll(ctx, s))
		_, err = s.Lease(ctx, "server", time.Minute, 1)
		check("lease", err)
		_, err = s.Heads(ctx, []string{"r1"})
		check("heads", err)
		_, err = s.Events(ctx, "r1", 0, 100)
		check("events", err)
		_, err = s.List(ctx, store.RunFilter{TenantID: "t1", Limit: 10})
		check("list", err)
	}
	useAll(1)
	useAll(2)
	alter := "SET LOCAL lock_timeout = '3s';\n"
	for _, r := range rights {
		if !strings.HasPrefix(r.table, "goose") {
			alter += "ALTER TABLE " + r.table + " ADD COLUMN later int NOT NULL DEFAULT 7;\n"
		}
	}
	migrateTo(t, dsn, upTo(t, schema, later, alter))
	useAll(3)
}

// verifyLog checks the log of a run and its head against the invariants.
func verifyLog(t *testing.T, c *pgx.Conn, runID string) {
	t.Helper()
	var broken []string
	if err := c.QueryRow(t.Context(), `SELECT array_remove(ARRAY[
		CASE WHEN max(run_seq) <> count(*) OR min(run_seq) <> 1 THEN 'gaps' END,
		CASE WHEN count(DISTINCT key) <> count(*) THEN 'duplicate key' END,
		CASE WHEN count(DISTINCT event_id) <> count(*) THEN 'duplicate event id' END,
		CASE WHEN max(run_seq) <> (SELECT last_seq FROM run_head WHERE run_id = $1) THEN 'wrong last_seq of the head' END,
		CASE WHEN max(persisted_at) <> (SELECT last_at FROM run_head WHERE run_id = $1) THEN 'wrong last_at of the head' END,
		CASE WHEN NOT (SELECT terminal FROM run_head WHERE run_id = $1) THEN 'head not terminal' END,
		CASE WHEN count(*) FILTER (WHERE type LIKE 'Run%') <> 1 THEN 'not exactly one end' END,
		CASE WHEN count(*) FILTER (WHERE type = 'StepStarted')
			- count(*) FILTER (WHERE type IN ('StepCompleted', 'StepFailed'))
			<> (SELECT running FROM run_head WHERE run_id = $1) THEN 'wrong count of running attempts' END,
		CASE WHEN EXISTS (SELECT FROM (SELECT persisted_at, lag(persisted_at) OVER (ORDER BY run_seq) AS prev FROM event
			WHERE run_id = $1) x WHERE persisted_at < prev) THEN 'decreasing time' END,
		CASE WHEN (SELECT published_seq FROM run_state WHERE run_id = $1) <> max(run_seq) THEN 'not all published' END,
		CASE WHEN EXISTS (SELECT FROM run_dirty WHERE run_id = $1) THEN 'still dirty' END
		], NULL) FROM event WHERE run_id = $1`, runID).Scan(&broken); err != nil {
		t.Fatal(err)
	}
	if len(broken) > 0 {
		t.Errorf("the log of %s has faults: %v", runID, broken)
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
