package interp

import (
	"fmt"
	"slices"

	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
)

// maxVanished is the number of times that the dispatch of a RUNNING attempt or of a hook may return without an end and
// a reason. At the next one it fails with ENGINE_ERROR. The bound limits the cost of an engine's forged answers.
const maxVanished = 10

// takeReturn handles the return of the current dispatch of a step and ignores any other. Only the observed log decides
// whether the attempt started, because the machine does not trust the engine about it.
func (m *Machine) takeReturn(got engine.Return) {
	o, known := m.ords[got.StepID]
	if !known {
		return
	}
	st := &m.steps[o]
	if st.stage != dispatched || got.LogicalAttempt != st.attempt || got.N != st.n {
		return
	}
	m.removeInFlight(o)
	switch {
	case m.record.closing: // the machine is writing the end of the run, and this attempt never started
		st.stage = waiting
	case got.Kind == engine.ReturnParked && !st.begun:
		m.park(o)
	case st.stopRequested != notStopped && st.begun: // for any kind, because no worker executes the attempt any more
		m.endCancelled(o, got)
	case got.Kind == engine.ReturnThrottled, got.Kind == engine.ReturnDeclined:
		if st.begun {
			st.spendBefore(got, m.sk.Steps[o].Retry)
		}
		m.delay(o, got.RetryAfter, got.Kind == engine.ReturnThrottled)
	case st.stopRequested != notStopped:
		m.endCancelled(o, got)
	case got.Kind == engine.ReturnLost:
		m.takeLost(o, got)
	default:
		m.redispatch(o, got)
	}
}

// endCancelled ends an attempt that was asked to stop, with the error of its stopCause. An attempt that never started
// becomes ready again (contract T79, T185).
func (m *Machine) endCancelled(o run.Ord, got engine.Return) {
	st := &m.steps[o]
	if !st.begun {
		m.makeReady(o)
		return
	}
	f := run.FailurePayload{ErrorCode: string(run.CodeCancelled), Retryable: true, FailureCategory: run.CategorySystem}
	switch st.stopRequested {
	case stoppedByPause:
		f.ErrorCode = string(run.CodeCancelledByPause)
	case stoppedByStop:
		f.Retryable, f.FailureCategory = false, run.CategoryUser
	}
	m.endAttempt(o, got, f)
}

// takeLost handles an execution whose worker stopped answering. An attempt that had not started becomes ready again.
// One that had started has spent an engine attempt, and is dispatched again if the plan retries timeouts (contract T66,
// T216).
func (m *Machine) takeLost(o run.Ord, got engine.Return) {
	st := &m.steps[o]
	if !st.begun {
		m.makeReady(o)
		return
	}
	retry := m.sk.Steps[o].Retry
	st.spend(got, retry)
	if st.spent < retry.MaxAttempts && (len(retry.RetryableErrors) == 0 || slices.Contains(retry.RetryableErrors,
		plan.ClassTimeout)) {
		m.launch(o)
		return
	}
	m.endAttempt(o, got, run.FailurePayload{
		ErrorCode: string(run.CodeTimeout), Retryable: true, FailureCategory: run.CategoryTimeout, FailureSource: "engine",
		ErrorMessage: lostMessage("step", got),
	})
}

// lostMessage returns the message for people about a step or hook whose worker was lost. It does not say that the
// worker was executing the work: a worker without processor time can record the start after the engine gave up on it.
func lostMessage(what string, got engine.Return) string {
	if got.Overran {
		return fmt.Sprintf("the worker reported no end of this %s within its timeout, although it sent heartbeats", what)
	}
	return fmt.Sprintf("the engine received no heartbeat from the worker of this %s for too long: the worker ended, lost "+
		"its connection or was overloaded", what)
}

// redispatch handles a dispatch that returned without an end in the log: its worker stopped or was refused, or somebody
// forged an answer of the engine. The attempt is dispatched again after a delay that grows each time, because a short
// outage must not use up a RUNNING attempt, and a lasting refusal must cost little.
func (m *Machine) redispatch(o run.Ord, got engine.Return) {
	st := &m.steps[o]
	st.vanished++
	if st.begun {
		st.spend(got, m.sk.Steps[o].Retry)
	}
	if !st.begun || st.vanished <= maxVanished {
		m.delay(o, backoff(st.vanished), false)
		return
	}
	m.endAttempt(o, got, run.FailurePayload{
		ErrorCode: "ENGINE_ERROR", Retryable: true, FailureCategory: run.CategoryPlatform, FailureSource: "engine",
		ErrorMessage: vanishedMessage("step", st.vanished, m.sk.Steps[o].TaskQueue, "retry the step"),
	})
}

// vanishedMessage returns the message for people about a step or hook that failed because its dispatches returned
// without an end.
func vanishedMessage(what string, dispatches int, queue, remedy string) string {
	return fmt.Sprintf(
		"%d dispatches of this %s to the queue %s returned without an end in the log and without a reason. "+
			"Either their workers were stopped or refused, or somebody forged answers of the engine. "+
			"Check the workers of that queue and the audit of the run, then %s.", dispatches, what, queue, remedy)
}

// spend counts the engine attempts that a dispatch used, so that the next dispatch continues after them. It bounds the
// number that the engine reports by the number that the dispatch was allowed.
func (st *step) spend(got engine.Return, r plan.Retry) {
	limit := max(1, r.MaxAttempts-st.spent)
	used := got.EngineAttempt - st.spent
	switch {
	case got.EngineAttempt == 0:
		used = 1
	case used < 1 || used > limit:
		used = limit
	}
	st.spent += used
}

// spendBefore counts the engine attempts before the one that a worker declined. The engine retries a failed execution
// within its dispatch, and another worker may decline that try.
func (st *step) spendBefore(got engine.Return, r plan.Retry) {
	limit := max(1, r.MaxAttempts-st.spent) - 1 // leave one for the next dispatch
	st.spent += min(max(0, got.EngineAttempt-1-st.spent), limit)
}

// endAttempt queues the failure of an attempt that is RUNNING in the log and that no worker will end.
func (m *Machine) endAttempt(o run.Ord, got engine.Return, f run.FailurePayload) {
	st := &m.steps[o]
	st.stage = ended
	e := entry{kind: stepEnds, ord: o, end: &end{
		engineAttempt: max(1, got.EngineAttempt, st.spent), prioritised: m.isPrioritised(o),
		interrupted: f.ErrorCode == string(run.CodeCancelledByPause),
	}}
	m.setFailure(&e, f)
	e.end.armsFailFast = !e.end.interrupted
	if e.end.armsFailFast {
		m.failure.arming++
	}
	m.enqueue(e)
}

// park takes back a step that met a closed gate. If the machine knows no reason for the closed gate, a signal that it
// has not read has closed it. The machine then reads the signals before it dispatches the step again.
func (m *Machine) park(o run.Ord) {
	if m.isGateClosed(o) || m.steps[o].gateOpenings != m.schedule.gateOpenings {
		m.makeReady(o)
		return
	}
	m.steps[o].stage = waiting
	m.signals.inconsistent = append(m.signals.inconsistent, o)
	m.signals.lookUp = true
}

// isGateClosed reports whether the gate is closed for the step, as far as the machine knows.
func (m *Machine) isGateClosed(o run.Ord) bool {
	return m.pause.on || m.pause.unexplained || m.Finalizing() || m.isFailFast() && !m.isPrioritised(o)
}
