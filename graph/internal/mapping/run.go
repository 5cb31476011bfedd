package mapping

import (
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/graph/internal/model"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/trace"
)

// CostlyParts says which costly parts of a run an operation selects. The others need not be mapped.
type CostlyParts struct{ Artifacts, Attempts, Wait, Blocked, NotBefore bool }

// AllCostlyParts selects all costly parts.
func AllCostlyParts() CostlyParts { return CostlyParts{true, true, true, true, true} }

// Run maps the run. Its steps are mapped only when they are selected.
func (g *Graph) Run() *model.Run {
	r := g.header()
	r.StepsOf = g
	return r
}

// header maps the run without its steps, but with the numbers of blocked and held steps.
func (g *Graph) header() *model.Run {
	r := mapRow(g.View, g.available, g.CostlyParts)
	if g.CostlyParts.Blocked && r.RootCause != nil && r.RootCause.StepID != nil {
		if !g.View.State.Status.Terminal() {
			r.RootCause.BlockedSteps = g.waitingBehind(*r.RootCause.StepID)
			r.RootCause.HeldSteps = g.hold().Count
		}
	}
	return r
}

// mapRow maps a run for a list: without its steps.
func mapRow(v control.RunView, available model.Available, w CostlyParts) *model.Run {
	h := v.State.Header
	r := &model.Run{
		ID: nodeID(RunNode, h.RunID), RunID: h.RunID, TenantID: h.TenantID, ProjectID: h.ProjectID,
		EnvironmentID: h.EnvironmentID,
		Status:        enumOf[model.RunStatus](h.Status), StatusRaw: string(h.Status),
		Substatus: optionalEnum[model.RunSubstatus](h.Substatus()), Message: Text(statusMessage(v)),
		RunSeq: h.Seq, StoreEpoch: v.Epoch, OpsRev: run.Seq(v.OpsRev),
		Plan: mapPlan(h), Engine: mapEngine(h.Engine),
		TriggeredBy: Text(h.TriggeredBy), ParentRunID: Text(v.Run.ParentRunID),
		TraceID:   trace.IDOf(h.RunID).String(),
		CreatedAt: h.CreatedAt, StartedAt: h.StartedAt, CompletedAt: h.CompletedAt,
		StepCounts: mapCounts(h.Counts), FailedSteps: h.FailedSteps(), RootCause: mapRootCause(v.State),
		Cancellation: mapCancellation(h.Cancellation),
		Artifacts:    []model.Artifact{},
		Pause:        mapPause(h), RetryDeadline: h.RetryDeadline, Deadline: h.DueAt(), Queue: Queue(v),
		WaitsForApprovals: approvalCount(v), Available: available,
	}
	if w.Artifacts {
		r.Artifacts = MapSlice(h.Artifacts, artifactOf(h.TenantID, h.RunID))
	}
	if !v.Run.CreatedAt.IsZero() {
		r.RequestedAt = &v.Run.CreatedAt
	}
	if h.Policy != nil {
		r.RetryWindowMs = new(milliseconds(h.Policy.RetryWindowMS))
	}
	if r.CreatedAt.IsZero() {
		r.CreatedAt = v.Run.CreatedAt
	}
	r.TotalDurationMs = h.Duration()
	return r
}

// statusMessage returns the message of the header. A run that is PENDING but not in the queue waits for approval
// (contract T36).
func statusMessage(v control.RunView) string {
	h := v.State.Header
	if h.Status == run.Pending && !h.Queued && !v.Past {
		return "The run waits for approval."
	}
	return h.Message()
}

// approvalCount counts the approvals of a run that waits for them; nil for other runs.
func approvalCount(v control.RunView) *model.ApprovalCount {
	h := v.State.Header
	if v.Approval == nil || h.Status != run.Pending || h.Queued || v.Past {
		return nil
	}
	out := &model.ApprovalCount{Required: v.Approval.Required}
	for _, d := range v.Approval.Decisions {
		if d.Approved {
			out.Given++
		}
	}
	return out
}

func mapPlan(h run.Header) *model.PlanRef {
	p := &model.PlanRef{PlanID: h.PlanID, PlanVersion: h.PlanVersion}
	if h.PlanRef != nil {
		r := h.PlanRef
		p.SchemaVersion, p.Sha256, p.URI = r.SchemaVersion, r.SHA256, Text(r.URI)
		p.Compression, p.SchemaEvolutionPath = Text(r.Compression), Text(r.SchemaEvolutionPath)
		p.Mirrors, p.AnsweredBy, p.SchemaEnd = r.Mirrors, Text(h.PlanMirror), Text(plan.SchemaEnd(r.SchemaVersion))
		if !r.ExpiresAt.IsZero() {
			p.ExpiresAt = &r.ExpiresAt
		}
		if r.MigrationHint != nil {
			p.MigrationHint = &model.MigrationHint{SourceVersion: r.MigrationHint.SourceVersion,
				TargetVersion: r.MigrationHint.TargetVersion, TransformScript: Text(r.MigrationHint.TransformScript)}
		}
	}
	return p
}

func mapEngine(e *run.EngineRunRef) *model.EngineRunRef {
	if e == nil {
		return nil
	}
	return &model.EngineRunRef{Provider: e.Provider, Namespace: Text(e.Namespace), WorkflowID: e.WorkflowID,
		EngineRunID: Text(e.EngineRunID), TaskQueue: Text(e.TaskQueue)}
}

func mapCounts(c run.StepCounts) *model.StepCounts {
	return &model.StepCounts{
		Total: c.Total, Pending: c.Pending, Running: c.Running, Success: c.Success, Failed: c.Failed, Skipped: c.Skipped,
		Stopped: c.Stopped, Kept: c.Kept,
	}
}

// mapRootCause maps the error with which the run ended, or else the failed attempt that blocks it (contract T214).
// An attempt that the cancellation of the run ended explains nothing. header adds the numbers of steps.
func mapRootCause(s run.State) *model.RunError {
	switch f := s.Failure; {
	case f == nil && s.Status == run.Cancelled && s.RootCause != nil && s.RootCause.Error.IsStop():
		return nil
	case f != nil:
		e := &model.RunError{
			RunID: s.RunID, Code: f.Code, Category: optionalEnum[model.FailureCategory](f.Category), Message: Text(f.Message),
			Retryable: f.Retryable, FirstSeq: f.Seq,
		}
		if c := f.RootCause; c != nil {
			e.StepID, e.LogicalAttemptID = Text(c.StepID), Optional(c.LogicalAttempt)
			e.Code, e.Message = c.ErrorCode, Text(c.ErrorMessage)
		}
		if s.RootCause != nil {
			e.FirstSeq = s.RootCause.Seq
			if e.StepID != nil && *e.StepID == s.RootCause.StepID {
				e.StepName = Text(s.RootCause.Name)
			}
		}
		return e
	case s.RootCause != nil && s.RootCause.Error != nil:
		cause := s.RootCause.Error
		return &model.RunError{
			RunID: s.RunID, StepID: &s.RootCause.StepID, LogicalAttemptID: &s.RootCause.LogicalAttempt,
			FirstSeq: s.RootCause.Seq, StepName: Text(s.RootCause.Name),
			Code: cause.Code, Message: Text(cause.Message), Retryable: cause.Retryable,
			Category: optionalEnum[model.FailureCategory](cause.Category),
		}
	}
	return nil
}

func mapCancellation(c *run.Cancellation) *model.Cancellation {
	if c == nil {
		return nil
	}
	return &model.Cancellation{
		SignalID: Text(c.SignalID), SignalType: optionalEnum[model.SignalType](c.SignalType), Actor: Text(c.Actor),
		Reason: Text(c.Reason), Code: Text(string(c.Code)), At: c.At, RunSeq: c.Seq,
	}
}

func mapPause(h run.Header) *model.PauseInfo {
	p := h.Pause
	if p == nil {
		return nil
	}
	return &model.PauseInfo{
		SignalID: p.SignalID, RequestedBy: Text(p.RequestedBy), Reason: Text(p.Reason), Since: p.Since, RunSeq: p.Seq,
		Draining: h.RunningSteps(),
	}
}

// RunsPage maps a page of runs. available returns the actions of the viewer on a run; it is called only when they are
// selected.
func RunsPage(page control.RunsPage, available func(control.RunView) model.Available,
	w CostlyParts) *model.RunConnection {
	edges := make([]model.RunEdge, len(page.Runs))
	for i, v := range page.Runs {
		edges[i] = model.RunEdge{Cursor: page.Cursors[i], Node: GraphOf(v, available(v), w).Run()}
	}
	return &model.RunConnection{
		Edges:    edges,
		PageInfo: PageInfo(edges, func(e model.RunEdge) string { return e.Cursor }, page.HasNext, page.HasPrev),
	}
}
