// Package history records the calls of several processes on one store and checks them against the contract of the
// store.
//
// The recorder writes one line before and one line after each call to a journal that all processes share. The order of
// the lines is the order in real time: if the write of a line ends before the write of another begins, it is first in
// the file, independently of clocks.
//
// The checker reads the journal and the final logs of the store. It depends only on the contract of package store: it
// computes keys, gates and counts itself and uses no code of an adapter or of package authority. Each Rule is one
// promise that it checks.
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
	KindAppend       Kind = "append"
	KindStartAttempt Kind = "startAttempt"
	KindBatch        Kind = "batch"
	KindTransact     Kind = "transact" // InRun: an append and a receipt
	KindCreate       Kind = "create"
	KindEvents       Kind = "events"
	KindBefore       Kind = "eventsBefore"
	KindLoad         Kind = "load"
	KindSince        Kind = "since"
	KindHeads        Kind = "heads"
	KindSave         Kind = "save"
	KindChanged      Kind = "changed"
)

// Effect is the knowledge of a caller about a finished call.
type Effect string

// Effects. A call without a result is Unknown.
const (
	Done    Effect = "done"
	Nothing Effect = "nothing" // refused: nothing was written
	Unknown Effect = "unknown" // an error after which it may have been written
)

// Record is one line of a journal; exactly one field is set.
type Record struct {
	Call    *Call   `json:"call,omitempty"`
	Return  *Return `json:"return,omitempty"`
	Log     *Log    `json:"log,omitempty"`
	Drained bool    `json:"drained,omitempty"` // no writer is left, and every checkpoint is at its head
}

// Call is one call of an actor. An actor makes one call at a time.
type Call struct {
	ID    string `json:"id"`
	Actor string `json:"actor"`
	Kind  Kind   `json:"kind"`
	RunID string `json:"runId,omitempty"`

	Entries  []Entry       `json:"entries,omitempty"`  // of a write, in one transaction
	Identity *run.Identity `json:"identity,omitempty"` // create

	Seq    run.Seq  `json:"seq,omitempty"` // events: after; eventsBefore: before; since: w; save: of the state
	Limit  int      `json:"limit,omitempty"`
	RunIDs []string `json:"runIds,omitempty"` // heads
	Cursor string   `json:"cursor,omitempty"` // changed
}

// Entry is one Append or one StartAttempt.
type Entry struct {
	Append *store.Append       `json:"append,omitempty"`
	Start  *store.StartAttempt `json:"start,omitempty"`
}

// Return is the result of a call.
type Return struct {
	Call   string `json:"call"` // its id
	Effect Effect `json:"effect"`
	Error  string `json:"error,omitempty"`
	// Missing means ErrNotFound, Regressed means ErrRegressed, Strange means an error that the interface of the store does
	// not document.
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

// Answer is the result of one entry.
type Answer struct {
	Effect   Effect     `json:"effect"`
	Error    string     `json:"error,omitempty"`
	Outcomes []Outcome  `json:"outcomes,omitempty"` // of an append
	Head     store.Head `json:"head"`

	Verdict    store.StartVerdict `json:"verdict,omitempty"` // of a StartAttempt
	StartedSeq run.Seq            `json:"startedSeq,omitempty"`
	Terminal   *Seen              `json:"terminal,omitempty"`
}

// Outcome is a store.EventOutcome with a digest of the existing event.
type Outcome struct {
	Seq             run.Seq   `json:"seq,omitempty"`
	EventID         string    `json:"eventId,omitempty"`
	PersistedAt     time.Time `json:"persistedAt,omitzero"`
	Deduplicated    bool      `json:"deduplicated,omitempty"`
	PayloadMismatch bool      `json:"payloadMismatch,omitempty"`
	Refused         run.Code  `json:"refused,omitempty"`
	Existing        *Seen     `json:"existing,omitempty"`
}

// Seen is an event that an actor read: its seq and a digest of all its fields.
type Seen struct {
	Seq run.Seq `json:"seq"`
	Sum string  `json:"sum"`
}

// Fold is a value that a reader received as the fold of a log at Seq: a digest of the complete state, of its header, or
// of the delta after From.
type Fold struct {
	Of    string  `json:"of"` // OfState, OfHeader, OfDelta
	RunID string  `json:"runId"`
	From  run.Seq `json:"from,omitempty"`
	Seq   run.Seq `json:"seq"`
	Head  run.Seq `json:"head"`
	Sum   string  `json:"sum"`
}

// The kinds of a Fold.
const (
	OfState  = "state"
	OfHeader = "header"
	OfDelta  = "delta"
)

// Log is a run as a new connection reads it at the end.
type Log struct {
	Identity    run.Identity        `json:"identity"`
	CreatedAt   time.Time           `json:"createdAt"`
	TriggeredBy string              `json:"triggeredBy"`
	Head        store.Head          `json:"head"`
	Events      []Event             `json:"events"`
	Receipts    []run.SignalReceipt `json:"receipts,omitempty"`
}

// Event is a run.Event whose SignalID is also encoded in JSON.
type Event struct {
	run.Event
	SignalID string `json:"signalId,omitempty"`
}

// see returns the seq and the digest of an event.
func see(e run.Event) Seen {
	return Seen{Seq: e.Seq, Sum: digest(Event{Event: e, SignalID: e.SignalID})}
}

// digest returns a hash of the JSON of v.
func digest(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return "not JSON: " + err.Error()
	}
	return hash(string(b))[:16]
}
