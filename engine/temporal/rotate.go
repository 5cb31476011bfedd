package temporal

import (
	"encoding/json"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/dvt-engine/dvt/engine/interp"
	"github.com/dvt-engine/dvt/run"
)

// Continued is the state that one execution of a run passes to the next one (contract T195).
type Continued struct {
	Head    run.Seq             `json:"head"`            // of the log, by the last answer; it reveals a restored store
	Epoch   string              `json:"epoch,omitempty"` // of the store, by the last read
	Carried interp.CarriedState `json:"carried"`
}

// text returns the text under the seal of a Continued.
func (c Continued) text(id run.Identity) string {
	b, err := json.Marshal(struct {
		Run run.Identity
		Continued
	}{id, c})
	if err != nil {
		return "" // a time that JSON cannot encode, so that the Continued cannot be stored either
	}
	return string(b)
}

// Thresholds of a history (contract R381, T195). They are far below the limits at which Temporal warns.
const (
	historyBytes = 1_000_000 // bytes after the skeleton at which the run rotates when it can
	hardBytes    = 8_000_000 // bytes at which the run starts no more steps before it has rotated
	hardEvents   = 8_000     // the same in events
)

// history is the state of this execution's history.
type history struct {
	skeleton int      // bytes after the skeleton was loaded
	pressure pressure // the last one that the machine knows
}

// pressure is the urgency of a rotation.
type pressure int

const (
	none pressure = iota
	soft
	hard
)

// reportPressure tells the machine when the history has grown past a threshold. The SDK returns the size at the
// beginning of the workflow task, which is the same in a replay.
func (d *driver) reportPressure() {
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

// observe gives the meter a reading of this execution. No decision depends on it.
func (d *driver) observe() {
	if workflow.IsReplaying(d.ctx) {
		return
	}
	info := workflow.GetInfo(d.ctx)
	d.meter.observe(info.WorkflowExecution.RunID, reading{
		at: workflow.Now(d.ctx), size: info.GetCurrentHistorySize(), steps: d.steps,
	})
}

// continueAsNew ends this execution and starts the next one. It drops the unread signals of Temporal without loss,
// because the next execution reads the accepted signals from the log (contract T106, T196). If a signal arrives after
// that, Temporal repeats the workflow task.
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
	next.Version = startVersion
	next.Continued = &Continued{Head: d.head, Epoch: d.epoch, Carried: carried}
	next.Seal = d.keys.Seal(sealContinued, next.Continued.text(d.in.Identity))
	return workflow.NewContinueAsNewError(d.ctx, workflowName, next)
}
