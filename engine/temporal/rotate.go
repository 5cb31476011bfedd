package temporal

import (
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/engine/interp"
	"github.com/dvt-engine/dvt/run"
)

// Continued is what one execution of a run hands to the next one (T105, T109,
// T195).
type Continued struct {
	Head    run.Seq        `json:"head"` // of the log, as the last answer said (T194)
	Carried interp.Carried `json:"carried"`
	// Signals reached the execution before, which did not take them. The next one
	// reads from the log what is missing here (T196).
	Signals []engine.Signal `json:"signals,omitempty"`
}

// Thresholds of a history (R381, T114, T195), far below what Temporal warns of.
const (
	historyBytes = 1_000_000 // after the skeleton, for the run to rotate
	hardBytes    = 8_000_000 // of all, for it to stop until it has
	hardEvents   = 8_000
)

// maxHanded is how many signals are handed over.
const maxHanded = 32

// history is how far this execution's history has grown.
type history struct {
	skeleton int      // bytes once the skeleton was loaded
	pressure pressure // that the machine was told of
}

type pressure int

const (
	none pressure = iota
	soft
	hard
)

// press tells the machine when the history has grown past a threshold. What the
// SDK says of it is as of the workflow task, the same in a replay.
func (d *driver) press() {
	if d.version < versionRotation || d.over() {
		return
	}
	info := workflow.GetInfo(d.ctx)
	p := none
	switch size := info.GetCurrentHistorySize(); {
	case size >= hardBytes, info.GetCurrentHistoryLength() >= hardEvents:
		p = hard
	case size-d.history.skeleton >= historyBytes:
		p = soft
	}
	if p > d.history.pressure {
		d.history.pressure = p
		d.step(interp.Pressure{At: workflow.Now(d.ctx), Hard: p == hard})
	}
}

// observe says how far this execution has come. It decides nothing.
func (d *driver) observe() {
	if workflow.IsReplaying(d.ctx) {
		return
	}
	info := workflow.GetInfo(d.ctx)
	d.meter.observe(info.WorkflowExecution.RunID, reading{
		at: workflow.Now(d.ctx), size: info.GetCurrentHistorySize(), steps: d.steps,
	})
}

// continueAsNew ends this execution in favour of the next one. It hands over the
// signals that came too late for the machine: those in the inbox, after every
// coroutine had its turn, and those still in the channel (T106). A signal that
// comes after that makes Temporal repeat the workflow task.
func (d *driver) continueAsNew() error {
	turns := false
	workflow.Go(d.ctx, func(workflow.Context) { turns = true }) // the youngest, so the last one
	if err := workflow.Await(d.ctx, func() bool { return turns }); err != nil {
		return err
	}
	ch := workflow.GetSignalChannel(d.ctx, signalChannel)
	for {
		var s engine.Signal
		if !ch.ReceiveAsync(&s) {
			break
		}
		d.signals = append(d.signals, s)
	}
	carried := d.machine.Carry()
	if err := carried.Fits(); err != nil {
		return temporal.NewNonRetryableApplicationError("the run's state does not fit into the next execution", "CARRIED", err)
	}
	next := d.in
	next.Continued = &Continued{Head: d.head, Carried: carried, Signals: d.signals[:min(len(d.signals), maxHanded)]}
	return workflow.NewContinueAsNewError(d.ctx, workflowName, next)
}
