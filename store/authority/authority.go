// Package authority decides appends, and folds checkpoints, for all adapters of store. From the locked head of a run
// and the stored events that concern a batch it decides which events to insert and which receipts and head fields
// change in the same transaction. It does no I/O and reads no clock. An adapter locks the head, reads the events that
// Batch.Keys and Batch.Attempts name, calls Decide, and writes the Plan unchanged.
//
// Guarantees:
//   - A draft is first compared with the stored event of its key, then with the end of its attempt or hook, then with
//     the end of the run, so that a repeated append gets its first answer (contract T228, T10, T80).
//   - Only inserted events get a Seq, without holes (contract T28, T190).
//   - The same input gives the same decision.
package authority

import (
	"fmt"
	"slices"
	"time"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// Precision is the precision of all stored times. Adapters truncate to it.
const Precision = time.Microsecond

// Attempt names one logical attempt of a step.
type Attempt struct {
	StepID  string
	Logical int
}

// Batch is the validated drafts of one append, with their keys.
type Batch struct {
	id     run.Identity
	append store.Append
	keys   []run.Key       // of the drafts
	rivals map[int]run.Key // by index of the draft, see Rival
}

// Prepare validates the drafts of a and computes their keys. The first invalid draft aborts the batch with a
// *run.SchemaError (contract T190). More than store.MaxBatch drafts are an error.
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

// otherEnd returns the draft of the other possible end of the hook that d ends; false when d ends no hook.
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

// Append returns the append from which the batch was prepared. For a StartAttempt it has only the StepStarted.
func (b Batch) Append() store.Append { return b.append }

// Event returns the stored form of draft i with the given Seq and PersistedAt.
func (b Batch) Event(i int, seq run.Seq, at time.Time) run.Event {
	return newEvent(b.id, b.append.Events[i], b.keys[i], seq, at)
}

// Keys returns the keys whose stored events must be in Facts.Events: those of the drafts in their order, then their
// rivals.
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

// Rival returns the key of the other possible end of the hook that draft i ends; false when it ends no hook. The log
// takes only the first of the two.
func (b Batch) Rival(i int) (run.Key, bool) {
	rival, ends := b.rivals[i]
	return rival, ends
}

// Attempts returns the attempts whose StepStarted, StepAwaitingManualCompletion and terminal must be in Facts.Events.
// They must be found by attempt and not by key, because an imported log keeps foreign keys.
func (b Batch) Attempts() []Attempt {
	var out []Attempt
	seen := map[Attempt]bool{}
	for _, d := range b.append.Events {
		a := Attempt{d.StepID, d.LogicalAttempt}
		if changesRunning(d.Type) && !seen[a] {
			seen[a] = true
			out = append(out, a)
		}
	}
	return out
}

// Facts are the stored events that concern a batch, read under the head lock.
type Facts struct {
	Events []run.Event // in any order; an event may occur twice
	End    *run.Event  // the terminal event of the run, when the head is terminal
}

// Plan is the decision about a batch: the changes that the adapter must write before it commits.
type Plan struct {
	Insert   []run.Event
	Outcomes []store.EventOutcome // one per draft, in order
	// Head is the new head except for OpsRev. The adapter increments OpsRev when a receipt, a delivery or the queue row
	// changed in the transaction (contract T204).
	Head  store.Head
	At    time.Time // the time of all rows that this transaction writes
	Moves []Move
	// EndsRun says that this batch ends the run. After Moves, the adapter sets every accepted receipt without a final
	// application to NOT_APPLIED(RUN_TERMINAL) and leaves nothing to deliver (contract T196).
	EndsRun bool
	// QuiescentSeq, when not 0, is the Seq from which on the paused run had no running step. After Moves, the adapter
	// writes it to the applied PAUSE receipt with the highest AppliedSeq, unless that receipt has a QuiescentSeq already.
	// It writes the AppliedSeq instead when that is higher (contract O11).
	QuiescentSeq run.Seq
	WindowOpened *time.Time
	Audit        []store.AuditRow // of refused orphans; insert those whose ID is new
}

// Result returns the result for the caller; head is the committed head.
func (p Plan) Result(head store.Head) store.Appended {
	return store.Appended{Outcomes: p.Outcomes, Head: head, WindowOpened: p.WindowOpened}
}

// Move changes the application of an accepted receipt. It does not change a receipt with a final application, and
// DELIVERED changes only a PENDING one.
type Move struct {
	SignalID    string
	Application run.Application
	Reason      string
	AppliedSeq  run.Seq
}

// Decide decides a batch on a locked head. now is the store's clock, which the adapter must read after it got the lock,
// so that PersistedAt never decreases within a run (contract T18). Errors are store.ErrRegressed,
// *store.GateClosedError and store.ErrAttemptEnded.
func Decide(head store.Head, b Batch, f Facts, now time.Time) (Plan, error) {
	if head.LastSeq < b.append.MinHead {
		return Plan{}, fmt.Errorf("%w: head %d, known %d", store.ErrRegressed, head.LastSeq, b.append.MinHead)
	}
	d := newDecision(head, b.id, f, now)
	d.ifStarted = b.append.IfStarted
	for i, draft := range b.append.Events {
		d.decideDraft(draft, b.keys[i])
	}
	if len(d.plan.Insert) > 0 && head.Gate&b.append.UnlessGate != 0 {
		return Plan{}, &store.GateClosedError{Gate: head.Gate}
	}
	if b.append.UnlessGate != 0 && restartsEnded(d.plan.Insert, f) {
		return Plan{}, store.ErrAttemptEnded
	}
	if len(d.plan.Insert) > 0 || len(b.append.Events) == 0 {
		d.plan.Head.Gate = head.Gate&^b.append.ClearGate | b.append.SetGate
	}
	d.openWindow(b.append.RetryDeadline)
	d.resolveOutcomes(b.append.Outcomes)
	d.setQuiescentSeq()
	return d.plan, nil
}

// restartsEnded reports whether one of the new events starts an attempt whose end is in the log.
func restartsEnded(added []run.Event, f Facts) bool {
	return slices.ContainsFunc(added, func(e run.Event) bool {
		return e.Type == run.StepStartedEvent && slices.ContainsFunc(f.Events, func(old run.Event) bool {
			return old.Type.EndsAttempt() && old.StepID == e.StepID && old.LogicalAttempt == e.LogicalAttempt
		})
	})
}

// HeadOfImport returns the head of an imported log, whose events were written without a decision. It counts them as
// Decide would have (contract T11, T40).
func HeadOfImport(runID string, evs []run.Event) store.Head {
	head := store.Head{RunID: runID}
	d := newDecision(head, run.Identity{RunID: runID}, Facts{}, time.Time{})
	paused, resumed := 0, 0
	for _, e := range evs {
		head.LastSeq, head.LastAt = e.Seq, run.Latest(head.LastAt, e.PersistedAt)
		head.Terminal = head.Terminal || e.Type.EndsRun()
		head.Running += d.record(e)
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
