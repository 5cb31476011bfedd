package sqlite

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
	"github.com/dvt-engine/dvt/store"
	"github.com/dvt-engine/dvt/store/authority"
)

// Batch decides entries as one set, so that the conformance suite compares sets with package authority (contract T190).
// The entries may belong to several runs.
func (s *Store) Batch(ctx context.Context, _ string, entries []store.Entry) ([]store.EntryResult, error) {
	out := make([]store.EntryResult, len(entries))
	made := make([]*decision, len(entries))
	var decisions []*decision
	for i, e := range entries {
		if made[i], out[i].Err = s.prepareEntry(ctx, e); out[i].Err == nil {
			decisions = append(decisions, made[i])
		}
	}
	if err := s.write(ctx, func(c *conn) error { return s.decideSet(c, decisions) }); err != nil {
		return nil, err
	}
	for i, d := range made {
		switch {
		case d == nil:
		case d.err != nil:
			out[i].Err = d.err
		case entries[i].Start != nil:
			out[i].Started = d.startResult()
		default:
			out[i].Appended = d.appendResult()
		}
	}
	return out, nil
}

func (s *Store) prepareEntry(ctx context.Context, e store.Entry) (*decision, error) {
	if e.Start != nil {
		return s.prepareStart(ctx, *e.Start)
	}
	return s.prepareAppend(ctx, *e.Append)
}

// writeEntry writes an entry by a call of its own.
func (s *Store) writeEntry(ctx context.Context, e store.Entry) (r store.EntryResult) {
	if e.Start != nil {
		r.Started, r.Err = s.StartAttempt(ctx, *e.Start)
	} else {
		r.Appended, r.Err = s.Append(ctx, *e.Append)
	}
	return r
}

// randomEntry returns a call on one of a few steps of one of runs.
func randomEntry(r *rand.Rand, runs []string) store.Entry {
	id := runs[r.IntN(len(runs))]
	signal := fmt.Sprint("p", r.IntN(signals))
	step, attempt := fmt.Sprint("s", r.IntN(3)), 1+r.IntN(3)
	if r.IntN(4) == 0 {
		return store.Entry{Start: &store.StartAttempt{RunID: id, StepID: step, LogicalAttempt: attempt, EngineAttempt: 1,
			EmittedAt: runtest.Epoch, SignalID: signal}}
	}
	a := &store.Append{RunID: id, MinHead: run.Seq(r.IntN(4)), IfStarted: r.IntN(3) == 0}
	for range r.IntN(4) {
		kind := []run.EventType{run.StepStartedEvent, run.StepCompletedEvent, run.StepFailedEvent,
			run.StepAwaitingManualCompletion}[r.IntN(4)]
		a.Events = append(a.Events, runtest.Draft(kind, step, attempt))
	}
	switch r.IntN(12) {
	case 0:
		a.SetGate = run.GatePaused
	case 1:
		a.ClearGate = run.GatePaused
	case 2, 3:
		application := []run.Application{run.SignalDelivered, run.SignalApplied, run.SignalNoop}[r.IntN(3)]
		a.Outcomes = []store.SignalOutcome{{SignalID: signal, Application: application, AppliedBy: -1}}
	}
	if r.IntN(40) == 0 {
		a.Events = append(a.Events, runtest.Draft([]run.EventType{run.RunCancelled, run.RunCompleted}[r.IntN(2)], "", 1))
	}
	return store.Entry{Append: a}
}

const signals = 8 // per run

// newRunWithSignals creates a run with signals that are not applied yet.
func newRunWithSignals(t *testing.T, s *Store, id string) {
	t.Helper()
	newWideRun(t, s, id, 3)
	if err := s.InRun(t.Context(), id, func(tx store.RunTx) error {
		for i := range signals {
			kind := []run.SignalType{run.Pause, run.Resume}[i%2]
			r := run.SignalReceipt{Signal: run.Signal{ID: fmt.Sprint("p", i), Type: kind},
				Actor: "ola"}
			if _, err := tx.PutReceipt(t.Context(), r, true); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

// A set of decisions, on several runs and several on one run, has the same effects as calls one by one: results, logs,
// heads, receipts and dirty marks.
// contract: T190
func TestSet_EqualsCallsOneByOne(t *testing.T) {
	t.Parallel()
	now := runtest.Epoch
	o := Options{Now: func() time.Time { return now }}
	together, singly := open(t, filepath.Join(t.TempDir(), "dvt.db"), o), open(t, filepath.Join(t.TempDir(), "dvt.db"), o)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	var runs []string
	for round := range 120 {
		if round%6 == 0 { // the runs of the last rounds have ended
			runs = nil
			for i := range 4 {
				runs = append(runs, fmt.Sprintf("run-%d-%d", round, i))
				newRunWithSignals(t, together, runs[i])
				newRunWithSignals(t, singly, runs[i])
			}
		}
		now = now.Add(time.Duration(r.IntN(2000)-500) * time.Millisecond)
		entries := make([]store.Entry, 1+r.IntN(40))
		want := make([]store.EntryResult, len(entries))
		for i := range entries {
			entries[i] = randomEntry(r, runs)
			want[i] = singly.writeEntry(t.Context(), entries[i])
		}
		got, err := together.Batch(t.Context(), "", entries)
		if err != nil {
			t.Fatal(err)
		}
		for i := range entries {
			if fmt.Sprint(want[i].Err) != fmt.Sprint(got[i].Err) {
				t.Fatalf("round %d, entry %d: error %v in a set, want %v as one by one", round, i, got[i].Err, want[i].Err)
			}
			want[i].Err, got[i].Err = nil, nil
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("round %d: results differ (-one by one, +set):\n%s", round, diff)
		}
	}
	for _, query := range []string{`event ORDER BY run_id, run_seq`, `run_head ORDER BY run_id`,
		`run_dirty ORDER BY run_id`, `signal ORDER BY pos`, `delivery ORDER BY run_id`, `audit ORDER BY id`} {
		if diff := cmp.Diff(dump(t, singly, query), dump(t, together, query)); diff != "" {
			t.Errorf("%s: rows differ (-one by one, +set):\n%s", query, diff)
		}
	}
}

func dump(t *testing.T, s *Store, table string) (rows []string) {
	t.Helper()
	if err := s.read(t.Context(), func(c *conn) error {
		return c.query(t.Context(), "test", `SELECT * FROM `+table, nil, func(r row) error {
			rows = append(rows, fmt.Sprintf("%v", r))
			return nil
		})
	}); err != nil {
		t.Fatal(err)
	}
	return rows
}

// poison makes the database refuse every event of the step "poison".
const poison = `CREATE TRIGGER poison BEFORE INSERT ON event WHEN NEW.step_id = 'poison' BEGIN SELECT RAISE(ABORT, 'poison'); END`

func TestSet_ARefusedEventFailsAlone(t *testing.T) {
	t.Parallel()
	for name, span := range map[string]time.Duration{
		"after the work of another call": time.Minute,
		"first in its transaction":       -1, // the group of the first call ends with that call
	} {
		for at := range 5 {
			t.Run(fmt.Sprint(name, ", ", at), func(t *testing.T) {
				t.Parallel()
				testRefusedAlone(t, span, at)
			})
		}
	}
}

// testRefusedAlone lets five calls wait. The database refuses the i-th one.
func testRefusedAlone(t *testing.T, span time.Duration, i int) {
	t.Helper()
	var c *crowd
	c = newCrowd(t, Options{}, func(tx store.RunTx) error {
		c.s.writer.span = span
		_, err := tx.(*runTx).conn.exec(t.Context(), "test", poison)
		return err
	})
	steps := []string{"a", "b", "c", "d", "e"}
	want := append([]string{"s1"}, steps...)
	want = slices.Delete(want, i+1, i+2)
	steps[i] = "poison"
	var calls []<-chan error
	for n, step := range steps {
		calls = append(calls, c.joins(n+1, func() error { return c.start(t.Context(), step) }))
	}
	before := c.s.writer.commits.Load()
	if err := c.release(); err != nil {
		t.Fatal(err)
	}
	for n, done := range calls {
		if err := <-done; (err != nil) != (n == i) || err != nil && !strings.Contains(err.Error(), "poison") {
			t.Errorf("append of step %s: %v, want an error only of step poison", steps[n], err)
		}
	}
	groups := int64(1)
	if span < 0 {
		groups = 2
	}
	if n := c.s.writer.commits.Load() - before; n != groups {
		t.Errorf("%d commits, want %d", n, groups)
	}
	if err := c.start(t.Context(), "after"); err != nil {
		t.Error(err)
	}
	c.logIs(append(want, "after")...)
}

// An append that the authority refuses does not affect the other appends of its set.
// contract: T194
func TestSet_ARegressedAppendFailsAlone(t *testing.T) {
	t.Parallel()
	c := newCrowd(t, Options{}, nothing)
	a := c.joins(1, func() error { return c.start(t.Context(), "a") })
	b := c.joins(2, func() error {
		_, err := c.s.Append(t.Context(), store.Append{RunID: runtest.ID.RunID, MinHead: 99,
			Events: []run.Draft{runtest.Draft(run.StepStartedEvent, "b", 1)}})
		return err
	})
	d := c.joins(3, func() error { return c.start(t.Context(), "d") })
	if err := c.release(); err != nil {
		t.Fatal(err)
	}
	if err := <-b; !errors.Is(err, store.ErrRegressed) {
		t.Errorf("append with MinHead 99: %v, want %v", err, store.ErrRegressed)
	}
	if err := errors.Join(<-a, <-d); err != nil {
		t.Error(err)
	}
	c.logIs("s1", "a", "d")
}

// When a set fails, each decision is made alone. The authority may then refuse a decision that depended on the failed
// one.
// contract: T194
func TestSet_RegressedWithoutTheRefusedEvent(t *testing.T) {
	t.Parallel()
	c := newCrowd(t, Options{}, func(tx store.RunTx) error {
		_, err := tx.(*runTx).conn.exec(t.Context(), "test", poison)
		return err
	})
	a := c.joins(1, func() error { return c.start(t.Context(), "poison") })
	b := c.joins(2, func() error {
		_, err := c.s.Append(t.Context(), store.Append{RunID: runtest.ID.RunID, MinHead: 3,
			Events: []run.Draft{runtest.Draft(run.StepStartedEvent, "b", 1)}})
		return err
	})
	if err := c.release(); err != nil {
		t.Fatal(err)
	}
	if err := <-a; err == nil {
		t.Error("the append of step poison succeeded, want an error")
	}
	if err := <-b; !errors.Is(err, store.ErrRegressed) {
		t.Errorf("append with MinHead 3: %v, want %v", err, store.ErrRegressed)
	}
	c.logIs("s1")
}

func TestSet_APanicReachesOnlyItsCaller(t *testing.T) {
	t.Parallel()
	c := newCrowd(t, Options{}, nothing)
	a := c.joins(1, func() error { return c.start(t.Context(), "a") })
	b := c.joins(2, func() (err error) {
		defer func() { err = fmt.Errorf("recovered %v", recover()) }()
		d, err := c.s.prepareAppend(
			t.Context(), store.Append{RunID: runtest.ID.RunID, Events: []run.Draft{runtest.Draft(run.StepStartedEvent, "b", 1)}})
		if err != nil {
			return err
		}
		d.decide = func(store.Head, authority.Batch, authority.Facts, time.Time) (authority.Plan, error) { panic("oh") }
		return c.s.writer.decide(t.Context(), d)
	})
	d := c.joins(3, func() error { return c.start(t.Context(), "d") })
	if err := c.release(); err != nil {
		t.Fatal(err)
	}
	if err := <-b; err == nil || err.Error() != "recovered oh" {
		t.Errorf("the caller whose decision panics got %v, want the panic", err)
	}
	if err := errors.Join(<-a, <-d); err != nil {
		t.Error(err)
	}
	c.logIs("s1", "a", "d")
}

// A caller whose context ends while the leader makes its decision returns as soon as the leader no longer uses the
// decision. It does not wait for the commit.
func TestSet_AContextEndsOnlyTheWait(t *testing.T) {
	t.Parallel()
	c := newCrowd(t, Options{}, nothing)
	decideSet := c.s.writer.decideSet
	making, proceed := make(chan struct{}), make(chan struct{})
	c.s.writer.decideSet = func(conn *conn, ds []*decision) error {
		close(making)
		<-proceed
		return decideSet(conn, ds)
	}
	ctx, cancel := context.WithCancel(t.Context())
	left := c.joins(1, func() error { return c.start(ctx, "left") })
	last, commit := make(chan struct{}), make(chan struct{})
	worker := c.joins(2, func() error {
		return c.s.write(t.Context(), func(*conn) error { close(last); <-commit; return nil })
	})
	released := make(chan error, 1)
	go func() { released <- c.release() }()
	<-making
	cancel()
	select {
	case err := <-left:
		t.Errorf("the call returned while the leader used its decision: %v", err)
	case <-time.After(20 * time.Millisecond):
	}
	close(proceed)
	<-last
	select {
	case err := <-left:
		if !errors.Is(err, context.Canceled) {
			t.Errorf("the call with the ended context: %v, want %v", err, context.Canceled)
		}
	case <-time.After(time.Minute):
		t.Error("the call with the ended context waits for the commit, want it to return before")
	}
	close(commit)
	if err := errors.Join(<-worker, <-released); err != nil {
		t.Error(err)
	}
	c.logIs("s1", "left")
}

func TestSet_SevenStatementsForAnyNumberOfRuns(t *testing.T) {
	t.Parallel()
	s := open(t, filepath.Join(t.TempDir(), "dvt.db"), Options{})
	entries := make([]store.Entry, 32)
	for i := range entries {
		id := fmt.Sprint("run-", i)
		newWideRun(t, s, id, 1)
		entries[i].Append = &store.Append{RunID: id, Events: []run.Draft{runtest.Draft(run.StepStartedEvent, "s0000", 1)}}
		if _, err := s.identity(t.Context(), id); err != nil {
			t.Fatal(err)
		}
	}
	// The statements are BEGIN, heads, facts, events, heads, marks and COMMIT.
	if n := s.statementsOf(t, func() error { _, err := s.Batch(t.Context(), "", entries); return err }); n != 7 {
		t.Errorf("%d statements for %d appends, want 7", n, len(entries))
	}
}
