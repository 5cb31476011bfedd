package main

import (
	"context"
	"time"

	"github.com/dvt-engine/dvt/bench/rig"

	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"

	"github.com/dvt-engine/dvt/engine/temporal"
	"github.com/dvt-engine/dvt/run"
)

// Two lengths of linear runs. Their difference is the cost of steps without the cost of a run.
const (
	fewSteps  = 3
	manySteps = 23
)

// perStep counts something in the histories of a short and a long run of each contender. The result is the number that
// one step adds, rounded up.
func perStep(count func([]*historypb.HistoryEvent) int) func(context.Context, *rig.Rig) (*rig.Trial, error) {
	return func(ctx context.Context, r *rig.Rig) (*rig.Trial, error) {
		b, err := newBed(ctx, r, bedOptions{})
		if err != nil {
			return nil, err
		}
		stop, err := b.startBare()
		if err != nil {
			return nil, b.closeAfter(err)
		}
		added := func(few, many contender) rig.Measure {
			return func(ctx context.Context, _ int) (time.Duration, error) {
				var counts [2]int
				for i, c := range []contender{few, many} {
					history, err := b.historyOf(ctx, c)
					if err != nil {
						return 0, err
					}
					counts[i] = count(history)
				}
				const steps = manySteps - fewSteps
				return time.Duration((counts[1] - counts[0] + steps - 1) / steps), nil
			}
		}
		return &rig.Trial{
			Repeat: rig.Alternate(1,
				added(b.dvt(layers(fewSteps, 1)), b.dvt(layers(manySteps, 1))), added(b.bare(fewSteps, 1), b.bare(manySteps, 1))),
			Done: func() error { stop(); return b.close() },
		}, nil
	}
}

// historyOf runs one workflow and reads its history.
func (b *bed) historyOf(ctx context.Context, c contender) ([]*historypb.HistoryEvent, error) {
	ids, err := c.create(ctx, 1)
	if err != nil {
		return nil, err
	}
	if err := c.start(ctx, ids[0]); err != nil {
		return nil, err
	}
	if err := b.await(ctx, ids[0]); err != nil {
		return nil, err
	}
	if err := c.check(ctx, ids[0]); err != nil {
		return nil, err
	}
	return b.events(ctx, ids[0])
}

// events reads a run's history over the whole chain of its executions.
func (b *bed) events(ctx context.Context, id run.Identity) (list []*historypb.HistoryEvent, err error) {
	about, err := b.client.DescribeWorkflowExecution(ctx, temporal.WorkflowID(id), "")
	if err != nil {
		return nil, err
	}
	for next := about.GetWorkflowExecutionInfo().GetFirstRunId(); next != ""; {
		all := b.client.GetWorkflowHistory(ctx, temporal.WorkflowID(id), next, false,
			enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
		next = ""
		for all.HasNext() {
			e, err := all.Next()
			if err != nil {
				return nil, err
			}
			list = append(list, e)
			next = e.GetWorkflowExecutionContinuedAsNewEventAttributes().GetNewExecutionRunId()
		}
	}
	return list, nil
}

func countEvents(history []*historypb.HistoryEvent) int { return len(history) }

// countActions counts the actions that Temporal Cloud bills: starts of workflows including continue-as-new, tries of
// activities, timers, signals, changes of search attributes, and markers. All local activities of one workflow task are
// one action. Heartbeats are billed too, but are not in a history; a step that ends within half a second sends none.
func countActions(history []*historypb.HistoryEvent) int {
	n, local := 0, map[int64]bool{}
	for _, e := range history {
		switch e.GetEventType() { //nolint:exhaustive // other events are not billed
		case enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_STARTED, enumspb.EVENT_TYPE_TIMER_STARTED,
			enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED,
			enumspb.EVENT_TYPE_UPSERT_WORKFLOW_SEARCH_ATTRIBUTES, enumspb.EVENT_TYPE_WORKFLOW_PROPERTIES_MODIFIED:
			n++
		case enumspb.EVENT_TYPE_ACTIVITY_TASK_STARTED:
			n += int(e.GetActivityTaskStartedEventAttributes().GetAttempt())
		case enumspb.EVENT_TYPE_MARKER_RECORDED:
			m := e.GetMarkerRecordedEventAttributes()
			if task := m.GetWorkflowTaskCompletedEventId(); m.GetMarkerName() != "LocalActivity" || !local[task] {
				local[task] = local[task] || m.GetMarkerName() == "LocalActivity"
				n++
			}
		}
	}
	return n
}
