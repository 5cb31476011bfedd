package temporal

import (
	"time"

	"go.temporal.io/sdk/workflow"
)

// RunWorkflow is what workers run, for tests that replay it changed.
func RunWorkflow(ctx workflow.Context, in Input) error {
	return (&workflows{meter: newMeter(time.Now)}).run(ctx, in)
}

const WorkflowName = workflowName
