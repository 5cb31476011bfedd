// Package store defines the ports of the StateStore. A store holds the append-only log of every run, which is the only
// source of truth, and the operational rows that change in the same transactions. The adapters are the packages
// store/postgres and store/sqlite; every adapter passes the conformance suite of store/storetest.
//
// Every adapter guarantees:
//   - Within a run, events commit in the order of their Seq, so that a reader that continues after a Seq misses no
//     event (contract T27, T190).
//   - The store assigns a Seq only under the lock of the run's head. A refused or duplicate event takes no Seq, so that
//     the log has no holes (contract T28).
//   - It looks for a duplicate by key before every guard, so that a repeated call gets its first answer even after the
//     run has ended (contract T228).
//   - PersistedAt comes from the store's clock and never decreases within a run (contract T18).
//   - The effect of a method that returned without an error is durable.
//
// A limit that is not within its range means the largest value of the range.
//
// Methods are safe for concurrent use. After a context was cancelled the call may or may not have committed; callers
// repeat it, because calls are idempotent by key.
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
	ErrNotFound = errors.New("store: not found")
	// ErrConflict is returned by a conditional write whose condition did not hold. Nothing was written.
	ErrConflict    = errors.New("store: conflict")
	ErrUnavailable = errors.New("store: unavailable")
	ErrSchema      = errors.New("store: schema version outside this program's range")
	// ErrOverloaded says that a bounded queue in front of the store is full. The call was refused before anything was
	// tried. An *OverloadedError says when to retry.
	ErrOverloaded = errors.New("store: overloaded")
	// ErrReadOnly says that the store takes no writes, because it is a standby or was opened to read. Errors with it are
	// also ErrUnavailable.
	ErrReadOnly = errors.New("store: read-only")
	// ErrFenced says that the store is that of a site from which another one took over. Errors with it are also
	// ErrUnavailable.
	ErrFenced = errors.New("store: fenced")
)

// OverloadedError is ErrOverloaded with the time to wait before a retry.
type OverloadedError struct{ RetryAfter time.Duration }

// Error implements error.
func (e *OverloadedError) Error() string {
	return ErrOverloaded.Error() + ": try again in " + e.RetryAfter.String()
}

// Unwrap makes errors.Is(err, ErrOverloaded) true.
func (e *OverloadedError) Unwrap() error { return ErrOverloaded }

// Store is the union of all ports; every adapter implements it.
type Store interface { //nolint:interfacebloat // the sum of the ports; callers take the part they need
	Log
	States
	Projection
	Outbox
	Runs
	PlanHistories
	Attention
	Annotations
	SavedViews
	Feed
	Queue
	Admissions
	Approvals
	Signals
	Senders
	Bulks
	Reruns
	BulkWork
	Overlays
	Alerts
	Incidents
	Heartbeats
	Authority
	Workers
	Secrets
	Cursors
	Destinations
	DestinationOrders
	Retention
	Transactor
	Reconciliation
	Maintenance
	Audits
	Erasures
	Ops
}

// Log is the append-only log of runs, and decides which events enter it.
type Log interface {
	// Append adds events to one run in one transaction. It inserts every draft that is neither a duplicate nor refused,
	// or none when it returns an error. Appended.Outcomes has one entry for each draft, in the order of the drafts. An
	// invalid draft aborts the whole call with a *run.SchemaError (contract T190). ErrNotFound for an unknown run,
	// ErrRegressed, *GateClosedError and ErrAttemptEnded as Append describes.
	Append(ctx context.Context, a Append) (Appended, error)
	// StartAttempt decides whether one logical attempt may start, and appends its StepStarted if so, in one transaction
	// under the lock of the run's head (contract T185). It never fails open: after an error the caller must not execute
	// the step, because the gate is known only here (contract T216). While the run is open, an attempt that has started
	// and not ended is granted again, whatever the gate is by then (contract T52). ErrNotFound for an unknown run.
	StartAttempt(ctx context.Context, b StartAttempt) (AttemptStarted, error)
	// Events reads events with Seq > after, ascending, at most limit (≤ MaxPage).
	Events(ctx context.Context, runID string, after run.Seq, limit int) ([]run.Event, error)
	// EventsBefore reads events with Seq < before, descending, at most limit (≤ MaxPage).
	EventsBefore(ctx context.Context, runID string, before run.Seq, limit int) ([]run.Event, error)
	// Heads reads the heads of up to MaxHeads runs and the epoch in one query, so that checking all viewed runs every
	// second stays cheap (contract T187, T194). Unknown runs are absent.
	Heads(ctx context.Context, runIDs []string) (Heads, error)
	// Import creates a run and writes its events unchanged, including unknown event types. It keeps keys, event ids, Seqs
	// and times, so that an imported log stays comparable with its source (contract T11, T40). ErrConflict when the run
	// or its request key exists.
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
	// SetGate and ClearGate change the gate in the same transaction. They take effect only if at least one event was
	// inserted or Events is empty, so that a repeated append does not close a gate that was reopened since.
	SetGate   run.Gate `json:"setGate,omitempty"`
	ClearGate run.Gate `json:"clearGate,omitempty"`
	// Outcomes change receipts. They are idempotent: a receipt with a final application does not change.
	Outcomes []SignalOutcome `json:"outcomes,omitempty"`
	// RetryDeadline, when not zero, opens the retry window if no non-manual attempt is RUNNING after this batch and the
	// gate has GateFailing but not GatePaused. The store stamps the deadline on the last inserted StepFailed,
	// StepCompleted, StepAwaitingManualCompletion or RunResumed (contract T221). Whether or not it is set, the store
	// stamps RunPaused.runningStepsCount.
	RetryDeadline time.Time `json:"retryDeadline,omitzero"`
	// IfStarted refuses the StepCompleted or StepFailed of an attempt with STEP_NOT_STARTED when its StepStarted is
	// neither in the log nor earlier in the batch. An execution that was stopped may never have started its attempt, and
	// only the log knows (contract T79, T185).
	IfStarted bool `json:"ifStarted,omitempty"`
	// UnlessGate, when not 0, makes the append conditional. If the gate has one of these bits and the append would insert
	// an event, the error is a *GateClosedError. If the append would insert a StepStarted after an end of its attempt,
	// the error is ErrAttemptEnded, because the caller has not observed that end. Nothing is written in either case. An
	// append whose events are all in the log gets the first answer again (contract T185).
	UnlessGate run.Gate `json:"unlessGate,omitempty"`
	// Seen is the seq up to which the caller has read the log; see engine.Journal.Append. No store reads it.
	Seen run.Seq `json:"seen,omitempty"`
	// MinHead is the head that the caller's last append returned; 0 means unknown. If the head of the run is lower, a
	// restore took events away, and the error is ErrRegressed (contract T194), unless Maintenance.MarkRepaired was called
	// with MinHead or a higher seq.
	MinHead run.Seq `json:"minHead,omitempty"`
}

// MaxBatch is the most events in one Append.
const MaxBatch = 512

// ErrRegressed says that the log is shorter than a caller has seen it, for example after a restore (contract T194).
// Nothing was written.
var ErrRegressed = errors.New("store: log regressed")

// ErrAttemptEnded says that an append was refused because the log has an end of an attempt that it would start, see
// Append.UnlessGate. Nothing was written.
var ErrAttemptEnded = errors.New(
	"store: the append was refused: the log has an end of an attempt that it would start")

// GateClosedError says that an append was refused because of the gate, see Append.UnlessGate. Nothing was written.
type GateClosedError struct{ Gate run.Gate } // the gate of the run when the append was refused

// Error implements error.
func (e *GateClosedError) Error() string {
	return fmt.Sprintf("store: the append was refused: the gate of the run is %s", e.Gate)
}

// SignalOutcome changes the receipt of one signal. AppliedBy is the index in Append.Events of the event that applies
// the signal, and its Seq becomes the receipt's AppliedSeq; -1 when no event does. If that event is refused, the
// receipt becomes NOT_APPLIED.
type SignalOutcome struct {
	SignalID    string          `json:"signalId"`
	Application run.Application `json:"application"`
	Reason      string          `json:"reason,omitempty"`
	AppliedBy   int             `json:"appliedBy"`
}

// EventOutcome is the result for one draft.
type EventOutcome struct {
	Seq          run.Seq
	EventID      string
	EmittedAt    time.Time // of the stored event
	PersistedAt  time.Time
	Deduplicated bool // an event with this key was in the log; the fields above are that event's
	// PayloadMismatch says that the duplicate came with another payload. The stored payload does not change, Existing is
	// the stored event, and append_payload_mismatch_total counts it (contract T15).
	PayloadMismatch bool
	// Refused is the reason why the draft was not inserted, or "":
	//   - INVALID_TRANSITION: the run, attempt or hook has ended; Existing is the event that ended it (contract T10).
	//   - STEP_NOT_STARTED: see Append.IfStarted.
	//   - ORPHANED_TASK: the run has ended; an audit row records the event (contract T80).
	Refused  run.Code
	Existing *run.Event
}

// Appended is the result of an Append.
type Appended struct {
	Outcomes []EventOutcome // one for each draft, in the order of the drafts
	Head     Head           // after the append
	// WindowOpened is the retry deadline when this batch opened the retry window, now or when it was first appended.
	WindowOpened *time.Time
}

// Head is the row that every append to a run locks. It orders all writes to the run.
type Head struct {
	RunID    string    `json:"runId"`
	LastSeq  run.Seq   `json:"lastSeq"`
	LastAt   time.Time `json:"lastAt"`
	Terminal bool      `json:"terminal"`
	Gate     run.Gate  `json:"gate"`
	Running  int       `json:"running"` // attempts RUNNING at LastSeq that do not wait for a person
	OpsRev   int64     `json:"opsRev"`
	SignalNo int64     `json:"signalNo"`
}

// Heads is the result of Log.Heads. Epoch is opaque: a different value means that the log may have been replaced, for
// example by a restore (contract T194).
type Heads struct {
	Epoch string
	Now   time.Time // the store's clock
	ByRun map[string]Head
}

// StartAttempt requests the start of one logical attempt.
type StartAttempt struct {
	RunID          string    `json:"runId"`
	StepID         string    `json:"stepId"`
	LogicalAttempt int       `json:"logicalAttempt"`
	EngineAttempt  int       `json:"engineAttempt"`
	EmittedAt      time.Time `json:"emittedAt"`
	// PassFailing ignores GateFailing, so that a retried step starts although another step has failed (contract T217).
	PassFailing bool `json:"passFailing,omitempty"`
	// SignalID is the RETRY_STEP that caused the attempt, or "". Its receipt becomes APPLIED at the Seq of the
	// StepStarted in the same transaction.
	SignalID string `json:"signalId,omitempty"`
	// ParamsSeq is stamped on the StepStarted; only OverlayTx.StartAttempt takes it (contract T197).
	ParamsSeq run.Seq `json:"-"`
	// State is stamped on the StepStarted of a slim dbt step.
	State *run.StateBase `json:"-"`
	// Heavy is the bucket of the token that the StepStarted takes; nil when it takes no token. A logical attempt takes at
	// most one token, however often it is requested. If the bucket has no token, nothing is appended and the verdict is
	// StartThrottled.
	Heavy *Bucket `json:"-"`
}

// StartVerdict is the decision about a StartAttempt.
type StartVerdict string

// Verdicts of StartAttempt.
const (
	StartGranted     StartVerdict = "RUN"          // StepStarted is in the log: execute the step
	StartDone        StartVerdict = "DONE"         // the attempt has ended: return its terminal, do not execute the step
	StartParked      StartVerdict = "PARKED"       // the gate is closed: return at once
	StartRunTerminal StartVerdict = "RUN_TERMINAL" // the run has ended: return at once
	// StartThrottled means that the bucket has no token for a heavy step: return at once, so that the wait occupies no
	// worker, and call again after RetryAfter (contract T113).
	StartThrottled StartVerdict = "THROTTLED"
)

// AttemptStarted is the result of a StartAttempt.
type AttemptStarted struct {
	Verdict    StartVerdict `json:"verdict"`
	StartedSeq run.Seq      `json:"startedSeq,omitempty"` // of the StepStarted, for StartGranted
	Terminal   *run.Event   `json:"terminal,omitempty"`   // of the attempt, for StartDone
	Head       Head         `json:"head"`
	// RetryAfter is the time until the bucket has a token, at least 100 ms, for StartThrottled.
	RetryAfter time.Duration `json:"retryAfter,omitempty"`
}

// States stores checkpoints: the folded state of each run at some Seq. A checkpoint is a cache; deleting it changes no
// answer (contract T193, T212).
type States interface {
	// Load reads the checkpoint and the events after it in one snapshot and folds them to the head. ErrNotFound for an
	// unknown run.
	Load(ctx context.Context, runID string) (Loaded, error)
	// At reads the state at seq, or at the head when seq is beyond it. It folds from the checkpoint when the checkpoint
	// is at or before seq (FROM_SNAPSHOT), else from the first event (FULL). CheckpointAt is the Seq from which it
	// folded, 0 for FULL; all events in (CheckpointAt, seq] were folded, so that none between the checkpoint and seq is
	// missing (contract T26, T32). Head, Epoch and Now are those of the time of the read. ErrNotFound for an unknown run.
	At(ctx context.Context, runID string, seq run.Seq) (Loaded, error)
	// Save writes a checkpoint: the header and the steps that changed. It writes nothing when the stored checkpoint has
	// the same reducer revision and is not older than s. It reports whether it wrote. ErrNotFound for an unknown run.
	Save(ctx context.Context, s run.State, c run.Changes) (bool, error)
	// Dirty lists runs that have had unpublished changes for at least minAge and that PublishFailed does not delay, the
	// longest first, at most limit (≤ MaxPage).
	Dirty(ctx context.Context, minAge time.Duration, limit int) ([]DirtyRun, error)
	// MarkPublished records that all events up to to were published, and forgets refusals of the bus. It removes the dirty
	// mark unless events after to or operational changes after opsRev were committed meanwhile (contract T189).
	MarkPublished(ctx context.Context, runID string, to run.Seq, opsRev int64) error
	// Since reads the header and the steps that changed after w, folded to the head, in one read; w = 0 reads the whole
	// state. If w > 0 and the checkpoint is at the head, it reads only the changed steps, so that the cost does not grow
	// with the run (contract T212); Loaded.State then has no Steps. ErrNotFound for an unknown run.
	Since(ctx context.Context, runID string, w run.Seq) (Loaded, run.Delta, error)
}

// Loaded is the state of a run. Load and Since return it at the head of the log; At returns it at a Seq.
type Loaded struct {
	State        run.State
	Head         Head
	CheckpointAt run.Seq     // seq of the checkpoint from which the state was folded, 0 for none
	Changes      run.Changes // the parts of the state that events after the checkpoint changed
	PublishedSeq run.Seq
	Epoch        string
	Now          time.Time // the store's clock
	// OldestUnprojected is the persistedAt of the first event after the checkpoint; zero when there is no such event. The
	// lag of the projector is Now - OldestUnprojected (contract T34).
	OldestUnprojected time.Time
	Anomalies         []run.Anomaly
}

// DirtyRun is a run with unpublished changes.
type DirtyRun struct {
	RunID   string
	HeadSeq run.Seq
	OpsRev  int64
	Since   time.Time // of the oldest unpublished change
}

// Runs stores the immutable facts of runs, and plan bodies.
type Runs interface {
	Plans
	// Get reads a run by its id; ErrNotFound.
	Get(ctx context.Context, runID string) (Run, error)
	// ByRequest reads the run that was created under a request key; ErrNotFound.
	ByRequest(ctx context.Context, key run.Key) (Run, error)
	// List reads headers as of their checkpoints, newest first unless f.Ascending or f.Sort. Use Feed to learn of changes.
	List(ctx context.Context, f RunFilter) ([]RunRow, error)
	// Count counts the runs that List would return, by the time of their creation. It divides the time from f.CreatedFrom
	// to f.CreatedTo, both required, into parts (1 to MaxParts) of equal length, the oldest first. It ignores f.Limit,
	// f.Steps and the position in f. It reads only indexes, and its cost grows with the runs in that time; ErrTooMany
	// when more than MaxCounted match.
	Count(ctx context.Context, f RunFilter, parts int) ([]RunCount, error)
	// RunScopes lists the scopes in which a tenant has runs, as of their checkpoints, each once: in the given projects,
	// or in all projects when projects is nil. When there are more than limit (1..MaxPage) the list is incomplete; with
	// nil it then lacks the last projects by name. It probes an index once for each scope.
	RunScopes(ctx context.Context, tenantID string, projects []string, limit int) ([]Scope, error)
}

// Plans stores plan bodies by their SHA-256 in lower-case hex.
type Plans interface {
	// PutPlan stores a body. It changes nothing when there is one under this digest.
	PutPlan(ctx context.Context, sha256 string, doc []byte) error
	// Plan reads a body; ErrNotFound.
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

// RunFilter selects runs of one tenant. Empty fields do not restrict, but an empty TenantID matches no run.
type RunFilter struct {
	TenantID string
	// EveryTenant, with an empty TenantID, makes Feed.ListChanged read the runs of all tenants. It is for consumers that
	// act for no principal, such as exporters, and must never come from a request.
	EveryTenant   bool
	ProjectIDs    []string // nil: every project of the tenant
	EnvironmentID string
	// Scopes restrict further to runs that one of them covers. Set ProjectIDs too where possible: only they use the index
	// of projects.
	Scopes   Scopes `json:",omitempty"` // omitted when empty, so that fingerprints of older requests stay equal
	Statuses []run.Status
	// AwaitingOperator adds the runs that are AWAITING_OPERATOR to those with one of Statuses. Without Statuses the filter
	// selects only them.
	AwaitingOperator bool   `json:",omitempty"`
	Tag              string `json:",omitempty"` // the run has exactly this tag
	PlanID           string
	TriggeredBy      string // the principal that started them
	// Text is a prefix of runId or a substring of planId. Besides the page, the cost of a list grows with the number of
	// plans that were run, because Text is compared with each of them.
	Text        string
	CreatedFrom time.Time
	CreatedTo   time.Time
	// Steps makes List read the steps of its runs too, as of the same checkpoints. ErrTooMany when the page has more than
	// MaxListSteps steps in all.
	Steps bool
	Limit int // 1..201
	// Keyset paging by the key of Sort and the run id: only rows strictly after After or strictly before Before, in the
	// order of the list.
	After     *RunPos
	Before    *RunPos
	Ascending bool
	// Sort is the order of a list, whose first rows are the greatest unless Ascending. See SortObstacles.
	Sort RunSort `json:",omitempty"`
}

// RunPos is a position in a list of runs.
type RunPos struct {
	// CreatedAt is the time by which the list is sorted: of the creation, the end or the deadline. It is not used by a
	// list that is sorted by duration.
	CreatedAt time.Time
	// Took is the duration by which the list is sorted.
	Took  time.Duration
	RunID string
}

// RunRow is one row of a list.
type RunRow struct {
	Header run.Header
	Steps  []*run.Step // in plan order; nil unless RunFilter.Steps
	Head   run.Seq     // head of the log; above Header.Seq when the checkpoint lags
	OpsRev int64
	// ParentRunID is the run that this one reruns; "" for others.
	ParentRunID string
	Tags        []string // sorted; set only by Feed.ListChanged
	Pos         RunPos   // in a list that has a Sort; the zero value in others
	// Approval is that of a run that waits for approval; set only by decorate.WithApprovals.
	Approval *Approval
}

// MaxListSteps limits the steps that one List reads.
const MaxListSteps = 20_000

// ErrTooMany says that a limit was exceeded: a result would be larger than its limit, or PutBulk found too many open
// bulks.
var ErrTooMany = errors.New("store: the answer is too large")

// Ops is the housekeeping of a store.
type Ops interface {
	// Ping returns nil when the store answers reads.
	Ping(ctx context.Context) error
	// CheckWritable returns nil when the store takes writes, and ErrUnavailable when it does not. It probes with a read or
	// one small write, and the result may be some seconds old.
	CheckWritable(ctx context.Context) error
	// Epoch identifies the history of the store. It changes when the log may have been replaced: by BumpEpoch, and in
	// Postgres also when the WAL timeline changes (contract T194).
	Epoch(ctx context.Context) (string, error)
	// BumpEpoch changes the epoch, so that cursors and viewers start again from the beginning. Call it after a restore.
	BumpEpoch(ctx context.Context) error
	Close() error
}
