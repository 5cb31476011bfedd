package interp

import (
	"reflect"
	"slices"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dvt-engine/dvt/run"
)

// Idle reports whether the machine of a run that goes on could rotate now.
func (m *Machine) Idle() bool { return m.begun && !m.done && m.status == run.Running && m.idle() }

// Differs says what one machine knows and the other does not, leaving out what is
// rebuilt.
func Differs(a, b *Machine) string {
	mine := func(t reflect.Type) bool { return t.PkgPath() == reflect.TypeFor[Machine]().PkgPath() }
	return cmp.Diff(a.essence(), b.essence(), cmp.Exporter(mine))
}

// essence is a copy without what is rebuilt: see rebuilt.
func (m *Machine) essence() Machine {
	c := *m
	c.who.EngineAttempt, c.now, c.out, c.rotation = 0, time.Time{}, nil, rotation{}
	c.schedule.ready, c.schedule.favoured, c.schedule.openings = nil, nil, 0
	c.record.queue, c.record.alone = nil, 0
	c.signals.waiting, c.signals.after, c.signals.puzzled, c.signals.owed = nil, 0, nil, nil
	c.pause.interrupted = slices.Clone(m.pause.interrupted)
	slices.Sort(c.pause.interrupted)
	if len(c.pause.latched) == 0 {
		c.pause.latched = nil
	}
	if len(c.schedule.flying) == 0 {
		c.schedule.flying = nil
	}
	c.failure.era, c.failure.toStop = 0, nil
	c.steps = slices.Clone(m.steps)
	ranks := m.rankFailures()
	for i := range c.steps {
		st := &c.steps[i]
		if st.era == m.failure.era {
			st.era = 1
		} else {
			st.era = 0
		}
		if st.signalID == "" {
			st.signalNo = 0
		}
		if st.stage == settled {
			st.n = 0
		}
		st.openings, st.passes, st.asked = 0, false, nobody
		st.failedSeq, st.failed = run.Seq(ranks.of[i]), run.FailurePayload{
			ErrorCode: st.failed.ErrorCode, ErrorMessage: st.failed.ErrorMessage, Retryable: st.failed.Retryable,
			FailureCategory: st.failed.FailureCategory, FailureSource: st.failed.FailureSource,
		}
		if st.status != run.StepFailed {
			st.failed, st.failing = run.FailurePayload{}, false
		}
	}
	return c
}
