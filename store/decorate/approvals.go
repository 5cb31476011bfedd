package decorate

import (
	"context"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// WithApprovals returns a store whose lists have RunRow.Approval. Each list costs one more query when it has a run that
// waits for approval.
func WithApprovals(s store.Store) store.Store { return withApprovals{s} }

type withApprovals struct{ store.Store }

func (s withApprovals) List(ctx context.Context, f store.RunFilter) ([]store.RunRow, error) {
	rows, err := s.Store.List(ctx, f)
	if err != nil {
		return rows, err
	}
	return rows, s.add(ctx, rows)
}

func (s withApprovals) ListChanged(ctx context.Context, f store.RunFilter, cursor string) ([]store.RunRow, string,
	error) {
	rows, next, err := s.Store.ListChanged(ctx, f, cursor)
	if err != nil {
		return rows, next, err
	}
	return rows, next, s.add(ctx, rows)
}

// add sets the approvals of the rows. A run that is PENDING but not in the queue waits for approval.
func (s withApprovals) add(ctx context.Context, rows []store.RunRow) error {
	waiting := map[string]int{}
	var ids []string
	for i, row := range rows {
		if h := row.Header; h.Status == run.Pending && !h.Queued {
			waiting[h.RunID] = i
			ids = append(ids, h.RunID)
		}
	}
	for len(ids) > 0 {
		n := min(len(ids), store.MaxPage)
		found, err := s.ApprovalsOf(ctx, ids[:n])
		if err != nil {
			return err
		}
		for _, a := range found {
			rows[waiting[a.RunID]].Approval = &a
		}
		ids = ids[n:]
	}
	return nil
}
