// Package store is the StateStore as the rest of dvt sees it: the append-only
// log of every run, which is the only truth, and the operational rows that
// change in the same transactions. Adapters live below; storetest is the one
// suite that every adapter passes.
//
// Guarantees of every adapter: within a run, commit order is Seq order (T27,
// T190); a number is assigned only under the run's head lock and never burned
// (T28); dedupe by key comes before every guard (T228); PersistedAt comes from
// the store's clock and never falls within a run (T18); after a method returned
// without an error its effect is durable. Methods are safe for concurrent use.
// A cancelled context may or may not have committed: callers repeat the call,
// which is idempotent by key.
package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
)

// Sentinel errors. Adapters translate driver errors by code, never by text.
var (
	ErrNotFound    = errors.New("store: not found")
	ErrConflict    = errors.New("store: conflict") // a conditional write found another state
	ErrUnavailable = errors.New("store: unavailable")
	ErrSchema      = errors.New("store: schema version outside this program's range")
	// ErrOverloaded says that a bounded queue in front of the store is full: the call
	// was refused before anything was tried. An *OverloadedError says when to come back.
	ErrOverloaded = errors.New("store: overloaded")
)

// OverloadedError is ErrOverloaded with the time after which trying again makes sense.
type OverloadedError struct{ RetryAfter time.Duration }

// Error implements error.
func (e *OverloadedError) Error() string {
	return ErrOverloaded.Error() + ": try again in " + e.RetryAfter.String()
}

// Unwrap makes errors.Is(err, ErrOverloaded) true.
func (e *OverloadedError) Unwrap() error { return ErrOverloaded }

// Store is everything an adapter offers.
type Store interface { //nolint:interfacebloat // the sum of the ports; callers take the part they need
	Log
	States
	Projection
	Outbox
	Runs
	Feed
	Queue
	Admissions
	Approvals
	Signals
	Senders
	Bulks
	BulkWork
	Overlays
	Alerts
	Authority
	Workers
	Transactor
	Reconciliation
	Upkeep
	Audits
	Ops
}

// Log is the append-only log and its authority.
type Log interface {
	// Append adds events to one run in one transaction: all of them that are
	// not duplicates or refused, or none when it returns an error. Outcomes stand
	// in the order of the drafts. A *run.SchemaError aborts the call (T190).
	Append(ctx context.Context, a Append) (Appended, error)
	// StartAttempt looks up one logical attempt and appends its StepStarted, in one
	// transaction under the head lock (T185, T216). It is never fail-open.
	StartAttempt(ctx context.Context, b StartAttempt) (AttemptStarted, error)
	// Events reads events with Seq > after, ascending, at most limit (≤ MaxPage).
	Events(ctx context.Context, runID string, after run.Seq, limit int) ([]run.Event, error)
	// EventsBefore reads events with Seq < before, descending, at most limit.
	EventsBefore(ctx context.Context, runID string, before run.Seq, limit int) ([]run.Event, error)
	// Heads reads the heads of up to MaxHeads runs and the epoch in one query;
	// unknown runs are absent (T187, T194).
	Heads(ctx context.Context, runIDs []string) (Heads, error)
	// Import writes events as they are, unknown types and foreign ids included,
	// into a run made by ImportRun semantics: keys and seqs are kept (T11, T40).
	Import(ctx context.Context, r NewRun, evs []run.Event) error
}

// Limits of reads.
const (
	MaxPage  = 1000
	MaxHeads = 10000
)

// Append is one write to the log of one run.
type Append struct {
	RunID  string      `json:"runId"`
	Events []run.Draft `json:"events,omitempty"` // at most MaxBatch
	// SetGate and ClearGate change the gate in the same transaction. They take
	// effect only if at least one event was inserted or Events is empty, so a
	// repeated append does not close a gate that was reopened since.
	SetGate   run.Gate `json:"setGate,omitempty"`
	ClearGate run.Gate `json:"clearGate,omitempty"`
	// Outcomes moves receipts. They are applied idempotently: a final receipt
	// does not move.
	Outcomes []SignalOutcome `json:"outcomes,omitempty"`
	// RetryDeadline, when not zero, opens the retry window if nothing non-manual
	// is RUNNING after this batch and the gate has failing but not paused: the
	// store stamps it on the last inserted StepFailed, StepCompleted,
	// StepAwaitingManualCompletion or RunResumed (T221). The store also stamps
	// RunPaused.runningStepsCount.
	RetryDeadline time.Time `json:"retryDeadline,omitzero"`
	// IfStarted refuses a step's terminal with STEP_NOT_STARTED when its StepStarted
	// is neither in the log nor earlier in the batch: an execution that was stopped
	// may never have begun, and only the log knows (T79, T185).
	IfStarted bool `json:"ifStarted,omitempty"`
	// UnlessGate holds the append back where the gate has one of these members and an event would be inserted:
	// nothing is written, and the error is a *GateClosedError. Nothing is written either, and the error is
	// ErrAttemptEnded, where a StepStarted would be inserted behind an end of its attempt: the caller has not observed
	// that end. What the log has already is answered as the first time (T185).
	UnlessGate run.Gate `json:"unlessGate,omitempty"`
	// Seen is the seq up to which the caller has read the log; see engine.Journal.Append. No store reads it.
	Seen run.Seq `json:"seen,omitempty"`
	// MinHead is the head that the caller's last append returned; a lower head
	// is ErrRegressed (T194). 0 means unknown.
	MinHead run.Seq `json:"minHead,omitempty"`
}

// MaxBatch is the most events in one Append.
const MaxBatch = 512

// ErrRegressed says that the log is shorter than it was known to be (T194).
var ErrRegressed = errors.New("store: log regressed")

// ErrAttemptEnded says that an append was held back because the log has an end of an attempt that it would begin, see
// Append.UnlessGate. Nothing was written.
var ErrAttemptEnded = errors.New(
	"store: the append was held back: the log has an end of an attempt that it would begin")

// GateClosedError says that an append was held back, see Append.UnlessGate. Nothing was written.
type GateClosedError struct{ Gate run.Gate } // of the run, as it was found

// Error implements error.
func (e *GateClosedError) Error() string {
	return fmt.Sprintf("store: the append was held back: the gate of the run is %04b", e.Gate)
}

// SignalOutcome moves the receipt of one signal. AppliedBy is the index in
// Append.Events of the effect, whose Seq becomes AppliedSeq; -1 for none.
type SignalOutcome struct {
	SignalID    string          `json:"signalId"`
	Application run.Application `json:"application"`
	Reason      string          `json:"reason,omitempty"`
	AppliedBy   int             `json:"appliedBy"`
}

// EventOutcome is what became of one draft.
type EventOutcome struct {
	Seq          run.Seq
	EventID      string
	EmittedAt    time.Time // of the stored event
	PersistedAt  time.Time
	Deduplicated bool // the stored event with this key is returned (T09)
	// PayloadMismatch says that the duplicate came with another payload; the first
	// one stays (T15, append_payload_mismatch_total), and Existing is that event.
	PayloadMismatch bool
	// Refused is "" or INVALID_TRANSITION (Existing is the end of the run, attempt or hook that won, T10),
	// STEP_NOT_STARTED (see Append.IfStarted) or ORPHANED_TASK (the run is over, T80; an audit row was written).
	Refused  run.Code
	Existing *run.Event
}

// Appended is the answer to an Append.
type Appended struct {
	Outcomes []EventOutcome
	Head     Head
	// WindowOpened is the retry deadline in force when this batch opened it.
	WindowOpened *time.Time
}

// Head is the row that every append locks (design §3).
type Head struct {
	RunID    string    `json:"runId"`
	LastSeq  run.Seq   `json:"lastSeq"`
	LastAt   time.Time `json:"lastAt"`
	Terminal bool      `json:"terminal"`
	Gate     run.Gate  `json:"gate"`
	Running  int       `json:"running"` // non-manual attempts RUNNING at LastSeq (T185)
	OpsRev   int64     `json:"opsRev"`
	SignalNo int64     `json:"signalNo"`
}

// Heads answers Log.Heads. Epoch is opaque and compared for equality (T194).
type Heads struct {
	Epoch string
	Now   time.Time // the store's clock
	ByRun map[string]Head
}

// StartAttempt asks to start one logical attempt.
type StartAttempt struct {
	RunID          string    `json:"runId"`
	StepID         string    `json:"stepId"`
	LogicalAttempt int       `json:"logicalAttempt"`
	EngineAttempt  int       `json:"engineAttempt"`
	EmittedAt      time.Time `json:"emittedAt"`
	// PassFailing lets a retried step through a gate that is closed only by
	// another failure (T217).
	PassFailing bool `json:"passFailing,omitempty"`
	// SignalID is the RETRY_STEP that caused the attempt: its receipt becomes
	// APPLIED at the StepStarted's Seq in the same transaction.
	SignalID string `json:"signalId,omitempty"`
	// ParamsSeq is stamped on the StepStarted; only OverlayTx.StartAttempt takes it (T197).
	ParamsSeq run.Seq `json:"-"`
	// Heavy is the bucket that a token is taken of with the StepStarted; none when nil. Without a
	// token nothing is appended: StartThrottled. A logical attempt takes one, once (§12.3).
	Heavy *Bucket `json:"-"`
}

// StartVerdict is the answer to a StartAttempt.
type StartVerdict string

// Verdicts of StartAttempt (T185).
const (
	StartGranted     StartVerdict = "RUN"          // StepStarted is in the log: work
	StartDone        StartVerdict = "DONE"         // a terminal exists: return it, do not work
	StartParked      StartVerdict = "PARKED"       // the gate is closed: return at once
	StartRunTerminal StartVerdict = "RUN_TERMINAL" // the run is over
	// no token for a heavy step: return at once, come again after RetryAfter (T113).
	StartThrottled StartVerdict = "THROTTLED"
)

// AttemptStarted answers a StartAttempt.
type AttemptStarted struct {
	Verdict    StartVerdict `json:"verdict"`
	StartedSeq run.Seq      `json:"startedSeq,omitempty"` // RUN
	Terminal   *run.Event   `json:"terminal,omitempty"`   // DONE
	Head       Head         `json:"head"`
	// RetryAfter is when there is a token, at least 100 ms; THROTTLED.
	RetryAfter time.Duration `json:"retryAfter,omitempty"`
}

// States keeps checkpoints (T193, T212). They are caches: deleting them changes no answer.
type States interface {
	// Load reads checkpoint and tail in one snapshot of the store and folds them to
	// the head. ErrNotFound for an unknown run.
	Load(ctx context.Context, runID string) (Loaded, error)
	// At reads the state as it was at seq, or at the head when seq is beyond it:
	// FROM_SNAPSHOT, on the checkpoint, when that is not beyond seq, else FULL, from the
	// first event (S10, T26, T32). CheckpointAt is the base, 0 for FULL; the events
	// folded are those in (base, seq], however old the checkpoint that was asked for.
	// Head, Epoch and Now are of the read. ErrNotFound for an unknown run.
	At(ctx context.Context, runID string, seq run.Seq) (Loaded, error)
	// Save keeps a newer checkpoint: the header and the changed steps, if none of
	// the same revision is as new. It reports whether it wrote.
	Save(ctx context.Context, s run.State, c run.Changes) (bool, error)
	// Dirty lists runs with something to project since at least minAge and not held
	// back by PublishFailed, oldest first, at most limit (T189).
	Dirty(ctx context.Context, minAge time.Duration, limit int) ([]DirtyRun, error)
	// Published records that everything up to to was published, forgets failures, and
	// removes the dirty mark if nothing was appended since and ops have not moved past opsRev.
	Published(ctx context.Context, runID string, to run.Seq, opsRev int64) error
	// Since reads header and steps changed after w, folded to the head, in one
	// read; for w = 0 it is the whole state. When the checkpoint is at the head it
	// reads the changed steps alone, whatever the size of the run (T212): State in
	// the answer then has no Steps.
	Since(ctx context.Context, runID string, w run.Seq) (Loaded, run.Delta, error)
}

// Loaded is a state at the head of its log.
type Loaded struct {
	State        run.State
	Head         Head
	CheckpointAt run.Seq     // seq of the checkpoint that was found, 0 for none
	Changes      run.Changes // what folding the tail changed over the checkpoint
	PublishedSeq run.Seq
	Epoch        string
	Now          time.Time // the store's clock
	// OldestUnprojected is persistedAt of the first event after the checkpoint,
	// zero when there is none (T34).
	OldestUnprojected time.Time
	Anomalies         []run.Anomaly
}

// DirtyRun is a run with something to project and publish.
type DirtyRun struct {
	RunID   string
	HeadSeq run.Seq
	OpsRev  int64
	Since   time.Time
}

// Runs holds the immutable facts of runs and the plan bodies.
type Runs interface {
	Plans
	Get(ctx context.Context, runID string) (Run, error)
	ByRequest(ctx context.Context, key run.Key) (Run, error)
	// List reads headers, newest first unless asked otherwise, folded at their
	// checkpoints; Feed makes a list live.
	List(ctx context.Context, f RunFilter) ([]RunRow, error)
	// Count counts what List would show, by when it was created: f.CreatedFrom to
	// f.CreatedTo, which are given, in equal parts (1 to MaxParts), the oldest first. Limit and
	// places of f are ignored. It reads indexes alone and costs as much as there are runs in
	// that time: ErrTooMany above MaxCounted of them.
	Count(ctx context.Context, f RunFilter, parts int) ([]RunCount, error)
	// RunScopes lists the scopes in which a tenant has runs, each once, as of their checkpoints: in the projects, or in
	// all of them with nil. Of more than limit (1..MaxPage) it leaves out some; of all projects, the last by name. It
	// probes an index once for each scope.
	RunScopes(ctx context.Context, tenantID string, projects []string, limit int) ([]Scope, error)
}

// Plans holds plan bodies by their digest.
type Plans interface {
	PutPlan(ctx context.Context, sha256 string, doc []byte) error
	Plan(ctx context.Context, sha256 string) ([]byte, error)
}

// Run is the immutable facts of a run.
type Run struct {
	run.Identity
	RequestKey    run.Key
	RequestID     string
	PlanRef       plan.Ref
	TriggeredBy   string
	TriggerSource string
	ParentRunID   string
	Params        json.RawMessage
	Policy        run.Policy
	CreatedAt     time.Time
}

// RunFilter selects runs of one tenant. Empty fields do not restrict, but without
// a TenantID there are no runs.
type RunFilter struct {
	TenantID string
	// EveryTenant, with an empty TenantID, makes Feed.Changed read all runs there
	// are. It is for consumers that act for nobody, such as exporters, never for a request.
	EveryTenant   bool
	ProjectIDs    []string // nil: every project of the tenant
	EnvironmentID string
	// Scopes restrict further to runs that one of them covers. ProjectIDs beside them keep the index of projects in
	// use.
	Scopes      Scopes `json:",omitempty"` // requests of before are known by their text
	Statuses    []run.Status
	PlanID      string
	TriggeredBy string // the principal that started them
	// Text is a prefix of runId or a part of planId. The plans that were run are looked
	// through for it: that is what the price of a list grows with besides its page.
	Text        string
	CreatedFrom time.Time
	CreatedTo   time.Time
	// Steps makes List read the steps of its runs too, as of the same checkpoints: at
	// most MaxListSteps in all, else ErrTooMany.
	Steps bool
	Limit int // 1..201
	// Keyset paging by (createdAt, runId): rows strictly after or before it in
	// display order. Backward reverses the direction of the scan, not of the answer.
	After     *RunPos
	Before    *RunPos
	Ascending bool
}

// RunPos is a position in a list of runs.
type RunPos struct {
	CreatedAt time.Time
	RunID     string
}

// RunRow is one row of a list.
type RunRow struct {
	Header run.Header
	Steps  []*run.Step // in plan order, when RunFilter.Steps asked for them
	Head   run.Seq     // head of the log; above Header.Seq when the checkpoint lags
	OpsRev int64
}

// MaxListSteps bounds the steps that one List reads.
const MaxListSteps = 20_000

// ErrTooMany says that an answer would be larger than its bound.
var ErrTooMany = errors.New("store: the answer is too large")

// Ops is the housekeeping side of a store.
type Ops interface {
	// Ping reports whether the store answers reads.
	Ping(ctx context.Context) error
	// Writable reports whether it takes writes, as far as that can be told in a read or
	// one small write; what it proves may be some seconds old. ErrUnavailable says no.
	Writable(ctx context.Context) error
	Epoch(ctx context.Context) (string, error)
	BumpEpoch(ctx context.Context) error
	Close() error
}
