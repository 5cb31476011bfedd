// Package authority is the pure part of the Append Authority and of checkpoints,
// shared by every adapter of store: given the locked head of a run and what the
// log holds about the subjects of a batch, it decides what to insert and what
// else moves in the same transaction. It does no I/O and reads no clock.
// Adapters lock the head, fetch what a Batch wants, and carry the decision out
// as it is.
//
// Guarantees: dedupe by key comes before every guard, then the terminal of the
// same subject, then the end of the run (T228, T10, T80); numbers are assigned
// to inserted events only, without holes (T28, T190); the same input gives the
// same decision.
package authority

import (
	"fmt"
	"slices"
	"time"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// Precision of every time that a store keeps; adapters truncate to it.
const Precision = time.Microsecond

// Attempt names one logical attempt of a step.
type Attempt struct {
	StepID  string
	Logical int
}

// Batch is the validated drafts of one append with their keys.
type Batch struct {
	id     run.Identity
	append store.Append
	keys   []run.Key       // of the drafts
	rivals map[int]run.Key // by draft, see Rival
}

// Prepare validates the drafts of a and computes their keys. The first invalid
// draft aborts the batch with a *run.SchemaError (T190).
func Prepare(id run.Identity, a store.Append) (Batch, error) {
	if len(a.Events) > store.MaxBatch {
		return Batch{}, fmt.Errorf("store: append of %d events, at most %d", len(a.Events), store.MaxBatch)
	}
	b := Batch{id: id, append: a, keys: make([]run.Key, len(a.Events))}
	for i, d := range a.Events {
		if err := d.Validate(id); err != nil {
			return Batch{}, err
		}
		b.keys[i] = d.Key(id)
		if rival, ends := otherEnd(d); ends {
			if b.rivals == nil {
				b.rivals = map[int]run.Key{}
			}
			b.rivals[i] = rival.Key(id)
		}
	}
	return b, nil
}

// otherEnd is the other end of the hook that d ends, if it ends one.
func otherEnd(d run.Draft) (run.Draft, bool) {
	switch d.Type {
	case run.StepCompensated:
		d.Type = run.StepCompensationFailed
	case run.StepCompensationFailed:
		d.Type = run.StepCompensated
	default:
		return d, false
	}
	return d, true
}

// Append is what the batch was prepared from; of a StartAttempt its StepStarted alone.
func (b Batch) Append() store.Append { return b.append }

// Event is the stored form of draft i under the given number.
func (b Batch) Event(i int, seq run.Seq, at time.Time) run.Event {
	return newEvent(b.id, b.append.Events[i], b.keys[i], seq, at)
}

// Keys are the keys whose stored events Facts.Events must hold: those of the drafts in their order, and then those of
// their rivals.
func (b Batch) Keys() []run.Key {
	if len(b.rivals) == 0 {
		return b.keys
	}
	keys := slices.Clone(b.keys)
	for i := range b.keys {
		if rival, ends := b.rivals[i]; ends {
			keys = append(keys, rival)
		}
	}
	return keys
}

// Rival is the key of the other end of the hook that draft i ends; false when it ends no hook. Of the two ends the log
// takes the first.
func (b Batch) Rival(i int) (run.Key, bool) {
	rival, ends := b.rivals[i]
	return rival, ends
}

// Attempts are the attempts of which Facts.Events must hold StepStarted,
// StepAwaitingManualCompletion and the terminal, whatever their keys (an
// imported log keeps foreign keys).
func (b Batch) Attempts() []Attempt {
	var out []Attempt
	seen := map[Attempt]bool{}
	for _, d := range b.append.Events {
		a := Attempt{d.StepID, d.LogicalAttempt}
		if marks(d.Type) && !seen[a] {
			seen[a] = true
			out = append(out, a)
		}
	}
	return out
}

// Facts is what the log holds about a batch, read under the head lock.
type Facts struct {
	Events []run.Event // in any order; the same event may stand twice
	End    *run.Event  // the terminal event of the run, when the head is terminal
}

// Plan is a decision: what the adapter writes before it commits.
type Plan struct {
	Insert   []run.Event
	Outcomes []store.EventOutcome // one per draft, in order
	// Head is the new head but for OpsRev: the adapter adds one when a receipt, a
	// delivery or the queue row changed in the transaction (T204).
	Head  store.Head
	At    time.Time // the time of everything that this transaction writes
	Moves []Move
	// EndsRun says that this batch ends the run: after Moves every accepted
	// receipt that is not final becomes NOT_APPLIED(RUN_TERMINAL) and nothing is
	// left to deliver (T196).
	EndsRun bool
	// QuiescentSeq, when not 0, is the Seq at which a paused run had nothing
	// running. After Moves it goes, no lower than the receipt's own AppliedSeq,
	// to the applied PAUSE receipt with the highest AppliedSeq of the run if that
	// one has none yet (O11).
	QuiescentSeq run.Seq
	WindowOpened *time.Time
	Audit        []store.AuditRow // refused orphans; insert if the id is new (A08)
}

// Appended is the answer to the caller once head is the committed head.
func (p Plan) Appended(head store.Head) store.Appended {
	return store.Appended{Outcomes: p.Outcomes, Head: head, WindowOpened: p.WindowOpened}
}

// Move is one step in the life of an accepted receipt. It applies only to a
// receipt that is not final, and DELIVERED only to a PENDING one.
type Move struct {
	SignalID    string
	Application run.Application
	Reason      string
	AppliedSeq  run.Seq
}

// Decide plans the batch on a locked head; now is the store's clock, read after
// the lock was won (T18). Its errors are store.ErrRegressed (T194), a *store.GateClosedError and
// store.ErrAttemptEnded.
func Decide(head store.Head, b Batch, f Facts, now time.Time) (Plan, error) {
	if head.LastSeq < b.append.MinHead {
		return Plan{}, fmt.Errorf("%w: head %d, known %d", store.ErrRegressed, head.LastSeq, b.append.MinHead)
	}
	d := newDecision(head, b.id, f, now)
	d.ifStarted = b.append.IfStarted
	for i, draft := range b.append.Events {
		d.draft(draft, b.keys[i])
	}
	if len(d.plan.Insert) > 0 && head.Gate&b.append.UnlessGate != 0 {
		return Plan{}, &store.GateClosedError{Gate: head.Gate}
	}
	if b.append.UnlessGate != 0 && beginsEnded(d.plan.Insert, f) {
		return Plan{}, store.ErrAttemptEnded
	}
	if len(d.plan.Insert) > 0 || len(b.append.Events) == 0 {
		d.plan.Head.Gate = head.Gate&^b.append.ClearGate | b.append.SetGate
	}
	d.openWindow(b.append.RetryDeadline)
	d.moves(b.append.Outcomes)
	d.quiesce()
	return d.plan, nil
}

// beginsEnded reports whether one of the new events begins an attempt of which the log has an end.
func beginsEnded(added []run.Event, f Facts) bool {
	return slices.ContainsFunc(added, func(e run.Event) bool {
		return e.Type == run.StepStartedEvent && slices.ContainsFunc(f.Events, func(old run.Event) bool {
			return old.Type.EndsAttempt() && old.StepID == e.StepID && old.LogicalAttempt == e.LogicalAttempt
		})
	})
}

// Imported is the head of a foreign log written as it is: a replay of what the
// authority would have counted (T11, T40).
func Imported(runID string, evs []run.Event) store.Head {
	head := store.Head{RunID: runID}
	d := newDecision(head, run.Identity{RunID: runID}, Facts{}, time.Time{})
	paused, resumed := 0, 0
	for _, e := range evs {
		head.LastSeq, head.LastAt = e.Seq, run.Latest(head.LastAt, e.PersistedAt)
		head.Terminal = head.Terminal || e.Type.EndsRun()
		head.Running += d.count(e)
		switch e.Type {
		case run.RunPaused:
			paused = max(paused, e.LogicalAttempt)
		case run.RunResumed:
			resumed = max(resumed, e.LogicalAttempt)
		case run.SignalAccepted:
			if p, err := run.PayloadOf[run.SignalPayload](e.Payload); err == nil && p.SignalType.Overlays() {
				head.Gate |= run.GateOverlaid
			}
		}
	}
	if paused > resumed {
		head.Gate |= run.GatePaused
	}
	return head
}
