package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
	"github.com/dvt-engine/dvt/store"
	"github.com/dvt-engine/dvt/store/storetest"
)

func compatRun(i int) run.Identity {
	return run.Identity{RunID: fmt.Sprint("r", i), TenantID: "t1", ProjectID: "p1", EnvironmentID: "e1", PlanID: "plan",
		PlanVersion: "1"}
}

const compatRuns = 2

// rounds are appends of one writer until it is told to stop; both programs fight
// for the attempts of the step "shared".
func rounds(ctx context.Context, own string, end run.EventType, stop func() bool,
	write func(context.Context, run.Identity, []run.Draft) error) error {
	draft := func(kind run.EventType, step string, la int) run.Draft {
		d := run.Draft{Type: kind, StepID: step, LogicalAttempt: la, EngineAttempt: 1, EmittedAt: time.Now(),
			EmittedBy: run.ByEngine, Payload: []byte(`{}`)}
		if kind == run.StepFailedEvent {
			d.Payload = []byte(`{"errorCode":"EXIT_STATUS","retryable":true}`)
		}
		return d
	}
	for n := 1; !stop(); n++ {
		for i := range compatRuns {
			for _, events := range [][]run.Draft{
				{draft(run.StepStartedEvent, own, n), draft(run.StepStartedEvent, "shared", n)},
				{draft(run.StepCompletedEvent, own, n), draft(end, "shared", n)},
			} {
				if err := write(ctx, compatRun(i), events); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// runOld is the process of the previous version: it writes and projects until its
// standard input ends.
func runOld(t *testing.T, path string) {
	o := openOld(t, path)
	ended := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		close(ended)
	}()
	err := rounds(t.Context(), "old", run.StepCompletedEvent, func() bool {
		select {
		case <-ended:
			return true
		default:
			return false
		}
	}, func(ctx context.Context, id run.Identity, events []run.Draft) error {
		if err := o.append(ctx, id, events); err != nil {
			return err
		}
		_, err := o.project(ctx, id)
		time.Sleep(5 * time.Millisecond) // SQLite's waiting is not fair to another process
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// contract: R508
func TestUpgrade_EveryStatementOfThePreviousVersionCompiles(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "dvt.db")
	open(t, path, Options{})
	db := raw(t, path)
	for name, statement := range storetest.Statements(t, oldSQL) {
		prepared, err := db.PrepareContext(t.Context(), statement)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		defer prepared.Close()
	}
}

// A process of the previous version has the file open and writes; this version
// migrates it and writes, too; the old one goes on.
// contract: R508
func TestUpgrade_ThePreviousVersionRunsOnWhileThisOneStarts(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	path := filepath.Join(t.TempDir(), "dvt.db")
	migrateFile(t, path, upTo(t, "0001"))
	before := openOld(t, path)
	for i := range compatRuns {
		if err := before.create(ctx, compatRun(i)); err != nil {
			t.Fatal(err)
		}
	}
	db := raw(t, path)
	count := func(query string) (n int) {
		t.Helper()
		if err := db.QueryRowContext(ctx, query).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	const ofOld, ofNew = `SELECT count(*) FROM event WHERE step_id = 'old'`,
		`SELECT count(*) FROM event WHERE step_id LIKE 'new%'`
	process := child(t, "old", path)
	stdin, err := process.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	process.Stdout = &said
	if err := process.Start(); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); count(ofOld) < 10; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the old process does not write")
		}
	}
	if n := count(`SELECT max(version_id) FROM goose_db_version`); n != 1 {
		t.Fatalf("the file is of schema %d already", n)
	}
	after := open(t, path, Options{})
	atUpgrade := count(ofOld)
	until := time.Now().Add(1500 * time.Millisecond)
	var over atomic.Bool
	var writers sync.WaitGroup
	for w := range 2 {
		writers.Go(func() {
			err := rounds(ctx, fmt.Sprint("new", w), run.StepFailedEvent, over.Load,
				func(ctx context.Context, id run.Identity, events []run.Draft) error {
					if _, err := after.Append(ctx, store.Append{RunID: id.RunID, Events: events}); err != nil {
						return err
					}
					l, err := after.Load(ctx, id.RunID)
					if err != nil {
						return err
					}
					time.Sleep(5 * time.Millisecond)
					_, err = after.Save(ctx, l.State, l.Changes)
					return errors.Join(err, after.Published(ctx, id.RunID, l.Head.LastSeq, l.Head.OpsRev))
				})
			if err != nil {
				t.Errorf("version 2: %v", err)
			}
		})
	}
	for ; time.Now().Before(until) || count(ofOld) <= atUpgrade || count(ofNew) == 0; time.Sleep(10 * time.Millisecond) {
		if time.Since(until) > time.Minute || t.Failed() {
			t.Errorf("events of version 1 at the upgrade and after: %d, %d, of version 2: %d", atUpgrade, count(ofOld),
				count(ofNew))
			break
		}
	}
	over.Store(true)
	writers.Wait()
	_ = stdin.Close()
	if err := process.Wait(); err != nil {
		t.Errorf("version 1: %v\n%s", err, said.String())
	}
	for i := range compatRuns {
		id := compatRun(i)
		var holes, keys, head, running, falls int
		if err := db.QueryRowContext(ctx, `SELECT max(run_seq) - count(*), count(*) - count(DISTINCT key),
				max(run_seq) - (SELECT last_seq FROM run_head WHERE run_id = ?1),
				sum(type = 'StepStarted') - sum(type IN ('StepCompleted', 'StepFailed')) - (SELECT running FROM run_head WHERE run_id = ?1),
				(SELECT count(*) FROM event a JOIN event b ON b.run_id = a.run_id AND b.run_seq = a.run_seq + 1 WHERE a.run_id = ?1 AND b.persisted_at < a.persisted_at)
			FROM event WHERE run_id = ?1`, id.RunID).Scan(&holes, &keys, &head, &running, &falls); err != nil {
			t.Fatal(err)
		}
		if holes != 0 || keys != 0 || head != 0 || running != 0 || falls != 0 {
			t.Errorf("%s: %d holes, %d keys twice, head off by %d, running off by %d, time falls %d times", id.RunID, holes,
				keys, head, running, falls)
		}
		sameState(t, before, after, id)
	}
	if n := count(`SELECT count(*) FROM run_dirty`); n != 0 {
		t.Errorf("%d runs still dirty", n)
	}
}

// sameState compares what both programs load with what the log alone says.
func sameState(t *testing.T, before *old, after *Store, id run.Identity) {
	t.Helper()
	render := func(st run.State) string {
		doc, err := json.Marshal(struct {
			Header run.Header
			Steps  []*run.Step
		}{st.Header, st.Steps})
		if err != nil {
			t.Fatal(err)
		}
		return string(doc)
	}
	first, err := before.project(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	second, err := after.Load(t.Context(), id.RunID)
	if err != nil {
		t.Fatal(err)
	}
	if err := after.DropCheckpoint(t.Context(), id.RunID); err != nil {
		t.Fatal(err)
	}
	log, err := after.Load(t.Context(), id.RunID)
	if err != nil {
		t.Fatal(err)
	}
	for name, st := range map[string]run.State{"version 1": first, "version 2": second.State} {
		if diff := cmp.Diff(render(log.State), render(st)); diff != "" {
			t.Errorf("%s: %s (-the log says, +it loads):\n%s", id.RunID, name, diff)
		}
	}
	if _, err := before.project(t.Context(), id); err != nil {
		t.Fatal(err)
	}
}

// A program of the schema before makes, leases, ends and stops runs on the same file: its
// runs have no place, those that wait are beside it, and lanes count right.
// contract: R508
func TestUpgrade_TheVersionBeforeWorksBesideAdmission(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	path := filepath.Join(t.TempDir(), "dvt.db")
	s := open(t, path, Options{})
	before := openOld(t, path)
	db := raw(t, path)
	terms := store.Unlimited()
	terms.Project.MaxActive = 1
	for i := range 3 { // the first is admitted, two wait
		_, _, err := s.CreateRun(ctx, store.NewRun{
			Run: store.Run{Identity: compatRun(i)}, Events: []run.Draft{runtest.Draft(run.RunApproved, "", 1)},
			Enqueue: &store.Enqueue{Terms: terms},
			Wait:    func(store.Admission) ([]run.Draft, error) { return nil, nil },
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := before.create(ctx, compatRun(3)); err != nil {
		t.Fatal(err)
	}
	lease := func() (leased []string) {
		t.Helper()
		now := time.Now()
		rows, err := db.QueryContext(ctx, before.sql["Lease"], "old", now.Add(time.Minute).UnixMicro(), now.UnixMicro(), 10)
		if err != nil {
			t.Fatal(err)
		}
		defer rows.Close()
		for rows.Next() {
			var id string
			if err := rows.Scan(append([]any{&id}, ignored(9)...)...); err != nil {
				t.Fatal(err)
			}
			leased = append(leased, id)
		}
		if err := rows.Err(); err != nil {
			t.Fatal(err)
		}
		slices.Sort(leased)
		return leased
	}
	if got := lease(); !slices.Equal(got, []string{"r0", "r3"}) {
		t.Errorf("the version before leased %v: the one that was admitted, and its own", got)
	}
	lanes := func(active, waiting int) {
		t.Helper()
		var a, w int
		if err := db.QueryRowContext(
			ctx, `SELECT active, waiting FROM lane WHERE tenant_id = 't1' AND project_id = 'p1'`).Scan(&a, &w); err != nil {
			t.Fatal(err)
		}
		if a != active || w != waiting {
			t.Errorf("%d active, %d wait; want %d, %d", a, w, active, waiting)
		}
	}
	end := func(i int) {
		t.Helper()
		if err := before.append(ctx, compatRun(i), []run.Draft{runtest.Draft(run.RunCancelled, "", 1)}); err != nil {
			t.Fatal(err)
		}
	}
	end(0)
	lanes(0, 2)
	if err := before.write(ctx, func(tx *sql.Tx) error {
		return before.each(ctx, tx, []any{"SetQueue", "CANCELLED", "", 0, int64(farAway), "stopped", "r1", 0})
	}); err != nil {
		t.Fatal(err)
	}
	end(1)
	end(3)
	lanes(0, 1)
	got, err := s.AdmitWaiting(ctx, func(string, string) store.Terms { return terms }, 10)
	if err != nil || len(got.Rows) != 1 || got.Rows[0].RunID != "r2" {
		t.Fatalf("admitted %v, %v", got, err)
	}
	if got := lease(); !slices.Equal(got, []string{"r2"}) {
		t.Errorf("the version before leased %v", got)
	}
}

// ignored are targets for columns that nobody looks at.
func ignored(n int) []any {
	out := make([]any, n)
	for i := range out {
		out[i] = new(any)
	}
	return out
}
