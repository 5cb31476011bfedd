package executor

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/dvt-engine/dvt/plan"
)

// sleepExecutor waits for the time that the plan names.
type sleepExecutor struct{}

func (sleepExecutor) Execute(ctx context.Context, t Task, _ Host) (Result, error) {
	in, err := plan.DecodeSleep(t.Step.Inputs)
	if err != nil {
		return Result{}, invalidInputs(err)
	}
	timer := time.NewTimer(time.Duration(in.MS) * time.Millisecond)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return Result{}, context.Cause(ctx)
	case <-timer.C:
		return Result{Value: json.RawMessage(fmt.Sprintf(`{"sleptMs":%d}`, in.MS))}, nil
	}
}
