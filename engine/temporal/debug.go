package temporal

import (
	"context"
	"errors"
	"strings"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	failurepb "go.temporal.io/api/failure/v1"
	historypb "go.temporal.io/api/history/v1"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/temporal"

	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/run"
)

var _ engine.Debugger = (*Engine)(nil)

// Debug implements engine.Debugger. It makes two calls for each execution of the chain.
func (e *Engine) Debug(ctx context.Context, id run.Identity) (engine.Debug, error) {
	out := engine.Debug{Executions: []engine.Execution{}, Pending: []engine.Pending{}, Last: []engine.HistoryEvent{}}
	about, err := e.client.DescribeWorkflowExecution(ctx, WorkflowID(id), "")
	if err != nil {
		return out, translate(err)
	}
	last := about.GetWorkflowExecutionInfo()
	next := last.GetFirstRunId()
	for next != "" && next != last.GetExecution().GetRunId() {
		of, err := e.client.DescribeWorkflowExecution(ctx, WorkflowID(id), next)
		if err != nil {
			return out, translate(err)
		}
		add(&out, of.GetWorkflowExecutionInfo())
		if next, err = e.continuedAs(ctx, id, next); err != nil {
			return out, err
		}
	}
	add(&out, last)
	for _, a := range about.GetPendingActivities() {
		p := engine.Pending{
			ID: a.GetActivityId(), Type: a.GetActivityType().GetName(), State: a.GetState().String(),
			Attempt:       int(a.GetAttempt()),
			LastHeartbeat: timeOrNil(a.GetLastHeartbeatTime()), LastFailure: e.messageOf(a.GetLastFailure()),
		}
		out.Pending = append(out.Pending, p)
	}
	out.Last, err = e.lastEvents(ctx, last)
	return out, err
}

// messageOf returns the message of a failure. It returns the placeholder of the SDK for an encrypted message that it
// cannot decrypt.
func (e *Engine) messageOf(f *failurepb.Failure) string {
	if f.GetEncodedAttributes() == nil {
		return f.GetMessage()
	}
	if app, ok := errors.AsType[*temporal.ApplicationError](e.cfg.Payloads.failures().FailureToError(f)); ok {
		return app.Message()
	}
	return f.GetMessage()
}

// add appends an execution and drops the oldest one beyond MaxExecutions.
func add(d *engine.Debug, info *workflowpb.WorkflowExecutionInfo) {
	d.Total++
	if len(d.Executions) == engine.MaxExecutions {
		d.Executions = d.Executions[1:]
	}
	d.Executions = append(d.Executions, engine.Execution{
		EngineRunID: info.GetExecution().GetRunId(), Status: info.GetStatus().String(),
		StartedAt: info.GetStartTime().AsTime(), ClosedAt: timeOrNil(info.GetCloseTime()),
		Events: info.GetHistoryLength(), Bytes: info.GetHistorySizeBytes(),
	})
}

// continuedAs returns the execution that continued a closed one, or "".
func (e *Engine) continuedAs(ctx context.Context, id run.Identity, execution string) (string, error) {
	closing := e.client.GetWorkflowHistory(ctx, WorkflowID(id), execution, false,
		enumspb.HISTORY_EVENT_FILTER_TYPE_CLOSE_EVENT)
	for closing.HasNext() {
		event, err := closing.Next()
		if err != nil {
			return "", translate(err)
		}
		if next := event.GetWorkflowExecutionContinuedAsNewEventAttributes().GetNewExecutionRunId(); next != "" {
			return next, nil
		}
	}
	return "", nil
}

// lastEvents reads the last events of an execution, newest last.
func (e *Engine) lastEvents(ctx context.Context, of *workflowpb.WorkflowExecutionInfo) ([]engine.HistoryEvent, error) {
	page, err := e.client.WorkflowService().GetWorkflowExecutionHistoryReverse(ctx,
		&workflowservice.GetWorkflowExecutionHistoryReverseRequest{
			Namespace: e.namespace, Execution: of.GetExecution(), MaximumPageSize: engine.MaxHistoryEvents,
		})
	if err != nil {
		return nil, translate(err)
	}
	events := page.GetHistory().GetEvents()
	out := make([]engine.HistoryEvent, 0, len(events))
	for i := min(len(events), engine.MaxHistoryEvents) - 1; i >= 0; i-- {
		out = append(out, historyEventOf(events[i]))
	}
	return out, nil
}

// historyEventOf describes one event of a history.
func historyEventOf(event *historypb.HistoryEvent) engine.HistoryEvent {
	_, what, _ := strings.Cut(inWords(event), " ")
	return engine.HistoryEvent{No: event.GetEventId(), At: event.GetEventTime().AsTime(), What: what}
}

// timeOrNil returns a time of Temporal's API, or nil if it is not set.
func timeOrNil(t interface {
	IsValid() bool
	AsTime() time.Time
}) *time.Time {
	if !t.IsValid() {
		return nil
	}
	at := t.AsTime()
	return &at
}
