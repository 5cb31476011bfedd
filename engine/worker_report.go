package engine

import (
	"context"
	"time"

	"github.com/dvt-engine/dvt/plan"
)

// WorkerReport says which sandboxes a data worker can give. The worker sends one when it starts and each minute.
type WorkerReport struct {
	// Worker names the process, and stays the same while it runs. Two processes have different names.
	Worker  string             `json:"worker"`
	Queues  []string           `json:"queues"`
	Runtime string             `json:"runtime"`          // as sandbox.Capabilities
	Digest  string             `json:"digest,omitempty"` // as sandbox.Capabilities
	Parts   []plan.SandboxPart `json:"parts"`
	// Missing are the other parts, each with the reason in words for an operator.
	Missing map[plan.SandboxPart]string `json:"missing,omitempty"`
	// Limits are those of a step that asks for nothing.
	Limits plan.SandboxLimits `json:"limits,omitzero"`
	UID    int                `json:"uid"`
	// OK says that the last verification of the sandbox succeeded. Problem says why it failed.
	OK      bool   `json:"ok"`
	Problem string `json:"problem,omitempty"`
	// At is when the worker verified its sandbox. The server orders reports by its own clock.
	At time.Time `json:"at"`
}

// WorkerReporter takes reports of one worker. A Journal of a server is one.
type WorkerReporter interface {
	// Report stores a report. ErrRefused when a report is malformed or names a queue that is not the worker's own.
	Report(ctx context.Context, r WorkerReport) error
}
