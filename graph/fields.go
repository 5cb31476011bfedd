package graph

import (
	"context"
	"time"

	"github.com/dvt-engine/dvt/graph/internal/mapping"

	"github.com/dvt-engine/dvt/control/reads"
	"github.com/dvt-engine/dvt/graph/internal/model"
	"github.com/dvt-engine/dvt/run"
)

func (r runFields) Steps(_ context.Context, of *model.Run) ([]model.Step, error) {
	if of.StepsOf == nil {
		return []model.Step{}, nil
	}
	return of.StepsOf.Steps(), nil
}

func (r runFields) Step(_ context.Context, of *model.Run, stepID string) (*model.Step, error) {
	if of.StepsOf == nil {
		return nil, nil //nolint:nilnil // the run shows no steps
	}
	return of.StepsOf.Step(stepID), nil
}

func (r runFields) Events(
	ctx context.Context, of *model.Run, first *int, after *run.Seq, last *int, before *run.Seq, types []string,
) (*model.EventConnection, error) {
	if err := pageSizes(first, last); err != nil {
		return nil, err
	}
	page, err := readLarge(ctx, func() (page reads.EventsPage, size int, err error) {
		page, err = r.control.Events(ctx, principal(ctx), of.RunID, reads.EventPage{
			First: mapping.OrZero(first), Last: mapping.OrZero(last), After: mapping.OrZero(after),
			Before: mapping.OrZero(before), Types: types,
		})
		for i := range page.Events {
			size += len(page.Events[i].Payload)
		}
		return page, size, err
	})
	return mapping.EventsPage(page), err
}

func (r runFields) Signals(ctx context.Context, of *model.Run, first *int, after *string) (*model.SignalConnection,
	error) {
	if err := pageSizes(first, nil); err != nil {
		return nil, err
	}
	from, err := mapping.DecodeCursor(after)
	if err != nil {
		return nil, err
	}
	page, err := r.control.Receipts(ctx, principal(ctx), of.RunID, from, mapping.OrZero(first))
	return mapping.ReceiptsPage(page, from), err
}

func (r runFields) Actions(_ context.Context, of *model.Run) ([]model.ActionAvailability, error) {
	if of.Available == nil {
		return nil, notInStreams("actions")
	}
	return mapping.MapSlice(of.Available().Run, mapping.Action), nil
}

func (s stepFields) Actions(_ context.Context, of *model.Step) ([]model.ActionAvailability, error) {
	if of.Available == nil {
		return nil, notInStreams("actions")
	}
	return mapping.MapSlice(of.Available().Steps[of.StepID], mapping.Action), nil
}

func (e errorFields) LogLine(ctx context.Context, of *model.RunError) (*int, error) {
	if of.StepID == nil {
		return nil, nil //nolint:nilnil // without a step there is no log
	}
	l, err := e.control.StepLog(ctx, principal(ctx), reads.StepLogQuery{
		RunID: of.RunID, StepID: *of.StepID, Attempt: mapping.OrZero(of.LogicalAttemptID), First: 1, ErrorLine: true,
	})
	return mapping.Optional(int(l.ErrorLine)), err
}

func (v viewerFields) Signals(ctx context.Context, _ *model.Viewer, first *int, single *bool) ([]model.Signal,
	error) {
	if n := mapping.OrZero(first); n < 1 || n > 50 {
		return nil, badInput("first", "RANGE", "must be from 1 to 50")
	}
	receipts, err := v.control.MySignals(ctx, principal(ctx), mapping.OrZero(single), *first)
	return mapping.MapSlice(receipts, mapping.Receipt), err
}

// PollerSeenAt returns when a worker last polled the task queue that the step waits for.
func (f waitFields) PollerSeenAt(ctx context.Context, of *model.Wait) (*time.Time, error) {
	if of.TaskQueue == nil {
		return nil, nil //nolint:nilnil // the step waits for no worker
	}
	return f.control.PollerSeen(ctx, *of.TaskQueue), nil
}

func (r runFields) Waits(ctx context.Context, of *model.Run) ([]model.RunWait, error) {
	if g, ok := of.StepsOf.(*mapping.Graph); ok && g.View.Past {
		return []model.RunWait{}, nil // nobody knows what the run waited for then
	}
	waits, err := r.control.RunWaits(ctx, principal(ctx), of.RunID)
	return mapping.MapSlice(waits, runWait), err
}

func runWait(w reads.RunWait) model.RunWait {
	return model.RunWait{
		Kind: model.WaitKind(w.Kind), Since: mapping.Optional(w.Since), Until: mapping.Optional(w.Until),
		Message: w.Message, Help: w.Help, WhoCould: mapping.List(w.WhoCould), Steps: mapping.List(w.Steps),
		StepCount: w.StepCount, TaskQueue: mapping.Text(w.TaskQueue), PollerSeenAt: mapping.Optional(w.PollerSeen),
		Try: mapping.Optional(w.Try), Tries: mapping.Optional(w.Tries), HTTPStatus: mapping.Optional(w.Status),
	}
}
