package run

import (
	"encoding/json"
	"time"

	"github.com/dvt-engine/dvt/plan"
)

// The typed payloads of events. Each agrees with its JSON Schema under schemas/. The log keeps unknown members; these
// types ignore them (contract T152).
type (
	// RunQueuedPayload has the run's position when it had to wait (contract T137). Rerun is passed on to its
	// RunApproved.
	RunQueuedPayload struct {
		QueuePosition   int    `json:"queuePosition"`
		EstimatedWaitMS int64  `json:"estimatedWaitMs,omitempty"`
		Rerun           *Rerun `json:"rerun,omitempty"`
	}

	// RunApprovedPayload has the approvers: the actor is the last of the people that the environment requires.
	RunApprovedPayload struct {
		Actor     string     `json:"actor,omitempty"`
		Reason    string     `json:"reason,omitempty"`
		Approvers []Approver `json:"approvers,omitempty"` // in the order of their approvals; empty if none was required
		Rerun     *Rerun     `json:"rerun,omitempty"`
	}

	// Approver is one of the people who approved a run.
	Approver struct {
		Principal string `json:"principal"`
		Reason    string `json:"reason,omitempty"`
	}

	// Rerun fixes what a rerun takes over: the outputs of these steps of a run that has ended. From is the request
	// (contract O2, T209).
	Rerun struct {
		RunID string    `json:"runId"`
		From  RerunFrom `json:"from"`
		Reuse []string  `json:"reuse,omitempty"` // stepIds in canonical order
	}

	// RerunFrom selects the steps that run again; exactly one member is set.
	RerunFrom struct {
		Start  bool     `json:"start,omitempty"`
		Failed bool     `json:"failed,omitempty"`
		Steps  []string `json:"steps,omitempty"` // ascending, distinct
	}

	// RunStartedPayload fixes the data that makes the state a fold of its log: the steps in canonical order (contract
	// T145) and the policy in force (contract T209).
	RunStartedPayload struct {
		StartedAt time.Time     `json:"startedAt"`
		PlanRef   PlanRef       `json:"planRef"`
		Engine    EngineRunRef  `json:"engineRunRef"`
		Policy    Policy        `json:"policy"`
		Steps     []StepOutline `json:"steps"`
		// TriggeredBy is the principal that requested the run.
		TriggeredBy string `json:"triggeredBy,omitempty"`
		// EngineType is EngineRunRef.Provider, for readers that know no references (contract DD-5).
		EngineType string      `json:"engineType,omitempty"`
		Context    *RunContext `json:"context,omitempty"` // nil in events of earlier versions
	}

	// RunContext is what the envelope of RunStarted does not say about the request of a run.
	RunContext struct {
		TriggerSource string `json:"triggerSource"` // api or rerun
		// PlanMirror is the further address of the plan's reference that gave the document. It is empty when the first one
		// gave it, and when the store had it.
		PlanMirror string `json:"planMirror,omitempty"`
	}

	// PlanRef names the plan document that the run executes. The other fields are what the request said of it (contract
	// DD-10); see plan.Ref.
	PlanRef struct {
		URI                 string              `json:"uri,omitempty"`
		SHA256              string              `json:"sha256"`
		SchemaVersion       string              `json:"schemaVersion"`
		PlanID              string              `json:"planId"`
		PlanVersion         string              `json:"planVersion"`
		SizeBytes           int64               `json:"sizeBytes,omitempty"`
		Compression         string              `json:"compression,omitempty"`
		Mirrors             []string            `json:"mirrors,omitempty"`
		ExpiresAt           time.Time           `json:"expiresAt,omitzero"`
		SchemaEvolutionPath string              `json:"schemaEvolutionPath,omitempty"`
		MigrationHint       *plan.MigrationHint `json:"migrationHint,omitempty"`
	}

	// EngineRunRef addresses the run in its engine. WorkflowID is the address. EngineRunID names only the first
	// execution, so it serves people and is never used as an address (contract T107, T148).
	EngineRunRef struct {
		Provider    string `json:"provider"`
		Namespace   string `json:"namespace,omitempty"`
		WorkflowID  string `json:"workflowId"`
		EngineRunID string `json:"runId,omitempty"`
		// TaskQueue is the queue of the workflow, empty in events of earlier versions. It helps people to find the worker.
		TaskQueue string `json:"taskQueue,omitempty"`
		// PauseAhead means that the executing engine adopts a RunPaused that control appended when it accepted the
		// PAUSE, and appends nothing that must not follow it (docs/decisions/0029).
		PauseAhead bool `json:"pauseAhead,omitempty"`
	}

	// Policy is fixed at the start of a run; later configuration does not change it.
	Policy struct {
		RetryWindowMS            int64 `json:"retryWindowMs"`
		DrainTimeoutMS           int64 `json:"drainTimeoutMs"`
		CancelRunning            bool  `json:"cancelRunning,omitempty"`
		MaxParallelSteps         int   `json:"maxParallelSteps"`
		MaxLogicalAttemptsManual int   `json:"maxLogicalAttemptsManual"`
		// DueAt is when the run should have ended, by the deadline of its plan; nil without one.
		DueAt *time.Time `json:"dueAt,omitempty"`
	}

	// StepOutline describes a step before it starts.
	StepOutline struct {
		StepID        string   `json:"stepId"`
		Type          string   `json:"type"`
		Name          string   `json:"name,omitempty"`
		Group         string   `json:"group,omitempty"`
		DependsOn     []string `json:"dependsOn,omitempty"`
		TaskQueue     string   `json:"taskQueue,omitempty"`
		ResourceClass string   `json:"resourceClass,omitempty"`
	}

	// StepStartedPayload of the start of an attempt. ParamsSeq is the runSeq of the newest overlay that was applied to
	// its inputs (contract T197).
	StepStartedPayload struct {
		ParamsSeq Seq    `json:"paramsSeq,omitempty"`
		SignalID  string `json:"signalId,omitempty"` // the RETRY_STEP that caused the attempt
		// State is the manifest with which a slim dbt step compares; nil for other steps.
		State *StateBase `json:"state,omitempty"`
	}

	// StateBase is the attempt of an earlier run whose manifest a slim dbt step compares with. Without a RunID the server
	// found none.
	StateBase struct {
		RunID          string       `json:"runId,omitempty"`
		LogicalAttempt int          `json:"logicalAttempt,omitempty"`
		Manifest       *ArtifactRef `json:"manifest,omitempty"`
	}

	// StepCompletedPayload of a successful attempt.
	StepCompletedPayload struct {
		Result        json.RawMessage `json:"result,omitempty"`
		DurationMS    int64           `json:"durationMs,omitempty"`
		ArtifactRefs  []ArtifactRef   `json:"artifactRefs,omitempty"`
		RetryDeadline *time.Time      `json:"retryDeadline,omitempty"` // if it opens the retry window (contract T221)
		Manual        *ManualEnd      `json:"manual,omitempty"`        // of a MANUAL step
		Reused        *Reused         `json:"reused,omitempty"`        // of a step that a rerun did not execute again
	}

	// Reused names the run from whose step a rerun took the outputs (contract O2, T209).
	Reused struct {
		RunID string `json:"runId"`
		Seq   Seq    `json:"runSeq"` // of that run's StepCompleted
	}

	// ManualEnd names the person who completed a MANUAL step, and the outcome (contract T82, T84). The interpreter sets
	// SignalID and Outcome; the Journal adds the rest from the receipt.
	ManualEnd struct {
		SignalID     string        `json:"signalId"`
		Outcome      ManualOutcome `json:"outcome"`
		Actor        string        `json:"actor,omitempty"`
		Notes        string        `json:"notes,omitempty"`
		EvidenceRefs []string      `json:"evidenceRefs,omitempty"`
	}

	// AwaitingPayload of StepAwaitingManualCompletion; never the token (contract T82, T85).
	AwaitingPayload struct {
		Since    time.Time  `json:"sinceIso"`
		Deadline *time.Time `json:"deadline,omitempty"` // when the wait times out
		// RetryDeadline is set if the wait is the only activity while another step is FAILED (contract T221).
		RetryDeadline *time.Time `json:"retryDeadline,omitempty"`
	}

	// CompensationPayload of StepCompensated and StepCompensationFailed, and an entry of the summary in RunFailed
	// (contract T88, T89).
	CompensationPayload struct {
		StepID         string          `json:"stepId"`
		IdempotencyKey string          `json:"idempotencyKey"` // runId:stepId:compensate (contract M04)
		Attempts       int             `json:"attempts"`
		Compensated    bool            `json:"compensated"`
		Result         json.RawMessage `json:"result,omitempty"`
		ErrorCode      string          `json:"errorCode,omitempty"`
		ErrorMessage   string          `json:"errorMessage,omitempty"`
	}

	// CompensationStartedPayload of RunCompensationStarted: the steps in the order in which their hooks run, which is
	// the reverse of their completion (contract R185).
	CompensationStartedPayload struct {
		StepIDs []string `json:"stepIds"`
	}

	// FailurePayload is the payload of StepFailed and a part of the payload of RunFailed.
	FailurePayload struct {
		ErrorCode       string        `json:"errorCode"`
		ErrorMessage    string        `json:"errorMessage,omitempty"`
		Retryable       bool          `json:"retryable"`
		FailureCategory Category      `json:"failureCategory,omitempty"`
		FailureSource   string        `json:"failureSource,omitempty"`
		DurationMS      int64         `json:"durationMs,omitempty"`
		ArtifactRefs    []ArtifactRef `json:"artifactRefs,omitempty"`
		RetryDeadline   *time.Time    `json:"retryDeadline,omitempty"` // if it opens the retry window (contract T221)
		Manual          *ManualEnd    `json:"manual,omitempty"`        // of a MANUAL step
		// ErrorLine is the number of the line that ErrorMessage quotes, among the lines of the engine attempt. 0 means that
		// it quotes none or that the number is not known. Logs of earlier versions do not have it.
		ErrorLine int64 `json:"errorLine,omitempty"`
	}

	// StepSkippedPayload has the reason why a step does not run.
	StepSkippedPayload struct {
		Reason     string     `json:"reason,omitempty"`
		ReasonCode SkipReason `json:"reasonCode"`
		SignalID   string     `json:"signalId,omitempty"`
	}

	// SignalPayload of SignalAccepted and SignalRejected.
	SignalPayload struct {
		SignalID   string     `json:"signalId"`
		SignalType SignalType `json:"signalType"`
		StepID     string     `json:"stepId,omitempty"`
		Actor      string     `json:"actor"`
		Reason     string     `json:"reason,omitempty"`
		Code       Code       `json:"code,omitempty"` // rejections only
		// Nodes is the set of a RETRY_STEP that runs only some nodes of its step.
		Nodes *SignalNodes `json:"nodes,omitempty"`
	}

	// SignalNodes is the set of nodes that a RETRY_STEP runs again. It was computed from the manifest and the results of
	// an attempt, and does not change any more. Set is the document with all nodes; IDs are the nodes of a small set.
	SignalNodes struct {
		Mode    string      `json:"mode"`
		Attempt int         `json:"attempt"` // the logical attempt that failed
		Count   int         `json:"count"`
		IDs     []string    `json:"ids,omitempty"`
		Set     ArtifactRef `json:"set"`
	}

	// PausePayload of RunPaused and RunResumed. The store sets RunningStepsCount while it holds the lock on the head of
	// the log, so that the number is exact.
	PausePayload struct {
		SignalID          string     `json:"signalId"`
		Reason            string     `json:"reason,omitempty"`
		PauseRequestedBy  string     `json:"pauseRequestedBy,omitempty"`
		RunningStepsCount int        `json:"runningStepsCount"`
		RetryDeadline     *time.Time `json:"retryDeadline,omitempty"` // RunResumed only (contract T221)
	}

	// RunFailedPayload names the root cause (contract T74, T214). Without a failed step ErrorCode begins with ENGINE_,
	// PLAN_ or QUEUE_.
	RunFailedPayload struct {
		FailurePayload
		RootCause *RootCause `json:"rootCause,omitempty"`
		// Compensation has the hooks in the order in which they ran, without results. CompensationOmitted counts those
		// that do not fit. Every hook also has an event of its own.
		Compensation        []CompensationPayload `json:"compensation,omitempty"`
		CompensationOmitted int                   `json:"compensationOmitted,omitempty"`
	}

	// RootCause is the failed attempt that ended the run.
	RootCause struct {
		StepID         string `json:"stepId"`
		LogicalAttempt int    `json:"logicalAttemptId"`
		ErrorCode      string `json:"errorCode"`
		ErrorMessage   string `json:"errorMessage,omitempty"`
	}

	// RunCancelledPayload has the person who cancelled the run, or the code with which it ended before it started.
	// SignalType is CANCEL or EMERGENCY_STOP; logs of earlier versions do not have it.
	RunCancelledPayload struct {
		SignalID   string     `json:"signalId,omitempty"`
		SignalType SignalType `json:"signalType,omitempty"`
		Actor      string     `json:"actor,omitempty"`
		Reason     string     `json:"reason,omitempty"`
		Code       Code       `json:"code,omitempty"`
	}
)

// SkipReason is the reason why a step was skipped (contract T76).
type SkipReason string

// Skip reasons.
const (
	DependencyFailed  SkipReason = "DEPENDENCY_FAILED"
	DependencySkipped SkipReason = "DEPENDENCY_SKIPPED"
	ConditionFalse    SkipReason = "CONDITION_FALSE"
	OperatorSkip      SkipReason = "OPERATOR_SKIP"
	FailFast          SkipReason = "FAIL_FAST"
)
