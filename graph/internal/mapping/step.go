package mapping

import (
	"slices"

	"github.com/dvt-engine/dvt/control/runs"
	"github.com/dvt-engine/dvt/graph/internal/model"
	"github.com/dvt-engine/dvt/run"
)

// Steps maps all steps of the run.
func (g *Graph) Steps() []model.Step { return g.steps(g.View.State.Steps) }

// Step maps one step; nil when the run has no such step.
func (g *Graph) Step(stepID string) *model.Step {
	i := slices.IndexFunc(g.View.State.Steps, func(s *run.Step) bool { return s.StepID == stepID })
	if i < 0 {
		return nil
	}
	return g.MapStep(g.View.State.Steps[i])
}

// MapStep maps s; nil maps to nil.
func (g *Graph) MapStep(s *run.Step) *model.Step {
	if s == nil {
		return nil
	}
	out := &model.Step{}
	g.WriteStep(out, s)
	return out
}

func (g *Graph) steps(steps []*run.Step) []model.Step {
	out := make([]model.Step, len(steps))
	for i, s := range steps {
		g.WriteStep(&out[i], s)
	}
	return out
}

// WriteStep writes s to out. It reuses no memory of out.
func (g *Graph) WriteStep(out *model.Step, s *run.Step) {
	*out = model.Step{
		Of: g, StepID: s.StepID, Type: s.Type, Name: nonZero(&s.Name), Group: nonZero(&s.Group), DependsOn: List(s.DependsOn),
		Status: enumOf[model.StepStatus](s.Status), StatusRaw: string(s.Status),
		Substatus:        optionalEnum[model.RunSubstatus](s.Substatus),
		LogicalAttemptID: s.LogicalAttempt, Artifacts: []model.Artifact{}, PendingRetry: g.View.PendingRetry[s.StepID],
		Attempts: []model.StepAttempt{}, TaskQueue: nonZero(&s.TaskQueue), ResourceClass: nonZero(&s.ResourceClass),
		ChangedSeq: s.ChangedSeq, Available: g.available,
	}
	if g.CostlyParts.Wait {
		out.Wait = g.wait(s)
	}
	if g.CostlyParts.NotBefore {
		out.NotBefore = g.notBefore(s)
	}
	if g.CostlyParts.Attempts {
		out.Attempts = make([]model.StepAttempt, len(s.Attempts))
		for i := range s.Attempts {
			g.mapAttempt(&out.Attempts[i], &s.Attempts[i])
		}
	}
	if n := len(s.Attempts); n > 0 { // a step shows the fields of its latest attempt (contract T60)
		var a model.StepAttempt
		g.mapAttempt(&a, &s.Attempts[n-1])
		out.EngineAttemptID, out.StartedAt, out.CompletedAt, out.DurationMs = nonZero(&s.Attempts[n-1].EngineAttempt),
			a.StartedAt, a.CompletedAt, a.DurationMs
		out.NodeCounts = nodeCounts(s.Attempts[n-1].Nodes)
		if r := s.Attempts[n-1].Reused; r != nil {
			out.KeptFrom = &r.RunID
		}
		out.Error, out.Skip, out.Result, out.Artifacts = a.Error, a.Skip, a.Result, a.Artifacts
	}
}

// mapAttempt writes a to out.
func (g *Graph) mapAttempt(out *model.StepAttempt, a *run.Attempt) {
	*out = model.StepAttempt{
		LogicalAttemptID: a.LogicalAttempt, EngineAttemptID: a.EngineAttempt,
		Status: enumOf[model.StepStatus](a.Status), StatusRaw: string(a.Status),
		StartedAt: a.StartedAt, CompletedAt: a.CompletedAt, StartedSeq: nonZero(&a.StartedSeq),
		EndedSeq: nonZero(&a.EndedSeq),
		Error:    mapStepError(a.Error), Result: a.Result, Artifacts: MapSlice(a.Artifacts, g.artifact),
	}
	if a.CompletedAt != nil && a.StartedAt != nil {
		out.DurationMs = new(milliseconds(a.DurationMS))
	}
	if a.LastTryMS > 0 {
		out.LastTryMs = new(milliseconds(a.LastTryMS))
	}
	if a.Skip != nil {
		out.Skip = &model.Skip{Reason: nonZero(&a.Skip.Reason), ReasonCode: string(a.Skip.ReasonCode)}
	}
}

func nodeCounts(p *run.NodeProgress) *model.StepNodeCounts {
	if p == nil {
		return nil
	}
	out := &model.StepNodeCounts{Total: p.Total, Running: p.Running, Success: p.Success, Warn: p.Warn, Failed: p.Failed,
		Skipped: p.Skipped, Unfinished: p.Unfinished}
	if p.Base > 0 {
		out.Continues = &p.Base
	}
	return out
}

func mapStepError(e *run.StepError) *model.StepError {
	if e == nil {
		return nil
	}
	return &model.StepError{
		Code: e.Code, Message: nonZero(&e.Message), Retryable: e.Retryable,
		Category: optionalEnum[model.FailureCategory](e.Category), Source: nonZero(&e.Source),
	}
}

// Action maps the availability of an action, with the reason when it is not available.
func Action(a runs.ActionAvailability) model.ActionAvailability {
	out := model.ActionAvailability{
		Action: model.Action(a.Action), Outcome: model.ActionOutcome(a.Outcome), Code: Text(a.Code), Reason: Text(a.Reason),
		Rule:     Text(a.Rule),
		WhoCould: List(a.WhoCould), ReasonRequired: a.ReasonRequired, Strength: model.ActionStrength(a.Strength),
		MayReject: a.MayReject,
	}
	if r := model.Role(a.RequiredRole); r.IsValid() {
		out.RequiredRole = &r
	}
	return out
}

// List returns s, or an empty list for nil, because the schema has no null lists.
func List(s []string) []string {
	if s == nil {
		return []string{}
	}
	return s
}
