package duty

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dvt-engine/dvt/run"
)

// contract: H06, T57, T166
func TestFindHung_AppliesItsThresholds(t *testing.T) {
	t.Parallel()
	rules := DefaultHungRules(30 * time.Second)
	failed := func(code run.Code, source string) *attemptFacts {
		return &attemptFacts{StepID: "a", LogicalAttempt: 1, Error: &run.StepError{Code: string(code), Source: source}}
	}
	running := func(silent time.Duration) []attemptFacts {
		return []attemptFacts{{StepID: "a", LogicalAttempt: 2, Silent: silent}}
	}
	for _, tc := range []struct {
		name  string
		facts hungFacts
		want  string
	}{
		{"an attempt that the engine gave up", hungFacts{Failed: failed(run.CodeTimeout, "engine")}, "attempt_hung a 1"},
		{"the same while the run is paused", hungFacts{Held: true, Failed: failed(run.CodeTimeout, "engine")}, ""},
		{"a run that awaits an operator for a failure of its step", hungFacts{Failed: failed(run.CodeTimeout, "step")}, ""},
		{"a run that awaits an operator for another error", hungFacts{Failed: failed("EXIT_1", "engine")}, ""},
		{"a failed attempt without an error", hungFacts{Failed: &attemptFacts{StepID: "a", LogicalAttempt: 1}}, ""},
		{"a heartbeat of just under twice the time", hungFacts{Running: running(60 * time.Second)}, ""},
		{"a heartbeat of more than twice the time", hungFacts{Running: running(61 * time.Second)}, "attempt_hung a 2"},
		{"no heartbeat that the engine knows", hungFacts{Running: running(0)}, ""},
		{"three times as long as usual", hungFacts{Age: 30 * time.Minute, Usual: 10 * time.Minute, Runs: 20}, ""},
		{"longer than that", hungFacts{Age: 30*time.Minute + 1, Usual: 10 * time.Minute, Runs: 20}, "run_overdue  0"},
		{"with too few runs", hungFacts{Age: time.Hour, Usual: 10 * time.Minute, Runs: 19}, ""},
		{"while a step waits for a person", hungFacts{Manual: true, Age: time.Hour, Usual: time.Minute, Runs: 50}, ""},
		{"while the run waits in the queue", hungFacts{Held: true, Age: time.Hour, Usual: time.Minute, Runs: 50}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			var got []string
			for _, x := range findHung(rules, tc.facts) {
				got = append(got, strings.Join([]string{x.kind, x.stepID, string(rune('0' + x.logicalAttempt))}, " "))
			}
			if found := strings.Join(got, ", "); found != tc.want {
				t.Errorf("found %q, want %q", found, tc.want)
			}
		})
	}
}

// contract: H06
func TestFailsTooOften_AppliesItsThresholds(t *testing.T) {
	t.Parallel()
	rules := DefaultHungRules(time.Second)
	for _, tc := range []struct {
		name        string
		now, before ends
		want        bool
	}{
		{"a tenth", ends{20, 2}, ends{}, false},
		{"more than a tenth", ends{20, 3}, ends{}, true},
		{"too few steps", ends{19, 19}, ends{}, false},
		{"three times the mean", ends{100, 30}, ends{1000, 100}, false},
		{"more than three times the mean", ends{100, 31}, ends{1000, 100}, true},
	} {
		if got := failsTooOften(rules, tc.now, tc.before); got != tc.want {
			t.Errorf("%s: %v, want %v", tc.name, got, tc.want)
		}
	}
}

func TestStepEnds_ForgetAfterADay(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_700_000_000, 0)
	s := NewStepEnds(func() time.Time { return now })
	s.Note("NOOP", true)
	now = now.Add(10 * time.Minute)
	s.Note("NOOP", false)
	s.Note("NOOP", true)
	recent, before := s.count("NOOP", 5*time.Minute)
	if recent != (ends{2, 1}) || before != (ends{1, 1}) {
		t.Errorf("the counts are %v and %v, want 1 of 2 and 1 of 1", recent, before)
	}
	now = now.Add(24 * time.Hour)
	if recent, before = s.count("NOOP", 5*time.Minute); recent.all+before.all != 0 {
		t.Errorf("a day later %v and %v are left, want none", recent, before)
	}
	if !slices.Equal(s.types(), []string{"NOOP"}) {
		t.Errorf("the types are %v", s.types())
	}
}
