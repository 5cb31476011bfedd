package interp

import (
	"math"
	"time"

	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
)

// Inbox has the facts about the signals of a run that its log does not contain. The zero value means that no signal is
// pending and no signal paused the run.
type Inbox struct {
	// Pending are the accepted signals without a final outcome, in order.
	Pending []engine.Signal
	// PauseNo is the number of the signal that paused the run, 0 if the run is not paused.
	PauseNo int64
}

// Restore returns a machine with the state of a run whose log folds to s, as if it had written that log itself. RUNNING
// attempts are in flight, and ready steps are dispatched. Then the machine takes the pending signals in order: those
// that are not applied yet and those that wait for a resume. For a run that has not started or has ended, it only sets
// the status.
//
// Use it only for previews. It guesses facts that a log does not contain: the number of dispatches of an attempt, and
// the reason why an execution was asked to stop.
func Restore(sk plan.Skeleton, cfg Config, s run.State, in Inbox, at time.Time) *Machine {
	cfg.RotateAfter = 0
	m := New(sk, cfg)
	m.now, m.status = at, s.RunStatus()
	if m.status == run.Paused {
		m.status = run.Running
	}
	if m.status != run.Running {
		return m
	}
	m.begun = true
	m.record.running = s.RunningSteps()
	m.record.seen, m.record.head, m.record.signalNo = s.Seq, s.Seq, math.MaxInt64
	m.pause.epoch, m.pause.on = s.PausedEpoch, s.Status == run.Paused
	m.pause.recorded = m.pause.on
	if s.RetryDeadline != nil {
		m.failure.windowAt = *s.RetryDeadline
	}
	r := restoring{m: m, pause: s.Pause, steps: make([]*run.Step, len(m.steps))}
	for _, step := range s.Steps {
		if o, ok := m.ords[step.StepID]; ok {
			r.steps[o] = step
		}
	}
	r.restore(s.Compensating)
	pending := r.applyRetries(in)
	m.simulate(nil)
	for i := range pending {
		m.simulate(&pending[i])
	}
	return m
}

// restoring builds a machine from the steps of a State.
type restoring struct {
	m          *Machine
	pause      *run.PauseInfo
	steps      []*run.Step // by ordinal; nil if the log does not have the step
	armedSince run.Seq     // position of the failure since which fail-fast is armed without a break; 0 if it is not
	last       run.Seq     // position of the newest failure that arms fail-fast
}

func (r *restoring) restore(compensating bool) {
	r.armedSince, r.last = run.FailFastSince(r.steps)
	m := r.m
	for i, step := range r.steps {
		if step != nil && len(step.Attempts) > 0 {
			r.restoreStep(run.Ord(i), step)
		}
	}
	if m.pause.on {
		m.record.gate |= run.GatePaused
	}
	if m.failure.count > 0 {
		m.record.gate |= run.GateFailing
	}
	m.placeSteps()
	if c := &m.compensation; compensating {
		m.failure.final, c.started = true, true
		m.orderHooks()
		c.inFlight = len(c.todo) > 0
	}
}

func (r *restoring) restoreStep(o run.Ord, step *run.Step) {
	m, st := r.m, &r.m.steps[o]
	k := len(step.Attempts) - 1
	a := step.Attempts[k]
	st.attempt = max(1, a.LogicalAttempt)
	switch a.Status {
	case run.StepSuccess, run.StepSkipped:
		st.status, st.stage = a.Status, settled
		if r.isPrioritised(step, k) && r.armedSince > 0 && a.EndedSeq > r.armedSince {
			r.prioritiseDependents(o)
		}
		if a.Status == run.StepSuccess {
			m.recordSuccess(o, a.EndedSeq)
		}
	case run.StepFailed:
		r.restoreFailed(o, step, k)
	case run.StepRunning:
		if k > 0 && step.Attempts[k-1].Status == run.StepFailed {
			st.status = run.StepFailed
		}
		if step.IsRetriedManually(k) {
			st.retried = true // the folded log does not say by which signal
		}
		if r.armedSince > 0 && a.StartedSeq > r.armedSince {
			st.generation = m.failure.generation
		}
		if m.isManual(o) {
			if a.WaitDeadline != nil {
				st.waitEnds = *a.WaitDeadline
			}
			m.keepOpen(o)
			return
		}
		st.stage, st.n, st.begun, st.passes = dispatched, 1, true, m.isPrioritised(o)
		m.schedule.inFlight = append(m.schedule.inFlight, o)
		switch s := &m.sk.Steps[o]; {
		case !s.Cancellable:
		case m.cfg.Policy.CancelRunning && a.StartedSeq < r.last:
			st.stopRequested = stoppedByFailure
		case m.pause.on && s.AllowCancelOnPause:
			st.stopRequested = stoppedByPause
		}
	}
}

// restoreFailed restores a step whose latest attempt FAILED.
func (r *restoring) restoreFailed(o run.Ord, step *run.Step, k int) {
	m, st, a := r.m, &r.m.steps[o], step.Attempts[k]
	st.status, st.failedSeq = run.StepFailed, a.EndedSeq
	if e := a.Error; e != nil {
		st.failed = run.FailurePayload{
			ErrorCode: e.Code, ErrorMessage: e.Message, Retryable: e.Retryable, FailureCategory: e.Category,
			FailureSource: e.Source,
		}
	}
	if a.ArmsFailFast() {
		st.stage, st.failing = settled, true
		m.failure.count++
		return
	}
	if r.isPrioritised(step, k) {
		st.generation = m.failure.generation
	}
	if r.pause != nil && a.EndedSeq > r.pause.Seq {
		st.stage = settled
		m.pause.interrupted = append(m.pause.interrupted, o)
		return
	}
	st.attempt++ // placeSteps makes it ready
}

// applyRetries takes the pending signals that the run has applied but whose effect is not in the log yet, and returns
// the others in their order. In a paused run it takes the signals before the pause. In another run it takes each
// RETRY_STEP whose attempt waits for a slot. A retry that waited for a resume has disarmed fail-fast, so it must be
// applied before anything is scheduled.
func (r *restoring) applyRetries(in Inbox) []engine.Signal {
	var rest []engine.Signal
	for i, s := range in.Pending {
		switch {
		case r.m.pause.on && s.No < in.PauseNo:
			r.applyRetry(s)
		case r.m.pause.on, s.Type == run.Pause, s.Type == run.Cancel, s.Type == run.EmergencyStop:
			return append(rest, in.Pending[i:]...)
		case !r.applyRetry(s):
			rest = append(rest, s)
		}
	}
	if r.m.failure.count == 0 && !r.m.pause.on {
		r.m.record.gate &^= run.GateFailing
	}
	return rest
}

// applyRetry makes the next attempt of a FAILED step ready if s is a RETRY_STEP of that step. It reports whether it
// did.
func (r *restoring) applyRetry(s engine.Signal) bool {
	m := r.m
	o, ok := m.ords[s.StepID]
	if !ok || s.Type != run.RetryStep || !m.steps[o].failing {
		return false
	}
	m.changeStep(s)
	return true
}

// isPrioritised reports whether attempt k passed fail-fast: a person retried or skipped the step, or the attempt
// started while fail-fast was armed (contract T217).
func (r *restoring) isPrioritised(step *run.Step, k int) bool {
	a := step.Attempts[k]
	return a.Status == run.StepSkipped || step.IsRetriedManually(k) || r.armedSince > 0 && a.StartedSeq > r.armedSince
}

// prioritiseDependents lets the dependents of a step pass fail-fast too (contract T217).
func (r *restoring) prioritiseDependents(o run.Ord) {
	for _, n := range r.m.next[o] {
		r.m.steps[n].generation = r.m.failure.generation
	}
}
