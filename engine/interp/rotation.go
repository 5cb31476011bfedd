package interp

import (
	"time"

	"github.com/dvt-engine/dvt/run"
)

// RotationPatience is the time for which the barrier waits for running executions. Then other steps may start again
// (contract T195).
const RotationPatience = 30 * time.Second

// rotationRetry is the number of further dispatches after which the barrier is tried again.
const rotationRetry = 50

// rotation decides when the next execution of the workflow replaces this one. The barrier keeps every dispatch back
// until nothing is in flight (contract T105, T195).
type rotation struct {
	dispatched    int       // number of dispatches of this execution
	from          int       // number of dispatches at which the barrier closes
	pressed, hard bool      // a Pressure was received; a hard one
	patience      time.Time // when the barrier opens although executions still run; zero if it is not armed
	over          bool      // Rotate was returned
}

// HasRotated reports whether Rotate was returned. The machine then returns no more effects; Carry has the state for the
// next one.
func (m *Machine) HasRotated() bool { return m.rotation.over }

func (m *Machine) handlePressure(hard bool) {
	m.rotation.pressed = true
	m.rotation.hard = m.rotation.hard || hard
}

// countDispatch counts a dispatch, because each one grows the engine's history.
func (m *Machine) countDispatch() { m.rotation.dispatched++ }

func (m *Machine) isRotationDue() bool {
	r := &m.rotation
	return r.pressed || m.cfg.RotateAfter > 0 && r.dispatched >= m.cfg.RotateAfter
}

// isHeld reports whether nothing may be dispatched because the machine must rotate. Unless the pressure is hard, an
// execution dispatches at least once, so that the run makes progress.
func (m *Machine) isHeld() bool {
	r := &m.rotation
	return r.hard || m.isRotationDue() && r.dispatched > 0 && (r.dispatched >= r.from || m.isIdle())
}

// isIdle reports whether nothing is in flight, so that Carry has the complete state.
func (m *Machine) isIdle() bool {
	b := &m.signals
	return m.isQuiet() && !m.record.reading && !m.record.behind && len(m.pause.heldBack) == 0 &&
		len(m.schedule.inFlight) == 0 && !m.compensation.inFlight && !b.fetching && !b.lookUp &&
		len(b.inconsistent) == 0 && len(b.reread) == 0
}

// rotate ends this execution if a rotation is due and nothing is in flight, and bounds how long the barrier waits.
func (m *Machine) rotate() {
	r := &m.rotation
	switch {
	case m.done || m.status != run.Running || !m.isRotationDue():
	case m.isIdle():
		r.over = true
		m.emit(Rotate{})
	case m.isHeld() && !r.hard && r.patience.IsZero() && len(m.schedule.inFlight) > 0:
		r.patience = m.now.Add(RotationPatience)
		m.setTimer(TimerRotation, r.patience)
	}
}

func (m *Machine) handleRotationTimer() {
	r := &m.rotation
	switch at := r.patience; {
	case at.IsZero():
	case m.now.Before(at): // the timer of an earlier barrier
		m.setTimer(TimerRotation, at)
	default:
		r.patience = time.Time{}
		if len(m.schedule.inFlight) > 0 {
			r.from = r.dispatched + rotationRetry
		}
	}
}
