package duty

import (
	"fmt"
	"time"

	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
)

// HungRules are the thresholds of what counts as hung, slow or failing (contract H06, T57, T166).
type HungRules struct {
	// HeartbeatFactor times Heartbeat is the age of a heartbeat after which an attempt hangs although the engine has not
	// given it up.
	HeartbeatFactor int
	Heartbeat       time.Duration
	// Unpolled is how long a task may wait in a queue that no worker polls.
	Unpolled time.Duration
	// A run is overdue when it runs longer than DurationFactor times the 99th percentile of the runs of its plan that
	// completed within Window, if there are at least MinRuns of them.
	DurationFactor int
	MinRuns        int
	Window         time.Duration
	// A type of step fails too often when, of at least MinEnds attempts that ended within FailureWindow, a share failed
	// that is above MinFailures and above FailureFactor times the mean of a day.
	FailureWindow time.Duration
	MinEnds       int
	MinFailures   float64
	FailureFactor float64
	// ActWithin is how long after its detection a hung attempt may still be retried.
	ActWithin time.Duration
}

// DefaultHungRules returns the thresholds of dvt. heartbeat is the time after which the engine gives an attempt up.
func DefaultHungRules(heartbeat time.Duration) HungRules {
	return HungRules{
		HeartbeatFactor: 2, Heartbeat: heartbeat, Unpolled: 2 * time.Minute,
		DurationFactor: 3, MinRuns: 20, Window: 30 * 24 * time.Hour,
		FailureWindow: 5 * time.Minute, MinEnds: 20, MinFailures: 0.1, FailureFactor: 3,
		ActWithin: time.Hour,
	}
}

// hungFacts is what is known of one open run.
type hungFacts struct {
	// Held is true while nothing of the run may count as hung: it is paused or being stopped, or waits in the queue.
	Held bool
	// Manual is true while a step waits for a person. The run then takes as long as people take.
	Manual bool
	Age    time.Duration // since it began
	// Usual is the 99th percentile of the earlier runs, and Runs their number.
	Usual time.Duration
	Runs  int
	// Failed is the attempt for which the run is AWAITING_OPERATOR; nil while no step is FAILED.
	Failed  *attemptFacts
	Running []attemptFacts
}

// attemptFacts is what is known of one attempt.
type attemptFacts struct {
	StepID         string
	LogicalAttempt int
	Error          *run.StepError // of a failed attempt
	// Silent is the age of the last heartbeat of a running attempt; 0 when the engine knows none.
	Silent time.Duration
}

// hungFinding is one thing that is wrong with a run. StepID is empty when it is about the whole run.
type hungFinding struct {
	kind           string
	stepID         string
	logicalAttempt int
	// ended is true when the engine has given the attempt up, so that it can be retried.
	ended bool
	why   string
}

// findHung applies the rules to the facts of one run. It is pure. The failure of an attempt counts only when the engine
// gave it up, because its worker was silent: a run that awaits an operator for any other failure is left to people.
// Heavy steps that wait for their quota have no running attempt, so that they are no finding.
func findHung(rules HungRules, f hungFacts) (out []hungFinding) {
	if f.Held {
		return nil
	}
	if a := f.Failed; a != nil {
		if a.Error != nil && a.Error.Code == string(run.CodeTimeout) && a.Error.Source == engineSource {
			out = append(out, hungFinding{kind: attemptHung, stepID: a.StepID, logicalAttempt: a.LogicalAttempt, ended: true,
				why: a.Error.Message})
		}
		return out
	}
	for _, a := range f.Running {
		if limit := time.Duration(rules.HeartbeatFactor) * rules.Heartbeat; a.Silent > limit {
			out = append(out, hungFinding{kind: attemptHung, stepID: a.StepID, logicalAttempt: a.LogicalAttempt,
				why: fmt.Sprintf("its last heartbeat was %s ago, and the engine has not given it up",
					plan.DurationWords(a.Silent))})
		}
	}
	if limit := time.Duration(rules.DurationFactor) * f.Usual; !f.Manual && f.Runs >= rules.MinRuns && f.Age > limit {
		out = append(out, hungFinding{kind: runOverdue, why: fmt.Sprintf(
			"The run has taken %s, longer than %d times what 99 %% of the last %d runs of its plan took (%s).",
			plan.DurationWords(f.Age), rules.DurationFactor, f.Runs, plan.DurationWords(f.Usual))})
	}
	return out
}

// engineSource is the source of the failure of an attempt that the engine gave up.
const engineSource = "engine"

// ends counts attempts that ended.
type ends struct{ all, failed int }

func (e ends) rate() float64 {
	if e.all == 0 {
		return 0
	}
	return float64(e.failed) / float64(e.all)
}

// failsTooOften reports whether a type of step fails too often: now is the count of FailureWindow, before that of the
// day up to it.
func failsTooOften(rules HungRules, now, before ends) bool {
	return now.all >= rules.MinEnds && now.rate() > max(rules.MinFailures, rules.FailureFactor*before.rate())
}
