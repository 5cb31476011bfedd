package sandbox

import (
	"time"

	"golang.org/x/sys/unix"
)

// The processor time of the worker in which it explains the files of one program. 10 s are more than 100,000 files, and
// a program that goes on gets a fifth of a processor.
const (
	maxAllowance  = 10 * time.Second
	maxDebt       = 200 * time.Millisecond
	allowanceRate = 5 // one second of every five
)

// allowance bounds the processor time for the explanations of a program, because the step's own limit does not count
// it. One thread uses it.
type allowance struct {
	left time.Duration
	at   time.Time     // of the last take
	used time.Duration // by the thread until then
}

func newAllowance() allowance { return allowance{left: maxAllowance} }

// take charges the time that the thread has used since the last call. It reports whether time is left.
func (a *allowance) take(now time.Time, used time.Duration) bool {
	if !a.at.IsZero() {
		// The thread also uses time while nothing is explained. That debt is bounded, so that a quiet second settles it.
		a.left = max(a.left+now.Sub(a.at)/allowanceRate-(used-a.used), -maxDebt)
		a.left = min(a.left, maxAllowance)
	}
	a.at, a.used = now, used
	return a.left > 0
}

// threadTime returns the processor time of the calling thread.
func threadTime() time.Duration {
	var t unix.Timespec
	if unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t) != nil {
		return 0
	}
	return time.Duration(t.Nano())
}
