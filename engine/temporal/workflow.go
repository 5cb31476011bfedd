package temporal

import (
	"fmt"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/engine/interp"
	"github.com/dvt-engine/dvt/engine/ticket"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
)

// Names on the wire between servers, workers and Temporal. They are part of recorded histories, so their meaning must
// never change.
const (
	workflowName       = "dvt.run"
	signalChannel      = "dvt.signal"
	queryWaits         = "dvt.waits"
	activityExecute    = "dvt.execute"
	activityCompensate = "dvt.compensate"
)

// Input starts the workflow of one run, or the next execution of its chain.
type Input struct {
	Identity run.Identity `json:"identity"`
	// HeartbeatTimeoutMS is the time in milliseconds without a heartbeat after which an execution counts as lost.
	HeartbeatTimeoutMS int64 `json:"heartbeatTimeoutMs"`
	// RotateAfter is the number of steps that one execution of the chain schedules (contract T105).
	RotateAfter int `json:"rotateAfter,omitempty"`
	// OpaqueIDs keeps the names of steps out of the ids of activities, which Temporal stores in clear. It is part of the
	// input, because a replay must produce the same ids.
	OpaqueIDs bool `json:"opaqueIds,omitempty"`
	// Version says by which version of the workflow this execution decides, from its start to its end. The process that
	// starts an execution, or a rotation, writes startVersion.
	Version int `json:"version,omitempty"`
	// Continued is nil for the first execution of the chain.
	Continued *Continued `json:"continued,omitempty"`
	// Seal proves that a worker of this installation wrote Continued, because anybody with access to Temporal can
	// start workflows.
	Seal string `json:"seal,omitempty"`
	// StartSeal proves that a server of this installation chose the fields before Continued, for this run and this queue.
	StartSeal string `json:"startSeal,omitempty"`
}

// A change of what the workflow decides takes two releases, like a change of the schema. One release understands the
// new version and still starts executions of the old one. The next one starts executions of the new one. So a release
// and the one before continue the same runs beside each other, in an upgrade and back, and a run comes to the new
// version at its next rotation. A new field of Input or Continued is a new version too, because seals are over all
// fields. See decision 121.
const (
	knownVersion = 0 // the newest version that this program understands
	startVersion = 0 // the version of executions that this program starts
)

// workflows runs workflows on one worker.
type workflows struct {
	meter *meter
	log   *logActivities
	keys  ticket.Keys
	// replays means that the workflow only replays a history without the keys. It accepts all proofs of the history.
	replays bool
}

func (w *workflows) register(r worker.WorkflowRegistry) {
	r.RegisterWorkflowWithOptions(w.run, workflow.RegisterOptions{Name: workflowName})
}

// run is the workflow of a run. It feeds the events of Temporal to one interpreter, which makes all decisions. It is
// deterministic, because all its inputs are in the history and it takes the inbox in a fixed order.
//
// An event of Temporal only means that something may have happened, because anybody with access to Temporal can forge
// it. The workflow reads the facts from the log.
func (w *workflows) run(ctx workflow.Context, in Input) error {
	defer w.meter.forget(workflow.GetInfo(ctx).WorkflowExecution.RunID)
	id, queue := workflow.GetInfo(ctx).WorkflowExecution.ID, workflow.GetInfo(ctx).TaskQueueName
	if id != WorkflowID(in.Identity) && !w.replays {
		return temporal.NewNonRetryableApplicationError("the workflow "+id+" is not that of its run", "FORGED", nil)
	}
	if in.Version > knownVersion {
		// A panic fails the workflow task, and Temporal tries it again until a newer worker has it. An error would end the
		// run. This comes before the seals, because those of a newer version can be over fields that this program lacks.
		panic(fmt.Sprintf("a newer dvt started this execution, by version %d of the workflow, and this worker knows %d: "+
			"upgrade all control workers", in.Version, knownVersion))
	}
	if !w.replays && !w.keys.VerifySeal(in.StartSeal, sealInput, in.text(id, queue)) {
		w.panicOnForeignKey(in.StartSeal)
		why := "no server of this installation started this execution"
		return temporal.NewNonRetryableApplicationError(why, "FORGED", nil)
	}
	// Work and appends must survive a cancellation from outside, because the log decides when a run ends (contract T200).
	// The context is never cancelled: the end of the workflow ends all open work.
	ctx, _ = workflow.NewDisconnectedContext(ctx)
	d := &driver{
		ctx: ctx, in: in, meter: w.meter, log: w.log, keys: w.keys, replays: w.replays, began: workflow.Now(ctx),
		cancels: map[string]workflow.CancelFunc{}, timers: map[interp.Timer]workflow.CancelFunc{},
		held: map[string]engine.StepWait{},
	}
	if c := in.Continued; c != nil && !w.replays && !w.keys.VerifySeal(in.Seal, sealContinued, c.text(in.Identity)) {
		w.panicOnForeignKey(in.Seal)
		return temporal.NewNonRetryableApplicationError(
			"no worker of this installation wrote the state from which this execution continues", "FORGED", nil)
	}
	if err := workflow.SetQueryHandler(ctx, queryWaits, d.stepWaits); err != nil {
		return err
	}
	failure, err := d.load()
	if err != nil {
		return err
	}
	if failure != nil {
		return d.failAtOnce(*failure)
	}
	d.receiveSignals()
	d.step(interp.Init{At: d.began})
	for !d.over() {
		if err := workflow.Await(ctx, d.hasInput); err != nil {
			return err
		}
		d.takeInbox()
		d.reportPressure()
		d.observe()
	}
	if d.rotating {
		return d.continueAsNew()
	}
	return d.lost
}

// panicOnForeignKey fails the workflow task by a panic if a key that this worker lacks may have made a seal. Temporal
// retries the task until a worker has the key. An error instead would end the execution, so that a worker with wrong
// ticket-keys would end runs.
func (w *workflows) panicOnForeignKey(seal string) {
	if w.keys.LooksSealed(seal) {
		panic(lacksKey(seal))
	}
}

// lacksKey returns a message about a seal whose key this worker lacks, and the remedy.
func lacksKey(seal string) string {
	return fmt.Sprintf(
		"ticket-keys of this worker do not contain the key %.40q that made a seal: give every server and every control "+
			"worker the same ticket-keys", ticket.KeyOf(seal))
}

// sealError returns the error of an activity whose seal does not verify. Temporal retries the activity if a worker with
// other keys may verify the seal. Otherwise the error is final and why is its message.
func sealError(keys ticket.Keys, seal, why string) error {
	if keys.LooksSealed(seal) {
		return temporal.NewApplicationError(lacksKey(seal), "KEY_MISSING")
	}
	return temporal.NewNonRetryableApplicationError(why, "FORGED", nil)
}

// driver executes the effects of the machine and converts their results to inputs. Each pending effect has a coroutine
// that puts its result into the inbox.
type driver struct {
	ctx      workflow.Context
	in       Input
	meter    *meter
	log      *logActivities
	keys     ticket.Keys
	replays  bool // see workflows
	skeleton plan.Skeleton
	machine  *interp.Machine
	began    time.Time
	early    *appendResult // the answer to the first Append, which readSkeleton made; nil after its use
	head     run.Seq       // the highest head in an answer; it reveals a restored store (contract T194)
	epoch    string        // of the store, by the last read
	calls    int           // number of log activities, for their ids
	steps    int           // number of steps that this execution has scheduled
	history  history
	rotating bool // whether the next execution continues the run
	done     bool
	lost     error // the final error of a log activity, or nil

	// The inbox.
	recorded []interp.Recorded
	read     *observation
	signals  []engine.Signal
	fetched  bool // whether signals is an answer, which may be empty
	woken    bool
	hint     int64 // the highest signal number that Temporal delivered
	ended    []interp.Ended
	returns  []returnedDispatch
	fired    []interp.Timer

	reading bool // whether a read of the log is in progress
	unread  bool // whether the machine needs another read

	cancels map[string]workflow.CancelFunc // by activity id; never iterated, because the order is not deterministic
	timers  map[interp.Timer]workflow.CancelFunc
	running []execution // in order of dispatch

	held map[string]engine.StepWait // why the last dispatch of a step did not start, for people; never iterated
}

// execution is a dispatch in progress.
type execution struct {
	ord run.Ord
	id  string
}

// returnedDispatch is a dispatch that Temporal no longer executes.
type returnedDispatch struct {
	engine.Return
	hook    bool
	claimed bool // see isClaim
}

// observation is the result of a read of the log, with the dispatches that returned before the read.
type observation struct {
	tail    engine.Tail
	returns []returnedDispatch
}

// over reports whether this execution takes no further input.
func (d *driver) over() bool { return d.done || d.rotating }

func (d *driver) hasInput() bool {
	return d.done || d.fetched || d.woken || d.read != nil || len(d.recorded)+len(d.ended)+len(d.fired) > 0 ||
		!d.reading && (d.unread || len(d.returns) > 0)
}

// takeInbox feeds the machine in a fixed order: answers to appends, the read of the log, receipts, signals, dispatches
// that returned without a receipt, timers. The machine gets such a dispatch only after a read of the log that began
// after its return.
func (d *driver) takeInbox() {
	recorded, read, ended, signals, fetched, woken, fired := d.recorded, d.read, d.ended, d.signals, d.fetched, d.woken,
		d.fired
	d.recorded, d.read, d.ended, d.signals, d.fetched, d.woken, d.fired = nil, nil, nil, nil, false, false, nil
	for _, r := range recorded {
		d.step(r)
	}
	switch {
	case read == nil:
	case read.tail.Epoch != d.epoch: // the store was restored, so the positions are those of another history
		d.epoch, d.head = read.tail.Epoch, read.tail.Head.LastSeq
		d.returns, read = append(read.returns, d.returns...), nil
		d.step(interp.Renumbered{At: workflow.Now(d.ctx)})
	default:
		d.step(interp.Observed{At: workflow.Now(d.ctx), Tail: read.tail})
	}
	for _, e := range ended {
		e.At = workflow.Now(d.ctx)
		d.step(e)
	}
	if fetched {
		d.step(interp.Signalled{At: workflow.Now(d.ctx), Signals: signals})
	}
	if woken {
		d.step(interp.Woken{At: workflow.Now(d.ctx)})
	}
	switch {
	case read == nil:
	case read.tail.Seq < read.tail.Head.LastSeq: // the rest of the log may have the ends of these dispatches
		d.returns = append(read.returns, d.returns...)
	default:
		for _, r := range read.returns {
			if r.hook {
				d.step(interp.HookReturned{At: workflow.Now(d.ctx), Return: r.Return})
			} else {
				d.step(interp.Returned{At: workflow.Now(d.ctx), Return: r.Return})
			}
		}
	}
	for _, t := range fired {
		d.step(interp.Fired{At: workflow.Now(d.ctx), Timer: t})
	}
	if !d.over() && !d.reading && (d.unread || len(d.returns) > 0) {
		d.readLog()
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
		case interp.ReadLog:
			d.unread = true
		case interp.Compensate:
			d.compensate(e)
		case interp.Rotate:
			d.rotating = true
		case interp.Finish:
			d.done = true
		}
	}
}

// load reads the skeleton and makes the machine. A *run.FailurePayload means that the plan can never be loaded.
func (d *driver) load() (*run.FailurePayload, error) {
	sk, err := d.readSkeleton()
	if err != nil {
		return nil, err
	}
	if sk.Identity.RunID != d.in.Identity.RunID {
		panic(fmt.Sprintf("the answer for run %s has the skeleton of run %s", d.in.Identity.RunID, sk.Identity.RunID))
	}
	if sk.Failure != nil {
		return sk.Failure, nil
	}
	if err := d.skeleton.UnmarshalBinary(sk.Binary); err != nil {
		return nil, temporal.NewNonRetryableApplicationError("the skeleton of the plan is unreadable", "SKELETON", err)
	}
	d.history.skeleton = workflow.GetInfo(d.ctx).GetCurrentHistorySize()
	who := interp.Config{Identity: d.in.Identity, Policy: sk.Policy, Reused: sk.Reused, PauseAhead: true,
		RotateAfter: d.in.RotateAfter}
	d.epoch = sk.Epoch
	c := d.in.Continued
	if c == nil {
		d.machine = interp.New(d.skeleton, who)
		return nil, nil
	}
	d.began, d.head, d.epoch = workflow.Now(d.ctx), c.Head, c.Epoch
	m, err := interp.Resume(d.skeleton, who, c.Carried)
	if err != nil {
		return nil, temporal.NewNonRetryableApplicationError("the state of the previous execution is unreadable", "CARRIED",
			err)
	}
	d.machine = m
	return nil, nil
}

// failAtOnce ends a run whose plan cannot be loaded: the run starts without steps and fails (contract T144).
func (d *driver) failAtOnce(f run.FailurePayload) error {
	all, err := interp.FailAtOnce(d.began, f)
	if err != nil {
		return err
	}
	d.append(all)
	if err := workflow.Await(d.ctx, d.hasInput); err != nil {
		return err
	}
	return d.lost
}

// receiveSignals takes signals of Temporal. Anybody with access to Temporal can send one. It therefore only means that
// the log may hold a signal, and the machine reads the accepted ones (contract T196).
func (d *driver) receiveSignals() {
	workflow.Go(d.ctx, func(ctx workflow.Context) {
		ch := workflow.GetSignalChannel(ctx, signalChannel)
		for {
			var s wake
			if !ch.Receive(ctx, &s) {
				return
			}
			d.woken, d.hint = true, max(d.hint, s.No)
		}
	})
}

// wake is the content of a signal of Temporal: the number of the accepted signal.
type wake struct {
	No int64 `json:"no"`
}

// cancelSteps asks the running executions and hooks of steps to stop.
func (d *driver) cancelSteps(ords []run.Ord) {
	for _, ord := range ords {
		for _, x := range d.running {
			if x.ord == ord {
				d.cancels[x.id]()
			}
		}
	}
}

// setTimer replaces a timer; a zero time removes it.
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
