package graph

import (
	"encoding/json"
	"fmt"

	"github.com/dvt-engine/dvt/graph/internal/mapping"

	"github.com/dvt-engine/dvt/control/bulk"
	"github.com/dvt-engine/dvt/control/runs"
	"github.com/dvt-engine/dvt/graph/internal/model"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
)

func startOf(in model.StartRunInput) runs.StartRun {
	return runs.StartRun{
		RequestID: in.RunRequestID, ProjectID: in.ProjectID, EnvironmentID: in.EnvironmentID,
		Inline: in.Plan.Inline, Ref: planRef(in.Plan.Ref), Params: in.Params, Priority: in.Priority,
	}
}

func planRef(in *model.PlanRefInput) *plan.Ref {
	if in == nil {
		return nil
	}
	out := &plan.Ref{
		URI: in.URI, SHA256: in.Sha256, SchemaVersion: in.SchemaVersion, PlanID: in.PlanID, PlanVersion: in.PlanVersion,
		SizeBytes: int64(mapping.OrZero(in.SizeBytes)), Compression: mapping.OrZero(in.Compression), Mirrors: in.Mirrors,
		ExpiresAt: mapping.OrZero(in.ExpiresAt), SchemaEvolutionPath: mapping.OrZero(in.SchemaEvolutionPath),
	}
	if h := in.MigrationHint; h != nil {
		out.MigrationHint = &plan.MigrationHint{SourceVersion: h.SourceVersion, TargetVersion: h.TargetVersion,
			TransformScript: mapping.OrZero(h.TransformScript)}
	}
	return out
}

func rerunOf(in model.RerunInput) runs.Rerun {
	return runs.Rerun{
		RunID: in.RunID, RequestID: in.RunRequestID, Reason: mapping.OrZero(in.Reason),
		Start: mapping.OrZero(in.From.Start), Failed: mapping.OrZero(in.From.Failed), Steps: in.From.Steps,
		Params: paramsOf(in.Params),
	}
}

// paramsOf returns nil for params that are left out or null: the new run then has those of the earlier run.
func paramsOf(in json.RawMessage) json.RawMessage {
	if string(in) == "null" {
		return nil
	}
	return in
}

func completionOf(in model.CompleteManualStepInput) runs.CompleteManualStep {
	return runs.CompleteManualStep{
		RunID: in.RunID, StepID: in.StepID, Token: in.Token, Outcome: run.ManualOutcome(in.Outcome),
		Notes:        mapping.OrZero(in.Notes),
		EvidenceRefs: in.EvidenceRefs, CompletedAt: mapping.OrZero(in.CompletedAt), Actor: mapping.OrZero(in.Actor),
		ExpectedRunSeq: in.ExpectedRunSeq,
	}
}

// signalOf returns the command for the one member of a @oneOf input that is set. Its error is BAD_USER_INPUT when none
// is.
func signalOf(runID, signalID string, s model.SignalInput) (runs.SignalRun, error) {
	out := runs.SignalRun{RunID: runID, Signal: run.Signal{ID: signalID}}
	sig := &out.Signal
	switch {
	case s.Pause != nil:
		sig.Type = run.Pause
		return out, setPayload(&out, s.Pause.Reason, s.Pause)
	case s.Resume != nil:
		sig.Type = run.Resume
		return out, setPayload(&out, s.Resume.Reason, s.Resume)
	case s.RetryStep != nil:
		r := *s.RetryStep
		r.Force = new(mapping.OrZero(r.Force)) // null means the default, so it must have the same bytes as the default
		sig.Type, sig.StepID, sig.Force, sig.ExpectedAttempt = run.RetryStep, r.StepID, *r.Force,
			mapping.OrZero(r.ExpectedLogicalAttemptID)
		return out, setPayload(&out, r.Reason, r)
	case s.SkipStep != nil:
		sig.Type, sig.StepID = run.SkipStep, s.SkipStep.StepID
		return out, setPayload(&out, s.SkipStep.Reason, s.SkipStep)
	case s.UpdateParams != nil:
		sig.Type, sig.StepID = run.UpdateParams, mapping.OrZero(s.UpdateParams.StepID)
		return out, setPayload(&out, s.UpdateParams.Reason, s.UpdateParams)
	case s.InjectOverride != nil:
		sig.Type, sig.StepID = run.InjectOverride, s.InjectOverride.StepID
		return out, setPayload(&out, &s.InjectOverride.Reason, s.InjectOverride)
	case s.EscalateAlert != nil:
		sig.Type = run.EscalateAlert
		return out, setPayload(&out, s.EscalateAlert.Note, s.EscalateAlert)
	case s.UpdateTarget != nil:
		sig.Type, sig.StepID = run.UpdateTarget, s.UpdateTarget.StepID
		return out, setPayload(&out, &s.UpdateTarget.Reason, s.UpdateTarget)
	case s.EmergencyStop != nil:
		e := *s.EmergencyStop
		e.ForceKill = new(mapping.OrZero(e.ForceKill))
		sig.Type, sig.Force = run.EmergencyStop, *e.ForceKill
		return out, setPayload(&out, &e.Reason, e)
	}
	return out, badInput("signal", "MISSING", "choose what to do, such as pause, resume or retryStep")
}

func cancelOf(in model.CancelRunInput) (runs.SignalRun, error) {
	out := runs.SignalRun{RunID: in.RunID, ExpectedRunSeq: in.ExpectedRunSeq, Signal: run.Signal{ID: in.SignalID,
		Type: run.Cancel}}
	return out, setPayload(&out, in.Reason, model.PauseInput{Reason: in.Reason})
}

// setPayload stores the chosen member as compact JSON. control compares its bytes with those of a repeated signal and
// counts them against the size limit (contract T228).
func setPayload(s *runs.SignalRun, reason *string, member any) error {
	doc, err := json.Marshal(member)
	if err != nil {
		return fmt.Errorf("graph: signal payload: %w", err)
	}
	s.Reason, s.Payload = mapping.OrZero(reason), doc
	return nil
}

// actionOf returns the preview for the one member of a @oneOf input that is set. Its error is BAD_USER_INPUT when none
// is.
func actionOf(in model.ActionInput) (runs.PreviewAction, error) {
	switch {
	case in.Signal != nil:
		s, err := signalOf(in.Signal.RunID, "", *in.Signal.Signal)
		return runs.PreviewAction{Signal: &s}, err
	case in.Cancel != nil:
		s, err := cancelOf(model.CancelRunInput{RunID: in.Cancel.RunID})
		return runs.PreviewAction{Signal: &s}, err
	case in.CompleteManualStep != nil:
		return runs.PreviewAction{CompleteManual: new(completionOf(*in.CompleteManualStep))}, nil
	case in.Rerun != nil:
		return runs.PreviewAction{Rerun: new(rerunOf(*in.Rerun))}, nil
	case in.Start != nil:
		return runs.PreviewAction{Start: new(startOf(*in.Start))}, nil
	case in.Approve != nil:
		return runs.PreviewAction{Approve: &runs.ApproveRun{RunID: in.Approve.RunID,
			Reject: in.Approve.Decision == model.DecisionReject}}, nil
	}
	return runs.PreviewAction{}, badInput("action", "MISSING", "choose an action, such as signal or cancel")
}

// bulkPreviewOf returns the command that previews a bulk.
func bulkPreviewOf(in model.BulkPreviewInput) (bulk.PreviewBulk, error) {
	runs, err := bulkRunsOf(*in.Runs)
	if err != nil {
		return bulk.PreviewBulk{}, err
	}
	signal, rerun, err := bulkActionOf(*in.Action)
	return bulk.PreviewBulk{Runs: runs, Signal: signal, Rerun: rerun}, err
}
