package engine

import (
	"context"
	"time"

	"github.com/dvt-engine/dvt/plan"
)

// WorkerReport describes the sandboxes that a data worker can provide. The worker sends one when it starts and then
// every minute.
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
}

// WorkerReporter accepts reports of one worker. A server's Journal implements it.
type WorkerReporter interface {
	// Report stores a report. ErrRefused if a report is malformed or names a queue that is not the worker's own.
	Report(ctx context.Context, r WorkerReport) error
}
