package forecast

import (
	"hash/fnv"
	"math/rand/v2"
	"time"

	"github.com/dvt-engine/dvt/run"
)

// Confidence is the share of runs that end between Earliest and Latest of their forecast. MinRuns is the number of
// completed runs that a forecast needs.
const (
	Confidence = 0.8
	MinRuns    = 5
)

// Basis says what a forecast rests on.
type Basis string

// The bases. PlanRuns: earlier runs had every step that is still to end. SimilarSteps: the plan changed, and a step
// that no earlier run had counts like earlier steps of its name or type.
const (
	PlanRuns     Basis = "PLAN_RUNS"
	SimilarSteps Basis = "SIMILAR_STEPS"
)

// Gap says why there is no forecast.
type Gap string

// The gaps.
const (
	NotRunning     Gap = "NOT_RUNNING"      // the run has not started, or has ended
	TooFewRuns     Gap = "TOO_FEW_RUNS"     // fewer than MinRuns completed runs are known
	WaitsForPerson Gap = "WAITS_FOR_PERSON" // a step of those to come is completed by a person
	WaitsForRetry  Gap = "WAITS_FOR_RETRY"  // a step failed, and a person decides
	IsPaused       Gap = "PAUSED"
	Compensates    Gap = "COMPENSATES" // the run failed and undoes its steps
	UnknownSteps   Gap = "UNKNOWN_STEPS"
)

// Forecast is when a run ends. Gap is "" when there is a forecast; else the times are zero.
type Forecast struct {
	Gap                        Gap
	StepID                     string // of WaitsForPerson, WaitsForRetry and UnknownSteps
	Runs                       int    // the completed runs that are known
	Earliest, Expected, Latest time.Time
	Basis                      Basis
}

// Of predicts the end of a run at a time, from the history of its plan. Four of five runs end between Earliest and
// Latest. It simulates the rest of the run with the steps of each earlier run, so that steps that are slow together
// stay so. What has ended so far scales the rest as far as it did in earlier runs. It costs O(runs x steps).
func Of(s run.State, h History, now time.Time) Forecast {
	rows := h.completed()
	out := Forecast{Runs: len(rows)}
	if out.Gap, out.StepID = gapOf(s); out.Gap != "" {
		return out
	}
	if len(rows) < MinRuns {
		out.Gap = TooFewRuns
		return out
	}
	m := newModel(s, h, rows, now)
	if m.unknown != "" {
		out.Gap, out.StepID = UnknownSteps, m.unknown
		return out
	}
	seed := fnv.New64a()
	_, _ = seed.Write([]byte(s.RunID))
	low, middle, high := m.band(rand.New(rand.NewPCG(seed.Sum64(), uint64(s.Seq)))) //nolint:gosec // no secret
	at := func(seconds float64) time.Time {
		t := s.StartedAt.Add(time.Duration(seconds * float64(time.Second)))
		if t.Before(now) {
			return now
		}
		return t
	}
	out.Earliest, out.Expected, out.Latest = at(low), at(middle), at(high)
	out.Basis = PlanRuns
	if m.similar {
		out.Basis = SimilarSteps
	}
	return out
}

// gapOf returns why no run in this state has a forecast, and the step that is the reason.
func gapOf(s run.State) (Gap, string) {
	switch {
	case s.StartedAt == nil || s.Status.Terminal():
		return NotRunning, ""
	case s.Status == run.Paused:
		return IsPaused, ""
	case s.Compensating:
		return Compensates, ""
	}
	for _, step := range s.Steps {
		if step.Status == run.StepFailed {
			return WaitsForRetry, step.StepID
		}
	}
	for _, step := range s.Steps {
		if step.Type == manual && endOf(step) == nil {
			return WaitsForPerson, step.StepID
		}
	}
	return "", ""
}

func (h History) completed() []Past {
	var out []Past
	for _, p := range h.runs {
		if p.Completed {
			out = append(out, p)
		}
	}
	return out
}

// WillBeLate reports whether the run will probably end after its deadline: the early end of the band, which nine of ten
// runs exceed, lies behind it.
func (f Forecast) WillBeLate(due time.Time) bool { return f.Gap == "" && f.Earliest.After(due) }
