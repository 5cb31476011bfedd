package projector_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dvt-engine/dvt/live"
	"github.com/dvt-engine/dvt/projector"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
	"github.com/dvt-engine/dvt/store"
	"github.com/dvt-engine/dvt/store/decorate"
)

var databases = map[string]func(*testing.T) store.Store{"sqlite": openSQLite, "postgres": openPostgres}

// The pending events of an append equal the log byte for byte; other events are read.
// contract: T211
func TestPendingAfter_EqualsTheLog(t *testing.T) {
	t.Parallel()
	berlin := time.FixedZone("CET", 3600)
	odd := func(d run.Draft) run.Draft { // unusual JSON, and a time that stores truncate
		d.EmittedAt = time.Date(2026, 3, 4, 5, 6, 7, 123456789, berlin)
		body := slices.Concat([]byte("{ \"zeta\" : \"<ü>& \\u00e9 \\/\",\n\t\"n\":1.50e3 "), []byte(","), d.Payload[1:])
		if string(d.Payload) == "{}" {
			body = []byte("{ \"zeta\" : \"<ü>&\" , \"n\":1.50e3 }")
		}
		d.Payload = body
		return d
	}
	deadline := time.Now().Add(time.Hour)
	type entry struct {
		name string
		a    store.Append
		read bool // the log must be read
	}
	var entries []entry
	for _, typ := range runtest.Types {
		d := runtest.Draft(typ, subject(typ), 1)
		if typ == run.RunStarted {
			d = runtest.Start("s1")
		}
		stamped := typ == run.RunPaused
		opens := typ == run.StepFailedEvent || typ == run.StepCompletedEvent || typ == run.StepAwaitingManualCompletion ||
			typ == run.RunResumed
		entries = append(entries, entry{string(typ), store.Append{Events: []run.Draft{d}}, stamped},
			entry{string(typ) + " with odd bytes", store.Append{Events: []run.Draft{odd(d)}}, stamped},
			entry{string(typ) + " that may open the window", store.Append{Events: []run.Draft{odd(d)}, SetGate: run.GateFailing,
				RetryDeadline: deadline}, stamped || opens})
	}
	bare := runtest.Draft(run.StepStartedEvent, "s1", 1)
	bare.Payload = nil
	empty := bare
	empty.Payload = json.RawMessage{}
	entries = append(entries,
		entry{"no payload", store.Append{Events: []run.Draft{bare}}, false},
		entry{"an empty payload", store.Append{Events: []run.Draft{empty}}, true},
		entry{"several", store.Append{Events: []run.Draft{bare, runtest.Draft(run.StepCompletedEvent, "s1", 1),
			runtest.Draft(run.StepStartedEvent, "s2", 1)}}, false},
		entry{"several with a pause", store.Append{Events: []run.Draft{bare, runtest.Draft(run.RunPaused, "", 1)}}, true},
		entry{"with duplicates and a refusal", store.Append{Events: []run.Draft{bare, bare,
			runtest.Draft(run.StepCompletedEvent, "s1", 1), runtest.Draft(run.StepFailedEvent, "s1", 1)}}, false},
		entry{"a gate alone", store.Append{SetGate: run.GatePaused}, true},
	)
	for name, open := range databases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := open(t)
			for i, e := range entries {
				n := newRun(identity(i))
				n.Events = n.Events[:0]
				if _, _, err := s.CreateRun(t.Context(), n); err != nil {
					t.Fatal(err)
				}
				e.a.RunID = n.Run.RunID
				before, err := s.Load(t.Context(), e.a.RunID)
				if err != nil {
					t.Fatal(err)
				}
				out, err := s.Append(t.Context(), e.a)
				if e.name == "an empty payload" && errors.Is(err, run.ErrSchema) {
					continue // PostgreSQL keeps no empty payload
				}
				if err != nil {
					t.Fatalf("%s: %v", e.name, err)
				}
				got, reported := projector.PendingAfter(before.State, e.a, out)
				if reported == e.read {
					t.Errorf("%s: reported events: %v, want %v", e.name, reported, !e.read)
				}
				if !reported {
					continue
				}
				want, err := s.Events(t.Context(), e.a.RunID, before.State.Seq, store.MaxPage)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(want, got); diff != "" { // times by instant and location, payloads byte by byte
					t.Errorf("%s (-log +pending):\n%s", e.name, diff)
				}
				for j := range want {
					if w, g := want[j], got[j]; !w.EmittedAt.Equal(g.EmittedAt) || w.EmittedAt.Location() != g.EmittedAt.Location() ||
						w.PersistedAt.Location() != g.PersistedAt.Location() || (w.Payload == nil) != (g.Payload == nil) {
						t.Errorf("%s: log has %v %v, pending has %v %v", e.name, w.EmittedAt, w.PersistedAt, g.EmittedAt, g.PersistedAt)
					}
				}
				again, err := s.Append(t.Context(), e.a)
				if err != nil {
					t.Fatal(err)
				}
				if _, reported := projector.PendingAfter(before.State, e.a, again); reported {
					t.Errorf("%s: a repeated append reports the event again", e.name)
				}
			}
		})
	}
}

func subject(t run.EventType) string {
	switch {
	case t.OfStep():
		return "s1"
	case t.OfSignal():
		return "u1"
	}
	return ""
}

// gatedStore is a store whose tails can be read only while it is open.
type gatedStore struct {
	store.Store
	mu     sync.Mutex
	closed chan struct{} // nil when open
}

func (w *gatedStore) Tails(ctx context.Context, known []store.TailRequest) (store.Tails, error) {
	w.mu.Lock()
	closed := w.closed
	w.mu.Unlock()
	if closed != nil {
		<-closed
	}
	return w.Store.Tails(ctx, known)
}

// close blocks every read until the returned function is called.
func (w *gatedStore) close() (open func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	closed := make(chan struct{})
	w.closed = closed
	return sync.OnceFunc(func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.closed = nil
		close(closed)
	})
}

// contract: T211
func TestProjector_PendingEventsArePublishedWithoutARead(t *testing.T) {
	t.Parallel()
	for name, open := range databases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, bus := &gatedStore{Store: open(t)}, &fakeBus{}
			p := projector.New(s, bus, projector.Config{SweepAge: time.Hour})
			start(t, p)
			w := decorate.WakeOnCommit(s, p)
			runID := create(t, w, 1)
			eventually(t, 5*time.Second, "published", clean(t, s))
			unlock := s.close()
			t.Cleanup(unlock)
			for i := range 4 {
				if _, err := w.Append(t.Context(), store.Append{RunID: runID, Events: []run.Draft{
					runtest.Draft(run.StepStartedEvent, steps[i], 1), runtest.Draft(run.StepCompletedEvent, steps[i], 1),
				}}); err != nil {
					t.Fatal(err)
				}
				want := run.Seq(2 + 2*(i+1))
				eventually(t, 5*time.Second, "a message without a read",
					func() bool { to, _ := bus.latest(runID); return to == want })
			}
			if l, err := s.Load(t.Context(), runID); err != nil || l.CheckpointAt != 2 || l.State.Seq != 10 {
				t.Errorf("checkpoint is at %d, a reader sees %d, error %v", l.CheckpointAt, l.State.Seq, err)
			}
			unlock()
			eventually(t, 5*time.Second, "the dirty mark is cleared", clean(t, s))
			replay(t, s, runID, bus.of(runID))
		})
	}
}

// The log is read if wakes did not report everything: events of other processes, a started attempt, payloads that the
// store completes.
// contract: T211
func TestProjector_UnreportedEventsAreRead(t *testing.T) {
	t.Parallel()
	for name, open := range databases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, bus := open(t), &fakeBus{}
			p := projector.New(s, bus, projector.Config{SweepAge: time.Hour})
			start(t, p)
			w := decorate.WakeOnCommit(s, p)
			runID := create(t, w, 1)
			head := run.Seq(2)
			reached := func(what string) {
				t.Helper()
				eventually(t, 5*time.Second, what, func() bool { to, _ := bus.latest(runID); return to == head })
			}
			reached("created")
			begin(t, s, runID, 0) // by another process, which wakes nobody here
			begin(t, w, runID, 1)
			head += 2
			reached("a gap")
			if _, err := w.StartAttempt(t.Context(), store.StartAttempt{RunID: runID, StepID: steps[2], LogicalAttempt: 1,
				EngineAttempt: 1,
				EmittedAt:     runtest.Epoch}); err != nil {
				t.Fatal(err)
			}
			head++
			reached("Begin")
			for _, a := range []store.Append{
				{Events: []run.Draft{runtest.Draft(run.RunPaused, "", 1)}, SetGate: run.GatePaused},
				{Events: []run.Draft{runtest.Draft(run.RunResumed, "", 1)}, ClearGate: run.GatePaused},
				{Events: []run.Draft{runtest.Draft(run.StepFailedEvent, steps[0], 1)}, SetGate: run.GateFailing},
				{Events: []run.Draft{runtest.Draft(run.StepCompletedEvent, steps[1], 1), runtest.Draft(run.StepCompletedEvent,
					steps[2], 1)}, RetryDeadline: time.Now().Add(time.Hour)},
			} {
				a.RunID = runID
				if _, err := w.Append(t.Context(), a); err != nil {
					t.Fatal(err)
				}
				head += run.Seq(len(a.Events))
				reached(string(a.Events[0].Type))
			}
			eventually(t, 5*time.Second, "the dirty mark is cleared", clean(t, s))
			replay(t, s, runID, bus.of(runID))
		})
	}
}

// reorderingWaker delays and reorders the notifications of appends.
type reorderingWaker struct {
	*projector.Projector
	mu      sync.Mutex
	delayed []func()
}

func (b *reorderingWaker) Notify(a store.Append, out store.Appended) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.delayed = append(b.delayed, func() { b.Projector.Notify(a, out) })
}

// contract: T211
func TestProjector_AcceptsWakesInAnyOrder(t *testing.T) {
	t.Parallel()
	s, bus := openSQLite(t), &fakeBus{}
	p := projector.New(s, bus, projector.Config{SweepAge: time.Hour})
	start(t, p)
	late := &reorderingWaker{Projector: p}
	w := decorate.WakeOnCommit(s, late)
	runID := create(t, w, 1)
	eventually(t, 5*time.Second, "published", clean(t, s))
	for i := range 12 {
		begin(t, w, runID, i)
		if i%3 == 2 {
			slices.Reverse(late.delayed)
			for _, f := range late.delayed {
				f()
				time.Sleep(time.Millisecond)
			}
			late.delayed = nil
		}
	}
	eventually(t, 5*time.Second, "the last message", func() bool { to, _ := bus.latest(runID); return to == 14 })
	eventually(t, 5*time.Second, "the dirty mark is cleared", clean(t, s))
	replay(t, s, runID, bus.of(runID))
}

// If the log was replaced, the new one is published and saved, even when an append continues the cached state by its
// number.
// contract: T194
func TestProjector_PendingEventsOfAnotherHistoryAreNeverSaved(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		events int  // events of the other history
		hide   bool // hide its epoch
		last   int  // index of the store that the append reaches
	}{
		"another epoch, a log as long":  {events: 4, last: 1},
		"a shorter log":                 {events: 2, hide: true, last: 1},
		"a shorter log before the read": {events: 2, hide: true, last: 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			both, bus := []store.Store{openSQLite(t), openSQLite(t)}, &fakeBus{}
			one, two := both[0], both[1]
			s := &replacedStore{Store: one, now: one}
			p := projector.New(s, bus, projector.Config{SweepAge: time.Hour})
			start(t, p)
			runID := create(t, one, 1)
			create(t, two, 1)
			for i := range 4 {
				begin(t, one, runID, i)
			}
			for i := range c.events { // other steps
				begin(t, two, runID, 50+i)
			}
			p.Wake(runID)
			eventually(t, 5*time.Second, "published", func() bool { to, _ := bus.latest(runID); return to == 6 })
			eventually(t, 5*time.Second, "the dirty mark is cleared", clean(t, one))
			epoch, err := one.Epoch(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			s.mu.Lock()
			if s.now = two; c.hide {
				s.now = sameEpoch{two, epoch}
			}
			s.mu.Unlock()
			begin(t, decorate.WakeOnCommit(both[c.last], p), runID, 60)
			eventually(t, 5*time.Second, "the dirty mark is cleared", clean(t, two))
			l, err := two.Load(t.Context(), runID)
			if err != nil {
				t.Fatal(err)
			}
			evs, err := two.Events(t.Context(), runID, 0, store.MaxPage)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(run.Project(l.State.Identity, evs).Since(0), l.State.Since(0), ignoreBaseFields); diff != "" ||
				l.CheckpointAt != l.Head.LastSeq {
				t.Errorf("checkpoint is at %d (-log +saved):\n%s", l.CheckpointAt, diff)
			}
			messages := bus.of(runID)
			last := messages[len(messages)-1]
			if diff := cmp.Diff(l.State.Since(0), *last.Delta, ignoreBaseFields); diff != "" || last.From != 0 || !c.hide &&
				last.Epoch != l.Epoch {
				t.Errorf("the last message is of %s from %d, the log of %s (-log +message):\n%s", last.Epoch, last.From, l.Epoch,
					diff)
			}
		})
	}
}

// The log may be replaced after it was read, while its message is in flight.
// contract: T194
func TestProjector_EventsReadFromAnotherHistoryAreNeverSaved(t *testing.T) {
	t.Parallel()
	one, two, bus := openSQLite(t), openSQLite(t), &fakeBus{}
	s := &replacedStore{Store: one, now: one}
	runID := create(t, one, 1)
	create(t, two, 1)
	for i := range 4 {
		begin(t, one, runID, i)
		begin(t, two, runID, 50+i)
	}
	bus.before = func(live.Message) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.now = two
	}
	p := projector.New(s, bus, projector.Config{SweepAge: time.Hour})
	start(t, p)
	p.Wake(runID)
	eventually(t, 5*time.Second, "the dirty mark is cleared", clean(t, two))
	l, err := two.Load(t.Context(), runID)
	if err != nil {
		t.Fatal(err)
	}
	evs, err := two.Events(t.Context(), runID, 0, store.MaxPage)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(run.Project(l.State.Identity, evs).Since(0), l.State.Since(0), ignoreBaseFields); diff != "" ||
		l.CheckpointAt != 6 {
		t.Errorf("checkpoint is at %d (-log +saved):\n%s", l.CheckpointAt, diff)
	}
}

// The messages of a batch are sent concurrently.
func TestProjector_MessagesOfABatchAreConcurrent(t *testing.T) {
	t.Parallel()
	s, bus := openSQLite(t), &barrierBus{fakeBus: &fakeBus{}, all: make(chan struct{})}
	p := projector.New(s, bus, projector.Config{Workers: 1, SweepAge: time.Hour})
	for i := range 16 {
		p.Wake(create(t, s, i))
	}
	start(t, p)
	eventually(t, 30*time.Second, "all published", func() bool { return bus.count() == 16 })
}

// barrierBus is a bus that accepts no message before 16 are in flight.
type barrierBus struct {
	*fakeBus
	came atomic.Int64
	all  chan struct{}
}

func (b *barrierBus) Publish(ctx context.Context, m live.Message) error {
	if b.came.Add(1) == 16 {
		close(b.all)
	}
	select {
	case <-b.all:
		return b.fakeBus.Publish(ctx, m)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// A refused message does not affect the other messages of its batch.
// contract: T124
func TestProjector_RefusalConcernsOneMessageOfABatch(t *testing.T) {
	t.Parallel()
	s, bus := openSQLite(t), &fakeBus{}
	bus.refusal = func(m live.Message) error {
		if m.RunID == identity(3).RunID {
			return live.ErrRefused
		}
		return nil
	}
	p := projector.New(
		s, bus, quickConfig(func(c *projector.Config) { c.Workers, c.Backoff, c.MaxBackoff = 1, time.Hour, time.Hour }))
	for i := range 8 {
		p.Wake(create(t, s, i))
	}
	start(t, p)
	eventually(t, 5*time.Second, "seven dirty marks are cleared", func() bool {
		bus.mu.Lock()
		defer bus.mu.Unlock()
		return len(bus.messages) == 7 && bus.tries == 8
	})
	if p.Breaker() != projector.Closed {
		t.Errorf("breaker is %s, want CLOSED", p.Breaker())
	}
}

var errLists = errors.New("connection reset")

// When a list is woken, it shows at least the state of the message, even after a wake that failed.
// contract: T186
func TestProjector_ListsAreWokenAfterTheSave(t *testing.T) {
	t.Parallel()
	s, bus := openSQLite(t), &fakeBus{}
	id := identity(1)
	var shown run.Seq // by the list at its last wake
	failures := 1
	bus.onLists = func(lists ...live.List) error {
		if failures--; failures >= 0 {
			return errLists
		}
		if !slices.Equal(lists, []live.List{{TenantID: id.TenantID, ProjectID: id.ProjectID}}) {
			t.Errorf("woken lists: %v", lists)
		}
		rows, err := s.List(context.Background(), store.RunFilter{TenantID: id.TenantID, Text: id.RunID, Limit: 10})
		if err != nil || len(rows) != 1 {
			t.Errorf("List returned %d rows, error %v", len(rows), err)
			return err
		}
		shown = rows[0].Header.Seq
		return nil
	}
	p := projector.New(s, bus, quickConfig())
	start(t, p)
	w := decorate.WakeOnCommit(s, p)
	runID := create(t, w, 1)
	for i := range 6 {
		eventually(t, 5*time.Second, "the dirty mark is cleared", clean(t, s))
		bus.set(func() {
			if shown != run.Seq(2+i) {
				t.Errorf("the run is at %d, but the list showed %d at its last wake", 2+i, shown)
			}
			failures = i % 2
		})
		begin(t, w, runID, i)
	}
}
