package run

import "fmt"

// DefaultMaxAttempts is the number of logical attempts of a step that people may cause without force if the run's
// policy has no limit (contract O5, T56).
const DefaultMaxAttempts = 10

// Judge decides the effect of a signal on a run in state v. Acceptance, preview and application all use it (contract
// T193). It does not check permissions, sizes, limits and expectedRunSeq; callers do so before.
//
// A Noop at acceptance is valid only for the current log: while an earlier signal is accepted and not applied, the
// decision at application is final.
func Judge(v View, sig Signal) Decision {
	status := v.RunStatus()
	if status.Terminal() {
		return reject(CodeRunTerminal, "The run has ended: it is %s. Rerun it instead.", status.Word())
	}
	started := status == Running || status == Paused
	switch sig.Type {
	case Pause, Resume, RetryStep, SkipStep, CompleteManual:
		if !started {
			return reject(CodeInvalidRunState, "The run has not started: it is %s. Try again when it is running, or cancel it.",
				status.Word())
		}
	}
	switch sig.Type {
	case Pause:
		return judgePause(v)
	case Resume:
		if status == Running {
			return noop(CodeAlreadyInState, "The run is already running.")
		}
		return accept("The run continues as soon as no step is running.")
	case RetryStep:
		return judgeRetry(v, sig)
	case SkipStep:
		return judgeSkip(v, sig)
	case Cancel:
		if v.Finalizing() {
			return finalizing("cancelled")
		}
		return accept("The run is cancelled. This cannot be undone.")
	case EmergencyStop:
		return accept("The run stops at once and is cancelled. This cannot be undone.")
	case UpdateParams, InjectOverride, UpdateTarget:
		return judgeOverlay(v, sig, started)
	case EscalateAlert:
		return accept("An alert is raised; the run itself continues unchanged.")
	case CompleteManual:
		return judgeManual(v, sig)
	}
	return reject(CodeNotSupported, "%q is not a signal that this version knows.", sig.Type)
}

func judgePause(v View) Decision {
	switch {
	case v.RunStatus() == Paused:
		return noop(CodeAlreadyInState, "The run is already paused.")
	case v.Finalizing():
		return noop(CodeRunFinalizing, "The run is ending and starts no more steps; there is nothing to pause.")
	}
	return accept("No further step starts; running steps finish first.")
}

// judgeRetry permits the retry of the latest attempt of a step if it is FAILED. A repeated retry of an attempt that was
// retried already is a Noop, so that two people who react to one failure cause one retry. Force overrides the policy:
// errors that are not retryable and the maximum number of attempts (contract T54 to T58, T217).
func judgeRetry(v View, sig Signal) Decision {
	if v.Finalizing() {
		return finalizing("changed")
	}
	step, ok := v.FindStep(sig.StepID)
	latest := step.LogicalAttempt
	switch {
	case !ok:
		return stepNotFound(sig.StepID)
	case sig.ExpectedAttempt != 0 && sig.ExpectedAttempt < latest:
		return noop(CodeSuperseded, "Attempt %d of step %q was already retried; the latest is attempt %d.",
			sig.ExpectedAttempt, sig.StepID, latest)
	case sig.ExpectedAttempt > latest:
		return reject(CodeStepNotFailed, "Step %q has no attempt %d yet; the latest is attempt %d.", sig.StepID,
			sig.ExpectedAttempt, latest)
	case step.Status != StepFailed:
		return reject(CodeStepNotFailed, "Step %q is %s; only a failed step can be retried.", sig.StepID,
			step.Status.Word())
	case step.RetryPending:
		return noop(CodeSuperseded, "A retry of attempt %d of step %q is already on its way.", latest, sig.StepID)
	case sig.Force && !step.Retryable:
		return accept("Step %q is retried (Retry #%d) although its error is marked as not retryable.",
			sig.StepID, latest)
	case sig.Force && latest >= v.MaxAttempts():
		return accept("Step %q is retried (Retry #%d) although the run allows only %d attempts.", sig.StepID, latest,
			v.MaxAttempts())
	case !step.Retryable:
		return reject(CodeRetryDenied, "Step %q failed with an error that is not retryable. Remove its cause, then retry "+
			"with force.", sig.StepID)
	case latest >= v.MaxAttempts():
		return reject(CodeRetryDenied, "Step %q has had %d attempts; the run allows %d. To exceed the limit, retry with force.",
			sig.StepID, latest, v.MaxAttempts())
	}
	// Retry #1 is attempt 2: every page and command shows the attempt by this name.
	return accept("Step %q runs again as Retry #%d.", sig.StepID, latest)
}

// judgeSkip permits the skip of a PENDING or FAILED step. A FAILED step is skipped by a new attempt, because the failed
// attempt has ended (contract T77).
func judgeSkip(v View, sig Signal) Decision {
	if v.Finalizing() {
		return finalizing("changed")
	}
	step, ok := v.FindStep(sig.StepID)
	switch {
	case !ok:
		return stepNotFound(sig.StepID)
	case step.Status == StepSkipped:
		return noop(CodeAlreadyInState, "Step %q is already skipped.", sig.StepID)
	case step.Status == StepRunning, step.Status == StepSuccess:
		return reject(CodeStepNotSkippable, "Step %q is %s; only a pending or failed step can be skipped.", sig.StepID,
			step.Status.Word())
	case step.RetryPending:
		return reject(CodeStepNotSkippable, "A retry of step %q is on its way; skip the step if the retry fails.", sig.StepID)
	}
	return accept("Step %q is skipped, and the steps that depend on it can run.", sig.StepID)
}

// judgeManual permits the completion of the attempt that waits for a person (contract T82, R179), also while the run is
// PAUSED (contract T47).
func judgeManual(v View, sig Signal) Decision {
	if v.Finalizing() {
		return finalizing("changed")
	}
	step, ok := v.FindStep(sig.StepID)
	latest := step.LogicalAttempt
	switch {
	case !ok:
		return stepNotFound(sig.StepID)
	case !step.WaitsForPerson:
		return reject(CodeManualNotWaiting, "Step %q is %s and does not wait for a person.", sig.StepID,
			step.Status.Word())
	case sig.ExpectedAttempt != 0 && sig.ExpectedAttempt != latest:
		return reject(CodeManualNotWaiting, "Attempt %d of step %q does not wait for a person; attempt %d does.",
			sig.ExpectedAttempt, sig.StepID, latest)
	}
	switch sig.Outcome {
	case ManualSucceeded:
		return accept("Step %q is done, and the steps that depend on it can run.", sig.StepID)
	case ManualFailed:
		return accept("Step %q fails; it can be retried.", sig.StepID)
	case ManualCancelled:
		return accept("Step %q is cancelled. That is a failure that can be retried only with force.", sig.StepID)
	}
	return reject(CodeBadInput, "%q is not an outcome; use %s, %s or %s.", sig.Outcome, ManualSucceeded, ManualFailed,
		ManualCancelled)
}

// judgeOverlay permits a change of parameters for the attempts that start later. It rejects a change of a step that
// succeeded or was skipped, because no attempt of it can start any more (contract T104, T197).
func judgeOverlay(v View, sig Signal, started bool) Decision {
	switch {
	case v.Finalizing():
		return finalizing("changed")
	case sig.StepID == "":
		return accept("Attempts that start from now on use the change.")
	case !started:
		return reject(CodeInvalidRunState, "The run has not started and its steps are not known yet. Leave the step out, "+
			"or try again when it is running.")
	}
	step, ok := v.FindStep(sig.StepID)
	switch {
	case !ok:
		return stepNotFound(sig.StepID)
	case step.Status == StepSuccess, step.Status == StepSkipped:
		return reject(CodeStepTerminal, "Step %q is %s and will not run again; the change would have no effect.", sig.StepID,
			step.Status.Word())
	}
	return accept("Attempts of step %q that start from now on use the change.", sig.StepID)
}

func accept(format string, args ...any) Decision {
	return Decision{Outcome: Accept, Message: fmt.Sprintf(format, args...)}
}

func noop(why Code, format string, args ...any) Decision {
	return Decision{Outcome: Noop, Code: why, Message: fmt.Sprintf(format, args...)}
}

func reject(code Code, format string, args ...any) Decision {
	return Decision{Outcome: Reject, Code: code, Message: fmt.Sprintf(format, args...)}
}

func finalizing(what string) Decision {
	return reject(CodeRunFinalizing, "The run is already ending and can no longer be %s. Wait for its end.", what)
}

func stepNotFound(stepID string) Decision {
	return reject(CodeStepNotFound, "The run has no step %q. Look at its list of steps.", stepID)
}

// RunStatus implements View.
func (h Header) RunStatus() Status {
	if h.Status == "" {
		return Pending
	}
	return h.Status
}

// Finalizing implements View.
func (h Header) Finalizing() bool { return h.Compensating }

// MaxAttempts implements View.
func (h Header) MaxAttempts() int {
	if h.Policy == nil || h.Policy.MaxLogicalAttemptsManual <= 0 {
		return DefaultMaxAttempts
	}
	return h.Policy.MaxLogicalAttemptsManual
}

// FindStep implements View. A State does not contain deferred retries, which are operational (contract T59, T172):
// RetryPending is false.
func (s State) FindStep(stepID string) (StepView, bool) {
	step, ok := s.Step(stepID)
	if !ok {
		return StepView{}, false
	}
	err := step.latest().Error
	return StepView{
		Status: step.Status, LogicalAttempt: step.LogicalAttempt, Retryable: err != nil && err.Retryable,
		WaitsForPerson: step.Substatus == WaitingManual,
	}, true
}
