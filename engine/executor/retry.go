package executor

import (
	"slices"

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
