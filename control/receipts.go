package control

import (
	"context"
	"errors"
	"iter"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// Receipt reads one receipt.
func (s *Service) Receipt(ctx context.Context, p authz.Principal, runID, signalID string) (Receipt, error) {
	if _, err := s.visible(ctx, p, authz.Read, runID); err != nil {
		return Receipt{}, err
	}
	r, err := s.cfg.Store.Receipt(ctx, runID, signalID)
	if errors.Is(err, store.ErrNotFound) {
		return Receipt{}, refuse(run.CodeNotFound, "There is no such signal, or it is not yours.")
	}
	return Receipt{Receipt: s.withStopDeadline(r)}, translate(err)
}

// Receipts reads a page of a run's receipts in the order they were received.
// CURSOR_INVALID when afterSignalID is none of them.
func (s *Service) Receipts(ctx context.Context, p authz.Principal, runID, afterSignalID string,
	limit int) (ReceiptsPage, error) {
	n, err := pageSize(limit, 50)
	if err != nil {
		return ReceiptsPage{}, err
	}
	if _, err := s.visible(ctx, p, authz.Read, runID); err != nil {
		return ReceiptsPage{}, err
	}
	if afterSignalID != "" {
		_, err := s.cfg.Store.Receipt(ctx, runID, afterSignalID)
		if errors.Is(err, store.ErrNotFound) {
			return ReceiptsPage{}, cursorInvalid()
		}
		if err != nil {
			return ReceiptsPage{}, translate(err)
		}
	}
	rs, err := s.cfg.Store.Receipts(ctx, runID, afterSignalID, n+1)
	if err != nil {
		return ReceiptsPage{}, translate(err)
	}
	out := ReceiptsPage{HasNext: len(rs) > n}
	for _, r := range rs[:min(n, len(rs))] {
		out.Receipts = append(out.Receipts, Receipt{Receipt: s.withStopDeadline(r)})
	}
	return out, nil
}

// MySignals reads the newest signals that p sent, newest first, at most 50.
func (s *Service) MySignals(ctx context.Context, p authz.Principal, limit int) ([]Receipt, error) {
	rs, err := s.cfg.Store.ReceiptsOf(ctx, p.TenantID, p.ID, max(1, min(limit, 50)))
	if err != nil {
		return nil, translate(err)
	}
	out := make([]Receipt, len(rs))
	for i, r := range rs {
		out[i] = Receipt{Receipt: s.withStopDeadline(r)}
	}
	return out, nil
}

// signalsOf yields all accepted signals of a run in their order, read page by page. An error is the last.
func (s *Service) signalsOf(ctx context.Context, runID string) iter.Seq2[run.Receipt, error] {
	return func(yield func(run.Receipt, error) bool) {
		for no := int64(0); ; {
			page, err := s.cfg.Store.After(ctx, runID, no)
			if err != nil {
				yield(run.Receipt{}, err)
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
