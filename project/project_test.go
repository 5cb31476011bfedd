package project_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/dvt-engine/dvt/internal/testserver"
	"github.com/dvt-engine/dvt/live"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/project"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
	"github.com/dvt-engine/dvt/store"
	"github.com/dvt-engine/dvt/store/postgres"
	"github.com/dvt-engine/dvt/store/sqlite"
)

func TestMain(m *testing.M) {
	// The PostgreSQL server lives as long as the test process, and so do its watchers.
	goleak.VerifyTestMain(m,
		goleak.IgnoreAnyFunction("github.com/dvt-engine/dvt/internal/testserver.(*sandbox).start.func1"),
		goleak.IgnoreAnyFunction("github.com/dvt-engine/dvt/internal/testserver.(*sandbox).start.func2"))
}

// post is a bus that keeps what was published.
type post struct {
	mu       sync.Mutex
	messages []sent
	down     bool
	err      error
	before   func(live.Message) // called while publishing
}

type sent struct {
	live.Message
	at time.Time
}

func (p *post) Publish(_ context.Context, m live.Message) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.before != nil {
		p.before(m)
	}
	if p.err != nil {
		return p.err
	}
	p.messages = append(p.messages, sent{m, time.Now()})
	return nil
}

func (p *post) Subscribe(string) live.Subscription          { panic("not for a projector") }
func (p *post) SubscribeList(_, _ string) live.Subscription { panic("not for a projector") }
func (p *post) Close() error                                { return nil }

func (p *post) Up() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.down
}

func (p *post) set(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f()
}

func (p *post) of(runID string) []sent {
	p.mu.Lock()
	defer p.mu.Unlock()
	var out []sent
	for _, m := range p.messages {
		if m.RunID == runID {
			out = append(out, m)
		}
	}
	return out
}

// latest is the newest state and opsRev that somebody who heard everything knows.
func (p *post) latest(runID string) (to run.Seq, ops int64) {
	for _, m := range p.of(runID) {
		to, ops = max(to, m.To), max(ops, m.OpsRev)
	}
	return to, ops
}

func openSQLite(t *testing.T) store.Store {
	t.Helper()
	s, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "dvt.db"), sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func identity(n int) run.Identity {
	id := runtest.ID
	id.RunID = fmt.Sprintf("run-%05d", n)
	return id
}

func newRun(id run.Identity) store.NewRun {
	return store.NewRun{
		Run: store.Run{
			Identity: id, RequestID: id.RunID, TriggeredBy: "ola", TriggerSource: "api", Params: []byte(`{}`),
			RequestKey: run.RequestKey(id.TenantID, id.ProjectID, id.EnvironmentID, id.PlanID, id.PlanVersion, id.RunID),
			PlanRef:    plan.Ref{SHA256: strings.Repeat("ab", 32), SchemaVersion: "v1.2", PlanID: id.PlanID, PlanVersion: id.PlanVersion},
			Policy:     run.Policy{RetryWindowMS: 60000, MaxParallelSteps: 100, MaxLogicalAttemptsManual: 10},
		},
		Plan: []byte(`{}`), Queue: true, Events: []run.Draft{runtest.Draft(run.RunApproved, "", 1), runtest.Start(steps...)},
	}
}

var steps = func() (out []string) {
	for i := range 100 {
		out = append(out, fmt.Sprintf("s%03d", i))
	}
	return out
}()

// create makes a run whose head is 2.
func create(t *testing.T, s store.Store, n int) string {
	t.Helper()
	id := identity(n)
	if _, created, err := s.CreateRun(t.Context(), newRun(id)); err != nil || !created {
		t.Fatalf("CreateRun: %v, %v", created, err)
	}
	return id.RunID
}

func begin(t *testing.T, s store.Store, runID string, step int) {
	t.Helper()
	if _, err := s.Append(t.Context(), store.Append{
		RunID: runID, Events: []run.Draft{runtest.Draft(run.StepStartedEvent, steps[step], 1)},
	}); err != nil {
		t.Fatal(err)
	}
}

// start runs a projector until the test, or the returned function, ends it.
func start(t *testing.T, p *project.Projector) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	t.Cleanup(stop)
	return stop
}

func eventually(t *testing.T, within time.Duration, what string, ok func() bool) {
	t.Helper()
	for began := time.Now(); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Since(began) > within {
			t.Fatalf("%s: not within %v", what, within)
		}
	}
}

func clean(t *testing.T, s store.States) func() bool {
	return func() bool {
		dirty, err := s.Dirty(t.Context(), 0, 1000)
		if err != nil {
			t.Fatal(err)
		}
		return len(dirty) == 0
	}
}

// replay applies messages as a viewer would, and compares with the log.
func replay(t *testing.T, s store.Store, runID string, messages []sent) {
	t.Helper()
	evs, err := s.Events(t.Context(), runID, 0, store.MaxPage)
	if err != nil {
		t.Fatal(err)
	}
	state := run.State{}
	for _, m := range messages {
		var verdict run.Verdict
		if state, verdict = state.Apply(*m.Delta); verdict == run.Gap {
			t.Fatalf("a gap at %d: (%d, %d]", state.Seq, m.From, m.To)
		}
	}
	id := evs[0].Identity
	if diff := cmp.Diff(run.Project(id, evs).Since(0), state.Since(0), alike); diff != "" {
		t.Errorf("state (-log +messages):\n%s", diff)
	}
	l, err := s.Load(t.Context(), runID)
	if err != nil {
		t.Fatal(err)
	}
	if l.CheckpointAt != l.Head.LastSeq || l.PublishedSeq != l.Head.LastSeq {
		t.Errorf("checkpoint at %d, published %d, head %d", l.CheckpointAt, l.PublishedSeq, l.Head.LastSeq)
	}
}

var alike = cmp.Options{
	cmp.Comparer(func(a, b time.Time) bool { return a.Equal(b) }),
	cmp.FilterPath(func(p cmp.Path) bool { // the base of a run knows more than its log
		last := p.Last().String()
		return last == ".Policy" || last == ".CreatedAt"
	}, cmp.Ignore()),
}

func TestProjector_O01_W1_CrashBetweenAppendAndPublish(t *testing.T) {
	t.Parallel()
	s, bus := openSQLite(t), &post{}
	runID := create(t, s, 1) // nobody projects: the process is gone
	begin(t, s, runID, 0)
	began := time.Now()
	start(t, project.New(s, bus, project.Config{}))
	eventually(t, 5*time.Second, "published", func() bool { to, _ := bus.latest(runID); return to == 3 })
	if d := time.Since(began); d > 2*time.Second {
		t.Errorf("published after %v", d)
	}
	eventually(t, 5*time.Second, "the mark is gone", clean(t, s))
	replay(t, s, runID, bus.of(runID))
}

// failing is States of a process that dies at one stage.
type failing struct {
	store.States
	stage string
}

var errDied = errors.New("the process died")

func (f *failing) die(stage string) bool { return f.stage == stage }

func (f *failing) Load(ctx context.Context, runID string) (store.Loaded, error) {
	l, err := f.States.Load(ctx, runID)
	if f.die("after load") {
		return l, errDied
	}
	return l, err
}

func (f *failing) Save(ctx context.Context, s run.State, c run.Changes) (bool, error) {
	saved, err := f.States.Save(ctx, s, c)
	if f.die("after save") {
		return saved, errDied
	}
	return saved, err
}

func (f *failing) Published(ctx context.Context, runID string, to run.Seq, ops int64) error {
	if f.die("after publish") {
		return errDied
	}
	return f.States.Published(ctx, runID, to, ops)
}

func TestProjector_T189_KilledAtAnyStageLosesNothing(t *testing.T) {
	t.Parallel()
	for _, stage := range []string{"after load", "after save", "after publish"} {
		t.Run(stage, func(t *testing.T) {
			t.Parallel()
			s, bus := openSQLite(t), &post{}
			runID := create(t, s, 1)
			begin(t, s, runID, 0)
			p := project.New(&failing{States: s, stage: stage}, bus, project.Config{})
			if err := p.Project(t.Context(), runID); !errors.Is(err, errDied) {
				t.Fatalf("error %v", err)
			}
			if clean(t, s)() {
				t.Fatal("the mark is gone before everything was done")
			}
			start(t, project.New(s, bus, project.Config{}))
			eventually(t, 5*time.Second, "the mark is gone", clean(t, s))
			replay(t, s, runID, bus.of(runID))
		})
	}
}

func TestProjector_T173_O05_TwoAtOnce(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(*testing.T) store.Store{"sqlite": openSQLite, "postgres": openPostgres} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, buses := open(t), []*post{{}, {}}
			var wake []*project.Projector
			for _, bus := range buses {
				p := project.New(s, bus, project.Config{MinInterval: time.Millisecond, SweepAge: 20 * time.Millisecond})
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
			eventually(t, 20*time.Second, "the mark is gone", clean(t, s))
			var all []sent
			for _, bus := range buses {
				for i, m := range bus.of(runID) { // in order within one projector
					if of := bus.of(runID); i > 0 && m.To < of[i-1].To {
						t.Errorf("%d after %d", m.To, of[i-1].To)
					}
				}
				all = append(all, bus.of(runID)...)
			}
			slices.SortFunc(all, func(a, b sent) int { return a.at.Compare(b.at) }) // as one bus would have them
			replay(t, s, runID, all)
		})
	}
}

func openPostgres(t *testing.T) store.Store {
	t.Helper()
	dsn := testserver.Postgres(t)
	if err := postgres.Migrate(t.Context(), dsn); err != nil {
		t.Fatal(err)
	}
	s, err := postgres.Open(t.Context(), dsn, postgres.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func TestProjector_O8_CoalescesAndFlushesTheLast(t *testing.T) {
	t.Parallel()
	s, bus := openSQLite(t), &post{}
	p := project.New(s, bus, project.Config{SweepAge: time.Hour}) // no sweep may help
	start(t, p)
	w := project.Waking(s, p)
	runID := create(t, w, 1)
	began := time.Now()
	for i := range 90 {
		begin(t, w, runID, i)
		time.Sleep(8 * time.Millisecond)
	}
	eventually(t, 5*time.Second, "the last message", func() bool { to, _ := bus.latest(runID); return to == 92 })
	took := time.Since(began)
	messages := bus.of(runID)
	if most := int(took/(100*time.Millisecond)) + 2; len(messages) > most || len(messages) < 3 {
		t.Errorf("%d messages in %v", len(messages), took)
	}
	for i := 1; i < len(messages); i++ {
		if d := messages[i].at.Sub(messages[i-1].at); d < 95*time.Millisecond {
			t.Errorf("two messages within %v", d)
		}
	}
	eventually(t, 5*time.Second, "the mark is gone", clean(t, s))
	replay(t, s, runID, messages)
}

func TestProjector_T189_AppendDuringPublishIsPublishedNext(t *testing.T) {
	t.Parallel()
	s, bus := openSQLite(t), &post{}
	runID := create(t, s, 1)
	var once sync.Once
	bus.before = func(live.Message) { once.Do(func() { begin(t, s, runID, 0) }) } // by another process: nobody is woken
	p := project.New(s, bus, project.Config{})
	if err := p.Project(t.Context(), runID); err != nil {
		t.Fatal(err)
	}
	if clean(t, s)() {
		t.Fatal("the mark of an event that was not published is gone")
	}
	start(t, p)
	eventually(t, 5*time.Second, "published", func() bool { to, _ := bus.latest(runID); return to == 3 })
	eventually(t, 5*time.Second, "the mark is gone", clean(t, s))
	replay(t, s, runID, bus.of(runID))
}

func TestProjector_T204_OperationalChangeAloneIsPublished(t *testing.T) {
	t.Parallel()
	s, bus := openSQLite(t), &post{}
	p := project.New(s, bus, project.Config{SweepAge: time.Hour})
	start(t, p)
	w := project.Waking(s, p)
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
	eventually(t, 5*time.Second, "the mark is gone", clean(t, s))
	replay(t, s, runID, bus.of(runID))
}

func TestProjector_S12_BusDownKeepsTheMarkAndMovesTheCheckpoint(t *testing.T) {
	t.Parallel()
	s, bus := openSQLite(t), &post{down: true, err: errors.New("down")}
	runID := create(t, s, 1)
	begin(t, s, runID, 0)
	start(t, project.New(s, bus, project.Config{SweepAge: 50 * time.Millisecond}))
	eventually(t, 5*time.Second, "the checkpoint", func() bool {
		l, err := s.Load(t.Context(), runID)
		return err == nil && l.CheckpointAt == 3
	})
	time.Sleep(100 * time.Millisecond)
	if clean(t, s)() {
		t.Fatal("the mark is gone, and nothing was published")
	}
	bus.set(func() { bus.down, bus.err = false, nil })
	eventually(t, 5*time.Second, "the mark is gone", clean(t, s))
	replay(t, s, runID, bus.of(runID))
}

// wakes counts what was woken.
type wakes struct{ n map[string]int }

func (w wakes) Wake(runID string) { w.n[runID]++ }

func TestWaking_T211_EveryCommitThatMarksWakes(t *testing.T) {
	t.Parallel()
	s, w := openSQLite(t), wakes{map[string]int{}}
	d := project.Waking(s, w)
	id := identity(1)
	runID, ctx := id.RunID, t.Context()
	var lease store.QueueRow
	var delivery store.Delivery
	for _, c := range []struct {
		name string
		call func() error
	}{
		{"CreateRun", func() error { _, _, err := d.CreateRun(ctx, newRun(id)); return err }},
		{"Lease", func() error {
			rows, err := d.Lease(ctx, "me", time.Minute, 1)
			if err == nil {
				lease = rows[0]
			}
			return err
		}},
		{"Release", func() error { return d.Release(ctx, runID, lease.Generation, 0, "") }},
		{"Lease again", func() error {
			rows, err := d.Lease(ctx, "me", time.Minute, 1)
			if err == nil {
				lease = rows[0]
			}
			return err
		}},
		{"Started", func() error { return d.Started(ctx, runID, lease.Generation) }},
		{"Append", func() error {
			_, err := d.Append(ctx, store.Append{RunID: runID, Events: []run.Draft{runtest.Draft(run.StepStartedEvent, steps[0], 1)}})
			return err
		}},
		{"Begin", func() error {
			_, err := d.Begin(ctx, store.Begin{RunID: runID, StepID: steps[1], LogicalAttempt: 1, EngineAttempt: 1, EmittedAt: runtest.Epoch})
			return err
		}},
		{"InRun", func() error {
			return d.InRun(ctx, runID, func(tx store.RunTx) error {
				_, err := tx.PutReceipt(ctx, run.Receipt{
					Signal: run.Signal{ID: "u1", Type: run.Pause}, Actor: "ola", Reason: "because",
					Payload: []byte(`{"pause":{"reason":"because"}}`), Application: run.SignalPending,
				}, true)
				return err
			})
		}},
		{"Delivered", func() error {
			ds, err := d.LeaseDeliveries(ctx, "me", time.Minute, 1)
			if err != nil || len(ds) != 1 {
				return fmt.Errorf("%d deliveries: %w", len(ds), err)
			}
			delivery = ds[0]
			return d.Delivered(ctx, delivery, 1)
		}},
		{"Settle", func() error { return d.Settle(ctx, delivery, 0) }},
	} {
		before, woken := mark(t, s, runID), w.n[runID]
		if err := c.call(); err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		if after := mark(t, s, runID); after != before && w.n[runID] == woken {
			t.Errorf("%s moved the mark from %v to %v and woke nobody", c.name, before, after)
		} else if after == before && c.name != "Settle" {
			t.Errorf("%s did not move the mark: the case proves nothing", c.name)
		}
	}
	other := identity(2)
	if err := d.Import(ctx, newRun(other), nil); err == nil && w.n[other.RunID] == 0 {
		t.Error("Import woke nobody")
	}
}

func mark(t *testing.T, s store.Store, runID string) store.DirtyRun {
	t.Helper()
	dirty, err := s.Dirty(t.Context(), 0, 100)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range dirty {
		if d.RunID == runID {
			return d
		}
	}
	return store.DirtyRun{}
}

// slow is States without a run, that counts how many ask at once.
type slow struct {
	store.States
	now, most, loads atomic.Int64
	perRun           sync.Map // runID -> *atomic.Int64
	twice            atomic.Bool
}

func (s *slow) Load(_ context.Context, runID string) (store.Loaded, error) {
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

func (s *slow) Dirty(context.Context, time.Duration, int) ([]store.DirtyRun, error) { return nil, nil }

func TestProjector_TenThousandWakesAreBounded(t *testing.T) {
	s := &slow{}
	p := project.New(s, &post{}, project.Config{MinInterval: 20 * time.Millisecond, MaxRuns: 9000})
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
		t.Errorf("%d goroutines, %d loads at once", most, s.most.Load())
	}
	time.Sleep(50 * time.Millisecond)
	for range 2000 { // one run, woken all the time, in every stage
		p.Wake("one")
		time.Sleep(50 * time.Microsecond)
	}
	if s.twice.Load() {
		t.Error("a run was projected twice at once")
	}
	before64 := s.loads.Load()
	eventually(t, 5*time.Second, "the last wake", func() bool { p.Wake("last"); return s.loads.Load() > before64 })
}
