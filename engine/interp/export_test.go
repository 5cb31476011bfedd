package interp

import (
	"reflect"
	"slices"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/dvt-engine/dvt/run"
)

// Idle reports whether the run has started and not ended, and its machine could rotate now.
func (m *Machine) Idle() bool { return m.begun && !m.done && m.status == run.Running && m.isIdle() }

// Redispatch dispatches a step again, as the machine does for an execution that is lost, and returns the effect.
func (m *Machine) Redispatch(o run.Ord) Execute {
	m.launch(o)
	return m.out[len(m.out)-1].(Execute)
}

// Differs returns the difference between the states of two machines, without the fields that Resume rebuilds; empty if
// there is none.
func Differs(a, b *Machine) string {
	mine := func(t reflect.Type) bool { return t.PkgPath() == reflect.TypeFor[Machine]().PkgPath() }
	return cmp.Diff(a.carriedState(), b.carriedState(), cmp.Exporter(mine), cmpopts.EquateEmpty())
}

// carriedState returns a copy without the fields that Resume rebuilds or that a Carried holds only approximately.
func (m *Machine) carriedState() Machine {
	c := *m
	c.cfg.EngineAttempt, c.now, c.out, c.rotation = 0, time.Time{}, nil, rotation{}
	c.schedule.ready, c.schedule.prioritised, c.schedule.gateOpenings = nil, nil, 0
	c.delays.withoutToken, c.delays.tokens, c.delays.running = nil, nil, m.runningDelayed()
	c.record.queue, c.record.known, c.record.alone, c.record.wanted, c.record.signalNo = nil, nil, 0, false, 0
	c.record.needed = 0 // an idle machine has observed the log up to it
	c.signals.waiting, c.signals.after, c.signals.inconsistent, c.signals.reread = nil, 0, nil, nil
	c.pause.interrupted = slices.Clone(m.pause.interrupted)
	slices.Sort(c.pause.interrupted)
	if c.pause.resumedEpoch = 0; m.pause.on && m.pause.isResumed() {
		c.pause.resumedEpoch = m.pause.epoch
	}
	c.failure.generation, c.failure.toStop = 0, nil
	undoable := m.rankSuccesses()
	c.compensation.succeeded = slices.Clone(m.compensation.succeeded)
	for i := range c.compensation.succeeded {
		s := &c.compensation.succeeded[i]
		s.seq = run.Seq(undoable.of[s.ord])
	}
	slices.SortFunc(c.compensation.succeeded, func(a, b success) int { return int(a.seq - b.seq) })
	c.steps = slices.Clone(m.steps)
	ranks := m.rankFailures()
	for i := range c.steps {
		st := &c.steps[i]
		if st.generation == m.failure.generation {
			st.generation = 1
		} else {
			st.generation = 0
		}
		if st.signalID == "" {
			st.signalNo, st.signalFor = 0, 0
		}
		if st.stage == settled {
			st.n = 0
		}
		if st.stage != delayed {
			st.forToken = false
		}
		if !st.begun { // Carried has no count for it, so that its next delay may be shorter
			st.vanished = 0
		}
		st.due = time.Time{} // Carried has it only approximately
		st.waitAttempt, st.waitSince, st.waitEnd = 0, time.Time{}, nil
		st.gateOpenings, st.passes, st.stopRequested = 0, false, notStopped
		st.failedSeq, st.failed = run.Seq(ranks.of[i]), run.FailurePayload{
			ErrorCode: st.failed.ErrorCode, ErrorMessage: st.failed.ErrorMessage, Retryable: st.failed.Retryable,
			FailureCategory: st.failed.FailureCategory, FailureSource: st.failed.FailureSource,
		}
		if st.stage != open {
			st.waitEnds = time.Time{}
		}
		if st.status != run.StepFailed || st.stage == open {
			st.failed, st.failing, st.failedSeq = run.FailurePayload{}, false, 0
		}
	}
	return c
}

// PassesLike reports whether the same steps pass fail-fast in both machines. A step in flight counts, because its
// dependents pass if it did. Machines of the same log may differ: a resume applies a pending retry long before its
// attempt starts, and until then the log looks as if fail-fast were armed.
func (m *Machine) PassesLike(o *Machine) bool {
	for i := range m.steps {
		if s := m.steps[i].stage; s == waiting || s == ready || s == open || s == dispatched {
			if m.isPrioritised(run.Ord(i)) != o.isPrioritised(run.Ord(i)) {
				return false
			}
		}
	}
	return true
}
