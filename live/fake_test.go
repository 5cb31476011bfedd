package live_test

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/dvt-engine/dvt/live"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
	"github.com/dvt-engine/dvt/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fakeBus is a live.Bus on which the test decides about every delivery.
type fakeBus struct {
	mu               sync.Mutex
	up               bool
	manual           bool        // subscriptions wait for a confirmation
	loseConfirmation func() bool // nil: confirmations are not lost
	subs             map[*fakeSubscription]struct{}
	opened           int
	mailbox          int
}

type fakeSubscription struct {
	bus   *fakeBus
	runID string
	c     chan live.Delivery
	deaf  bool // not subscribed, although it believes so
}

func newFakeBus() *fakeBus {
	return &fakeBus{up: true, subs: map[*fakeSubscription]struct{}{}, mailbox: 64}
}

func (w *fakeBus) Publish(_ context.Context, m live.Message) error {
	w.deliver(m.RunID, live.Delivery{Message: &m})
	return nil
}

func (w *fakeBus) WakeLists(context.Context, ...live.List) error { return nil }

func (w *fakeBus) Subscribe(runID string) live.Subscription {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := &fakeSubscription{bus: w, runID: runID, c: make(chan live.Delivery, w.mailbox)}
	w.subs[s] = struct{}{}
	w.opened++
	if s.deaf = w.loseConfirmation != nil && w.loseConfirmation(); w.up && !w.manual && !s.deaf {
		s.put(live.Delivery{Confirmed: true})
	}
	return s
}

// put never blocks: it empties a full mailbox and sets Overflow in the next delivery.
func (s *fakeSubscription) put(d live.Delivery) {
	select {
	case s.c <- d:
		return
	default:
	}
	d.Overflow = true
	for range cap(s.c) {
		select {
		case old := <-s.c:
			d.Confirmed = d.Confirmed || old.Confirmed
		default:
		}
	}
	s.c <- d
}

func (w *fakeBus) SubscribeList(_, _ string) live.Subscription { panic("not for a hub") }

func (w *fakeBus) deliver(runID string, d live.Delivery) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for s := range w.subs {
		if s.runID == runID && (!s.deaf || d.Confirmed) {
			s.deaf = false
			s.put(d)
		}
	}
}

// disconnect makes all subscriptions deaf until they are confirmed again.
func (w *fakeBus) disconnect() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for s := range w.subs {
		s.deaf = true
	}
}

// isListening returns false when a subscription exists and none would receive a message.
func (w *fakeBus) isListening() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for s := range w.subs {
		if s.deaf {
			return false
		}
	}
	return w.up
}

func (w *fakeBus) setUp(up bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.up = up
}

func (w *fakeBus) Up() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.up
}

func (w *fakeBus) openSubscriptions() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.subs)
}

func (w *fakeBus) Close() error { return nil }

func (s *fakeSubscription) C() <-chan live.Delivery { return s.c }

func (s *fakeSubscription) Close() {
	s.bus.mu.Lock()
	defer s.bus.mu.Unlock()
	delete(s.bus.subs, s)
}

// fakeStore keeps whole logs and fails, hangs or loses events on demand.
type fakeStore struct {
	mu     sync.Mutex
	clock  time.Duration // offset to the clock of the test
	epoch  string
	runs   map[string]*fakeLog
	err    error
	hang   bool                 // all calls wait until the caller gives up
	stuck  bool                 // reads wait, too; head checks are answered
	delay  func() time.Duration // latency of the request and of the answer
	reads  int
	checks int
	onRead func() // called after the read has seen the log and before it answers
	skew   func(store.Loaded) store.Loaded
}

type fakeLog struct {
	name       string // identifies the logs that it was copied from
	variant    int    // index into variants; selects the next events
	evs        []run.Event
	at         []time.Time // commit times
	ops        int64
	checkpoint run.Seq // checkpoint of the projector; negative: always at the head
}

// extend appends the next n events of its variant.
func (h *fakeLog) extend(now time.Time, n int) {
	h.evs = append(h.evs, variants()[h.variant][len(h.evs):len(h.evs)+n]...)
	for range n {
		h.at = append(h.at, now)
	}
}

func (h *fakeLog) head(runID string) store.Head {
	out := store.Head{RunID: runID, LastSeq: run.Seq(len(h.evs)), OpsRev: h.ops}
	if n := len(h.at); n > 0 {
		out.LastAt = h.at[n-1]
	}
	return out
}

// state folds the first n events.
func (h *fakeLog) state(runID string, n int) run.State {
	key := fmt.Sprint(runID, " ", h.name, " ", n)
	if s, ok := folded.Load(key); ok {
		return s.(run.State)
	}
	s := run.Project(identity(runID), h.evs[:n])
	folded.Store(key, s)
	return s
}

func newFakeStore() *fakeStore { return &fakeStore{epoch: "e1", runs: map[string]*fakeLog{}} }

const testRunID = "run-a"

// create adds a run with n events.
func (a *fakeStore) create(runID string, n int) *fakeStore {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.runs[runID] = &fakeLog{checkpoint: -1}
	a.runs[runID].extend(a.now(), n)
	return a
}

// now returns the store's clock.
func (a *fakeStore) now() time.Time { return time.Now().Add(a.clock) }

// variants are two long logs of one run with the same steps in a different order.
var variants = sync.OnceValue(func() (out [2][]run.Event) {
	var steps []string
	for i := range 100 {
		steps = append(steps, fmt.Sprintf("s%03d", i))
	}
	for i := range out {
		drafts := []run.Draft{runtest.Draft(run.RunApproved, "", 1), runtest.Start(steps...)}
		order := slices.Clone(steps)
		if i == 1 {
			slices.Reverse(order)
		}
		for _, id := range order {
			drafts = append(drafts, runtest.Draft(run.StepStartedEvent, id, 1), runtest.Draft(run.StepCompletedEvent, id, 1))
		}
		out[i] = runtest.Log(append(drafts, runtest.Draft(run.RunCompleted, "", 1))...)
	}
	return out
})

func firstVariant() []run.Event { return variants()[0] }

var folded sync.Map

func identity(runID string) run.Identity {
	id := runtest.ID
	id.RunID = runID
	return id
}

// grow appends the next n events.
func (a *fakeStore) grow(runID string, n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.runs[runID].extend(a.now(), n)
}

// restore truncates the log, as a point-in-time recovery does.
func (a *fakeStore) restore(runID string, n int, epoch string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	h := a.runs[runID]
	h.evs, h.at = h.evs[:n:n], h.at[:n:n]
	a.epoch = epoch
}

// diverge restores a copy that continues with other events.
func (a *fakeStore) diverge(runID string, n int, epoch string) {
	a.restore(runID, n, epoch)
	a.mu.Lock()
	defer a.mu.Unlock()
	h := *a.runs[runID]
	h.variant, h.ops = 1-h.variant, h.ops/2
	h.name = fmt.Sprint(h.name, "/", n, ":", h.variant)
	a.runs[runID] = &h
}

func (a *fakeStore) fail(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.err = err
}

func (a *fakeStore) set(f func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	f()
}

func (a *fakeStore) head(runID string) run.Seq {
	a.mu.Lock()
	defer a.mu.Unlock()
	return run.Seq(len(a.runs[runID].evs))
}

func (a *fakeStore) count() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.reads
}

func (a *fakeStore) headChecks() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.checks
}

func (a *fakeStore) state(runID string, to run.Seq) run.State {
	a.mu.Lock()
	h := *a.runs[runID]
	a.mu.Unlock()
	return h.state(runID, int(to))
}

// message returns the message that a projector would publish for the events after from up to to.
func (a *fakeStore) message(runID string, from, to run.Seq) live.Message {
	d := a.state(runID, to).Since(from)
	a.mu.Lock()
	defer a.mu.Unlock()
	h := a.runs[runID]
	return live.Message{
		V: live.MessageVersion, TenantID: "t1", ProjectID: "p1", RunID: runID, Epoch: a.epoch, Rev: run.ReducerRev,
		From: from, To: to, OpsRev: h.ops, At: a.now(), CommittedAt: h.at[to-1], Delta: &d,
	}
}

// wait delays a request as configured.
func (a *fakeStore) wait(ctx context.Context, read bool) error {
	a.mu.Lock()
	hang := a.hang || read && a.stuck
	a.mu.Unlock()
	if hang {
		<-ctx.Done()
		return ctx.Err()
	}
	return a.travel(ctx)
}

func (a *fakeStore) travel(ctx context.Context) error {
	a.mu.Lock()
	err, delay := a.err, a.delay
	a.mu.Unlock()
	if err != nil || delay == nil {
		return err
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(delay()):
		return nil
	}
}

func (a *fakeStore) Heads(ctx context.Context, runIDs []string) (store.Heads, error) {
	if err := a.wait(ctx, false); err != nil {
		return store.Heads{}, err
	}
	a.mu.Lock()
	a.checks++
	out := store.Heads{Epoch: a.epoch, Now: a.now(), ByRun: map[string]store.Head{}}
	for _, id := range runIDs {
		if h := a.runs[id]; h != nil {
			out.ByRun[id] = h.head(id)
		}
	}
	a.mu.Unlock()
	return out, a.travel(ctx)
}

func (a *fakeStore) Since(ctx context.Context, runID string, w run.Seq) (store.Loaded, run.Delta, error) {
	a.mu.Lock()
	a.reads++
	a.mu.Unlock()
	if err := a.wait(ctx, true); err != nil {
		return store.Loaded{}, run.Delta{}, err
	}
	l, err := a.load(runID)
	if late := a.travel(ctx); late != nil {
		err = late
	}
	a.mu.Lock()
	onRead := a.onRead
	a.mu.Unlock()
	if onRead != nil {
		onRead()
	}
	d := l.State.Since(w)
	if w > 0 { // like a store whose checkpoint is at the head (contract T212)
		l.State.Steps = nil
	}
	return l, d, err
}

func (a *fakeStore) load(runID string) (store.Loaded, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	h := a.runs[runID]
	if h == nil {
		return store.Loaded{}, store.ErrNotFound
	}
	l := store.Loaded{
		State: h.state(runID, len(h.evs)), Head: h.head(runID), CheckpointAt: run.Seq(len(h.evs)), Epoch: a.epoch,
		Now: a.now(),
	}
	if h.checkpoint >= 0 && h.checkpoint < l.CheckpointAt {
		l.CheckpointAt, l.OldestUnprojected = h.checkpoint, a.now().Add(-3*time.Second)
	}
	if a.skew != nil {
		l = a.skew(l)
	}
	return l, nil
}

// frameSummary has the fields of a frame that scenarios compare.
type frameSummary struct {
	Sync   live.Sync
	Reason live.Reason
	Seq    run.Seq
	Head   run.Seq
	Reset  bool
}

func summarize(f live.Frame) frameSummary {
	return frameSummary{f.Sync, f.Reason, f.State.Seq, f.HeadSeq, f.Reset}
}

func isLive(seq run.Seq) frameSummary { return frameSummary{Sync: live.Live, Seq: seq, Head: seq} }

// fixture is a hub on a fakeBus and a fakeStore, in a synctest bubble.
type fixture struct {
	*testing.T
	bus   *fakeBus
	store *fakeStore
	hub   *live.Hub
	stop  func()
}

// runScenario runs f with one run of n events, then shuts the hub down. The bubble fails when a goroutine is left.
func runScenario(t *testing.T, n int, cfg live.Config, f func(*fixture)) {
	t.Helper()
	if cfg.Settle == 0 { // scenarios count every frame, so quiet frames after changes are off
		cfg.Settle = time.Hour
	}
	synctest.Test(t, func(t *testing.T) {
		s := &fixture{T: t, bus: newFakeBus(), store: newFakeStore().create(testRunID, n)}
		s.hub = live.New(s.store, s.bus, cfg)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- s.hub.Run(ctx) }()
		synctest.Wait()
		s.stop = sync.OnceFunc(func() {
			cancel()
			if err := <-done; err != nil {
				t.Errorf("Run: %v", err)
			}
		})
		defer s.stop()
		f(s)
		s.stop()
		if s.bus.openSubscriptions() != 0 {
			t.Errorf("%d subscriptions are open after the shutdown, want 0", s.bus.openSubscriptions())
		}
	})
}

func (s *fixture) watch() *live.Stream { return s.watchAt(nil, "") }

func (s *fixture) watchAt(after *run.Seq, epoch string) *live.Stream {
	s.Helper()
	st, err := s.hub.Watch(s.Context(), testRunID, after, epoch)
	if err != nil {
		s.Fatalf("Watch: %v", err)
	}
	return st
}

func (s *fixture) next(st *live.Stream) live.Frame {
	s.Helper()
	f, err := st.Next(s.Context())
	if err != nil {
		s.Fatalf("Next: %v", err)
	}
	if f.Sync == live.Live && f.HeadSeq > f.State.Seq {
		s.Errorf("LIVE frame at seq %d has HeadSeq %d", f.State.Seq, f.HeadSeq)
	}
	return f
}

// expect requires exactly these frames.
func (s *fixture) expect(st *live.Stream, want ...frameSummary) {
	s.Helper()
	var got []frameSummary
	for range want {
		got = append(got, summarize(s.next(st)))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		s.Fatalf("frames (-want +got):\n%s", diff)
	}
}

// expectSilence requires that no frame arrives for d.
func (s *fixture) expectSilence(st *live.Stream, d time.Duration) {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), d)
	defer cancel()
	if f, err := st.Next(ctx); err == nil {
		s.Fatalf("unexpected frame %+v", summarize(f))
	}
}

func (s *fixture) send(m live.Message) {
	s.bus.deliver(m.RunID, live.Delivery{Message: &m})
	synctest.Wait()
}

// step appends one event and delivers its message.
func (s *fixture) step() {
	head := s.store.head(testRunID)
	s.store.grow(testRunID, 1)
	s.send(s.store.message(testRunID, head, head+1))
}

// requireEqual compares a frame's state with the fold of the log.
func (s *fixture) requireEqual(f live.Frame) {
	s.Helper()
	if want := s.store.state(f.State.RunID, f.State.Seq); !reflect.DeepEqual(want, f.State) {
		s.Fatalf("state at %d (-log +frame):\n%s", f.State.Seq, cmp.Diff(want, f.State))
	}
}
