package temporal

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"sort"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/client"
	sdklog "go.temporal.io/sdk/log"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
)

// ErrNotHistory is returned by Replay for an input that is not the history of a run's workflow.
var ErrNotHistory = errors.New("temporal: not the history of a run's workflow")

// Replayed describes a history that a worker of this program could continue.
type Replayed struct {
	Events int `json:"events"`
}

// MismatchError is the first difference between a history and the decisions of this program.
type MismatchError struct {
	// Replayed is the number of the last event up to which the history replays; 0 if not even the first task does.
	Replayed int64 `json:"replayed"`
	// Events describes the recorded events from there to the end of the next workflow task.
	Events []string `json:"events"`
	// Reason is the error of the SDK.
	Reason string `json:"reason"`
}

func (e *MismatchError) Error() string {
	return fmt.Sprintf("events 1 to %d replay, the next workflow task does not: %s", e.Replayed, e.Reason)
}

// Replay runs the workflow of this program over the history of one execution, in the JSON of `temporal workflow show -o
// json`. It needs no server and has no side effects. payloads may be nil for a history in clear. Errors: *MismatchError
// if a worker of this program could not continue the execution (contract T117, E-03), ErrNotHistory, ErrPayloadKey if
// payloads lacks a key.
func Replay(history io.Reader, payloads *Payloads) (Replayed, error) {
	h, err := client.HistoryFromJSON(history, client.HistoryJSONOptions{})
	if err != nil {
		return Replayed{}, fmt.Errorf("%w: %w", ErrNotHistory, err)
	}
	if len(h.GetEvents()) == 0 {
		return Replayed{}, fmt.Errorf("%w: the file has no events", ErrNotHistory)
	}
	started := h.Events[0].GetWorkflowExecutionStartedEventAttributes()
	if name := started.GetWorkflowType().GetName(); name != workflowName {
		return Replayed{}, fmt.Errorf("%w: its first event starts %q, not %s", ErrNotHistory, name, workflowName)
	}
	if err := payloads.canRead(started.GetInput()); err != nil {
		return Replayed{}, err
	}
	r := replayer{h, payloads}
	if err := r.replayTo(len(h.Events)); err != nil {
		return Replayed{}, r.mismatch(err)
	}
	return Replayed{Events: len(h.Events)}, nil
}

// replayer replays one history.
type replayer struct {
	*historypb.History
	payloads *Payloads
}

// replayTo replays the first n events.
func (h replayer) replayTo(n int) error {
	r, err := worker.NewWorkflowReplayerWithOptions(worker.WorkflowReplayerOptions{
		DataConverter: h.payloads.converter(), FailureConverter: h.payloads.failures(),
	})
	if err != nil {
		return err
	}
	r.RegisterWorkflowWithOptions((&workflows{meter: newMeter("", time.Now), log: &logActivities{}, replays: true}).run,
		workflow.RegisterOptions{Name: workflowName})
	return r.ReplayWorkflowHistory(sdklog.NewStructuredLogger(slog.New(slog.DiscardHandler)),
		&historypb.History{Events: h.Events[:n:n]})
}

// mismatch finds the first workflow task whose decisions differ, by a binary search. err is the error of the whole
// replay.
func (h replayer) mismatch(err error) error {
	ends := []int{0} // number of events up to the end of each workflow task
	for i, e := range h.Events {
		if e.GetEventType() == enumspb.EVENT_TYPE_WORKFLOW_TASK_COMPLETED {
			end := i + 1
			for end < len(h.Events) && isCausedBy(h.Events[end], e.GetEventId()) {
				end++
			}
			ends = append(ends, end)
		}
	}
	if ends[len(ends)-1] < len(h.Events) {
		ends = append(ends, len(h.Events))
	}
	first := 1 + sort.Search(len(ends)-2, func(i int) bool { return h.replayTo(ends[i+1]) != nil })
	if found := h.replayTo(ends[first]); found != nil {
		err = found
	}
	m := &MismatchError{Replayed: int64(ends[first-1]), Reason: err.Error()}
	for _, e := range h.Events[ends[first-1]:ends[first]] {
		m.Events = append(m.Events, inWords(e))
	}
	return m
}

// isCausedBy reports whether the workflow task that completed with the event number task decided this event.
func isCausedBy(e *historypb.HistoryEvent, task int64) bool {
	return slices.Contains([]int64{
		e.GetActivityTaskScheduledEventAttributes().GetWorkflowTaskCompletedEventId(),
		e.GetActivityTaskCancelRequestedEventAttributes().GetWorkflowTaskCompletedEventId(),
		e.GetTimerStartedEventAttributes().GetWorkflowTaskCompletedEventId(),
		e.GetTimerCanceledEventAttributes().GetWorkflowTaskCompletedEventId(),
		e.GetMarkerRecordedEventAttributes().GetWorkflowTaskCompletedEventId(),
		e.GetUpsertWorkflowSearchAttributesEventAttributes().GetWorkflowTaskCompletedEventId(),
		e.GetWorkflowExecutionCompletedEventAttributes().GetWorkflowTaskCompletedEventId(),
		e.GetWorkflowExecutionFailedEventAttributes().GetWorkflowTaskCompletedEventId(),
		e.GetWorkflowExecutionContinuedAsNewEventAttributes().GetWorkflowTaskCompletedEventId(),
	}, task)
}

// inWords returns the number and the type of an event, and the activity, timer or marker that it concerns.
func inWords(e *historypb.HistoryEvent) string {
	s := fmt.Sprintf("%d %s", e.GetEventId(), e.GetEventType())
	if a := e.GetActivityTaskScheduledEventAttributes(); a != nil {
		return s + " " + a.GetActivityType().GetName() + " " + a.GetActivityId()
	}
	if a := e.GetTimerStartedEventAttributes(); a != nil {
		return s + " " + a.GetTimerId()
	}
	if a := e.GetMarkerRecordedEventAttributes(); a != nil {
		return s + " " + a.GetMarkerName()
	}
	return s
}
