package sandbox

import (
	"time"

	"golang.org/x/sys/unix"
)

// The processor time of the worker in which it explains the files of one program. 10 s are more than 100,000 files, and
// a program that goes on gets a fifth of a processor.
const (
	maxAllowance  = 10 * time.Second
	allowanceRate = 5 // one second of every five
)

// allowance bounds the processor time for the explanations of a program, because the step's own limit does not count
// it. One thread uses it.
type allowance struct {
	left time.Duration
	at   time.Time     // of the last begin
	used time.Duration // by the thread until then
}

func newAllowance() allowance { return allowance{left: maxAllowance} }

// begin reports whether there is time for an explanation. After true, the caller calls end once it has explained.
func (a *allowance) begin(now time.Time, used time.Duration) bool {
	if !a.at.IsZero() {
		a.left = min(a.left+now.Sub(a.at)/allowanceRate, maxAllowance)
	}
	a.at, a.used = now, used
	return a.left > 0
}

// end charges the time that the thread has used since begin. An explanation that takes more than is left leaves a debt,
// which has no lower bound: otherwise long explanations would be free.
func (a *allowance) end(used time.Duration) { a.left -= used - a.used }

// threadTime returns the processor time of the calling thread.
func threadTime() time.Duration {
	var t unix.Timespec
	if unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t) != nil {
		return 0
	}
	return time.Duration(t.Nano())
}
