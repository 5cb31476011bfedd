package executor

import (
	"context"
	"encoding/json"
)

// noopExecutor does nothing and succeeds. Plans use NOOP steps to join branches.
type noopExecutor struct{}

func (noopExecutor) Execute(ctx context.Context, _ Task, _ Host) (Result, error) {
	return Result{Value: json.RawMessage(`{}`)}, context.Cause(ctx)
}
