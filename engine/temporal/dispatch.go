package temporal

import (
	"errors"
	"fmt"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/engine/interp"
	"github.com/dvt-engine/dvt/engine/ticket"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
)

// beginSlack is added to a step's timeout. The runner enforces the timeout from the answer to StartAttempt, for which
// it waits without limit (contract T216). Missing heartbeats reveal a dead worker long before.
const beginSlack = 24 * time.Hour

// longestWait is the longest delay that the answer of a worker may ask for.
const longestWait = time.Minute

// hookAttempts bounds the executions of a hook (contract R186).
const hookAttempts = 2

// executeInput is the input of a worker. The ticket authorises the dispatch; the other fields serve logs and counting.
type executeInput struct {
	RunID          string `json:"runId"`
	StepID         string `json:"stepId"`
	LogicalAttempt int    `json:"logicalAttempt"`
	N              int    `json:"n"`
	// Spent is the number of engine attempts before this dispatch; MaxAttempts is the number that it may use.
	Spent       int    `json:"spent,omitempty"`
	MaxAttempts int    `json:"maxAttempts"`
	Ticket      string `json:"ticket"`
	// SignalID is the id of the RETRY_STEP that caused the attempt, for a Historian.
	SignalID string `json:"signalId,omitempty"`
	// Epoch is that of the store when the workflow read it last: the Journal of a former primary begins no step of it.
	Epoch string `json:"epoch,omitempty"`
}

// executeOptions translates a step's policy into Temporal's (contract T55, T65, T66, T205). Temporal does not retry
// timeouts: only the log knows whether the attempt of a lost worker had started.
func (d *driver) executeOptions(id string, s plan.SkeletonStep, attempts int) workflow.ActivityOptions {
	ms := func(n int) time.Duration { return time.Duration(n) * time.Millisecond }
	return workflow.ActivityOptions{
		ActivityID:          id,
		TaskQueue:           s.Type.WorkloadOn(s.TaskQueue).TaskQueue(s.TaskQueue),
		StartToCloseTimeout: s.Timeout + beginSlack,
		HeartbeatTimeout:    ms(int(d.in.HeartbeatTimeoutMS)),
		WaitForCancellation: true,
		Priority:            fairness(d.in.Identity),
		RetryPolicy: &temporal.RetryPolicy{
			InitialInterval:        ms(s.Retry.InitialBackoffMS),
			BackoffCoefficient:     s.Retry.BackoffMultiplier,
			MaximumInterval:        ms(s.Retry.MaxBackoffMS),
			MaximumAttempts:        int32(attempts),
			NonRetryableErrorTypes: []string{"TemporalTimeout:StartToClose", "TemporalTimeout:Heartbeat"},
		},
	}
}

// hookOptions returns the fixed retry policy of hooks (contract R186) with the queue and timeout of the plan.
func (d *driver) hookOptions(id string, s plan.SkeletonStep, attempts int) workflow.ActivityOptions {
	o := d.executeOptions(id, s, attempts)
	o.TaskQueue = s.CompensationType.WorkloadOn(s.CompensationQueue).TaskQueue(s.CompensationQueue)
	o.StartToCloseTimeout = s.CompensationTimeout + beginSlack
	o.RetryPolicy.InitialInterval, o.RetryPolicy.BackoffCoefficient, o.RetryPolicy.MaximumInterval = time.Second, 2,
		10*time.Second
	return o
}

// ticketFor returns the ticket of a dispatch. It sets the run and the expiry.
func (d *driver) ticketFor(t ticket.Dispatch) string {
	t.RunID, t.Expires = d.in.Identity.RunID, workflow.Now(d.ctx).Add(ticket.Life)
	return d.keys.Ticket(t)
}

// nameOf returns the name of a step in the ids of its activities: its id, or its number in the plan, from 1, when
// activity ids must not show step ids.
func (d *driver) nameOf(ord run.Ord) string {
	if d.in.OpaqueIDs {
		return fmt.Sprintf("#%d", ord+1)
	}
	return d.skeleton.Steps[ord].StepID
}

// execute dispatches an attempt to the workers of its queue, or runs it as a timer if it is a SLEEP.
func (d *driver) execute(e interp.Execute) {
	s := d.skeleton.Steps[e.Ord]
	d.steps++
	id := fmt.Sprintf("%s/%d.%d", d.nameOf(e.Ord), e.LogicalAttempt, e.N)
	in := executeInput{
		RunID: d.in.Identity.RunID, StepID: s.StepID, LogicalAttempt: e.LogicalAttempt, N: e.N, Spent: e.Spent,
		MaxAttempts: max(1, s.Retry.MaxAttempts-e.Spent), SignalID: e.SignalID, Epoch: d.epoch,
		Ticket: d.ticketFor(ticket.Dispatch{
			StepID: s.StepID, LogicalAttempt: e.LogicalAttempt, N: e.N, Queue: s.TaskQueue, PassFailing: e.PassFailing,
			SignalID: e.SignalID,
		}),
	}
	ctx := d.trackExecution(execution{ord: e.Ord, id: id})
	if s.Type == plan.Sleep {
		d.sleep(ctx, id, in)
		return
	}
	ctx = workflow.WithActivityOptions(ctx, d.executeOptions(id, s, in.MaxAttempts))
	d.await(workflow.ExecuteActivity(ctx, activityExecute, in), id, in, false)
}

// compensate runs the hook of one step.
func (d *driver) compensate(e interp.Compensate) {
	s := d.skeleton.Steps[e.Ord]
	d.steps++
	id := fmt.Sprintf("%s/compensate.%d", d.nameOf(e.Ord), e.N)
	in := executeInput{
		RunID: d.in.Identity.RunID, StepID: s.StepID, LogicalAttempt: e.LogicalAttempt, N: e.N, Spent: e.Spent,
		MaxAttempts: max(1, hookAttempts-e.Spent), Epoch: d.epoch,
		Ticket: d.ticketFor(ticket.Dispatch{StepID: s.StepID, LogicalAttempt: e.LogicalAttempt, N: e.N,
			Queue: s.CompensationQueue,
			Hook:  true}),
	}
	ctx := workflow.WithActivityOptions(d.trackExecution(execution{ord: e.Ord, id: id}),
		d.hookOptions(id, s, in.MaxAttempts))
	d.await(workflow.ExecuteActivity(ctx, activityCompensate, in), id, in, true)
}

// trackExecution remembers an execution and returns the context that CancelSteps cancels.
func (d *driver) trackExecution(x execution) workflow.Context {
	ctx, cancel := workflow.WithCancel(d.ctx)
	d.cancels[x.id] = cancel
	d.running = append(d.running, x)
	return ctx
}

// await waits in a coroutine for the return of a dispatch and passes it to takeReturn.
func (d *driver) await(f workflow.Future, id string, in executeInput, hook bool) {
	workflow.Go(d.ctx, func(ctx workflow.Context) {
		var out engine.Return
		err := f.Get(ctx, &out)
		d.takeReturn(id, in, out, err, hook)
	})
}

// takeReturn puts the return of a dispatch into the inbox. A proven receipt needs no read of the log.
func (d *driver) takeReturn(id string, in executeInput, out engine.Return, err error, hook bool) {
	delete(d.cancels, id)
	for i, x := range d.running {
		if x.id == id {
			d.running = append(d.running[:i], d.running[i+1:]...)
			break
		}
	}
	back := returnOf(in, out, err)
	if !hook {
		d.noteWait(back)
	}
	if r := back.Receipt; r != nil && !hook && d.isProven(*r, in) {
		d.head = max(d.head, r.Head)
		d.ended = append(d.ended, interp.Ended{StepID: in.StepID, LogicalAttempt: in.LogicalAttempt, Receipt: *r})
		return
	}
	d.returns = append(d.returns, returnedDispatch{Return: back, hook: hook, claimed: isClaim(in, out, err)})
}

// isClaim reports whether the return of a dispatch must be compared with the log. Either the log should then have its
// end, or no worker of this installation returns such an answer.
func isClaim(in executeInput, out engine.Return, err error) bool {
	var app *temporal.ApplicationError
	var timeout *temporal.TimeoutError
	var cancelled *temporal.CanceledError
	switch {
	case errors.As(err, &app):
		return app.NonRetryable() // workers never mark an error as non-retryable
	case errors.As(err, &timeout), errors.As(err, &cancelled):
		return false
	case err != nil:
		return true // a result that cannot be decoded
	case out.StepID != in.StepID || out.LogicalAttempt != in.LogicalAttempt || out.N != in.N:
		return true
	}
	switch out.Kind {
	case engine.ReturnParked, engine.ReturnThrottled, engine.ReturnDeclined, engine.ReturnRunTerminal,
		engine.ReturnCancelled, engine.ReturnLost,
		engine.ReturnAbandoned:
		return false
	case engine.ReturnEnded:
	}
	return true
}

// isProven reports whether the Journal of this installation wrote a receipt about this attempt. The answer must be the
// same in every replay, so a replaced key stays in ticket-keys until the runs that were open at that time are over.
func (d *driver) isProven(r engine.Receipt, in executeInput) bool {
	return d.replays || d.keys.VerifySeal(r.Proof, engine.ReceiptPurpose, r.Text(d.in.Identity.RunID, in.StepID,
		in.LogicalAttempt, false))
}

// returnOf converts the result of a dispatch. Anybody with access to Temporal can forge out and the details of err.
// returnOf therefore bounds their values and ignores an out that names another dispatch.
func returnOf(in executeInput, out engine.Return, err error) engine.Return {
	back := engine.Return{StepID: in.StepID, LogicalAttempt: in.LogicalAttempt, N: in.N, Kind: engine.ReturnAbandoned}
	var timeout *temporal.TimeoutError
	var cancelled *temporal.CanceledError
	switch {
	case errors.As(err, &timeout):
		back.Kind, back.Overran = engine.ReturnLost, timeout.TimeoutType() == enumspb.TIMEOUT_TYPE_START_TO_CLOSE
		var b beat
		if timeout.HasLastHeartbeatDetails() && timeout.LastHeartbeatDetails(&b) == nil {
			back.EngineAttempt = b.EngineAttempt
		}
	case errors.As(err, &cancelled):
		back.Kind = engine.ReturnCancelled
	case err != nil:
	case out.StepID == in.StepID && out.LogicalAttempt == in.LogicalAttempt && out.N == in.N:
		back.Kind, back.EngineAttempt = out.Kind, out.EngineAttempt
		back.RetryAfter, back.Receipt = min(max(0, out.RetryAfter), longestWait), out.Receipt
		back.Cause, back.Status = out.Cause, out.Status
	}
	return back
}
