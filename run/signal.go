package run

import (
	"encoding/json"
	"time"
)

// SignalType names a command to a run.
type SignalType string

// The nine signals of the catalogue and CANCEL (contract T100, T223).
const (
	Pause          SignalType = "PAUSE"
	Resume         SignalType = "RESUME"
	RetryStep      SignalType = "RETRY_STEP"
	SkipStep       SignalType = "SKIP_STEP"
	UpdateParams   SignalType = "UPDATE_PARAMS"
	InjectOverride SignalType = "INJECT_OVERRIDE"
	EscalateAlert  SignalType = "ESCALATE_ALERT"
	UpdateTarget   SignalType = "UPDATE_TARGET"
	EmergencyStop  SignalType = "EMERGENCY_STOP"
	Cancel         SignalType = "CANCEL"
	// CompleteManual completes a MANUAL step that waits for a person (contract R177).
	CompleteManual SignalType = "COMPLETE_MANUAL_STEP"
)

// Overlays reports whether signals of the type change the parameters, inputs or target of attempts that start later
// (contract T197).
func (t SignalType) Overlays() bool {
	return t == UpdateParams || t == InjectOverride || t == UpdateTarget
}

// Stops reports whether signals of the type end the run (contract T99, T200).
func (t SignalType) Stops() bool { return t == Cancel || t == EmergencyStop }

// ManualOutcome is a person's outcome for a MANUAL step (contract R177).
type ManualOutcome string

// Outcomes of a manual completion.
const (
	ManualSucceeded ManualOutcome = "SUCCEEDED"
	ManualFailed    ManualOutcome = "FAILED"
	ManualCancelled ManualOutcome = "CANCELLED"
)

// Signal is the part of a command that Judge needs.
type Signal struct {
	ID     string     `json:"signalId"`
	Type   SignalType `json:"type"`
	StepID string     `json:"stepId,omitempty"`
	// ExpectedAttempt is the logical attempt to which a RETRY_STEP or COMPLETE_MANUAL_STEP applies; 0 means the latest
	// at acceptance (contract T58, T217).
	ExpectedAttempt int           `json:"expectedLogicalAttemptId,omitempty"`
	Force           bool          `json:"force,omitempty"`   // of RETRY_STEP; of EMERGENCY_STOP the forceKill (T99)
	Outcome         ManualOutcome `json:"outcome,omitempty"` // COMPLETE_MANUAL_STEP
}

// Outcome of a judgement.
type Outcome int

// Outcomes: Accept has an effect, Noop is accepted without effect, Reject is refused with a code.
const (
	Accept Outcome = iota
	Noop
	Reject
)

// Decision is the answer of Judge.
type Decision struct {
	Outcome Outcome
	Code    Code   // of a Reject; of a Noop the reason
	Message string // for people: what to do
}

// View is the part of a State that Judge reads. The interpreter, which has no State, implements it, too (contract
// T193).
type View interface {
	RunStatus() Status
	Finalizing() bool // compensating or closing: cancel and retry are refused (contract T91)
	FindStep(stepID string) (StepView, bool)
	MaxAttempts() int // maxLogicalAttemptsManual of the run's policy (contract T56)
}

// StepView is the part of a step that Judge reads.
type StepView struct {
	Status         StepStatus
	LogicalAttempt int
	Retryable      bool // of the latest attempt's error
	RetryPending   bool // a retry of the latest attempt waits for a resume
	WaitsForPerson bool // a RUNNING MANUAL step that waits for its completion
}

// Application is the progress of an accepted signal (contract O11).
type Application string

// Applications in order; the last three are final.
const (
	SignalPending   Application = "PENDING"
	SignalDelivered Application = "DELIVERED"
	SignalApplied   Application = "APPLIED"
	SignalNoop      Application = "NOOP"
	SignalNotApply  Application = "NOT_APPLIED"
)

// Final reports whether the receipt cannot change any more, except for QuiescentSeq.
func (a Application) Final() bool {
	return a == SignalApplied || a == SignalNoop || a == SignalNotApply
}

// SignalReceipt is the history of one signal (contract O11). It is operational state: the store keeps it beside the
// log.
type SignalReceipt struct {
	RunID      string
	Signal     Signal
	Payload    json.RawMessage // the chosen @oneOf member, compact
	Actor      string
	Reason     string
	No         int64 // the run's signalNo; 0 for a rejection (contract T196)
	Rejected   bool
	Rejection  Code
	RejectText string

	Application       Application
	ApplicationReason string
	AcceptedSeq       Seq // of SignalAccepted or SignalRejected
	AppliedSeq        Seq // of the effect
	QuiescentSeq      Seq // PAUSE: of the event after which no step was running

	ReceivedAt  time.Time
	DeliveredAt *time.Time
	AppliedAt   *time.Time
}
