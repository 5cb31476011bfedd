// Package engine is the port to the engines that execute runs. An engine drives the pure interpreter (engine/interp)
// and reaches the log only through a Journal.
package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"time"

	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// Errors of an Engine. They distinguish a run that was never started here, a run that has ended, and an engine that
// does not answer (contract T192).
var (
	ErrNotStarted  = errors.New("engine: run not started")
	ErrClosed      = errors.New("engine: run closed")
	ErrUnavailable = errors.New("engine: unavailable")
)

// ErrHeld is returned by Start when foreign executions take the run's id as fast as they are ended. The engine works;
// retry the start later.
var ErrHeld = errors.New("engine: executions that dvt did not start hold the id of the run")

// ErrRejected is returned by Start when the engine answered that it cannot run this input: it is malformed or too
// large, names a queue that the engine does not accept, or the namespace does not exist. Repeating the start does not
// help until somebody changes the settings of the engine.
var ErrRejected = errors.New("engine: the engine refuses the run")

// ErrUnanswered is returned by a Journal for a write that the store did not answer within the write budget: it may be
// in the log now or later (contract T120). A store that refuses or cannot be reached causes another error.
var ErrUnanswered = errors.New("engine: the store did not answer within the write budget")

// ErrPaused is returned by AppendUnlessPaused when it wrote nothing because the run is paused.
var ErrPaused = errors.New("engine: the run is paused")

// Engine starts runs and delivers signals to them. Methods are safe for concurrent use and may be repeated: Start
// finds a started run, Signal delivers at least once and in order per caller.
type Engine interface {
	// Start starts the run under an id derived from the run's id, or finds it started, even closed (contract T111,
	// T130). q has the run's queues, without placeholders. A foreign execution never counts as the run's: Start ends it
	// if it is open, starts the run, and lists it in Foreign, also together with an error. Errors: ErrHeld,
	// ErrUnavailable.
	Start(ctx context.Context, id run.Identity, q plan.Queues) (Started, error)
	// Signal delivers one signal; the engine drops known ones (contract T196). Errors: ErrNotStarted, ErrClosed,
	// ErrUnavailable.
	Signal(ctx context.Context, id run.Identity, s Signal) error
	// Terminate ends the execution under the run's id without its cooperation, also a foreign one (contract T99, T200).
	// Errors: ErrNotStarted, ErrClosed, ErrUnavailable.
	Terminate(ctx context.Context, id run.Identity, reason string) error
	// Describe describes the newest execution under the run's id, also a foreign one. Errors: ErrNotStarted,
	// ErrUnavailable.
	Describe(ctx context.Context, id run.Identity) (Description, error)
	// Capabilities returns the rows of the capability matrix for this engine.
	Capabilities() []Capability
}

// Started is the answer to Engine.Start.
type Started struct {
	Ref run.EngineRunRef
	// Foreign lists the executions under the run's id that dvt did not start and that Start ended or ignored.
	Foreign []ForeignExecution
}

// ForeignExecution is an execution under the id of a run that dvt did not start.
type ForeignExecution struct {
	EngineRunID string
	Why         string // how that is known, part of a sentence
}

// Signal is the form of a signal that engines receive: without payload, at most 1 KiB (contract T196).
type Signal struct {
	No             int64          `json:"no"`
	ID             string         `json:"id"`
	Type           run.SignalType `json:"type"`
	StepID         string         `json:"stepId,omitempty"`
	LogicalAttempt int            `json:"logicalAttempt,omitempty"`
	Force          bool           `json:"force,omitempty"`
	// Outcome of a COMPLETE_MANUAL_STEP.
	Outcome run.ManualOutcome `json:"outcome,omitempty"`
	// Applied is set on a PAUSE whose RunPaused is in the log.
	Applied bool `json:"applied,omitempty"`
	// Ineffective means that the receipt is final and that the signal had no effect. An interpreter that runs again
	// after a crash does not judge it again.
	Ineffective bool `json:"ineffective,omitempty"`
}

// Description is the engine's own description of a run's execution.
type Description struct {
	Identity    run.Identity // set by Historian.Runs and Census
	Ref         run.EngineRunRef
	Open        bool
	ClosedAs    string // in the engine's terms, if it is not open
	HistorySize int64  // events
	// Foreign is the reason if dvt did not start the execution, part of a sentence; else empty. All other fields of a
	// foreign execution say nothing about the run.
	Foreign string
}

// Historian reads an engine's own history. Repair uses it after a restore of the store (contract T30, T194).
type Historian interface {
	// History yields the recorded entries of one run, oldest first, over the whole chain of its executions.
	// ErrNotStarted if the engine has none.
	History(ctx context.Context, id run.Identity) iter.Seq2[Recorded, error]
	// Runs yields the runs that the engine knows. Of their identities only run, tenant and project are set.
	Runs(ctx context.Context) iter.Seq2[Description, error]
}

// Recorded is one entry of a Historian: an Append or a Signal.
type Recorded struct {
	// Append has the events that were in the log when it was answered, without the parts that the Journal adds; MinHead
	// is 0.
	Append store.Append
	// Seqs are the positions of its events. They are nil for a StepStarted that only the execution reports; then Head
	// is 0.
	Seqs []run.Seq
	Head run.Seq // of the log, according to the answer
	// Signal is a signal that reached the engine and was therefore accepted.
	Signal *Signal
	At     time.Time // by the engine's clock
}

// Capability is one row of the capability matrix (contract DD-14).
type Capability struct {
	Name    string
	Support string // native, emulated or unsupported
	Note    string
}

// ErrRefused is a Journal's answer to a call that its caller may not make: the ticket or key is missing, forged,
// expired or of another attempt, the attempt is not the next one, a step that it depends on is open, its end is in
// the log, or the caller's clock is wrong. Errors that wrap it give the reason. Only an audit row was written.
// Repeating the call does not help.
var ErrRefused = errors.New("engine: refused")

// ErrDenied is a Journal's answer to an unknown worker or to one whose account does not cover its queue. It is also
// returned when the address is not a Journal. It says nothing about the attempt: a correctly configured worker can
// start it. Repeating the call helps only after a change of the settings.
var ErrDenied = errors.New("engine: this worker has no access to the journal")

// ErrUndelivered means that a call never reached a Journal, because its server accepts no connection. Nothing was
// written, and another worker may reach it.
var ErrUndelivered = errors.New("engine: the server of the journal cannot be reached")

// Journal is the only access to the log for code that runs on behalf of an engine (contract T203): directly to the
// store in control workers, over HTTPS in data workers. All methods are idempotent and safe for concurrent use.
type Journal interface {
	AttemptJournal
	// Append writes a batch of the interpreter and completes its events. RunStarted gets planRef, steps, policy and
	// engineRunRef (contract T145, T209). RunPaused, RunResumed and RunCancelled get actor and reason of their signal.
	// The end of a MANUAL step gets the person (contract T84), and the StepCompleted of a reused step gets the earlier
	// run's result.
	//
	// A *store.GateClosedError means that a.UnlessGate held the batch back. GateFailing is not cleared if a step failed
	// after a.Seen. ErrRefused is returned for a RunCompleted while a step is neither SUCCESS nor SKIPPED in the log,
	// and for a RunStarted while the run is not approved or waits for its turn.
	Append(ctx context.Context, a store.Append) (store.Appended, error)
	// AppendUnlessPaused is Append for batches that must not follow a RunPaused before its RunResumed. While the run is
	// PAUSED, a batch with an event for which run.State.HoldsBack is true is not written, and the error is ErrPaused.
	AppendUnlessPaused(ctx context.Context, a store.Append) (store.Appended, error)
	// Tail reads at most MaxTail events after a position. Errors: store.ErrNotFound for an unknown run;
	// store.ErrRegressed if the log ends before the position (contract T194).
	Tail(ctx context.Context, runID string, after run.Seq) (Tail, error)
	// Signals reads accepted signals with No > after, in order (contract T196).
	Signals(ctx context.Context, runID string, after int64) ([]Signal, error)
	// Skeleton reads the plan's skeleton and the run's policy (contract T110).
	Skeleton(ctx context.Context, runID string) (Skeleton, error)
}

// ForgeryReporter is an optional interface of a Journal.
type ForgeryReporter interface {
	// ReportForgery records that the engine claimed something that the log does not contain, which is a sign of
	// forgery. what is a sentence. Reports are limited per run and minute, and best effort.
	ReportForgery(ctx context.Context, runID, what string)
}

// AttemptJournal is the part of a Journal that the execution of an attempt needs. Workers without store credentials
// have only this part, for the tenants and queues that they serve.
type AttemptJournal interface {
	// StartAttempt starts an attempt by its ticket and returns its inputs and the key for Evidence and End (contract
	// T185). After the write budget it returns ErrUnanswered; the attempt must not run then (contract T216). Other
	// errors: ErrRefused.
	StartAttempt(ctx context.Context, b StartAttempt) (AttemptStarted, error)
	// Compensation reads the hook of a step by a ticket for it (contract T88, R183), with the key for Evidence and End.
	// Errors: store.ErrNotFound if the plan has no hook, ErrRefused.
	Compensation(ctx context.Context, b StartAttempt) (Hook, error)
	// Evidence stores log lines and artifacts of an attempt (contract T229), and appends reports about its nodes to the
	// log. ErrRefused, also after the end of the attempt; ErrUnanswered after the write budget, for nodes;
	// *run.SchemaError for nodes beyond the bounds of package run.
	Evidence(ctx context.Context, e Evidence) error
	// SecretReads records which secrets the worker read for an attempt (contract R085). A program must not get a value
	// before its record is stored. Repeating the call is safe. ErrRefused for a secret that the step does not name, and
	// after the end of the attempt.
	SecretReads(ctx context.Context, r SecretReads) error
	// End writes the end of an attempt or hook by its key: StepCompleted, StepFailed, StepCompensated or
	// StepCompensationFailed. A StepFailed closes the gate of fail-fast in the same commit, and the retry window opens
	// if nothing runs any more. The receipt names the end that is in the log. It may be an earlier one, because the
	// first wins (contract T10). Errors: ErrUnanswered after the write budget (the write may still reach the log),
	// *run.SchemaError if the log refuses the result (contract T190), ErrRefused.
	End(ctx context.Context, e End) (Receipt, error)
}

// StateReader is implemented by an AttemptJournal that hands out the manifests with which slim dbt steps compare.
type StateReader interface {
	// ReadState returns the manifest that the StepStarted of an attempt names, compressed by gzip. Errors: ErrRefused,
	// store.ErrNotFound when it is no longer stored or larger than MaxState.
	ReadState(ctx context.Context, r StateRead) ([]byte, error)
}

// MaxState is the size of the largest manifest with which a slim dbt step compares, in bytes, and MaxStateGzip that
// size when it is compressed.
const (
	MaxState     = 128 << 20
	MaxStateGzip = 24 << 20
)

// StateRead asks for the manifest of an execution. The fields are those of Evidence.
type StateRead struct {
	RunID          string  `json:"runId"`
	StepID         string  `json:"stepId"`
	LogicalAttempt int     `json:"logicalAttempt"`
	N              int     `json:"n"`
	EngineAttempt  int     `json:"engineAttempt"`
	StartedSeq     run.Seq `json:"startedSeq,omitempty"`
	Key            string  `json:"key"`
}

// StartAttempt asks to start one execution of an attempt or hook. The ticket names the dispatch; the other fields
// must agree with it.
type StartAttempt struct {
	RunID          string    `json:"runId"`
	StepID         string    `json:"stepId"`
	LogicalAttempt int       `json:"logicalAttempt"`
	N              int       `json:"n"`             // dispatch ordinal
	EngineAttempt  int       `json:"engineAttempt"` // from 1
	EmittedAt      time.Time `json:"emittedAt"`
	Ticket         string    `json:"ticket"`
	// SelectsNodes means that the worker runs only the nodes of AttemptStarted.Nodes. A Journal denies an attempt with
	// nodes to a worker of an earlier version, which would run all of them.
	SelectsNodes bool `json:"selectsNodes,omitempty"`
	// Epoch is that of the store when the engine read it last. A Journal whose store is in an older one does not know the
	// attempt: store.ErrNotFound.
	Epoch string `json:"epoch,omitempty"`
}

// NodeSelection is what an attempt of a dbt step executes when a person retried only some nodes.
type NodeSelection struct {
	Base int `json:"base"` // the logical attempt whose nodes this one continues
	// Chosen is the number of nodes of the set. Nodes are those that no earlier try of this attempt ended well.
	Chosen     int            `json:"chosen"`
	Nodes      []SelectedNode `json:"nodes,omitempty"`
	DBTVersion string         `json:"dbtVersion,omitempty"` // of the attempt Base
	// Counts are those of all nodes of the step at the start.
	Counts run.NodeCounts `json:"counts"`
	// Hooks are the results of the hooks, which dbt runs with every execution.
	Hooks map[string]run.NodeStatus `json:"hooks,omitempty"`
	// Open are nodes outside of the set that did not end well: with them the step does not succeed. OpenCount counts
	// them; Open has the first 20.
	Open      []string `json:"open,omitempty"`
	OpenCount int      `json:"openCount,omitempty"`
}

// SelectedNode is a node to execute. FQN and Path are set for versions of dbt that cannot select by the id.
type SelectedNode struct {
	ID   string         `json:"id"`
	Was  run.NodeStatus `json:"was,omitempty"` // its newest result; "" for a node that did not run
	FQN  []string       `json:"fqn,omitempty"`
	Path string         `json:"path,omitempty"`
}

// AttemptStarted is the answer to Journal.StartAttempt. Key is valid only for this execution. Step has the inputs,
// and Params the run's parameters with the overlays at the time of the StepStarted; ParamsSeq is the position of the
// newest overlay (contract T197). They are set only for RUN.
type AttemptStarted struct {
	store.AttemptStarted
	Identity  run.Identity    `json:"identity"`
	Key       string          `json:"key,omitempty"`
	Receipt   *Receipt        `json:"receipt,omitempty"` // of the end in the log; only for DONE
	Step      plan.Step       `json:"step"`
	Params    json.RawMessage `json:"params,omitempty"`
	ParamsSeq run.Seq         `json:"paramsSeq,omitempty"`
	// SandboxCeiling limits the resources of a step that runs a program, including those for which the worker has the
	// default. The worker uses Step.Sandbox.Limits().Or(its defaults).Within(SandboxCeiling). Step.Sandbox already
	// complies.
	SandboxCeiling plan.SandboxLimits `json:"sandboxCeiling,omitzero"`
	// Nodes, when set, are the nodes of a dbt step that the attempt executes; nil means all.
	Nodes *NodeSelection `json:"nodes,omitempty"`
	// State, when set, is the manifest with which a slim dbt step compares; StateReader reads it.
	State *run.StateBase `json:"state,omitempty"`
	// Traceparent is the W3C context with which the work of the attempt continues the trace of the run; "" when traces
	// are not exported.
	Traceparent string `json:"traceparent,omitempty"`
}

// traceparentKey is the key of the context value of WithTraceparent.
type traceparentKey struct{}

// WithTraceparent returns a context whose calls of a Journal carry the context of a trace; ctx when it is "".
func WithTraceparent(ctx context.Context, traceparent string) context.Context {
	if traceparent == "" {
		return ctx
	}
	return context.WithValue(ctx, traceparentKey{}, traceparent)
}

// Traceparent returns the value of WithTraceparent, or "".
func Traceparent(ctx context.Context) string {
	text, _ := ctx.Value(traceparentKey{}).(string)
	return text
}

// End is the final end of an execution. A try that the engine repeats is not an end.
type End struct {
	RunID          string `json:"runId"`
	StepID         string `json:"stepId"`
	LogicalAttempt int    `json:"logicalAttempt"` // of a hook: the attempt that succeeded
	N              int    `json:"n"`
	EngineAttempt  int    `json:"engineAttempt"`
	// Hook means that the step's compensation ended.
	Hook bool `json:"hook,omitempty"`
	// StartedSeq is that of AttemptStarted; 0 for a hook.
	StartedSeq run.Seq `json:"startedSeq,omitempty"`
	Key        string  `json:"key"` // it covers StartedSeq
	// Exactly one of Completed and Failed is set.
	Completed *run.StepCompletedPayload `json:"completed,omitempty"`
	Failed    *run.FailurePayload       `json:"failed,omitempty"`
	// LostLines is the number of lines of output that no Evidence could store before the end. A server of an earlier
	// version ignores it.
	LostLines int64 `json:"lostLines,omitempty"`
}

// Receipt is a Journal's signed confirmation that the log has the end of an attempt or hook. An engine carries it
// from the worker to the interpreter and cannot forge it.
type Receipt struct {
	Type       run.EventType `json:"type"`
	StartedSeq run.Seq       `json:"startedSeq,omitempty"` // of the attempt's StepStarted, 0 if unknown
	Seq        run.Seq       `json:"seq"`
	// At is the emittedAt of the end. It may be later than an interpreter's clock; see interp.Machine.
	At time.Time `json:"at,omitzero"`
	// Head, Running and Gate describe the log directly after the end was written or found.
	Head    run.Seq  `json:"head"`
	Running int      `json:"running,omitempty"`
	Gate    run.Gate `json:"gate,omitempty"`
	Proof   string   `json:"proof"` // ticket.Keys.Seal of Text, for ReceiptPurpose
}

// ReceiptPurpose is the purpose of the proof of a Receipt.
const ReceiptPurpose = "receipt"

// Text returns the text that the receipt's proof covers, for the attempt or hook that it confirms.
func (r Receipt) Text(runID, stepID string, logicalAttempt int, hook bool) string {
	return fmt.Sprintf("%q|%q|%d|%t|%s|%d|%d|%d|%d|%d|%d", runID, stepID, logicalAttempt, hook,
		r.Type, r.StartedSeq, r.Seq, r.At.UnixMicro(), r.Head, r.Running, r.Gate)
}

// Tail has the events of a log after a position. Seq is the position of the last event read, including omitted ones.
// If it is below Head.LastSeq, there is more to read.
type Tail struct {
	Events []LogEvent `json:"events,omitempty"` // ascending
	Seq    run.Seq    `json:"seq"`
	Head   store.Head `json:"head"`
	// Epoch identifies the history of the store. When it changes, events may have other positions.
	Epoch string `json:"epoch,omitempty"`
}

// MaxTail is the maximum number of events of one Tail.
const MaxTail = store.MaxTail

// LogEvent is the part of an event that an interpreter needs. A Tail contains starts and ends of attempts (including
// skips) and hooks, RunPaused, RunResumed, RunCompensationStarted, and the end of the run; it omits other events.
type LogEvent struct {
	Seq            run.Seq       `json:"seq"`
	Type           run.EventType `json:"type"`
	StepID         string        `json:"stepId"`
	LogicalAttempt int           `json:"logicalAttempt"`
	EngineAttempt  int           `json:"engineAttempt"`
	At             time.Time     `json:"at"` // emittedAt
	// Payload is complete for failures and hooks, and for other events up to MaxTailPayload bytes. Of longer payloads
	// only a retryDeadline remains.
	Payload json.RawMessage `json:"payload,omitempty"`
}

// MaxTailPayload is the maximum size in bytes of payloads that the interpreter does not need.
const MaxTailPayload = 2 << 10

// Hook describes the compensation of a step: Step is that step with the operation, input and timeout of its hook.
type Hook struct {
	Identity run.Identity `json:"identity"`
	Step     plan.Step    `json:"step"`
	Key      string       `json:"key"`
	// SandboxCeiling: see AttemptStarted.
	SandboxCeiling plan.SandboxLimits `json:"sandboxCeiling,omitzero"`
}

// Skeleton is the part of a plan that a workflow needs. Binary is the encoding of plan.Skeleton.
type Skeleton struct {
	Identity run.Identity `json:"identity"`
	SHA256   string       `json:"sha256"`
	Binary   []byte       `json:"binary"`
	Policy   run.Policy   `json:"policy"`
	// Failure, when set, is the reason why the plan can never be loaded: the run starts without steps and fails with it
	// (contract T144).
	Failure *run.FailurePayload `json:"failure,omitempty"`
	Epoch   string              `json:"epoch,omitempty"` // see Tail
	// Reused are the steps whose outputs the run takes over from an earlier run; see interp.Config (contract T209). It
	// does not change during a run.
	Reused []run.Ord `json:"reused,omitempty"`
}

// Evidence is output of one attempt: log lines, the bytes of an artifact, the record of an engine attempt, or reports
// about nodes.
type Evidence struct {
	RunID          string    `json:"runId"`
	StepID         string    `json:"stepId"`
	LogicalAttempt int       `json:"logicalAttempt"`
	EngineAttempt  int       `json:"engineAttempt"`
	N              int       `json:"n"`
	Hook           bool      `json:"hook,omitempty"`
	StartedSeq     run.Seq   `json:"startedSeq,omitempty"` // see End
	Key            string    `json:"key"`
	Lines          []LogLine `json:"lines,omitempty"`
	// Artifact, when set, is stored under Kind and Name of its Ref.
	Artifact *ArtifactBody `json:"artifact,omitempty"`
	// Try, when set, is the record of the engine attempt. A server of an earlier version ignores it.
	Try *TryRecord `json:"try,omitempty"`
	// Nodes, when set, are the nodes of the step that started or ended. They become one event, whose key has the number
	// of the batch, so that a repeated Evidence adds nothing. A server of an earlier version ignores it.
	Nodes *run.StepNodesPayload `json:"nodes,omitempty"`
}

// StoredAttempt returns the engine attempt under which evidence is stored. Evidence of a hook follows that of its
// step, which has at most ten engine attempts.
func StoredAttempt(engineAttempt int, hook bool) int {
	if hook {
		return engineAttempt + 10
	}
	return engineAttempt
}

// LogLine is one line that a step printed. No counts from 1 within the engine attempt, so that a repeated Evidence is
// dropped. The stored log has its own numbers.
type LogLine struct {
	No     int64     `json:"no"`
	At     time.Time `json:"at"`
	Stream string    `json:"stream"` // stdout, stderr, output (both in one pipe) or dvt
	Text   string    `json:"text"`
}

// ArtifactBody has the bytes of an artifact; Ref identifies it, with their size and digest.
type ArtifactBody struct {
	Ref  run.ArtifactRef `json:"ref"`
	Body []byte          `json:"body,omitempty"`
	// Open, when set, gives the bytes in place of Body, so that a large artifact is never in memory as a whole. A
	// Journal calls it at most once for each call of Evidence, and closes what it returns.
	Open func() (io.ReadCloser, error) `json:"-"`
}

// Return is the engine's statement about a dispatch that it no longer executes. It proves nothing, because anybody
// with access to the engine can forge it; the log has the end of the attempt. It repeats its subject (contract T184).
type Return struct {
	StepID         string     `json:"stepId"`
	LogicalAttempt int        `json:"logicalAttempt"`
	N              int        `json:"n"`             // dispatch ordinal
	EngineAttempt  int        `json:"engineAttempt"` // of the last execution, 0 if the engine does not know it
	Kind           ReturnKind `json:"kind"`
	// RetryAfter is the delay before the next dispatch, for ReturnThrottled and ReturnDeclined.
	RetryAfter time.Duration `json:"retryAfter,omitempty"`
	// Overran is set for ReturnLost when heartbeats came, but no end within the time of the step.
	Overran bool `json:"overran,omitempty"`
	// Cause and Status say why the step did not start, for ReturnDeclined. People are shown them; nothing is decided by
	// them.
	Cause  WaitCause `json:"cause,omitempty"`
	Status int       `json:"status,omitempty"` // see StepWait
	// Receipt is set for ReturnEnded. It is the only part with a proof.
	Receipt *Receipt `json:"receipt,omitempty"`
}

// ReturnKind is the reason why a dispatch is no longer executed.
type ReturnKind string

// Kinds of a Return.
const (
	ReturnEnded  ReturnKind = "ENDED"  // the worker reports that the log has the end
	ReturnParked ReturnKind = "PARKED" // the gate was closed and the attempt did not start
	// There was no token for a heavy step, and the attempt did not start (contract T113).
	ReturnThrottled ReturnKind = "THROTTLED"
	// The worker may not serve the run, or not now, and this engine attempt did not start.
	ReturnDeclined    ReturnKind = "DECLINED"
	ReturnRunTerminal ReturnKind = "RUN_TERMINAL" // the run has ended
	ReturnCancelled   ReturnKind = "CANCELLED"    // stopped as requested
	ReturnLost        ReturnKind = "LOST"         // the worker stopped answering
	ReturnAbandoned   ReturnKind = "ABANDONED"    // the worker gave up without an end, because it stops or was refused
)
