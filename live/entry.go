package live

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// entry is one watched run: the only place that moves its state in this
// process. Its goroutine alone writes cur, under mu; streams read it under mu.
type entry struct {
	hub   *Hub
	runID string
	refs  int // guarded by hub.mu
	stop  context.CancelFunc
	ready chan struct{} // closed when the first read is done or failed
	gone  chan struct{} // closed when the goroutine is over
	heads chan headSeen // the newest head check not yet looked at
	asks  chan ask

	mu      sync.Mutex
	cur     Frame     // what is true now; Changed and Reset belong to what was pushed
	waits   time.Time // when something that cur does not show was committed; zero for not known
	err     error
	streams map[*Stream]struct{}
	abort   context.CancelFunc // of the read in hand, or of one that is over
	begun   int                // reads

	// Of the goroutine alone.
	isReady   bool        // ready is closed
	confirmed bool        // the channel was subscribed at least once
	behind    store.Head  // seen above the watermark, zero for none (T187)
	patience  *time.Timer // runs while behind is set
	ended     int         // the number of the last read that was answered
	asked     []ask       // not yet answered
	gather    *time.Timer // runs while there are such
	answered  time.Time   // when the last ones were
}

// ask is a joiner that claims to know more than the entry.
type ask struct {
	after run.Seq
	epoch string
	begun int // reads when it asked
	done  chan error
}

// askInterval is how long those who ask wait for each other: a run is not read
// more often for them, however many they are.
const askInterval = 50 * time.Millisecond

// confirmPatience is how long an entry waits for its channel to be confirmed
// before it reads without the bus; a later confirmation makes it catch up.
const confirmPatience = time.Second

func newEntry(h *Hub, runID string) (*entry, context.Context) {
	ctx, stop := context.WithCancel(context.Background())
	return &entry{
		hub: h, runID: runID, stop: stop, ready: make(chan struct{}), gone: make(chan struct{}),
		heads: make(chan headSeen, 1), asks: make(chan ask), streams: map[*Stream]struct{}{},
	}, ctx
}

// tell hands a head check over; one that was not looked at yet gives way. A
// store that does not answer need not be waited for twice.
func (e *entry) tell(s headSeen) {
	if s.err != nil {
		e.mu.Lock()
		if e.abort != nil {
			e.abort()
		}
		e.mu.Unlock()
	}
	for {
		select {
		case e.heads <- s:
			return
		default:
		}
		select {
		case <-e.heads:
		default:
		}
	}
}

// run serves the viewers of the run until ctx ends. A panic ends their streams and nothing else: the next
// viewer has the run loaded again.
func (e *entry) run(ctx context.Context) {
	defer close(e.gone)
	err := e.hub.panics.Call("watch", e.runID, func() error {
		e.work(ctx)
		return nil
	})
	if err != nil {
		e.fail(err)
		e.markReady()
	}
}

// markReady lets viewers join, or see why they cannot. Only the goroutine of run calls it.
func (e *entry) markReady() {
	if !e.isReady {
		e.isReady = true
		close(e.ready)
	}
}

func (e *entry) work(ctx context.Context) {
	sub := e.hub.bus.Subscribe(e.runID)
	defer sub.Close()
	if e.hub.bus.Up() {
		e.confirmed = awaitConfirmation(ctx, sub)
	}
	err := e.load(ctx)
	if err != nil {
		e.fail(err)
	}
	e.markReady()
	e.patience, e.gather = time.NewTimer(e.hub.cfg.Patience), time.NewTimer(askInterval)
	defer e.patience.Stop()
	defer e.gather.Stop()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case d := <-sub.C():
			e.delivered(ctx, d)
		case s := <-e.heads:
			e.headChecked(ctx, s)
		case a := <-e.asks:
			if e.asked = append(e.asked, a); len(e.asked) == 1 {
				e.gather.Reset(askInterval - time.Since(e.answered))
			}
		case <-e.gather.C:
			for _, a := range e.asked {
				a.done <- e.answer(ctx, a)
			}
			e.asked, e.answered = nil, time.Now()
		case <-e.patience.C:
			e.drain(ctx, sub)
			e.confirmLoss(ctx)
		}
	}
}

// drain looks at everything that has come so far.
func (e *entry) drain(ctx context.Context, sub Subscription) {
	for range len(sub.C()) {
		select {
		case d := <-sub.C():
			e.delivered(ctx, d)
		default: // the bus emptied a full mailbox
		}
	}
}

// awaitConfirmation drops what comes before the channel is confirmed: the read
// that follows shows it. False says that it was not confirmed in time.
func awaitConfirmation(ctx context.Context, sub Subscription) bool {
	timeout := time.NewTimer(confirmPatience)
	defer timeout.Stop()
	for {
		select {
		case <-ctx.Done():
			return false
		case <-timeout.C:
			return false
		case d := <-sub.C():
			if d.Confirmed {
				return true
			}
		}
	}
}

// read is the whole state at the head, by one bounded read of what changed since
// the state in hand, or of everything when that is of another log (T212). While
// it takes long, viewers that are shown LIVE are told STALE with a reason and the
// head that is known (T226). Its errors are ErrNotFound or ErrUnavailable, or the end of ctx.
func (e *entry) read(ctx context.Context, slow Reason, head store.Head) (store.Loaded, error) {
	bounded, cancel := context.WithTimeout(ctx, e.hub.cfg.ReadTimeout)
	defer cancel()
	e.mu.Lock()
	e.abort = cancel
	e.begun++
	number, have := e.begun, e.cur
	e.mu.Unlock()
	said := make(chan struct{})
	timer := time.AfterFunc(e.hub.cfg.Patience, func() {
		defer close(said)
		e.falter(slow, head)
	})
	l, d, err := e.hub.since(bounded, e.runID, have.State.Seq)
	if err == nil && len(l.State.Steps) != l.State.Counts.Total {
		var whole bool
		if l.State, whole = have.advanced(l.Epoch, d); !whole {
			l, _, err = e.hub.since(bounded, e.runID, 0)
		}
	}
	if !timer.Stop() {
		<-said
	}
	switch {
	case err == nil:
		e.ended = number
		return l, nil
	case ctx.Err() != nil, errors.Is(err, store.ErrNotFound), errors.Is(err, store.ErrUnavailable):
		return l, err
	}
	return l, fmt.Errorf("%w: %w", store.ErrUnavailable, err)
}

// falter says STALE beside a read that takes long. The goroutine waits for it.
func (e *entry) falter(reason Reason, head store.Head) {
	if f := e.cur; f.Sync == Live {
		f.Sync, f.Reason, f.HeadSeq = Stale, reason, max(f.HeadSeq, head.LastSeq)
		e.show(f, head.LastAt)
	}
}

// advanced is the state of f brought forward by d, if d is of the same log.
func (f Frame) advanced(epoch string, d run.Delta) (run.State, bool) {
	if epoch == f.Epoch && d.To == f.State.Seq {
		return f.State, true
	}
	next, verdict := f.State.Apply(d)
	return next, epoch == f.Epoch && verdict == run.Applied
}

func (e *entry) load(ctx context.Context) error {
	l, err := e.read(ctx, StoreDown, store.Head{})
	if err != nil {
		return err
	}
	f := Frame{
		Sync: Live, Reason: e.calm(), State: l.State, Epoch: l.Epoch, OpsRev: l.Head.OpsRev, AsOf: l.Now,
		HeadSeq:     l.State.Seq,
		CommittedAt: committed(l),
	}
	if l.State.Seq < l.Head.LastSeq {
		f.Sync, f.Reason, f.HeadSeq = Stale, ProjectorLag, l.Head.LastSeq
	}
	e.show(f, oldest(l))
	return nil
}

// degraded says that messages cannot be expected: heads are polled instead (T127).
func (e *entry) degraded() bool { return !e.confirmed || !e.hub.bus.Up() }

// calm is the reason of an otherwise healthy frame.
func (e *entry) calm() Reason {
	if e.degraded() {
		return BusDegraded
	}
	return ""
}

// show makes f the current frame and hands it to every stream, unless nothing
// but the time moved: then quiet frames say so. waits is when something that f does not show was
// committed, zero when no more is known of that than before.
func (e *entry) show(f Frame, waits time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !waits.IsZero() {
		e.waits = waits
	}
	if f.State.Seq >= f.HeadSeq {
		e.waits = time.Time{}
	}
	f.Lag = e.lag()
	old := e.cur
	f.Changed = f.State.Seq != old.State.Seq || f.Epoch != old.Epoch
	moved := f.Changed || f.Reset || f.Sync != old.Sync || f.Reason != old.Reason || f.OpsRev != old.OpsRev ||
		f.HeadSeq != old.HeadSeq
	e.cur = f
	e.cur.Changed, e.cur.Reset = false, false
	if !moved {
		return
	}
	for s := range e.streams {
		s.push(f)
	}
}

// lag is the age of what cur does not show, as far as is known (T34); it needs e.mu.
func (e *entry) lag() time.Duration {
	if e.waits.IsZero() {
		return 0
	}
	return max(0, e.hub.Now().Sub(e.waits))
}

// fail ends the entry with its streams. It leaves the hub first, so that the
// next watcher begins anew.
func (e *entry) fail(err error) {
	e.hub.forget(e)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.stop()
	if e.err != nil {
		return
	}
	e.err = err
	for s := range e.streams {
		s.end(err)
	}
}

// join adds a stream with its first frame. A viewer that knows more than this
// entry came from a fresher place: the primary decides who is right (T187).
func (e *entry) join(ctx context.Context, s *Stream, after *run.Seq, epoch string) error {
	if after != nil {
		if err := e.ask(ctx, ask{after: *after, epoch: epoch, done: make(chan error, 1)}); err != nil {
			return err
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.err != nil {
		return e.err
	}
	e.streams[s] = struct{}{}
	first := e.cur
	first.Changed = true
	if after != nil {
		if e.ahead(*after, epoch) {
			anew := first
			anew.Sync, anew.Reset = Resyncing, true
			if foreign(epoch, first.Epoch) {
				anew.Reason = EpochChanged
			}
			s.push(anew)
		} else {
			s.shown = *after
		}
	}
	s.push(first)
	return nil
}

func foreign(epoch, current string) bool { return epoch != "" && epoch != current }

// ahead says that a viewer's position is not in the history that cur shows.
func (e *entry) ahead(after run.Seq, epoch string) bool {
	return foreign(epoch, e.cur.Epoch) || after > e.cur.State.Seq
}

// ask waits until the goroutine has looked at the primary, if it must.
func (e *entry) ask(ctx context.Context, a ask) error {
	e.mu.Lock()
	ahead, err := e.ahead(a.after, a.epoch), e.err
	a.begun = e.begun
	e.mu.Unlock()
	if !ahead || err != nil {
		return err
	}
	select {
	case e.asks <- a:
		select {
		case err := <-a.done:
			return err
		case <-e.gone: // with e.err
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	case <-e.gone: // with e.err, which join returns
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// answer reads at most once for all who asked before the read.
func (e *entry) answer(ctx context.Context, a ask) error {
	switch {
	case !e.ahead(a.after, a.epoch), e.ended > a.begun:
		return nil
	case e.cur.Sync == Stale && e.cur.Reason == StoreDown:
		return store.ErrUnavailable
	}
	return e.catchUp(ctx)
}
