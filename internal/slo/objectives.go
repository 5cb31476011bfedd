package slo

import (
	"fmt"
	"strings"
)

// Objective is one promise about all events of a kind: the share of them that is good.
type Objective struct {
	Name, Promise string
	Target        float64 // share of good events
	// BadRatio is the share of bad events within a window, which stands for %[1]s.
	BadRatio string
}

// slower returns the share of the observations of a histogram that took longer than a bucket. Prometheus writes a whole
// bound with and without .0.
func slower(histogram, bound string) string {
	le := bound
	if !strings.Contains(bound, ".") {
		le += `(\\.0)?`
	} else {
		le = strings.ReplaceAll(bound, ".", `\\.`)
	}
	return fmt.Sprintf(`1 - sum(rate(%[1]s_bucket{le=~"%[2]s"}[%%[1]s])) / (sum(rate(%[1]s_count[%%[1]s])) > 0)`, histogram,
		le)
}

// RunWindow is the time in seconds within which a run should end.
const RunWindow = "86400"

// Objectives returns the service level objectives (contract R402 to R407).
func Objectives() []Objective {
	return []Objective{
		{Name: "api-availability", Target: .999, Promise: "a server answers its scrape",
			BadRatio: `1 - avg(avg_over_time(up{job="dvt-server"}[%[1]s]))`},
		{Name: "engine-errors", Target: .999, Promise: "an attempt of a step does not fail through dvt, a worker or a timeout",
			BadRatio: `(sum(rate(engine_errors_total{category!="USER"}[%[1]s])) or vector(0)) / ` +
				`(sum(rate(engine_steps_executed_total[%[1]s])) > 0)`},
		{Name: "runs-in-time", Target: .95, Promise: "a run ends within 24 hours",
			BadRatio: slower("engine_run_duration_seconds", RunWindow)},
		{Name: "event-emission", Target: .99, Promise: "Redis has the message of an event within 100 ms",
			BadRatio: slower("engine_event_latency_seconds", "0.1")},
		{Name: "signals", Target: .95, Promise: "the engine answers a signal within 2 s",
			BadRatio: slower("engine_signal_latency_seconds", "2")},
		{Name: "queue-wait", Target: .95, Promise: "a run that has to wait is admitted within 30 s",
			BadRatio: slower("engine_queue_wait_seconds", "30")},
	}
}

// windows are the windows of the recorded ratios: 1m for SLOBudgetBurn100x, the others for the pairs of burn rates.
var windows = []string{"1m", "5m", "30m", "1h", "2h", "6h", "1d", "3d"}

// Rule is a recording rule.
type Rule struct {
	Record, Expr string
	Labels       map[string]string
}

// Recordings returns the recording rules, in the order in which they depend on each other. The names are those of
// Sloth.
func Recordings() (out []Rule) {
	for _, o := range Objectives() {
		labels := map[string]string{"slo": o.Name}
		out = append(out,
			Rule{Record: "slo:objective:ratio", Expr: fmt.Sprintf("vector(%v)", o.Target), Labels: labels},
			Rule{Record: "slo:error_budget:ratio", Expr: fmt.Sprintf("vector(1 - %v)", o.Target), Labels: labels})
		for _, w := range windows {
			out = append(out, Rule{Record: "slo:sli_error:ratio_rate" + w, Expr: fmt.Sprintf(o.BadRatio, w), Labels: labels})
		}
	}
	return out
}

// burn is a condition for SLOs that use up their budget factor times too fast in both windows.
func burn(factor float64, short, long string) string {
	over := func(w string) string {
		return fmt.Sprintf("slo:sli_error:ratio_rate%s > on (slo) group_left () (%v * slo:error_budget:ratio)", w, factor)
	}
	return fmt.Sprintf("((%s) and on (slo) (%s))", over(short), over(long))
}
