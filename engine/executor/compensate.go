package executor

import (
	"context"
	"encoding/json"
	"strings"
	"sync/atomic"
	"time"

	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/secret/mask"
)

// Compensate runs the hook of a step that succeeded with d.LogicalAttempt, under the idempotency key
// runId:stepId:compensate (contract R183). Otherwise it has the contract of Run. The hook's output goes to the log of
// that attempt. Values of variables and headers with secret names are replaced in its result too.
func (r *Runner) Compensate(ctx context.Context, d Dispatch, beat func(Heartbeat)) (engine.Return, error) {
	var startedAt atomic.Pointer[time.Time]
	var blocked atomic.Pointer[engine.StepWait]
	beaten := &beats{}
	defer r.heartbeat(d, beaten.note(r.now, beat), &startedAt, &blocked)()

	var hook engine.Hook
	back, err := r.begin(ctx, d, &blocked, func(b engine.StartAttempt) (err error) {
		hook, err = r.Journal.Compensation(ctx, b)
		return err
	})
	if err != nil || back.Kind != "" {
		return back, err
	}
	started := r.now().UTC()
	startedAt.Store(&started)

	x := execution{Dispatch: d, identity: hook.Identity, key: hook.Key, hook: true, beats: beaten,
		blocked: &blocked}
	o := r.work(ctx, x, Task{
		Identity: hook.Identity, Step: hook.Step, IdempotencyKey: strings.Join([]string{d.RunID, d.StepID, "compensate"},
			":"),
		SandboxCeiling: hook.SandboxCeiling,
	})
	if o.completed != nil {
		o.completed.Result = redactJSON(newRedactor(r.Env, hook.Step.Inputs, nil, mask.New()), o.completed.Result)
	}
	return r.finish(ctx, x, o)
}

// redactJSON replaces secret values in a JSON document. It replaces the whole document when the result is not JSON, for
// example because the secret value is also a part of the syntax.
func redactJSON(redact redactor, v json.RawMessage) json.RawMessage {
	public := json.RawMessage(redact.Replace(string(v)))
	if len(v) > 0 && !json.Valid(public) {
		return json.RawMessage(`{"omitted":"the result contains a value that may be secret"}`)
	}
	return public
}
