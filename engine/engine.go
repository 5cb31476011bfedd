// Package engine is the port to whatever executes runs. An engine drives the
// pure interpreter (engine/interp) and reaches the log only through a Journal.
package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// Sentinel errors of an Engine. They are three different things: the run was
// never started here, it is over, or nobody answers now (T192).
var (
	ErrNotStarted  = errors.New("engine: run not started")
	ErrClosed      = errors.New("engine: run closed")
	ErrUnavailable = errors.New("engine: unavailable")
)

// ErrHeld is a Start's answer when executions that dvt did not start came under the id of the run as fast as they were
// ended. The engine answers and works; the start is to be tried again later.
var ErrHeld = errors.New("engine: executions that dvt did not start hold the id of the run")

// ErrUnanswered is a Journal's word for a write that the store did not answer
// within the write budget: it may be in the log, or come to be (T120). A store
// that refuses or cannot be reached has answered, with another error.
var ErrUnanswered = errors.New("engine: the store did not answer within the write budget")

// ErrPaused is a Journal's word for an AppendUnlessPaused that wrote nothing.
var ErrPaused = errors.New("engine: the run is paused")

// Engine starts runs and carries signals to them. Methods are safe for
// concurrent use and may be repeated: Start of a started run finds it, Signal is
// at least once and in order per caller.
type Engine interface {
	// Start starts the run under an id derived from the run's id, or finds it started, even closed (T111, T130). q is the
	// queues of this run, without placeholders. An execution that dvt did not start never counts as the run's: Start ends
	// it where it is open, starts the run all the same, and names it in Foreign, also together with an error. ErrHeld or
	// ErrUnavailable.
	Start(ctx context.Context, id run.Identity, q plan.Queues) (Started, error)
	// Signal hands over one signal; the engine drops what it has seen (T196).
	// ErrNotStarted, ErrClosed or ErrUnavailable.
	Signal(ctx context.Context, id run.Identity, s Signal) error
	// Terminate ends the execution under the run's id without its cooperation, also when a stranger started it
	// (T99, T200).
	// ErrNotStarted, ErrClosed or ErrUnavailable.
	Terminate(ctx context.Context, id run.Identity, reason string) error
	Describe(ctx context.Context, id run.Identity) (Description, error)
	Capabilities() []Capability
}

// Started is the answer to Engine.Start.
type Started struct {
	Ref run.EngineRunRef
	// Foreign are the executions under the run's id that dvt did not start and that Start ended or passed over.
	Foreign []ForeignExecution
}

// ForeignExecution is an execution under the id of a run that dvt did not start.
type ForeignExecution struct {
	EngineRunID string
	Why         string // how that is known, a part of a sentence
}

// Signal is what travels to an engine: never a payload, at most 1 KiB (T196).
type Signal struct {
	No     int64          `json:"no"`
	ID     string         `json:"id"`
	Type   run.SignalType `json:"type"`
	StepID string         `json:"stepId,omitempty"`
	LA     int            `json:"la,omitempty"`
	Force  bool           `json:"force,omitempty"`
	// Outcome is that of a COMPLETE_MANUAL_STEP.
	Outcome run.ManualOutcome `json:"outcome,omitempty"`
	// Applied is set on a PAUSE whose RunPaused is in the log.
	Applied bool `json:"applied,omitempty"`
	// Ineffective says that the receipt is final and that the signal had no effect. An interpreter that runs again after
	// a crash does not judge it a second time.
	Ineffective bool `json:"ineffective,omitempty"`
}

// Description is what the engine itself says of a run's execution.
type Description struct {
	Identity    run.Identity // of Historian.Runs only
	Ref         run.EngineRunRef
	Open        bool
	ClosedAs    string // the engine's own word when not open
	HistorySize int64  // events
	// Foreign says why dvt did not start the execution, a part of a sentence; empty when it did. Nothing else that the
	// engine says of a foreign execution is about the run.
	Foreign string
}

// Historian reads back what an engine's own history says of a log: what repair
// stands on after a restore of the store (T30, T194).
type Historian interface {
	// History yields what was recorded of one run, oldest first, over the whole
	// chain of its executions. ErrNotStarted when the engine knows nothing of it.
	History(ctx context.Context, id run.Identity) iter.Seq2[Recorded, error]
	// Runs yields the runs that the engine knows; of their identities only run, tenant
	// and project are set.
	Runs(ctx context.Context) iter.Seq2[Description, error]
}

// Recorded is one entry of a Historian: an Append, or else a Signal.
type Recorded struct {
	// Append holds the events that stood in the log once it was answered, complete
	// but for what the Journal adds; MinHead is 0.
	Append store.Append
	// Seqs are the places that its events had. They are nil for a StepStarted that
	// only its execution tells of, and then so is Head.
	Seqs []run.Seq
	Head run.Seq // of the log, as the answer said
	// Signal is one that reached the engine, and is therefore an accepted one.
	Signal *Signal
	At     time.Time // the engine's
}

// Capability is one row of the capability matrix (R DD-14).
type Capability struct {
	Name    string
	Support string // native, emulated or unsupported
	Note    string
}

// ErrRefused is a Journal's answer to a call that its caller may not make: the ticket or key is missing,
// forged, expired or another attempt's, the attempt is not next, a step that it depends on is open, its end is in the
// log already, or the caller's clock is wrong. Nothing was written but an audit row. Errors that wrap it say which.
// Repeating the call does not help.
var ErrRefused = errors.New("engine: refused")

// ErrDenied is the answer to a worker whom a Journal does not know, whose account does not cover a queue that it
// serves, or whose calls reach something that is no Journal. It says nothing about the attempt: a worker that is set up
// right can begin it. Repeating the call does not help before somebody changes the settings.
var ErrDenied = errors.New("engine: this worker has no access to the journal")

// ErrUndelivered means that a call never reached a Journal, because its server cannot be connected to. Nothing was
// written, and another worker may reach it.
var ErrUndelivered = errors.New("engine: the server of the journal cannot be reached")

// Journal is all that code running on behalf of an engine may do to the log
// (T203): straight to the store in control workers, over HTTPS in data workers.
// Every method is safe to repeat.
type Journal interface {
	AttemptJournal
	// Append writes a batch of the interpreter. It completes what the interpreter
	// does not carry: RunStarted gets planRef, steps, policy and engineRunRef
	// (T145, T209); RunPaused, RunResumed and RunCancelled get actor and reason of
	// their signal, the end of a MANUAL step who completed it (T84), the StepCompleted
	// of a reused step what the earlier run has of it. A *store.GateClosedError says that a.UnlessGate held the batch
	// back. GateFailing is not cleared when a step
	// failed after a.Seen. A RunCompleted is ErrRefused while a step is neither SUCCESS nor SKIPPED in the log, and a
	// RunStarted while the run is not approved or waits for its turn.
	Append(ctx context.Context, a store.Append) (store.Appended, error)
	// AppendUnlessPaused is Append for what must not follow a RunPaused before its
	// RunResumed: while the run is PAUSED a batch with an event that run.State.HoldsBack is
	// not written, and the answer is ErrPaused.
	AppendUnlessPaused(ctx context.Context, a store.Append) (store.Appended, error)
	// Tail reads what the log says after a place, at most MaxTail events of it. store.ErrNotFound of an unknown run;
	// store.ErrRegressed when the log ends before that place (T194).
	Tail(ctx context.Context, runID string, after run.Seq) (Tail, error)
	// Signals reads accepted signals with No > after, in order (T196).
	Signals(ctx context.Context, runID string, after int64) ([]Signal, error)
	// Skeleton reads the plan's skeleton and the run's policy (T110).
	Skeleton(ctx context.Context, runID string) (Skeleton, error)
}

// ForgeryReporter is what a Journal may be besides.
type ForgeryReporter interface {
	// ReportForgery keeps a record that the engine claimed something which the log does not hold, as it does when
	// somebody who reaches the engine forged it. what is a sentence. It is bounded per run and minute, and best effort.
	ReportForgery(ctx context.Context, runID, what string)
}

// AttemptJournal is the part of a Journal that an execution of an attempt needs. It is all that a worker without
// store credentials may do, for the tenants and queues that it serves.
type AttemptJournal interface {
	// Begin begins an attempt by its ticket and returns what it needs to work, with the key for Evidence and
	// End (T185). It is given up after the write budget with ErrUnanswered, and never fail-open (T216). ErrRefused.
	Begin(ctx context.Context, b Begin) (Begun, error)
	// Compensation reads the hook of a step by a ticket for it (T88, R183), with the key for Evidence and End;
	// store.ErrNotFound when the plan gives it none, ErrRefused.
	Compensation(ctx context.Context, b Begin) (Hook, error)
	// Evidence keeps what an attempt printed and left behind (T229). ErrRefused, also once the attempt has an end.
	Evidence(ctx context.Context, e Evidence) error
	// End writes the end of an attempt, or of a hook, by its key: StepCompleted, StepFailed, StepCompensated or
	// StepCompensationFailed. A StepFailed closes the gate of fail-fast in the same commit, and the retry window opens
	// where nothing runs any more. The answer names the end that stands in the log, which may be an earlier one: the first
	// wins (T10). It is given up after the write budget with ErrUnanswered: the write may still come to the log. A
	// *run.SchemaError when the log does not take what the attempt returned (T190). ErrRefused.
	End(ctx context.Context, e End) (Receipt, error)
}

// Begin asks to begin one execution of an attempt, or of a hook. The ticket says for which dispatch; the other
// fields must agree with it.
type Begin struct {
	RunID          string    `json:"runId"`
	StepID         string    `json:"stepId"`
	LogicalAttempt int       `json:"logicalAttempt"`
	N              int       `json:"n"`             // dispatch ordinal
	EngineAttempt  int       `json:"engineAttempt"` // from 1
	EmittedAt      time.Time `json:"emittedAt"`
	Ticket         string    `json:"ticket"`
}

// Begun is the answer to Journal.Begin. Key is for this execution alone. Step holds the inputs, and Params the
// run's parameters, with the overlays as of its StepStarted, the newest of which
// was accepted at ParamsSeq (T197). They are set for RUN only.
type Begun struct {
	store.Begun
	Identity  run.Identity    `json:"identity"`
	Key       string          `json:"key,omitempty"`
	Receipt   *Receipt        `json:"receipt,omitempty"` // of the end that the log has; DONE only
	Step      plan.Step       `json:"step"`
	Params    json.RawMessage `json:"params,omitempty"`
	ParamsSeq run.Seq         `json:"paramsSeq,omitempty"`
	// SandboxCeiling bounds the numbers of a step that runs a program, also those that the step leaves to the worker: the
	// worker uses Step.Sandbox.Limits().Or(its defaults).Within(SandboxCeiling). Step.Sandbox is within it already.
	SandboxCeiling plan.SandboxLimits `json:"sandboxCeiling,omitzero"`
}

// End is how an execution ended for good. What the engine tries again is not an end.
type End struct {
	RunID          string `json:"runId"`
	StepID         string `json:"stepId"`
	LogicalAttempt int    `json:"logicalAttempt"` // of a hook: the attempt that succeeded
	N              int    `json:"n"`
	EngineAttempt  int    `json:"engineAttempt"`
	// Hook says that the step's compensation ended and not the step.
	Hook bool `json:"hook,omitempty"`
	// StartedSeq is that of Begun; 0 of a hook.
	StartedSeq run.Seq `json:"startedSeq,omitempty"`
	Key        string  `json:"key"` // it covers StartedSeq
	// Exactly one of Completed and Failed is set.
	Completed *run.StepCompletedPayload `json:"completed,omitempty"`
	Failed    *run.FailurePayload       `json:"failed,omitempty"`
}

// Receipt is a Journal's word that the log has the end of an attempt or hook. An engine carries it from the worker to
// the interpreter and can neither make nor change one.
type Receipt struct {
	Type       run.EventType `json:"type"`
	StartedSeq run.Seq       `json:"startedSeq,omitempty"` // of the attempt's StepStarted, 0 when it is not known
	Seq        run.Seq       `json:"seq"`
	// At is the emittedAt of the end. It may be later than an interpreter's clock, see interp.Machine.
	At time.Time `json:"at,omitzero"`
	// Head, Running and Gate are those of the log right after the end was written, or when it was found.
	Head    run.Seq  `json:"head"`
	Running int      `json:"running,omitempty"`
	Gate    run.Gate `json:"gate,omitempty"`
	Proof   string   `json:"proof"` // ticket.Keys.Seal of Text, for ReceiptPurpose
}

// ReceiptPurpose is what the proof of a Receipt is made for.
const ReceiptPurpose = "receipt"

// Text is what the proof of the receipt covers, for the attempt or hook that it is about.
func (r Receipt) Text(runID, stepID string, logicalAttempt int, hook bool) string {
	return fmt.Sprintf("%q|%q|%d|%t|%s|%d|%d|%d|%d|%d|%d", runID, stepID, logicalAttempt, hook,
		r.Type, r.StartedSeq, r.Seq, r.At.UnixMicro(), r.Head, r.Running, r.Gate)
}

// Tail is what a log says after a place. Seq is the place of the last event that was read, whether it is told or
// not; where it is below Head.LastSeq there is more to read.
type Tail struct {
	Events []LogEvent `json:"events,omitempty"` // ascending
	Seq    run.Seq    `json:"seq"`
	Head   store.Head `json:"head"`
	// Epoch names the history of the store. When it changes, events may have other places than before.
	Epoch string `json:"epoch,omitempty"`
}

// MaxTail is the most events of the log that one Tail reads.
const MaxTail = store.MaxTail

// LogEvent is the part of an event that an interpreter needs: the begins and ends of attempts (skips too) and of hooks,
// RunPaused, RunResumed, RunCompensationStarted, and the end of the run. Other events are not told.
type LogEvent struct {
	Seq            run.Seq       `json:"seq"`
	Type           run.EventType `json:"type"`
	StepID         string        `json:"stepId"`
	LogicalAttempt int           `json:"logicalAttempt"`
	EngineAttempt  int           `json:"engineAttempt"`
	At             time.Time     `json:"at"` // emitted
	// Payload is that of a failure or of a hook, and of any other event up to MaxTailPayload bytes; of a longer one there
	// is the retryDeadline alone, if it has one.
	Payload json.RawMessage `json:"payload,omitempty"`
}

// MaxTailPayload bounds the payload of a LogEvent in bytes where nothing depends on it.
const MaxTailPayload = 2 << 10

// Hook is what undoes a step: Step is that step with the operation, the input and
// the timeout of its hook in the place of its own.
type Hook struct {
	Identity run.Identity `json:"identity"`
	Step     plan.Step    `json:"step"`
	Key      string       `json:"key"`
	// SandboxCeiling is as that of Begun.
	SandboxCeiling plan.SandboxLimits `json:"sandboxCeiling,omitzero"`
}

// Skeleton is what a workflow needs to know of its plan. Binary is
// plan.Skeleton's own encoding.
type Skeleton struct {
	Identity run.Identity `json:"identity"`
	SHA256   string       `json:"sha256"`
	Binary   []byte       `json:"binary"`
	Policy   run.Policy   `json:"policy"`
	// Failure, when set, says why the plan can never be had: the run starts
	// without steps and fails with it (T144).
	Failure *run.FailurePayload `json:"failure,omitempty"`
	Epoch   string              `json:"epoch,omitempty"` // see Tail
	// Reused are the steps whose outputs the run takes over from an earlier one, see
	// interp.Config (T209). It is the same for the life of the run.
	Reused []run.Ord `json:"reused,omitempty"`
}

// Evidence is a piece of what one attempt left: lines it printed, or an artifact's bytes.
type Evidence struct {
	RunID          string    `json:"runId"`
	StepID         string    `json:"stepId"`
	LogicalAttempt int       `json:"la"`
	EngineAttempt  int       `json:"ea"`
	N              int       `json:"n"`
	Hook           bool      `json:"hook,omitempty"`
	StartedSeq     run.Seq   `json:"startedSeq,omitempty"` // as in End
	Key            string    `json:"key"`
	Lines          []LogLine `json:"lines,omitempty"`
	// Artifact, when set, is stored under Kind and Name and answered for by Ref.
	Artifact *ArtifactBody `json:"artifact,omitempty"`
}

// StoredAttempt is the engine attempt under which the evidence of an execution is kept: that of a hook stands behind
// that of its step, which has at most ten engine attempts.
func StoredAttempt(engineAttempt int, hook bool) int {
	if hook {
		return engineAttempt + 10
	}
	return engineAttempt
}

// LogLine is one line that a step printed; No counts from 1 within the engine
// attempt, so a repeated Evidence is dropped; the log gives numbers of its own.
type LogLine struct {
	No     int64     `json:"no"`
	At     time.Time `json:"at"`
	Stream string    `json:"stream"` // stdout, stderr or dvt
	Text   string    `json:"text"`
}

// ArtifactBody is the bytes of an artifact; Ref says where they belong.
type ArtifactBody struct {
	Ref  run.ArtifactRef `json:"ref"`
	Body []byte          `json:"body"`
}

// Return is what an engine knows of a dispatch that it no longer executes. It is no fact of the run: anybody with
// access to the engine can forge it. The log holds the end of the attempt. Return echoes its subject (T184).
type Return struct {
	StepID         string     `json:"stepId"`
	LogicalAttempt int        `json:"logicalAttempt"`
	N              int        `json:"n"`             // dispatch ordinal
	EngineAttempt  int        `json:"engineAttempt"` // of the last execution, 0 when the engine does not know
	Kind           ReturnKind `json:"kind"`
	// RetryAfter is when to dispatch again, of ReturnThrottled and ReturnDeclined.
	RetryAfter time.Duration `json:"retryAfter,omitempty"`
	// Receipt is the only part that proves something, of ReturnEnded.
	Receipt *Receipt `json:"receipt,omitempty"`
}

// ReturnKind says why a dispatch is no longer executed.
type ReturnKind string

// Kinds of a Return.
const (
	ReturnEnded     ReturnKind = "ENDED"     // the worker says that the log has the end
	ReturnParked    ReturnKind = "PARKED"    // the gate was closed: the attempt did not begin
	ReturnThrottled ReturnKind = "THROTTLED" // there was no token for a heavy step: the attempt did not begin (T113)
	// the worker may not serve the run, or not now: this engine attempt did not begin.
	ReturnDeclined    ReturnKind = "DECLINED"
	ReturnRunTerminal ReturnKind = "RUN_TERMINAL" // the run is over
	ReturnCancelled   ReturnKind = "CANCELLED"    // asked to stop, and did
	ReturnLost        ReturnKind = "LOST"         // its worker stopped answering
	ReturnAbandoned   ReturnKind = "ABANDONED"    // its worker gave it up without an end: it stops, or was refused
)
