package temporal

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/engine/ticket"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// A SLEEP is a timer of the workflow, so no worker is busy while it waits. The control worker reports its start and its
// end to the Journal with a ticket and a key, like those of any other step.

// sleepResult is the result of the start of a SLEEP. It names the attempt for a Historian, because a local activity
// leaves no input in the history.
type sleepResult struct {
	StepID         string `json:"stepId"`
	LogicalAttempt int    `json:"logicalAttempt"`
	SignalID       string `json:"signalId,omitempty"` // see executeInput
	// Kind is set when the workflow must not wait.
	Kind       engine.ReturnKind `json:"kind,omitempty"`
	RetryAfter time.Duration     `json:"retryAfter,omitempty"`
	Receipt    *engine.Receipt   `json:"receipt,omitempty"` // of an end that the log has
	StartedSeq run.Seq           `json:"startedSeq,omitempty"`
	For        time.Duration     `json:"for,omitempty"`
	// TimesOut means that the step's timeout is shorter than its sleep; For is then the timeout.
	TimesOut bool `json:"timesOut,omitempty"`
}

// wakeUpInput is the input of the end of a SLEEP.
type wakeUpInput struct {
	executeInput
	StartedSeq run.Seq       `json:"startedSeq"`
	Slept      time.Duration `json:"slept"`
	TimesOut   bool          `json:"timesOut,omitempty"`
}

// sealedWakeUp is a sealed wakeUpInput for the log queue, because anybody with access to Temporal can schedule
// activities there.
type sealedWakeUp struct {
	Body []byte `json:"body"`
	Seal string `json:"seal"`
}

const sealWakeUp = "wake-up"

// sleep executes a SLEEP in coroutines. The end of cancellable ends the wait.
func (d *driver) sleep(cancellable workflow.Context, id string, in executeInput) {
	call(d, activitySleep, d.log.sleep, in, in, func(out sleepResult) {
		if out.Kind != "" {
			d.takeReturn(id, in, engine.Return{
				StepID: in.StepID, LogicalAttempt: in.LogicalAttempt, N: in.N, EngineAttempt: in.Spent + 1, Kind: out.Kind,
				RetryAfter: out.RetryAfter,
				Receipt:    out.Receipt,
			}, nil, false)
			return
		}
		timer := workflow.NewTimer(cancellable, out.For)
		workflow.Go(d.ctx, func(ctx workflow.Context) {
			if err := timer.Get(ctx, nil); err != nil {
				d.takeReturn(id, in, engine.Return{}, err, false)
				return
			}
			end := wakeUpInput{executeInput: in, StartedSeq: out.StartedSeq, Slept: out.For, TimesOut: out.TimesOut}
			body, err := json.Marshal(end)
			if err != nil {
				panic(err) // unreachable: numbers and ids always marshal
			}
			sealed := sealedWakeUp{Body: body, Seal: d.keys.Seal(sealWakeUp, string(body))}
			call(d, activityWakeUp, d.log.wakeUp, end, sealed, func(out engine.Return) { d.takeReturn(id, in, out, nil, false) })
		})
	})
}

// sleep starts a SLEEP in the Journal and returns its duration. It is a local activity; see localNames.
func (l *logActivities) sleep(ctx context.Context, in executeInput) (sleepResult, error) {
	out := sleepResult{StepID: in.StepID, LogicalAttempt: in.LogicalAttempt, SignalID: in.SignalID}
	if err := l.fence(ctx, in.Epoch); err != nil {
		return out, err
	}
	begun, err := l.journal.StartAttempt(ctx, engine.StartAttempt{
		RunID: in.RunID, StepID: in.StepID, LogicalAttempt: in.LogicalAttempt, N: in.N, EngineAttempt: in.Spent + 1,
		EmittedAt: time.Now().UTC(), Ticket: in.Ticket,
	})
	if errors.Is(err, engine.ErrRefused) {
		out.Kind = engine.ReturnAbandoned
		return out, nil
	}
	if err != nil {
		return out, retryError(err)
	}
	out.StartedSeq = begun.StartedSeq
	switch begun.Verdict {
	case store.StartGranted:
	case store.StartParked:
		out.Kind = engine.ReturnParked
		return out, nil
	case store.StartThrottled:
		out.Kind, out.RetryAfter = engine.ReturnThrottled, begun.RetryAfter
		return out, nil
	case store.StartRunTerminal:
		out.Kind = engine.ReturnRunTerminal
		return out, nil
	case store.StartDone:
		out.Kind, out.Receipt = engine.ReturnEnded, begun.Receipt
		return out, nil
	}
	inputs, err := plan.DecodeSleep(begun.Step.Inputs)
	if err != nil {
		_, err = l.journal.End(ctx, l.end(in, begun.StartedSeq, &run.FailurePayload{
			ErrorCode: "INPUTS_INVALID", ErrorMessage: err.Error(), FailureCategory: run.CategoryUser,
			FailureSource: string(plan.Sleep),
		}))
		out.Kind = engine.ReturnEnded
		return out, retryError(err)
	}
	out.For = time.Duration(inputs.MS) * time.Millisecond
	if limit := begun.Step.Timeout; limit > 0 && limit < out.For {
		out.For, out.TimesOut = limit, true
	}
	return out, nil
}

// wakeUp writes the end of a SLEEP to the Journal. It is a local activity; see localNames.
func (l *logActivities) wakeUp(ctx context.Context, in wakeUpInput) (engine.Return, error) {
	out := engine.Return{StepID: in.StepID, LogicalAttempt: in.LogicalAttempt, N: in.N, EngineAttempt: in.Spent + 1,
		Kind: engine.ReturnEnded}
	if err := l.fence(ctx, in.Epoch); err != nil {
		return out, err
	}
	end := l.end(in.executeInput, in.StartedSeq, nil)
	end.Completed = &run.StepCompletedPayload{
		Result: json.RawMessage(fmt.Sprintf(`{"sleptMs":%d}`, in.Slept.Milliseconds())), DurationMS: in.Slept.Milliseconds(),
	}
	if in.TimesOut {
		end.Completed, end.Failed = nil, &run.FailurePayload{
			ErrorCode: string(run.CodeTimeout), ErrorMessage: fmt.Sprintf("the attempt took longer than its timeout of %s",
				plan.DurationWords(in.Slept)), Retryable: true,
			FailureCategory: run.CategoryTimeout, FailureSource: string(plan.Sleep), DurationMS: in.Slept.Milliseconds(),
		}
	}
	receipt, err := l.journal.End(ctx, end)
	switch {
	case errors.Is(err, engine.ErrRefused): // the run has ended, so the Return has no receipt
	case err != nil:
		return out, retryError(err)
	default:
		out.Receipt = &receipt
	}
	return out, nil
}

// wakeUpSealed is wakeUp for the log queue. It verifies the seal of its input.
func (l *logActivities) wakeUpSealed(ctx context.Context, in sealedWakeUp) (engine.Return, error) {
	var w wakeUpInput
	if !l.keys.VerifySeal(in.Seal, sealWakeUp, string(in.Body)) || json.Unmarshal(in.Body, &w) != nil {
		return engine.Return{}, sealError(l.keys, in.Seal, "no worker of this installation asked for this end")
	}
	return l.wakeUp(ctx, w)
}

// end returns the end of a SLEEP that started at the position started, with its key.
func (l *logActivities) end(in executeInput, started run.Seq, failed *run.FailurePayload) engine.End {
	of := ticket.Execution{
		RunID: in.RunID, StepID: in.StepID, LogicalAttempt: in.LogicalAttempt, N: in.N, EngineAttempt: in.Spent + 1,
		StartedSeq: started,
	}
	return engine.End{
		RunID: of.RunID, StepID: of.StepID, LogicalAttempt: of.LogicalAttempt, N: of.N, EngineAttempt: of.EngineAttempt,
		StartedSeq: started, Key: l.keys.Key(of), Failed: failed,
	}
}
