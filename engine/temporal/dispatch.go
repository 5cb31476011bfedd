package temporal

import (
	"errors"
	"fmt"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/engine/interp"
	"github.com/dvt-engine/dvt/engine/ticket"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
)

// beginSlack is added to a step's timeout: the runner enforces the timeout from
// the moment Begin was answered, and a Begin that the store does not answer is
// waited for, not failed (T216). Heartbeats find a dead worker long before.
const beginSlack = 24 * time.Hour

// longestWait is the most that a worker's answer may ask a dispatch to wait.
const longestWait = time.Minute

// hookAttempts is how often a hook is executed at most (R186).
const hookAttempts = 2

// executeInput is what a worker is given. The ticket says for what; the rest is for its logs and its counting.
type executeInput struct {
	RunID  string `json:"runId"`
	StepID string `json:"stepId"`
	LA     int    `json:"logicalAttempt"`
	N      int    `json:"n"`
	// Spent engine attempts lie behind the first one of this dispatch, and MaxAttempts are allowed to it.
	Spent       int    `json:"spent,omitempty"`
	MaxAttempts int    `json:"maxAttempts"`
	Ticket      string `json:"ticket"`
	// SignalID is the RETRY_STEP that caused the attempt, for a Historian.
	SignalID string `json:"signalId,omitempty"`
}

// executeOptions turn a step's policy into Temporal's (T55, T65, T66, T205). A lost worker is for the interpreter to
// judge, which knows whether the attempt had begun.
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

// hookOptions are R186's, with the queue and the time limit that the plan gives.
func (d *driver) hookOptions(id string, s plan.SkeletonStep, attempts int) workflow.ActivityOptions {
	o := d.executeOptions(id, s, attempts)
	o.TaskQueue = s.CompensationType.WorkloadOn(s.CompensationQueue).TaskQueue(s.CompensationQueue)
	o.StartToCloseTimeout = s.CompensationTimeout + beginSlack
	o.RetryPolicy.InitialInterval, o.RetryPolicy.BackoffCoefficient, o.RetryPolicy.MaximumInterval = time.Second, 2, 10*time.Second
	return o
}

// ticketFor makes the ticket of a dispatch to a queue.
func (d *driver) ticketFor(t ticket.Dispatch) string {
	t.RunID, t.Expires = d.in.Identity.RunID, workflow.Now(d.ctx).Add(ticket.Life)
	return d.keys.Ticket(t)
}

// nameOf is a step in the ids of its activities: its id, or its place in the plan, from 1, where ids tell nothing.
func (d *driver) nameOf(ord run.Ord) string {
	if d.in.OpaqueIDs {
		return fmt.Sprintf("#%d", ord+1)
	}
	return d.skeleton.Steps[ord].StepID
}

func (d *driver) execute(e interp.Execute) {
	s := d.skeleton.Steps[e.Ord]
	d.steps++
	id := fmt.Sprintf("%s/%d.%d", d.nameOf(e.Ord), e.LA, e.N)
	in := executeInput{
		RunID: d.in.Identity.RunID, StepID: s.StepID, LA: e.LA, N: e.N, Spent: e.Spent, MaxAttempts: max(1, s.Retry.MaxAttempts-e.Spent), SignalID: e.SignalID,
		Ticket: d.ticketFor(ticket.Dispatch{
			StepID: s.StepID, LogicalAttempt: e.LA, N: e.N, Queue: s.TaskQueue, PassFailing: e.PassFailing, SignalID: e.SignalID,
		}),
	}
	ctx := d.launched(execution{ord: e.Ord, id: id})
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
		RunID: d.in.Identity.RunID, StepID: s.StepID, LA: e.LA, N: e.N, Spent: e.Spent, MaxAttempts: max(1, hookAttempts-e.Spent),
		Ticket: d.ticketFor(ticket.Dispatch{StepID: s.StepID, LogicalAttempt: e.LA, N: e.N, Queue: s.CompensationQueue, Hook: true}),
	}
	ctx := workflow.WithActivityOptions(d.launched(execution{ord: e.Ord, id: id}), d.hookOptions(id, s, in.MaxAttempts))
	d.await(workflow.ExecuteActivity(ctx, activityCompensate, in), id, in, true)
}

// launched notes an execution and returns the context that CancelSteps ends.
func (d *driver) launched(x execution) workflow.Context {
	ctx, cancel := workflow.WithCancel(d.ctx)
	d.cancels[x.id] = cancel
	d.running = append(d.running, x)
	return ctx
}

// await puts into the inbox that Temporal no longer executes a dispatch.
func (d *driver) await(f workflow.Future, id string, in executeInput, hook bool) {
	workflow.Go(d.ctx, func(ctx workflow.Context) {
		var out engine.Return
		err := f.Get(ctx, &out)
		d.cameBack(id, in, out, err, hook)
	})
}

func (d *driver) cameBack(id string, in executeInput, out engine.Return, err error, hook bool) {
	delete(d.cancels, id)
	for i, x := range d.running {
		if x.id == id {
			d.running = append(d.running[:i], d.running[i+1:]...)
			break
		}
	}
	back := returnOf(in, out, err)
	if r := back.Receipt; r != nil && !hook && d.isProven(*r, in) {
		d.head = max(d.head, r.Head)
		d.ended = append(d.ended, interp.Ended{StepID: in.StepID, LogicalAttempt: in.LA, Receipt: *r})
		return
	}
	d.returns = append(d.returns, returned{Return: back, hook: hook, claimed: isClaim(in, out, err)})
}

// isClaim reports whether Temporal says that a dispatch is over in a way that is worth a look: the log should have its end, or no
// worker of this installation answers like this.
func isClaim(in executeInput, out engine.Return, err error) bool {
	var app *temporal.ApplicationError
	var timeout *temporal.TimeoutError
	var cancelled *temporal.CanceledError
	switch {
	case errors.As(err, &app):
		return app.NonRetryable() // workers leave it to the policy whether an error is tried again
	case errors.As(err, &timeout), errors.As(err, &cancelled):
		return false
	case err != nil:
		return true // a result that cannot be decoded
	case out.StepID != in.StepID || out.LogicalAttempt != in.LA || out.N != in.N:
		return true
	}
	switch out.Kind {
	case engine.ReturnParked, engine.ReturnThrottled, engine.ReturnDeclined, engine.ReturnRunTerminal, engine.ReturnCancelled, engine.ReturnLost,
		engine.ReturnAbandoned:
		return false
	case engine.ReturnEnded:
	}
	return true
}

// isProven reports whether the Journal of this installation wrote a receipt about this attempt. The answer must be the same
// in every replay: keys stay in the list of ticket-keys until the runs that were open when they were replaced are over.
func (d *driver) isProven(r engine.Receipt, in executeInput) bool {
	return d.replays || d.keys.Sealed(r.Proof, engine.ReceiptPurpose, r.Text(d.in.Identity.RunID, in.StepID, in.LA, false))
}

// returnOf says how a dispatch came back. Whoever reaches Temporal can have written out and the details of err, so
// nothing of them goes further that is not bounded, and what names another dispatch tells of none.
func returnOf(in executeInput, out engine.Return, err error) engine.Return {
	back := engine.Return{StepID: in.StepID, LogicalAttempt: in.LA, N: in.N, Kind: engine.ReturnAbandoned}
	var timeout *temporal.TimeoutError
	var cancelled *temporal.CanceledError
	switch {
	case errors.As(err, &timeout):
		back.Kind = engine.ReturnLost
		var b beat
		if timeout.HasLastHeartbeatDetails() && timeout.LastHeartbeatDetails(&b) == nil {
			back.EngineAttempt = b.EngineAttempt
		}
	case errors.As(err, &cancelled):
		back.Kind = engine.ReturnCancelled
	case err != nil:
	case out.StepID == in.StepID && out.LogicalAttempt == in.LA && out.N == in.N:
		back.Kind, back.EngineAttempt = out.Kind, out.EngineAttempt
		back.RetryAfter, back.Receipt = min(max(0, out.RetryAfter), longestWait), out.Receipt
	}
	return back
}
