package temporal

import (
	"time"

	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/workflow"

	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/engine/ticket"
)

// WorkflowOn is what workers run, on a journal.
func WorkflowOn(j engine.Journal, keys ticket.Keys) func(workflow.Context, Input) error {
	return (&workflows{meter: newMeter(time.Now), log: &logActivities{journal: j, keys: keys}, keys: keys}).run
}

// SealInput makes an Input one that a server with the keys wrote for the workflow on the queue.
func SealInput(in Input, keys ticket.Keys, workflowID, queue string) Input {
	return in.sealed(keys, workflowID, queue)
}

// RunWorkflow is what workers run, for tests that replay it changed.
var RunWorkflow = (&workflows{meter: newMeter(time.Now), log: &logActivities{}, replays: true}).run

const WorkflowName = workflowName

// Most is what a meter offers of readings {unix seconds, bytes, steps}.
func Most(now func() time.Time, readings map[string][3]int64) (size, steps int) {
	m := newMeter(now)
	for id, r := range readings {
		m.observe(id, reading{at: time.Unix(r[0], 0), size: int(r[1]), steps: int(r[2])})
	}
	return m.most()
}

// ConverterOf is what clients and workers convert by.
func ConverterOf(p *Payloads) converter.DataConverter { return p.converter() }

// FailuresOf is what clients and workers convert failures by.
func FailuresOf(p *Payloads) converter.FailureConverter { return p.failures() }
