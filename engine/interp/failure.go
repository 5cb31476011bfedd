package interp

import (
	"slices"
	"time"

	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
)

// failure is the state of fail-fast. It is armed from a StepFailed until no step is FAILED without a retry (contract
// T74, T217).
type failure struct {
	count      int // steps that are FAILED and not retried
	arming     int // failures that the machine is writing to the log
	generation int // 1 plus the number of times that fail-fast was lifted
	windowAt   time.Time
	expired    bool      // the window at windowAt has expired
	final      bool      // the failure is final: the run ends its waits, compensates and closes
	toStop     []run.Ord // executions to stop, after the Append with the reason
}

// isFailFast reports whether only prioritised steps may start.
func (m *Machine) isFailFast() bool {
	return m.failure.count+m.failure.arming > 0 || m.record.gate&run.GateFailing != 0
}

// isPrioritised reports whether a step passes fail-fast: it was retried manually, or only such a step blocked it
// (contract T217).
func (m *Machine) isPrioritised(o run.Ord) bool {
	st := &m.steps[o]
	return st.signalID != "" || st.retried || st.awaitsSignal() || st.generation == m.failure.generation
}

// recordFailure counts a failure that is in the log, which arms fail-fast. If the policy says so, it cancels the other
// executions.
func (m *Machine) recordFailure(o run.Ord) {
	m.steps[o].failing = true
	m.failure.count++
	if m.cfg.Policy.CancelRunning && m.stop.signalID == "" {
		for _, f := range m.schedule.inFlight {
			if st := &m.steps[f]; m.sk.Steps[f].Cancellable && st.stopRequested == notStopped {
				st.stopRequested = stoppedByFailure
				m.failure.toStop = append(m.failure.toStop, f)
			}
		}
		m.cancelDelayed(stoppedByFailure, func(s *plan.SkeletonStep) bool { return s.Cancellable })
	}
}

// unfail stops a step from arming fail-fast, because it is retried or skipped.
func (m *Machine) unfail(o run.Ord) {
	if st := &m.steps[o]; st.failing {
		st.failing = false
		m.failure.count--
	}
	m.closeWindow()
}

// requestStops asks the executions in toStop to stop. It runs after flush, so that the machine writes the reason first.
func (m *Machine) requestStops() {
	if ords := m.failure.toStop; len(ords) > 0 {
		m.failure.toStop = nil
		slices.Sort(ords)
		m.emit(CancelSteps{Ords: slices.Compact(ords)})
	}
}

// settleFailure ends a run with a FAILED step when no attempt is RUNNING any more, none may still be retried, and the
// retry window has expired (contract O2, T74).
func (m *Machine) settleFailure() {
	if m.record.gate&run.GateFailing == 0 || m.record.running > 0 || m.isRetrying() {
		return
	}
	switch {
	case m.failure.final:
		m.fail()
	case m.window() <= 0, m.failure.expired:
		if m.closeGate() {
			m.fail()
		}
	case m.failure.windowAt.IsZero(): // the store had no event on which to open it
		m.openWindow(m.now.Add(m.window()))
	}
}

// closeGate sets GateFailing once more before the run fails, and reports whether the log has done so in this input. A
// lost try of the workflow task may have opened the gate for a retry that this try does not know. If the gate were
// open, an attempt could start while the machine writes the end.
func (m *Machine) closeGate() bool {
	if m.record.gateClosed {
		return true
	}
	m.enqueue(entry{kind: closesGate, set: run.GateFailing})
	return false
}

// isRetrying reports whether a step that passes fail-fast may still start.
func (m *Machine) isRetrying() bool {
	return m.hasPrioritisedReady() || m.hasPrioritisedDelayed() || slices.ContainsFunc(m.schedule.inFlight,
		func(o run.Ord) bool { return m.steps[o].passes })
}

func (m *Machine) window() time.Duration {
	return time.Duration(m.cfg.Policy.RetryWindowMS) * time.Millisecond
}

// mayOpenWindow reports whether a batch may open the retry window if no attempt is RUNNING after it (contract T221).
// The store decides whether one is.
func (m *Machine) mayOpenWindow(batch []entry) bool {
	if m.window() <= 0 || m.pause.on && !m.pause.resuming || !m.failure.windowAt.IsZero() || m.isRetrying() {
		return false
	}
	completed := 0
	for i := range batch {
		if e := &batch[i]; e.kind == stepEnds && e.end.prioritised && !e.end.armsFailFast {
			completed++
		}
	}
	for i := range batch {
		e := &batch[i]
		if e.kind != stepEnds || !e.end.prioritised || e.end.armsFailFast {
			continue
		}
		for _, n := range m.next[e.ord] { // a dependent passes too and may start
			if st := &m.steps[n]; st.stage == waiting && st.missing <= completed {
				return false
			}
		}
	}
	return true
}

func (m *Machine) adoptWindow(at time.Time) {
	if m.failure.count > 0 && !m.pause.on && m.stop.signalID == "" && m.failure.windowAt.IsZero() && !m.isRetrying() {
		m.openWindow(at)
	}
}

func (m *Machine) openWindow(at time.Time) {
	m.failure.windowAt, m.failure.expired = at, false
	m.setTimer(TimerRetryWindow, at)
}

func (m *Machine) closeWindow() {
	if !m.failure.windowAt.IsZero() {
		m.failure.windowAt, m.failure.expired = time.Time{}, false
		m.setTimer(TimerRetryWindow, time.Time{})
	}
}

func (m *Machine) handleWindowTimer() {
	switch at := m.failure.windowAt; {
	case at.IsZero():
	case m.now.Before(at): // the timer of an earlier window
		m.setTimer(TimerRetryWindow, at)
	default:
		m.failure.expired = true
	}
}

// fail ends a failed run: it first ends the waits for people, which are no longer needed (contract T74), then
// compensates (contract T88), then closes the run.
func (m *Machine) fail() {
	m.failure.final = true
	switch {
	case len(m.manual.open) > 0:
		m.cancelWaits(run.FailurePayload{ErrorCode: string(run.CodeCancelled), Retryable: true,
			FailureCategory: run.CategorySystem})
	case m.compensateOrDone():
		m.closeFailed()
	}
}

// closeFailed skips the steps that never started and ends the run as FAILED (contract T79, T214).
func (m *Machine) closeFailed() {
	blocked := make([]bool, len(m.steps))
	var todo []run.Ord
	cause := run.NoStep
	for i := range m.steps {
		st := &m.steps[i]
		if st.status != run.StepFailed {
			continue
		}
		todo = append(todo, run.Ord(i))
		if cause == run.NoStep || st.failedSeq < m.steps[cause].failedSeq {
			cause = run.Ord(i)
		}
	}
	for len(todo) > 0 {
		o := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		for _, n := range m.next[o] {
			if m.steps[n].status == run.StepPending && !blocked[n] {
				blocked[n] = true
				todo = append(todo, n)
			}
		}
	}
	for i := range m.steps {
		if m.steps[i].status != run.StepPending {
			continue
		}
		reason := run.FailFast
		if blocked[i] {
			reason = run.DependencyFailed
		}
		m.enqueue(entry{kind: notes, drafts: []run.Draft{
			m.skipEvent(run.Ord(i), run.StepSkippedPayload{ReasonCode: reason})}})
	}
	st := &m.steps[cause]
	root := run.RootCause{
		StepID: m.sk.Steps[cause].StepID, LogicalAttempt: st.attempt,
		ErrorCode: st.failed.ErrorCode, ErrorMessage: st.failed.ErrorMessage,
	}
	if st.stage != settled {
		root.LogicalAttempt-- // the next attempt has not started
	}
	hooks, omitted := m.compensation.summary()
	m.closeWith(run.Failed, entry{drafts: m.runEvent(run.RunFailed, 1, run.RunFailedPayload{
		FailurePayload: run.FailurePayload{
			ErrorCode: root.ErrorCode, ErrorMessage: root.ErrorMessage, Retryable: st.failed.Retryable,
			FailureCategory: st.failed.FailureCategory, FailureSource: st.failed.FailureSource,
		},
		RootCause: &root, Compensation: hooks, CompensationOmitted: omitted,
	})})
}

func (m *Machine) skipEvent(o run.Ord, p run.StepSkippedPayload) run.Draft {
	payload, _ := encode(p)
	return m.stepEvent(o, run.StepSkippedEvent, m.cfg.EngineAttempt, m.now, payload)
}
