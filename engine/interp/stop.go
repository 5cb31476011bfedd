package interp

import (
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// stop is the order to end the run. It arrives as a CANCEL or EMERGENCY_STOP signal (contract T200) and cannot be
// revoked.
type stop struct {
	signalID string // of the signal that ordered it, else empty
}

// stopRun closes the gate, ends the waits for people and asks every execution in flight to stop. settleStop ends the
// run when none runs any more (contract T79).
func (m *Machine) stopRun(signalID string) {
	m.stop.signalID = signalID
	m.closeWindow()
	m.endDrain()
	m.enqueue(entry{kind: notes, set: run.GateStopped})
	m.cancelWaits(run.FailurePayload{ErrorCode: string(run.CodeCancelled), FailureCategory: run.CategoryUser})
	m.stopCompensation()
	for _, o := range m.schedule.inFlight {
		m.steps[o].stopRequested = stoppedByStop
		m.failure.toStop = append(m.failure.toStop, o)
	}
	// No worker executes a delayed attempt that is RUNNING in the log, so it would keep the run open.
	m.cancelDelayed(stoppedByStop, func(*plan.SkeletonStep) bool { return true })
}

// settleStop ends the run as CANCELLED when no attempt is RUNNING any more. settle calls it only after the log has
// closed the gate: no attempt can start any more, so that running cannot grow.
func (m *Machine) settleStop() {
	if m.record.running > 0 || m.compensation.inFlight {
		return
	}
	m.closeWith(run.Cancelled, entry{
		drafts:   m.runEvent(run.RunCancelled, 1, run.RunCancelledPayload{SignalID: m.stop.signalID}),
		outcomes: []store.SignalOutcome{{SignalID: m.stop.signalID, Application: run.SignalApplied, AppliedBy: 0}},
	})
}
