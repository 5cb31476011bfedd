package interp_test

import (
	"slices"
	"strings"

	"pgregory.net/rapid"

	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
)

// checkWaits checks the MANUAL steps of a log: each StepStarted is followed by the wait with its deadline, and no other
// step waits (contract T82, T83).
func checkWaits(rt *rapid.T, w *world) {
	for i, e := range w.log {
		o, ok := w.sk.Ordinal(e.StepID)
		manual := ok && w.sk.Steps[o].Type == plan.Manual
		switch e.Type {
		case run.StepStartedEvent:
			if next := w.log[min(i+1, len(w.log)-1)]; manual && (next.Type != run.StepAwaitingManualCompletion ||
				next.StepID != e.StepID || next.LogicalAttempt != e.LogicalAttempt) {
				rt.Fatalf("%d %s is followed by %s, want the wait (contract T82)", e.Seq, describe(e), describe(next))
			}
		case run.StepAwaitingManualCompletion:
			p, _ := run.PayloadOf[run.AwaitingPayload](e.Payload)
			if !manual || (p.Deadline != nil) != (w.sk.Steps[o].WaitTimeout > 0) {
				rt.Fatalf("%d %s has the payload %s, want a wait of a MANUAL step with its deadline", e.Seq, describe(e), e.Payload)
			}
		case run.StepFailedEvent:
			if p, _ := run.PayloadOf[run.FailurePayload](e.Payload); manual && p.ErrorCode == string(run.CodeTimeout) {
				wait := w.state.Steps[o].Attempts[e.LogicalAttempt-1]
				if wait.WaitDeadline == nil || e.EmittedAt.Before(*wait.WaitDeadline) {
					rt.Fatalf("%d %s was emitted at %v, want it not before the deadline %v (contract T83)", e.Seq,
						describe(e), e.EmittedAt, wait.WaitDeadline)
				}
			}
		}
	}
}

// checkHooks checks the compensation of a log: only a run that fails has one, each succeeded step with a hook is undone
// once in the reverse order of completion, and the summary has all hooks (contract M04, M05, T88, R185, R187).
func checkHooks(rt *rapid.T, w *world) {
	var order, ran []string
	var begun bool
	var summary []run.CompensationPayload
	bad := func(e run.Event, why string) {
		rt.Fatalf("%d %s: %s; the log is\n%s", e.Seq, describe(e), why, strings.Join(w.logLines(), "\n"))
	}
	for _, e := range w.log {
		switch e.Type {
		case run.StepCompletedEvent:
			if o, _ := w.sk.Ordinal(e.StepID); w.sk.Steps[o].CompensationQueue != "" {
				order = slices.Insert(order, 0, e.StepID)
			}
			if begun {
				bad(e, "a step ends while the run compensates")
			}
		case run.StepStartedEvent, run.StepFailedEvent:
			if begun {
				bad(e, "a step starts or ends while the run compensates")
			}
		case run.RunCompensationStarted:
			begun = true
			if p, _ := run.PayloadOf[run.CompensationStartedPayload](e.Payload); !slices.Equal(p.StepIDs, order) {
				bad(e, "the order is not the reverse of "+strings.Join(order, " "))
			}
		case run.StepCompensated, run.StepCompensationFailed:
			p, _ := run.PayloadOf[run.CompensationPayload](e.Payload)
			if ran = append(ran, e.StepID); len(ran) > len(order) || order[len(ran)-1] != e.StepID {
				bad(e, "the hook is out of order")
			}
			if p.IdempotencyKey != w.id.RunID+":"+e.StepID+":compensate" || p.Compensated != (e.Type == run.StepCompensated) {
				bad(e, "the payload does not fit the event: "+string(e.Payload))
			}
			p.Result = nil
			summary = append(summary, p)
		case run.RunFailed:
			if p, _ := run.PayloadOf[run.RunFailedPayload](e.Payload); begun != (len(order) > 0) || len(ran) != len(order) ||
				!sameHooks(p.Compensation, summary) {
				bad(e, "not all hooks ran, or the summary differs from the log: "+string(e.Payload))
			}
		case run.RunCompleted, run.RunCancelled:
			stopped := slices.ContainsFunc(w.log, func(e run.Event) bool {
				p, _ := run.PayloadOf[run.SignalPayload](e.Payload)
				return e.Type == run.SignalAccepted && p.SignalType == run.EmergencyStop
			})
			if begun && (e.Type == run.RunCompleted || !stopped) {
				bad(e, "only an emergency stop ends a compensation")
			}
		}
	}
}

// sameHooks compares the results of hooks, without their messages, because the summary may shorten them.
func sameHooks(a, b []run.CompensationPayload) bool {
	return slices.EqualFunc(a, b, func(a, b run.CompensationPayload) bool {
		return a.StepID == b.StepID && a.IdempotencyKey == b.IdempotencyKey && a.Attempts == b.Attempts &&
			a.Compensated == b.Compensated && a.ErrorCode == b.ErrorCode
	})
}
