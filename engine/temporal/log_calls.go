package temporal

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/engine/interp"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
)

// The activities that reach the log for the workflow. Each first runs as a local activity inside the workflow task,
// which costs one event of history and no round trip. If the store does not answer within localFor, an activity of the
// same name on the log queue takes over. It waits without limit and without adding to the history.
const (
	activityAppend   = "dvt.append"
	activityTail     = "dvt.tail"
	activitySignals  = "dvt.signals"
	activitySkeleton = "dvt.skeleton"
	activityStart    = "dvt.start"
	activitySleep    = "dvt.sleep"
	activityWakeUp   = "dvt.wake-up"
)

const (
	// localTry bounds one try of a local activity, and localFor bounds all tries. Both are well below the timeout of a
	// workflow task, so that no workflow task times out while the store is down.
	localTry = 3 * time.Second
	localFor = 5 * time.Second
	// longestRetry is the longest delay that an overloaded store may ask for.
	longestRetry = 30 * time.Second
)

// logQueue returns the queue of the activities that reach the log for the runs of a control queue. It is a separate
// queue, so that an append never waits behind steps.
func logQueue(control string) string { return control + logSuffix }

const logSuffix = "-log"

// controlQueue returns the queue of the workflow of a log activity, which is local or on its log queue.
func controlQueue(queue string) string { return strings.TrimSuffix(queue, logSuffix) }

// logOptions returns the options of the activities on the log queue. They are retried without limit, because the run
// cannot continue without the log (contract T120).
func logOptions(ctx workflow.Context, id string) workflow.ActivityOptions {
	return workflow.ActivityOptions{
		ActivityID:          id,
		TaskQueue:           logQueue(workflow.GetInfo(ctx).TaskQueueName),
		StartToCloseTimeout: 10 * time.Second,
		RetryPolicy: &temporal.RetryPolicy{
			InitialInterval: 100 * time.Millisecond, BackoffCoefficient: 2, MaximumInterval: 5 * time.Second,
		},
	}
}

// loadTime is the time of one try to load a plan. It covers three tries to fetch a document of a host that hangs, 15 s
// each. A worker that sends no heartbeat for loadSilence counts as lost.
const (
	loadTime    = time.Minute
	loadBeat    = 3 * time.Second
	loadSilence = 4 * loadBeat
)

// remoteOptions returns the options of a log activity by its name. The timeouts of an activity are no decision that a
// replay compares.
func remoteOptions(ctx workflow.Context, name, id string) workflow.ActivityOptions {
	o := logOptions(ctx, id)
	if name == activityStart || name == activitySkeleton {
		o.StartToCloseTimeout, o.HeartbeatTimeout = loadTime, loadSilence
	}
	return o
}

func localOptions() workflow.LocalActivityOptions {
	return workflow.LocalActivityOptions{
		StartToCloseTimeout: localTry, ScheduleToCloseTimeout: localFor,
		RetryPolicy: &temporal.RetryPolicy{InitialInterval: 100 * time.Millisecond, BackoffCoefficient: 2,
			MaximumInterval: time.Second},
	}
}

// call runs a log activity and passes its result to done, in a coroutine. The local activity runs local with in. The
// activity of this name on the log queue gets remote, which is the same input, sealed if it changes the log.
func call[R any](d *driver, name string, local, in, remote any, done func(R)) {
	d.calls++
	id := fmt.Sprintf("%s/%d", name, d.calls)
	f := workflow.ExecuteLocalActivity(workflow.WithLocalActivityOptions(d.ctx, localOptions()), local, in)
	workflow.Go(d.ctx, func(ctx workflow.Context) {
		var out R
		err := f.Get(ctx, &out)
		if err != nil && !isFinal(err) {
			options := workflow.WithActivityOptions(d.ctx, remoteOptions(d.ctx, name, id))
			err = workflow.ExecuteActivity(options, name, remote).Get(ctx, &out)
		}
		if err != nil {
			d.fail(err)
			return
		}
		done(out)
	})
}

// isFinal reports whether the error of a log activity must not be retried.
func isFinal(err error) bool {
	var app *temporal.ApplicationError
	return errors.As(err, &app) && app.NonRetryable()
}

// fail ends the workflow with an error. Appends and reads are retried without limit, so only a run that is not in the
// store, or a refusal of the Journal, leads here.
func (d *driver) fail(err error) { d.done, d.lost = true, err }

// readSkeleton reads the skeleton. The first execution of a run appends RunStarted in the same call, because that event
// is the same for every plan.
func (d *driver) readSkeleton() (sk engine.Skeleton, err error) {
	answered := false
	if d.in.Continued != nil {
		call(d, activitySkeleton, d.log.skeleton, d.in.Identity.RunID, d.in.Identity.RunID,
			func(out engine.Skeleton) { sk, answered = out, true })
	} else {
		in := startInput{Identity: d.in.Identity, At: d.began}
		call(d, activityStart, d.log.start, in, in, func(out startResult) {
			sk, d.early, answered = out.Skeleton, &out.Append, true
		})
	}
	if err := workflow.Await(d.ctx, func() bool { return answered || d.done }); err != nil {
		return sk, err
	}
	return sk, d.lost
}

// firstAppend returns the first Append of a run. It is the same for every plan.
func firstAppend(id run.Identity, at time.Time) interp.Append {
	for _, e := range interp.New(plan.Skeleton{}, interp.Config{Identity: id, PauseAhead: true}).Step(
		interp.Init{At: at}) {
		if a, ok := e.(interp.Append); ok {
			a.RunID = id.RunID
			return a
		}
	}
	panic("unreachable: the interpreter's first effect is an Append")
}

// append writes a batch of the machine, unless the call that read the skeleton has already written it.
func (d *driver) append(e interp.Append) {
	if d.early != nil && len(e.Events) == 1 && e.Events[0].Type == run.RunStarted {
		d.takeAppended(e.Batch, *d.early)
		return
	}
	a := e.Append
	a.RunID, a.MinHead = d.in.Identity.RunID, d.head
	in := appendInput{Batch: e.Batch, Append: a, UnlessPaused: e.UnlessPaused, Epoch: d.epoch}
	call(d, activityAppend, d.log.append, in, d.seal(in), func(out appendResult) { d.takeAppended(e.Batch, out) })
}

// seal seals the input of an activity on the log queue, because anybody with access to Temporal can schedule activities
// there.
func (d *driver) seal(in appendInput) sealedAppend {
	body, err := json.Marshal(in)
	if err != nil {
		panic(err) // unreachable: the machine created the payloads as JSON
	}
	return sealedAppend{Body: body, Seal: d.keys.Seal(sealAppend, string(body))}
}

// takeAppended queues the result of an Append for the machine.
func (d *driver) takeAppended(batch int, out appendResult) {
	if out.Batch != batch {
		panic(fmt.Sprintf("the answer to append %d is for append %d", batch, out.Batch))
	}
	d.early = nil
	d.head = max(d.head, out.Recorded.Head)
	r := out.Recorded
	r.At, r.Batch = workflow.Now(d.ctx), batch
	d.recorded = append(d.recorded, r)
}

// readLog reads the log after the position that the machine has seen, and checks the claims of the dispatches that
// returned.
func (d *driver) readLog() {
	returns := d.returns
	d.reading, d.unread, d.returns = true, false, nil
	in := tailInput{RunID: d.in.Identity.RunID, After: d.machine.ObservedSeq(), Epoch: d.epoch}
	for _, r := range returns {
		if r.claimed && d.machine.InFlight(r.Return, r.hook) {
			in.Claims = append(in.Claims, claim{StepID: r.StepID, LogicalAttempt: r.LogicalAttempt, Hook: r.hook})
		}
	}
	call(d, activityTail, d.log.tail, in, in, func(out engine.Tail) {
		d.reading = false
		if out.Epoch == d.epoch {
			d.head = max(d.head, out.Head.LastSeq)
		}
		d.read = &observation{tail: out, returns: returns}
	})
}

// fetchSignals reads the accepted signals with a number above after.
func (d *driver) fetchSignals(after int64) {
	in := signalsInput{RunID: d.in.Identity.RunID, After: after, Hint: d.hint, Epoch: d.epoch}
	d.hint = 0
	call(d, activitySignals, d.log.signals, in, in, func(out signalsResult) {
		if out.After != after {
			panic(fmt.Sprintf("the answer to signals after %d is for those after %d", after, out.After))
		}
		d.signals, d.fetched = append(d.signals, out.Signals...), true
	})
}
