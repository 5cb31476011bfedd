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
		h := &histories{id: id, emit: emit, payloads: e.cfg.Payloads.converter(), ref: run.EngineRunRef{
			Provider: "temporal", Namespace: e.namespace, WorkflowID: WorkflowID(id), EngineRunID: next,
		}, logCalls: map[int64]string{}, scheduled: map[int64]executeInput{}, executions: map[string]executeInput{}}
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
	id       run.Identity
	ref      run.EngineRunRef
	emit     func(engine.Recorded) error
	payloads converter.DataConverter
	// activities on the log queue that are open: their types, by the event that scheduled them
	logCalls   map[int64]string
	executions map[string]executeInput // by activity id
	scheduled  map[int64]executeInput  // by the event that scheduled them
	continued  string                  // the execution that follows
}

// take reads one event. What the log answered stands in the markers of local activities, and in the results of the
// activities on the log queue that took their place.
func (h *histories) take(event *historypb.HistoryEvent) error {
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
		return h.answered(localNames[what.ActivityType], a.GetDetails()["result"], at)
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
				return nil //nolint:nilerr // somebody forged the result, and it tells nothing
			}
			return h.ended(in, back, at)
		}
		name := h.logCalls[a.GetScheduledEventId()]
		delete(h.logCalls, a.GetScheduledEventId())
		return h.answered(name, a.GetResult(), at)
	case enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_CONTINUED_AS_NEW:
		h.continued = event.GetWorkflowExecutionContinuedAsNewEventAttributes().GetNewExecutionRunId()
	}
	return nil
}

// ended yields the begin and the completion that a receipt speaks of. Any other end was read from the log.
func (h *histories) ended(in executeInput, back engine.Return, at time.Time) error {
	r := back.Receipt
	if r == nil || r.Type != run.StepCompletedEvent {
		return nil
	}
	if err := h.began(in, back.EngineAttempt, r.StartedSeq, at); err != nil {
		return err
	}
	completed := store.Append{RunID: h.id.RunID, Events: []run.Draft{{
		Type: run.StepCompletedEvent, StepID: in.StepID, LogicalAttempt: in.LA, EngineAttempt: max(1, back.EngineAttempt),
		EmittedAt: at, EmittedBy: run.ByEngine, Payload: lostResult,
	}}}
	return h.emit(engine.Recorded{Append: completed, Seqs: []run.Seq{r.Seq}, Head: r.Head, At: at})
}

// began yields the begin of an attempt that stands at seq; 0 says that its place is not known.
func (h *histories) began(in executeInput, engineAttempt int, seq run.Seq, at time.Time) error {
	if seq == 0 {
		return nil
	}
	payload, err := json.Marshal(run.StepStartedPayload{SignalID: in.SignalID})
	if err != nil {
		return err
	}
	started := store.Append{RunID: h.id.RunID, Events: []run.Draft{{
		Type: run.StepStartedEvent, StepID: in.StepID, LogicalAttempt: in.LA, EngineAttempt: max(1, engineAttempt),
		EmittedAt: at, EmittedBy: run.ByEngine, Payload: payload,
	}}}
	return h.emit(engine.Recorded{Append: started, Seqs: []run.Seq{seq}, Head: seq, At: at})
}

// localActivityMarker is the SDK's name for the result of a local activity.
const localActivityMarker = "LocalActivity"

// localNames are the names that the SDK gives to the local activities, which are methods.
var localNames = map[string]string{ //nolint:gochecknoglobals // a table
	"append": activityAppend, "start": activityStart, "tail": activityTail, "signals": activitySignals,
	"sleep": activitySleep, "wakeUp": activityWakeUp,
}

// answered yields what an activity that reaches the log was told.
func (h *histories) answered(name string, result *commonpb.Payloads, at time.Time) error {
	switch name {
	case activityAppend:
		var out appendResult
		if err := h.decode(result, &out); err != nil {
			return err
		}
		return h.appended(out, at)
	case activityStart:
		var out startResult
		if err := h.decode(result, &out); err != nil {
			return err
		}
		return h.appended(out.Append, at)
	case activityTail:
		var out engine.Tail
		if err := h.decode(result, &out); err != nil {
			return err
		}
		return h.observed(out, at)
	case activitySleep:
		var out sleepResult
		if err := h.decode(result, &out); err != nil {
			return err
		}
		in := executeInput{StepID: out.StepID, LA: out.LA, SignalID: out.SignalID}
		if out.Receipt != nil {
			return h.ended(in, engine.Return{Receipt: out.Receipt}, at)
		}
		return h.began(in, 1, out.StartedSeq, at)
	case activityWakeUp:
		var out engine.Return
		if err := h.decode(result, &out); err != nil {
			return err
		}
		return h.ended(executeInput{StepID: out.StepID, LA: out.LogicalAttempt}, out, at)
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

// observed yields the begins and ends that workers wrote.
func (h *histories) observed(t engine.Tail, at time.Time) error {
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
			d.Payload, err = unstamped(e.Payload, func(p *run.StepCompletedPayload) { p.RetryDeadline = nil }, lostResult)
		case run.StepFailedEvent:
			a.SetGate = run.GateFailing
			d.Payload, err = unstamped(e.Payload, func(p *run.FailurePayload) { p.RetryDeadline = nil }, nil)
		default:
			continue // the machine's own
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

// lostResult stands for the payload of a completion that was too long for the engine's history.
//
//nolint:gochecknoglobals // a constant
var lostResult = json.RawMessage(`{"result":{"omitted":"the result was lost in a restore of the store"}}`)

// unstamped is a payload without what the store adds; other where there is none.
func unstamped[P any](payload json.RawMessage, unstamp func(*P), other json.RawMessage) (json.RawMessage, error) {
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

// appended yields what of an Append came into the log. An effect that was refused
// did not apply its signal.
func (h *histories) appended(out appendResult, at time.Time) error {
	if out.Recorded.HeldBack || out.Recorded.Ended {
		return nil
	}
	a := out.Append
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

// inFlight yields the begins of the executions that began, by their heartbeats, and have not ended.
func (h *histories) inFlight(about *workflowservice.DescribeWorkflowExecutionResponse) error {
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
				Type: run.StepStartedEvent, StepID: in.StepID, LogicalAttempt: in.LA, EngineAttempt: max(1, b.EngineAttempt),
				EmittedAt: b.StartedAt, EmittedBy: run.ByEngine, Payload: payload,
			}}}}); err != nil {
			return err
		}
	}
	return nil
}

func (h *histories) decode(from *commonpb.Payloads, into any) error {
	if err := h.payloads.FromPayloads(from, into); err != nil {
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

// known is an execution of a list. Its id names the run, because anybody who starts an execution chooses its
// search attributes; only the project is read from them. The RunID is empty when the id is not that of a run.
func (e *Engine) known(info *workflowpb.WorkflowExecutionInfo) (engine.Description, error) {
	d := engine.Description{
		Ref: run.EngineRunRef{
			Provider: "temporal", Namespace: e.namespace,
			WorkflowID: info.GetExecution().GetWorkflowId(), EngineRunID: info.GetExecution().GetRunId(),
		},
		Open: info.GetStatus() == enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING, HistorySize: info.GetHistoryLength(),
		Foreign: e.foreign(info),
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
