package run

import (
	"math"
	"regexp"

	"github.com/dvt-engine/dvt/plan"
)

// Limits of lists in payloads.
const (
	maxArtifactRefs = 1000
	maxDependencies = plan.MaxSteps
	maxEvidenceRefs = 50
	maxApprovers    = 100
)

var (
	count   = integer(0, math.MaxInt32)
	millis  = integer(0, int64(MaxSeq))
	attempt = integer(1, math.MaxInt32)
	aSeq    = integer(0, int64(MaxSeq))

	category = oneOf(CategoryUser, CategorySystem, CategoryPlatform, CategoryTimeout)
	signal   = oneOf(Pause, Resume, RetryStep, SkipStep, UpdateParams, InjectOverride,
		EscalateAlert, UpdateTarget, EmergencyStop, Cancel, CompleteManual)

	artifacts = list(maxArtifactRefs, object(
		must("uri", filled),
		must("kind", filled),
		may("sha256", aHash),
		may("sizeBytes", millis),
		may("contentType", text),
	))

	manualEnd = object(
		must("signalId", anID),
		must("outcome", oneOf(ManualSucceeded, ManualFailed, ManualCancelled)),
		may("actor", text),
		may("notes", text),
		may("evidenceRefs", list(maxEvidenceRefs, text)),
	)

	rerun = object(
		must("runId", aRunID),
		must("from", object(
			may("start", boolean),
			may("failed", boolean),
			may("steps", list(plan.MaxSteps, anID)),
		)),
		may("reuse", list(plan.MaxSteps, anID)),
	)

	// aRunError is the code of a run that failed without a failed step.
	runErrors = regexp.MustCompile(`^(ENGINE|PLAN|QUEUE)_`)
	aRunError = func(f *findings, path string, v any) {
		matching(f, path, v, runErrors.MatchString, "must match "+runErrors.String())
	}
)

// payload is the shape of every payload: what may stand in any of them (contract T16) and
// the members of one.
func payload(members ...member) shape {
	return object(append([]member{may("sourceOccurredAt", instant)}, members...)...)
}

func failure(more ...member) []member {
	return append([]member{
		must("errorCode", filled),
		may("errorMessage", text),
		must("retryable", boolean),
		may("failureCategory", category),
		may("failureSource", text),
		may("durationMs", millis),
		may("artifactRefs", artifacts),
		may("retryDeadline", instant),
		may("manual", manualEnd),
	}, more...)
}

// compensated is one hook that ran: an event of its own and an entry of the
// summary (contract T88, T89).
func compensated() []member {
	return []member{
		must("stepId", anID),
		must("idempotencyKey", filled),
		must("attempts", count),
		must("compensated", boolean),
		may("result", anything),
		may("errorCode", text),
		may("errorMessage", text),
	}
}

func signalled(more ...member) []member {
	return append([]member{
		must("signalId", anID),
		must("signalType", signal),
		may("stepId", anID),
		must("actor", filled),
		may("reason", text),
	}, more...)
}

func paused(more ...member) []member {
	return append([]member{
		must("signalId", anID),
		may("reason", text),
		may("pauseRequestedBy", text),
		may("runningStepsCount", count),
	}, more...)
}

// payloads is the closed list of what may be appended (contract T171, O7).
var payloads = map[EventType]shape{
	RunQueued: payload(
		must("queuePosition", count),
		may("estimatedWaitMs", millis),
		may("rerun", rerun),
	),
	RunApproved: payload(
		may("actor", text),
		may("reason", text),
		may("approvers", list(maxApprovers, object(
			must("principal", filled),
			may("reason", text),
		))),
		may("rerun", rerun),
	),
	RunStarted: payload(
		must("startedAt", instant),
		must("planRef", object(
			may("uri", text),
			must("sha256", aHash),
			must("schemaVersion", filled),
			must("planId", anID),
			must("planVersion", anID),
		)),
		must("engineRunRef", object(
			must("provider", filled),
			may("namespace", text),
			must("workflowId", filled),
			may("runId", text),
			may("pauseAhead", boolean),
		)),
		must("policy", object(
			must("retryWindowMs", millis),
			must("drainTimeoutMs", millis),
			may("cancelRunning", boolean),
			must("maxParallelSteps", count),
			must("maxLogicalAttemptsManual", count),
		)),
		must("steps", nullable(list(plan.MaxSteps, object(
			must("stepId", anID),
			must("type", filled),
			may("name", text),
			may("group", text),
			may("dependsOn", list(maxDependencies, anID)),
			may("taskQueue", text),
			may("resourceClass", text),
		)))),
		may("triggeredBy", text),
	),
	RunPaused:    payload(paused()...),
	RunResumed:   payload(paused(may("retryDeadline", instant))...),
	RunCompleted: payload(),
	RunFailed:    runFailed,
	RunCancelled: payload(
		may("signalId", anID),
		may("actor", text),
		may("reason", text),
		may("code", text),
	),
	StepStartedEvent: payload(
		may("paramsSeq", aSeq),
		may("signalId", anID),
	),
	StepCompletedEvent: payload(
		may("result", anything),
		may("durationMs", millis),
		may("artifactRefs", artifacts),
		may("retryDeadline", instant),
		may("manual", manualEnd),
		may("reused", object(
			must("runId", aRunID),
			must("runSeq", aSeq),
		)),
	),
	StepFailedEvent: payload(failure()...),
	StepSkippedEvent: payload(
		may("reason", text),
		must("reasonCode", oneOf(DependencyFailed, DependencySkipped, ConditionFalse, OperatorSkip, FailFast)),
		may("signalId", anID),
	),
	SignalAccepted: payload(signalled()...),
	SignalRejected: payload(signalled(must("code", filled))...),

	StepAwaitingManualCompletion: payload(
		must("sinceIso", instant),
		may("deadline", instant),
		may("retryDeadline", instant),
	),
	StepCompensated:        payload(compensated()...),
	StepCompensationFailed: payload(compensated()...),
	RunCompensationStarted: payload(must("stepIds", list(plan.MaxSteps, anID))),
}

// runFailed asks for the root cause, or else for a code that says that no step
// is to blame (contract T74).
func runFailed(f *findings, path string, v any) {
	members := failure(may("rootCause", object(
		must("stepId", anID),
		must("logicalAttemptId", attempt),
		must("errorCode", filled),
		may("errorMessage", text),
	)), may("compensation", list(plan.MaxSteps, object(compensated()...))), may("compensationOmitted", count))
	if o, ok := v.(map[string]any); ok && o["rootCause"] == nil {
		members = append(members, must("errorCode", aRunError))
	}
	payload(members...)(f, path, v)
}
