// Package engine is the port to whatever executes runs. An engine drives the
// pure interpreter (engine/interp) and reaches the log only through a Journal.
package engine

import (
	"context"
	"encoding/json"
	"errors"
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
	// Start starts the run under an id derived from the run's id, or finds it
	// started, even closed (T111, T130).
	Start(ctx context.Context, id run.Identity, q plan.Queues) (run.EngineRunRef, error)
	// Signal hands over one signal; the engine drops what it has seen (T196).
	// ErrNotStarted, ErrClosed or ErrUnavailable.
	Signal(ctx context.Context, id run.Identity, s Signal) error
	// Terminate ends the run's execution without its cooperation (T99, T200).
	Terminate(ctx context.Context, id run.Identity, reason string) error
	Describe(ctx context.Context, id run.Identity) (Description, error)
	Capabilities() []Capability
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
}

// Description is what the engine itself says of a run's execution.
type Description struct {
	Identity    run.Identity // of Historian.Runs only
	Ref         run.EngineRunRef
	Open        bool
	ClosedAs    string // the engine's own word when not open
	HistorySize int64  // events
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

// Journal is all that code running on behalf of an engine may do to the log
// (T203): straight to the store in control workers, over HTTPS in data workers.
// Every method is safe to repeat.
type Journal interface { //nolint:interfacebloat // it is closed: what code of an engine may do, and nothing else (T203)
	// Append writes a batch of the interpreter. It completes what the interpreter
	// does not carry: RunStarted gets planRef, steps, policy and engineRunRef
	// (T145, T209); RunPaused, RunResumed and RunCancelled get actor and reason of
	// their signal, the end of a MANUAL step who completed it (T84), the StepCompleted
	// of a reused step what the earlier run has of it. A batch that says that a step completed is given up after the
	// write budget with ErrUnanswered (T120).
	Append(ctx context.Context, a store.Append) (store.Appended, error)
	// AppendUnlessPaused is Append for what must not follow a RunPaused before its
	// RunResumed: while the run is PAUSED a batch with an event that run.State.HoldsBack is
	// not written, and the answer is ErrPaused.
	AppendUnlessPaused(ctx context.Context, a store.Append) (store.Appended, error)
	// Begin begins an attempt and returns what it needs to work (T185); it is given
	// up after the write budget with ErrUnanswered, and never fail-open (T216).
	Begin(ctx context.Context, b store.Begin) (Begun, error)
	// Signals reads accepted signals with No > after, in order (T196).
	Signals(ctx context.Context, runID string, after int64) ([]Signal, error)
	// Skeleton reads the plan's skeleton and the run's policy (T110).
	Skeleton(ctx context.Context, runID string) (Skeleton, error)
	// Evidence keeps what an attempt printed and left behind (T229).
	Evidence(ctx context.Context, e Evidence) error
	// Compensation reads the hook of a step (T88, R183); store.ErrNotFound when the
	// plan gives it none.
	Compensation(ctx context.Context, runID, stepID string) (Hook, error)
}

// Begun is the answer to Journal.Begin. Step holds the inputs, and Params the
// run's parameters, with the overlays as of its StepStarted, the newest of which
// was accepted at ParamsSeq (T197); they are set for RUN only.
type Begun struct {
	store.Begun
	Identity  run.Identity    `json:"identity"`
	Step      plan.Step       `json:"step"`
	Params    json.RawMessage `json:"params,omitempty"`
	ParamsSeq run.Seq         `json:"paramsSeq,omitempty"`
}

// Hook is what undoes a step: Step is that step with the operation, the input and
// the timeout of its hook in the place of its own.
type Hook struct {
	Identity run.Identity `json:"identity"`
	Step     plan.Step    `json:"step"`
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
	Lines          []LogLine `json:"lines,omitempty"`
	// Artifact, when set, is stored under Kind and Name and answered for by Ref.
	Artifact *ArtifactBody `json:"artifact,omitempty"`
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

// StepEnd is how one execution of an attempt ended, as executors report it and
// interpreters consume it. It echoes its subject (T184).
type StepEnd struct {
	StepID         string      `json:"stepId"`
	LogicalAttempt int         `json:"la"`
	N              int         `json:"n"` // dispatch ordinal
	EngineAttempt  int         `json:"ea"`
	Kind           StepEndKind `json:"kind"`
	StartedAt      time.Time   `json:"startedAt,omitempty"` // of the work; zero when it never began
	// Completed or Failed is set by Kind.
	Completed *run.StepCompletedPayload `json:"completed,omitempty"`
	Failed    *run.FailurePayload       `json:"failed,omitempty"`
	// Class is the error class for the retry policy (T67).
	Class string `json:"class,omitempty"`
	// RetryAfter is when there may be a token, of EndThrottled.
	RetryAfter time.Duration `json:"retryAfter,omitempty"`
}

// StepEndKind says how an execution ended.
type StepEndKind string

// Ends of an execution.
const (
	EndCompleted   StepEndKind = "COMPLETED"
	EndFailed      StepEndKind = "FAILED"
	EndCancelled   StepEndKind = "CANCELLED" // asked to stop, and did
	EndParked      StepEndKind = "PARKED"    // the gate was closed: nothing was appended
	EndThrottled   StepEndKind = "THROTTLED" // there was no token for a heavy step: nothing was appended (T113)
	EndRunTerminal StepEndKind = "RUN_TERMINAL"
)
