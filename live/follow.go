package live

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// This file processes the deliveries and head checks of an entry. Every path ends with a LIVE frame, at a state that
// the store had at AsOf, or with a STALE frame and its reason. Each head check re-examines a STALE entry.

// messageDelay is the longest time after a commit at which its message is not late: the projector of a busy run holds
// messages back for up to one second (contract O8).
const messageDelay = 1250 * time.Millisecond

// rereadDelay is the time between the two reads of a resync.
const rereadDelay = 50 * time.Millisecond

func (e *entry) handleDelivery(ctx context.Context, d Delivery) {
	again := d.Confirmed && e.confirmed
	e.confirmed = e.confirmed || d.Confirmed
	switch {
	case e.storeDown(): // a read follows when the store answers again
	case again:
		e.verify(ctx, Reconnected)
	case d.Confirmed, d.Overflow:
		if d.Overflow {
			e.hub.metrics.resyncs[overflowed].Inc()
		}
		_ = e.catchUp(ctx) // the frame shows the error
	}
	if d.Message != nil {
		e.handleMessage(ctx, *d.Message)
	}
}

// storeDown reports whether the store did not answer and no later check has succeeded.
func (e *entry) storeDown() bool { return e.cur.Sync == Stale && e.cur.Reason == StoreDown }

// handleMessage applies a message by the overlap rule (contract T188). While the store does not answer, a delta still
// moves the state, but the frame stays STALE because the head is unknown.
func (e *entry) handleMessage(ctx context.Context, m Message) {
	f := e.cur
	down := e.storeDown()
	readable := m.V == MessageVersion && m.Epoch == f.Epoch && m.Rev == run.ReducerRev
	switch {
	case m.Epoch == f.Epoch && m.To <= f.State.Seq:
		f.OpsRev = max(f.OpsRev, m.OpsRev)
		if f.Sync == Live {
			f.AsOf = latest(f.AsOf, m.At)
		}
		if m.To == f.State.Seq && f.CommittedAt.IsZero() {
			f.CommittedAt = m.CommittedAt
		}
		e.setFrame(f, time.Time{})
	case readable && m.Delta != nil:
		next, verdict := f.State.Apply(*m.Delta)
		switch {
		case verdict == run.Applied:
			f.State, f.HeadSeq, f.CommittedAt = next, max(f.HeadSeq, next.Seq), m.CommittedAt
			f.OpsRev, f.AsOf = max(f.OpsRev, m.OpsRev), latest(f.AsOf, m.At)
			if f.HeadSeq == next.Seq && !down {
				f.Sync, f.Reason = Live, e.healthyReason()
			}
			e.setFrame(f, time.Time{})
		case !down:
			e.hub.cfg.Logger.WarnContext(ctx, "a message of a run is missing; the run is read again",
				slog.String("code", "PROJECTOR_NON_CONTIGUOUS_FETCH_DETECTED"), slog.String("runId", e.runID),
				slog.Int64("runSeq", int64(f.State.Seq)), slog.Int64("headSeq", int64(m.To)), slog.String("severity", "P2"))
			e.hub.cfg.OnGap()
			e.resync(ctx, m)
		}
	case !down:
		_ = e.catchUp(ctx) // the frame shows the error
	}
}

// catchUp reads once and adopts the result without a STALE frame, because nothing was lost that a viewer could have
// noticed. A message that claims more than this read finds is invalid and is dropped (contract T213). An error is
// also shown in the frame.
func (e *entry) catchUp(ctx context.Context) error {
	l, err := e.read(ctx, StoreDown, store.Head{})
	if err != nil {
		e.readFailed(ctx, err)
		return err
	}
	e.adopt(l)
	return nil
}

// adopt shows the result of a read. It resets the streams when the log is another one (contract T30). The frame is
// LIVE if the state reaches the head of the same read.
func (e *entry) adopt(l store.Loaded) {
	f := e.cur
	short := l.State.Seq < l.Head.LastSeq
	if l.Epoch != f.Epoch || l.State.Seq < f.State.Seq && !short {
		e.hub.metrics.resyncs[EpochChanged].Inc()
		f = Frame{
			Sync: Resyncing, Reason: EpochChanged, State: l.State, Epoch: l.Epoch, OpsRev: l.Head.OpsRev, AsOf: l.Now,
			HeadSeq: l.State.Seq, CommittedAt: committedAt(l), Reset: true,
		}
		e.setFrame(f, time.Time{})
		f.Reset = false
	}
	f.HeadSeq = l.Head.LastSeq
	if short {
		if f.Sync == Live || f.Reason == StoreDown || f.Reason == Reconnected || f.Reason == EpochChanged {
			f.Reason = ProjectorLag
		}
		f.Sync = Stale
		e.setFrame(f, oldestHidden(l))
		return
	}
	e.clearPendingLoss()
	f.State, f.OpsRev, f.AsOf, f.CommittedAt = l.State, max(f.OpsRev, l.Head.OpsRev), latest(f.AsOf, l.Now), committedAt(l)
	f.Sync, f.Reason = Live, e.healthyReason()
	e.setFrame(f, time.Time{})
}

// committedAt returns the commit time of the newest event that l shows, or zero if unknown.
func committedAt(l store.Loaded) time.Time {
	if l.State.Seq == 0 || l.State.Seq != l.Head.LastSeq {
		return time.Time{}
	}
	return l.Head.LastAt
}

// oldestHidden returns the commit time of the oldest event that l does not show.
func oldestHidden(l store.Loaded) time.Time {
	if !l.OldestUnprojected.IsZero() {
		return l.OldestUnprojected
	}
	return l.Head.LastAt
}

// verify compares with the head. If they are equal, the frame is LIVE without a resync (contract T21).
func (e *entry) verify(ctx context.Context, reason Reason) {
	e.hub.metrics.resyncs[reason].Inc()
	f := e.cur
	f.Sync, f.Reason = Verifying, reason
	e.setFrame(f, time.Time{})
	_ = e.catchUp(ctx) // the frame shows the error
}

// resync shows STALE(GAP), then reads until the state reaches the message (contract T21). A message above the
// primary's head in the same epoch is invalid: after two reads it is dropped and the stream continues (contract
// T213).
func (e *entry) resync(ctx context.Context, m Message) {
	e.hub.metrics.resyncs[Gap].Inc()
	f := e.cur
	f.Sync, f.Reason, f.HeadSeq = Stale, Gap, m.To
	e.setFrame(f, m.CommittedAt)
	f.Sync = Resyncing
	e.setFrame(f, time.Time{})
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

// readFailed shows STALE(STORE_DOWN) and keeps the last state. A run that does not exist any more ends the streams.
func (e *entry) readFailed(ctx context.Context, err error) {
	switch {
	case ctx.Err() != nil:
	case errors.Is(err, store.ErrNotFound):
		e.fail(ErrNotFound)
	default:
		f := e.cur
		f.Sync, f.Reason = Stale, StoreDown
		e.setFrame(f, time.Time{})
	}
}

func (e *entry) handleHeadCheck(ctx context.Context, s headCheck) {
	f := e.cur
	switch {
	case s.err != nil:
		e.readFailed(ctx, s.err)
	case e.storeDown():
		e.verify(ctx, StoreDown)
	case f.Sync != Live, !s.found, s.epoch != f.Epoch, s.head.LastSeq < f.State.Seq:
		_ = e.catchUp(ctx) // the check may be older than the frame, so a read decides
	case s.head.LastSeq > f.State.Seq && e.isDegraded():
		_ = e.catchUp(ctx)
	case s.head.LastSeq > f.State.Seq:
		// An earlier head that its messages have reached since says nothing of this one.
		if e.behind.LastSeq <= f.State.Seq {
			e.behind = s.head
			age := max(0, s.now.Sub(s.head.LastAt))
			e.patience.Reset(max(e.hub.cfg.Patience, messageDelay-age))
		}
	default:
		e.clearPendingLoss()
		f.AsOf, f.OpsRev = latest(f.AsOf, s.now), max(f.OpsRev, s.head.OpsRev)
		f.Reason = e.healthyReason()
		if f.CommittedAt.IsZero() && f.State.Seq > 0 {
			f.CommittedAt = s.head.LastAt
		}
		e.setFrame(f, time.Time{})
	}
}

// clearPendingLoss forgets a head that was above the watermark.
func (e *entry) clearPendingLoss() {
	e.behind = store.Head{}
	if e.patience != nil {
		e.patience.Stop()
	}
}

// confirmLoss runs Patience after a head check found events above the watermark, and not before their message is
// late. Either the message was lost (contract T22), or the projector has not sent it; then the checkpoint lags, too,
// and there is no gap (contract T187). One read tells which.
func (e *entry) confirmLoss(ctx context.Context) {
	head := e.behind
	e.clearPendingLoss()
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
	e.setFrame(f, waits)
	f.Sync = Resyncing
	e.setFrame(f, time.Time{})
	e.adopt(l)
}

func latest(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
