package graph

import (
	"context"
	"net/url"
	"strconv"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/graph/internal/mapping"
	"github.com/dvt-engine/dvt/graph/internal/model"
	"github.com/dvt-engine/dvt/run/doctor"
)

// Diagnoses explains why runs failed or do not continue.
type Diagnoses interface {
	Diagnose(ctx context.Context, p authz.Principal, runID string) ([]doctor.Cause, error)
}

func (r runFields) Diagnosis(ctx context.Context, of *model.Run) ([]model.Cause, error) {
	causes, err := r.control.Diagnose(ctx, principal(ctx), of.RunID)
	return mapping.MapSlice(causes, func(c doctor.Cause) model.Cause { return causeOf(of.RunID, c) }), err
}

func causeOf(runID string, c doctor.Cause) model.Cause {
	return model.Cause{
		Code: string(c.Code), Kind: model.CauseKind(c.Kind), Confidence: model.Confidence(c.Confidence), Title: c.Title,
		StepIds: append([]string{}, c.Steps...), MoreSteps: c.More, Since: c.Since, Until: c.Until,
		Evidence: mapping.MapSlice(c.Evidence, func(e doctor.Evidence) model.Evidence { return evidenceOf(runID, c, e) }),
		Next:     mapping.MapSlice(c.Next, nextStepOf),
	}
}

func evidenceOf(runID string, c doctor.Cause, e doctor.Evidence) model.Evidence {
	out := model.Evidence{Source: model.EvidenceSource(e.Source), Text: e.Text, StepID: mapping.Text(e.StepID),
		Page: pageOfEvidence(runID, c, e), Metric: mapping.Text(e.Metric)}
	if e.Seq > 0 {
		out.RunSeq = new(e.Seq)
	}
	if e.Attempt > 0 {
		out.LogicalAttemptID = new(e.Attempt)
	}
	if e.Line > 0 {
		out.Line = new(float64(e.Line))
	}
	return out
}

// pageOfEvidence returns the path of the page that shows a fact about a run.
func pageOfEvidence(runID string, c doctor.Cause, e doctor.Evidence) string {
	path, query := "/runs/"+url.PathEscape(runID), url.Values{}
	if e.StepID != "" {
		query.Set("step", e.StepID)
	}
	switch {
	case e.Seq > 0:
		query = url.Values{"view": {"events"}, "seq": {strconv.FormatInt(int64(e.Seq), 10)}}
	case e.Source == doctor.FromOutput:
		query.Set("tab", "log")
		query.Set("attempt", strconv.Itoa(e.Attempt))
		if e.Line > 0 {
			query.Set("line", strconv.FormatInt(e.Line, 10))
		}
	case e.Source == doctor.FromHealth:
		path = "/health"
	case e.Source == doctor.FromWorkers:
		path = "/workers"
	case e.Source == doctor.FromQueue && c.Code != doctor.CodeWaitsForApproval:
		path = "/queue"
	case e.RunID != "":
		path, query = "/compare", url.Values{"a": {e.RunID}, "b": {runID}}
	}
	if len(query) == 0 {
		return path
	}
	return path + "?" + query.Encode()
}

func nextStepOf(n doctor.Next) model.NextStep {
	out := model.NextStep{Text: n.Text, StepID: mapping.Text(n.StepID), Safe: n.Safe, Force: n.Force}
	if n.Signal != "" {
		out.SignalType = new(model.SignalType(n.Signal))
	}
	return out
}
