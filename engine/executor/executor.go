// Package executor runs the steps of plans. It has one executor per step type, and a runner that begins an attempt in
// the Journal, sends heartbeats, applies timeouts, collects the output and reports the end. Side effects happen at
// least once (contract T210).
package executor

import (
	"context"
	"encoding/json"
	"io"

	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/sandbox"
	"github.com/dvt-engine/dvt/secret/mask"
)

// Task is one execution of a logical attempt, ready to work.
type Task struct {
	Identity       run.Identity
	Step           plan.Step       // inputs with overlays applied
	Params         json.RawMessage // of the run, with overlays applied; empty for none
	LogicalAttempt int
	EngineAttempt  int
	// IdempotencyKey is runId:stepId:logicalAttempt, and runId:stepId:compensate for a hook. Engine retries do not
	// change it (contract T69, R183).
	IdempotencyKey string
	// Workspace is the directory of the run on this worker. It exists, and all attempts of the run share it.
	Workspace string
	// ProjectRoot is the directory to which relative paths of a plan refer. It is absolute.
	ProjectRoot string

	// SandboxCeiling bounds the limits of the program, including the worker's defaults. It is the tenant's policy at the
	// time when the attempt started.
	SandboxCeiling plan.SandboxLimits

	// Traceparent continues the trace of the run in the step's work; "" when there is none.
	Traceparent string

	// Nodes are the nodes of a dbt step that the attempt executes; nil means all.
	Nodes *engine.NodeSelection

	// State is the manifest with which a slim dbt step compares, without a RunID when the server found none; nil for a
	// step that compares with none.
	State *run.StateBase
	// readState reads it, compressed by gzip; nil for a Journal that cannot.
	readState func(ctx context.Context) ([]byte, error)

	paramsFile string // see withParams
	secrets    []given
	masker     *mask.Masker // of secrets
	secretsDir string       // see withSecrets
}

// Result is the report of a successful execution.
type Result struct {
	// Value is a JSON document. The event carries one of at most 16 KiB; the Runner keeps a larger one as an artifact.
	Value     json.RawMessage
	Artifacts []run.ArtifactRef
}

// Executor does the work of one step type. It returns a *Failure for failures with a code; any other error is UNKNOWN
// and retryable. When ctx ends it stops its program and returns the cause of ctx. Several goroutines call Execute.
type Executor interface {
	Execute(ctx context.Context, t Task, h Host) (Result, error)
}

// Host is the interface of the runner for an executor.
type Host interface {
	// Print queues one line of output. The queue is bounded: Print waits while lines come faster than the Journal stores
	// them, and at most two seconds when it stores none. Safe for concurrent use.
	Print(stream, line string)
	// Keep stores a file as an artifact of the attempt and returns its reference. name is the file's base name. Keep
	// repeats the call of the Journal until ctx ends. The error is the *Failure ARTIFACT_WRITE_FAILED when the file could
	// not be stored in time.
	Keep(ctx context.Context, kind run.ArtifactKind, name string, body []byte) (run.ArtifactRef, error)
	// KeepJSON is Keep for a JSON document of any size up to MaxArtifactBytes, which it reads once. It fails for a body
	// that is not JSON.
	KeepJSON(ctx context.Context, kind run.ArtifactKind, name string, body io.Reader) (run.ArtifactRef, error)
	// ReportNode queues a report about a node of the step, for the log of the run; total is the number of nodes that the
	// attempt executes, 0 when it is not known. It never waits. Safe for concurrent use.
	ReportNode(n run.StepNode, total int)
	// ReportWarehouse sets the namespace of the datasets that the nodes read and write. Call it before the first
	// ReportNode.
	ReportWarehouse(namespace string)
	// Exited notes how a program of the attempt ended, for the record of the engine attempt.
	Exited(exit sandbox.Exit)
}

// Failure is an error with a code for the log. Its Message may contain output of the step; the Runner redacts it.
type Failure struct { //nolint:errname // the word of plans and events
	Code      string
	Message   string
	Retryable bool
	Category  run.Category
	Class     string // error class of the retry policy, a plan.Class… constant; empty means unknown
	Artifacts []run.ArtifactRef
	Value     json.RawMessage
	// Quote means that the step's output says why. The Runner adds the line that names the error to Message, unless
	// Message contains it, and writes its number.
	Quote bool
}

func (f *Failure) Error() string { return f.Code + ": " + f.Message }
