package live

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// entry is one watched run: the only place that moves its state in this
// process. Its goroutine alone writes cur; streams read it under mu.
type entry struct {
	hub   *Hub
	runID string
	refs  int // guarded by hub.mu
	stop  context.CancelFunc
	ready chan struct{} // closed when the first read is done or failed
	heads chan headSeen

	mu      sync.Mutex
	cur     Frame
	err     error
	streams map[*Stream]struct{}

	// Of the goroutine alone.
	behind behindHead
}

// behindHead remembers a head that was seen above the watermark (T187).
type behindHead struct {
	seq   run.Seq
	since time.Time
}

// confirmPatience is how long an entry waits for its channel to be confirmed
// before it reads without the bus; a later confirmation makes it verify.
const confirmPatience = time.Second

func (e *entry) tell(s headSeen) {
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

func (e *entry) run(ctx context.Context) {
	sub := e.hub.bus.Subscribe(e.runID)
	defer sub.Close()
	if e.hub.bus.Up() {
		e.awaitConfirmation(ctx, sub)
	}
	err := e.load(ctx)
	close(e.ready)
	if err != nil {
		e.fail(err)
		return
	}
	suspicion := time.NewTimer(time.Hour)
	defer suspicion.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case d := <-sub.C():
			e.delivered(ctx, d)
		case s := <-e.heads:
			e.headChecked(ctx, s)
			if e.behind.seq > 0 {
				suspicion.Reset(e.hub.cfg.Patience)
			}
		case <-suspicion.C:
			e.confirmLoss(ctx)
		}
	}
}

func (e *entry) awaitConfirmation(ctx context.Context, sub Subscription) {
	timeout := time.NewTimer(confirmPatience)
	defer timeout.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timeout.C:
			return
		case d := <-sub.C():
			if d.Confirmed {
				return
			}
		}
	}
}

// read is one bounded read of the whole state at the head.
func (e *entry) read(ctx context.Context) (store.Loaded, error) {
	ctx, cancel := context.WithTimeout(ctx, e.hub.cfg.ReadTimeout)
	defer cancel()
	l, _, err := e.hub.src.Since(ctx, e.runID, 0)
	return l, err
}

func (e *entry) load(ctx context.Context) error {
	l, err := e.read(ctx)
	if err != nil {
		return err
	}
	e.show(Frame{
		Sync: Live, Reason: e.calm(), State: l.State, Epoch: l.Epoch, OpsRev: l.Head.OpsRev, AsOf: l.Now, HeadSeq: l.State.Seq,
	})
	return nil
}

// calm is the reason of an otherwise healthy frame.
func (e *entry) calm() Reason {
	if e.hub.bus.Up() {
		return ""
	}
	return BusDegraded
}

// show makes f the current frame and hands it to every stream.
func (e *entry) show(f Frame) {
	e.mu.Lock()
	defer e.mu.Unlock()
	f.Changed = f.State.Seq != e.cur.State.Seq || f.Epoch != e.cur.Epoch
	e.cur = f
	for s := range e.streams {
		s.push(f)
	}
}

func (e *entry) fail(err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.err != nil {
		return
	}
	e.err = err
	for s := range e.streams {
		s.end(err)
	}
}

// join adds a stream with its first frame.
func (e *entry) join(ctx context.Context, s *Stream, after *run.Seq, epoch string) error {
	e.mu.Lock()
	cur, err := e.cur, e.err
	e.mu.Unlock()
	if err != nil {
		return err
	}
	// A viewer that knows more than this entry came from a fresher place: the
	// primary decides who is right.
	if after != nil && *after > cur.State.Seq && (epoch == "" || epoch == cur.Epoch) {
		if l, err := e.read(ctx); err == nil && l.Epoch == cur.Epoch && l.State.Seq > cur.State.Seq {
			cur.State, cur.OpsRev, cur.AsOf, cur.HeadSeq = l.State, l.Head.OpsRev, l.Now, l.State.Seq
		} else if err != nil {
			return err
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.err != nil {
		return e.err
	}
	if e.cur.Epoch == cur.Epoch && e.cur.State.Seq >= cur.State.Seq {
		cur = e.cur
	}
	e.streams[s] = struct{}{}
	first := cur
	first.Changed = true
	switch {
	case after == nil:
	case (epoch != "" && epoch != cur.Epoch) || *after > cur.State.Seq:
		reset := first
		reset.Sync, reset.Reset = Resyncing, true
		if epoch != "" && epoch != cur.Epoch {
			reset.Reason = EpochChanged
		}
		s.push(reset)
	default:
		s.shown = *after
	}
	s.push(first)
	return nil
}

func (e *entry) delivered(ctx context.Context, d Delivery) {
	switch {
	case d.Confirmed:
		e.verify(ctx, Reconnected)
	case d.Overflow:
		e.catchUp(ctx, 0)
	}
	if d.Message == nil {
		return
	}
	m, cur := d.Message, e.cur
	if m.Epoch == cur.Epoch && m.To <= cur.State.Seq {
		if m.OpsRev > cur.OpsRev {
			cur.OpsRev, cur.AsOf = m.OpsRev, later(cur.AsOf, m.At)
			e.show(cur)
		}
		return
	}
	if m.V != MessageVersion || m.Epoch != cur.Epoch || m.Rev != run.ReducerRev || m.Delta == nil {
		e.catchUp(ctx, m.To)
		return
	}
	next, verdict := cur.State.Apply(*m.Delta)
	if verdict == run.Gap {
		e.resync(ctx, Gap, m.To)
		return
	}
	cur.State, cur.HeadSeq = next, next.Seq
	cur.Sync, cur.Reason, cur.Lag = Live, e.calm(), 0
	cur.OpsRev, cur.AsOf = max(cur.OpsRev, m.OpsRev), later(cur.AsOf, m.At)
	e.show(cur)
}

// catchUp reads once and moves on without a word: nothing was lost that a viewer
// could have noticed. A read that does not reach target is a bogus message: it
// is dropped (T213).
func (e *entry) catchUp(ctx context.Context, target run.Seq) {
	l, err := e.read(ctx)
	if err != nil {
		e.storeFailed(ctx, err, target)
		return
	}
	e.adopt(l)
}

// adopt shows a fresh read as LIVE, as a reset when the log is another one.
func (e *entry) adopt(l store.Loaded) {
	f := e.cur
	if l.Epoch != f.Epoch || l.State.Seq < f.State.Seq {
		f.Reset = l.Epoch != f.Epoch || l.Head.LastSeq < f.State.Seq
		if !f.Reset {
			return
		}
	} else {
		f.Reset = false
	}
	f.State, f.Epoch, f.OpsRev, f.AsOf, f.HeadSeq = l.State, l.Epoch, l.Head.OpsRev, l.Now, l.State.Seq
	f.Sync, f.Reason, f.Lag = Live, e.calm(), 0
	e.behind = behindHead{}
	e.show(f)
	if f.Reset {
		e.mu.Lock()
		e.cur.Reset = false
		e.mu.Unlock()
	}
}

// verify compares with the head: equal is LIVE without a resync (T21).
func (e *entry) verify(ctx context.Context, reason Reason) {
	f := e.cur
	f.Sync, f.Reason = Verifying, reason
	e.show(f)
	e.catchUp(ctx, 0)
}

// resync says STALE, then reads until the head reaches target (T21). A target
// above the primary's head within the epoch is provably bogus: after two reads
// the message is dropped and the stream stays (T213).
func (e *entry) resync(ctx context.Context, reason Reason, target run.Seq) {
	f := e.cur
	f.Sync, f.Reason, f.HeadSeq = Stale, reason, target
	e.show(f)
	f.Sync = Resyncing
	e.show(f)
	for range 2 {
		l, err := e.read(ctx)
		if err != nil {
			e.storeFailed(ctx, err, target)
			return
		}
		if l.State.Seq >= target || l.Epoch != f.Epoch {
			e.adopt(l)
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(50 * time.Millisecond):
		}
	}
	e.catchUp(ctx, 0)
}

// storeFailed says STALE(STORE_DOWN), keeps the last state and tries again with
// each head check; a run that is gone ends the streams.
func (e *entry) storeFailed(ctx context.Context, err error, target run.Seq) {
	if ctx.Err() != nil {
		return
	}
	if errors.Is(err, store.ErrNotFound) {
		e.fail(err)
		return
	}
	f := e.cur
	f.HeadSeq = max(f.HeadSeq, target)
	if f.Sync == Stale && f.Reason == StoreDown {
		return
	}
	f.Sync, f.Reason = Stale, StoreDown
	e.show(f)
}

func (e *entry) headChecked(ctx context.Context, s headSeen) {
	f := e.cur
	switch {
	case s.err != nil:
		e.storeFailed(ctx, s.err, 0)
	case !s.found:
		e.fail(ErrNotFound)
	case s.epoch != f.Epoch || s.head.LastSeq < f.State.Seq && s.now.After(f.AsOf):
		f.Sync, f.Reason = Stale, EpochChanged
		e.show(f)
		e.catchUp(ctx, 0)
	case f.Sync != Live:
		e.verify(ctx, f.Reason)
	case s.head.LastSeq > f.State.Seq && !e.hub.bus.Up():
		e.catchUp(ctx, s.head.LastSeq)
	case s.head.LastSeq > f.State.Seq:
		if e.behind.seq == 0 {
			e.behind = behindHead{seq: s.head.LastSeq, since: s.now}
		}
	default:
		e.behind = behindHead{}
		f.AsOf, f.OpsRev = later(f.AsOf, s.now), max(f.OpsRev, s.head.OpsRev)
		f.Reason = e.calm()
		e.quietly(f)
	}
}

// quietly records that the frame is fresh; streams are woken only if anything
// but the time moved.
func (e *entry) quietly(f Frame) {
	if f.OpsRev != e.cur.OpsRev || f.Reason != e.cur.Reason {
		e.show(f)
		return
	}
	e.mu.Lock()
	e.cur.AsOf = f.AsOf
	e.mu.Unlock()
}

// confirmLoss runs Patience after a head was seen above the watermark: if the
// message has not come by now it is lost (T22, T187).
func (e *entry) confirmLoss(ctx context.Context) {
	target := e.behind.seq
	e.behind = behindHead{}
	if target > e.cur.State.Seq {
		e.resync(ctx, TailLoss, target)
	}
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
