package projector_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dvt-engine/dvt/internal/testtime"
	"github.com/dvt-engine/dvt/live"
	"github.com/dvt-engine/dvt/projector"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
	"github.com/dvt-engine/dvt/store/decorate"
)

// contract: O01, W-1
func TestProjector_SweepPublishesAfterACrash(t *testing.T) {
	t.Parallel()
	s, bus := openSQLite(t), &fakeBus{}
	runID := create(t, s, 1) // nobody projects, as after a crash
	begin(t, s, runID, 0)
	began := time.Now()
	start(t, projector.New(s, bus, projector.Config{}))
	eventually(t, 5*time.Second, "published", func() bool { to, _ := bus.latest(runID); return to == 3 })
	if d := time.Since(began); d > testtime.Of(2*time.Second) {
		t.Errorf("published only after %v", d)
	}
	eventually(t, 5*time.Second, "the dirty mark is cleared", clean(t, s))
	replay(t, s, runID, bus.of(runID))
}

// failing is the store and the bus of a process that dies at one stage.
type failing struct {
	store.Store
	live.Bus
	stage string
}

var errDied = errors.New("the process died")

func (f *failing) at(stage string) error {
	if f.stage == stage {
		return errDied
	}
	return nil
}

func (f *failing) Load(ctx context.Context, runID string) (store.Loaded, error) {
	l, err := f.Store.Load(ctx, runID)
	return l, errors.Join(err, f.at("after load"))
}

func (f *failing) Tails(ctx context.Context, known []store.TailRequest) (store.Tails, error) {
	t, err := f.Store.Tails(ctx, known)
	return t, errors.Join(err, f.at("after tail"))
}

func (f *failing) Advance(ctx context.Context, published []store.PublishedTo, save []store.CheckpointSave) ([]bool,
	error) {
	if err := f.at("before save"); err != nil && len(save) > 0 {
		return nil, err
	}
	if err := f.at("before clear"); err != nil && len(published) > 0 {
		return nil, err
	}
	saved, err := f.Store.Advance(ctx, published, save)
	return saved, errors.Join(err, f.at("after save"))
}

func (f *failing) Publish(ctx context.Context, m live.Message) error {
	if err := f.at("before publish"); err != nil {
		return err
	}
	return errors.Join(f.Bus.Publish(ctx, m), f.at("after publish"))
}

func (f *failing) Close() error { return nil }

// contract: T189, W-1
func TestProjector_CrashAtAnyStageLosesNoMessage(t *testing.T) {
	t.Parallel()
	for _, stage := range []string{"after load", "after tail", "before save", "after save", "before publish",
		"after publish", "before clear"} {
		t.Run(stage, func(t *testing.T) {
			t.Parallel()
			s, bus := openSQLite(t), &fakeBus{}
			runID := create(t, s, 1)
			begin(t, s, runID, 0)
			dying := &failing{Store: s, Bus: bus, stage: stage}
			if err := projector.New(dying, dying, projector.Config{}).Project(t.Context(), runID); !errors.Is(err, errDied) {
				t.Fatalf("Project returned %v, want errDied", err)
			}
			if clean(t, s)() {
				t.Fatal("the dirty mark was cleared before the work was complete")
			}
			l, err := s.Load(t.Context(), runID)
			if err != nil {
				t.Fatal(err)
			}
			if to, _ := bus.latest(runID); l.State.Seq < to || l.State.Seq != 3 {
				t.Errorf("a reader sees %d, but the bus announced %d", l.State.Seq, to)
			}
			if to, _ := bus.latest(runID); stage == "before save" && (to != 3 || l.CheckpointAt >= to) {
				t.Errorf("published %d, saved %d: the crash was not between the two", to, l.CheckpointAt)
			}
			start(t, projector.New(s, bus, projector.Config{}))
			eventually(t, 5*time.Second, "the dirty mark is cleared", clean(t, s))
			replay(t, s, runID, bus.of(runID))
			if evs, err := s.Events(t.Context(), runID, 0, 100); err != nil || len(evs) != 3 {
				t.Errorf("the log has %d events, error %v", len(evs), err)
			}
		})
	}
}

// contract: T173, O05
func TestProjector_TwoProjectorsMayWorkOnOneRun(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(*testing.T) store.Store{"sqlite": openSQLite, "postgres": openPostgres} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, buses := open(t), []*fakeBus{{}, {}}
			var wake []*projector.Projector
			for _, bus := range buses {
				p := projector.New(s, bus, projector.Config{Window: 10 * time.Millisecond, SweepAge: 20 * time.Millisecond})
				start(t, p)
				wake = append(wake, p)
			}
			runID := create(t, s, 1)
			for i := range 50 {
				begin(t, s, runID, i)
				for _, p := range wake {
					p.Wake(runID)
				}
			}
			eventually(t, 20*time.Second, "the dirty mark is cleared", clean(t, s))
			var all []sent
			for _, bus := range buses {
				for i, m := range bus.of(runID) { // in order within one projector
					if of := bus.of(runID); i > 0 && m.To < of[i-1].To {
						t.Errorf("message for seq %d after seq %d", m.To, of[i-1].To)
					}
				}
				all = append(all, bus.of(runID)...)
			}
			// in the order in which one bus would have them
			slices.SortFunc(all, func(a, b sent) int { return a.at.Compare(b.at) })
			replay(t, s, runID, all)
		})
	}
}

// contract: O8
func TestProjector_CoalescesAndFlushesTheLast(t *testing.T) {
	t.Parallel()
	s, bus := openSQLite(t), &fakeBus{}
	p := projector.New(s, bus, projector.Config{SweepAge: time.Hour}) // no sweep may help
	start(t, p)
	w := decorate.WakeOnCommit(s, p)
	began := time.Now()
	runID := create(t, w, 1)
	reached := func(what string, seq run.Seq) {
		t.Helper()
		eventually(t, 5*time.Second, what, func() bool { to, _ := bus.latest(runID); return to == seq })
	}
	reached("the run", 2)
	for i := range 9 { // one message each
		begin(t, w, runID, i)
		reached("one of the first", run.Seq(3+i))
	}
	for i := 9; i < 90; i++ {
		begin(t, w, runID, i)
		time.Sleep(15 * time.Millisecond)
	}
	reached("the last message", 92)
	messages := bus.of(runID)
	if most := 10 * (int((time.Since(began)+100*time.Millisecond)/time.Second) + 1); len(messages) > most ||
		len(messages) <= 10 {
		t.Errorf("%d messages in %v, want few", len(messages), time.Since(began))
	}
	// The first ones are not delayed: a distance of 100 ms would take 900 ms.
	if d := messages[9].at.Sub(messages[0].at); d > testtime.Of(800*time.Millisecond) {
		t.Errorf("the first ten messages took %v, up to %d", d, messages[9].To)
	}
	eventually(t, 5*time.Second, "the dirty mark is cleared", clean(t, s))
	replay(t, s, runID, messages)
}

// contract: T189
func TestProjector_AppendDuringPublishIsPublishedNext(t *testing.T) {
	t.Parallel()
	s, bus := openSQLite(t), &fakeBus{}
	runID := create(t, s, 1)
	var once sync.Once
	bus.before = func(live.Message) { once.Do(func() { begin(t, s, runID, 0) }) } // by another process: nobody is woken
	p := projector.New(s, bus, projector.Config{})
	if err := p.Project(t.Context(), runID); err != nil {
		t.Fatal(err)
	}
	if clean(t, s)() {
		t.Fatal("the dirty mark was cleared although an event is unpublished")
	}
	start(t, p)
	eventually(t, 5*time.Second, "published", func() bool { to, _ := bus.latest(runID); return to == 3 })
	eventually(t, 5*time.Second, "the dirty mark is cleared", clean(t, s))
	replay(t, s, runID, bus.of(runID))
}

// contract: T204
func TestProjector_OperationalChangeAloneIsPublished(t *testing.T) {
	t.Parallel()
	s, bus := openSQLite(t), &fakeBus{}
	p := projector.New(s, bus, projector.Config{SweepAge: time.Hour})
	start(t, p)
	w := decorate.WakeOnCommit(s, p)
	runID := create(t, w, 1)
	eventually(t, 5*time.Second, "published", func() bool { to, _ := bus.latest(runID); return to == 2 })
	_, before := bus.latest(runID)
	rows, err := w.Lease(t.Context(), "me", time.Minute, 10)
	if err != nil || len(rows) != 1 {
		t.Fatalf("Lease: %d rows, %v", len(rows), err)
	}
	eventually(t, 5*time.Second, "the lease", func() bool { _, ops := bus.latest(runID); return ops > before })
	_, before = bus.latest(runID)
	if err := w.Release(t.Context(), runID, rows[0].Generation, 0, "later"); err != nil {
		t.Fatal(err)
	}
	eventually(t, 5*time.Second, "the release", func() bool { _, ops := bus.latest(runID); return ops > before })
	eventually(t, 5*time.Second, "the dirty mark is cleared", clean(t, s))
	replay(t, s, runID, bus.of(runID))
}

// contract: S12
func TestProjector_BusDownKeepsTheMarkAndMovesTheCheckpoint(t *testing.T) {
	t.Parallel()
	s, bus := openSQLite(t), &fakeBus{down: true, err: errors.New("down")}
	runID := create(t, s, 1)
	begin(t, s, runID, 0)
	start(t, projector.New(s, bus, projector.Config{SweepAge: 50 * time.Millisecond}))
	eventually(t, 5*time.Second, "the checkpoint", func() bool {
		l, err := s.Load(t.Context(), runID)
		return err == nil && l.CheckpointAt == 3
	})
	time.Sleep(100 * time.Millisecond)
	if clean(t, s)() {
		t.Fatal("the dirty mark was cleared although nothing was published")
	}
	bus.set(func() { bus.down, bus.err = false, nil })
	eventually(t, 5*time.Second, "the dirty mark is cleared", clean(t, s))
	replay(t, s, runID, bus.of(runID))
}

// countingStates is States without runs that counts concurrent calls.
type countingStates struct {
	store.Store
	now, most, loads atomic.Int64
	perRun           sync.Map // runID -> *atomic.Int64
	twice            atomic.Bool
}

func (s *countingStates) Load(_ context.Context, runID string) (store.Loaded, error) {
	s.loads.Add(1)
	n := s.now.Add(1)
	defer s.now.Add(-1)
	for most := s.most.Load(); n > most && !s.most.CompareAndSwap(most, n); most = s.most.Load() {
	}
	at, _ := s.perRun.LoadOrStore(runID, new(atomic.Int64))
	if at.(*atomic.Int64).Add(1) > 1 {
		s.twice.Store(true)
	}
	defer at.(*atomic.Int64).Add(-1)
	time.Sleep(100 * time.Microsecond)
	return store.Loaded{}, store.ErrNotFound
}

func (s *countingStates) Dirty(context.Context, time.Duration, int) ([]store.DirtyRun, error) {
	return nil, nil
}

func TestProjector_TenThousandWakesAreBounded(t *testing.T) {
	s := &countingStates{}
	p := projector.New(s, &fakeBus{}, projector.Config{MaxRuns: 9000})
	before := runtime.NumGoroutine()
	start(t, p)
	for i := range 10000 {
		p.Wake(fmt.Sprint("r", i))
	}
	most := 0
	eventually(t, 20*time.Second, "all projected", func() bool {
		most = max(most, runtime.NumGoroutine()-before)
		return s.loads.Load() >= 9000
	})
	if most > 10 || s.most.Load() > 4 {
		t.Errorf("%d goroutines and %d concurrent loads, want at most 10 and 4", most, s.most.Load())
	}
	time.Sleep(50 * time.Millisecond)
	for range 2000 { // one run, woken constantly in every stage
		p.Wake("one")
		time.Sleep(50 * time.Microsecond)
	}
	if s.twice.Load() {
		t.Error("one run was projected by two workers concurrently")
	}
	before64 := s.loads.Load()
	eventually(t, 5*time.Second, "the last wake", func() bool { p.Wake("last"); return s.loads.Load() > before64 })
}
