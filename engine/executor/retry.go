package executor

import (
	"slices"

	"github.com/dvt-engine/dvt/plan"
)

var (
	neverRetried = []string{plan.ClassValidation, plan.ClassPolicyDeny, plan.ClassAuthDeny, plan.ClassBusinessConflict}
	mayBeRetried = []string{plan.ClassTimeout, plan.ClassRateLimit, plan.ClassTransient, plan.ClassTransport}
)

// Retryable reports whether a failure of this class may be retried under the
// policy, attempts aside (T67, T68, T205): never-retryable classes and failures
// that say so of themselves win; a policy that lists classes excludes the known
// ones that it leaves out; an unknown class is retryable.
func Retryable(policy plan.Retry, class string, nonRetryable bool) bool {
	if nonRetryable || slices.Contains(neverRetried, class) {
		return false
	}
	return len(policy.RetryableErrors) == 0 || !slices.Contains(mayBeRetried, class) ||
		slices.Contains(policy.RetryableErrors, class)
}
