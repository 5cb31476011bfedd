package interp

import (
	"time"

	"github.com/dvt-engine/dvt/run"
)

// RotationPatience is how long the barrier waits for what executes before it lets
// other steps start again (T195).
const RotationPatience = 30 * time.Second

// rotationRetry is after how many more dispatches the barrier is tried again.
const rotationRetry = 50

// rotation is when this execution of the workflow makes way for the next one: the
// barrier keeps everything from starting until nothing is in flight (T105, T195).
type rotation struct {
	dispatched    int       // by this execution
	from          int       // dispatches from which the barrier stands
	pressed, hard bool      // the engine's history asks for it
	patience      time.Time // when the barrier gives way to what executes; zero while nothing waits for it
	over          bool      // Rotate was returned
}

// Rotated reports whether Rotate was returned: this machine does nothing more, and
// Carry says what the next one goes on from.
func (m *Machine) Rotated() bool { return m.rotation.over }

func (m *Machine) pressure(hard bool) {
	m.rotation.pressed = true
	m.rotation.hard = m.rotation.hard || hard
}

// dispatched counts what goes into the engine's history.
func (m *Machine) dispatched() { m.rotation.dispatched++ }

func (m *Machine) rotationDue() bool {
	r := &m.rotation
	return r.pressed || m.who.RotateAfter > 0 && r.dispatched >= m.who.RotateAfter
}

// held reports whether nothing may be dispatched because the machine is to rotate.
// Where the engine leaves the choice, an execution dispatches once at least, so
// that a run comes on.
func (m *Machine) held() bool {
	r := &m.rotation
	return r.hard || m.rotationDue() && r.dispatched > 0 && (r.dispatched >= r.from || m.idle())
}

// idle reports whether nothing is in flight, so that what Carry says is all there is.
func (m *Machine) idle() bool {
	b := &m.signals
	return m.quiet() && !m.record.reading && !m.record.behind && len(m.pause.putOff) == 0 && len(m.schedule.flying) == 0 &&
		!m.compensation.flying && !b.fetching && !b.lookUp && len(b.puzzled) == 0 && len(b.owed) == 0
}

// rotate ends this execution if its time has come and nothing is in flight, and
// bounds how long the barrier stands for what is.
func (m *Machine) rotate() {
	r := &m.rotation
	switch {
	case m.done || m.status != run.Running || !m.rotationDue():
	case m.idle():
		r.over = true
		m.emit(Rotate{})
	case m.held() && !r.hard && r.patience.IsZero() && len(m.schedule.flying) > 0:
		r.patience = m.now.Add(RotationPatience)
		m.setTimer(TimerRotation, r.patience)
	}
}

func (m *Machine) rotationFired() {
	r := &m.rotation
	switch at := r.patience; {
	case at.IsZero():
	case m.now.Before(at): // that of a barrier before
		m.setTimer(TimerRotation, at)
	default:
		r.patience = time.Time{}
		if len(m.schedule.flying) > 0 {
			r.from = r.dispatched + rotationRetry
		}
	}
}
