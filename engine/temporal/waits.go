package temporal

import (
	"context"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/workflow"

	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/run"
)

var _ engine.Waiter = (*Engine)(nil)

// slowCall is the time after which a pending call of a workflow counts as failing, or as not taken by a worker.
const slowCall = 3 * time.Second

// noteWait remembers for people why a dispatch did not start. It decides nothing.
func (d *driver) noteWait(back engine.Return) {
	w := engine.StepWait{StepID: back.StepID, Cause: back.Cause}
	switch {
	case back.Kind == engine.ReturnThrottled:
		w.Cause = engine.WaitQuota
	case back.Kind != engine.ReturnDeclined:
		delete(d.held, back.StepID)
		return
	case back.Cause == engine.WaitJournal && back.Status >= 100 && back.Status < 600:
		w.Status = back.Status
	case back.Cause != engine.WaitJournal:
		w.Cause = engine.WaitWorker
	}
	w.Since = workflow.Now(d.ctx)
	if before, ok := d.held[back.StepID]; ok && before.Cause == w.Cause {
		w.Since = before.Since
	}
	d.held[back.StepID] = w
}

// stepWaits answers the query queryWaits.
func (d *driver) stepWaits() ([]engine.StepWait, error) {
	out := []engine.StepWait{}
	add := func(w engine.StepWait) {
		if len(out) < engine.MaxStepWaits {
			out = append(out, w)
		}
	}
	if d.machine == nil {
		return out, nil
	}
	for _, x := range d.running { // offered to a worker again
		if w, ok := d.held[d.skeleton.Steps[x.ord].StepID]; ok {
			add(w)
		}
	}
	d.machine.Delayed(func(stepID string, due time.Time, forToken bool) {
		w, ok := d.held[stepID]
		switch {
		case forToken && w.Cause != engine.WaitQuota: // an earlier execution of the chain knew since when
			w = engine.StepWait{StepID: stepID, Cause: engine.WaitQuota}
		case !ok:
			w = engine.StepWait{StepID: stepID, Cause: engine.WaitWorker}
		}
		w.Until = due
		add(w)
	})
	return out, nil
}

// Waits implements engine.Waiter. It makes one call, and another one when a worker can answer it. Without the answer
// of a worker it leaves out the waits that only workers know.
func (e *Engine) Waits(ctx context.Context, id run.Identity) (engine.Waits, error) {
	about, err := e.client.DescribeWorkflowExecution(ctx, WorkflowID(id), "")
	if err != nil {
		return engine.Waits{}, translate(err)
	}
	info := about.GetWorkflowExecutionInfo()
	if info.GetStatus() != enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING || e.foreignReason(info) != "" {
		return engine.Waits{}, engine.ErrClosed
	}
	out := e.pendingWaits(about)
	if task := about.GetPendingWorkflowTask(); task.GetState() == enumspb.PENDING_WORKFLOW_TASK_STATE_SCHEDULED {
		if since := task.GetOriginalScheduledTime().AsTime(); e.cfg.Now().Sub(since) > slowCall {
			out.WorkerSince = since // no worker would answer the query either
			return out, nil
		}
	}
	if out.Loading != nil {
		return out, nil
	}
	answer, err := e.client.QueryWorkflowWithOptions(ctx, &client.QueryWorkflowWithOptionsRequest{
		WorkflowID: WorkflowID(id), RunID: info.GetExecution().GetRunId(), QueryType: queryWaits})
	if err != nil {
		// Temporal has answered above. Only a worker of the run answers the query, and a busy one may be late.
		return out, nil //nolint:nilerr // what the steps wait for is unknown, which is no failure
	}
	var held []engine.StepWait
	//nolint:nilerr // an answer of another version tells nothing, which is no failure
	if answer.QueryResult == nil || answer.QueryResult.Get(&held) != nil {
		return out, nil
	}
	out.Steps = append(out.Steps, held[:min(len(held), engine.MaxStepWaits)]...)
	return out, nil
}

// pendingWaits returns what the activities of an execution wait for, as far as Temporal knows by itself.
func (e *Engine) pendingWaits(about *workflowservice.DescribeWorkflowExecutionResponse) engine.Waits {
	var out engine.Waits
	for _, a := range about.GetPendingActivities() {
		since := a.GetScheduledTime().AsTime()
		switch a.GetActivityType().GetName() {
		case activityStart, activitySkeleton:
			out.Loading = &engine.PlanLoad{Since: since}
			var beat loadBeatDetails
			if e.decodeBeat(a, &beat) {
				out.Loading.Try, out.Loading.Tries, out.Loading.Until = beat.Try, beat.Tries, beat.Until
			}
		case activityAppend, activityTail, activitySignals:
			if e.cfg.Now().Sub(since) > slowCall && (out.StoreSince.IsZero() || since.Before(out.StoreSince)) {
				out.StoreSince = since
			}
		case activityExecute:
			if w, ok := e.waitForNextTry(a); ok && len(out.Steps) < engine.MaxStepWaits {
				out.Steps = append(out.Steps, w)
				continue
			}
			var b beat
			if e.decodeBeat(a, &b) && len(out.Steps) < engine.MaxStepWaits {
				out.Steps = b.addTo(out.Steps, since)
			}
		}
	}
	return out
}

// nextTry is the detail of a try that failed and is repeated: which step is tried again, and how often it may be.
type nextTry struct {
	StepID string `json:"stepId"`
	Try    int    `json:"try"`
	Tries  int    `json:"tries"`
}

// waitForNextTry returns the wait of an execution whose last try failed and whose next one has not started. Anybody
// with access to Temporal can forge its details.
func (e *Engine) waitForNextTry(a *workflowpb.PendingActivityInfo) (engine.StepWait, bool) {
	failed := a.GetLastFailure().GetApplicationFailureInfo().GetDetails().GetPayloads()
	var next nextTry
	if a.GetState() != enumspb.PENDING_ACTIVITY_STATE_SCHEDULED || len(failed) != 1 ||
		e.cfg.Payloads.converter().FromPayload(failed[0], &next) != nil || next.StepID == "" || next.Try < 2 ||
		next.Tries < next.Try {
		return engine.StepWait{}, false
	}
	w := engine.StepWait{StepID: next.StepID, Cause: engine.WaitRetry, Try: next.Try, Tries: next.Tries}
	if at := a.GetLastAttemptCompleteTime(); at.IsValid() {
		w.Since = at.AsTime()
	}
	if at := a.GetNextAttemptScheduleTime(); at.IsValid() && at.AsTime().After(e.cfg.Now()) {
		w.Until = at.AsTime()
	}
	return w, true
}

// addTo adds what a heartbeat says about a step that Temporal scheduled at a time; nothing unless it has a meaning.
func (b beat) addTo(waits []engine.StepWait, scheduled time.Time) []engine.StepWait {
	if b.Blocked != engine.WaitJournal && b.Blocked != engine.WaitStore {
		return waits
	}
	w := engine.StepWait{StepID: b.StepID, Cause: b.Blocked, Since: scheduled}
	if !b.Ended.IsZero() {
		w.Since, w.Ended = b.Ended, true
	}
	if b.Status >= 100 && b.Status < 600 {
		w.Status = b.Status
	}
	return append(waits, w)
}

// decodeBeat decodes the last heartbeat of an activity. Anybody with access to Temporal can forge it.
func (e *Engine) decodeBeat(a *workflowpb.PendingActivityInfo, out any) bool {
	all := a.GetHeartbeatDetails().GetPayloads()
	return len(all) == 1 && e.cfg.Payloads.converter().FromPayload(all[0], out) == nil
}
