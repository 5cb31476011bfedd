package graph

import (
	"sync"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/control/runs"
	"github.com/dvt-engine/dvt/graph/internal/model"
	"github.com/dvt-engine/dvt/run"
)

// availability computes what p may do when it is first asked for. The past
// cannot be acted on, so it offers nothing.
func availability(c UseCases, p authz.Principal, v control.RunView) model.Available {
	return sync.OnceValue(func() runs.Availability {
		if v.Past {
			return runs.Availability{}
		}
		return c.Actions(p, v)
	})
}

// run is a run with its steps, which are made when they are asked for.
func (g *stepGraph) run() *model.Run {
	r := g.header()
	r.StepsOf = g
	return r
}

// header is a run without its steps but with what follows from them.
func (g *stepGraph) header() *model.Run {
	r := mapRow(g.view, g.available, g.wants)
	if g.wants.blocked && r.RootCause != nil && r.RootCause.StepID != nil {
		r.RootCause.BlockedSteps = g.waitingBehind(*r.RootCause.StepID)
	}
	return r
}

// mapRow is a run as lists show it: without its steps.
func mapRow(v control.RunView, available model.Available, w wants) *model.Run {
	h := v.State.Header
	r := &model.Run{
		ID: nodeID(runNode, h.RunID), RunID: h.RunID, TenantID: h.TenantID, ProjectID: h.ProjectID,
		EnvironmentID: h.EnvironmentID,
		Status:        enumOf[model.RunStatus](h.Status), StatusRaw: string(h.Status),
		Substatus: optionalEnum[model.RunSubstatus](h.Substatus()), Message: text(message(v)),
		RunSeq: h.Seq, StoreEpoch: v.Epoch, OpsRev: run.Seq(v.OpsRev),
		Plan: mapPlan(h), Engine: mapEngine(h.Engine),
		TriggeredBy: text(h.TriggeredBy), ParentRunID: text(v.Run.ParentRunID),
		CreatedAt: h.CreatedAt, StartedAt: h.StartedAt, CompletedAt: h.CompletedAt,
		StepCounts: mapCounts(h.Counts), FailedSteps: h.FailedSteps(), RootCause: mapRootCause(v.State),
		Artifacts: []model.Artifact{},
		Pause:     mapPause(h), RetryDeadline: h.RetryDeadline, Queue: mapQueue(v),
		Available: available,
	}
	if w.artifacts {
		r.Artifacts = each(h.Artifacts, mapArtifact)
	}
	if r.CreatedAt.IsZero() {
		r.CreatedAt = v.Run.CreatedAt
	}
	if h.StartedAt != nil && h.CompletedAt != nil {
		r.TotalDurationMs = new(h.CompletedAt.Sub(*h.StartedAt))
	}
	return r
}

func mapPlan(h run.Header) *model.PlanRef {
	p := &model.PlanRef{PlanID: h.PlanID, PlanVersion: h.PlanVersion}
	if h.PlanRef != nil {
		p.SchemaVersion, p.Sha256, p.URI = h.PlanRef.SchemaVersion, h.PlanRef.SHA256, text(h.PlanRef.URI)
	}
	return p
}

func mapEngine(e *run.EngineRunRef) *model.EngineRunRef {
	if e == nil {
		return nil
	}
	return &model.EngineRunRef{Provider: e.Provider, Namespace: text(e.Namespace), WorkflowID: e.WorkflowID,
		EngineRunID: text(e.EngineRunID)}
}

func mapCounts(c run.StepCounts) *model.StepCounts {
	return &model.StepCounts{
		Total: c.Total, Pending: c.Pending, Running: c.Running, Success: c.Success, Failed: c.Failed, Skipped: c.Skipped,
	}
}

// mapRootCause is the error that the run ended with, else the failed attempt
// that holds it up (T214). Blocked steps are counted by header.
func mapRootCause(s run.State) *model.RunError {
	switch f := s.Failure; {
	case f != nil:
		e := &model.RunError{
			RunID: s.RunID, Code: f.Code, Category: optionalEnum[model.FailureCategory](f.Category), Message: text(f.Message),
			Retryable: f.Retryable, FirstSeq: f.Seq,
		}
		if c := f.RootCause; c != nil {
			e.StepID, e.LogicalAttemptID = text(c.StepID), optional(c.LogicalAttempt)
			e.Code, e.Message = c.ErrorCode, text(c.ErrorMessage)
		}
		if s.RootCause != nil {
			e.FirstSeq = s.RootCause.Seq
		}
		return e
	case s.RootCause != nil && s.RootCause.Error != nil:
		cause := s.RootCause.Error
		return &model.RunError{
			RunID: s.RunID, StepID: &s.RootCause.StepID, LogicalAttemptID: &s.RootCause.LogicalAttempt,
			FirstSeq: s.RootCause.Seq,
			Code:     cause.Code, Message: text(cause.Message), Retryable: cause.Retryable,
			Category: optionalEnum[model.FailureCategory](cause.Category),
		}
	}
	return nil
}

func mapPause(h run.Header) *model.PauseInfo {
	p := h.Pause
	if p == nil {
		return nil
	}
	return &model.PauseInfo{
		SignalID: p.SignalID, RequestedBy: text(p.RequestedBy), Reason: text(p.Reason), Since: p.Since, RunSeq: p.Seq,
		Draining: h.RunningSteps(),
	}
}

func mapRunsPage(c UseCases, p authz.Principal, page control.RunsPage, w wants) *model.RunConnection {
	edges := make([]model.RunEdge, len(page.Runs))
	for i, v := range page.Runs {
		edges[i] = model.RunEdge{Cursor: page.Cursors[i], Node: graphOf(v, availability(c, p, v), w).run()}
	}
	return &model.RunConnection{
		Edges:    edges,
		PageInfo: pageInfo(edges, func(e model.RunEdge) string { return e.Cursor }, page.HasNext, page.HasPrev),
	}
}
