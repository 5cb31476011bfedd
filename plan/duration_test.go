package plan_test

import (
	"testing"
	"time"

	"github.com/dvt-engine/dvt/plan"
)

func TestDurationWords_OneUnitBelowTheLargest(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{0: "0 s", -time.Second: "0 s", time.Nanosecond: "1 ms",
		400 * time.Millisecond: "400 ms", 1500 * time.Millisecond: "1.5 s", 4 * time.Second: "4 s", 59 * time.Second: "59 s",
		59*time.Second + 700*time.Millisecond: "1 min", 10 * time.Minute: "10 min",
		4*time.Minute + 41*time.Second: "4 min 41 s", 2 * time.Hour: "2 h", 14 * 24 * time.Hour: "14 days",
		26*time.Hour + 5*time.Minute + 7*time.Second: "26 h 5 min", 50 * time.Hour: "2 days 2 h"} {
		if got := plan.DurationWords(d); got != want {
			t.Errorf("%s is written %q, want %q", d, got, want)
		}
	}
}

func TestDurationText_IsReadBackAndHasNoEmptyParts(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{0: "0s", 10 * time.Minute: "10m", 90 * time.Minute: "1h30m",
		2 * time.Hour: "2h", 90 * time.Second: "1m30s", 1500 * time.Millisecond: "1.5s"} {
		got := plan.DurationText(d)
		if back, err := time.ParseDuration(got); got != want || back != d {
			t.Errorf("%d ns are written %q, which is read as %d ns with the error %v; want %q", d, got, back, err, want)
		}
	}
}
