package projector_test

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/dvt-engine/dvt/internal/testserver"
	"github.com/dvt-engine/dvt/internal/testtime"
	"github.com/dvt-engine/dvt/live"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/projector"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
	"github.com/dvt-engine/dvt/store"
	"github.com/dvt-engine/dvt/store/postgres"
	"github.com/dvt-engine/dvt/store/sqlite"
)

func verify(m *testing.M) {
	// The PostgreSQL server and its watchers live as long as the test process.
	goleak.VerifyTestMain(m,
		goleak.IgnoreAnyFunction("github.com/dvt-engine/dvt/internal/testserver.(*sandbox).start.func1"),
		goleak.IgnoreAnyFunction("github.com/dvt-engine/dvt/internal/testserver.(*sandbox).start.func2"))
}

// fakeBus is a bus that keeps the published messages.
type fakeBus struct {
	mu       sync.Mutex
	messages []sent
	down     bool
	err      error
	before   func(live.Message) // called while publishing
	refusal  func(live.Message) error
	tries    int
	onLists  func(...live.List) error
}

type sent struct {
	live.Message
	at time.Time
}

func (p *fakeBus) Publish(_ context.Context, m live.Message) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.tries++
	if p.before != nil {
		p.before(m)
	}
	if p.refusal != nil {
		if err := p.refusal(m); err != nil {
			return err
		}
	}
	if p.err != nil {
		return p.err
	}
	p.messages = append(p.messages, sent{m, time.Now()})
	return nil
}

func (p *fakeBus) WakeLists(_ context.Context, lists ...live.List) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.onLists != nil {
		return p.onLists(lists...)
	}
	return p.err
}

func (p *fakeBus) Subscribe(string) live.Subscription          { panic("not for a projector") }
func (p *fakeBus) SubscribeList(_, _ string) live.Subscription { panic("not for a projector") }
func (p *fakeBus) Close() error                                { return nil }

func (p *fakeBus) Up() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.down
}

func (p *fakeBus) set(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f()
}

func (p *fakeBus) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.tries
}

func (p *fakeBus) of(runID string) []sent {
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

// latest returns the newest position and operational revision that were published for a run.
func (p *fakeBus) latest(runID string) (to run.Seq, ops int64) {
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
			PlanRef: plan.Ref{SHA256: strings.Repeat("ab", 32), SchemaVersion: "v1.2", PlanID: id.PlanID,
				PlanVersion: id.PlanVersion},
			Policy: run.Policy{RetryWindowMS: 60000, MaxParallelSteps: 100, MaxLogicalAttemptsManual: 10},
		},
		Plan: []byte(`{}`), Enqueue: &store.Enqueue{Terms: store.Unlimited()},
		Events: []run.Draft{runtest.Draft(run.RunApproved, "", 1), runtest.Start(steps...)},
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

// start runs a projector until the test ends or stop is called.
func start(t *testing.T, p *projector.Projector) (stop func()) {
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
		if time.Since(began) > testtime.Of(within) {
			t.Fatalf("condition %q was not met within %v", what, within)
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

// replay applies messages as a viewer does and compares the result with the log.
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
			t.Fatalf("gap after seq %d: the message covers (%d, %d]", state.Seq, m.From, m.To)
		}
		if want := evs[m.To-1].PersistedAt; !m.CommittedAt.Equal(want) {
			t.Errorf("event %d was committed at %v, the message has %v", m.To, want, m.CommittedAt)
		}
	}
	id := evs[0].Identity
	if diff := cmp.Diff(run.Project(id, evs).Since(0), state.Since(0), ignoreBaseFields); diff != "" {
		t.Errorf("state (-log +messages):\n%s", diff)
	}
	l, err := s.Load(t.Context(), runID)
	if err != nil {
		t.Fatal(err)
	}
	if l.CheckpointAt != l.Head.LastSeq || l.PublishedSeq != l.Head.LastSeq {
		t.Errorf("checkpoint is at %d, published %d, head %d", l.CheckpointAt, l.PublishedSeq, l.Head.LastSeq)
	}
}

var ignoreBaseFields = cmp.Options{
	cmp.Comparer(func(a, b time.Time) bool { return a.Equal(b) }),
	cmp.FilterPath(func(p cmp.Path) bool { // the base of a run has more fields than its log
		last := p.Last().String()
		return last == ".Policy" || last == ".CreatedAt"
	}, cmp.Ignore()),
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
