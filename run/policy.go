package run

import (
	"time"

	"github.com/dvt-engine/dvt/plan"
)

// DefaultPolicy is what runs get when neither their plan nor the configuration
// says otherwise (O2, O5).
func DefaultPolicy() Policy {
	return Policy{
		RetryWindowMS: (10 * time.Minute).Milliseconds(), DrainTimeoutMS: (5 * time.Minute).Milliseconds(),
		MaxParallelSteps: 100, MaxLogicalAttemptsManual: DefaultMaxAttempts,
	}
}

// For is the policy of a run of this plan.
func (p Policy) For(pl plan.Plan) Policy {
	if w := pl.Metadata.FailurePolicy.RetryWindowSeconds; w != nil {
		p.RetryWindowMS = int64(*w) * 1000
	}
	p.CancelRunning = pl.Metadata.FailurePolicy.CancelRunning
	return p
}
