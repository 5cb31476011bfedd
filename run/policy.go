package run

import (
	"time"

	"github.com/dvt-engine/dvt/plan"
)

// DefaultPolicy is the policy of runs for which neither plan nor configuration sets one (contract O2, O5).
func DefaultPolicy() Policy {
	return Policy{
		RetryWindowMS: (10 * time.Minute).Milliseconds(), DrainTimeoutMS: (5 * time.Minute).Milliseconds(),
		MaxParallelSteps: 100, MaxLogicalAttemptsManual: DefaultMaxAttempts,
	}
}

// For returns p with the fields that the plan sets replaced by those of the plan.
func (p Policy) For(pl plan.Plan) Policy {
	if w := pl.Metadata.FailurePolicy.RetryWindowSeconds; w != nil {
		p.RetryWindowMS = int64(*w) * 1000
	}
	p.CancelRunning = pl.Metadata.FailurePolicy.CancelRunning
	return p
}
