package graph

import (
	"context"

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
	return mapping.MapSlice(causes, causeOf), err
}

func causeOf(c doctor.Cause) model.Cause {
	return model.Cause{
		Code: string(c.Code), Kind: model.CauseKind(c.Kind), Confidence: model.Confidence(c.Confidence), Title: c.Title,
		StepIds: append([]string{}, c.Steps...), MoreSteps: c.More, Since: c.Since, Until: c.Until,
		Evidence: mapping.MapSlice(c.Evidence, evidenceOf), Next: mapping.MapSlice(c.Next, nextStepOf),
	}
}

func evidenceOf(e doctor.Evidence) model.Evidence {
	out := model.Evidence{Source: model.EvidenceSource(e.Source), Text: e.Text, StepID: mapping.Text(e.StepID)}
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

func nextStepOf(n doctor.Next) model.NextStep {
	out := model.NextStep{Text: n.Text, StepID: mapping.Text(n.StepID), Safe: n.Safe}
	if n.Signal != "" {
		out.SignalType = new(model.SignalType(n.Signal))
	}
	return out
}
