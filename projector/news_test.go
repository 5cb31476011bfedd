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

// What an append tells is what the log keeps, to the byte; what it cannot tell is read.
// contract: T211
func TestTold_IsWhatTheLogHas(t *testing.T) {
	t.Parallel()
	berlin := time.FixedZone("CET", 3600)
	odd := func(d run.Draft) run.Draft { // a payload that nobody would write, at a time that no store keeps
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
		read bool // it cannot be told
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
					continue // PostgreSQL keeps none
				}
				if err != nil {
					t.Fatalf("%s: %v", e.name, err)
				}
				got, told := projector.Told(before.State, e.a, out)
				if told == e.read {
					t.Errorf("%s: told %v", e.name, told)
				}
				if !told {
					continue
				}
				want, err := s.Events(t.Context(), e.a.RunID, before.State.Seq, store.MaxPage)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(want, got); diff != "" { // times by instant and place, payloads byte by byte
					t.Errorf("%s (-log +told):\n%s", e.name, diff)
				}
				for j := range want {
					if w, g := want[j], got[j]; !w.EmittedAt.Equal(g.EmittedAt) || w.EmittedAt.Location() != g.EmittedAt.Location() ||
						w.PersistedAt.Location() != g.PersistedAt.Location() || (w.Payload == nil) != (g.Payload == nil) {
						t.Errorf("%s: log %v %v, told %v %v", e.name, w.EmittedAt, w.PersistedAt, g.EmittedAt, g.PersistedAt)
					}
				}
				again, err := s.Append(t.Context(), e.a)
				if err != nil {
					t.Fatal(err)
				}
				if _, told := projector.Told(before.State, e.a, again); told {
					t.Errorf("%s: a repetition tells again", e.name)
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

// watched is a store whose tails are read only while it is open.
type watched struct {
	store.Store
	mu     sync.Mutex
	closed chan struct{} // nil when open
}

func (w *watched) Tails(ctx context.Context, known []store.Known) (store.Tails, error) {
	w.mu.Lock()
	closed := w.closed
	w.mu.Unlock()
	if closed != nil {
		<-closed
	}
	return w.Store.Tails(ctx, known)
}

// close makes every read wait until the returned function is called.
func (w *watched) close() (open func()) {
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
func TestProjector_WhatWasToldIsPublishedWithoutARead(t *testing.T) {
	t.Parallel()
	for name, open := range databases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, bus := &watched{Store: open(t)}, &post{}
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
				t.Errorf("checkpoint at %d, a reader sees %d, %v", l.CheckpointAt, l.State.Seq, err)
			}
			unlock()
			eventually(t, 5*time.Second, "the mark is gone", clean(t, s))
			replay(t, s, runID, bus.of(runID))
		})
	}
}

// What is not told whole is read: somebody else's events, a Begin, what the store stamps.
// contract: T211
func TestProjector_WhatWasNotToldIsRead(t *testing.T) {
	t.Parallel()
	for name, open := range databases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, bus := open(t), &post{}
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
			begin(t, s, runID, 0) // another process's, which wakes nobody here
			begin(t, w, runID, 1)
			head += 2
			reached("a gap")
			if _, err := w.Begin(t.Context(), store.Begin{RunID: runID, StepID: steps[2], LogicalAttempt: 1, EngineAttempt: 1,
				EmittedAt: runtest.Epoch}); err != nil {
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
			eventually(t, 5*time.Second, "the mark is gone", clean(t, s))
			replay(t, s, runID, bus.of(runID))
		})
	}
}

// backwards is a decorate.Waker that passes appends on late and in reverse order.
type backwards struct {
	*projector.Projector
	mu   sync.Mutex
	kept []func()
}

func (b *backwards) Appended(a store.Append, out store.Appended) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.kept = append(b.kept, func() { b.Projector.Appended(a, out) })
}

// contract: T211
func TestProjector_WakesInAnyOrder(t *testing.T) {
	t.Parallel()
	s, bus := openSQLite(t), &post{}
	p := projector.New(s, bus, projector.Config{SweepAge: time.Hour})
	start(t, p)
	late := &backwards{Projector: p}
	w := decorate.WakeOnCommit(s, late)
	runID := create(t, w, 1)
	eventually(t, 5*time.Second, "published", clean(t, s))
	for i := range 12 {
		begin(t, w, runID, i)
		if i%3 == 2 {
			slices.Reverse(late.kept)
			for _, f := range late.kept {
				f()
				time.Sleep(time.Millisecond)
			}
			late.kept = nil
		}
	}
	eventually(t, 5*time.Second, "the last message", func() bool { to, _ := bus.latest(runID); return to == 14 })
	eventually(t, 5*time.Second, "the mark is gone", clean(t, s))
	replay(t, s, runID, bus.of(runID))
}

// A log that is another one than was folded is published and saved as it is, even
// when an append fits what is known by its number.
// contract: T194
func TestProjector_WhatWasToldOfAnotherHistoryIsNeverSaved(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		events int  // of the other history
		hide   bool // its epoch
		last   int  // the one, or the other, that the append reaches
	}{
		"another epoch, a log as long":  {events: 4, last: 1},
		"a shorter log":                 {events: 2, hide: true, last: 1},
		"a shorter log before the read": {events: 2, hide: true, last: 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			both, bus := []store.Store{openSQLite(t), openSQLite(t)}, &post{}
			one, two := both[0], both[1]
			s := &restored{Store: one, now: one}
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
			eventually(t, 5*time.Second, "the mark is gone", clean(t, one))
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
			eventually(t, 5*time.Second, "the mark is gone", clean(t, two))
			l, err := two.Load(t.Context(), runID)
			if err != nil {
				t.Fatal(err)
			}
			evs, err := two.Events(t.Context(), runID, 0, store.MaxPage)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(run.Project(l.State.Identity, evs).Since(0), l.State.Since(0), alike); diff != "" ||
				l.CheckpointAt != l.Head.LastSeq {
				t.Errorf("checkpoint at %d (-log +saved):\n%s", l.CheckpointAt, diff)
			}
			messages := bus.of(runID)
			last := messages[len(messages)-1]
			if diff := cmp.Diff(l.State.Since(0), *last.Delta, alike); diff != "" || last.From != 0 || !c.hide &&
				last.Epoch != l.Epoch {
				t.Errorf("the last message is of %s from %d, the log of %s (-log +message):\n%s", last.Epoch, last.From, l.Epoch,
					diff)
			}
		})
	}
}

// The log may be replaced after it was read, while its message is on the way.
// contract: T194
func TestProjector_WhatWasReadOfAnotherHistoryIsNeverSaved(t *testing.T) {
	t.Parallel()
	one, two, bus := openSQLite(t), openSQLite(t), &post{}
	s := &restored{Store: one, now: one}
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
	eventually(t, 5*time.Second, "the mark is gone", clean(t, two))
	l, err := two.Load(t.Context(), runID)
	if err != nil {
		t.Fatal(err)
	}
	evs, err := two.Events(t.Context(), runID, 0, store.MaxPage)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(run.Project(l.State.Identity, evs).Since(0), l.State.Since(0), alike); diff != "" ||
		l.CheckpointAt != 6 {
		t.Errorf("checkpoint at %d (-log +saved):\n%s", l.CheckpointAt, diff)
	}
}

// The messages of a round do not wait for each other.
func TestProjector_AWokenRunGoesAtOnce(t *testing.T) {
	t.Parallel()
	s, bus := openSQLite(t), &patient{post: &post{}, all: make(chan struct{})}
	p := projector.New(s, bus, projector.Config{Workers: 1, SweepAge: time.Hour})
	for i := range 16 {
		p.Wake(create(t, s, i))
	}
	start(t, p)
	eventually(t, 30*time.Second, "all published", func() bool { return bus.count() == 16 })
}

// patient is a bus that takes no message before 16 are there.
type patient struct {
	*post
	came atomic.Int64
	all  chan struct{}
}

func (b *patient) Publish(ctx context.Context, m live.Message) error {
	if b.came.Add(1) == 16 {
		close(b.all)
	}
	select {
	case <-b.all:
		return b.post.Publish(ctx, m)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Errors of a round's messages are each message's own.
// contract: T124
func TestProjector_OneRefusalOfARound(t *testing.T) {
	t.Parallel()
	s, bus := openSQLite(t), &post{}
	bus.refuse = func(m live.Message) error {
		if m.RunID == identity(3).RunID {
			return live.ErrRefused
		}
		return nil
	}
	p := projector.New(
		s, bus, quick(func(c *projector.Config) { c.Workers, c.Backoff, c.MaxBackoff = 1, time.Hour, time.Hour }))
	for i := range 8 {
		p.Wake(create(t, s, i))
	}
	start(t, p)
	eventually(t, 5*time.Second, "seven marks are gone", func() bool {
		bus.mu.Lock()
		defer bus.mu.Unlock()
		return len(bus.messages) == 7 && bus.tries == 8
	})
	if p.Breaker() != projector.Closed {
		t.Errorf("breaker %s", p.Breaker())
	}
}

var errLists = errors.New("connection reset")

// A list that is woken shows what the message said, also when waking it failed once.
// contract: T186
func TestProjector_ListsAreWokenWhenItIsSaved(t *testing.T) {
	t.Parallel()
	s, bus := openSQLite(t), &post{}
	id := identity(1)
	var shown run.Seq // by the list when it was woken last
	failures := 1
	bus.onLists = func(lists ...live.List) error {
		if failures--; failures >= 0 {
			return errLists
		}
		if !slices.Equal(lists, []live.List{{TenantID: id.TenantID, ProjectID: id.ProjectID}}) {
			t.Errorf("woken: %v", lists)
		}
		rows, err := s.List(context.Background(), store.RunFilter{TenantID: id.TenantID, Text: id.RunID, Limit: 10})
		if err != nil || len(rows) != 1 {
			t.Errorf("%d rows: %v", len(rows), err)
			return err
		}
		shown = rows[0].Header.Seq
		return nil
	}
	p := projector.New(s, bus, quick())
	start(t, p)
	w := decorate.WakeOnCommit(s, p)
	runID := create(t, w, 1)
	for i := range 6 {
		eventually(t, 5*time.Second, "the mark is gone", clean(t, s))
		bus.set(func() {
			if shown != run.Seq(2+i) {
				t.Errorf("at %d the list was woken last when it showed %d", 2+i, shown)
			}
			failures = i % 2
		})
		begin(t, w, runID, i)
	}
}
