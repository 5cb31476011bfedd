package attacks_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/history/v1"
	sdk "go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
)

// stranger has access to Temporal and nothing else: no store, no token, no keys. He runs his own worker.
type stranger struct {
	client sdk.Client
	worker worker.Worker
}

const (
	strangerQueue    = "tq-stranger"
	strangerWorkflow = "stranger.call"
	strangerDone     = "stranger.done" // completes at once
)

// activityCall is an activity that the stranger's workflow schedules on a queue of dvt.
type activityCall struct {
	Queue, Activity string
	Input           json.RawMessage
}

func newStranger(c sdk.Client) (*stranger, error) {
	w := worker.New(c, strangerQueue, worker.Options{})
	w.RegisterWorkflowWithOptions(func(ctx workflow.Context, e activityCall) (string, error) {
		ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
			TaskQueue: e.Queue, ScheduleToCloseTimeout: time.Minute, StartToCloseTimeout: time.Minute,
			HeartbeatTimeout: 20 * time.Second,
			RetryPolicy:      &temporal.RetryPolicy{MaximumAttempts: 1},
		})
		var out json.RawMessage
		err := workflow.ExecuteActivity(ctx, e.Activity, e.Input).Get(ctx, &out)
		return string(out), err
	}, workflow.RegisterOptions{Name: strangerWorkflow})
	w.RegisterWorkflowWithOptions(func(workflow.Context) error { return nil },
		workflow.RegisterOptions{Name: strangerDone})
	return &stranger{client: c, worker: w}, w.Start()
}

// call schedules an activity on a queue of dvt and returns the answer of the worker.
func (s *stranger) call(t *testing.T, queue, activity string, input any) string {
	t.Helper()
	raw, err := json.Marshal(input)
	must(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), patient(time.Minute))
	defer cancel()
	w, err := s.client.ExecuteWorkflow(ctx, sdk.StartWorkflowOptions{TaskQueue: strangerQueue}, strangerWorkflow,
		activityCall{queue, activity, raw})
	must(t, err)
	var out string
	if err := w.Get(ctx, &out); err != nil {
		return "error: " + err.Error()
	}
	return out
}

func workflowID(tenant, runID string) string { return fmt.Sprintf("dvt/%s/%s", tenant, runID) }

// readHistory returns the events of a run's newest execution, or nil when none has started.
func (s *stranger) readHistory(t *testing.T, tenant, runID string) (out []*history.HistoryEvent) {
	t.Helper()
	events := s.client.GetWorkflowHistory(t.Context(), workflowID(tenant, runID), "", false,
		enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for events.HasNext() {
		e, err := events.Next()
		if err != nil {
			return out // not started yet
		}
		out = append(out, e)
	}
	return out
}

// waitForTicket waits until a step is dispatched and returns its ticket from Temporal's history. It returns "" for the
// old binary, which has no tickets.
func (s *stranger) waitForTicket(t *testing.T, tenant, runID, stepID string) (ticket string) {
	t.Helper()
	waitUntil(t, "the step "+stepID+" is dispatched", time.Minute, func() bool {
		for _, e := range s.readHistory(t, tenant, runID) {
			a := e.GetActivityTaskScheduledEventAttributes()
			if a == nil || !strings.HasPrefix(a.GetActivityId(), stepID+"/") {
				continue
			}
			var in struct{ Ticket string }
			must(t, json.Unmarshal(a.GetInput().GetPayloads()[0].GetData(), &in))
			ticket = in.Ticket
			return true
		}
		return false
	})
	if ticket == "" && !oldBinary {
		t.Errorf("the dispatch of %s carries no ticket", stepID)
	}
	return ticket
}

// complete reports to Temporal that a step's activity has a result.
func (s *stranger) complete(t *testing.T, tenant, runID, activityID string, result any) {
	t.Helper()
	must(t, s.client.CompleteActivityByID(t.Context(), "dvt", workflowID(tenant, runID), "", activityID, result, nil))
}

// fail reports to Temporal that a step's activity failed finally.
func (s *stranger) fail(t *testing.T, tenant, runID, activityID string) {
	t.Helper()
	failure := temporal.NewNonRetryableApplicationError("it failed, says somebody", "ENGINE_ERROR", nil)
	must(t, s.client.CompleteActivityByID(t.Context(), "dvt", workflowID(tenant, runID), "", activityID, nil, failure))
}
