package temporal

import (
	"time"

	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/workflow"

	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/engine/ticket"
)

// WorkflowOn returns the workflow of workers with this journal.
func WorkflowOn(j engine.Journal, keys ticket.Keys) func(workflow.Context, Input) error {
	return (&workflows{meter: newMeter("", time.Now), log: &logActivities{journal: j, keys: keys}, keys: keys}).run
}

// SealInput seals an Input like a server with the keys, for a workflow on a queue.
func SealInput(in Input, keys ticket.Keys, workflowID, queue string) Input {
	return in.withSeal(keys, workflowID, queue)
}

// RunWorkflow is the workflow of replays, which need no keys.
var RunWorkflow = (&workflows{meter: newMeter("", time.Now), log: &logActivities{}, replays: true}).run

const WorkflowName = workflowName

// KnownVersion is the newest version of the workflow that this program understands.
const KnownVersion = knownVersion

// Most returns the maxima of a meter with the readings {unix seconds, bytes, steps}.
func Most(now func() time.Time, readings map[string][3]int64) (size, steps int) {
	m := newMeter("dvt", now)
	for id, r := range readings {
		m.observe(id, reading{at: time.Unix(r[0], 0), size: int(r[1]), steps: int(r[2])})
	}
	return m.most()
}

// ConverterOf returns the data converter of clients and workers.
func ConverterOf(p *Payloads) converter.DataConverter { return p.converter() }

// FailuresOf returns the failure converter of clients and workers.
func FailuresOf(p *Payloads) converter.FailureConverter { return p.failures() }
