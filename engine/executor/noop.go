package executor

import (
	"context"
	"encoding/json"
)

// noopExecutor does nothing: a join, or a place holder.
type noopExecutor struct{}

func (noopExecutor) Execute(ctx context.Context, _ Task, _ Host) (Result, error) {
	return Result{Value: json.RawMessage(`{}`)}, context.Cause(ctx)
}
