package runs

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// SignalReceipt is a stored receipt. Duplicate says that this answer repeats an earlier one.
type SignalReceipt struct {
	run.SignalReceipt
	Duplicate bool
}

// ReceiptsPage is a page of receipts in the order they were received.
type ReceiptsPage struct {
	Receipts []SignalReceipt
	HasNext  bool
}

// ReceiptStore reads the receipts of signals.
type ReceiptStore interface {
	After(ctx context.Context, runID string, no int64) ([]run.SignalReceipt, error)
	Receipt(ctx context.Context, runID string, signalID string) (run.SignalReceipt, error)
	Receipts(ctx context.Context, runID string, afterSignalID string, limit int) ([]run.SignalReceipt, error)
	ReceiptsOf(ctx context.Context, f store.SenderFilter) ([]run.SignalReceipt, error)
}

// ReceiptReader shows the receipts of signals. It is safe for concurrent use.
type ReceiptReader struct {
	rights     *control.Rights
	Store      ReceiptStore
	stopWithin time.Duration
}

// NewReceiptReader makes a ReceiptReader.
func NewReceiptReader(rights *control.Rights, store ReceiptStore, stopWithin time.Duration) *ReceiptReader {
	return &ReceiptReader{rights: rights, Store: store, stopWithin: stopWithin}
}

// Receipt reads one receipt. Error: NOT_FOUND for an unknown signal and for a run that p may not see.
func (s *ReceiptReader) Receipt(ctx context.Context, p authz.Principal, runID, signalID string) (SignalReceipt, error) {
	if _, err := s.rights.GetVisible(ctx, p, authz.Read, runID); err != nil {
		return SignalReceipt{}, err
	}
	r, err := s.Store.Receipt(ctx, runID, signalID)
	if errors.Is(err, store.ErrNotFound) {
		return SignalReceipt{}, control.Refuse(run.CodeNotFound, "There is no such signal, or it is not yours.")
	}
	return SignalReceipt{SignalReceipt: s.WithStopDeadline(r)}, control.Translate(err)
}

// Receipts reads a page of a run's receipts in the order they were received. Errors: NOT_FOUND, BAD_USER_INPUT,
// CURSOR_INVALID when the run has no signal afterSignalID.
func (s *ReceiptReader) Receipts(ctx context.Context, p authz.Principal, runID, afterSignalID string,
	limit int) (ReceiptsPage, error) {
	n, err := control.PageSize(limit, 50)
	if err != nil {
		return ReceiptsPage{}, err
	}
	if _, err := s.rights.GetVisible(ctx, p, authz.Read, runID); err != nil {
		return ReceiptsPage{}, err
	}
	if afterSignalID != "" {
		_, err := s.Store.Receipt(ctx, runID, afterSignalID)
		if errors.Is(err, store.ErrNotFound) {
			return ReceiptsPage{}, control.CursorInvalid()
		}
		if err != nil {
			return ReceiptsPage{}, control.Translate(err)
		}
	}
	rs, err := s.Store.Receipts(ctx, runID, afterSignalID, n+1)
	if err != nil {
		return ReceiptsPage{}, control.Translate(err)
	}
	out := ReceiptsPage{HasNext: len(rs) > n}
	for _, r := range rs[:min(n, len(rs))] {
		out.Receipts = append(out.Receipts, SignalReceipt{SignalReceipt: s.WithStopDeadline(r)})
	}
	return out, nil
}

// MySignals reads the newest signals that p sent, newest first; single leaves out those of bulks, and then only the
// newest store.MaxSent are considered. limit is clamped to 1 to 50.
func (s *ReceiptReader) MySignals(ctx context.Context, p authz.Principal, single bool, limit int) ([]SignalReceipt,
	error) {
	rs, err := s.Store.ReceiptsOf(ctx, store.SenderFilter{TenantID: p.TenantID, Actor: p.ID, Single: single,
		Limit: max(1, min(limit, 50))})
	if err != nil {
		return nil, control.Translate(err)
	}
	out := make([]SignalReceipt, len(rs))
	for i, r := range rs {
		out[i] = SignalReceipt{SignalReceipt: s.WithStopDeadline(r)}
	}
	return out, nil
}

// SignalsOf yields all accepted signals of a run in order and reads them page by page. After an error it yields nothing
// more.
func (s *ReceiptReader) SignalsOf(ctx context.Context, runID string) iter.Seq2[run.SignalReceipt, error] {
	return func(yield func(run.SignalReceipt, error) bool) {
		for no := int64(0); ; {
			page, err := s.Store.After(ctx, runID, no)
			if err != nil {
				yield(run.SignalReceipt{}, err)
				return
			}
			for _, r := range page {
				if no = r.No; !yield(r, nil) {
					return
				}
			}
			if len(page) < store.MaxPage {
				return
			}
		}
	}
}

// WithStopDeadline adds to the receipt of a pending stop the time at which dvt ends the run by itself. The text is
// computed on each read and not stored, because it depends on the delivery of the stop.
func (s *ReceiptReader) WithStopDeadline(rc run.SignalReceipt) run.SignalReceipt {
	if !rc.Signal.Type.Stops() || rc.Rejected || rc.Application.Final() || rc.ApplicationReason != "" {
		return rc
	}
	at := rc.ReceivedAt.Add(s.stopWithin).UTC().Format(time.RFC3339)
	state := "the engine has not taken the order yet"
	if rc.DeliveredAt != nil {
		since := rc.DeliveredAt.UTC().Format(time.RFC3339)
		state = "the engine has had the order since " + since + " and has not ended the run yet"
	}
	rc.ApplicationReason = fmt.Sprintf("%s; if the run is still open at %s, dvt ends it by itself", state, at)
	return rc
}
