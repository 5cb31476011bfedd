package journal

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/engine/ticket"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// End implements engine.AttemptJournal.
func (a *attempts) End(ctx context.Context, e engine.End) (out engine.Receipt, err error) {
	key := fmt.Sprintf("%s/%s/%d/end", e.RunID, e.StepID, e.LogicalAttempt)
	call := refusedCall{call: "end", actor: a.worker.ID, runID: e.RunID, stepID: e.StepID,
		attemptID: fmt.Sprintf("%d.%d", e.LogicalAttempt, e.EngineAttempt)}
	err = a.write(ctx, key, call, func(ctx context.Context) error {
		out, err = a.end(ctx, e)
		return err
	})
	return out, err
}

func (a *attempts) end(ctx context.Context, e engine.End) (engine.Receipt, error) {
	j := a.journal
	if err := a.checkKey(ctx, e.Key, ticket.Execution{
		RunID: e.RunID, StepID: e.StepID, LogicalAttempt: e.LogicalAttempt, N: e.N, EngineAttempt: e.EngineAttempt,
		Hook:       e.Hook,
		StartedSeq: e.StartedSeq,
	}); err != nil {
		return engine.Receipt{}, err
	}
	if (e.Completed == nil) == (e.Failed == nil) {
		return engine.Receipt{}, endError("/", "an end has either completed or failed")
	}
	f, i, err := j.stepOf(ctx, e.RunID, e.StepID)
	if err != nil {
		return engine.Receipt{}, err
	}
	if e.LostLines > 0 {
		j.noteLostLines(ctx, f, e)
	}
	var batch store.Append
	if e.Hook {
		batch, err = j.hookEndOf(e)
	} else {
		batch, err = j.endOf(ctx, f, e)
	}
	if err != nil {
		return engine.Receipt{}, err
	}
	before := f.Log.Highest()
	out, err := j.cfg.Store.Log.Append(ctx, batch)
	if err != nil {
		return engine.Receipt{}, err
	}
	f.Log.Observe(before, out.Head.LastSeq)
	if j.cfg.Ended != nil && !e.Hook {
		j.cfg.Ended(string(f.plan.Steps[i].Type), e.Failed != nil)
	}
	return j.endReceipt(ctx, f, i, e, batch, out)
}

// checkKey verifies that the worker serves the run and that key is the key of execution x.
func (a *attempts) checkKey(ctx context.Context, key string, x ticket.Execution) error {
	if _, err := a.identityOf(ctx, x.RunID); err != nil {
		return err
	}
	if !a.journal.cfg.Tickets.Fits(key, x) {
		return newRefusal("key", "the key is not that of step %s, attempt %d, dispatch %d, engine attempt %d", x.StepID,
			x.LogicalAttempt, x.N, x.EngineAttempt)
	}
	return nil
}

// endError returns the run.SchemaError for an end that cannot become an event.
func endError(path, message string) error {
	return &run.SchemaError{Violations: []plan.Violation{{Path: path, Message: message}}}
}

// endOf builds the append of an attempt's end. A worker reports only the outcome of the work. The engine and the store
// decide the signal, the reuse and the end of a retry window, so these fields of the worker are dropped.
func (j *Journal) endOf(ctx context.Context, f *RunFacts, e engine.End) (store.Append, error) {
	now := j.cfg.Now()
	draft := j.endDraft(e, now, e.EngineAttempt)
	batch := store.Append{RunID: e.RunID, IfStarted: true}
	var payload any
	refs, err := j.stampArtifacts(ctx, f.run.TenantID, e, now)
	if err != nil {
		return batch, err
	}
	if e.Completed != nil {
		p := *e.Completed
		p.ArtifactRefs = refs
		p.RetryDeadline, p.Manual, p.Reused = nil, nil, nil
		draft.Type, payload = run.StepCompletedEvent, p
	} else {
		p := *e.Failed
		// Such a failure does not count as one, so workers may not claim it.
		if p.ErrorCode == string(run.CodeCancelledByPause) {
			return batch, endError("/failed/errorCode", "only the engine ends an attempt with "+p.ErrorCode)
		}
		p.RetryDeadline, p.Manual = nil, nil
		p.ArtifactRefs = refs
		draft.Type, payload = run.StepFailedEvent, p
		batch.SetGate = run.GateFailing
	}
	if window := f.run.Policy.For(f.plan).RetryWindowMS; window > 0 {
		batch.RetryDeadline = now.Add(time.Duration(window) * time.Millisecond)
	}
	if draft.Payload, err = json.Marshal(payload); err != nil {
		return batch, endError("/completed/result", err.Error())
	}
	batch.Events = []run.Draft{draft}
	return batch, nil
}

// stampArtifacts returns the references of an end with the kinds of the vocabulary and the times at which they expire.
// A worker may name any kind and any time, but the tenant's policy decides how long artifacts are kept.
func (j *Journal) stampArtifacts(ctx context.Context, tenantID string, e engine.End, now time.Time) (
	[]run.ArtifactRef, error) {
	var out []run.ArtifactRef
	if e.Completed != nil {
		out = slices.Clone(e.Completed.ArtifactRefs)
	} else {
		out = slices.Clone(e.Failed.ArtifactRefs)
	}
	for i := range out {
		out[i].Kind, out[i].ExpiresAt = out[i].Kind.Known(), nil
		if j.cfg.Expiry == nil {
			continue
		}
		at, err := j.cfg.Expiry(ctx, tenantID, out[i].Kind, now)
		if err != nil {
			return nil, err
		}
		out[i].ExpiresAt = at
	}
	return out, nil
}

func (j *Journal) endDraft(e engine.End, now time.Time, engineAttempt int) run.Draft {
	return run.Draft{StepID: e.StepID, LogicalAttempt: e.LogicalAttempt, EngineAttempt: engineAttempt, EmittedAt: now,
		EmittedBy: run.ByEngine}
}

// endReceipt returns the receipt of the end that is in the log after the store answered: the worker's own, or an
// earlier one.
func (j *Journal) endReceipt(ctx context.Context, f *RunFacts, i int, e engine.End, batch store.Append,
	out store.Appended) (engine.Receipt, error) {
	j.writes.compare(ctx, batch, out)
	d, o := batch.Events[0], out.Outcomes[0]
	end := engine.Receipt{Seq: o.Seq, Type: d.Type, At: o.EmittedAt, StartedSeq: e.StartedSeq}
	switch o.Refused {
	case "":
	case run.CodeInvalidTransition:
		end.Seq, end.Type, end.At = o.Existing.Seq, o.Existing.Type, o.Existing.EmittedAt
	case run.CodeStepNotStarted:
		return engine.Receipt{}, newRefusal("not_started", "attempt %d of step %s never began", d.LogicalAttempt, d.StepID)
	case run.CodeOrphanedTask:
		return engine.Receipt{}, &refusal{reason: "run_over", text: "the run is over", recorded: true}
	default:
		return engine.Receipt{}, fmt.Errorf("control: the end of step %s was refused: %s", d.StepID, o.Refused)
	}
	f.Log.note(end.Type, i, d.LogicalAttempt, end.Seq)
	return j.prove(end, out.Head, e.RunID, e.StepID, e.LogicalAttempt, e.Hook), nil
}

// prove completes a receipt with the head of the log and the proof that the workflow checks.
func (j *Journal) prove(r engine.Receipt, head store.Head, runID, stepID string, logicalAttempt int,
	hook bool) engine.Receipt {
	r.Head, r.Running, r.Gate = head.LastSeq, head.Running, head.Gate
	r.Proof = j.cfg.Tickets.Seal(engine.ReceiptPurpose, r.Text(runID, stepID, logicalAttempt, hook))
	return r
}

// hookEndOf builds the append of the end of a step's compensation. The store accepts only the first end.
func (j *Journal) hookEndOf(e engine.End) (store.Append, error) {
	batch := store.Append{RunID: e.RunID}
	p := run.CompensationPayload{
		StepID: e.StepID, IdempotencyKey: e.RunID + ":" + e.StepID + ":compensate", Attempts: e.EngineAttempt,
		Compensated: e.Completed != nil,
	}
	draft := j.endDraft(e, j.cfg.Now(), e.EngineAttempt)
	if e.Completed != nil {
		draft.Type, p.Result = run.StepCompensated, e.Completed.Result
	} else {
		draft.Type = run.StepCompensationFailed
		p.ErrorCode, p.ErrorMessage = cmp.Or(e.Failed.ErrorCode, string(run.CodeInternal)), e.Failed.ErrorMessage
	}
	var err error
	if draft.Payload, err = json.Marshal(p); err != nil {
		return batch, endError("/completed/result", err.Error())
	}
	batch.Events = []run.Draft{draft}
	return batch, nil
}
