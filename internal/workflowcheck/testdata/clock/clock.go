// Package clock has a workflow that reads the clock of its worker, which a replay must not do.
package clock

import (
	"time"

	"go.temporal.io/sdk/workflow"
)

// Run is the workflow.
func Run(ctx workflow.Context) error { return workflow.Sleep(ctx, wait()) }

func wait() time.Duration { return time.Until(time.Unix(0, 0)) + time.Now().Sub(time.Unix(0, 0)) }
