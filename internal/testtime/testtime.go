// Package testtime says how long tests may wait, and how much of what is random they try.
package testtime

import (
	"fmt"
	"os"
	"runtime"
	"time"
)

// Rounds are how often something random is tried: n, or ten times n where TEST_LONG is set.
func Rounds(n int) int {
	if os.Getenv("TEST_LONG") != "" {
		return 10 * n
	}
	return n
}

// Of is d on a machine that has a core for all that wants one, and as much longer as there are more who want a core
// than there are cores. A promise that names a time is held to pace.Of(it): strictly where it can be kept, and not
// broken by who else works here.
func Of(d time.Duration) time.Duration {
	said, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return d // a system that does not tell
	}
	return stretched(d, string(said), runtime.NumCPU())
}

// stretched looks at the last minute and at this moment: the average of a minute is slow to show that others have
// begun.
func stretched(d time.Duration, loadavg string, cores int) time.Duration {
	var lastMinute, others, now float64
	if n, _ := fmt.Sscanf(loadavg, "%g %g %g %g/", &lastMinute, &others, &others, &now); n == 0 {
		return d
	}
	return time.Duration(float64(d) * max(1, lastMinute/float64(cores), now/float64(cores)))
}
