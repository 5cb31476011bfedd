package run

import (
	"encoding/json"
	"time"
)

// State is the fold of a log. It is a value: Fold and Apply never change their input and share unchanged steps. The
// zero State with an Identity is the state of an empty log: PENDING, Seq 0.
type State struct {
	Header
	Steps []*Step // canonical order; empty before RunStarted (contract T145)
}

// Header is a State without its steps. Lists show it, and one row stores it (contract T212).
type Header struct {
	Identity
	Rev         int        `json:"rev"` // ReducerRev that made it
	Seq         Seq        `json:"seq"` // seq of the newest event applied; never decreases (contract T24)
	Status      Status     `json:"status"`
	CreatedAt   time.Time  `json:"createdAt"` // persistedAt of the first event
	StartedAt   *time.Time `json:"startedAt,omitempty"`
	CompletedAt *time.Time `json:"completedAt,omitempty"`
	TriggeredBy string     `json:"triggeredBy,omitempty"`

	PlanRef *PlanRef      `json:"planRef,omitempty"`
	Engine  *EngineRunRef `json:"engine,omitempty"`
	Policy  *Policy       `json:"policy,omitempty"`
	// PlanMirror is that of RunContext.
	PlanMirror string `json:"planMirror,omitempty"`

	PausedEpoch  int        `json:"pausedEpoch,omitempty"`  // of the newest RunPaused (contract T53)
	ResumedEpoch int        `json:"resumedEpoch,omitempty"` // of the newest RunResumed
	Pause        *PauseInfo `json:"pause,omitempty"`        // while PAUSED

	RetryDeadline *time.Time    `json:"retryDeadline,omitempty"` // while the retry window is open (contract T221)
	Compensating  bool          `json:"compensating,omitempty"`
	Queued        bool          `json:"queued,omitempty"` // RunQueued and not yet started
	Failure       *RunFailure   `json:"failure,omitempty"`
	Cancellation  *Cancellation `json:"cancellation,omitempty"` // of a CANCELLED run
	Counts        StepCounts    `json:"counts"`
	WorkMS        int64         `json:"workMs,omitempty"`    // see Work; without the time since WorkSince
	WorkSince     *time.Time    `json:"workSince,omitempty"` // since when steps run; nil while none does
	RootCause     *StepRef      `json:"rootCause,omitempty"` // set while a step is FAILED (contract T214)
	StatusSeq     Seq           `json:"statusSeq"`           // seq at which Status last changed (contract T193)

	// Artifacts are distinct by URI, in the order of the events that first named them (contract T150).
	Artifacts []ArtifactRef `json:"artifacts,omitempty"`
}

// PauseInfo describes the open pause.
type PauseInfo struct {
	SignalID    string    `json:"signalId"`
	RequestedBy string    `json:"requestedBy,omitempty"`
	Reason      string    `json:"reason,omitempty"`
	Since       time.Time `json:"since"`
	Seq         Seq       `json:"seq"`
}

// RunFailure is the error that a FAILED run ended with.
type RunFailure struct {
	Code      string     `json:"code"`
	Message   string     `json:"message,omitempty"`
	Retryable bool       `json:"retryable"`
	Category  Category   `json:"category,omitempty"`
	RootCause *RootCause `json:"rootCause,omitempty"`
	Seq       Seq        `json:"seq"`
}

// Cancellation says who or what cancelled a run. SignalID is empty if no signal did, for example when the approval was
// rejected; Code then says why.
type Cancellation struct {
	SignalID   string     `json:"signalId,omitempty"`
	SignalType SignalType `json:"signalType,omitempty"`
	Actor      string     `json:"actor,omitempty"`
	Reason     string     `json:"reason,omitempty"`
	Code       Code       `json:"code,omitempty"`
	At         time.Time  `json:"at"`
	Seq        Seq        `json:"seq"`
}

// StepRef is a FAILED logical attempt of a step with its error, so that a row of a list can show why a run is blocked.
type StepRef struct {
	StepID         string     `json:"stepId"`
	LogicalAttempt int        `json:"logicalAttemptId"`
	Seq            Seq        `json:"seq"`
	Error          *StepError `json:"error,omitempty"`
	Name           string     `json:"name,omitempty"` // of the step
}

// StepCounts counts steps by the status of their latest attempt. Manual counts the RUNNING steps that wait for a
// person; Running includes them. Failed includes Stopped, the steps that did not fail by themselves: a cancellation, a
// stop or a pause of the run ended them. Success includes Kept, the steps that a rerun did not execute again.
type StepCounts struct {
	Total   int `json:"total"`
	Pending int `json:"pending"`
	Running int `json:"running"`
	Success int `json:"success"`
	Failed  int `json:"failed"`
	Skipped int `json:"skipped"`
	Manual  int `json:"manual"`
	Stopped int `json:"stopped,omitempty"`
	Kept    int `json:"kept,omitempty"`
}

// Step is one step of a State. Its fields Status, Substatus and LogicalAttempt mirror the highest logical attempt
// (contract T60). A Step that is part of a State must not be changed, because states share it.
type Step struct {
	StepOutline
	Ord        Ord        `json:"ord"`
	ChangedSeq Seq        `json:"changedSeq"` // seq of the last event that changed the step, RunStarted included
	Status     StepStatus `json:"status"`
	Substatus  Substatus  `json:"substatus,omitempty"`
	// LogicalAttempt is 0 before the first attempt starts.
	LogicalAttempt int       `json:"logicalAttemptId"`
	Attempts       []Attempt `json:"attempts,omitempty"` // ascending logical attempt
}

// Attempt is one logical attempt of a step. A terminal attempt does not change, except that a late StepStarted supplies
// its start time.
type Attempt struct {
	LogicalAttempt int        `json:"logicalAttemptId"`
	EngineAttempt  int        `json:"engineAttemptId"`
	Status         StepStatus `json:"status"`
	Substatus      Substatus  `json:"substatus,omitempty"`
	StartedSeq     Seq        `json:"startedSeq,omitempty"`
	EndedSeq       Seq        `json:"endedSeq,omitempty"`
	StartedAt      *time.Time `json:"startedAt,omitempty"`
	CompletedAt    *time.Time `json:"completedAt,omitempty"`
	DurationMS     int64      `json:"durationMs,omitempty"`
	// LastTryMS is how long the last of several automatic tries took by its worker, without the tries and the pauses
	// before it. It is 0 for an attempt with one try, and when no worker reported it.
	LastTryMS int64           `json:"lastTryMs,omitempty"`
	Error     *StepError      `json:"error,omitempty"`
	Skip      *Skip           `json:"skip,omitempty"`
	Result    json.RawMessage `json:"result,omitempty"`
	Artifacts []ArtifactRef   `json:"artifacts,omitempty"`

	// WaitingSince and WaitDeadline are set for an attempt that waits or waited for a person (contract T82). A wait may
	// have no deadline.
	WaitingSince *time.Time `json:"waitingSince,omitempty"`
	WaitDeadline *time.Time `json:"waitDeadline,omitempty"`
	// Manual names the person who ended the wait, and the outcome; nil if no person did.
	Manual *ManualEnd `json:"manual,omitempty"`
	// Reused names the run whose outputs a rerun took over, instead of executing the step.
	Reused *Reused `json:"reused,omitempty"`
	// Nodes counts the nodes that the attempt reported; nil if it reported none. The log has the nodes themselves.
	Nodes *NodeProgress `json:"nodes,omitempty"`
}

// StepError is the error of a failed attempt.
type StepError struct {
	Code      string   `json:"code"`
	Message   string   `json:"message,omitempty"`
	Retryable bool     `json:"retryable"`
	Category  Category `json:"category,omitempty"`
	Source    string   `json:"source,omitempty"`
	Line      int64    `json:"line,omitempty"` // FailurePayload.ErrorLine
}

// Skip is the reason why an attempt was skipped.
type Skip struct {
	Reason     string     `json:"reason,omitempty"`
	ReasonCode SkipReason `json:"reasonCode"`
}

// Changes lists the data that a Fold changed, so that a save costs only the changes.
type Changes struct {
	Header bool
	Steps  []Ord // ascending, distinct
}

// Anomaly is an inconsistency that a fold found and tolerated (PROJECTOR_CAUSAL_VIOLATION, contract T42, T53).
type Anomaly struct {
	Seq    Seq
	Code   Code
	Detail string
}

// Delta has the complete header at To and the steps that changed in (From, To]. It carries absolute values, so that
// applying it twice does no harm (contract T188, O8).
type Delta struct {
	From   Seq     `json:"fromSeq"`
	To     Seq     `json:"toSeq"`
	Header Header  `json:"header"`
	Steps  []*Step `json:"steps,omitempty"`
}

// Verdict is the result of Apply.
type Verdict int

// Verdicts. Applied: the state is now that of Delta.To. Old: the state already has the delta. Gap: events between the
// state and the delta are missing. Old and Gap leave the state unchanged.
const (
	Applied Verdict = iota
	Old
	Gap
)
