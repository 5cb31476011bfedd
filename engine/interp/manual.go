package interp

import (
	"cmp"
	"slices"
	"time"

	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// manual holds the steps that wait for people. The machine records their waits itself: no worker executes them, they
// take no slot of the width, and neither a drain nor the retry window nor the end of a failed run waits for them
// (contract T47, T82).
type manual struct {
	opening int        // number of waits that the machine is writing to the log
	open    []run.Ord  // waits that are in the log, ascending
	due     []deadline // their deadlines, the earliest first
	firesAt time.Time  // the time to which TimerManual is set
}

type deadline struct {
	at  time.Time
	ord run.Ord
}

func (d deadline) compare(o deadline) int {
	return cmp.Or(d.at.Compare(o.at), cmp.Compare(d.ord, o.ord))
}

func (d deadline) before(o deadline) bool { return d.compare(o) < 0 }

func (m *Machine) isManual(o run.Ord) bool { return m.sk.Steps[o].Type == plan.Manual }

// openWait starts an attempt of a ready MANUAL step: it queues its StepStarted and StepAwaitingManualCompletion.
func (m *Machine) openWait(o run.Ord) {
	st := &m.steps[o]
	st.stage, st.waitEnds, st.gateOpenings = opening, time.Time{}, m.schedule.gateOpenings
	m.manual.opening++
	now := latest(m.now, m.latest)
	wait := run.AwaitingPayload{Since: now}
	if d := m.sk.Steps[o].WaitTimeout; d > 0 {
		st.waitEnds = now.Add(d).Truncate(time.Millisecond)
		wait.Deadline = &st.waitEnds
	}
	started, _ := encode(run.StepStartedPayload{SignalID: st.signalID})
	awaiting, _ := encode(wait)
	e := entry{kind: waits, ord: o, unless: run.GatePaused | run.GateFailing | run.GateStopped, drafts: []run.Draft{
		m.stepEvent(o, run.StepStartedEvent, m.cfg.EngineAttempt, now, started),
		m.stepEvent(o, run.StepAwaitingManualCompletion, m.cfg.EngineAttempt, now, awaiting),
	}}
	if m.isPrioritised(o) {
		e.unless &^= run.GateFailing
	}
	if st.signalID != "" {
		e.outcomes = []store.SignalOutcome{{SignalID: st.signalID, Application: run.SignalApplied, AppliedBy: 0}}
	}
	m.enqueue(e)
}

// applyWait applies the start or end of a wait in the log. Usually this machine wrote it. Otherwise a lost try of the
// workflow task did.
func (m *Machine) applyWait(o run.Ord, e *engine.LogEvent) {
	st := &m.steps[o]
	switch {
	case e.Type == run.StepStartedEvent:
		st.waitAttempt, st.waitSince, st.waitEnd = e.LogicalAttempt, e.At, nil
		if e.LogicalAttempt == st.attempt && (st.stage == ready || st.stage == waiting) {
			m.resumeWait(o)
		}
	case !e.Type.EndsAttempt():
	case e.LogicalAttempt == st.attempt && st.stage == open:
		m.closeWait(o)
		m.applyEnd(o, e)
	case e.LogicalAttempt == st.waitAttempt:
		end := *e
		st.waitEnd = &end
	}
}

// resumeWait adopts a wait that a lost try of the workflow task has started in the log. It reports whether there is
// one.
func (m *Machine) resumeWait(o run.Ord) bool {
	st := &m.steps[o]
	if st.waitAttempt != st.attempt || st.missing > 0 {
		return false
	}
	st.waitEnds = time.Time{}
	if d := m.sk.Steps[o].WaitTimeout; d > 0 {
		st.waitEnds = st.waitSince.Add(d).Truncate(time.Millisecond)
	}
	m.keepOpen(o)
	if end := st.waitEnd; end != nil {
		m.closeWait(o)
		m.applyEnd(o, end)
	}
	return true
}

// withdrawWaits removes the waits from the queue whose gate was closed meanwhile. They start after it opens (contract
// T185).
func (m *Machine) withdrawWaits() {
	if m.manual.opening == 0 {
		return
	}
	m.record.queue = slices.DeleteFunc(m.record.queue, func(e entry) bool {
		if e.kind != waits || !m.isGateClosed(e.ord) {
			return false
		}
		m.manual.opening--
		m.makeReady(e.ord)
		return true
	})
}

// applyRecordedWait applies a wait that is in the log now.
func (m *Machine) applyRecordedWait(o run.Ord) {
	m.manual.opening--
	m.keepOpen(o)
}

// keepOpen adds a wait that is in the log to the open waits.
func (m *Machine) keepOpen(o run.Ord) {
	w, st := &m.manual, &m.steps[o]
	st.stage, st.status = open, run.StepPending
	i, _ := slices.BinarySearch(w.open, o)
	w.open = slices.Insert(w.open, i, o)
	if !st.waitEnds.IsZero() {
		d := deadline{st.waitEnds, o}
		i, _ := slices.BinarySearchFunc(w.due, d, deadline.compare)
		w.due = slices.Insert(w.due, i, d)
	}
}

// closeWait removes a step from the open waits.
func (m *Machine) closeWait(o run.Ord) {
	w, st := &m.manual, &m.steps[o]
	st.stage = ended
	if i, ok := slices.BinarySearch(w.open, o); ok {
		w.open = slices.Delete(w.open, i, i+1)
	}
	if i, ok := slices.BinarySearchFunc(w.due, deadline{st.waitEnds, o}, deadline.compare); ok {
		w.due = slices.Delete(w.due, i, i+1)
	}
}

// armManual sets the timer to the earliest deadline.
func (m *Machine) armManual() {
	var at time.Time
	if len(m.manual.due) > 0 {
		at = m.manual.due[0].at
	}
	if !at.Equal(m.manual.firesAt) {
		m.manual.firesAt = at
		m.setTimer(TimerManual, at)
	}
}

// handleManualTimer ends the waits whose deadline has passed (contract T83).
func (m *Machine) handleManualTimer() {
	w := &m.manual
	if w.firesAt.IsZero() {
		return
	}
	w.firesAt = time.Time{} // armManual sets it again if further waits have a deadline
	for len(w.due) > 0 && !m.now.Before(w.due[0].at) {
		o := w.due[0].ord
		m.failWait(o, run.FailurePayload{
			ErrorCode: string(run.CodeTimeout), ErrorMessage: "Nobody completed the step within " +
				plan.DurationWords(m.sk.Steps[o].WaitTimeout) + ".",
			Retryable: true, FailureCategory: run.CategoryTimeout, FailureSource: "engine",
		}, nil)
	}
}

// completeManual applies a COMPLETE_MANUAL_STEP that was judged.
func (m *Machine) completeManual(s engine.Signal) {
	o, ok := m.ords[s.StepID]
	if !ok {
		return
	}
	applied := []store.SignalOutcome{{SignalID: s.ID, Application: run.SignalApplied, AppliedBy: 0}}
	by := &run.ManualEnd{SignalID: s.ID, Outcome: s.Outcome}
	switch s.Outcome {
	case run.ManualSucceeded:
		payload, _ := encode(run.StepCompletedPayload{Manual: by})
		e := m.endWait(o)
		e.drafts = []run.Draft{m.stepEvent(o, run.StepCompletedEvent, m.cfg.EngineAttempt, m.now, payload)}
		e.outcomes = applied
		m.enqueue(e)
	case run.ManualFailed:
		m.failWait(o, run.FailurePayload{
			ErrorCode: string(run.CodeManualFailed), ErrorMessage: "A person said that the step failed.",
			Retryable: true, FailureCategory: run.CategoryUser, Manual: by,
		}, applied)
	case run.ManualCancelled:
		m.failWait(o, run.FailurePayload{
			ErrorCode: string(run.CodeCancelled), ErrorMessage: "A person cancelled the step.",
			FailureCategory: run.CategoryUser, Manual: by,
		}, applied)
	}
}

// cancelWaits ends every open wait because the run ends (contract T74, T79).
func (m *Machine) cancelWaits(why run.FailurePayload) {
	for len(m.manual.open) > 0 {
		m.failWait(m.manual.open[0], why, nil)
	}
}

// failWait ends an open wait as a failure.
func (m *Machine) failWait(o run.Ord, f run.FailurePayload, outcomes []store.SignalOutcome) {
	e := m.endWait(o)
	m.setFailure(&e, f)
	e.outcomes = outcomes
	m.failure.arming++
	m.enqueue(e)
}

// endWait closes an open wait and returns the entry for its end.
func (m *Machine) endWait(o run.Ord) entry {
	m.closeWait(o)
	return entry{kind: stepEnds, ord: o, end: &end{engineAttempt: m.cfg.EngineAttempt, prioritised: m.isPrioritised(o)}}
}
