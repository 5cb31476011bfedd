package plan

import (
	"fmt"
	"time"
)

// DurationWords returns a duration as a sentence for people names it: one unit below the largest, such as "4 min 41 s",
// "2 h 5 min" or "14 days". Below ten seconds it has a decimal, below one second it is in milliseconds. A negative
// duration is "0 s".
func DurationWords(d time.Duration) string {
	switch {
	case d <= 0:
		return "0 s"
	case d < time.Second:
		return fmt.Sprintf("%d ms", max(1, d.Milliseconds()))
	case d < 10*time.Second && d%time.Second >= 100*time.Millisecond:
		return fmt.Sprintf("%.1f s", d.Truncate(100*time.Millisecond).Seconds())
	}
	d = d.Round(time.Second)
	day := 24 * time.Hour
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%d s", d/time.Second)
	case d < time.Hour:
		return twoUnits(d/time.Minute, "min", d%time.Minute/time.Second, "s")
	case d < 2*day:
		return twoUnits(d/time.Hour, "h", d%time.Hour/time.Minute, "min")
	}
	return twoUnits(d/day, "days", d%day/time.Hour, "h")
}

// DurationText returns a duration as people write it in plans and settings, without parts that are 0: "10m", not
// "10m0s".
func DurationText(d time.Duration) string {
	switch {
	case d == 0:
		return "0s"
	case d%time.Hour == 0:
		return fmt.Sprintf("%dh", d/time.Hour)
	case d%time.Minute == 0 && d < time.Hour:
		return fmt.Sprintf("%dm", d/time.Minute)
	case d%time.Minute == 0:
		return fmt.Sprintf("%dh%dm", d/time.Hour, d%time.Hour/time.Minute)
	}
	return d.String()
}

func twoUnits(large time.Duration, unit string, small time.Duration, below string) string {
	if small == 0 {
		return fmt.Sprintf("%d %s", large, unit)
	}
	return fmt.Sprintf("%d %s %d %s", large, unit, small, below)
}
