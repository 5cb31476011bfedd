package graph

import (
	"context"

	"github.com/dvt-engine/dvt/graph/internal/mapping"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control/bulk"
	"github.com/dvt-engine/dvt/control/runs"
	"github.com/dvt-engine/dvt/graph/internal/model"
	"github.com/dvt-engine/dvt/plan"
)

// BulkService sends one signal to many runs. Its errors are *control.Error.
type BulkService interface {
	BulkReads
	SignalRuns(ctx context.Context, p authz.Principal, in bulk.SignalRuns) (bulk.MadeBulk, error)
	CancelBulk(ctx context.Context, p authz.Principal, in bulk.CancelBulk) (bulk.Bulk, error)
	PreviewBulk(ctx context.Context, p authz.Principal, in bulk.PreviewBulk) (runs.ActionPreview, error)
}

// BulkReads reads bulks, their rows and their outcomes. A bulk that does not exist for p is NOT_FOUND.
type BulkReads interface {
	Bulk(ctx context.Context, p authz.Principal, id string) (bulk.Bulk, error)
	Bulks(ctx context.Context, p authz.Principal, first int, after string) (bulk.BulksPage, error)
	BulkRows(ctx context.Context, p authz.Principal, q bulk.BulkRowsQuery) (bulk.BulkRowsPage, error)
	BulkProgress(ctx context.Context, p authz.Principal, id string) (bulk.BulkProgress, error)
	BulkRunCounts(ctx context.Context, p authz.Principal, ids []string) (map[string]bulk.BulkRunCounts, error)
	WatchBulk(ctx context.Context, p authz.Principal, id string) (Stream[bulk.BulkFrame], error)
}

func (m mutations) SignalRuns(ctx context.Context, in model.SignalRunsInput) (*model.BulkSignalPayload, error) {
	runs, err := bulkRunsOf(*in.Runs)
	if err != nil {
		return nil, err
	}
	signal, rerun, err := bulkActionOf(*in.Action)
	if err != nil {
		return nil, err
	}
	made, err := m.control.SignalRuns(ctx, principal(ctx), bulk.SignalRuns{
		RequestID: in.RequestID, Runs: runs, Signal: signal, Rerun: rerun, Reason: in.Reason,
		ExpectedCount: in.ExpectedCount,
	})
	if err != nil {
		return nil, err
	}
	return &model.BulkSignalPayload{Bulk: mapping.Bulk(made.Bulk), Duplicate: made.Duplicate}, nil
}

func (m mutations) CancelBulk(ctx context.Context, in model.CancelBulkInput) (*model.CancelBulkPayload, error) {
	b, err := m.control.CancelBulk(ctx, principal(ctx), bulk.CancelBulk{ID: mapping.BulkID(in.ID), RequestID: in.RequestID,
		Reason: in.Reason})
	if err != nil {
		return nil, err
	}
	return &model.CancelBulkPayload{Bulk: mapping.Bulk(b)}, nil
}

func bulkRunsOf(in model.BulkRunsInput) (out bulk.BulkRuns, err error) {
	out.IDs = in.Ids
	if in.FailedOf != nil {
		if out.FailedOf = mapping.BulkID(*in.FailedOf); out.FailedOf == "" {
			return out, mapping.BulkNotFound()
		}
	}
	if in.Filter != nil {
		q, err := runsQuery(in.Filter, nil, nil)
		if err != nil {
			return out, err
		}
		out.Filter = &q.Filter
	}
	return out, nil
}

// bulkActionOf returns the signal of a bulk, or the rerun, which is nil for a signal.
func bulkActionOf(in model.BulkActionInput) (signal runs.SignalRun, rerun *runs.Rerun, err error) {
	switch {
	case in.Cancel != nil:
		signal, err = cancelOf(model.CancelRunInput{Reason: in.Cancel.Reason})
	case in.Signal != nil:
		signal, err = signalOf("", "", *in.Signal)
	case in.Rerun != nil:
		rerun = new(rerunOf(model.RerunInput{From: in.Rerun.From, Params: in.Rerun.Params, Reason: in.Rerun.Reason}))
		rerun.AlreadyRerun = mapping.OrZero(in.Rerun.AlreadyRerun)
	default:
		err = badInput("action", "MISSING", "choose what to do: signal, cancel or rerun")
	}
	return signal, rerun, err
}

func (q queries) Bulk(ctx context.Context, id string) (*model.Bulk, error) {
	b, err := q.control.Bulk(ctx, principal(ctx), mapping.BulkID(id))
	if err != nil {
		return nullIfNotFound[model.Bulk](err)
	}
	return mapping.Bulk(b), nil
}

func (q queries) Bulks(ctx context.Context, first *int, after *string) (*model.BulkConnection, error) {
	if err := pageSizes(first, nil); err != nil {
		return nil, err
	}
	id, err := mapping.DecodeCursor(after)
	if err != nil {
		return nil, err
	}
	page, err := q.control.Bulks(ctx, principal(ctx), mapping.OrZero(first), id)
	if err != nil {
		return nil, err
	}
	return mapping.Bulks(page, id), nil
}

func (q queries) BulkRunCounts(ctx context.Context, ids []string) ([]model.BulkRunsNow, error) {
	own := make([]string, 0, len(ids))
	for _, id := range ids {
		own = append(own, mapping.BulkID(id))
	}
	counts, err := q.control.BulkRunCounts(ctx, principal(ctx), own)
	if err != nil {
		return nil, err
	}
	return mapping.BulkRunsNow(counts), nil
}

func (b bulkFields) Applications(ctx context.Context, obj *model.Bulk) (*model.BulkApplications, error) {
	if obj.Applications != nil {
		return obj.Applications, nil
	}
	p, err := b.control.BulkProgress(ctx, principal(ctx), mapping.BulkID(obj.ID))
	return mapping.Applications(p.Applications), err
}

func (b bulkFields) Runs(ctx context.Context, obj *model.Bulk) (*model.BulkRunCounts, error) {
	if obj.Runs != nil {
		return obj.Runs, nil
	}
	p, err := b.control.BulkProgress(ctx, principal(ctx), mapping.BulkID(obj.ID))
	return mapping.BulkRunCounts(p.Runs), err
}

func (b bulkFields) Rows(
	ctx context.Context, obj *model.Bulk, outcome *model.BulkOutcome, failed *bool, first *int, after *string,
) (*model.BulkRowConnection, error) {
	if err := pageSizes(first, nil); err != nil {
		return nil, err
	}
	no, err := mapping.DecodeCursor(after)
	if err != nil {
		return nil, err
	}
	if mapping.OrZero(outcome) == model.BulkOutcomeUnknown {
		return nil, badInput("outcome", plan.CodeUnknown, "UNKNOWN is for reading only")
	}
	page, err := b.control.BulkRows(ctx, principal(ctx), bulk.BulkRowsQuery{
		BulkID: mapping.BulkID(obj.ID), Outcome: bulk.BulkOutcome(mapping.OrZero(outcome)), Failed: mapping.OrZero(failed),
		First: mapping.OrZero(first),
		After: no,
	})
	if err != nil {
		return nil, err
	}
	return mapping.BulkRows(page, no), nil
}

func (s subscriptions) BulkUpdates(ctx context.Context, id string) (<-chan *model.BulkUpdate, error) {
	frames, err := s.control.WatchBulk(ctx, principal(ctx), mapping.BulkID(id))
	return pump(ctx, frames, err, mapping.BulkFrame)
}
