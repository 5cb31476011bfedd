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

// wire is a bus whose every delivery the test decides.
type wire struct {
	mu      sync.Mutex
	up      bool
	manual  bool        // subscriptions wait for a confirmation
	unheard func() bool // whether a subscription's confirmation is lost; never when nil
	subs    map[*mailbox]struct{}
	opened  int
	mailbox int
}

type mailbox struct {
	wire  *wire
	runID string
	c     chan live.Delivery
	deaf  bool // not subscribed now, whatever it believes
}

func newWire() *wire { return &wire{up: true, subs: map[*mailbox]struct{}{}, mailbox: 64} }

func (w *wire) Publish(_ context.Context, m live.Message) error {
	w.deliver(m.RunID, live.Delivery{Message: &m})
	return nil
}

func (w *wire) WakeLists(context.Context, ...live.List) error { return nil }

func (w *wire) Subscribe(runID string) live.Subscription {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := &mailbox{wire: w, runID: runID, c: make(chan live.Delivery, w.mailbox)}
	w.subs[s] = struct{}{}
	w.opened++
	if s.deaf = w.unheard != nil && w.unheard(); w.up && !w.manual && !s.deaf {
		s.put(live.Delivery{Confirmed: true})
	}
	return s
}

// put never blocks: what a full mailbox held is lost, and the next one says so.
func (s *mailbox) put(d live.Delivery) {
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

func (w *wire) SubscribeList(_, _ string) live.Subscription { panic("not for a hub") }

func (w *wire) deliver(runID string, d live.Delivery) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for s := range w.subs {
		if s.runID == runID && (!s.deaf || d.Confirmed) {
			s.deaf = false
			s.put(d)
		}
	}
}

// cut makes all subscriptions deaf until they are confirmed again.
func (w *wire) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for s := range w.subs {
		s.deaf = true
	}
}

// hearing is false when somebody is subscribed and will not hear.
func (w *wire) hearing() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for s := range w.subs {
		if s.deaf {
			return false
		}
	}
	return w.up
}

func (w *wire) setUp(up bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.up = up
}

func (w *wire) Up() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.up
}

func (w *wire) open() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.subs)
}

func (w *wire) Close() error { return nil }

func (s *mailbox) C() <-chan live.Delivery { return s.c }

func (s *mailbox) Close() {
	s.wire.mu.Lock()
	defer s.wire.mu.Unlock()
	delete(s.wire.subs, s)
}

// archive is a store of whole logs that fails, hangs and forgets on demand.
type archive struct {
	mu     sync.Mutex
	clock  time.Duration // ahead of the tests'
	epoch  string
	runs   map[string]*history
	err    error
	hang   bool                 // answers only when the caller gives up
	stuck  bool                 // so do reads; head checks are answered
	delay  func() time.Duration // of the way there, and of the way back
	reads  int
	checks int
	onRead func() // after the read has seen the log, before it answers
	skew   func(store.Loaded) store.Loaded
}

type history struct {
	name       string // of the logs that it came from
	tale       int    // what it goes on with
	evs        []run.Event
	at         []time.Time // when each was committed
	ops        int64
	checkpoint run.Seq // of the projector; negative: always at the head
}

// extend appends the next n events of its tale.
func (h *history) extend(now time.Time, n int) {
	h.evs = append(h.evs, tales()[h.tale][len(h.evs):len(h.evs)+n]...)
	for range n {
		h.at = append(h.at, now)
	}
}

func (h *history) head(runID string) store.Head {
	out := store.Head{RunID: runID, LastSeq: run.Seq(len(h.evs)), OpsRev: h.ops}
	if n := len(h.at); n > 0 {
		out.LastAt = h.at[n-1]
	}
	return out
}

// state is the fold of the first n events.
func (h *history) state(runID string, n int) run.State {
	key := fmt.Sprint(runID, " ", h.name, " ", n)
	if s, ok := folded.Load(key); ok {
		return s.(run.State)
	}
	s := run.Project(identity(runID), h.evs[:n])
	folded.Store(key, s)
	return s
}

func newArchive() *archive { return &archive{epoch: "e1", runs: map[string]*history{}} }

const theRun = "run-a"

// create makes a run with a log of n events.
func (a *archive) create(runID string, n int) *archive {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.runs[runID] = &history{checkpoint: -1}
	a.runs[runID].extend(a.now(), n)
	return a
}

// now is the store's clock.
func (a *archive) now() time.Time { return time.Now().Add(a.clock) }

// tales are long logs of one run: the same steps one way and the other.
var tales = sync.OnceValue(func() (out [2][]run.Event) {
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

func story() []run.Event { return tales()[0] }

var folded sync.Map

func identity(runID string) run.Identity {
	id := runtest.ID
	id.RunID = runID
	return id
}

// grow appends the next n events of the story.
func (a *archive) grow(runID string, n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.runs[runID].extend(a.now(), n)
}

// restore cuts the log, as a point-in-time recovery does.
func (a *archive) restore(runID string, n int, epoch string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	h := a.runs[runID]
	h.evs, h.at = h.evs[:n:n], h.at[:n:n]
	a.epoch = epoch
}

// diverge restores a copy that goes on otherwise.
func (a *archive) diverge(runID string, n int, epoch string) {
	a.restore(runID, n, epoch)
	a.mu.Lock()
	defer a.mu.Unlock()
	h := *a.runs[runID]
	h.tale, h.ops = 1-h.tale, h.ops/2
	h.name = fmt.Sprint(h.name, "/", n, ":", h.tale)
	a.runs[runID] = &h
}

func (a *archive) fail(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.err = err
}

func (a *archive) set(f func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	f()
}

func (a *archive) head(runID string) run.Seq {
	a.mu.Lock()
	defer a.mu.Unlock()
	return run.Seq(len(a.runs[runID].evs))
}

func (a *archive) count() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.reads
}

func (a *archive) headChecks() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.checks
}

func (a *archive) state(runID string, to run.Seq) run.State {
	a.mu.Lock()
	h := *a.runs[runID]
	a.mu.Unlock()
	return h.state(runID, int(to))
}

// message is what a projector that published up to from would publish now, up to to.
func (a *archive) message(runID string, from, to run.Seq) live.Message {
	d := a.state(runID, to).Since(from)
	a.mu.Lock()
	defer a.mu.Unlock()
	h := a.runs[runID]
	return live.Message{
		V: live.MessageVersion, TenantID: "t1", ProjectID: "p1", RunID: runID, Epoch: a.epoch, Rev: run.ReducerRev,
		From: from, To: to, OpsRev: h.ops, At: a.now(), CommittedAt: h.at[to-1], Delta: &d,
	}
}

// wait is the store's trouble, on the way there.
func (a *archive) wait(ctx context.Context, read bool) error {
	a.mu.Lock()
	hang := a.hang || read && a.stuck
	a.mu.Unlock()
	if hang {
		<-ctx.Done()
		return ctx.Err()
	}
	return a.travel(ctx)
}

func (a *archive) travel(ctx context.Context) error {
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

func (a *archive) Heads(ctx context.Context, runIDs []string) (store.Heads, error) {
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

func (a *archive) Since(ctx context.Context, runID string, w run.Seq) (store.Loaded, run.Delta, error) {
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
	if w > 0 { // as a store whose checkpoint is at the head (T212)
		l.State.Steps = nil
	}
	return l, d, err
}

func (a *archive) load(runID string) (store.Loaded, error) {
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

// sight is what of a frame the scenarios speak of.
type sight struct {
	Sync   live.Sync
	Reason live.Reason
	Seq    run.Seq
	Head   run.Seq
	Reset  bool
}

func seen(f live.Frame) sight { return sight{f.Sync, f.Reason, f.State.Seq, f.HeadSeq, f.Reset} }

func isLive(seq run.Seq) sight { return sight{Sync: live.Live, Seq: seq, Head: seq} }

// scene is a hub on a wire and an archive, in a bubble of its own time.
type scene struct {
	*testing.T
	wire    *wire
	archive *archive
	hub     *live.Hub
	stop    func()
}

// play runs a scenario with one run of n events, then shuts the hub down. The
// bubble fails when a goroutine is left.
func play(t *testing.T, n int, cfg live.Config, f func(*scene)) {
	t.Helper()
	if cfg.Settle == 0 { // scenes are of what happens, and count every frame
		cfg.Settle = time.Hour
	}
	synctest.Test(t, func(t *testing.T) {
		s := &scene{T: t, wire: newWire(), archive: newArchive().create(theRun, n)}
		s.hub = live.New(s.archive, s.wire, cfg)
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
		if s.wire.open() != 0 {
			t.Errorf("%d subscriptions are open after the end", s.wire.open())
		}
	})
}

func (s *scene) watch() *live.Stream { return s.watchAt(nil, "") }

func (s *scene) watchAt(after *run.Seq, epoch string) *live.Stream {
	s.Helper()
	st, err := s.hub.Watch(s.Context(), theRun, after, epoch)
	if err != nil {
		s.Fatalf("Watch: %v", err)
	}
	return st
}

func (s *scene) next(st *live.Stream) live.Frame {
	s.Helper()
	f, err := st.Next(s.Context())
	if err != nil {
		s.Fatalf("Next: %v", err)
	}
	if f.Sync == live.Live && f.HeadSeq > f.State.Seq {
		s.Errorf("a LIVE frame at %d knows of %d", f.State.Seq, f.HeadSeq)
	}
	return f
}

// expect takes exactly these frames.
func (s *scene) expect(st *live.Stream, want ...sight) {
	s.Helper()
	var got []sight
	for range want {
		got = append(got, seen(s.next(st)))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		s.Fatalf("frames (-want +got):\n%s", diff)
	}
}

// silent is true when no frame comes for d.
func (s *scene) silent(st *live.Stream, d time.Duration) {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), d)
	defer cancel()
	if f, err := st.Next(ctx); err == nil {
		s.Fatalf("unexpected frame %+v", seen(f))
	}
}

func (s *scene) send(m live.Message) {
	s.wire.deliver(m.RunID, live.Delivery{Message: &m})
	synctest.Wait()
}

// step appends one event and delivers its message.
func (s *scene) step() {
	head := s.archive.head(theRun)
	s.archive.grow(theRun, 1)
	s.send(s.archive.message(theRun, head, head+1))
}

// equal compares a frame's state with the fold of the log.
func (s *scene) equal(f live.Frame) {
	s.Helper()
	if want := s.archive.state(f.State.RunID, f.State.Seq); !reflect.DeepEqual(want, f.State) {
		s.Fatalf("state at %d (-log +frame):\n%s", f.State.Seq, cmp.Diff(want, f.State))
	}
}
