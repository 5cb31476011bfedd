package temporal

import (
	"fmt"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/engine/interp"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
)

// Names on the wire between servers, workers and Temporal. They are part of
// recorded histories and never change meaning.
const (
	workflowName       = "dvt.run"
	signalChannel      = "dvt.signal"
	activityAppend     = "dvt.append"
	activitySignals    = "dvt.signals"
	activitySkeleton   = "dvt.skeleton"
	activityStart      = "dvt.start"
	activityExecute    = "dvt.execute"
	activityCompensate = "dvt.compensate"
)

// Input starts the workflow of one run, or the next execution of its chain.
type Input struct {
	Identity run.Identity `json:"identity"`
	// HeartbeatTimeoutMS is how long an execution may be silent before it counts as lost.
	HeartbeatTimeoutMS int64 `json:"heartbeatTimeoutMs"`
	// RotateAfter is how many steps one execution of the chain schedules (T105).
	RotateAfter int `json:"rotateAfter,omitempty"`
	// Continued is nil for the first execution of the chain.
	Continued *Continued `json:"continued,omitempty"`
}

// workflows runs workflows on one worker.
type workflows struct{ meter *meter }

func (w *workflows) register(r worker.WorkflowRegistry) {
	r.RegisterWorkflowWithOptions(w.run, workflow.RegisterOptions{Name: workflowName})
}

// run drives the interpreter with what happens in Temporal: one machine for each
// execution, one place that decides. It is deterministic because everything that it
// reads is in the history and the inbox is taken in a fixed order.
func (w *workflows) run(ctx workflow.Context, in Input) error {
	defer w.meter.forget(workflow.GetInfo(ctx).WorkflowExecution.RunID)
	// Work and appends must outlive a cancellation from outside: the log decides
	// when a run ends, not the engine (T200). The context is never released: what
	// is open when the run ends ends with the workflow.
	ctx, _ = workflow.NewDisconnectedContext(ctx)
	d := &driver{
		ctx: ctx, in: in, version: versionOf(ctx), meter: w.meter, began: workflow.Now(ctx),
		cancels: map[string]workflow.CancelFunc{}, timers: map[interp.Timer]workflow.CancelFunc{},
	}
	failure, err := d.load()
	if err != nil {
		return err
	}
	if failure != nil {
		return d.failAtOnce(*failure)
	}
	d.receiveSignals()
	if !d.opens() {
		d.began = workflow.Now(ctx)
	}
	d.step(interp.Begin{At: d.began})
	for !d.over() {
		if err := workflow.Await(ctx, d.hasInput); err != nil {
			return err
		}
		d.takeInbox()
		d.press()
		d.observe()
	}
	if d.rotating {
		return d.continueAsNew()
	}
	return d.lost
}

// driver carries effects out and turns what comes back into inputs. Each
// pending thing has a coroutine that puts its result into the inbox.
type driver struct {
	ctx      workflow.Context
	in       Input
	version  workflow.Version
	meter    *meter
	skeleton plan.Skeleton
	machine  *interp.Machine
	began    time.Time
	early    *appendResult // what became of the first Append, which went with the question for the skeleton
	head     run.Seq
	fetches  int
	steps    int // scheduled by this execution
	history  history
	rotating bool // for the next execution to go on
	done     bool
	lost     error // why the log cannot be reached ever again

	recorded []interp.Recorded
	signals  []engine.Signal
	fetched  bool // an answer came, which may be empty
	ends     []engine.StepEnd
	hooks    []interp.CompensationEnd
	fired    []interp.Timer

	cancels map[string]workflow.CancelFunc // by activity id; looked up, never ranged over
	timers  map[interp.Timer]workflow.CancelFunc
	running []execution // in order of dispatch
}

type execution struct {
	ord run.Ord
	id  string
}

// over reports whether this execution takes no further input.
func (d *driver) over() bool { return d.done || d.rotating }

func (d *driver) hasInput() bool {
	return d.done || d.fetched || len(d.recorded)+len(d.signals)+len(d.ends)+len(d.hooks)+len(d.fired) > 0
}

// takeInbox feeds the machine in the fixed order: what was recorded, signals,
// results of steps and of hooks, timers.
func (d *driver) takeInbox() {
	recorded, signals, fetched, ends, hooks, fired := d.recorded, d.signals, d.fetched, d.ends, d.hooks, d.fired
	d.recorded, d.signals, d.fetched, d.ends, d.hooks, d.fired = nil, nil, false, nil, nil, nil
	for _, r := range recorded {
		d.step(r)
	}
	switch {
	case d.over():
		d.signals = signals // for the next execution
	case fetched || len(signals) > 0:
		d.step(interp.Signalled{At: workflow.Now(d.ctx), Signals: signals})
	}
	for _, e := range ends {
		d.step(interp.StepEnded{At: workflow.Now(d.ctx), End: e})
	}
	for _, h := range hooks {
		d.step(interp.Compensated{At: workflow.Now(d.ctx), End: h})
	}
	for _, t := range fired {
		d.step(interp.Fired{At: workflow.Now(d.ctx), Timer: t})
	}
}

func (d *driver) step(in interp.Input) {
	if !d.over() {
		d.apply(d.machine.Step(in))
	}
}

func (d *driver) apply(effects []interp.Effect) {
	for _, e := range effects {
		switch e := e.(type) {
		case interp.Append:
			d.append(e)
		case interp.Execute:
			d.execute(e)
		case interp.CancelSteps:
			d.cancelSteps(e.Ords)
		case interp.SetTimer:
			d.setTimer(e)
		case interp.FetchSignals:
			d.fetchSignals(e.After)
		case interp.Compensate:
			d.compensate(e)
		case interp.Rotate:
			d.rotating = true
		case interp.Finish:
			d.done = true
		}
	}
}

// load reads the skeleton and makes the machine, or returns why the plan can
// never be had.
func (d *driver) load() (*run.FailurePayload, error) {
	sk, err := d.readSkeleton()
	if err != nil {
		return nil, err
	}
	if sk.Identity.RunID != d.in.Identity.RunID {
		panic(fmt.Sprintf("skeleton of run %s answered for run %s", sk.Identity.RunID, d.in.Identity.RunID))
	}
	if sk.Failure != nil {
		return sk.Failure, nil
	}
	if err := d.skeleton.UnmarshalBinary(sk.Binary); err != nil {
		return nil, temporal.NewNonRetryableApplicationError("skeleton unreadable", "SKELETON", err)
	}
	d.history.skeleton = workflow.GetInfo(d.ctx).GetCurrentHistorySize()
	who := interp.Config{Identity: d.in.Identity, Policy: sk.Policy, Reused: sk.Reused, PauseAhead: d.version >= versionPause}
	if d.version >= versionRotation {
		who.RotateAfter = d.in.RotateAfter
	}
	c := d.in.Continued
	if c == nil {
		d.machine = interp.New(d.skeleton, who)
		return nil, nil
	}
	d.head, d.signals = c.Head, c.Signals
	m, err := interp.Resume(d.skeleton, who, c.Carried)
	if err != nil {
		return nil, temporal.NewNonRetryableApplicationError("the state of the execution before is unreadable", "CARRIED", err)
	}
	d.machine = m
	return nil, nil
}

// opens reports whether this execution begins the run and has RunStarted appended
// by the activity that reads the skeleton.
func (d *driver) opens() bool { return d.version >= versionRotation && d.in.Continued == nil }

// readSkeleton asks for the skeleton. RunStarted goes with the question where this
// execution begins the run: a machine says it of every plan alike.
func (d *driver) readSkeleton() (sk engine.Skeleton, err error) {
	if !d.opens() {
		ctx := workflow.WithActivityOptions(d.ctx, controlOptions(d.ctx, "skeleton"))
		err = workflow.ExecuteActivity(ctx, activitySkeleton, d.in.Identity.RunID).Get(ctx, &sk)
		return sk, err
	}
	first := appendInput{}
	for _, e := range interp.New(plan.Skeleton{}, interp.Config{Identity: d.in.Identity, PauseAhead: d.version >= versionPause}).Step(interp.Begin{At: d.began}) {
		if a, ok := e.(interp.Append); ok {
			first = appendInput{Batch: a.Batch, Append: a.Append, Bounded: a.Bounded}
		}
	}
	first.Append.RunID = d.in.Identity.RunID
	var out startResult
	ctx := workflow.WithActivityOptions(d.ctx, controlOptions(d.ctx, "start"))
	if err = workflow.ExecuteActivity(ctx, activityStart, first).Get(ctx, &out); err != nil {
		return sk, err
	}
	d.early = &out.Append
	return out.Skeleton, nil
}

// failAtOnce ends a run whose plan cannot be had: it starts without steps and
// fails (T144).
func (d *driver) failAtOnce(f run.FailurePayload) error {
	at := d.began
	if !d.opens() {
		at = workflow.Now(d.ctx)
	}
	all, err := interp.FailAtOnce(at, f)
	if err != nil {
		return err
	}
	d.append(all)
	if err := workflow.Await(d.ctx, d.hasInput); err != nil {
		return err
	}
	return d.lost
}

func (d *driver) receiveSignals() {
	workflow.Go(d.ctx, func(ctx workflow.Context) {
		ch := workflow.GetSignalChannel(ctx, signalChannel)
		for {
			var s engine.Signal
			if !ch.Receive(ctx, &s) {
				return
			}
			d.signals = append(d.signals, s)
		}
	})
}

func (d *driver) append(e interp.Append) {
	if d.early != nil && len(e.Events) == 1 && e.Events[0].Type == run.RunStarted {
		d.appended(e.Batch, *d.early)
		return
	}
	a := e.Append
	a.RunID, a.MinHead = d.in.Identity.RunID, d.head
	ctx := workflow.WithActivityOptions(d.ctx, controlOptions(d.ctx, fmt.Sprintf("append/%d", e.Batch)))
	f := workflow.ExecuteActivity(ctx, activityAppend, appendInput{Batch: e.Batch, Append: a, Bounded: e.Bounded, UnlessPaused: e.UnlessPaused})
	workflow.Go(d.ctx, func(ctx workflow.Context) {
		var out appendResult
		if err := f.Get(ctx, &out); err != nil {
			d.lose(err)
			return
		}
		d.appended(e.Batch, out)
	})
}

// appended takes the answer to an Append.
func (d *driver) appended(batch int, out appendResult) {
	if out.Batch != batch {
		panic(fmt.Sprintf("append %d answered for %d", batch, out.Batch))
	}
	d.early = nil
	d.head = max(d.head, out.Recorded.Head)
	r := out.Recorded
	r.At, r.Batch = workflow.Now(d.ctx), batch
	d.recorded = append(d.recorded, r)
}

// lose ends the workflow: appends and reads are retried without end, so that
// only a run that left the store comes here.
func (d *driver) lose(err error) { d.done, d.lost = true, err }

func (d *driver) execute(e interp.Execute) {
	s := d.skeleton.Steps[e.Ord]
	d.steps++
	id := fmt.Sprintf("%s/%d.%d", s.StepID, e.LA, e.N)
	ctx, cancel := workflow.WithCancel(d.ctx)
	d.cancels[id] = cancel
	d.running = append(d.running, execution{ord: e.Ord, id: id})
	ctx = workflow.WithActivityOptions(ctx, executeOptions(id, s, time.Duration(d.in.HeartbeatTimeoutMS)*time.Millisecond))
	f := workflow.ExecuteActivity(ctx, activityExecute, executeInput{
		RunID: d.in.Identity.RunID, StepID: s.StepID, LA: e.LA, N: e.N,
		PassFailing: e.PassFailing, SignalID: e.SignalID, Throttles: d.version >= versionQuota,
	})
	workflow.Go(d.ctx, func(ctx workflow.Context) {
		var end engine.StepEnd
		if err := f.Get(ctx, &end); err != nil {
			end = endOfError(err, s, e)
		}
		if end.StepID != s.StepID || end.LogicalAttempt != e.LA || end.N != e.N {
			panic(fmt.Sprintf("activity %s answered for %s/%d.%d", id, end.StepID, end.LogicalAttempt, end.N))
		}
		delete(d.cancels, id)
		d.forget(id)
		d.ends = append(d.ends, end)
	})
}

func (d *driver) forget(id string) {
	for i, x := range d.running {
		if x.id == id {
			d.running = append(d.running[:i], d.running[i+1:]...)
			return
		}
	}
}

func (d *driver) cancelSteps(ords []run.Ord) {
	for _, ord := range ords {
		for _, x := range d.running {
			if x.ord == ord {
				d.cancels[x.id]()
			}
		}
	}
}

func (d *driver) setTimer(e interp.SetTimer) {
	if cancel, ok := d.timers[e.Timer]; ok {
		cancel()
		delete(d.timers, e.Timer)
	}
	if e.At.IsZero() {
		return
	}
	ctx, cancel := workflow.WithCancel(d.ctx)
	d.timers[e.Timer] = cancel
	f := workflow.NewTimer(ctx, max(0, e.At.Sub(workflow.Now(ctx))))
	workflow.Go(d.ctx, func(ctx workflow.Context) {
		if f.Get(ctx, nil) == nil {
			d.fired = append(d.fired, e.Timer)
		}
	})
}

func (d *driver) fetchSignals(after int64) {
	d.fetches++
	ctx := workflow.WithActivityOptions(d.ctx, controlOptions(d.ctx, fmt.Sprintf("signals/%d-%d", after, d.fetches)))
	f := workflow.ExecuteActivity(ctx, activitySignals, signalsInput{RunID: d.in.Identity.RunID, After: after})
	workflow.Go(d.ctx, func(ctx workflow.Context) {
		var out signalsResult
		if err := f.Get(ctx, &out); err != nil {
			d.lose(err)
			return
		}
		if out.After != after {
			panic(fmt.Sprintf("signals after %d answered for %d", after, out.After))
		}
		d.signals, d.fetched = append(d.signals, out.Signals...), true
	})
}
