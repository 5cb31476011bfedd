package executor

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"

	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// hookAttempts is added to the engine attempts of a hook, so that its lines and
// artifacts stand behind those of its step, which has at most so many attempts.
const hookAttempts = 10

// Compensate runs the hook of a step that succeeded with d.LogicalAttempt, under
// the key runId:stepId:compensate (R183). beat, errors and output are as for Run;
// what is printed goes to the log of that attempt. The end is COMPLETED, FAILED
// or CANCELLED; values that look secret are hidden in its result too.
func (r *Runner) Compensate(ctx context.Context, d Dispatch, beat func(sofar engine.StepEnd)) (engine.StepEnd, error) {
	end := engine.StepEnd{StepID: d.StepID, LogicalAttempt: d.LogicalAttempt, N: d.N, EngineAttempt: d.EngineAttempt}
	var sofar atomic.Pointer[engine.StepEnd]
	began := end
	sofar.Store(&began)
	defer r.heartbeat(beat, &sofar)()

	hook, err := r.hook(ctx, d)
	if errors.Is(err, store.ErrNotFound) {
		end.Kind = engine.EndFailed
		end.Failed = &run.FailurePayload{
			ErrorCode: CodeInputsInvalid, ErrorMessage: "the plan gives this step no compensation",
			FailureCategory: run.CategoryPlatform, FailureSource: "engine",
		}
		return end, nil
	}
	if err != nil {
		return r.interrupted(ctx, d, end, err)
	}
	of := d
	of.EngineAttempt += hookAttempts
	done, err := r.work(ctx, of, Task{
		Identity: hook.Identity, Step: hook.Step, IdempotencyKey: strings.Join([]string{d.RunID, d.StepID, "compensate"}, ":"),
	}, end)
	if done.Completed != nil {
		done.Completed.Result = hidden(redactor(r.Env, hook.Step.Inputs), done.Completed.Result)
	}
	return done, err
}

// hook reads the hook, again and again until it is answered.
func (r *Runner) hook(ctx context.Context, d Dispatch) (hook engine.Hook, err error) {
	var missing error
	err = persist(ctx, beginRetry, beginRetryMost, func() error {
		hook, err = r.Journal.Compensation(ctx, d.RunID, d.StepID)
		if errors.Is(err, store.ErrNotFound) {
			missing = err
			return nil
		}
		if err != nil {
			r.log().LogAttrs(ctx, slog.LevelWarn, "compensation unanswered",
				slog.String("run", d.RunID), slog.String("step", d.StepID), slog.Any("err", err))
		}
		return err
	})
	if missing != nil {
		err = missing
	}
	return hook, err
}

// hidden is a result without values that look secret.
func hidden(redact *strings.Replacer, v json.RawMessage) json.RawMessage {
	shown := json.RawMessage(redact.Replace(string(v)))
	if len(v) > 0 && !json.Valid(shown) {
		return json.RawMessage(`{"omitted":"the result holds what looks secret"}`)
	}
	return shown
}
