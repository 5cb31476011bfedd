// Package testtime adapts the time limits of tests to the load of the machine, the number of random trials to the kind
// of test run, and the pauses of waiting tests to the time that they have waited.
package testtime

import (
	"fmt"
	"os"
	"runtime"
	"time"
)

// Rounds returns the number of random trials of a test: n, or ten times n when the environment sets TEST_LONG.
func Rounds(n int) int {
	if os.Getenv("TEST_LONG") != "" {
		return 10 * n
	}
	return n
}

// Of returns d, multiplied by the load for each core when the machine has more runnable threads than cores. A test of a
// promised time limit uses it: the limit is strict on an idle machine, and other work does not fail the test.
func Of(d time.Duration) time.Duration {
	load, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return d // this system does not report its load
	}
	return stretch(d, string(load), runtime.NumCPU())
}

// longestPause is the longest pause between two checks of a waiting test.
const longestPause = 250 * time.Millisecond

// Pause sleeps between two checks of a test that has waited since began: for shortest at first, later for a twentieth
// of the time waited, and at most for longestPause, unless shortest is longer. A test that waits for minutes would
// otherwise use much of a core for checks, and as much of the server that answers them.
func Pause(began time.Time, shortest time.Duration) { time.Sleep(pause(time.Since(began), shortest)) }

func pause(waited, shortest time.Duration) time.Duration {
	return max(shortest, min(waited/20, longestPause))
}

// stretch uses the larger of the average load of the last minute and the current number of runnable threads, because
// the average rises slowly when other work begins.
func stretch(d time.Duration, loadavg string, cores int) time.Duration {
	var lastMinute, others, now float64
	if n, _ := fmt.Sscanf(loadavg, "%g %g %g %g/", &lastMinute, &others, &others, &now); n == 0 {
		return d
	}
	return time.Duration(float64(d) * max(1, lastMinute/float64(cores), now/float64(cores)))
}
