package controltest

import (
	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control/runs"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
)

// SignalOf returns a valid signal of a type. Signals to a step are for s1.
func SignalOf(runID, id string, t run.SignalType) runs.SignalRun {
	payload := M{}
	in := runs.SignalRun{RunID: runID, Signal: run.Signal{ID: id, Type: t}}
	about := func(stepID string) { in.Signal.StepID, payload["stepId"] = stepID, stepID }
	switch t {
	case run.RetryStep, run.SkipStep:
		about("s1")
	case run.UpdateParams:
		payload["newParams"] = M{"day": "2026-02-16"}
	case run.InjectOverride:
		about("s1")
		payload["override"] = M{"env": M{"MODE": "safe"}}
	case run.UpdateTarget:
		about("s1")
		payload["newTarget"] = M{"schema": "restored"}
	case run.EscalateAlert:
		payload["level"] = "HIGH"
	}
	if t == run.InjectOverride || t == run.UpdateTarget || t == run.EmergencyStop {
		in.Reason, payload["reason"] = "runaway", "runaway"
	}
	in.Payload = runtest.JSON(payload)
	return in
}

// Send sends a signal that must be accepted or recorded as rejected.
func (w *World) Send(p authz.Principal, in runs.SignalRun) runs.SignalReceipt {
	w.T.Helper()
	return Must[runs.SignalReceipt](w.T)(w.SignalRun(w.T.Context(), p, in))
}

// SendOverlay sends a signal of an admin that is applied when it is accepted.
func (w *World) SendOverlay(in runs.SignalRun) runs.SignalReceipt {
	w.T.Helper()
	r := w.Send(w.Principal("dev-admin"), in)
	if r.Rejected || r.Application != run.SignalApplied || r.AppliedSeq != r.AcceptedSeq || r.AppliedAt == nil {
		w.T.Fatalf("%s is answered %+v, want APPLIED at its acceptance", in.Signal.Type, r)
	}
	return r
}

// OverrideOf returns an INJECT_OVERRIDE for a step.
func OverrideOf(runID, id, stepID string, patch M) runs.SignalRun {
	in := SignalOf(runID, id, run.InjectOverride)
	in.Signal.StepID, in.Payload = stepID, runtest.JSON(M{"stepId": stepID, "override": patch, "reason": "runaway"})
	return in
}

// NewParamsOf returns an UPDATE_PARAMS for a step.
func NewParamsOf(runID, id, stepID string, patch M) runs.SignalRun {
	in := SignalOf(runID, id, run.UpdateParams)
	in.Signal.StepID, in.Payload = stepID, runtest.JSON(M{"newParams": patch})
	return in
}
