package engine

import (
	"context"
	"time"

	"github.com/dvt-engine/dvt/plan"
)

// Limits of a report.
const (
	MaxWorkerSteps      = 50 // steps that it names
	MaxSecretsProviders = 20
	MaxWorkspaces       = 100 // runs with a workspace that it names
)

// WorkerReport describes a data worker: the sandboxes that it can provide, and what it runs. The worker sends one when
// it starts and then every 20 seconds.
type WorkerReport struct {
	// Worker identifies the process and does not change while it runs. Two processes have different values.
	Worker  string             `json:"worker"`
	Queues  []string           `json:"queues"`
	Runtime string             `json:"runtime"`          // as sandbox.Capabilities
	Digest  string             `json:"digest,omitempty"` // as sandbox.Capabilities
	Parts   []plan.SandboxPart `json:"parts"`
	// Missing are the missing features, each with the reason for operators.
	Missing map[plan.SandboxPart]string `json:"missing,omitempty"`
	// Limits apply to a step without limits of its own.
	Limits plan.SandboxLimits `json:"limits,omitzero"`
	UID    int                `json:"uid"`
	// OK means that the last verification of the sandbox succeeded. Problem is the reason if it failed.
	OK      bool   `json:"ok"`
	Problem string `json:"problem,omitempty"`
	// At is when the worker verified its sandbox. The server orders reports by its own clock.
	At time.Time `json:"at"`

	Version   string    `json:"version,omitempty"` // of dvt
	StartedAt time.Time `json:"startedAt,omitzero"`
	// Slots is the number of steps that the worker can run at once, on all queues together; InUse is how many it runs.
	Slots int `json:"slots,omitempty"`
	InUse int `json:"inUse,omitempty"`
	// Steps are those that it runs, the oldest first, at most MaxWorkerSteps.
	Steps []WorkerStep `json:"steps,omitempty"`
	// Drained means that the worker begins no further steps, because a WorkerOrder said so.
	Drained bool `json:"drained,omitempty"`
	// Secrets are the providers of secrets that the worker uses, by name, at most MaxSecretsProviders.
	Secrets []SecretsProvider `json:"secrets,omitempty"`
	// Workspaces are ids of runs whose files are on the worker's disk, at most MaxWorkspaces. The answer says which of
	// them have ended. They are not stored.
	Workspaces []string `json:"workspaces,omitempty"`
}

// SecretsProvider is what a worker knows of a provider of secrets.
type SecretsProvider struct {
	Name string `json:"name"`
	// Reachable means that the provider answers and accepts the worker's identity.
	Reachable bool `json:"reachable"`
	// LatencyMS is how long the last check took, in milliseconds.
	LatencyMS int64  `json:"latencyMs"`
	Problem   string `json:"problem,omitempty"` // why it is not reachable
}

// WorkerStep is a step that a worker runs.
type WorkerStep struct {
	TenantID string    `json:"tenantId"`
	RunID    string    `json:"runId"`
	StepID   string    `json:"stepId"`
	Since    time.Time `json:"since"`
}

// WorkerOrder is the answer to a report.
type WorkerOrder struct {
	// Drain means that the worker must begin no further steps until an order says otherwise. Its running steps go on.
	Drain bool `json:"drain,omitempty"`
	// EndedRuns are those of the report's Workspaces that have ended: the worker removes their files.
	EndedRuns []string `json:"endedRuns,omitempty"`
}

// WorkerReporter accepts reports of one worker. A server's Journal implements it.
type WorkerReporter interface {
	// Report stores a report and returns what the worker must do. ErrRefused if a report is malformed or names a queue
	// that is not the worker's own.
	Report(ctx context.Context, r WorkerReport) (WorkerOrder, error)
}
