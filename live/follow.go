package live

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// What an entry's goroutine does with what it hears. Every path ends LIVE, at a
// state that the store had at AsOf, or STALE with the reason; a STALE entry is
// looked at again with each head check.

// rereadDelay lies between the two reads of a resync.
const rereadDelay = 50 * time.Millisecond

func (e *entry) delivered(ctx context.Context, d Delivery) {
	switch {
	case d.Confirmed && e.confirmed:
		e.verify(ctx, Reconnected)
	case d.Confirmed, d.Overflow:
		e.confirmed = e.confirmed || d.Confirmed
		_ = e.catchUp(ctx) // the frame says it
	}
	if d.Message != nil {
		e.received(ctx, *d.Message)
	}
}

// received applies a message by the overlap rule (T188). While the store does
// not answer a delta moves the state, but the frame stays STALE: nobody can say
// what the head is.
func (e *entry) received(ctx context.Context, m Message) {
	f := e.cur
	down := f.Sync == Stale && f.Reason == StoreDown
	readable := m.V == MessageVersion && m.Epoch == f.Epoch && m.Rev == run.ReducerRev
	switch {
	case m.Epoch == f.Epoch && m.To <= f.State.Seq:
		f.OpsRev = max(f.OpsRev, m.OpsRev)
		if f.Sync == Live {
			f.AsOf = later(f.AsOf, m.At)
		}
		e.show(f)
	case readable && m.Delta != nil:
		next, verdict := f.State.Apply(*m.Delta)
		switch {
		case verdict == run.Applied:
			f.State, f.HeadSeq = next, max(f.HeadSeq, next.Seq)
			f.OpsRev, f.AsOf = max(f.OpsRev, m.OpsRev), later(f.AsOf, m.At)
			if f.HeadSeq == next.Seq && !down {
				f.Sync, f.Reason, f.Lag = Live, e.calm(), 0
			}
			e.show(f)
		case !down:
			e.hub.cfg.Logger.WarnContext(ctx, "PROJECTOR_NON_CONTIGUOUS_FETCH_DETECTED", slog.String("runId", e.runID),
				slog.Int64("runSeq", int64(f.State.Seq)), slog.Int64("headSeq", int64(m.To)))
			e.resync(ctx, Gap, m.To)
		}
	case !down:
		_ = e.catchUp(ctx) // the frame says it
	}
}

// catchUp reads once and moves on without a word: nothing was lost that a viewer
// could have noticed. A read that does not reach what a message claimed makes
// it a bogus message: it is dropped (T213). An error was also shown.
func (e *entry) catchUp(ctx context.Context) error {
	began := time.Now()
	l, err := e.read(ctx)
	if err != nil {
		e.readFailed(ctx, err)
		return err
	}
	e.caughtUp = began
	e.adopt(l)
	return nil
}

// adopt shows a read. It is LIVE if it reaches the head that the same read saw,
// and a reset when the log is another one (T30).
func (e *entry) adopt(l store.Loaded) {
	f := e.cur
	f.HeadSeq = l.Head.LastSeq
	if l.State.Seq < l.Head.LastSeq {
		if f.Sync == Live || f.Reason == StoreDown || f.Reason == Reconnected {
			f.Reason = ProjectorLag
		}
		f.Sync = Stale
		e.show(f)
		return
	}
	e.settle()
	if l.Epoch != f.Epoch || l.State.Seq < f.State.Seq {
		f = Frame{
			Sync: Resyncing, Reason: EpochChanged, State: l.State, Epoch: l.Epoch, OpsRev: l.Head.OpsRev, AsOf: l.Now,
			HeadSeq: l.State.Seq, Reset: true,
		}
		e.show(f)
		f.Reset = false
	}
	f.State, f.OpsRev, f.AsOf = l.State, max(f.OpsRev, l.Head.OpsRev), later(f.AsOf, l.Now)
	f.Sync, f.Reason, f.Lag = Live, e.calm(), 0
	e.show(f)
}

// verify compares with the head: equal is LIVE without a resync (T21).
func (e *entry) verify(ctx context.Context, reason Reason) {
	f := e.cur
	f.Sync, f.Reason = Verifying, reason
	e.show(f)
	_ = e.catchUp(ctx) // the frame says it
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
	l, err := e.read(ctx)
	if err == nil && l.State.Seq < target && l.Epoch == f.Epoch {
		select {
		case <-ctx.Done():
			return
		case <-time.After(rereadDelay):
		}
		l, err = e.read(ctx)
	}
	if err != nil {
		e.readFailed(ctx, err)
		return
	}
	e.adopt(l)
}

// readFailed says STALE(STORE_DOWN) and keeps the last state; a run that is gone
// ends the streams.
func (e *entry) readFailed(ctx context.Context, err error) {
	switch {
	case ctx.Err() != nil:
	case errors.Is(err, store.ErrNotFound):
		e.fail(ErrNotFound)
	default:
		f := e.cur
		f.Sync, f.Reason = Stale, StoreDown
		e.show(f)
	}
}

func (e *entry) headChecked(ctx context.Context, s headSeen) {
	f := e.cur
	switch {
	case s.err != nil:
		e.readFailed(ctx, s.err)
	case f.Sync == Stale && f.Reason == StoreDown:
		e.verify(ctx, StoreDown)
	case f.Sync != Live, !s.found, s.epoch != f.Epoch, s.head.LastSeq < f.State.Seq:
		_ = e.catchUp(ctx) // the check may be older than the frame: one read says what is so
	case s.head.LastSeq > f.State.Seq && e.degraded():
		_ = e.catchUp(ctx)
	case s.head.LastSeq > f.State.Seq:
		if e.behind == 0 {
			e.behind = s.head.LastSeq
			e.patience.Reset(e.hub.cfg.Patience)
		}
	default:
		e.settle()
		f.AsOf, f.OpsRev = later(f.AsOf, s.now), max(f.OpsRev, s.head.OpsRev)
		f.Reason = e.calm()
		e.show(f)
	}
}

// settle forgets a head that was above the watermark.
func (e *entry) settle() {
	e.behind = 0
	if e.patience != nil {
		e.patience.Stop()
	}
}

// confirmLoss runs Patience after a head was seen above the watermark. If the
// message has not come by now it is lost (T22), or was never sent: then the
// checkpoint lags too, which is no gap (T187). One read tells them apart.
func (e *entry) confirmLoss(ctx context.Context) {
	target := e.behind
	e.settle()
	if target <= e.cur.State.Seq || e.cur.Sync != Live {
		return
	}
	l, err := e.read(ctx)
	if err != nil {
		e.readFailed(ctx, err)
		return
	}
	f := e.cur
	f.Sync, f.Reason, f.HeadSeq = Stale, TailLoss, target
	if l.CheckpointAt < target && !l.OldestUnprojected.IsZero() {
		f.Reason, f.Lag = ProjectorLag, max(0, l.Now.Sub(l.OldestUnprojected))
	}
	e.show(f)
	f.Sync = Resyncing
	e.show(f)
	e.adopt(l)
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
