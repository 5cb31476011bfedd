package testtime

import (
	"testing"
	"time"
)

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
