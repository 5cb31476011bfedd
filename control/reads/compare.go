package reads

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/control/runs"
	"github.com/dvt-engine/dvt/internal/secretvalue"
	"github.com/dvt-engine/dvt/run"
)

// A step of run b is slower or faster than in run a when its duration differs by at least CompareShare of the shorter
// one and by at least CompareLeast.
const (
	CompareShare = 0.25
	CompareLeast = time.Second
)

// Comparer compares two runs. It is safe for concurrent use.
type Comparer struct {
	views *runs.Views
	plans *runs.PlanReader
	now   func() time.Time
}

// NewComparer makes a Comparer.
func NewComparer(views *runs.Views, plans *runs.PlanReader, now func() time.Time) *Comparer {
	return &Comparer{views: views, plans: plans, now: now}
}

// RunComparison is the difference from run A to run B.
type RunComparison struct {
	A, B control.RunView
	// WaitedA and WaitedB are the times that the runs waited for people, up to the time of the comparison.
	WaitedA, WaitedB time.Duration
	Params           []PlanPart // parameters that differ, at most 20, without secrets
	// Steps has every step of one of the runs, in the order of the plan of B; steps of A only come last. The order in
	// which the steps can run stands for a plan that is not known.
	Steps []StepComparison
}

// StepComparison is a step in both runs. A or B is nil when the plan of that run has no such step.
type StepComparison struct {
	StepID  string
	A, B    *run.Step
	Changes []StepChange // in the order of their constants; empty when nothing differs
}

// StepChange is a kind of difference of a step.
type StepChange string

// Kinds of differences.
const (
	StepAdded           StepChange = "ADDED"   // only B has the step
	StepRemoved         StepChange = "REMOVED" // only A has the step
	StepStatusChanged   StepChange = "STATUS"
	StepErrorChanged    StepChange = "ERROR" // the error code of the newest attempt
	StepAttemptsChanged StepChange = "ATTEMPTS"
	StepSlower          StepChange = "SLOWER"
	StepFaster          StepChange = "FASTER"
)

// CompareRuns compares two runs, of any plans, that p may read. Error: NOT_FOUND.
func (s *Comparer) CompareRuns(ctx context.Context, p authz.Principal, a, b string) (RunComparison, error) {
	from, err := s.views.Run(ctx, p, a, nil)
	if err != nil {
		return RunComparison{}, err
	}
	to, err := s.views.Run(ctx, p, b, nil)
	if err != nil {
		return RunComparison{}, err
	}
	orderA, err := s.plans.StepOrder(ctx, p, a)
	if err != nil {
		return RunComparison{}, err
	}
	orderB, err := s.plans.StepOrder(ctx, p, b)
	if err != nil {
		return RunComparison{}, err
	}
	now := s.now()
	return RunComparison{A: from, B: to,
		WaitedA: waitedForPeople(&from.State, now), WaitedB: waitedForPeople(&to.State, now),
		Params: diffParams(from.Run.Params, to.Run.Params),
		Steps:  compareSteps(inPlanOrder(from.State.Steps, orderA), inPlanOrder(to.State.Steps, orderB))}, nil
}

// ComparePlans compares the plans of two runs. It returns nil when PlanDocument returns nil for one of them. Error:
// NOT_FOUND.
func (s *Comparer) ComparePlans(ctx context.Context, p authz.Principal, a, b run.Header) (*PlanDiff, error) {
	out, err := comparePlans(ctx, s.plans, p, a.RunID, b.RunID)
	if out != nil {
		out.Previous = runBeforeOf(a)
	}
	return out, err
}

func diffParams(a, b json.RawMessage) []PlanPart {
	return diffMembers(nil, "", paramsOf(a), paramsOf(b))
}

// paramsOf returns the parameters of a run by name. A run without parameters has none.
func paramsOf(doc json.RawMessage) map[string]any {
	out := map[string]any{}
	d := json.NewDecoder(bytes.NewReader(secretvalue.Hide(doc)))
	d.UseNumber()
	_ = d.Decode(&out) // the parameters of a run are an object or nothing
	return out
}

// compareSteps compares the steps of two runs, in the order of b and then of a.
func compareSteps(a, b []*run.Step) []StepComparison {
	before := make(map[string]*run.Step, len(a))
	for _, step := range a {
		before[step.StepID] = step
	}
	out := make([]StepComparison, 0, max(len(a), len(b)))
	both := make(map[string]bool, len(b))
	for _, step := range b {
		old := before[step.StepID]
		both[step.StepID] = true
		out = append(out, StepComparison{StepID: step.StepID, A: old, B: step, Changes: changesOf(old, step)})
	}
	for _, step := range a {
		if !both[step.StepID] {
			out = append(out, StepComparison{StepID: step.StepID, A: step, Changes: []StepChange{StepRemoved}})
		}
	}
	return out
}

func changesOf(a, b *run.Step) (out []StepChange) {
	if a == nil {
		return []StepChange{StepAdded}
	}
	if a.Status != b.Status {
		out = append(out, StepStatusChanged)
	}
	if ErrorCode(a) != ErrorCode(b) {
		out = append(out, StepErrorChanged)
	}
	if len(a.Attempts) != len(b.Attempts) && !isKept(a) && !isKept(b) {
		out = append(out, StepAttemptsChanged)
	}
	return append(out, paceOf(a, b)...)
}

// ErrorCode returns the code of the error of the newest attempt, or "".
func ErrorCode(step *run.Step) string {
	if n := len(step.Attempts); n > 0 && step.Attempts[n-1].Error != nil {
		return step.Attempts[n-1].Error.Code
	}
	return ""
}

// paceOf compares the durations of steps that ended in both runs.
func paceOf(a, b *run.Step) []StepChange {
	from, to := LastDuration(a), LastDuration(b)
	if from == nil || to == nil {
		return nil
	}
	by := *to - *from
	if by.Abs() < CompareLeast || float64(by.Abs()) < CompareShare*float64(min(*from, *to)) {
		return nil
	}
	if by > 0 {
		return []StepChange{StepSlower}
	}
	return []StepChange{StepFaster}
}

// LastDuration returns how long the newest attempt took; nil when that is not known. A step whose result a rerun keeps
// took no time there: it did not run.
func LastDuration(step *run.Step) *time.Duration {
	if n := len(step.Attempts); n > 0 && !isKept(step) {
		return DurationOf(step.Attempts[n-1])
	}
	return nil
}

// KeptFrom returns the run whose result a rerun took over for the step, or "".
func KeptFrom(step *run.Step) string {
	if !isKept(step) {
		return ""
	}
	return step.Attempts[len(step.Attempts)-1].Reused.RunID
}

// HasRun reports whether an attempt of the step started, so that it has a log.
func HasRun(step *run.Step) bool {
	return slices.ContainsFunc(step.Attempts, func(a run.Attempt) bool { return a.StartedAt != nil && a.Reused == nil })
}

// isKept reports whether a rerun took over the result of the step.
func isKept(step *run.Step) bool {
	n := len(step.Attempts)
	return n > 0 && step.Attempts[n-1].Reused != nil
}
