package temporal

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/converter"

	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

var _ engine.Historian = (*Engine)(nil)

// errStopped ends a walk whose consumer has enough.
var errStopped = errors.New("temporal: no more wanted")

// History implements engine.Historian. An execution in flight tells that it began
// by its heartbeats.
func (e *Engine) History(ctx context.Context, id run.Identity) iter.Seq2[engine.Recorded, error] {
	return func(yield func(engine.Recorded, error) bool) {
		err := e.walk(ctx, id, func(r engine.Recorded) error {
			if !yield(r, nil) {
				return errStopped
			}
			return nil
		})
		if err != nil && !errors.Is(err, errStopped) {
			yield(engine.Recorded{}, err)
		}
	}
}

// walk follows the chain of executions from the first one.
func (e *Engine) walk(ctx context.Context, id run.Identity, emit func(engine.Recorded) error) error {
	about, err := e.client.DescribeWorkflowExecution(ctx, WorkflowID(id), "")
	if err != nil {
		return translate(err)
	}
	info := about.GetWorkflowExecutionInfo()
	last := info.GetExecution().GetRunId()
	next := info.GetFirstRunId()
	if next == "" {
		next = last
	}
	for next != "" {
		h := &histories{id: id, emit: emit, ref: run.EngineRunRef{
			Provider: "temporal", Namespace: e.namespace, WorkflowID: WorkflowID(id), EngineRunID: next,
		}, appends: map[int64]appendInput{}, starts: map[int64]bool{}, fetches: map[int64]bool{}, executions: map[string]executeInput{}, byEvent: map[int64]executeInput{}}
		events := e.client.GetWorkflowHistory(ctx, WorkflowID(id), next, false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
		for events.HasNext() {
			event, err := events.Next()
			if err != nil {
				return translate(err)
			}
			if err := h.take(event); err != nil {
				return err
			}
		}
		if next == last {
			return h.inFlight(about)
		}
		next = h.continued
	}
	return nil
}

// histories reads one execution's history.
type histories struct {
	id         run.Identity
	ref        run.EngineRunRef
	emit       func(engine.Recorded) error
	appends    map[int64]appendInput // scheduled, by event
	starts     map[int64]bool        // which of them read the skeleton too
	fetches    map[int64]bool
	byEvent    map[int64]executeInput
	executions map[string]executeInput // by activity id
	continued  string                  // the execution that follows
}

// take reads one event. What closes an activity refers to what scheduled it.
func (h *histories) take(event *historypb.HistoryEvent) error {
	at := event.GetEventTime().AsTime()
	switch event.GetEventType() {
	case enumspb.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED:
		return h.scheduled(event.GetEventId(), event.GetActivityTaskScheduledEventAttributes())
	case enumspb.EVENT_TYPE_ACTIVITY_TASK_COMPLETED:
		a := event.GetActivityTaskCompletedEventAttributes()
		return h.completed(a.GetScheduledEventId(), a.GetResult(), at)
	case enumspb.EVENT_TYPE_ACTIVITY_TASK_FAILED:
		a := event.GetActivityTaskFailedEventAttributes()
		return h.ended(a.GetScheduledEventId(), a.GetFailure().GetApplicationFailureInfo().GetDetails(), at)
	case enumspb.EVENT_TYPE_ACTIVITY_TASK_TIMED_OUT:
		a := event.GetActivityTaskTimedOutEventAttributes()
		return h.ended(a.GetScheduledEventId(), a.GetFailure().GetTimeoutFailureInfo().GetLastHeartbeatDetails(), at)
	case enumspb.EVENT_TYPE_ACTIVITY_TASK_CANCELED:
		a := event.GetActivityTaskCanceledEventAttributes()
		return h.ended(a.GetScheduledEventId(), a.GetDetails(), at)
	case enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED:
		a := event.GetWorkflowExecutionSignaledEventAttributes()
		if a.GetSignalName() != signalChannel {
			return nil
		}
		var s engine.Signal
		if err := decode(a.GetInput(), &s); err != nil {
			return err
		}
		return h.emit(engine.Recorded{Signal: &s, At: at})
	case enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_CONTINUED_AS_NEW:
		h.continued = event.GetWorkflowExecutionContinuedAsNewEventAttributes().GetNewExecutionRunId()
	}
	return nil
}

func (h *histories) scheduled(number int64, a *historypb.ActivityTaskScheduledEventAttributes) error {
	switch a.GetActivityType().GetName() {
	case activityAppend, activityStart:
		var in appendInput
		if err := decode(a.GetInput(), &in); err != nil {
			return err
		}
		h.appends[number] = in
		h.starts[number] = a.GetActivityType().GetName() == activityStart
	case activityExecute:
		var in executeInput
		if err := decode(a.GetInput(), &in); err != nil {
			return err
		}
		h.byEvent[number], h.executions[a.GetActivityId()] = in, in
	case activitySignals:
		h.fetches[number] = true
	}
	return nil
}

func (h *histories) completed(number int64, result *commonpb.Payloads, at time.Time) error {
	if in, ok := h.appends[number]; ok {
		delete(h.appends, number)
		var out startResult
		into := any(&out.Append)
		if h.starts[number] {
			into = &out
		}
		if err := decode(result, into); err != nil {
			return err
		}
		return h.appended(in.Append, out.Append, at)
	}
	if !h.fetches[number] {
		return h.ended(number, result, at)
	}
	var out signalsResult
	if err := decode(result, &out); err != nil {
		return err
	}
	for i := range out.Signals {
		if err := h.emit(engine.Recorded{Signal: &out.Signals[i], At: at}); err != nil {
			return err
		}
	}
	return nil
}

// appended yields what of an Append came into the log. An effect that was refused
// did not apply its signal.
func (h *histories) appended(a store.Append, out appendResult, at time.Time) error {
	if out.Recorded.HeldBack {
		return nil
	}
	r := engine.Recorded{Append: a, Head: out.Recorded.Head, At: at}
	r.Append.MinHead, r.Append.Events = 0, nil
	place := make([]int, len(a.Events))
	why := make([]run.Code, len(a.Events))
	rejected := false
	for i, d := range a.Events {
		place[i] = -1
		if i >= len(out.Recorded.Ends) {
			continue
		}
		end := out.Recorded.Ends[i]
		rejected = rejected || end.Rejected
		switch {
		case end.NotStarted:
			why[i] = run.CodeStepNotStarted
		case end.Won != "":
			why[i] = run.CodeInvalidTransition
		case end.Seq == 0:
			why[i] = run.CodeOrphanedTask
		default:
			if err := withRef(&d, h.ref); err != nil {
				return err
			}
			place[i] = len(r.Append.Events)
			r.Append.Events, r.Seqs = append(r.Append.Events, d), append(r.Seqs, end.Seq)
		}
	}
	if rejected {
		return nil // the store wrote nothing of it
	}
	r.Append.Outcomes = nil
	for _, o := range a.Outcomes {
		if i := o.AppliedBy; i >= 0 && i < len(place) {
			o.AppliedBy = place[i]
			if why[i] != "" {
				o.Application, o.Reason = run.SignalNotApply, string(why[i])
			}
		}
		r.Append.Outcomes = append(r.Append.Outcomes, o)
	}
	if len(r.Append.Events) == 0 && len(a.Events) > 0 {
		r.Append.SetGate, r.Append.ClearGate = 0, 0 // it took no effect
		if len(r.Append.Outcomes) == 0 {
			return nil
		}
	}
	return h.emit(r)
}

// withRef says in RunStarted where the run is executed.
func withRef(d *run.Draft, ref run.EngineRunRef) error {
	if d.Type != run.RunStarted {
		return nil
	}
	p, err := run.PayloadOf[run.RunStartedPayload](d.Payload)
	if err != nil {
		return err
	}
	ref.PauseAhead = p.Engine.PauseAhead
	p.Engine = ref
	d.Payload, err = json.Marshal(p)
	return err
}

// ended yields the StepStarted of an execution that says when it began.
func (h *histories) ended(number int64, report *commonpb.Payloads, at time.Time) error {
	in, ok := h.byEvent[number]
	delete(h.byEvent, number)
	if !ok {
		return nil
	}
	return h.began(in, report, at)
}

func (h *histories) began(in executeInput, report *commonpb.Payloads, at time.Time) error {
	var end engine.StepEnd
	if len(report.GetPayloads()) > 0 {
		_ = decode(report, &end) // another report than that of an end does not say that it began
	}
	if end.StartedAt.IsZero() {
		return nil
	}
	payload, err := json.Marshal(run.StepStartedPayload{SignalID: in.SignalID})
	if err != nil {
		return err
	}
	return h.emit(engine.Recorded{At: at, Append: store.Append{RunID: h.id.RunID, Events: []run.Draft{{
		Type: run.StepStartedEvent, StepID: in.StepID, LogicalAttempt: in.LA, EngineAttempt: max(1, end.EngineAttempt),
		EmittedAt: end.StartedAt, EmittedBy: run.ByEngine, Payload: payload,
	}}}})
}

// inFlight yields the executions that began and have not ended.
func (h *histories) inFlight(about *workflowservice.DescribeWorkflowExecutionResponse) error {
	for _, a := range about.GetPendingActivities() {
		if in, ok := h.executions[a.GetActivityId()]; ok && a.GetActivityType().GetName() == activityExecute {
			if err := h.began(in, a.GetHeartbeatDetails(), a.GetLastHeartbeatTime().AsTime()); err != nil {
				return err
			}
		}
	}
	return nil
}

func decode(from *commonpb.Payloads, into any) error {
	if err := converter.GetDefaultDataConverter().FromPayloads(from, into); err != nil {
		return fmt.Errorf("temporal: history: %w", err)
	}
	return nil
}

// runsPage is how many executions one list asks for.
const runsPage = 500

// Runs implements engine.Historian.
func (e *Engine) Runs(ctx context.Context) iter.Seq2[engine.Description, error] {
	return func(yield func(engine.Description, error) bool) {
		var token []byte
		for {
			page, err := e.client.ListWorkflow(ctx, &workflowservice.ListWorkflowExecutionsRequest{
				Namespace: e.namespace, PageSize: runsPage, NextPageToken: token, Query: "WorkflowType = '" + workflowName + "'",
			})
			if err != nil {
				yield(engine.Description{}, translate(err))
				return
			}
			for _, info := range page.GetExecutions() {
				d, err := e.known(info)
				if err != nil {
					yield(d, err)
					return
				}
				continued := info.GetStatus() == enumspb.WORKFLOW_EXECUTION_STATUS_CONTINUED_AS_NEW
				if d.Identity.RunID != "" && !continued && !yield(d, nil) {
					return
				}
			}
			if token = page.GetNextPageToken(); len(token) == 0 {
				return
			}
		}
	}
}

// known is an execution of a list, and whose it is by its search attributes.
func (e *Engine) known(info *workflowpb.WorkflowExecutionInfo) (engine.Description, error) {
	d := engine.Description{
		Ref: run.EngineRunRef{
			Provider: "temporal", Namespace: e.namespace,
			WorkflowID: info.GetExecution().GetWorkflowId(), EngineRunID: info.GetExecution().GetRunId(),
		},
		Open: info.GetStatus() == enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING, HistorySize: info.GetHistoryLength(),
	}
	if !d.Open {
		d.ClosedAs = info.GetStatus().String()
	}
	fields := info.GetSearchAttributes().GetIndexedFields()
	for name, into := range map[string]*string{
		AttributeRun: &d.Identity.RunID, AttributeTenant: &d.Identity.TenantID, AttributeProject: &d.Identity.ProjectID,
	} {
		if p := fields[name]; p != nil {
			if err := converter.GetDefaultDataConverter().FromPayload(p, into); err != nil {
				return d, fmt.Errorf("temporal: attribute %s: %w", name, err)
			}
		}
	}
	return d, nil
}
