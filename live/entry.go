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

// entry is one watched run and the only owner of its state in this process. Only its goroutine writes cur, under mu;
// streams read it under mu.
type entry struct {
	hub   *Hub
	runID string
	refs  int // guarded by hub.mu
	stop  context.CancelFunc
	ready chan struct{}  // closed when the first read has succeeded or failed
	gone  chan struct{}  // closed when the goroutine has ended
	heads chan headCheck // holds the newest head check that was not processed
	joins chan joinRequest

	mu           sync.Mutex
	cur          Frame     // the current frame; Changed and Reset describe only pushed frames
	oldestHidden time.Time // commit time of the oldest event that cur does not show; zero if unknown
	err          error
	streams      map[*Stream]struct{}
	cancelRead   context.CancelFunc // cancels the current read; a no-op after it has ended
	readsStarted int                // number of reads started

	// Used only by the goroutine.
	isReady    bool          // ready is closed
	confirmed  bool          // the bus has confirmed the subscription at least once
	behind     store.Head    // a head above the watermark, zero if there is none (contract T187)
	patience   *time.Timer   // runs while behind is set
	lastRead   int           // number of the last read that succeeded
	waiting    []joinRequest // joiners that wait for an answer
	joinTimer  *time.Timer   // runs while there are waiting joiners
	resolvedAt time.Time     // when joiners were last answered
}

// joinRequest is a joiner whose position is not in the history that the entry shows.
type joinRequest struct {
	after        run.Seq
	epoch        string
	readsStarted int // reads started when it asked
	done         chan error
}

// joinInterval is the time for which join requests are collected, so that one read answers all of them.
const joinInterval = 50 * time.Millisecond

// confirmPatience is how long an entry waits for the confirmation of its channel before it reads without the bus. A
// later confirmation makes it catch up.
const confirmPatience = time.Second

func newEntry(h *Hub, runID string) (*entry, context.Context) {
	ctx, stop := context.WithCancel(context.Background())
	return &entry{
		hub: h, runID: runID, stop: stop, ready: make(chan struct{}), gone: make(chan struct{}),
		heads: make(chan headCheck, 1), joins: make(chan joinRequest), streams: map[*Stream]struct{}{},
	}, ctx
}

// offerHeadCheck hands a head check to the goroutine and replaces one that is still unprocessed. A failed check also
// cancels the current read, because waiting a second time for a store that does not answer delays the STALE frame.
func (e *entry) offerHeadCheck(s headCheck) {
	if s.err != nil {
		e.mu.Lock()
		if e.cancelRead != nil {
			e.cancelRead()
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

// run serves the viewers of the run until ctx ends. A panic ends only the streams of this run; the next viewer loads
// it again.
func (e *entry) run(ctx context.Context) {
	defer close(e.gone)
	err := e.hub.panics.Call("watch", e.runID, func() error {
		e.serve(ctx)
		return nil
	})
	if err != nil {
		e.fail(err)
		e.markReady()
	}
}

// markReady lets viewers join, or see why they cannot. Only the goroutine of run may call it.
func (e *entry) markReady() {
	if !e.isReady {
		e.isReady = true
		close(e.ready)
	}
}

func (e *entry) serve(ctx context.Context) {
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
	e.patience, e.joinTimer = time.NewTimer(e.hub.cfg.Patience), time.NewTimer(joinInterval)
	defer e.patience.Stop()
	defer e.joinTimer.Stop()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case d := <-sub.C():
			e.handleDelivery(ctx, d)
		case s := <-e.heads:
			e.handleHeadCheck(ctx, s)
		case a := <-e.joins:
			if e.waiting = append(e.waiting, a); len(e.waiting) == 1 {
				e.joinTimer.Reset(joinInterval - time.Since(e.resolvedAt))
			}
		case <-e.joinTimer.C:
			for _, a := range e.waiting {
				a.done <- e.resolveJoin(ctx, a)
			}
			e.waiting, e.resolvedAt = nil, time.Now()
		case <-e.patience.C:
			e.drain(ctx, sub)
			e.confirmLoss(ctx)
		}
	}
}

// drain processes the deliveries that have arrived so far.
func (e *entry) drain(ctx context.Context, sub Subscription) {
	for range len(sub.C()) {
		select {
		case d := <-sub.C():
			e.handleDelivery(ctx, d)
		default: // the bus emptied a full mailbox
		}
	}
}

// awaitConfirmation waits until the bus confirms the channel and discards earlier deliveries, because the following
// read includes them. It returns false when the confirmation does not arrive in time.
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

// read returns the state at the head with one bounded read of the changes since the current state. It reads the whole
// state when the current one belongs to another log (contract T212). If the read takes longer than Patience, viewers
// see STALE with the reason slow and the known head (contract T226). Errors: ErrNotFound, ErrUnavailable, or ctx's
// error.
func (e *entry) read(ctx context.Context, slow Reason, head store.Head) (store.Loaded, error) {
	bounded, cancel := context.WithTimeout(ctx, e.hub.cfg.ReadTimeout)
	defer cancel()
	e.mu.Lock()
	e.cancelRead = cancel
	e.readsStarted++
	number, have := e.readsStarted, e.cur
	e.mu.Unlock()
	marked := make(chan struct{})
	timer := time.AfterFunc(e.hub.cfg.Patience, func() {
		defer close(marked)
		e.markStale(slow, head)
	})
	l, d, err := e.hub.since(bounded, e.runID, have.State.Seq)
	if err == nil && len(l.State.Steps) != l.State.Counts.Total {
		var whole bool
		if l.State, whole = have.advanced(l.Epoch, d); !whole {
			l, _, err = e.hub.since(bounded, e.runID, 0)
		}
	}
	if !timer.Stop() {
		<-marked
	}
	switch {
	case err == nil:
		e.lastRead = number
		return l, nil
	case ctx.Err() != nil, errors.Is(err, store.ErrNotFound), errors.Is(err, store.ErrUnavailable):
		return l, err
	}
	return l, fmt.Errorf("%w: %w", store.ErrUnavailable, err)
}

// markStale shows STALE while a read takes long. read waits for it to return.
func (e *entry) markStale(reason Reason, head store.Head) {
	if f := e.cur; f.Sync == Live {
		f.Sync, f.Reason, f.HeadSeq = Stale, reason, max(f.HeadSeq, head.LastSeq)
		e.setFrame(f, head.LastAt)
	}
}

// advanced returns f's state moved forward by d. It returns false when d belongs to another log.
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
		Sync: Live, Reason: e.healthyReason(), State: l.State, Epoch: l.Epoch, OpsRev: l.Head.OpsRev, AsOf: l.Now,
		HeadSeq:     l.State.Seq,
		CommittedAt: committedAt(l),
	}
	if l.State.Seq < l.Head.LastSeq {
		f.Sync, f.Reason, f.HeadSeq = Stale, ProjectorLag, l.Head.LastSeq
	}
	e.setFrame(f, oldestHidden(l))
	return nil
}

// isDegraded reports whether messages cannot be expected, so that heads are polled instead (contract T127).
func (e *entry) isDegraded() bool { return !e.confirmed || !e.hub.bus.Up() }

// healthyReason returns the reason of a frame that is LIVE.
func (e *entry) healthyReason() Reason {
	if e.isDegraded() {
		return BusDegraded
	}
	return ""
}

// setFrame makes f the current frame and pushes it to every stream. If only the time changed, nothing is pushed:
// quiet frames report it. oldestHidden is the commit time of the oldest event that f does not show; zero keeps the
// known value.
func (e *entry) setFrame(f Frame, oldestHidden time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !oldestHidden.IsZero() {
		e.oldestHidden = oldestHidden
	}
	if f.State.Seq >= f.HeadSeq {
		e.oldestHidden = time.Time{}
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

// lag returns the age of the oldest event that cur does not show, as far as known (contract T34). The caller holds
// e.mu.
func (e *entry) lag() time.Duration {
	if e.oldestHidden.IsZero() {
		return 0
	}
	return max(0, e.hub.Now().Sub(e.oldestHidden))
}

// fail ends the entry and its streams with err. It leaves the hub first, so that the next viewer gets a new entry.
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

// join adds a stream and pushes its first frame. A viewer whose position is ahead of this entry was served by a
// server that had read more; a read of the primary decides which of them is right (contract T187).
func (e *entry) join(ctx context.Context, s *Stream, after *run.Seq, epoch string) error {
	if after != nil {
		if err := e.awaitJoin(ctx, joinRequest{after: *after, epoch: epoch, done: make(chan error, 1)}); err != nil {
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
		if e.isAhead(*after, epoch) {
			reset := first
			reset.Sync, reset.Reset = Resyncing, true
			if isForeign(epoch, first.Epoch) {
				reset.Reason = EpochChanged
			}
			s.push(reset)
		} else {
			s.shown = *after
		}
	}
	s.push(first)
	return nil
}

func isForeign(epoch, current string) bool { return epoch != "" && epoch != current }

// isAhead reports whether a viewer's position is missing in the history that cur shows. The caller holds e.mu or is
// the goroutine.
func (e *entry) isAhead(after run.Seq, epoch string) bool {
	return isForeign(epoch, e.cur.Epoch) || after > e.cur.State.Seq
}

// awaitJoin waits until the goroutine has read the primary, if the viewer's position requires it.
func (e *entry) awaitJoin(ctx context.Context, req joinRequest) error {
	e.mu.Lock()
	ahead, err := e.isAhead(req.after, req.epoch), e.err
	req.readsStarted = e.readsStarted
	e.mu.Unlock()
	if !ahead || err != nil {
		return err
	}
	select {
	case e.joins <- req:
		select {
		case err := <-req.done:
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

// resolveJoin answers one request. It reads only if no read has started since the request, so that one read answers
// all waiting joiners.
func (e *entry) resolveJoin(ctx context.Context, req joinRequest) error {
	switch {
	case !e.isAhead(req.after, req.epoch), e.lastRead > req.readsStarted:
		return nil
	case e.cur.Sync == Stale && e.cur.Reason == StoreDown:
		return store.ErrUnavailable
	}
	return e.catchUp(ctx)
}
