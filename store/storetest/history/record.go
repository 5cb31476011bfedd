// Package history records what several processes did to one store at once, and
// judges it. The recorder writes one line before a call and one after it into a
// journal that all processes share; the order of its lines is the order in real
// time, for a line that was written before another began to be written stands
// before it, whatever the clocks say. The checker reads the journal and the
// logs that the store holds at the end, and knows the contract of package store
// alone: it recomputes keys, gates and counts itself and has no part of any
// adapter or of the Append Authority. A Rule names each thing that it holds a
// history against.
package history

import (
	"encoding/json"
	"time"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// Kind names the method that was called.
type Kind string

// Kinds of calls.
const (
	KindAppend   Kind = "append"
	KindBegin    Kind = "begin"
	KindBatch    Kind = "batch"
	KindTransact Kind = "transact" // InRun: an append and a receipt
	KindCreate   Kind = "create"
	KindEvents   Kind = "events"
	KindBefore   Kind = "eventsBefore"
	KindLoad     Kind = "load"
	KindSince    Kind = "since"
	KindHeads    Kind = "heads"
	KindSave     Kind = "save"
	KindChanged  Kind = "changed"
)

// Fate is what a caller knows about a call that is over.
type Fate string

// Fates. A call without an answer is Unknown.
const (
	Done    Fate = "done"
	Nothing Fate = "nothing" // refused: nothing was written
	Unknown Fate = "unknown" // an error after which it may have been written
)

// Record is one line of a journal; exactly one field is set.
type Record struct {
	Call    *Call   `json:"call,omitempty"`
	Return  *Return `json:"return,omitempty"`
	Log     *Log    `json:"log,omitempty"`
	Drained bool    `json:"drained,omitempty"` // no writer is left, and every checkpoint is at its head
}

// Call is what an actor asked for. An actor has one call under way at a time.
type Call struct {
	ID    string `json:"id"`
	Actor string `json:"actor"`
	Kind  Kind   `json:"kind"`
	RunID string `json:"runId,omitempty"`

	Entries  []Entry       `json:"entries,omitempty"`  // what a write is to write, one transaction
	Identity *run.Identity `json:"identity,omitempty"` // create

	Seq    run.Seq  `json:"seq,omitempty"` // events: after; eventsBefore: before; since: w; save: of the state
	Limit  int      `json:"limit,omitempty"`
	RunIDs []string `json:"runIds,omitempty"` // heads
	Cursor string   `json:"cursor,omitempty"` // changed
}

// Entry is one Append or one StartAttempt.
type Entry struct {
	Append *store.Append       `json:"append,omitempty"`
	Begin  *store.StartAttempt `json:"begin,omitempty"`
}

// Return is what the caller was told.
type Return struct {
	Call  string `json:"call"` // its id
	Fate  Fate   `json:"fate"`
	Error string `json:"error,omitempty"`
	// Missing is ErrNotFound, Regressed ErrRegressed, Strange one that the port does
	// not speak of.
	Missing   bool `json:"missing,omitempty"`
	Regressed bool `json:"regressed,omitempty"`
	Strange   bool `json:"strange,omitempty"`

	Answers []Answer     `json:"answers,omitempty"` // of a write, one for each entry
	Wrote   bool         `json:"wrote,omitempty"`   // create, save
	Page    []Seen       `json:"page,omitempty"`    // events, eventsBefore
	Heads   []store.Head `json:"heads,omitempty"`   // load, since, heads
	Folds   []Fold       `json:"folds,omitempty"`   // load, since, changed
	Epoch   string       `json:"epoch,omitempty"`
	Next    string       `json:"next,omitempty"` // changed
}

// Answer is what became of one entry.
type Answer struct {
	Fate     Fate       `json:"fate"`
	Error    string     `json:"error,omitempty"`
	Outcomes []Outcome  `json:"outcomes,omitempty"` // of an append
	Head     store.Head `json:"head"`

	Verdict    store.StartVerdict `json:"verdict,omitempty"` // of a begin
	StartedSeq run.Seq            `json:"startedSeq,omitempty"`
	Terminal   *Seen              `json:"terminal,omitempty"`
}

// Outcome is store.EventOutcome.
type Outcome struct {
	Seq             run.Seq   `json:"seq,omitempty"`
	EventID         string    `json:"eventId,omitempty"`
	PersistedAt     time.Time `json:"persistedAt,omitzero"`
	Deduplicated    bool      `json:"deduplicated,omitempty"`
	PayloadMismatch bool      `json:"payloadMismatch,omitempty"`
	Refused         run.Code  `json:"refused,omitempty"`
	Existing        *Seen     `json:"existing,omitempty"`
}

// Seen is an event that somebody read: its place and a digest of all of it.
type Seen struct {
	Seq run.Seq `json:"seq"`
	Sum string  `json:"sum"`
}

// Fold is something that a reader was shown as the fold of a log at Seq: a digest
// of the whole state, of its header, or of what changed after From.
type Fold struct {
	Of    string  `json:"of"` // OfState, OfHeader, OfDelta
	RunID string  `json:"runId"`
	From  run.Seq `json:"from,omitempty"`
	Seq   run.Seq `json:"seq"`
	Head  run.Seq `json:"head"`
	Sum   string  `json:"sum"`
}

// What a Fold is of.
const (
	OfState  = "state"
	OfHeader = "header"
	OfDelta  = "delta"
)

// Log is a run as a fresh connection found it at the end.
type Log struct {
	Identity    run.Identity  `json:"identity"`
	CreatedAt   time.Time     `json:"createdAt"`
	TriggeredBy string        `json:"triggeredBy"`
	Head        store.Head    `json:"head"`
	Events      []Event       `json:"events"`
	Receipts    []run.Receipt `json:"receipts,omitempty"`
}

// Event is a run.Event whose signal survives JSON.
type Event struct {
	run.Event
	SignalID string `json:"signalId,omitempty"`
}

// see digests an event.
func see(e run.Event) Seen {
	return Seen{Seq: e.Seq, Sum: digest(Event{Event: e, SignalID: e.SignalID})}
}

// digest is equal for values with the same JSON.
func digest(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return "not JSON: " + err.Error()
	}
	return hash(string(b))[:16]
}
