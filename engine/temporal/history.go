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

// errStopped ends a walk whose consumer stopped the iteration.
var errStopped = errors.New("temporal: the consumer stopped the iteration")

// History implements engine.Historian. For an execution in flight, the heartbeats tell whether it has started.
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

// walk reads the chain of executions from the first one and calls emit for each entry.
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
		h := &historyReader{id: id, emit: emit, payloads: e.cfg.Payloads.converter(), ref: run.EngineRunRef{
			Provider: "temporal", Namespace: e.namespace, WorkflowID: WorkflowID(id), EngineRunID: next,
			TaskQueue: info.GetTaskQueue(),
		}, logCalls: map[int64]string{}, scheduled: map[int64]executeInput{}, executions: map[string]executeInput{}}
		events := e.client.GetWorkflowHistory(ctx, WorkflowID(id), next, false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
		for events.HasNext() {
			event, err := events.Next()
			if err != nil {
				return translate(err)
			}
			if err := h.readEvent(event); err != nil {
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

// historyReader reads one execution's history.
type historyReader struct {
	id       run.Identity
	ref      run.EngineRunRef
	emit     func(engine.Recorded) error
	payloads converter.DataConverter
	// logCalls has the types of the open activities on the log queue, by the event that scheduled them.
	logCalls   map[int64]string
	executions map[string]executeInput // by activity id
	scheduled  map[int64]executeInput  // by the event that scheduled them
	continued  string                  // the next execution of the chain, or ""
}

// readEvent reads one event. The answers of the log are in the markers of local activities, and in the results of the
// activities on the log queue that replaced them.
func (h *historyReader) readEvent(event *historypb.HistoryEvent) error {
	at := event.GetEventTime().AsTime()
	switch event.GetEventType() {
	case enumspb.EVENT_TYPE_MARKER_RECORDED:
		a := event.GetMarkerRecordedEventAttributes()
		if a.GetMarkerName() != localActivityMarker || a.GetFailure() != nil {
			return nil
		}
		var what struct{ ActivityType string }
		if err := h.decode(a.GetDetails()["data"], &what); err != nil {
			return err
		}
		return h.emitAnswer(localNames[what.ActivityType], a.GetDetails()["result"], at)
	case enumspb.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED:
		a := event.GetActivityTaskScheduledEventAttributes()
		if a.GetActivityType().GetName() != activityExecute {
			h.logCalls[event.GetEventId()] = a.GetActivityType().GetName()
			return nil
		}
		var in executeInput
		if err := h.decode(a.GetInput(), &in); err != nil {
			return err
		}
		h.executions[a.GetActivityId()], h.scheduled[event.GetEventId()] = in, in
	case enumspb.EVENT_TYPE_ACTIVITY_TASK_COMPLETED:
		a := event.GetActivityTaskCompletedEventAttributes()
		if in, ok := h.scheduled[a.GetScheduledEventId()]; ok {
			var back engine.Return
			switch err := h.decode(a.GetResult(), &back); {
			case errors.Is(err, ErrPayloadKey):
				return err
			case err != nil:
				return nil //nolint:nilerr // somebody forged the result, so it has no information
			}
			return h.emitEnd(in, back, at)
		}
		name := h.logCalls[a.GetScheduledEventId()]
		delete(h.logCalls, a.GetScheduledEventId())
		return h.emitAnswer(name, a.GetResult(), at)
	case enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_CONTINUED_AS_NEW:
		h.continued = event.GetWorkflowExecutionContinuedAsNewEventAttributes().GetNewExecutionRunId()
	}
	return nil
}

// emitEnd emits the start and the completion that a receipt confirms. The workflow reads other ends from the log, so
// emitTail emits them.
func (h *historyReader) emitEnd(in executeInput, back engine.Return, at time.Time) error {
	r := back.Receipt
	if r == nil || r.Type != run.StepCompletedEvent {
		return nil
	}
	if err := h.emitStart(in, back.EngineAttempt, r.StartedSeq, at); err != nil {
		return err
	}
	completed := store.Append{RunID: h.id.RunID, Events: []run.Draft{{
		Type: run.StepCompletedEvent, StepID: in.StepID, LogicalAttempt: in.LogicalAttempt, EngineAttempt: max(1,
			back.EngineAttempt),
		EmittedAt: at, EmittedBy: run.ByEngine, Payload: lostResult,
	}}}
	return h.emit(engine.Recorded{Append: completed, Seqs: []run.Seq{r.Seq}, Head: r.Head, At: at})
}

// emitStart emits the StepStarted of an attempt at position seq. It emits nothing if seq is 0, which means unknown.
func (h *historyReader) emitStart(in executeInput, engineAttempt int, seq run.Seq, at time.Time) error {
	if seq == 0 {
		return nil
	}
	payload, err := json.Marshal(run.StepStartedPayload{SignalID: in.SignalID})
	if err != nil {
		return err
	}
	started := store.Append{RunID: h.id.RunID, Events: []run.Draft{{
		Type: run.StepStartedEvent, StepID: in.StepID, LogicalAttempt: in.LogicalAttempt, EngineAttempt: max(1,
			engineAttempt),
		EmittedAt: at, EmittedBy: run.ByEngine, Payload: payload,
	}}}
	return h.emit(engine.Recorded{Append: started, Seqs: []run.Seq{seq}, Head: seq, At: at})
}

// localActivityMarker is the SDK's name for the result of a local activity.
const localActivityMarker = "LocalActivity"

// localNames maps the names of local activities in histories to those of activities. The SDK uses the names of their
// methods of logActivities, so these methods must keep their names.
var localNames = map[string]string{ //nolint:gochecknoglobals // a table
	"append": activityAppend, "start": activityStart, "tail": activityTail, "signals": activitySignals,
	"sleep": activitySleep, "wakeUp": activityWakeUp,
}

// emitAnswer emits the entries in the result of an activity that reaches the log.
func (h *historyReader) emitAnswer(name string, result *commonpb.Payloads, at time.Time) error {
	switch name {
	case activityAppend:
		var out appendResult
		if err := h.decode(result, &out); err != nil {
			return err
		}
		return h.emitAppend(out, at)
	case activityStart:
		var out startResult
		if err := h.decode(result, &out); err != nil {
			return err
		}
		return h.emitAppend(out.Append, at)
	case activityTail:
		var out engine.Tail
		if err := h.decode(result, &out); err != nil {
			return err
		}
		return h.emitTail(out, at)
	case activitySleep:
		var out sleepResult
		if err := h.decode(result, &out); err != nil {
			return err
		}
		in := executeInput{StepID: out.StepID, LogicalAttempt: out.LogicalAttempt, SignalID: out.SignalID}
		if out.Receipt != nil {
			return h.emitEnd(in, engine.Return{Receipt: out.Receipt}, at)
		}
		return h.emitStart(in, 1, out.StartedSeq, at)
	case activityWakeUp:
		var out engine.Return
		if err := h.decode(result, &out); err != nil {
			return err
		}
		return h.emitEnd(executeInput{StepID: out.StepID, LogicalAttempt: out.LogicalAttempt}, out, at)
	case activitySignals:
		var out signalsResult
		if err := h.decode(result, &out); err != nil {
			return err
		}
		for i := range out.Signals {
			if err := h.emit(engine.Recorded{Signal: &out.Signals[i], At: at}); err != nil {
				return err
			}
		}
	}
	return nil
}

// emitTail emits the starts and ends that workers wrote, from a read of the log.
func (h *historyReader) emitTail(t engine.Tail, at time.Time) error {
	for _, e := range t.Events {
		d := run.Draft{
			Type: e.Type, StepID: e.StepID, LogicalAttempt: e.LogicalAttempt, EngineAttempt: e.EngineAttempt,
			EmittedAt: e.At, EmittedBy: run.ByEngine, Payload: e.Payload,
		}
		a := store.Append{RunID: h.id.RunID}
		var err error
		switch e.Type {
		case run.StepStartedEvent, run.StepCompensated, run.StepCompensationFailed:
		case run.StepCompletedEvent:
			d.Payload, err = withoutStamp(e.Payload, func(p *run.StepCompletedPayload) { p.RetryDeadline = nil }, lostResult)
		case run.StepFailedEvent:
			a.SetGate = run.GateFailing
			d.Payload, err = withoutStamp(e.Payload, func(p *run.FailurePayload) { p.RetryDeadline = nil }, nil)
		default:
			continue // the workflow appended it, so emitAppend emits it
		}
		if err != nil {
			return err
		}
		a.Events = []run.Draft{d}
		if err := h.emit(engine.Recorded{Append: a, Seqs: []run.Seq{e.Seq}, Head: t.Head.LastSeq, At: at}); err != nil {
			return err
		}
	}
	return nil
}

// lostResult replaces the payload of a completion that the engine's history does not have.
//
//nolint:gochecknoglobals // a constant
var lostResult = json.RawMessage(`{"result":{"omitted":"the result was lost in a restore of the store"}}`)

// withoutStamp returns a payload without the fields that the store adds, which unstamp clears. It returns other for an
// empty payload.
func withoutStamp[P any](payload json.RawMessage, unstamp func(*P), other json.RawMessage) (json.RawMessage, error) {
	if len(payload) == 0 {
		return other, nil
	}
	p, err := run.PayloadOf[P](payload)
	if err != nil {
		return nil, err
	}
	unstamp(&p)
	return json.Marshal(p)
}

// emitAppend emits the part of an Append that is in the log. A signal whose effect the store refused is emitted as not
// applicable.
func (h *historyReader) emitAppend(out appendResult, at time.Time) error {
	if out.Recorded.HeldBack || out.Recorded.Ended {
		return nil
	}
	a := out.Append
	r := engine.Recorded{Append: a, Head: out.Recorded.Head, At: at}
	r.Append.MinHead, r.Append.Events = 0, nil
	index := make([]int, len(a.Events))         // of each event in r, or -1
	refusals := make([]run.Code, len(a.Events)) // why an event is not in the log, or ""
	rejected := false
	for i, d := range a.Events {
		index[i] = -1
		if i >= len(out.Recorded.Ends) {
			continue
		}
		end := out.Recorded.Ends[i]
		rejected = rejected || end.Rejected
		switch {
		case end.NotStarted:
			refusals[i] = run.CodeStepNotStarted
		case end.Won != "":
			refusals[i] = run.CodeInvalidTransition
		case end.Seq == 0:
			refusals[i] = run.CodeOrphanedTask
		default:
			if err := withRef(&d, h.ref); err != nil {
				return err
			}
			index[i] = len(r.Append.Events)
			r.Append.Events, r.Seqs = append(r.Append.Events, d), append(r.Seqs, end.Seq)
		}
	}
	if rejected {
		return nil // the store rejected the whole batch
	}
	r.Append.Outcomes = nil
	for _, o := range a.Outcomes {
		if i := o.AppliedBy; i >= 0 && i < len(index) {
			o.AppliedBy = index[i]
			if refusals[i] != "" {
				o.Application, o.Reason = run.SignalNotApply, string(refusals[i])
			}
		}
		r.Append.Outcomes = append(r.Append.Outcomes, o)
	}
	if len(r.Append.Events) == 0 && len(a.Events) > 0 {
		r.Append.SetGate, r.Append.ClearGate = 0, 0 // refused events do not change the gate
		if len(r.Append.Outcomes) == 0 {
			return nil
		}
	}
	return h.emit(r)
}

// withRef sets the engine's reference in a RunStarted.
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

// inFlight emits the starts of the pending executions whose heartbeats report that the work has started. Their position
// in the log is unknown.
func (h *historyReader) inFlight(about *workflowservice.DescribeWorkflowExecutionResponse) error {
	for _, a := range about.GetPendingActivities() {
		in, ok := h.executions[a.GetActivityId()]
		if !ok || a.GetActivityType().GetName() != activityExecute {
			continue
		}
		var b beat
		details := a.GetHeartbeatDetails()
		if len(details.GetPayloads()) == 0 {
			continue
		}
		err := h.decode(details, &b)
		if errors.Is(err, ErrPayloadKey) {
			return err
		}
		if err != nil || b.StartedAt.IsZero() {
			continue
		}
		payload, err := json.Marshal(run.StepStartedPayload{SignalID: in.SignalID})
		if err != nil {
			return err
		}
		if err := h.emit(engine.Recorded{At: a.GetLastHeartbeatTime().AsTime(), Append: store.Append{RunID: h.id.RunID,
			Events: []run.Draft{{
				Type: run.StepStartedEvent, StepID: in.StepID, LogicalAttempt: in.LogicalAttempt, EngineAttempt: max(1,
					b.EngineAttempt),
				EmittedAt: b.StartedAt, EmittedBy: run.ByEngine, Payload: payload,
			}}}}); err != nil {
			return err
		}
	}
	return nil
}

func (h *historyReader) decode(from *commonpb.Payloads, into any) error {
	if err := h.payloads.FromPayloads(from, into); err != nil {
		return fmt.Errorf("temporal: history: %w", err)
	}
	return nil
}

// runsPage is the number of executions of one page of a list.
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
				d, err := e.descriptionOf(info)
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

// descriptionOf returns the description of an execution from a list. The run is read from the workflow id, because the
// starter of an execution chooses its search attributes freely; only the project is read from them. Identity.RunID is
// empty if the id is not that of a run.
func (e *Engine) descriptionOf(info *workflowpb.WorkflowExecutionInfo) (engine.Description, error) {
	d := engine.Description{
		Ref: run.EngineRunRef{
			Provider: "temporal", Namespace: e.namespace,
			WorkflowID: info.GetExecution().GetWorkflowId(), EngineRunID: info.GetExecution().GetRunId(),
		},
		Open: info.GetStatus() == enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING, HistorySize: info.GetHistoryLength(),
		Foreign: e.foreignReason(info),
	}
	if !d.Open {
		d.ClosedAs = info.GetStatus().String()
	}
	id, ok := runOf(d.Ref.WorkflowID)
	if !ok {
		return d, nil
	}
	d.Identity = id
	if p := info.GetSearchAttributes().GetIndexedFields()[AttributeProject]; p != nil {
		if err := converter.GetDefaultDataConverter().FromPayload(p, &d.Identity.ProjectID); err != nil {
			return d, fmt.Errorf("temporal: attribute %s: %w", AttributeProject, err)
		}
	}
	return d, nil
}
