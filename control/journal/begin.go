package journal

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/engine/ticket"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// Limits on the fields of a StartAttempt.
const (
	// maxSkew limits the difference between the clocks of a worker and the Journal, because EmittedAt enters the log.
	maxSkew          = 10 * time.Minute
	maxEngineAttempt = 1000
)

// StartAttempt implements engine.AttemptJournal.
func (a *attempts) StartAttempt(ctx context.Context, b engine.StartAttempt) (out engine.AttemptStarted, err error) {
	key := fmt.Sprintf("%s/%s/%d", b.RunID, b.StepID, b.LogicalAttempt)
	call := refusedCall{call: "begin", actor: a.worker.ID, runID: b.RunID, stepID: b.StepID,
		attemptID: fmt.Sprintf("%d.%d", b.LogicalAttempt, b.EngineAttempt)}
	err = a.write(ctx, key, call, func(ctx context.Context) error {
		out, err = a.startAttempt(ctx, b)
		return err
	})
	return out, err
}

// write runs a call that writes one event, within the write budget, and records its refusal.
func (a *attempts) write(ctx context.Context, key string, c refusedCall, f func(context.Context) error) error {
	err := a.journal.writes.do(ctx, write{key: key, events: 1, bounded: true}, f)
	return a.journal.refusals.record(ctx, c, err)
}

// CheckEpoch returns an error with store.ErrFenced for work of a newer epoch than that of the store; see epoch.Guard.
func (j *Journal) CheckEpoch(ctx context.Context, work string) error {
	return j.epochs.Check(ctx, work)
}

// knows is CheckEpoch for workers, which hand work back that the Journal does not know: another worker takes it.
func (j *Journal) knows(ctx context.Context, work string) error {
	err := j.CheckEpoch(ctx, work)
	if errors.Is(err, store.ErrFenced) {
		j.cfg.Logger.WarnContext(ctx, "a step is not begun here", slog.Any("error", err))
		return fmt.Errorf("%w: %w", store.ErrNotFound, err)
	}
	return err
}

func (a *attempts) startAttempt(ctx context.Context, b engine.StartAttempt) (engine.AttemptStarted, error) {
	j := a.journal
	if err := j.knows(ctx, b.Epoch); err != nil {
		return engine.AttemptStarted{}, err
	}
	d, err := a.checkTicket(ctx, b, false)
	if err != nil {
		return engine.AttemptStarted{}, err
	}
	f, i, err := j.stepOf(ctx, b.RunID, b.StepID)
	if err != nil {
		return engine.AttemptStarted{}, err
	}
	chosen, err := j.chosenNodes(ctx, f, i, b, d.SignalID)
	if err != nil {
		return engine.AttemptStarted{}, err
	}
	if err := j.checkTurn(ctx, f, i, b.LogicalAttempt); err != nil {
		return engine.AttemptStarted{}, err
	}
	in := store.StartAttempt{
		RunID: b.RunID, StepID: b.StepID, LogicalAttempt: b.LogicalAttempt, EngineAttempt: b.EngineAttempt,
		EmittedAt:   b.EmittedAt,
		PassFailing: d.PassFailing, SignalID: d.SignalID,
	}
	ceiling, err := j.sandboxCeiling(f.run.Identity)
	if err != nil {
		return engine.AttemptStarted{}, err
	}
	if s := &f.plan.Steps[i]; j.cfg.Heavy != nil && (s.Dispatch.ResourceClass == plan.Heavy || s.Type == plan.DBTRun) {
		if bucket := j.cfg.Heavy(f.run.TenantID, f.run.ProjectID); bucket.PerMinute >= 0 {
			in.Heavy = &bucket
		}
	}
	if in.State, err = j.stateFor(ctx, f, i); err != nil {
		return engine.AttemptStarted{}, err
	}
	before := f.Log.Highest()
	begun, err := j.cfg.Store.Log.StartAttempt(ctx, in)
	overlaid := begun.Head.Gate&run.GateOverlaid != 0
	if err == nil && overlaid && begun.Verdict == store.StartParked {
		begun, err = j.startOverlaid(ctx, in)
	}
	if err != nil {
		return engine.AttemptStarted{}, err
	}
	f.Log.Observe(before, begun.Head.LastSeq)
	out := engine.AttemptStarted{AttemptStarted: begun, Identity: f.run.Identity}
	switch begun.Verdict {
	case store.StartGranted:
		f.Log.note(run.StepStartedEvent, i, b.LogicalAttempt, begun.StartedSeq)
		x := executionOf(b, false)
		x.StartedSeq = begun.StartedSeq
		out.Key = j.cfg.Tickets.Key(x)
		out.Step, out.Params = f.plan.Steps[i], f.run.Params
		out.SandboxCeiling = applyCeiling(&out.Step, ceiling)
		if chosen != nil {
			if out.Nodes, err = j.selectNodes(ctx, b, *chosen); err != nil {
				return engine.AttemptStarted{}, err
			}
		}
		if in.State != nil {
			if out.State, err = j.startedState(ctx, b.RunID, begun.StartedSeq); err != nil {
				return engine.AttemptStarted{}, err
			}
		}
		if j.cfg.Traceparent != nil {
			out.Traceparent = j.cfg.Traceparent(b.RunID, b.StepID, b.LogicalAttempt)
		}
		if overlaid {
			err = j.overlay(ctx, &out)
		}
	case store.StartDone:
		// The caller may be a different execution, so it does not get the payload with the result.
		out.Terminal = &run.Event{Type: begun.Terminal.Type, Seq: begun.Terminal.Seq}
		end := engine.Receipt{Type: begun.Terminal.Type, Seq: begun.Terminal.Seq, At: begun.Terminal.EmittedAt}
		receipt := j.prove(end, begun.Head, b.RunID, b.StepID, b.LogicalAttempt, false)
		out.Receipt = &receipt
		f.Log.note(begun.Terminal.Type, i, b.LogicalAttempt, begun.Terminal.Seq)
	case store.StartParked, store.StartRunTerminal, store.StartThrottled:
	}
	return out, err
}

// executionOf returns the execution that a StartAttempt asks for. Its StartedSeq is not set yet.
func executionOf(b engine.StartAttempt, hook bool) ticket.Execution {
	return ticket.Execution{
		RunID: b.RunID, StepID: b.StepID, LogicalAttempt: b.LogicalAttempt, N: b.N, EngineAttempt: b.EngineAttempt,
		Hook: hook,
	}
}

// stepOf returns the facts of a run and the index of one of its steps. Error: store.ErrNotFound without such a run or
// step.
func (j *Journal) stepOf(ctx context.Context, runID, stepID string) (*RunFacts, int, error) {
	f, err := j.facts(ctx, runID)
	if err != nil {
		return nil, 0, err
	}
	i, ok := f.Steps[stepID]
	if !ok {
		return nil, 0, fmt.Errorf("%w: step %s of run %s", store.ErrNotFound, stepID, runID)
	}
	return f, i, nil
}

// checkTicket verifies that b carries the ticket of exactly this dispatch, that the worker serves the run and the
// queue, and that its clock and engine attempt are plausible. Otherwise it returns a refusal, or store.ErrNotFound for
// a run or queue that the worker does not serve.
func (a *attempts) checkTicket(ctx context.Context, b engine.StartAttempt, hook bool) (ticket.Dispatch, error) {
	j := a.journal
	if _, err := a.identityOf(ctx, b.RunID); err != nil {
		return ticket.Dispatch{}, err
	}
	now := j.cfg.Now()
	d, err := j.cfg.Tickets.Check(b.Ticket, now)
	switch {
	case errors.Is(err, ticket.ErrExpired):
		return d, newRefusal("ticket", "the ticket expired at %s", d.Expires.Format(time.RFC3339))
	case err != nil && j.cfg.Tickets.Empty():
		return d, newRefusal("ticket", "this process has no ticket-keys, so it knows no ticket")
	case err != nil:
		return d, newRefusal("ticket", "the ticket is missing, or none of the ticket-keys made it")
	case d.RunID != b.RunID || d.StepID != b.StepID || d.LogicalAttempt != b.LogicalAttempt || d.N != b.N ||
		d.Hook != hook:
		return d, newRefusal("ticket", "the ticket is for another dispatch: %s", describe(d))
	case !a.worker.MayServeQueue(d.Queue):
		return d, j.refusals.hide("queue", fmt.Errorf("%w: a dispatch to a queue of this worker", store.ErrNotFound))
	case b.EngineAttempt < 1 || b.EngineAttempt > maxEngineAttempt:
		return d, newRefusal("engine_attempt", "engine attempt %d is not between 1 and %d", b.EngineAttempt,
			maxEngineAttempt)
	}
	switch ahead := b.EmittedAt.Sub(now); {
	case ahead > maxSkew:
		return d, newRefusal("clock", "the worker's clock is %s ahead", plan.DurationWords(ahead))
	case ahead < -maxSkew:
		return d, newRefusal("clock", "the worker's clock is %s behind", plan.DurationWords(-ahead))
	}
	return d, nil
}

// describe names the dispatch of a ticket in a refusal.
func describe(d ticket.Dispatch) string {
	what := "step"
	if d.Hook {
		what = "the compensation of step"
	}
	return fmt.Sprintf("%s %s of run %s, attempt %d, dispatch %d", what, d.StepID, d.RunID, d.LogicalAttempt, d.N)
}

// checkTurn refuses an attempt that is not the next one of its step, or whose step has an open dependency. It accepts
// an attempt that the log has already, because a StartAttempt may be repeated. Usually the cached facts suffice, and
// nothing is read.
func (j *Journal) checkTurn(ctx context.Context, f *RunFacts, i, logicalAttempt int) error {
	needs := make([]int, 0, len(f.plan.Steps[i].DependsOn))
	for _, id := range f.plan.Steps[i].DependsOn {
		needs = append(needs, f.Steps[id])
	}
	ok, err := j.learn(ctx, f, 0, func(k *KnownLog) bool {
		s := k.Step(i)
		_, over := k.phase() // if it is over, the store refuses the attempt
		return over || max(s.begun, s.ended) >= logicalAttempt || s.ended == logicalAttempt-1 && k.missing(needs) < 0
	})
	if ok || err != nil {
		return err
	}
	if s := f.Log.Step(i); s.ended != logicalAttempt-1 {
		return newRefusal("out_of_turn", "attempt %d of step %s is not next: the log has the end of attempt %d",
			logicalAttempt, f.plan.Steps[i].StepID, s.ended)
	}
	open := f.Log.missing(needs)
	if open < 0 { // another call has read the log in the meantime
		return nil
	}
	return newRefusal("dependency", "step %s depends on step %s, which neither succeeded nor was skipped",
		f.plan.Steps[i].StepID, f.plan.Steps[open].StepID)
}

// Compensation implements engine.AttemptJournal.
func (a *attempts) Compensation(ctx context.Context, b engine.StartAttempt) (engine.Hook, error) {
	hook, err := a.compensation(ctx, b)
	call := refusedCall{call: "compensation", actor: a.worker.ID, runID: b.RunID, stepID: b.StepID,
		attemptID: fmt.Sprintf("%d.%d", b.LogicalAttempt, b.EngineAttempt)}
	return hook, a.journal.refusals.record(ctx, call, err)
}

func (a *attempts) compensation(ctx context.Context, b engine.StartAttempt) (engine.Hook, error) {
	j := a.journal
	if err := j.knows(ctx, b.Epoch); err != nil {
		return engine.Hook{}, err
	}
	if _, err := a.checkTicket(ctx, b, true); err != nil {
		return engine.Hook{}, err
	}
	f, i, err := j.stepOf(ctx, b.RunID, b.StepID)
	if err != nil {
		return engine.Hook{}, err
	}
	step := f.plan.Steps[i]
	hook := step.Compensation
	if hook == nil {
		return engine.Hook{}, fmt.Errorf("%w: a compensation of step %s of run %s", store.ErrNotFound, b.StepID, b.RunID)
	}
	// Another process may have ended the run or the hook, so the log is read.
	if err := j.readLog(ctx, f); err != nil {
		return engine.Hook{}, err
	}
	known := f.Log.Step(i)
	compensating, over := f.Log.phase()
	switch {
	case over:
		return engine.Hook{}, newRefusal("run_over", "the run is over")
	case known.succeeded != b.LogicalAttempt:
		return engine.Hook{}, newRefusal("out_of_turn", "attempt %d of step %s did not succeed", b.LogicalAttempt, b.StepID)
	case !compensating:
		return engine.Hook{}, newRefusal("out_of_turn", "the compensation of the run has not started")
	case known.hookEnd > 0:
		return engine.Hook{}, newRefusal("after_end", "the compensation of step %s has its end in the log", b.StepID)
	}
	ceiling, err := j.sandboxCeiling(f.run.Identity)
	if err != nil {
		return engine.Hook{}, err
	}
	step.Type, step.Inputs, step.Timeout, step.Sandbox = hook.Operation, hook.Input, hook.Timeout, hook.Sandbox
	step.Compensation, step.Retry = nil, plan.Retry{}
	limits := applyCeiling(&step, ceiling)
	return engine.Hook{Identity: f.run.Identity, Step: step, Key: j.cfg.Tickets.Key(executionOf(b, true)),
		SandboxCeiling: limits}, nil
}
