package mapping

import (
	"strings"

	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/control/reads"
	"github.com/dvt-engine/dvt/graph/internal/model"
	"github.com/dvt-engine/dvt/run"
)

// PlansPage maps a page of plans.
func PlansPage(page reads.PlansPage, after string) *model.PlanConnection {
	out := &model.PlanConnection{Edges: []model.PlanEdge{}, PageInfo: &model.PageInfo{HasNextPage: page.HasNext,
		HasPreviousPage: after != ""}}
	for i, p := range page.Plans {
		out.Edges = append(out.Edges, model.PlanEdge{Cursor: page.Cursors[i], Node: planSummary(p)})
	}
	if n := len(page.Cursors); n > 0 {
		out.PageInfo.StartCursor, out.PageInfo.EndCursor = &page.Cursors[0], &page.Cursors[n-1]
	}
	return out
}

func planSummary(p reads.PlanSummary) *model.PlanSummary {
	out := &model.PlanSummary{ProjectID: p.ProjectID, EnvironmentID: p.EnvironmentID, PlanID: p.PlanID,
		LastRunAt: p.LastRunAt, Runs: MapSlice(p.Runs, planRun), Open: p.Open, Waiting: p.Waiting,
		Ended: p.Ended, Succeeded: p.Succeeded,
		MedianMs: p.Took.Median, P90Ms: p.Took.Slow, RecentMedianMs: p.Took.RecentMedian,
		MedianWorkMs: p.Work.Median, P90WorkMs: p.Work.Slow, RecentMedianWorkMs: p.Work.RecentMedian,
		Next: model.PlanNext(p.Next), NextRunID: Text(p.NextRunID)}
	if p.Ended > 0 {
		out.SuccessRate = new(float64(p.Succeeded) / float64(p.Ended))
	}
	return out
}

func planRun(h run.Header) model.PlanRun {
	out := model.PlanRun{RunID: h.RunID, PlanVersion: h.PlanVersion, Status: enumOf[model.RunStatus](h.Status),
		StatusRaw: string(h.Status), Substatus: optionalEnum[model.RunSubstatus](h.Substatus()),
		TriggeredBy: Text(h.TriggeredBy), CreatedAt: h.CreatedAt, StartedAt: h.StartedAt, CompletedAt: h.CompletedAt}
	if d := h.Duration(); d != nil {
		out.DurationMs, out.WorkMs = new(max(0, *d)), h.Work()
	}
	return out
}

// PlanHistory maps the history of a plan.
func PlanHistory(h reads.PlanHistory) *model.PlanHistory {
	return &model.PlanHistory{
		Summary: planSummary(h.PlanSummary), CountedRuns: h.Used, MoreRuns: h.More,
		Versions: MapSlice(h.Versions, func(v reads.PlanVersion) model.PlanVersion {
			return model.PlanVersion{PlanVersion: v.PlanVersion, Sha256: v.SHA256, FirstUsedAt: v.FirstUsedAt,
				LastUsedAt: v.LastUsedAt, Runs: v.Runs, LastRunID: v.LastRunID}
		}),
		Starters: MapSlice(h.Starters, func(s reads.PlanStarter) model.PlanStarter {
			return model.PlanStarter{Principal: s.Principal, Runs: s.Runs, LastRunAt: s.LastRunAt, LastRunID: s.LastRunID}
		}),
		Grid: &model.PlanGrid{Runs: MapSlice(h.Grid.Runs, planRun), LeftOut: h.Grid.LeftOut,
			Steps: MapSlice(h.Grid.Steps, gridStep)},
	}
}

func gridStep(s reads.GridStep) model.PlanGridStep {
	out := model.PlanGridStep{StepID: s.StepID, Name: Text(s.Name), Cells: make([]*model.PlanCell, len(s.Cells))}
	for i, c := range s.Cells {
		if c != nil {
			out.Cells[i] = &model.PlanCell{Status: enumOf[model.StepStatus](c.Status), StatusRaw: string(c.Status),
				DurationMs: c.Duration, Attempts: c.Attempts, Kept: c.Kept}
		}
	}
	return out
}

// PlanStep maps the history of a step.
func PlanStep(h reads.StepHistory) *model.PlanStepHistory {
	out := &model.PlanStepHistory{
		ProjectID: h.ProjectID, EnvironmentID: h.EnvironmentID, PlanID: h.PlanID, StepID: h.StepID, CountedRuns: h.Runs,
		Ran: h.Ran, Succeeded: h.Succeeded, Flaky: h.Flaky, Attempts: MapSlice(h.Attempts, pastAttempt),
		MedianMs: h.Median, P90Ms: h.Slow,
		Failures: MapSlice(h.Failures, func(f reads.FailureCount) model.FailureCount {
			return model.FailureCount{Code: f.Code, Count: f.Count, Last: new(pastAttempt(f.Last)), Message: Text(f.Message)}
		}),
	}
	if h.LastGreen != nil {
		out.LastGreen = new(pastAttempt(*h.LastGreen))
	}
	return out
}

func pastAttempt(a reads.PastAttempt) model.PastAttempt {
	out := model.PastAttempt{RunID: a.RunID, PlanVersion: a.PlanVersion, LogicalAttemptID: a.LogicalAttempt,
		EngineAttemptID: a.EngineAttempt, Status: enumOf[model.StepStatus](a.Status), StatusRaw: string(a.Status),
		StartedAt: a.StartedAt, CompletedAt: a.CompletedAt, DurationMs: reads.DurationOf(a.Attempt)}
	if a.LastTryMS > 0 {
		out.LastTryMs = new(milliseconds(a.LastTryMS))
	}
	if a.Error != nil {
		line, _, _ := strings.Cut(strings.TrimSpace(a.Error.Message), "\n")
		out.ErrorCode, out.ErrorMessage = &a.Error.Code, Text(line)
	}
	return out
}

// RunComparison maps the difference of two runs.
func RunComparison(c reads.RunComparison, of func(control.RunView) *model.Run) *model.RunComparison {
	return &model.RunComparison{A: of(c.A), B: of(c.B), AWaitedMs: c.WaitedA, BWaitedMs: c.WaitedB,
		Params: MapSlice(c.Params, mapPlanPart),
		Steps:  MapSlice(c.Steps, stepComparison)}
}

func stepComparison(c reads.StepComparison) model.StepComparison {
	out := model.StepComparison{StepID: c.StepID, A: comparedStep(c.A), B: comparedStep(c.B),
		Changes: MapSlice(c.Changes, func(s reads.StepChange) model.ComparedChange { return model.ComparedChange(s) })}
	for _, step := range []*run.Step{c.A, c.B} { // the name in b wins
		if step != nil && step.Name != "" {
			out.Name = &step.Name
		}
	}
	return out
}

func comparedStep(s *run.Step) *model.ComparedStep {
	if s == nil {
		return nil
	}
	out := &model.ComparedStep{Status: enumOf[model.StepStatus](s.Status), StatusRaw: string(s.Status),
		Attempts: len(s.Attempts), HasRun: reads.HasRun(s), KeptFrom: Text(reads.KeptFrom(s))}
	if n := len(s.Attempts); n > 0 {
		out.DurationMs = reads.LastDuration(s)
		out.ErrorCode = Text(reads.ErrorCode(s))
	}
	return out
}
