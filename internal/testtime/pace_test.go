package testtime

import (
	"testing"
	"time"
)

func TestPause_GrowsWithTheTimeWaited(t *testing.T) {
	t.Parallel()
	const shortest = 20 * time.Millisecond
	for waited, want := range map[time.Duration]time.Duration{
		0:                      shortest,
		100 * time.Millisecond: shortest,
		2 * time.Second:        100 * time.Millisecond,
		5 * time.Minute:        longestPause,
	} {
		if got := pause(waited, shortest); got != want {
			t.Errorf("after %s the pause is %s, want %s", waited, got, want)
		}
	}
	if got := pause(time.Minute, time.Second); got != time.Second {
		t.Errorf("a pause of a second became %s, want no shorter one", got)
	}
}

func TestStretch_DependsOnThreadsThatWaitForACore(t *testing.T) {
	t.Parallel()
	for load, want := range map[string]time.Duration{
		"0.40 3.00 9.00 2/512 4711": time.Second,
		"2.00 0.00 0.00 2/512 4711": time.Second,
		"6.00 0.00 0.00 1/512 4711": 3 * time.Second,
		"0.40 0.00 0.00 8/512 4711": 4 * time.Second,
		"6.00":                      3 * time.Second,
		"":                          time.Second,
	} {
		if got := stretch(time.Second, load, 2); got != want {
			t.Errorf("a second with the load %q on two cores became %v, want %v", load, got, want)
		}
	}
}
