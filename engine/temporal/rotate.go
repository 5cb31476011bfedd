package temporal

import (
	"encoding/json"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/dvt-engine/dvt/engine/interp"
	"github.com/dvt-engine/dvt/run"
)

// Continued is what one execution of a run hands to the next one (T105, T109,
// T195).
type Continued struct {
	Head    run.Seq        `json:"head"`            // of the log, as the last answer said (T194)
	Epoch   string         `json:"epoch,omitempty"` // of the store, as the last read said
	Carried interp.Carried `json:"carried"`
}

// text is what the seal of a Continued covers.
func (c Continued) text(id run.Identity) string {
	b, err := json.Marshal(struct {
		Run run.Identity
		Continued
	}{id, c})
	if err != nil {
		return "" // times that JSON cannot write
	}
	return string(b)
}

// Thresholds of a history (contract R381, T114, T195), far below what Temporal warns of.
const (
	historyBytes = 1_000_000 // after the skeleton, for the run to rotate
	hardBytes    = 8_000_000 // of all, for it to stop until it has
	hardEvents   = 8_000
)

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
	if d.over() {
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

// continueAsNew ends this execution in favour of the next one. Signals that nobody took are not lost: the next
// execution reads what was accepted (contract T106, T196). One that comes after this makes Temporal repeat the
// workflow task.
func (d *driver) continueAsNew() error {
	ch := workflow.GetSignalChannel(d.ctx, signalChannel)
	for ch.ReceiveAsync(nil) {
	}
	carried := d.machine.Carry()
	if err := carried.Fits(); err != nil {
		return temporal.NewNonRetryableApplicationError("the run's state does not fit into the next execution", "CARRIED",
			err)
	}
	next := d.in
	next.Continued = &Continued{Head: d.head, Epoch: d.epoch, Carried: carried}
	next.Seal = d.keys.Seal(sealContinued, next.Continued.text(d.in.Identity))
	return workflow.NewContinueAsNewError(d.ctx, workflowName, next)
}
