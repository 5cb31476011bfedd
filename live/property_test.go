package live_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dvt-engine/dvt/live"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// The test simulates a store and two unreliable buses for the hubs of two servers. The clock of one server is one
// minute off. Every frame of every viewer is checked against the contract of frames.
// contract: O9, T21, T22, T187, T226
func TestHub_FramesObeyTheContractUnderFaults(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { newSimulation(t, seed).run() })
		})
	}
}

// Times of contract T226, plus the delay until a viewer sees the frame.
const (
	soon     = 2*time.Second + 50*time.Millisecond
	tailSoon = 3*time.Second + 50*time.Millisecond
	repaired = 5 * time.Second
	slowest  = 150 * time.Millisecond // one-way latency to the store
)

// simulation has two hubs on one store, each with an unreliable bus. It records what happened, and frames are
// compared with this record.
type simulation struct {
	*testing.T
	r     *rand.Rand
	store *fakeStore
	buses [2]*fakeBus
	hubs  [2]*live.Hub
	ctx   context.Context //nolint:containedctx // lifetime of the simulation

	mu             sync.Mutex
	epochs         []*epochRecord // the last one is current
	healthySince   [2]time.Time   // zero while something is wrong for the hub
	storeDownSince time.Time      // since when head checks are not answered; zero while they are
	busDownSince   [2]time.Time
	viewers        []*viewer
}

// epochRecord is one epoch of the store.
type epochRecord struct {
	epoch string
	began time.Time
	log   fakeLog
	moves []move // changes of the head; the first is the initial state
}

type move struct {
	at  time.Time
	seq run.Seq
	ops int64
}

func newSimulation(t *testing.T, seed uint64) *simulation {
	w := &simulation{T: t, r: rand.New(rand.NewPCG(seed, 7)), store: newFakeStore()}
	w.store.clock = 37 * time.Minute
	w.store.create(testRunID, 2)
	var mu sync.Mutex
	delays := rand.New(rand.NewPCG(seed, 8))
	random := func(d time.Duration) time.Duration {
		mu.Lock()
		defer mu.Unlock()
		return time.Duration(delays.Int64N(int64(d)))
	}
	w.store.delay = func() time.Duration { return random(slowest) }
	for i := range w.hubs {
		w.buses[i] = newFakeBus()
		w.buses[i].mailbox = 4
		w.buses[i].loseConfirmation = func() bool { return random(time.Second) < 300*time.Millisecond }
		w.hubs[i] = live.New(
			w.store, w.buses[i], live.Config{Now: func() time.Time { return time.Now().Add(time.Duration(i) * time.Minute) }})
	}
	w.note()
	return w
}

// note records the current state of the store. The caller holds w.mu.
func (w *simulation) note() {
	w.store.mu.Lock()
	defer w.store.mu.Unlock()
	h := *w.store.runs[testRunID]
	if n := len(w.epochs); n == 0 || w.epochs[n-1].epoch != w.store.epoch {
		w.epochs = append(w.epochs, &epochRecord{epoch: w.store.epoch, began: time.Now()})
	}
	e := w.epochs[len(w.epochs)-1]
	e.log, e.moves = h, append(e.moves, move{time.Now(), run.Seq(len(h.evs)), h.ops})
}

// before returns the state of an epoch at a time; zero before its beginning.
func (e *epochRecord) before(at time.Time) (m move) {
	for _, next := range e.moves {
		if !next.at.Before(at) {
			break
		}
		m = next
	}
	return m
}

func (w *simulation) run() {
	ctx, cancel := context.WithCancel(w.Context())
	w.ctx = ctx
	var all sync.WaitGroup
	for _, h := range w.hubs {
		all.Go(func() {
			if err := h.Run(ctx); err != nil {
				w.Errorf("Run: %v", err)
			}
		})
	}
	for i, think := range []time.Duration{0, 0, 0, 700 * time.Millisecond, 1400 * time.Millisecond, 5 * time.Second} {
		for hub := range w.hubs {
			v := &viewer{simulation: w, hub: hub, think: think, r: rand.New(rand.NewPCG(uint64(i), uint64(hub)))}
			v.roams = i == 2 || i == 4
			w.viewers = append(w.viewers, v)
			all.Go(v.watch)
		}
	}
	idle, err := w.hubs[0].Watch(ctx, testRunID, nil, "") // a viewer that never reads must not disturb others
	if err != nil {
		w.Fatal(err)
	}
	defer idle.Close()
	all.Go(w.monitor)
	w.injectFaults()
	time.Sleep(20 * time.Second) // long enough for one quiet frame
	cancel()
	all.Wait()
	now := w.epochs[len(w.epochs)-1]
	for i, v := range w.viewers {
		if f := v.last; f.Sync != live.Live || f.State.Seq != now.before(time.Now()).seq || f.Epoch != now.epoch {
			w.Errorf("viewer %d has %+v of %s in the end, the head is %d of %s", i, summarize(f), f.Epoch,
				now.before(time.Now()).seq,
				now.epoch)
		}
	}
}

// injectFaults injects faults for half a minute.
func (w *simulation) injectFaults() {
	published := run.Seq(2)
	var delayed [2][]live.Message
	grow := func(n int) {
		w.mu.Lock()
		head := w.store.head(testRunID)
		if int(head)+n > len(firstVariant()) {
			w.mu.Unlock()
			return
		}
		w.store.grow(testRunID, n)
		w.note()
		w.mu.Unlock()
		m := w.store.message(testRunID, published, head+run.Seq(n))
		published = m.To
		for i := range w.buses {
			w.send(i, m, &delayed[i])
		}
	}
	for range 300 {
		time.Sleep(time.Duration(w.r.IntN(200)) * time.Millisecond)
		i := w.r.IntN(2)
		switch n := w.r.IntN(100); {
		case n < 50:
			grow(1)
		case n < 52: // more than a mailbox holds
			for range 8 {
				grow(1)
			}
		case n < 55: // only receipts and the queue change; the next message shows it
			w.mu.Lock()
			w.store.set(func() { w.store.runs[testRunID].ops++ })
			w.note()
			w.mu.Unlock()
		case n < 65 && len(delayed[i]) > 0:
			k := w.r.IntN(len(delayed[i]))
			m := delayed[i][k]
			delayed[i] = append(delayed[i][:k], delayed[i][k+1:]...)
			w.buses[i].deliver(testRunID, live.Delivery{Message: &m})
		case n < 69:
			w.changeStore(func(a *fakeStore) { a.err = store.ErrUnavailable })
		case n < 71:
			w.changeStore(func(a *fakeStore) { a.hang = true })
		case n < 73:
			w.changeStore(func(a *fakeStore) { a.stuck = true })
		case n < 81:
			w.changeStore(func(a *fakeStore) { a.err, a.hang, a.stuck = nil, false, false })
		case n < 84:
			w.bus(i, false)
		case n < 88:
			w.bus(i, true)
		case n < 91: // a reconnect that nobody has noticed
			w.buses[i].disconnect()
		case n < 95: // unconfirmed subscriptions are requested again
			w.confirm(i)
		case n < 97: // a message from the future or with a wrong epoch
			m := w.store.message(testRunID, published-1, published)
			m.From, m.To, m.Delta.From, m.Delta.To, m.CommittedAt = m.From+50, m.To+50, m.From+50, m.To+50, time.Time{}
			w.buses[i].deliver(testRunID, live.Delivery{Message: &m})
		case n < 98 && w.store.head(testRunID) > 20:
			w.mu.Lock()
			w.store.diverge(testRunID, int(w.store.head(testRunID))-w.r.IntN(10), fmt.Sprint("e", len(w.epochs)+1))
			w.note()
			w.mu.Unlock()
			published = w.store.head(testRunID)
		}
	}
	w.changeStore(func(a *fakeStore) { a.err, a.hang, a.stuck = nil, false, false })
	for i := range w.buses {
		w.bus(i, true)
		w.confirm(i)
	}
}

// send passes a message to a bus that may lose, delay, duplicate or alter it.
func (w *simulation) send(i int, m live.Message, delayed *[]live.Message) {
	deliver := func() {
		if w.buses[i].Up() {
			w.buses[i].deliver(testRunID, live.Delivery{Message: &m})
		}
	}
	switch w.r.IntN(10) {
	case 0: // lost
	case 1, 2:
		*delayed = append(*delayed, m)
	case 3:
		deliver()
		deliver()
	case 4:
		m.Delta = nil
		deliver()
	case 5:
		m.CommittedAt = time.Time{} // from a server without this field
		deliver()
	default:
		deliver()
	}
}

func (w *simulation) changeStore(change func(*fakeStore)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.store.set(func() {
		change(w.store)
		switch bad := w.store.err != nil || w.store.hang; {
		case !bad:
			w.storeDownSince = time.Time{}
		case w.storeDownSince.IsZero():
			w.storeDownSince = time.Now()
		}
	})
}

func (w *simulation) bus(i int, up bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.buses[i].Up() == up {
		return
	}
	w.buses[i].setUp(up)
	if w.busDownSince[i] = time.Now(); up {
		w.busDownSince[i] = time.Time{}
		w.buses[i].disconnect() // nobody is subscribed on the new connection
	}
}

func (w *simulation) confirm(i int) {
	if w.buses[i].Up() {
		w.buses[i].deliver(testRunID, live.Delivery{Confirmed: true})
	}
}

// monitor checks periodically the last frames of prompt viewers.
func (w *simulation) monitor() {
	for w.ctx.Err() == nil {
		time.Sleep(50 * time.Millisecond)
		w.mu.Lock()
		now, era := time.Now(), w.epochs[len(w.epochs)-1]
		for i, h := range w.hubs {
			wrong := w.store.count() < 0 || !w.storeDownSince.IsZero() || !w.buses[i].isListening()
			w.store.set(func() { wrong = wrong || w.store.stuck })
			if wrong {
				w.healthySince[i] = time.Time{}
			} else if w.healthySince[i].IsZero() {
				w.healthySince[i] = now
			}
			if off := h.Now().Sub(now.Add(w.store.clock)).Abs(); off > slowest && !h.Now().IsZero() {
				w.Errorf("hub %d estimates the store's clock with an error of %v", i, off)
			}
		}
		for i, v := range w.viewers {
			if v.think == 0 && !v.since.IsZero() {
				w.checkFreshness(fmt.Sprintf("viewer %d", i), v, now, era)
			}
		}
		w.mu.Unlock()
	}
}

// checkFreshness checks the last frame of a prompt viewer against contract T226. The caller holds w.mu.
func (w *simulation) checkFreshness(who string, v *viewer, now time.Time, era *epochRecord) {
	f := v.last
	earlier := func(d time.Duration) time.Time { // not before the viewer joined
		if at := now.Add(-d); at.After(v.since) {
			return at
		}
		return time.Time{}
	}
	lasts := func(since time.Time, d time.Duration) bool {
		return !since.IsZero() && now.Sub(since) > d && now.Sub(v.since) > d
	}
	if lasts(w.storeDownSince, soon) && (f.Sync != live.Stale || f.Reason != live.StoreDown) {
		w.Errorf("%s is shown %+v, the store has been down for %v", who, summarize(f), now.Sub(w.storeDownSince))
	}
	if f.Sync == live.Live {
		if lasts(w.busDownSince[v.hub], soon) && f.Reason != live.BusDegraded {
			w.Errorf("%s is shown %+v, the bus has been down for %v", who, summarize(f), now.Sub(w.busDownSince[v.hub]))
		}
		if f.Epoch != era.epoch && lasts(era.began, soon) {
			w.Errorf("%s is shown LIVE of %s, which ended %v ago", who, f.Epoch, now.Sub(era.began))
		}
		if had := era.before(earlier(tailSoon)); f.Epoch == era.epoch && (f.State.Seq < had.seq || f.OpsRev < had.ops) {
			w.Errorf("%s is shown LIVE at %d, ops %d, since %v; the head was %d, ops %d, 3 s ago", who, f.State.Seq, f.OpsRev,
				v.at, had.seq, had.ops)
		}
	}
	if lasts(w.healthySince[v.hub], repaired) && lasts(era.began, repaired) {
		if had := era.before(earlier(repaired)); f.Epoch != era.epoch || f.State.Seq < had.seq {
			w.Errorf("%s is shown %+v of %s 5 s after everything was repaired", who, summarize(f), f.Epoch)
		}
		if f.Sync != live.Live && now.Sub(v.at) > repaired {
			w.Errorf("%s has been shown %+v for %v, and everything is repaired", who, summarize(f), now.Sub(v.at))
		}
	}
}

// viewer keeps a state by applying deltas, as clients do.
type viewer struct {
	*simulation
	hub   int
	think time.Duration // pause after each frame
	roams bool          // changes to the other server and back, resuming
	r     *rand.Rand

	// Guarded by simulation.mu.
	since time.Time // when it began to watch; zero while it does not
	at    time.Time // when the current frame was received
	last  live.Frame

	state run.State
	epoch string
}

func (v *viewer) watch() {
	for v.ctx.Err() == nil {
		var after *run.Seq
		if v.epoch != "" {
			after = &v.state.Seq
		}
		st, err := v.hubs[v.hub].Watch(v.ctx, testRunID, after, v.epoch)
		switch {
		case v.ctx.Err() != nil:
			if err == nil {
				st.Close()
			}
			return
		case errors.Is(err, store.ErrUnavailable):
			time.Sleep(200 * time.Millisecond)
			continue
		case err != nil:
			v.Errorf("Watch: %v", err)
			return
		}
		v.follow(st, after != nil)
		st.Close()
		v.mu.Lock()
		v.since = time.Time{}
		v.mu.Unlock()
		if v.roams && v.r.IntN(3) == 0 {
			v.hub = 1 - v.hub
		}
	}
}

// follow takes frames until the viewer leaves this stream.
func (v *viewer) follow(st *live.Stream, resumed bool) {
	first := true
	for n := v.r.IntN(60); ; n-- {
		f, err := st.Next(v.ctx)
		if v.ctx.Err() != nil {
			return
		}
		if err != nil {
			v.Errorf("the stream ended: %v", err)
			return
		}
		v.mu.Lock()
		v.check(f, first, resumed)
		if first {
			v.since = time.Now()
		}
		if first || f.Sync != v.last.Sync || f.State.Seq != v.last.State.Seq {
			v.at = time.Now()
		}
		v.last, first = f, false
		v.mu.Unlock()
		select {
		case <-v.ctx.Done():
			return
		case <-time.After(v.think):
		}
		if v.roams && n <= 0 {
			return
		}
	}
}

// check validates a frame and applies it. The caller holds the mu of the simulation.
func (v *viewer) check(f live.Frame, first, resumed bool) {
	last := v.last
	switch {
	case f.Reset && f.From != 0:
		v.Errorf("reset has From %d, want 0", f.From)
	case last.Epoch != "" && f.Epoch != last.Epoch && !f.Reset:
		v.Errorf("epoch %s after %s without a reset", f.Epoch, last.Epoch)
	case !f.Reset && f.Epoch == last.Epoch && f.State.Seq < last.State.Seq:
		v.Errorf("seq %d after %d in epoch %s", f.State.Seq, last.State.Seq, f.Epoch)
	case !first && f.Epoch == last.Epoch && (f.AsOf.Before(last.AsOf) || f.OpsRev < last.OpsRev):
		v.Errorf("AsOf %v and OpsRev %d after %v and %d, want no decrease", f.AsOf, f.OpsRev, last.AsOf, last.OpsRev)
	case first && !f.Changed:
		v.Errorf("the first frame has Changed unset")
	case f.Sync == live.Live && f.HeadSeq != f.State.Seq:
		v.Errorf("LIVE at %d with head %d", f.State.Seq, f.HeadSeq)
	case f.Sync == live.Live && f.Lag != 0:
		v.Errorf("LIVE with a lag of %v", f.Lag)
	}
	switch {
	case f.Reset || first && !resumed:
		v.state = run.State{Header: f.State.Header, Steps: f.State.Steps}
	case f.From != v.state.Seq:
		v.Errorf("From is %d, the viewer had %d", f.From, v.state.Seq)
	case f.Changed:
		if next, verdict := v.state.Apply(f.State.Since(f.From)); verdict == run.Applied {
			v.state = next
		}
	}
	v.epoch = f.Epoch
	for _, era := range v.epochs {
		if era.epoch == f.Epoch {
			v.compare(f, era)
			return
		}
	}
	v.Errorf("epoch %q never existed", f.Epoch)
}

// compare checks a frame and the viewer's state against the record of their epoch.
func (v *viewer) compare(f live.Frame, era *epochRecord) {
	asOf := f.AsOf.Add(-v.store.clock)
	if had := era.before(asOf); f.Sync == live.Live && (f.State.Seq < had.seq || f.OpsRev < had.ops) {
		v.Errorf("LIVE at %d, ops %d as of %v, when the head was %d, ops %d", f.State.Seq, f.OpsRev, asOf, had.seq, had.ops)
	}
	if v.think == 0 && f.Sync == live.Live && time.Since(asOf) > 5*time.Second {
		v.Errorf("LIVE as of %v ago", time.Since(asOf))
	}
	if asOf.After(time.Now()) {
		v.Errorf("AsOf is %v in the future", time.Until(asOf))
	}
	n := int(f.State.Seq)
	if n > len(era.log.evs) {
		v.Errorf("%d of epoch %s, which has %d events", n, era.epoch, len(era.log.evs))
		return
	}
	if at := era.log.at[n-1]; !f.CommittedAt.IsZero() && !f.CommittedAt.Equal(at) {
		v.Errorf("%d was committed at %v, the frame says %v", n, at, f.CommittedAt)
	}
	if f.Lag > 0 && era == v.epochs[len(v.epochs)-1] {
		if n == len(era.log.evs) {
			v.Errorf("lag is %v although everything is shown", f.Lag)
		} else if age := time.Since(era.log.at[n].Add(-v.store.clock)); f.Lag > age+slowest {
			v.Errorf("lag is %v, but the next event is %v old", f.Lag, age)
		}
	}
	want := era.log.state(testRunID, n)
	for whose, have := range map[string]run.State{"frame": f.State, "viewer": v.state} {
		if !reflect.DeepEqual(want, have) {
			v.Errorf("state at %d (-log +%s):\n%s", n, whose, cmp.Diff(want, have))
		}
	}
}
