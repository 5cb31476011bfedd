package interp

import (
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// stop is an order to end the run (contract T200).
type stop struct {
	signalID string // of the signal that ordered it, else empty
}

// stopRun stops everything in flight and ends the run once nothing runs (contract T79).
func (m *Machine) stopRun(signalID string) {
	m.stop.signalID = signalID
	m.closeWindow()
	m.endDrain()
	m.enqueue(entry{kind: notes, set: run.GateStopped})
	m.cancelWaits(run.FailurePayload{ErrorCode: string(run.CodeCancelled), FailureCategory: run.CategoryUser})
	m.stopCompensation()
	for _, o := range m.schedule.flying {
		m.steps[o].stopRequested = stoppedByStop
		m.failure.toStop = append(m.failure.toStop, o)
	}
	m.cancelDelayed(stoppedByStop, func(*plan.SkeletonStep) bool { return true }) // else they would keep the run open
}

// settleStop comes when the log has the closed gate, so that running is exact.
func (m *Machine) settleStop() {
	if m.record.running > 0 || m.compensation.inFlight {
		return
	}
	m.closeWith(run.Cancelled, entry{
		drafts:   m.runEvent(run.RunCancelled, 1, run.RunCancelledPayload{SignalID: m.stop.signalID}),
		outcomes: []store.SignalOutcome{{SignalID: m.stop.signalID, Application: run.SignalApplied, AppliedBy: 0}},
	})
}
