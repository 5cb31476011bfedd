package interp

import (
	"slices"
	"time"

	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
)

// failure is fail-fast: from the StepFailed that armed it until no step is
// FAILED without a retry (T74, T217).
type failure struct {
	count    int // steps FAILED and not retried
	arming   int // failures on their way into the log
	era      int // counts the times that fail-fast was lifted, from 1
	windowAt time.Time
	expired  bool      // the window at windowAt is over
	final    bool      // the run fails, nothing changes that: it ends waits, undoes and closes
	toStop   []run.Ord // executions to ask to stop, after the Append that says why
}

// failFast reports whether only favoured steps may start.
func (m *Machine) failFast() bool {
	return m.failure.count+m.failure.arming > 0 || m.record.gate&run.GateFailing != 0
}

// favours reports whether a step passes fail-fast: one that was retried by hand,
// and what such a step alone blocked (T217).
func (m *Machine) favours(o run.Ord) bool {
	return m.steps[o].signalID != "" || m.steps[o].era == m.failure.era
}

// failed counts a failure that is in the log and arms fail-fast.
func (m *Machine) failed(o run.Ord) {
	m.steps[o].failing = true
	m.failure.count++
	if m.who.Policy.CancelRunning && m.stop.signalID == "" {
		for _, f := range m.schedule.flying {
			if st := &m.steps[f]; m.sk.Steps[f].Cancellable && st.asked == nobody {
				st.asked = byFailure
				m.failure.toStop = append(m.failure.toStop, f)
			}
		}
		m.cancelDelayed(byFailure, func(s *plan.SkeletonStep) bool { return s.Cancellable })
	}
}

// unfail takes a step that is retried or skipped out of what arms fail-fast.
func (m *Machine) unfail(o run.Ord) {
	if st := &m.steps[o]; st.failing {
		st.failing = false
		m.failure.count--
	}
	m.closeWindow()
}

// askToStop comes after flush, so that the log says why first.
func (m *Machine) askToStop() {
	if ords := m.failure.toStop; len(ords) > 0 {
		m.failure.toStop = nil
		slices.Sort(ords)
		m.emit(CancelSteps{Ords: slices.Compact(ords)})
	}
}

// settleFailure ends a run that failed, when nothing runs any more and its retry
// window is over (O2, T74).
func (m *Machine) settleFailure() {
	if m.record.gate&run.GateFailing == 0 || m.record.running > 0 || m.retrying() {
		return
	}
	switch {
	case m.failure.final:
		m.fail()
	case m.window() <= 0, m.failure.expired:
		if m.closeGate() {
			m.fail()
		}
	case m.failure.windowAt.IsZero(): // the store had no event to open it on
		m.openWindow(m.now.Add(m.window()))
	}
}

// closeGate closes the gate to failing once more before the run fails, and reports whether the log has just done so.
// A try of this machine that the engine lost may have opened it for a retry that this try has not heard of: an attempt
// could begin while the end is being written.
func (m *Machine) closeGate() bool {
	if m.record.shut {
		return true
	}
	m.enqueue(entry{kind: shuts, set: run.GateFailing})
	return false
}

// retrying reports whether a step that passes fail-fast may still begin.
func (m *Machine) retrying() bool {
	return m.favouredReady() || m.favouredDelayed() || slices.ContainsFunc(m.schedule.flying,
		func(o run.Ord) bool { return m.steps[o].passes })
}

func (m *Machine) window() time.Duration {
	return time.Duration(m.who.Policy.RetryWindowMS) * time.Millisecond
}

// mayOpenWindow reports whether a batch may open the retry window, should
// nothing run after it (T221). The store decides.
func (m *Machine) mayOpenWindow(batch []entry) bool {
	if m.window() <= 0 || m.pause.on && !m.pause.resuming || !m.failure.windowAt.IsZero() || m.retrying() {
		return false
	}
	completed := 0
	for i := range batch {
		if e := &batch[i]; e.kind == stepEnds && e.end.favoured && !e.end.arms {
			completed++
		}
	}
	for i := range batch {
		e := &batch[i]
		if e.kind != stepEnds || !e.end.favoured || e.end.arms {
			continue
		}
		for _, n := range m.next[e.ord] { // what it unlocks passes too
			if st := &m.steps[n]; st.stage == waiting && st.missing <= completed {
				return false
			}
		}
	}
	return true
}

func (m *Machine) windowOpened(at time.Time) {
	if m.failure.count > 0 && !m.pause.on && m.stop.signalID == "" && m.failure.windowAt.IsZero() && !m.retrying() {
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

func (m *Machine) windowFired() {
	switch at := m.failure.windowAt; {
	case at.IsZero():
	case m.now.Before(at): // that of a window closed since
		m.setTimer(TimerRetryWindow, at)
	default:
		m.failure.expired = true
	}
}

// fail ends a run that failed: first the waits for people, which are no longer
// needed (T74), then what its steps did is undone (T88), then the run itself.
func (m *Machine) fail() {
	m.failure.final = true
	switch {
	case len(m.manual.open) > 0:
		m.cancelWaits(run.FailurePayload{ErrorCode: string(run.CodeCancelled), Retryable: true,
			FailureCategory: run.CategorySystem})
	case m.compensated():
		m.closeFailed()
	}
}

// closeFailed skips what never started and ends the run as FAILED (T79, T214).
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
		StepID: m.sk.Steps[cause].StepID, LogicalAttempt: st.la,
		ErrorCode: st.failed.ErrorCode, ErrorMessage: st.failed.ErrorMessage,
	}
	if st.stage != settled {
		root.LogicalAttempt-- // la waits to start
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
	return m.stepEvent(o, run.StepSkippedEvent, m.who.EngineAttempt, m.now, payload)
}
