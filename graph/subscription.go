package graph

import (
	"context"
	"fmt"
	"runtime/debug"

	"github.com/dvt-engine/dvt/control/reads"
	"github.com/dvt-engine/dvt/control/runs"
	"github.com/dvt-engine/dvt/control/watch"
	"github.com/dvt-engine/dvt/graph/internal/mapping"
	"github.com/dvt-engine/dvt/graph/internal/model"
	"github.com/dvt-engine/dvt/graph/ws"
	"github.com/dvt-engine/dvt/run"
)

func (s subscriptions) RunUpdates(
	ctx context.Context, runID string, after *run.Seq, storeEpoch *string, mode model.UpdateMode,
) (<-chan *model.RunUpdate, error) {
	watch := watch.WatchRun{RunID: runID, After: after, Epoch: mapping.OrZero(storeEpoch)}
	if in := groupMessages[model.RunUpdate](ctx); in != nil {
		return in, nil
	}
	if in, over := argsOnly[*model.RunUpdate](ctx); in != nil {
		in.run, in.mode = &watch, mode
		return over, nil
	}
	frames, err := s.control.WatchRun(ctx, principal(ctx), watch)
	return pump(ctx, frames, err, mapping.RunUpdates(mode, after != nil))
}

func (s subscriptions) RunEvents(ctx context.Context, runID string, after *run.Seq,
	storeEpoch *string) (<-chan *model.RunEventUpdate, error) {
	frames, err := s.control.WatchEvents(ctx, principal(ctx), watch.WatchRun{RunID: runID, After: after,
		Epoch: mapping.OrZero(storeEpoch)})
	return pump(ctx, frames, err, mapping.EventsFrame)
}

func (s subscriptions) RunListUpdates(ctx context.Context, filter *model.RunFilter,
	first *int) (<-chan *model.RunListUpdate, error) {
	if in := groupMessages[model.RunListUpdate](ctx); in != nil {
		return in, nil
	}
	in, err := runsQuery(filter, first, nil)
	if err != nil {
		return nil, err
	}
	if into, over := argsOnly[*model.RunListUpdate](ctx); into != nil {
		into.runs = &in
		return over, nil
	}
	frames, err := s.control.WatchRuns(ctx, principal(ctx), in)
	return pump(ctx, frames, err, func(f watch.RunsFrame) *model.RunListUpdate {
		return mapping.RunsFrame(f, mapping.AllCostlyParts())
	})
}

func (s subscriptions) SignalUpdates(ctx context.Context, runID string, signalID *string) (<-chan *model.Signal,
	error) {
	frames, err := s.control.WatchReceipts(ctx, principal(ctx), runID, mapping.OrZero(signalID))
	return pump(ctx, frames, err, func(r runs.SignalReceipt) *model.Signal { return new(mapping.Receipt(r)) })
}

func (s subscriptions) StepLogUpdates(ctx context.Context, runID, stepID string, attempt,
	fromLine *int) (<-chan *model.StepLogUpdate, error) {
	frames, err := s.control.WatchStepLog(ctx, principal(ctx), reads.StepLogQuery{
		RunID: runID, StepID: stepID, Attempt: mapping.OrZero(attempt), FromLine: int64(mapping.OrZero(fromLine)),
	})
	return pump(ctx, frames, err, mapping.StepLogFrame)
}

// pump copies a stream into the channel that gqlgen reads. show maps a frame. Only pump starts goroutines in this
// package: one for each stream, which ends with ctx, the context of the operation, and closes the stream. At most one
// frame waits while the previous one is written; the stream itself merges frames for a slow viewer. The error that ends
// the stream ends the operation of the viewer with that error.
func pump[F, M any](ctx context.Context, frames Stream[F], err error, show func(F) *M) (<-chan *M, error) {
	if err != nil {
		return nil, err
	}
	out := make(chan *M)
	go func() {
		defer close(out)
		defer frames.Close()
		defer func() {
			if v := recover(); v != nil {
				ws.Fail(ctx, fmt.Errorf("graph: panic in a stream: %v\n%s", v, debug.Stack()))
			}
		}()
		for {
			frame, err := frames.Next(ctx)
			if err != nil {
				ws.Fail(ctx, err)
				return
			}
			select {
			case out <- show(frame):
			case <-ctx.Done():
				return
			}
		}
	}()
	return out, nil
}
