package run

import (
	"encoding/json"
	"fmt"
	"time"
)

// EventType names a kind of fact, in the past tense (contract T171).
type EventType string

// The fourteen event types and the five extension events (contract O7).
const (
	RunQueued                    EventType = "RunQueued"
	RunApproved                  EventType = "RunApproved"
	RunStarted                   EventType = "RunStarted"
	RunPaused                    EventType = "RunPaused"
	RunResumed                   EventType = "RunResumed"
	RunCompleted                 EventType = "RunCompleted"
	RunFailed                    EventType = "RunFailed"
	RunCancelled                 EventType = "RunCancelled"
	StepStartedEvent             EventType = "StepStarted"
	StepCompletedEvent           EventType = "StepCompleted"
	StepFailedEvent              EventType = "StepFailed"
	StepSkippedEvent             EventType = "StepSkipped"
	SignalAccepted               EventType = "SignalAccepted"
	SignalRejected               EventType = "SignalRejected"
	StepAwaitingManualCompletion EventType = "StepAwaitingManualCompletion"
	StepCompensated              EventType = "StepCompensated"
	StepCompensationFailed       EventType = "StepCompensationFailed"
	RunCompensationStarted       EventType = "RunCompensationStarted"
	StepNodesReported            EventType = "StepNodesReported"
)

// Producer is the component that made an event (contract T183, T223).
type Producer string

// Producers; see Producer.May for the events that they may append.
const (
	ByEngine    Producer = "engine"
	ByPlanner   Producer = "planner"
	ByAdmission Producer = "admission"
	ByAuthz     Producer = "authz"
	ByControl   Producer = "control"
)

// Identity has the fields that all events of a run share. It is fixed when the run is created (contract T14).
type Identity struct {
	RunID         string `json:"runId"`
	TenantID      string `json:"tenantId"`
	ProjectID     string `json:"projectId"`
	EnvironmentID string `json:"environmentId"`
	PlanID        string `json:"planId"`
	PlanVersion   string `json:"planVersion"`
}

// Draft is an event without a position in the log. The subject is StepID for step events, SignalID for the two signal
// decisions, else the run.
type Draft struct {
	Type     EventType `json:"type"`
	StepID   string    `json:"stepId,omitempty"`
	SignalID string    `json:"signalId,omitempty"`
	// from 1; for RunPaused and RunResumed the pause epoch (contract T06)
	LogicalAttempt int `json:"logicalAttempt"`
	// from 1; counts executions of one logical attempt (contract T61)
	EngineAttempt int             `json:"engineAttempt"`
	EmittedAt     time.Time       `json:"emittedAt"`
	EmittedBy     Producer        `json:"emittedBy"`
	Payload       json.RawMessage `json:"payload,omitempty"` // a JSON object or nil
}

// Event is a fact in the log: immutable, and ordered within its run only by Seq (contract T17).
type Event struct {
	Identity
	EventID        string          `json:"eventId"`
	Type           EventType       `json:"eventType"`
	Seq            Seq             `json:"runSeq"`
	Key            Key             `json:"idempotencyKey"`
	StepID         string          `json:"stepId,omitempty"`
	SignalID       string          `json:"-"` // also in the payload of signal decisions
	LogicalAttempt int             `json:"logicalAttemptId"`
	EngineAttempt  int             `json:"engineAttemptId"`
	EmittedAt      time.Time       `json:"emittedAt"`
	PersistedAt    time.Time       `json:"persistedAt"`
	EmittedBy      Producer        `json:"emittedBy,omitempty"`
	Payload        json.RawMessage `json:"payload,omitempty"`
}

// Notation returns the event in the notation of logs in acceptance.md: the type, with step and logical attempt for
// events of steps, "StepStarted(load,1)", with the epoch for pauses, "RunPaused(2)", and alone for others,
// "RunStarted".
func (e Event) Notation() string {
	switch {
	case e.StepID != "":
		return fmt.Sprintf("%s(%s,%d)", e.Type, e.StepID, e.LogicalAttempt)
	case e.Type == RunPaused || e.Type == RunResumed:
		return fmt.Sprintf("%s(%d)", e.Type, e.LogicalAttempt)
	}
	return string(e.Type)
}

// OccurredAt returns the time of the fact by the clock of the process that observed it, which may differ from the
// store's clock (contract T19).
func (e *Event) OccurredAt() time.Time { return occurredAt(e) }

// Key is an idempotency key: a SHA-256 in lower-case hex (contract T03, T05). Draft.Key and RequestKey compute keys.
type Key string

// ArtifactRef refers to an artifact of a step; it does not contain it.
type ArtifactRef struct {
	URI         string       `json:"uri"`
	Kind        ArtifactKind `json:"kind"`
	SHA256      string       `json:"sha256,omitempty"`
	SizeBytes   int64        `json:"sizeBytes,omitempty"`
	ContentType string       `json:"contentType,omitempty"`
	// ExpiresAt is when the content is removed; nil for content that was stored without an end.
	ExpiresAt *time.Time `json:"expiresAt,omitempty"`
}
