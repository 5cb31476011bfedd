package config

import (
	"fmt"
	"time"

	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
)

// RunPolicy has the numbers that the contract leaves to operators (contract O5): those that a run takes at its start,
// and the intervals of duties.
type RunPolicy struct {
	// how long a failed run waits for a retry by a person, where its plan sets nothing
	RetryWindow       time.Duration `koanf:"retry-window"`
	MaxParallelSteps  int           `koanf:"max-parallel-steps"`  // steps of one run that execute at once
	MaxManualAttempts int           `koanf:"max-manual-attempts"` // attempts of a step up to which people may retry it

	Lease         time.Duration `koanf:"lease"`          // time after which the work of a silent server is taken over
	PublishTries  int           `koanf:"publish-tries"`  // refusals of a message before it becomes a dead letter
	HeadCheck     time.Duration `koanf:"head-check"`     // time between two checks of the heads of watched runs
	PolicyRecheck time.Duration `koanf:"policy-recheck"` // time between two checks of the rights of an open stream
}

func runPolicyDefaults() map[string]any {
	p := run.DefaultPolicy()
	return map[string]any{
		"retry-window":       (time.Duration(p.RetryWindowMS) * time.Millisecond).String(),
		"max-parallel-steps": p.MaxParallelSteps, "max-manual-attempts": p.MaxLogicalAttemptsManual,
		"lease": "30s", "publish-tries": 10, "head-check": "1s", "policy-recheck": "60s",
	}
}

// verify returns an error for each setting that is out of its bounds.
func (c *RunPolicy) verify() (errs []error) {
	duration := func(name string, is, least, most time.Duration, why string) {
		if is < least || is > most {
			errs = append(errs, fmt.Errorf("%s must be between %s and %s, not %s: %s", name, plan.DurationText(least),
				plan.DurationText(most), is, why))
		}
	}
	count := func(name string, is, most int, why string) {
		if is < 1 || is > most {
			errs = append(errs, fmt.Errorf("%s must be between 1 and %d, not %d: %s", name, most, is, why))
		}
	}
	duration("retry-window", c.RetryWindow, time.Second, plan.MaxTimeout, "a plan can set 0 for itself")
	count("max-parallel-steps", c.MaxParallelSteps, 1000, "each step in flight is an activity of one workflow")
	count("max-manual-attempts", c.MaxManualAttempts, 1000, "the attempts are part of each view of the run")
	duration("lease", c.Lease, 5*time.Second, 10*time.Minute, "work of a dead server waits that long")
	count("publish-tries", c.PublishTries, 1000, "the views of a run wait meanwhile")
	duration("head-check", c.HeadCheck, 200*time.Millisecond, 10*time.Second, "a lost message shows after that time")
	duration("policy-recheck", c.PolicyRecheck, time.Second, 10*time.Minute, "a right that was taken away ends then")
	return errs
}

// Policy returns the policy of runs whose plan sets none.
func (c *Config) Policy() run.Policy {
	return run.Policy{
		RetryWindowMS: c.RetryWindow.Milliseconds(), DrainTimeoutMS: c.PauseDrain.Milliseconds(),
		MaxParallelSteps: c.MaxParallelSteps, MaxLogicalAttemptsManual: c.MaxManualAttempts,
	}
}
