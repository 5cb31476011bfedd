package runs_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dvt-engine/dvt/control/controltest"
	"github.com/dvt-engine/dvt/control/runs"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
)

// contract: T193
func TestSignalRun_RefusesWhenItsPartOfTheRunMoved(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.CreateRunning("moved", "s1", "b", "c")
	w.FinishStep(id, "s1", 1, run.StepFailedEvent)
	seen := w.StateOf(id).Seq
	w.FinishStep(id, "b", 1, run.StepCompletedEvent) // unrelated progress
	at := func(in runs.SignalRun, seq run.Seq) runs.SignalRun { in.ExpectedRunSeq = &seq; return in }
	if r := w.Send(w.Engineer(), at(controltest.SignalOf(id, "pause", run.Pause), seen)); r.Rejected {
		t.Errorf("PAUSE after unrelated progress is answered %+v, want it accepted", r)
	}
	if r := w.Send(w.Engineer(), at(controltest.SignalOf(id, "retry", run.RetryStep), seen)); r.Rejected {
		t.Errorf("RETRY_STEP after unrelated progress is answered %+v, want it accepted", r)
	}
	before := w.EventLog(id)
	check := func(in runs.SignalRun) {
		t.Helper()
		_, err := w.SignalRun(t.Context(), w.Engineer(), in)
		if e := controltest.Refusal(t, err, run.CodeRunMoved); e.RunSeq != w.StateOf(id).Seq {
			t.Errorf("%s: current %d, want %d", in.Signal.Type, e.RunSeq, w.StateOf(id).Seq)
		}
	}
	check(at(controltest.SignalOf(id, "cancel", run.Cancel), seen)) // a cancel affects the whole run
	check(at(controltest.SignalOf(id, "retry-early", run.RetryStep), seen-1))
	if diff := cmp.Diff(before, w.EventLog(id)); diff != "" {
		t.Errorf("the log changed:\n%s", diff)
	}
	if !w.HasAuditRow("acme", "dev-engineer CANCEL REJECTED RUN_MOVED "+id) {
		t.Errorf("the audit %v has no row of RUN_MOVED", w.AuditRows("acme"))
	}
	w.AppendEvents(id, runtest.Draft(run.RunPaused, "", 1))
	check(at(controltest.SignalOf(id, "resume", run.Resume), seen)) // the status changed
	// A repetition gets its receipt even if the run has changed.
	if r := w.Send(w.Engineer(), at(controltest.SignalOf(id, "pause", run.Pause), seen)); !r.Duplicate {
		t.Errorf("the repeated signal is answered %+v, want a duplicate", r)
	}
}

// Each signal is compared with the part of the run that it affects. A late signal leaves only an audit row (O10, T193).
// contract: O10
func TestSignalRun_EverySignalChecksExpectedRunSeq(t *testing.T) {
	t.Parallel()
	for _, sig := range catalogue {
		w := newWorld(t)
		kind := "COMMAND s1"
		if sig == run.UpdateTarget {
			kind = "DBT_RUN s1"
		}
		id := w.CreateSteps("o10", kind, "NOOP other")
		w.FinishStep(id, "s1", 1, run.StepFailedEvent)
		if sig == run.Resume {
			w.AppendEvents(id, runtest.Draft(run.RunPaused, "", 1))
		}
		seen := w.StateOf(id).Seq
		who := w.Principal("dev-admin")
		if sig == run.EscalateAlert {
			who = w.Principal("dev-system")
		}
		in := controltest.SignalOf(id, "late", sig)
		w.BeginStep(id, "other", 1) // unrelated to the step and to the status, but not to the run
		concerns := map[run.SignalType]bool{run.Pause: true, run.Resume: true, run.RetryStep: true, run.SkipStep: true}
		if in.ExpectedRunSeq = &seen; concerns[sig] {
			switch sig {
			case run.Pause:
				w.AppendEvents(id, runtest.Draft(run.RunPaused, "", 1))
			case run.Resume:
				w.AppendEvents(id, runtest.Draft(run.RunResumed, "", 1))
			default:
				w.BeginStep(id, "s1", 2)
			}
		}
		before := w.EventLog(id)
		_, err := w.SignalRun(t.Context(), who, in)
		if e := controltest.Refusal(t, err, run.CodeRunMoved); e.RunSeq != w.StateOf(id).Seq {
			t.Errorf("%s: current %d, want %d", sig, e.RunSeq, w.StateOf(id).Seq)
		}
		if diff := cmp.Diff(before, w.EventLog(id)); diff != "" {
			t.Errorf("%s: the log changed:\n%s", sig, diff)
		}
		_, err = w.Receipt(t.Context(), who, id, "late")
		controltest.Refusal(t, err, run.CodeNotFound)
		if !w.HasAuditRow("acme", fmt.Sprintf("%s %s REJECTED RUN_MOVED %s", who.ID, sig, id)) {
			t.Errorf("%s left no audit row", sig)
		}
		now := w.StateOf(id).Seq
		in.ExpectedRunSeq = &now
		if _, err := w.SignalRun(t.Context(), who, in); err != nil {
			t.Errorf("%s at the head returned %v, want no error", sig, err)
		}
	}
}
