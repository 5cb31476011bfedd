package engine

import "time"

// TryFile is the name under which the record of an engine attempt is stored, beside its artifacts.
const TryFile = "dvt-try.json"

// TryRecord is what a worker says about one engine attempt when the attempt ends on it (contract R191). Only what
// people are shown may depend on it, because a worker can claim anything. All times are those of the worker's clock.
type TryRecord struct {
	Worker          string     `json:"worker"` // as WorkerReport.Worker
	StartedAt       time.Time  `json:"startedAt"`
	EndedAt         time.Time  `json:"endedAt"`
	LastHeartbeatAt time.Time  `json:"lastHeartbeatAt,omitzero"`
	Outcome         TryOutcome `json:"outcome"`
	ErrorCode       string     `json:"errorCode,omitempty"`
	ErrorClass      string     `json:"errorClass,omitempty"`
	ExitStatus      *int       `json:"exitStatus,omitempty"` // of its last program; nil if none ended by itself
	Signal          string     `json:"signal,omitempty"`     // that ended this program
	// LogLines and LogBytes count what the attempt printed, also lines that were not stored.
	LogLines int64 `json:"logLines"`
	LogBytes int64 `json:"logBytes"`
	// Stack is the stack trace of an executor that panicked (contract R218), without secret values. It is for SREs.
	Stack string `json:"stack,omitempty"`
}

// StoredTry is a TryRecord as the Journal stores it.
type StoredTry struct {
	Account string `json:"account"` // of the worker, as the Journal knows it
	TryRecord
}

// TryOutcome is how an engine attempt ended.
type TryOutcome string

// Outcomes of engine attempts.
const (
	TrySucceeded   TryOutcome = "SUCCEEDED"
	TryFailed      TryOutcome = "FAILED"
	TryStopped     TryOutcome = "STOPPED"     // somebody asked it to stop, or the engine no longer knew it
	TryInterrupted TryOutcome = "INTERRUPTED" // its worker stopped
)
