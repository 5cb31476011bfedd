package authority

import (
	"encoding/json"
	"time"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// decision is a plan in the making and what the log holds about its subjects.
type decision struct {
	id       run.Identity
	plan     Plan
	byKey    map[run.Key]run.Event
	attempts map[Attempt]*record
	hooks    map[Attempt]*run.Event // the first end of the hook of an attempt
	end      *run.Event
	// ifStarted is Append.IfStarted.
	ifStarted bool
	idleSeq   run.Seq // seq at which nothing ran any more, in this batch
}

// record is what the log holds about one logical attempt.
type record struct {
	started  *run.Event
	manual   bool
	terminal *run.Event
}

// runs reports whether the attempt counts as RUNNING in Head.Running (T185, T47).
func (r record) runs() bool { return r.started != nil && !r.manual && r.terminal == nil }

func newDecision(head store.Head, id run.Identity, f Facts, now time.Time) *decision {
	d := &decision{
		id:       id,
		byKey:    make(map[run.Key]run.Event, len(f.Events)),
		attempts: map[Attempt]*record{},
		hooks:    map[Attempt]*run.Event{},
		end:      f.End,
		plan:     Plan{Head: head, At: run.Latest(head.LastAt, now.Truncate(Precision).UTC())},
	}
	for _, e := range f.Events {
		d.byKey[e.Key] = e
		d.count(e)
	}
	return d
}

// draft decides one draft: dedupe, same-subject terminal, end of the run, insert.
func (d *decision) draft(draft run.Draft, key run.Key) {
	out := store.EventOutcome{}
	old, dup := d.byKey[key]
	switch winner := d.winner(draft); {
	case dup:
		out = stored(old)
		out.Deduplicated = true
		if !SamePayload(draft.Type, draft.Payload, old.Payload) {
			out.PayloadMismatch, out.Existing = true, &old
		}
		if at := WindowOf(old); at != nil {
			d.plan.WindowOpened = at
		}
	case winner != nil:
		out.Refused, out.Existing = run.CodeInvalidTransition, winner
	case d.ifStarted && d.neverBegan(draft):
		out.Refused = run.CodeStepNotStarted
	case d.plan.Head.Terminal && !draft.Type.OfSignal():
		out.Refused = run.CodeOrphanedTask
		d.plan.Audit = append(d.plan.Audit, d.orphan(draft, key))
	default:
		out = stored(d.insert(draft, key))
	}
	d.plan.Outcomes = append(d.plan.Outcomes, out)
}

// neverBegan reports whether draft would end an attempt that has no StepStarted.
func (d *decision) neverBegan(draft run.Draft) bool {
	if draft.Type != run.StepCompletedEvent && draft.Type != run.StepFailedEvent {
		return false
	}
	r := d.attempts[Attempt{draft.StepID, draft.LogicalAttempt}]
	return r == nil || r.started == nil
}

func stored(e run.Event) store.EventOutcome {
	return store.EventOutcome{Seq: e.Seq, EventID: e.EventID, EmittedAt: e.EmittedAt, PersistedAt: e.PersistedAt}
}

// winner is the terminal that already closed the draft's subject (T10).
func (d *decision) winner(draft run.Draft) *run.Event {
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

func (d *decision) insert(draft run.Draft, key run.Key) run.Event {
	head := &d.plan.Head
	e := newEvent(d.id, draft, key, head.LastSeq+1, d.plan.At)
	before := head.Running
	head.LastSeq, head.LastAt = e.Seq, e.PersistedAt
	head.Running = max(0, head.Running+d.count(e))
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

// count records what e says about its attempt and returns the change of Running.
func (d *decision) count(e run.Event) int {
	at := Attempt{e.StepID, e.LogicalAttempt}
	if e.Type.EndsHook() && d.hooks[at] == nil {
		d.hooks[at] = &e
	}
	if !marks(e.Type) {
		return 0
	}
	r := d.attempts[at]
	if r == nil {
		r = &record{}
		d.attempts[at] = r
	}
	before := r.runs()
	switch {
	case e.Type == run.StepStartedEvent:
		if r.started == nil { // an imported log may have two
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

// openWindow stamps the retry deadline on the event that opened the window (T221).
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

// moves resolves the outcomes of signals. An effect that was refused was not applied.
func (d *decision) moves(outcomes []store.SignalOutcome) {
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

func (d *decision) quiesce() {
	h := d.plan.Head
	if h.Gate&run.GatePaused == 0 || h.Running > 0 {
		return
	}
	d.plan.QuiescentSeq = h.LastSeq
	if d.idleSeq > 0 {
		d.plan.QuiescentSeq = d.idleSeq
	}
}

// orphan is the audit row of a refused event; its id is the id that the event
// would have had, so that a repeated append leaves one row.
func (d *decision) orphan(draft run.Draft, key run.Key) store.AuditRow {
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

// marks reports whether events of the type change what counts as running.
func marks(t run.EventType) bool {
	return t == run.StepStartedEvent || t == run.StepAwaitingManualCompletion || t.EndsAttempt()
}

func opensWindow(t run.EventType) bool {
	return t == run.StepFailedEvent || t == run.StepCompletedEvent || t == run.StepAwaitingManualCompletion ||
		t == run.RunResumed
}
