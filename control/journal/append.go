package journal

import (
	"context"
	"encoding/json"
	"errors"
	"slices"

	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// Append implements engine.Journal.
func (j *Journal) Append(ctx context.Context, a store.Append) (store.Appended, error) {
	return j.append(ctx, a, false)
}

// AppendUnlessPaused implements engine.Journal.
func (j *Journal) AppendUnlessPaused(ctx context.Context, a store.Append) (store.Appended, error) {
	return j.append(ctx, a, true)
}

func (j *Journal) append(ctx context.Context, a store.Append, unlessPaused bool) (out store.Appended, err error) {
	has := func(t run.EventType) bool {
		return slices.ContainsFunc(a.Events, func(d run.Draft) bool { return d.Type == t })
	}
	w := write{key: a.RunID, events: len(a.Events), bounded: has(run.StepCompletedEvent)}
	err = j.writes.do(ctx, w, func(ctx context.Context) error {
		if has(run.RunStarted) {
			if err := j.checkStart(ctx, a.RunID); err != nil {
				return err
			}
		}
		fetch := j.cfg.Fetch.Fetch
		if has(run.RunFailed) {
			fetch = withoutFetch // the tries to fetch the plan are used up, and this append must not wait for more
		}
		for i := range a.Events {
			if err := j.complete(ctx, a.RunID, &a.Events[i], fetch); err != nil {
				return err
			}
		}
		if err := j.completeReused(ctx, a); err != nil {
			return err
		}
		if unlessPaused || a.ClearGate&run.GateFailing != 0 || has(run.RunCompleted) && !j.cfg.Restoring &&
			!j.isDone(a.RunID) {
			out, err = j.appendLocked(ctx, a, unlessPaused)
		} else {
			out, err = j.cfg.Store.Log.Append(ctx, a)
		}
		return err
	})
	j.writes.compare(ctx, a, out)
	j.noteAppended(a, out)
	if err == nil {
		j.measureSignals(ctx, a, out)
	}
	return out, j.refusals.record(ctx, refusedCall{call: "append", actor: string(run.ByEngine), runID: a.RunID}, err)
}

// appendLocked appends a batch whose acceptance depends on log contents that store.Append does not check. It holds the
// lock of the run's head, so that the checks and the append see the same log.
func (j *Journal) appendLocked(ctx context.Context, a store.Append, unlessPaused bool) (out store.Appended, err error) {
	err = j.cfg.Store.Log.InRun(ctx, a.RunID, func(tx store.RunTx) error {
		var st *run.State
		state := func() (run.State, error) {
			if st == nil {
				read, err := tx.State(ctx)
				if err != nil {
					return run.State{}, err
				}
				st = &read
			}
			return *st, nil
		}
		if unlessPaused && tx.Head().Gate&run.GatePaused != 0 {
			st, err := state()
			if err != nil {
				return err
			}
			if slices.ContainsFunc(a.Events, st.HoldsBack) {
				return engine.ErrPaused
			}
		}
		batch := a // a copy, because the store may call the function again
		if a.ClearGate&run.GateFailing != 0 {
			st, err := state()
			if err != nil {
				return err
			}
			if failedAfter(st, a.Seen) {
				batch.ClearGate &^= run.GateFailing
			}
		}
		ending := slices.IndexFunc(a.Events, func(d run.Draft) bool { return d.Type == run.RunCompleted })
		if j.cfg.Restoring {
			ending = -1
		}
		var open []string
		if ending >= 0 {
			st, err := state()
			if err != nil {
				return err
			}
			open = openSteps(st)
		}
		if out, err = tx.Append(ctx, batch); err != nil || ending < 0 {
			return err
		}
		// Steps that the batch itself ends are not open; the store may have refused some of these events.
		for i, d := range a.Events[:ending] {
			if out.Outcomes[i].Refused == "" && (d.Type == run.StepCompletedEvent || d.Type == run.StepSkippedEvent) {
				open = slices.DeleteFunc(open, func(id string) bool { return id == d.StepID })
			}
		}
		if len(open) > 0 {
			return newRefusal(
				"open_steps", "the run cannot complete: %d steps neither succeeded nor were skipped, the first is %s", len(open),
				open[0])
		}
		return nil
	})
	if err != nil {
		return store.Appended{}, err
	}
	return out, nil
}

// failedAfter reports whether an event after seen made a step FAILED, so that this failure closed the gate. Failures of
// attempts that a pause interrupted do not count.
func failedAfter(st run.State, seen run.Seq) bool {
	return slices.ContainsFunc(st.Steps, func(s *run.Step) bool {
		if s.Status != run.StepFailed || len(s.Attempts) == 0 {
			return false
		}
		last := s.Attempts[len(s.Attempts)-1]
		return last.EndedSeq > seen && (last.Error == nil || last.Error.Code != string(run.CodeCancelledByPause))
	})
}

// openSteps returns the ids of the steps that neither succeeded nor were skipped. For a run that has not started it
// returns one placeholder, because the state has no steps yet.
func openSteps(st run.State) (open []string) {
	if len(st.Steps) == 0 {
		return []string{"none: the run has not started"}
	}
	for _, s := range st.Steps {
		if !s.Status.Unblocks() {
			open = append(open, s.StepID)
		}
	}
	return open
}

// isDone reports whether every step of a run is known to have succeeded or been skipped. It reads nothing.
func (j *Journal) isDone(runID string) bool {
	f, ok := j.runs.Get(runID)
	if !ok {
		return false
	}
	all := make([]int, len(f.plan.Steps))
	for i := range all {
		all[i] = i
	}
	return f.Log.missing(all) < 0
}

// noteAppended adds the events that the store accepted to the cached facts of the run.
func (j *Journal) noteAppended(a store.Append, out store.Appended) {
	f, ok := j.runs.Get(a.RunID)
	if !ok || len(out.Outcomes) != len(a.Events) || len(out.Outcomes) == 0 {
		return
	}
	for i, d := range a.Events {
		if at, ok := f.stepIndex(d.StepID); ok && out.Outcomes[i].Refused == "" {
			f.Log.note(d.Type, at, d.LogicalAttempt, out.Outcomes[i].Seq)
		}
	}
}

// checkStart refuses the start of a run that is not approved or still waits for its turn: anybody who reaches the
// engine can start the workflow of any run. A run has had its turn once a dispatcher has leased its queue row. A row
// that is due counts too: a store restored from a backup may be older than the running workflow.
func (j *Journal) checkStart(ctx context.Context, runID string) error {
	if j.cfg.Restoring {
		return nil
	}
	l, err := j.cfg.Store.Runs.Load(ctx, runID)
	if err != nil {
		return err
	}
	switch st := l.State; {
	case l.Head.Terminal, st.StartedAt != nil: // the store handles repetitions itself
		return nil
	case st.Status != run.Approved:
		return newRefusal("not_approved", "the run is not approved")
	}
	q, err := j.cfg.Store.Runs.QueueRow(ctx, runID)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return newRefusal("not_approved", "the run was never put into the queue")
	case err != nil:
		return err
	case q.Status == store.QueueFailed || q.Status == store.QueueCancelled:
		return newRefusal("not_approved", "the run was taken out of the queue")
	case q.Waiting || q.Generation == 0 && q.NotBefore.After(l.Now):
		return newRefusal("not_approved", "the run waits for its turn")
	}
	return nil
}

// complete adds the facts to an event of the interpreter that only the store has.
func (j *Journal) complete(ctx context.Context, runID string, d *run.Draft, fetch fetchFunc) error {
	switch d.Type {
	case run.RunStarted:
		return j.completeStarted(ctx, runID, d, fetch)
	case run.RunPaused, run.RunResumed:
		return completeFromReceipt(ctx, j.cfg.Store.Signals, runID, d, func(p *run.PausePayload, r run.SignalReceipt) {
			p.PauseRequestedBy, p.Reason = r.Actor, r.Reason
		}, func(p run.PausePayload) string { return p.SignalID })
	case run.RunCancelled:
		return completeFromReceipt(ctx, j.cfg.Store.Signals, runID, d, func(p *run.RunCancelledPayload, r run.SignalReceipt) {
			p.SignalType, p.Actor, p.Reason = r.Signal.Type, r.Actor, r.Reason
		}, func(p run.RunCancelledPayload) string { return p.SignalID })
	case run.StepCompletedEvent, run.StepFailedEvent:
		return j.completeManual(ctx, runID, d)
	}
	return nil
}

func completeFromReceipt[P any](ctx context.Context, s SignalStore, runID string, d *run.Draft,
	fill func(*P, run.SignalReceipt), signal func(P) string) error {
	p, err := run.PayloadOf[P](d.Payload)
	if err != nil {
		return err
	}
	r, err := s.Receipt(ctx, runID, signal(p))
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	fill(&p, r)
	d.Payload, err = json.Marshal(p)
	return err
}

func (j *Journal) completeStarted(ctx context.Context, runID string, d *run.Draft, fetch fetchFunc) error {
	r, err := j.cfg.Store.Runs.Get(ctx, runID)
	if err != nil {
		return err
	}
	p, err := run.PayloadOf[run.RunStartedPayload](d.Payload)
	if err != nil {
		return err
	}
	ref := run.PlanRef(r.PlanRef)
	ref.PlanID, ref.PlanVersion = r.PlanID, r.PlanVersion
	p.PlanRef = ref
	p.Policy = r.Policy
	p.EngineType = p.Engine.Provider
	p.Context = &run.RunContext{TriggerSource: r.TriggerSource}
	f, err := j.factsBy(ctx, runID, fetch)
	var broken *PlanError
	switch {
	case errors.As(err, &broken): // without its plan a run starts without steps and then fails, contract T144
		p.Steps = []run.StepOutline{}
	case err != nil:
		return err
	default:
		p.Policy = r.Policy.For(f.plan)
		if limit := f.plan.Metadata.Deadline; limit != nil {
			started := p.StartedAt
			if started.IsZero() {
				started = d.EmittedAt
			}
			p.Policy.DueAt = new(limit.Due(r.CreatedAt, started))
		}
		p.Steps = run.Outline(f.plan, j.cfg.Queues)
		p.Context.PlanMirror = f.mirror
	}
	d.Payload, err = json.Marshal(p)
	return err
}
