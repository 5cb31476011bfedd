package executor

import (
	"math"
	"slices"
	"time"

	"github.com/dvt-engine/dvt/plan"
)

var (
	neverRetried = []string{plan.ClassValidation, plan.ClassPolicyDeny, plan.ClassAuthDeny, plan.ClassBusinessConflict}
	mayBeRetried = []string{plan.ClassTimeout, plan.ClassRateLimit, plan.ClassTransient, plan.ClassTransport}
)

// IsRetryable reports whether the policy permits a retry of a failure, regardless of the number of attempts. Failures
// of the classes neverRetried, and those that nonRetryable marks, are not retried. A policy that lists classes excludes
// the other classes of mayBeRetried. An unknown class is retried (contract T67).
func IsRetryable(policy plan.Retry, class string, nonRetryable bool) bool {
	if nonRetryable || slices.Contains(neverRetried, class) {
		return false
	}
	return len(policy.RetryableErrors) == 0 || !slices.Contains(mayBeRetried, class) ||
		slices.Contains(policy.RetryableErrors, class)
}

// delayBefore returns the delay of the engine after the n-th try of a dispatch, from 1.
func delayBefore(policy plan.Retry, n int) time.Duration {
	ms := float64(policy.InitialBackoffMS) * math.Pow(policy.BackoffMultiplier, float64(max(n, 1)-1))
	return time.Duration(min(ms, float64(policy.MaxBackoffMS))) * time.Millisecond
}
