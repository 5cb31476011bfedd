package interp

import (
	"reflect"
	"slices"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/dvt-engine/dvt/run"
)

// Idle reports whether the machine of a run that goes on could rotate now.
func (m *Machine) Idle() bool { return m.begun && !m.done && m.status == run.Running && m.isIdle() }

// Differs says what one machine knows and the other does not, leaving out what is
// rebuilt.
func Differs(a, b *Machine) string {
	mine := func(t reflect.Type) bool { return t.PkgPath() == reflect.TypeFor[Machine]().PkgPath() }
	return cmp.Diff(a.essence(), b.essence(), cmp.Exporter(mine), cmpopts.EquateEmpty())
}

// essence is a copy without what is rebuilt: see rebuilt.
func (m *Machine) essence() Machine {
	c := *m
	c.cfg.EngineAttempt, c.now, c.out, c.rotation = 0, time.Time{}, nil, rotation{}
	c.schedule.ready, c.schedule.prioritised, c.schedule.gateOpenings = nil, nil, 0
	c.delays.withoutToken, c.delays.tokens, c.delays.running = nil, nil, m.runningDelayed()
	c.record.queue, c.record.known, c.record.alone, c.record.wanted, c.record.signalNo = nil, nil, 0, false, 0
	c.record.needed = 0 // it was observed
	c.signals.waiting, c.signals.after, c.signals.inconsistent, c.signals.owed = nil, 0, nil, nil
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
			st.signalNo = 0
		}
		if st.stage == settled {
			st.n = 0
		}
		if st.stage != delayed {
			st.forToken = false
		}
		if !st.begun { // how long it waits next is a guess
			st.vanished = 0
		}
		st.due = time.Time{} // carried roughly
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

// PassesLike reports whether the same steps pass fail-fast in both machines. A step in flight counts: when it
// completes, the steps behind it pass as it did. A resume applies a deferred retry long before the attempt of the
// retry begins, and until then the log looks as if fail-fast were armed.
func (m *Machine) PassesLike(o *Machine) bool {
	for i := range m.steps {
		if s := m.steps[i].stage; s == waiting || s == ready || s == open || s == flying {
			if m.isPrioritised(run.Ord(i)) != o.isPrioritised(run.Ord(i)) {
				return false
			}
		}
	}
	return true
}
