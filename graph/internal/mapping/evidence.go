package mapping

import (
	"github.com/dvt-engine/dvt/control/reads"
	"github.com/dvt-engine/dvt/graph/internal/model"
)

// StepEvidence maps the evidence of a step.
func StepEvidence(e reads.StepEvidence) *model.StepEvidence {
	out := &model.StepEvidence{LogicalAttemptID: e.Attempt, Engine: Text(e.Engine),
		Tries: MapSlice(e.Tries, stepTry)}
	if c := e.Compensation; c != nil {
		out.Compensation = &model.StepCompensation{
			Compensated: c.Compensated, Attempts: c.Attempts, EndedAt: c.At, IdempotencyKey: c.IdempotencyKey,
			ErrorCode: Text(c.ErrorCode), ErrorMessage: Text(c.ErrorMessage), Result: c.Result,
		}
	}
	return out
}

func stepTry(t reads.StepTry) model.StepTry {
	out := model.StepTry{
		EngineAttemptID: t.EngineAttempt, Outcome: enumOf[model.TryOutcome](t.Outcome), Worker: Text(t.Worker),
		Account: Text(t.Account), StartedAt: Optional(t.StartedAt), EndedAt: Optional(t.EndedAt),
		LastHeartbeatAt: Optional(t.LastHeartbeatAt), ErrorCode: Text(t.ErrorCode), ErrorClass: Text(t.ErrorClass),
		ExitStatus: t.ExitStatus, Signal: Text(t.Signal), Stack: Text(t.Stack),
	}
	if t.Recorded {
		out.LogLines, out.LogBytes = new(float64(t.LogLines)), new(float64(t.LogBytes))
	}
	return out
}
