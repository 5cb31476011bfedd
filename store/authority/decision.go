package authority

import (
	"encoding/json"
	"time"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// decision is the Plan while Decide builds it, and the stored events by key, attempt and hook.
type decision struct {
	id       run.Identity
	plan     Plan
	byKey    map[run.Key]run.Event
	attempts map[Attempt]*attemptRecord
	hooks    map[Attempt]*run.Event // the first end of the hook of an attempt
	end      *run.Event             // the terminal event of the run
	// ifStarted is Append.IfStarted.
	ifStarted bool
	idleSeq   run.Seq // the event of this batch after which no attempt was running, 0 for none
}

// attemptRecord is the events of one logical attempt that count for Head.Running.
type attemptRecord struct {
	started  *run.Event
	manual   bool
	terminal *run.Event
}

// runs reports whether the attempt counts in Head.Running. An attempt that waits for a person does not, because a
// paused run would otherwise not become quiescent (contract T47).
func (r attemptRecord) runs() bool { return r.started != nil && !r.manual && r.terminal == nil }

func newDecision(head store.Head, id run.Identity, f Facts, now time.Time) *decision {
	d := &decision{
		id:       id,
		byKey:    make(map[run.Key]run.Event, len(f.Events)),
		attempts: map[Attempt]*attemptRecord{},
		hooks:    map[Attempt]*run.Event{},
		end:      f.End,
		plan:     Plan{Head: head, At: run.Latest(head.LastAt, now.Truncate(Precision).UTC())},
	}
	for _, e := range f.Events {
		d.byKey[e.Key] = e
		d.record(e)
	}
	return d
}

// decideDraft decides one draft. The order of the checks is part of the contract, see the package.
func (d *decision) decideDraft(draft run.Draft, key run.Key) {
	out := store.EventOutcome{}
	old, dup := d.byKey[key]
	switch end := d.endOfSubject(draft); {
	case dup:
		out = outcomeOf(old)
		out.Deduplicated = true
		if !SamePayload(draft.Type, draft.Payload, old.Payload) {
			out.PayloadMismatch, out.Existing = true, &old
		}
		if at := WindowOf(old); at != nil {
			d.plan.WindowOpened = at
		}
	case end != nil:
		out.Refused, out.Existing = run.CodeInvalidTransition, end
	case d.ifStarted && d.endsUnstarted(draft):
		out.Refused = run.CodeStepNotStarted
	case d.plan.Head.Terminal && !draft.Type.OfSignal():
		out.Refused = run.CodeOrphanedTask
		d.plan.Audit = append(d.plan.Audit, d.orphanRow(draft, key))
	default:
		out = outcomeOf(d.insert(draft, key))
	}
	d.plan.Outcomes = append(d.plan.Outcomes, out)
}

// endsUnstarted reports whether draft would end an attempt that has no StepStarted.
func (d *decision) endsUnstarted(draft run.Draft) bool {
	if draft.Type != run.StepCompletedEvent && draft.Type != run.StepFailedEvent {
		return false
	}
	r := d.attempts[Attempt{draft.StepID, draft.LogicalAttempt}]
	return r == nil || r.started == nil
}

// outcomeOf returns the outcome for a stored event.
func outcomeOf(e run.Event) store.EventOutcome {
	return store.EventOutcome{Seq: e.Seq, EventID: e.EventID, EmittedAt: e.EmittedAt, PersistedAt: e.PersistedAt}
}

// endOfSubject returns the event that has ended the run, attempt or hook which draft would end; nil when none has.
func (d *decision) endOfSubject(draft run.Draft) *run.Event {
	switch {
	case draft.Type.EndsRun():
		return d.end
	case draft.Type.EndsAttempt():
		if r := d.attempts[Attempt{draft.StepID, draft.LogicalAttempt}]; r != nil {
			return r.terminal
		}
	case draft.Type.EndsHook():
		return d.hooks[Attempt{draft.StepID, draft.LogicalAttempt}]
	}
	return nil
}

// insert gives the draft the next Seq and updates the head.
func (d *decision) insert(draft run.Draft, key run.Key) run.Event {
	head := &d.plan.Head
	e := newEvent(d.id, draft, key, head.LastSeq+1, d.plan.At)
	before := head.Running
	head.LastSeq, head.LastAt = e.Seq, e.PersistedAt
	head.Running = max(0, head.Running+d.record(e))
	if e.Type == run.RunPaused {
		e.Payload = stamp(e.Payload, "runningStepsCount", head.Running)
	}
	if head.Running == 0 && (before > 0 || e.Type == run.RunPaused) {
		d.idleSeq = e.Seq
	}
	if e.Type.EndsRun() {
		head.Terminal, d.plan.EndsRun, d.end = true, true, &e
	}
	d.byKey[key] = e
	d.plan.Insert = append(d.plan.Insert, e)
	return e
}

func newEvent(id run.Identity, d run.Draft, key run.Key, seq run.Seq, at time.Time) run.Event {
	return run.Event{
		Identity: id, EventID: key.EventID(), Type: d.Type, Seq: seq, Key: key, StepID: d.StepID, SignalID: d.SignalID,
		LogicalAttempt: d.LogicalAttempt, EngineAttempt: d.EngineAttempt,
		EmittedAt: d.EmittedAt.Truncate(Precision).UTC(), PersistedAt: at, EmittedBy: d.EmittedBy, Payload: d.Payload,
	}
}

// record adds e to the record of its attempt and returns by how much it changes Head.Running.
func (d *decision) record(e run.Event) int {
	at := Attempt{e.StepID, e.LogicalAttempt}
	if e.Type.EndsHook() && d.hooks[at] == nil {
		d.hooks[at] = &e
	}
	if !changesRunning(e.Type) {
		return 0
	}
	r := d.attempts[at]
	if r == nil {
		r = &attemptRecord{}
		d.attempts[at] = r
	}
	before := r.runs()
	switch {
	case e.Type == run.StepStartedEvent:
		if r.started == nil { // an imported log may have two StepStarted of one attempt
			r.started = &e
		}
	case e.Type == run.StepAwaitingManualCompletion:
		r.manual = true
	case r.terminal == nil:
		r.terminal = &e
	}
	switch after := r.runs(); {
	case after && !before:
		return 1
	case before && !after:
		return -1
	}
	return 0
}

// openWindow stamps the retry deadline on the event of this batch that opens the retry window, see
// store.Append.RetryDeadline.
func (d *decision) openWindow(deadline time.Time) {
	h := d.plan.Head
	if deadline.IsZero() || h.Terminal || h.Running > 0 || h.Gate&run.GateFailing == 0 || h.Gate&run.GatePaused != 0 {
		return
	}
	for i := len(d.plan.Insert) - 1; i >= 0; i-- {
		if e := &d.plan.Insert[i]; opensWindow(e.Type) {
			at := deadline.Truncate(Precision).UTC()
			e.Payload = stamp(e.Payload, "retryDeadline", at)
			d.plan.WindowOpened = &at
			return
		}
	}
}

// resolveOutcomes turns the outcomes of signals into moves. A signal whose event was refused becomes NOT_APPLIED.
func (d *decision) resolveOutcomes(outcomes []store.SignalOutcome) {
	for _, o := range outcomes {
		m := Move{SignalID: o.SignalID, Application: o.Application, Reason: o.Reason}
		if o.AppliedBy >= 0 && o.AppliedBy < len(d.plan.Outcomes) {
			effect := d.plan.Outcomes[o.AppliedBy]
			m.AppliedSeq = effect.Seq
			if effect.Refused != "" {
				m.Application, m.Reason = run.SignalNotApply, string(effect.Refused)
			}
		}
		d.plan.Moves = append(d.plan.Moves, m)
	}
}

// setQuiescentSeq sets Plan.QuiescentSeq when the run is paused and no attempt is running.
func (d *decision) setQuiescentSeq() {
	h := d.plan.Head
	if h.Gate&run.GatePaused == 0 || h.Running > 0 {
		return
	}
	d.plan.QuiescentSeq = h.LastSeq
	if d.idleSeq > 0 {
		d.plan.QuiescentSeq = d.idleSeq
	}
}

// orphanRow returns the audit row of an event that was refused because the run has ended. Its ID is the id that the
// event would have had, so that a repeated append leaves one row.
func (d *decision) orphanRow(draft run.Draft, key run.Key) store.AuditRow {
	detail, err := json.Marshal(map[string]any{
		"eventType": draft.Type, "stepId": draft.StepID, "logicalAttemptId": draft.LogicalAttempt, "idempotencyKey": key,
	})
	if err != nil {
		detail = nil // strings and numbers always marshal
	}
	return store.AuditRow{
		ID: key.EventID(), TenantID: d.id.TenantID, Actor: string(draft.EmittedBy), Action: "APPEND",
		RunID: d.id.RunID, Outcome: "REJECTED", Code: run.CodeOrphanedTask, Detail: detail,
	}
}

// changesRunning reports whether events of the type can change Head.Running.
func changesRunning(t run.EventType) bool {
	return t == run.StepStartedEvent || t == run.StepAwaitingManualCompletion || t.EndsAttempt()
}

// opensWindow reports whether events of the type can carry the retry deadline.
func opensWindow(t run.EventType) bool {
	return t == run.StepFailedEvent || t == run.StepCompletedEvent || t == run.StepAwaitingManualCompletion ||
		t == run.RunResumed
}
