package run

import (
	"encoding/json"
	"time"
)

// SignalType names a command to a run.
type SignalType string

// The nine signals of the catalogue and CANCEL (T100, T223).
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
	// CompleteManual completes a MANUAL step that waits for a person (R177).
	CompleteManual SignalType = "COMPLETE_MANUAL_STEP"
)

// Overlays reports whether signals of the type change the parameters, inputs or
// target of attempts that begin later (T197).
func (t SignalType) Overlays() bool {
	return t == UpdateParams || t == InjectOverride || t == UpdateTarget
}

// Stops reports whether signals of the type end the run (T99, T200).
func (t SignalType) Stops() bool { return t == Cancel || t == EmergencyStop }

// ManualOutcome is what a person says of a MANUAL step (R177).
type ManualOutcome string

// Outcomes of a manual completion.
const (
	ManualSucceeded ManualOutcome = "SUCCEEDED"
	ManualFailed    ManualOutcome = "FAILED"
	ManualCancelled ManualOutcome = "CANCELLED"
)

// Signal is what judging needs to know of a command.
type Signal struct {
	ID     string     `json:"signalId"`
	Type   SignalType `json:"type"`
	StepID string     `json:"stepId,omitempty"`
	// ExpectedAttempt is the logical attempt a RETRY_STEP or COMPLETE_MANUAL_STEP means;
	// 0 means the latest at acceptance (T58, T217).
	ExpectedAttempt int           `json:"expectedLogicalAttemptId,omitempty"`
	Force           bool          `json:"force,omitempty"`   // RETRY_STEP; of an EMERGENCY_STOP forceKill (T99)
	Outcome         ManualOutcome `json:"outcome,omitempty"` // COMPLETE_MANUAL_STEP
}

// Outcome of a judgement.
type Outcome int

// Outcomes: Accept will have an effect, Noop is accepted without one, Reject is
// refused with a code.
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

// View is the part of a State that Judge looks at; the interpreter, which holds
// no State, shows the same (T193).
type View interface {
	RunStatus() Status
	Finalizing() bool // compensating or closing: cancel and retry are refused (T91)
	FindStep(stepID string) (StepView, bool)
	MaxAttempts() int // maxLogicalAttemptsManual of the run's policy (T56)
}

// StepView is a step as Judge sees it.
type StepView struct {
	Status         StepStatus
	LogicalAttempt int
	Retryable      bool // of the latest attempt's error
	RetryPending   bool // a retry of the latest attempt is already latched
	WaitsForPerson bool // RUNNING, and a MANUAL step that waits for its completion
}

// Application is how far an accepted signal has come (O11).
type Application string

// Applications in order; the last three are final.
const (
	SignalPending   Application = "PENDING"
	SignalDelivered Application = "DELIVERED"
	SignalApplied   Application = "APPLIED"
	SignalNoop      Application = "NOOP"
	SignalNotApply  Application = "NOT_APPLIED"
)

// Final reports whether the receipt will not move again, but for QuiescentSeq.
func (a Application) Final() bool {
	return a == SignalApplied || a == SignalNoop || a == SignalNotApply
}

// Receipt is the life of one signal (O11). It is operational state: it lives
// in the store beside the log, not in it.
type Receipt struct {
	RunID      string
	Signal     Signal
	Payload    json.RawMessage // the chosen @oneOf member, compact
	Actor      string
	Reason     string
	No         int64 // the run's signalNo; 0 for a rejection (T196)
	Rejected   bool
	Rejection  Code
	RejectText string

	Application       Application
	ApplicationReason string
	AcceptedSeq       Seq // of SignalAccepted or SignalRejected
	AppliedSeq        Seq // of the effect
	QuiescentSeq      Seq // PAUSE: when nothing ran any more

	ReceivedAt  time.Time
	DeliveredAt *time.Time
	AppliedAt   *time.Time
}
