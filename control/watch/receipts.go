package watch

import (
	"context"
	"errors"
	"time"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/control/runs"
	"github.com/dvt-engine/dvt/live"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// ReceiptWatcher opens streams of receipts. It is safe for concurrent use.
type ReceiptWatcher struct {
	rights   *control.Rights
	hub      *live.Hub
	receipts *runs.ReceiptReader
}

// NewReceiptWatcher makes a ReceiptWatcher.
func NewReceiptWatcher(rights *control.Rights, hub *live.Hub, receipts *runs.ReceiptReader) *ReceiptWatcher {
	return &ReceiptWatcher{rights: rights, hub: hub, receipts: receipts}
}

// WatchReceipts returns a stream of the receipts of a run, or of one when signalID is given: first the current state of
// each receipt, then each change. It reads when the operational revision or the seq of the run has changed (contract
// T204). Error: NOT_FOUND for the run or the signal.
func (s *ReceiptWatcher) WatchReceipts(ctx context.Context, p authz.Principal, runID,
	signalID string) (control.Stream[runs.SignalReceipt],
	error) {
	r, err := s.rights.GetVisible(ctx, p, authz.Read, runID)
	if err != nil {
		return nil, err
	}
	if signalID != "" {
		if _, err := s.receipts.Receipt(ctx, p, runID, signalID); err != nil {
			return nil, err
		}
	}
	frames, err := s.hub.Watch(ctx, runID, nil, "")
	if err != nil {
		return nil, control.Translate(err)
	}
	return &receiptStream{
		s: s, guard: s.rights.GuardRun(p, r.Identity), frames: frames, runID: runID, signalID: signalID,
		shown: map[string]receiptShown{}, opsRev: -1,
	}, nil
}

// receiptShown has the parts of a receipt that change.
type receiptShown struct {
	application run.Application
	quiescent   run.Seq
}

type receiptStream struct {
	s               *ReceiptWatcher
	guard           control.Guard
	frames          *live.Stream
	runID, signalID string
	opsRev          int64
	seq             run.Seq
	dirty           bool // the run has changed since the last read
	pending         []runs.SignalReceipt
	settled         string                  // the receipts up to this signalId will not change again
	shown           map[string]receiptShown // by signalId, receipts that may still change; at most maxReceipts
}

// maxReceipts bounds the receipts of one run that may still change. Later receipts are not sent.
const maxReceipts = 10000

func (r *receiptStream) Next(ctx context.Context) (out runs.SignalReceipt, err error) {
	err = r.guard.Wait(ctx, func(ctx context.Context) (err error) {
		out, err = r.next(ctx)
		return err
	})
	return out, err
}

func (r *receiptStream) next(ctx context.Context) (runs.SignalReceipt, error) {
	for len(r.pending) == 0 {
		if !r.dirty {
			f, err := r.frames.Next(ctx)
			if err != nil {
				return runs.SignalReceipt{}, err
			}
			if f.OpsRev == r.opsRev && f.State.Seq == r.seq {
				continue
			}
			r.opsRev, r.seq, r.dirty = f.OpsRev, f.State.Seq, true
		}
		err := r.look(ctx)
		if errors.Is(err, store.ErrUnavailable) {
			select {
			case <-ctx.Done():
				return runs.SignalReceipt{}, ctx.Err()
			case <-time.After(storeRetry):
			}
			continue
		}
		if err != nil {
			return runs.SignalReceipt{}, err
		}
		r.dirty = false
	}
	out := r.pending[0]
	r.pending = r.pending[1:]
	return out, nil
}

func (r *receiptStream) look(ctx context.Context) error {
	st := r.s.receipts.Store
	if r.signalID != "" {
		rc, err := st.Receipt(ctx, r.runID, r.signalID)
		if err == nil {
			r.note(rc)
		}
		return err
	}
	after, settled := r.settled, true
	for {
		page, err := st.Receipts(ctx, r.runID, after, control.MaxPageSize)
		if err != nil {
			return err
		}
		for _, rc := range page {
			r.note(rc)
			after = rc.Signal.ID
			if settled = settled && isSettled(rc); settled {
				r.settled = after
				delete(r.shown, after)
			}
		}
		if len(page) < control.MaxPageSize {
			return nil
		}
	}
}

// isSettled reports whether a receipt will not change again.
func isSettled(rc run.SignalReceipt) bool {
	if rc.Signal.Type == run.Pause && rc.Application == run.SignalApplied {
		return rc.QuiescentSeq > 0
	}
	return rc.Rejected || rc.Application.Final()
}

func (r *receiptStream) note(rc run.SignalReceipt) {
	now := receiptShown{rc.Application, rc.QuiescentSeq}
	before, known := r.shown[rc.Signal.ID]
	if known && before == now || !known && len(r.shown) >= maxReceipts {
		return
	}
	r.shown[rc.Signal.ID] = now
	r.pending = append(r.pending, runs.SignalReceipt{SignalReceipt: r.s.receipts.WithStopDeadline(rc)})
}

func (r *receiptStream) Close() { r.frames.Close() }
