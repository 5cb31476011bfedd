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

// TestHub_Property plays a store and two buses that do
// everything that they may do to the hubs of two servers, one of which has a clock
// that is a minute off, and holds each frame of each viewer to what a frame promises.
// contract: O9, T21, T22, T187, T226
func TestHub_Property(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { newWorld(t, seed).play() })
		})
	}
}

// Times of T226, with what the viewer needs to hear of it.
const (
	soon     = 2*time.Second + 50*time.Millisecond
	tailSoon = 3*time.Second + 50*time.Millisecond
	repaired = 5 * time.Second
	slowest  = 150 * time.Millisecond // one way to the store
)

// world is two hubs on one store, with a bus each that loses what it likes. What
// happened is written down beside them: the truth that frames are compared with.
type world struct {
	*testing.T
	r       *rand.Rand
	archive *archive
	wires   [2]*wire
	hubs    [2]*live.Hub
	ctx     context.Context //nolint:containedctx // the life of the world

	mu      sync.Mutex
	truth   []*era       // the last one is now
	calm    [2]time.Time // since when nothing is wrong for a hub; zero while something is
	down    time.Time    // since when the store does not answer head checks; zero while it does
	busDown [2]time.Time
	viewers []*viewer
}

// era is one epoch of the store.
type era struct {
	epoch string
	began time.Time
	log   history
	moves []move // of the head, the first at the beginning
}

type move struct {
	at  time.Time
	seq run.Seq
	ops int64
}

func newWorld(t *testing.T, seed uint64) *world {
	w := &world{T: t, r: rand.New(rand.NewPCG(seed, 7)), archive: newArchive()}
	w.archive.clock = 37 * time.Minute
	w.archive.create(theRun, 2)
	var mu sync.Mutex
	delays := rand.New(rand.NewPCG(seed, 8))
	random := func(d time.Duration) time.Duration {
		mu.Lock()
		defer mu.Unlock()
		return time.Duration(delays.Int64N(int64(d)))
	}
	w.archive.delay = func() time.Duration { return random(slowest) }
	for i := range w.hubs {
		w.wires[i] = newWire()
		w.wires[i].mailbox = 4
		w.wires[i].unheard = func() bool { return random(time.Second) < 300*time.Millisecond }
		w.hubs[i] = live.New(
			w.archive, w.wires[i], live.Config{Now: func() time.Time { return time.Now().Add(time.Duration(i) * time.Minute) }})
	}
	w.note()
	return w
}

// note writes down what the store has now. It needs w.mu but at the beginning.
func (w *world) note() {
	w.archive.mu.Lock()
	defer w.archive.mu.Unlock()
	h := *w.archive.runs[theRun]
	if n := len(w.truth); n == 0 || w.truth[n-1].epoch != w.archive.epoch {
		w.truth = append(w.truth, &era{epoch: w.archive.epoch, began: time.Now()})
	}
	e := w.truth[len(w.truth)-1]
	e.log, e.moves = h, append(e.moves, move{time.Now(), run.Seq(len(h.evs)), h.ops})
}

// before is what an era had before a moment; nothing before it began.
func (e *era) before(at time.Time) (m move) {
	for _, next := range e.moves {
		if !next.at.Before(at) {
			break
		}
		m = next
	}
	return m
}

func (w *world) play() {
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
			v := &viewer{world: w, hub: hub, think: think, r: rand.New(rand.NewPCG(uint64(i), uint64(hub)))}
			v.roams = i == 2 || i == 4
			w.viewers = append(w.viewers, v)
			all.Go(v.watch)
		}
	}
	idle, err := w.hubs[0].Watch(ctx, theRun, nil, "") // who never reads disturbs nobody
	if err != nil {
		w.Fatal(err)
	}
	defer idle.Close()
	all.Go(w.monitor)
	w.trouble()
	time.Sleep(20 * time.Second) // one quiet frame is due in any case
	cancel()
	all.Wait()
	now := w.truth[len(w.truth)-1]
	for i, v := range w.viewers {
		if f := v.last; f.Sync != live.Live || f.State.Seq != now.before(time.Now()).seq || f.Epoch != now.epoch {
			w.Errorf("viewer %d has %+v of %s in the end, the head is %d of %s", i, seen(f), f.Epoch, now.before(time.Now()).seq,
				now.epoch)
		}
	}
}

// trouble is half a minute of everything.
func (w *world) trouble() {
	published := run.Seq(2)
	var delayed [2][]live.Message
	grow := func(n int) {
		w.mu.Lock()
		head := w.archive.head(theRun)
		if int(head)+n > len(story()) {
			w.mu.Unlock()
			return
		}
		w.archive.grow(theRun, n)
		w.note()
		w.mu.Unlock()
		m := w.archive.message(theRun, published, head+run.Seq(n))
		published = m.To
		for i := range w.wires {
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
		case n < 55: // receipts and the queue alone; the next message tells it, if there is one
			w.mu.Lock()
			w.archive.set(func() { w.archive.runs[theRun].ops++ })
			w.note()
			w.mu.Unlock()
		case n < 65 && len(delayed[i]) > 0:
			k := w.r.IntN(len(delayed[i]))
			m := delayed[i][k]
			delayed[i] = append(delayed[i][:k], delayed[i][k+1:]...)
			w.wires[i].deliver(theRun, live.Delivery{Message: &m})
		case n < 69:
			w.store(func(a *archive) { a.err = store.ErrUnavailable })
		case n < 71:
			w.store(func(a *archive) { a.hang = true })
		case n < 73:
			w.store(func(a *archive) { a.stuck = true })
		case n < 81:
			w.store(func(a *archive) { a.err, a.hang, a.stuck = nil, false, false })
		case n < 84:
			w.bus(i, false)
		case n < 88:
			w.bus(i, true)
		case n < 91: // the connection is another one, and nobody has noticed
			w.wires[i].cut()
		case n < 95: // what was not confirmed is asked for again
			w.confirm(i)
		case n < 97: // a message of the future, or of nowhere
			m := w.archive.message(theRun, published-1, published)
			m.From, m.To, m.Delta.From, m.Delta.To, m.CommittedAt = m.From+50, m.To+50, m.From+50, m.To+50, time.Time{}
			w.wires[i].deliver(theRun, live.Delivery{Message: &m})
		case n < 98 && w.archive.head(theRun) > 20:
			w.mu.Lock()
			w.archive.diverge(theRun, int(w.archive.head(theRun))-w.r.IntN(10), fmt.Sprint("e", len(w.truth)+1))
			w.note()
			w.mu.Unlock()
			published = w.archive.head(theRun)
		}
	}
	w.store(func(a *archive) { a.err, a.hang, a.stuck = nil, false, false })
	for i := range w.wires {
		w.bus(i, true)
		w.confirm(i)
	}
}

// send gives a message to a bus, which does what it likes with it.
func (w *world) send(i int, m live.Message, delayed *[]live.Message) {
	deliver := func() {
		if w.wires[i].Up() {
			w.wires[i].deliver(theRun, live.Delivery{Message: &m})
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
		m.CommittedAt = time.Time{} // of a server before this field
		deliver()
	default:
		deliver()
	}
}

func (w *world) store(change func(*archive)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.archive.set(func() {
		change(w.archive)
		switch bad := w.archive.err != nil || w.archive.hang; {
		case !bad:
			w.down = time.Time{}
		case w.down.IsZero():
			w.down = time.Now()
		}
	})
}

func (w *world) bus(i int, up bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.wires[i].Up() == up {
		return
	}
	w.wires[i].setUp(up)
	if w.busDown[i] = time.Now(); up {
		w.busDown[i] = time.Time{}
		w.wires[i].cut() // nobody is subscribed on the new connection
	}
}

func (w *world) confirm(i int) {
	if w.wires[i].Up() {
		w.wires[i].deliver(theRun, live.Delivery{Confirmed: true})
	}
}

// monitor looks at what prompt viewers are shown, again and again.
func (w *world) monitor() {
	for w.ctx.Err() == nil {
		time.Sleep(50 * time.Millisecond)
		w.mu.Lock()
		now, era := time.Now(), w.truth[len(w.truth)-1]
		for i, h := range w.hubs {
			wrong := w.archive.count() < 0 || !w.down.IsZero() || !w.wires[i].hearing()
			w.archive.set(func() { wrong = wrong || w.archive.stuck })
			if wrong {
				w.calm[i] = time.Time{}
			} else if w.calm[i].IsZero() {
				w.calm[i] = now
			}
			if off := h.Now().Sub(now.Add(w.archive.clock)).Abs(); off > slowest && !h.Now().IsZero() {
				w.Errorf("hub %d takes the store's clock to be %v off", i, off)
			}
		}
		for i, v := range w.viewers {
			if v.think == 0 && !v.since.IsZero() {
				w.judge(fmt.Sprintf("viewer %d", i), v, now, era)
			}
		}
		w.mu.Unlock()
	}
}

// judge holds what a prompt viewer is shown to T226. It needs w.mu.
func (w *world) judge(who string, v *viewer, now time.Time, era *era) {
	f := v.last
	earlier := func(d time.Duration) time.Time { // nothing before the viewer came
		if at := now.Add(-d); at.After(v.since) {
			return at
		}
		return time.Time{}
	}
	lasts := func(since time.Time, d time.Duration) bool {
		return !since.IsZero() && now.Sub(since) > d && now.Sub(v.since) > d
	}
	if lasts(w.down, soon) && (f.Sync != live.Stale || f.Reason != live.StoreDown) {
		w.Errorf("%s is shown %+v, the store has been down for %v", who, seen(f), now.Sub(w.down))
	}
	if f.Sync == live.Live {
		if lasts(w.busDown[v.hub], soon) && f.Reason != live.BusDegraded {
			w.Errorf("%s is shown %+v, the bus has been down for %v", who, seen(f), now.Sub(w.busDown[v.hub]))
		}
		if f.Epoch != era.epoch && lasts(era.began, soon) {
			w.Errorf("%s is shown LIVE of %s, which ended %v ago", who, f.Epoch, now.Sub(era.began))
		}
		if had := era.before(earlier(tailSoon)); f.Epoch == era.epoch && (f.State.Seq < had.seq || f.OpsRev < had.ops) {
			w.Errorf("%s is shown LIVE at %d, ops %d, since %v; the head was %d, ops %d, 3 s ago", who, f.State.Seq, f.OpsRev,
				v.at, had.seq, had.ops)
		}
	}
	if lasts(w.calm[v.hub], repaired) && lasts(era.began, repaired) {
		if had := era.before(earlier(repaired)); f.Epoch != era.epoch || f.State.Seq < had.seq {
			w.Errorf("%s is shown %+v of %s 5 s after everything was repaired", who, seen(f), f.Epoch)
		}
		if f.Sync != live.Live && now.Sub(v.at) > repaired {
			w.Errorf("%s has been shown %+v for %v, and everything is repaired", who, seen(f), now.Sub(v.at))
		}
	}
}

// viewer keeps a state by what frames say changed, as a client of deltas does.
type viewer struct {
	*world
	hub   int
	think time.Duration // after each frame
	roams bool          // to the other server and back, resuming
	r     *rand.Rand

	// Guarded by world.mu.
	since time.Time // it watches; zero while it does not
	at    time.Time // when what is shown began
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
		st, err := v.hubs[v.hub].Watch(v.ctx, theRun, after, v.epoch)
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

// follow takes frames until the viewer has had enough of this stream.
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

// check holds a frame to what it says, and applies it. It needs world.mu.
func (v *viewer) check(f live.Frame, first, resumed bool) {
	last := v.last
	switch {
	case f.Reset && f.From != 0:
		v.Errorf("a reset from %d", f.From)
	case last.Epoch != "" && f.Epoch != last.Epoch && !f.Reset:
		v.Errorf("epoch %s after %s without a reset", f.Epoch, last.Epoch)
	case !f.Reset && f.Epoch == last.Epoch && f.State.Seq < last.State.Seq:
		v.Errorf("%d after %d in epoch %s", f.State.Seq, last.State.Seq, f.Epoch)
	case !first && f.Epoch == last.Epoch && (f.AsOf.Before(last.AsOf) || f.OpsRev < last.OpsRev):
		v.Errorf("as of %v, ops %d after %v, %d", f.AsOf, f.OpsRev, last.AsOf, last.OpsRev)
	case first && !f.Changed:
		v.Errorf("the first frame says that nothing changed")
	case f.Sync == live.Live && f.HeadSeq != f.State.Seq:
		v.Errorf("LIVE at %d with head %d", f.State.Seq, f.HeadSeq)
	case f.Sync == live.Live && f.Lag != 0:
		v.Errorf("LIVE with a lag of %v", f.Lag)
	}
	switch {
	case f.Reset || first && !resumed:
		v.state = run.State{Header: f.State.Header, Steps: f.State.Steps}
	case f.From != v.state.Seq:
		v.Errorf("from %d, the viewer had %d", f.From, v.state.Seq)
	case f.Changed:
		if next, verdict := v.state.Apply(f.State.Since(f.From)); verdict == run.Applied {
			v.state = next
		}
	}
	v.epoch = f.Epoch
	for _, era := range v.truth {
		if era.epoch == f.Epoch {
			v.compare(f, era)
			return
		}
	}
	v.Errorf("epoch %q never was", f.Epoch)
}

// compare holds a frame and the viewer's state to the truth of their epoch.
func (v *viewer) compare(f live.Frame, era *era) {
	asOf := f.AsOf.Add(-v.archive.clock)
	if had := era.before(asOf); f.Sync == live.Live && (f.State.Seq < had.seq || f.OpsRev < had.ops) {
		v.Errorf("LIVE at %d, ops %d as of %v, when the head was %d, ops %d", f.State.Seq, f.OpsRev, asOf, had.seq, had.ops)
	}
	if v.think == 0 && f.Sync == live.Live && time.Since(asOf) > 5*time.Second {
		v.Errorf("LIVE as of %v ago", time.Since(asOf))
	}
	if asOf.After(time.Now()) {
		v.Errorf("as of %v from now", time.Until(asOf))
	}
	n := int(f.State.Seq)
	if n > len(era.log.evs) {
		v.Errorf("%d of epoch %s, which has %d events", n, era.epoch, len(era.log.evs))
		return
	}
	if at := era.log.at[n-1]; !f.CommittedAt.IsZero() && !f.CommittedAt.Equal(at) {
		v.Errorf("%d was committed at %v, the frame says %v", n, at, f.CommittedAt)
	}
	if f.Lag > 0 && era == v.truth[len(v.truth)-1] {
		if n == len(era.log.evs) {
			v.Errorf("a lag of %v with everything shown", f.Lag)
		} else if age := time.Since(era.log.at[n].Add(-v.archive.clock)); f.Lag > age+slowest {
			v.Errorf("a lag of %v, the next event is %v old", f.Lag, age)
		}
	}
	want := era.log.state(theRun, n)
	for whose, have := range map[string]run.State{"frame": f.State, "viewer": v.state} {
		if !reflect.DeepEqual(want, have) {
			v.Errorf("state at %d (-log +%s):\n%s", n, whose, cmp.Diff(want, have))
		}
	}
}
