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
		return reject(CodeRunTerminal, "The run is %s; that is final. Start a new run instead.", status)
	}
	started := status == Running || status == Paused
	switch sig.Type {
	case Pause, Resume, RetryStep, SkipStep, CompleteManual:
		if !started {
			return reject(CodeInvalidRunState, "The run is %s and has not started. Try again once it is RUNNING, or cancel it.",
				status)
		}
	}
	switch sig.Type {
	case Pause:
		return judgePause(v)
	case Resume:
		if status == Running {
			return noop(CodeAlreadyInState, "The run is RUNNING already.")
		}
		return accept("The run goes on once nothing is in flight.")
	case RetryStep:
		return judgeRetry(v, sig)
	case SkipStep:
		return judgeSkip(v, sig)
	case Cancel:
		if v.Finalizing() {
			return finalizing("cancelled")
		}
		return accept("The run ends as CANCELLED. This cannot be undone.")
	case EmergencyStop:
		return accept("The run stops at once and ends as CANCELLED. This cannot be undone.")
	case UpdateParams, InjectOverride, UpdateTarget:
		return judgeOverlay(v, sig, started)
	case EscalateAlert:
		return accept("An alert is raised; the run itself goes on as it is.")
	case CompleteManual:
		return judgeManual(v, sig)
	}
	return reject(CodeNotSupported, "%q is not a signal that this version knows.", sig.Type)
}

func judgePause(v View) Decision {
	switch {
	case v.RunStatus() == Paused:
		return noop(CodeAlreadyInState, "The run is PAUSED already.")
	case v.Finalizing():
		return noop(CodeRunFinalizing, "The run is ending and starts no more steps; there is nothing to pause.") // T91
	}
	return accept("No further step starts; what is in flight finishes first.")
}

// judgeRetry follows T54 to T58 and T217.
func judgeRetry(v View, sig Signal) Decision {
	if v.Finalizing() {
		return finalizing("changed")
	}
	step, ok := v.FindStep(sig.StepID)
	la := step.LogicalAttempt
	switch {
	case !ok:
		return stepNotFound(sig.StepID)
	case sig.ExpectedAttempt != 0 && sig.ExpectedAttempt < la:
		return noop(CodeSuperseded, "Attempt %d of step %q was retried already; the latest is attempt %d.",
			sig.ExpectedAttempt, sig.StepID, la)
	case sig.ExpectedAttempt > la:
		return reject(CodeStepNotFailed, "Step %q has no attempt %d yet; the latest is attempt %d.", sig.StepID,
			sig.ExpectedAttempt, la)
	case step.Status != StepFailed:
		return reject(CodeStepNotFailed, "Step %q is %s; only a FAILED step can be retried.", sig.StepID, step.Status)
	case step.RetryPending:
		return noop(CodeSuperseded, "A retry of attempt %d of step %q is on its way already.", la, sig.StepID)
	case sig.Force:
		return accept("Step %q runs again as attempt %d, by force.", sig.StepID, la+1)
	case !step.Retryable:
		return reject(CodeRetryDenied, "Step %q failed with an error that a retry does not cure. Remove its cause, then "+
			"retry with force.", sig.StepID)
	case la >= v.MaxAttempts():
		return reject(CodeRetryDenied, "Step %q has had %d attempts; the run allows %d. Retry with force if you must.",
			sig.StepID, la, v.MaxAttempts())
	}
	return accept("Step %q runs again as attempt %d.", sig.StepID, la+1)
}

// judgeSkip follows T77: a FAILED step is skipped by a new attempt.
func judgeSkip(v View, sig Signal) Decision {
	if v.Finalizing() {
		return finalizing("changed")
	}
	step, ok := v.FindStep(sig.StepID)
	switch {
	case !ok:
		return stepNotFound(sig.StepID)
	case step.Status == StepSkipped:
		return noop(CodeAlreadyInState, "Step %q is SKIPPED already.", sig.StepID)
	case step.Status == StepRunning, step.Status == StepSuccess:
		return reject(CodeStepNotSkippable, "Step %q is %s; only a PENDING or FAILED step can be skipped.", sig.StepID,
			step.Status)
	case step.RetryPending:
		return reject(CodeStepNotSkippable, "A retry of step %q is on its way; skip the step if the retry fails.", sig.StepID)
	}
	return accept("Step %q is skipped and what depends on it goes on.", sig.StepID)
}

// judgeManual follows T82 and R179: a completion is for the attempt that waits,
// also while the run is PAUSED (contract T47).
func judgeManual(v View, sig Signal) Decision {
	if v.Finalizing() {
		return finalizing("changed")
	}
	step, ok := v.FindStep(sig.StepID)
	la := step.LogicalAttempt
	switch {
	case !ok:
		return stepNotFound(sig.StepID)
	case !step.WaitsForPerson:
		return reject(CodeManualNotWaiting, "Step %q is %s and does not wait for a person.", sig.StepID, step.Status)
	case sig.ExpectedAttempt != 0 && sig.ExpectedAttempt != la:
		return reject(CodeManualNotWaiting, "Attempt %d of step %q does not wait for a person; attempt %d does.",
			sig.ExpectedAttempt, sig.StepID, la)
	}
	switch sig.Outcome {
	case ManualSucceeded:
		return accept("Step %q is done and what depends on it goes on.", sig.StepID)
	case ManualFailed:
		return accept("Step %q fails; it can be retried.", sig.StepID)
	case ManualCancelled:
		return accept("Step %q is cancelled, which is a failure that only force retries.", sig.StepID)
	}
	return reject(CodeBadInput, "%q is no outcome; use %s, %s or %s.", sig.Outcome, ManualSucceeded, ManualFailed,
		ManualCancelled)
}

// judgeOverlay follows contract T104 and T197: an overlay affects attempts that start later, so that a step that has
// finally ended cannot get one.
func judgeOverlay(v View, sig Signal, started bool) Decision {
	switch {
	case v.Finalizing():
		return finalizing("changed")
	case sig.StepID == "":
		return accept("Attempts that begin from now on see the change.")
	case !started:
		return reject(CodeInvalidRunState, "The run has not started and its steps are not known yet. Leave the step out, "+
			"or try again once it is RUNNING.")
	}
	step, ok := v.FindStep(sig.StepID)
	switch {
	case !ok:
		return stepNotFound(sig.StepID)
	case step.Status == StepSuccess, step.Status == StepSkipped:
		return reject(CodeStepTerminal, "Step %q is %s and will not run again; the change would have no effect.", sig.StepID,
			step.Status)
	}
	return accept("Attempts of step %q that begin from now on see the change.", sig.StepID)
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
	return reject(CodeRunFinalizing, "The run is ending already and can no longer be %s. Wait for its end.", what)
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
