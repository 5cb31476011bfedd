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

// paced is how long after a commit its message is not late: the projector of a busy
// run holds it back for up to a second (O8).
const paced = 1250 * time.Millisecond

// rereadDelay lies between the two reads of a resync.
const rereadDelay = 50 * time.Millisecond

func (e *entry) delivered(ctx context.Context, d Delivery) {
	again := d.Confirmed && e.confirmed
	e.confirmed = e.confirmed || d.Confirmed
	switch {
	case e.storeDown(): // what was missed is read when the store answers
	case again:
		e.verify(ctx, Reconnected)
	case d.Confirmed, d.Overflow:
		if d.Overflow {
			e.hub.metrics.resyncs[overflowed].Inc()
		}
		_ = e.catchUp(ctx) // the frame says it
	}
	if d.Message != nil {
		e.received(ctx, *d.Message)
	}
}

// storeDown says that the store did not answer and has not been seen to since.
func (e *entry) storeDown() bool { return e.cur.Sync == Stale && e.cur.Reason == StoreDown }

// received applies a message by the overlap rule (T188). While the store does
// not answer a delta moves the state, but the frame stays STALE: nobody can say
// what the head is.
func (e *entry) received(ctx context.Context, m Message) {
	f := e.cur
	down := e.storeDown()
	readable := m.V == MessageVersion && m.Epoch == f.Epoch && m.Rev == run.ReducerRev
	switch {
	case m.Epoch == f.Epoch && m.To <= f.State.Seq:
		f.OpsRev = max(f.OpsRev, m.OpsRev)
		if f.Sync == Live {
			f.AsOf = later(f.AsOf, m.At)
		}
		if m.To == f.State.Seq && f.CommittedAt.IsZero() {
			f.CommittedAt = m.CommittedAt
		}
		e.show(f, time.Time{})
	case readable && m.Delta != nil:
		next, verdict := f.State.Apply(*m.Delta)
		switch {
		case verdict == run.Applied:
			f.State, f.HeadSeq, f.CommittedAt = next, max(f.HeadSeq, next.Seq), m.CommittedAt
			f.OpsRev, f.AsOf = max(f.OpsRev, m.OpsRev), later(f.AsOf, m.At)
			if f.HeadSeq == next.Seq && !down {
				f.Sync, f.Reason = Live, e.calm()
			}
			e.show(f, time.Time{})
		case !down:
			e.hub.cfg.Logger.WarnContext(ctx, "PROJECTOR_NON_CONTIGUOUS_FETCH_DETECTED", slog.String("runId", e.runID),
				slog.Int64("runSeq", int64(f.State.Seq)), slog.Int64("headSeq", int64(m.To)))
			e.resync(ctx, m)
		}
	case !down:
		_ = e.catchUp(ctx) // the frame says it
	}
}

// catchUp reads once and moves on without a word: nothing was lost that a viewer
// could have noticed. A read that does not reach what a message claimed makes
// it a bogus message: it is dropped (T213). An error was also shown.
func (e *entry) catchUp(ctx context.Context) error {
	l, err := e.read(ctx, StoreDown, store.Head{})
	if err != nil {
		e.readFailed(ctx, err)
		return err
	}
	e.adopt(l)
	return nil
}

// adopt shows a read. It is a reset when the log is another one (T30), and LIVE if
// it reaches the head that the same read saw.
func (e *entry) adopt(l store.Loaded) {
	f := e.cur
	short := l.State.Seq < l.Head.LastSeq
	if l.Epoch != f.Epoch || l.State.Seq < f.State.Seq && !short {
		e.hub.metrics.resyncs[EpochChanged].Inc()
		f = Frame{
			Sync: Resyncing, Reason: EpochChanged, State: l.State, Epoch: l.Epoch, OpsRev: l.Head.OpsRev, AsOf: l.Now,
			HeadSeq: l.State.Seq, CommittedAt: committed(l), Reset: true,
		}
		e.show(f, time.Time{})
		f.Reset = false
	}
	f.HeadSeq = l.Head.LastSeq
	if short {
		if f.Sync == Live || f.Reason == StoreDown || f.Reason == Reconnected || f.Reason == EpochChanged {
			f.Reason = ProjectorLag
		}
		f.Sync = Stale
		e.show(f, oldest(l))
		return
	}
	e.settle()
	f.State, f.OpsRev, f.AsOf, f.CommittedAt = l.State, max(f.OpsRev, l.Head.OpsRev), later(f.AsOf, l.Now), committed(l)
	f.Sync, f.Reason = Live, e.calm()
	e.show(f, time.Time{})
}

// committed is when the newest event of a read was, if that is known.
func committed(l store.Loaded) time.Time {
	if l.State.Seq == 0 || l.State.Seq != l.Head.LastSeq {
		return time.Time{}
	}
	return l.Head.LastAt
}

// oldest is when something that a read does not show was committed.
func oldest(l store.Loaded) time.Time {
	if !l.OldestUnprojected.IsZero() {
		return l.OldestUnprojected
	}
	return l.Head.LastAt
}

// verify compares with the head: equal is LIVE without a resync (T21).
func (e *entry) verify(ctx context.Context, reason Reason) {
	e.hub.metrics.resyncs[reason].Inc()
	f := e.cur
	f.Sync, f.Reason = Verifying, reason
	e.show(f, time.Time{})
	_ = e.catchUp(ctx) // the frame says it
}

// resync says STALE(GAP), then reads until the head reaches the message (T21). One
// above the primary's head within the epoch is provably bogus: after two reads
// the message is dropped and the stream stays (T213).
func (e *entry) resync(ctx context.Context, m Message) {
	e.hub.metrics.resyncs[Gap].Inc()
	f := e.cur
	f.Sync, f.Reason, f.HeadSeq = Stale, Gap, m.To
	e.show(f, m.CommittedAt)
	f.Sync = Resyncing
	e.show(f, time.Time{})
	l, err := e.read(ctx, Gap, store.Head{})
	if err == nil && l.State.Seq < m.To && l.Epoch == f.Epoch {
		select {
		case <-ctx.Done():
			return
		case <-time.After(rereadDelay):
		}
		l, err = e.read(ctx, Gap, store.Head{})
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
		e.show(f, time.Time{})
	}
}

func (e *entry) headChecked(ctx context.Context, s headSeen) {
	f := e.cur
	switch {
	case s.err != nil:
		e.readFailed(ctx, s.err)
	case e.storeDown():
		e.verify(ctx, StoreDown)
	case f.Sync != Live, !s.found, s.epoch != f.Epoch, s.head.LastSeq < f.State.Seq:
		_ = e.catchUp(ctx) // the check may be older than the frame: one read says what is so
	case s.head.LastSeq > f.State.Seq && e.degraded():
		_ = e.catchUp(ctx)
	case s.head.LastSeq > f.State.Seq:
		if e.behind.LastSeq == 0 {
			e.behind = s.head
			age := max(0, s.now.Sub(s.head.LastAt))
			e.patience.Reset(max(e.hub.cfg.Patience, paced-age))
		}
	default:
		e.settle()
		f.AsOf, f.OpsRev = later(f.AsOf, s.now), max(f.OpsRev, s.head.OpsRev)
		f.Reason = e.calm()
		if f.CommittedAt.IsZero() && f.State.Seq > 0 {
			f.CommittedAt = s.head.LastAt
		}
		e.show(f, time.Time{})
	}
}

// settle forgets a head that was above the watermark.
func (e *entry) settle() {
	e.behind = store.Head{}
	if e.patience != nil {
		e.patience.Stop()
	}
}

// confirmLoss runs Patience after a head was seen above the watermark, and not
// before its message is late. If that has not come by now it is lost (T22), or was
// never sent: then the checkpoint lags too, which is no gap (T187). One read tells
// them apart.
func (e *entry) confirmLoss(ctx context.Context) {
	head := e.behind
	e.settle()
	if head.LastSeq <= e.cur.State.Seq || e.cur.Sync != Live {
		return
	}
	l, err := e.read(ctx, TailLoss, head)
	if err != nil {
		e.readFailed(ctx, err)
		return
	}
	f, waits := e.cur, head.LastAt
	f.Sync, f.Reason, f.HeadSeq = Stale, TailLoss, head.LastSeq
	if l.CheckpointAt < head.LastSeq && !l.OldestUnprojected.IsZero() {
		f.Reason, waits = ProjectorLag, l.OldestUnprojected
	}
	e.hub.metrics.missed.Inc()
	e.hub.metrics.resyncs[f.Reason].Inc()
	e.show(f, waits)
	f.Sync = Resyncing
	e.show(f, time.Time{})
	e.adopt(l)
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
