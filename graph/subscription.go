package graph

import (
	"context"

	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/graph/internal/model"
	"github.com/dvt-engine/dvt/run"
)

func (s subscriptions) RunUpdates(
	ctx context.Context, runID string, after *run.Seq, storeEpoch *string, mode model.UpdateMode,
) (<-chan *model.RunUpdate, error) {
	frames, err := s.control.WatchRun(ctx, principal(ctx), control.WatchRun{RunID: runID, After: after, Epoch: orZero(storeEpoch)})
	return pump(ctx, frames, err, runUpdates(mode, after != nil))
}

func (s subscriptions) RunEvents(ctx context.Context, runID string, after *run.Seq, storeEpoch *string) (<-chan *model.RunEventUpdate, error) {
	frames, err := s.control.WatchEvents(ctx, principal(ctx), control.WatchRun{RunID: runID, After: after, Epoch: orZero(storeEpoch)})
	return pump(ctx, frames, err, mapEventsFrame)
}

func (s subscriptions) RunListUpdates(ctx context.Context, filter *model.RunFilter, first *int) (<-chan *model.RunListUpdate, error) {
	in, err := runsQuery(filter, first, nil)
	if err != nil {
		return nil, err
	}
	frames, err := s.control.WatchRuns(ctx, principal(ctx), in)
	return pump(ctx, frames, err, mapRunsFrame)
}

func (s subscriptions) SignalUpdates(ctx context.Context, runID string, signalID *string) (<-chan *model.Signal, error) {
	frames, err := s.control.WatchReceipts(ctx, principal(ctx), runID, orZero(signalID))
	return pump(ctx, frames, err, func(r control.Receipt) *model.Signal { return new(mapReceipt(r)) })
}

func (s subscriptions) StepLogUpdates(ctx context.Context, runID, stepID string, attempt, fromLine *int) (<-chan *model.StepLogUpdate, error) {
	frames, err := s.control.WatchStepLog(ctx, principal(ctx), control.StepLogQuery{
		RunID: runID, StepID: stepID, Attempt: orZero(attempt), FromLine: int64(orZero(fromLine)),
	})
	return pump(ctx, frames, err, mapStepLogFrame)
}
