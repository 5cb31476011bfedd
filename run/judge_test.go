package run_test

import (
	"strings"
	"testing"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
)

// view is a View like the interpreter's: it knows of latched retries.
type view struct {
	run.State
	pending map[string]bool
}

func (v view) FindStep(id string) (run.StepView, bool) {
	s, ok := v.State.FindStep(id)
	s.RetryPending = v.pending[id]
	return s, ok
}

func TestJudge(t *testing.T) {
	t.Parallel()
	histories := map[string][]run.Draft{
		"empty":    nil,
		"approved": {ofRun(run.RunApproved)},
		// ok SUCCESS, busy RUNNING, bad FAILED, worse FAILED for good, skip SKIPPED, todo PENDING, again RUNNING as attempt 2
		"running": {runtest.Start("ok", "busy", "bad", "worse", "skip", "todo", "again"), completed("ok", 1),
			started("busy", 1), failed("bad", 1, "E"),
			runtest.Draft(run.StepFailedEvent, "worse", 1, runtest.M{"retryable": false}), skipped("skip", 1),
			failed("again", 1, "E"), started("again", 2)},
	}
	histories["paused"] = append(histories["running"][:len(histories["running"]):len(histories["running"])], pausedAt(1))
	histories["compensating"] = append(histories["running"][:len(histories["running"]):len(histories["running"])],
		ofRun(run.RunCompensationStarted))
	histories["completed"] = []run.Draft{runtest.Start("ok"), completed("ok", 1), ofRun(run.RunCompleted)}
	histories["manual"] = []run.Draft{runtest.Start("ask", "busy", "done", "todo"), started("ask", 1), waits("ask", 1),
		failed("ask", 1, "MANUAL_FAILED"),
		started("ask", 2), waits("ask", 2), started("busy", 1), started("done", 1), waits("done", 1), completed("done", 1)}
	histories["manual, paused"] = append(histories["manual"][:len(histories["manual"]):len(histories["manual"])],
		pausedAt(1))
	histories["manual, compensating"] = append(histories["manual"][:len(histories["manual"]):len(histories["manual"])],
		ofRun(run.RunCompensationStarted))
	histories["manual, ended"] = append(histories["manual"][:len(histories["manual"]):len(histories["manual"])],
		ofRun(run.RunCancelled))
	histories["tenth"] = []run.Draft{runtest.Start("bad"), failed("bad", 10, "E")}

	retry := func(step string, expected int) run.Signal {
		return run.Signal{Type: run.RetryStep, StepID: step, ExpectedAttempt: expected}
	}
	forced := func(step string) run.Signal { return run.Signal{Type: run.RetryStep, StepID: step, Force: true} }
	skip := func(step string) run.Signal { return run.Signal{Type: run.SkipStep, StepID: step} }
	params := func(step string) run.Signal { return run.Signal{Type: run.UpdateParams, StepID: step} }
	complete := func(step string, expected int) run.Signal {
		return run.Signal{Type: run.CompleteManual, StepID: step, ExpectedAttempt: expected, Outcome: run.ManualSucceeded}
	}
	plain := func(t run.SignalType) run.Signal { return run.Signal{Type: t} }

	tests := []struct {
		name string
		log  string
		sig  run.Signal
		want run.Outcome
		code run.Code
	}{
		{"G01 pause", "running", plain(run.Pause), run.Accept, ""},
		{"G10 pause twice", "paused", plain(run.Pause), run.Noop, run.CodeAlreadyInState},
		{"T45 pause before the start", "empty", plain(run.Pause), run.Reject, run.CodeInvalidRunState},
		{"T45 pause of an approved run", "approved", plain(run.Pause), run.Reject, run.CodeInvalidRunState},
		{"T91 pause while compensating", "compensating", plain(run.Pause), run.Noop, run.CodeRunFinalizing},
		{"resume", "paused", plain(run.Resume), run.Accept, ""},
		{"G10 resume of a running run", "running", plain(run.Resume), run.Noop, run.CodeAlreadyInState},
		{"resume before the start", "approved", plain(run.Resume), run.Reject, run.CodeInvalidRunState},

		{"G17 retry", "running", retry("bad", 0), run.Accept, ""},
		{"G16 retry in a pause", "paused", retry("bad", 1), run.Accept, ""},
		{"G21 retry of a success", "running", retry("ok", 0), run.Reject, run.CodeStepNotFailed},
		{"G21 retry of a running step", "running", retry("busy", 0), run.Reject, run.CodeStepNotFailed},
		{"G21 retry of a pending step", "running", retry("todo", 0), run.Reject, run.CodeStepNotFailed},
		{"G21 retry of an unknown step", "running", retry("nobody", 0), run.Reject, run.CodeStepNotFound},
		{"G21 retry of what retrying does not cure", "running", retry("worse", 0), run.Reject, run.CodeRetryDenied},
		{"G21 the same by force", "running", forced("worse"), run.Accept, ""},
		{"G21 force does not retry a running step", "running", forced("busy"), run.Reject, run.CodeStepNotFailed},
		{"T56 the tenth attempt was the last", "tenth", retry("bad", 0), run.Reject, run.CodeRetryDenied},
		{"T56 but by force", "tenth", forced("bad"), run.Accept, ""},
		{"T217 retry of a superseded attempt", "running", retry("again", 1), run.Noop, run.CodeSuperseded},
		{"T217 retry of the attempt that runs", "running", retry("again", 2), run.Reject, run.CodeStepNotFailed},
		{"T217 retry of an attempt to come", "running", retry("bad", 2), run.Reject, run.CodeStepNotFailed},
		{"G20 T58 retry of a latched attempt", "paused", retry("worse-latched", 1), run.Noop, run.CodeSuperseded},
		{"T91 retry while compensating", "compensating", retry("bad", 0), run.Reject, run.CodeRunFinalizing},
		{"retry before the start", "empty", retry("bad", 0), run.Reject, run.CodeInvalidRunState},
		{"G19 retry of an ended run", "completed", retry("ok", 0), run.Reject, run.CodeRunTerminal},

		{"G22 skip of a pending step", "running", skip("todo"), run.Accept, ""},
		{"G22 T77 skip of a failed step", "running", skip("bad"), run.Accept, ""},
		{"T77 skip of a running step", "running", skip("busy"), run.Reject, run.CodeStepNotSkippable},
		{"skip of a success", "running", skip("ok"), run.Reject, run.CodeStepNotSkippable},
		{"skip twice", "running", skip("skip"), run.Noop, run.CodeAlreadyInState},
		{"skip of a latched retry", "paused", skip("worse-latched"), run.Reject, run.CodeStepNotSkippable},
		{"skip of an unknown step", "running", skip("nobody"), run.Reject, run.CodeStepNotFound},
		{"skip before the start", "empty", skip("a"), run.Reject, run.CodeInvalidRunState},
		{"skip while compensating", "compensating", skip("todo"), run.Reject, run.CodeRunFinalizing},

		{"G24 cancel before the start", "empty", plain(run.Cancel), run.Accept, ""},
		{"cancel", "running", plain(run.Cancel), run.Accept, ""},
		{"cancel in a pause", "paused", plain(run.Cancel), run.Accept, ""},
		{"T91 cancel while compensating", "compensating", plain(run.Cancel), run.Reject, run.CodeRunFinalizing},
		{"G10 cancel of an ended run", "completed", plain(run.Cancel), run.Reject, run.CodeRunTerminal},
		{"emergency stop while compensating", "compensating", plain(run.EmergencyStop), run.Accept, ""},
		{"emergency stop before the start", "empty", plain(run.EmergencyStop), run.Accept, ""},

		{"T197 parameters", "running", plain(run.UpdateParams), run.Accept, ""},
		{"T197 parameters before the start", "empty", plain(run.UpdateTarget), run.Accept, ""},
		{"T104 parameters of a finished step", "running", params("ok"), run.Reject, run.CodeStepTerminal},
		{"parameters of a failed step", "running", params("bad"), run.Accept, ""},
		{"parameters of a running step", "running", params("busy"), run.Accept, ""},
		{"parameters of an unknown step", "running", params("nobody"), run.Reject, run.CodeStepNotFound},
		{"parameters of a step before the start", "approved", params("ok"), run.Reject, run.CodeInvalidRunState},
		{"parameters while compensating", "compensating", plain(run.InjectOverride), run.Reject, run.CodeRunFinalizing},
		{"G26 escalate", "running", plain(run.EscalateAlert), run.Accept, ""},
		{"G10 escalate on an ended run", "completed", plain(run.EscalateAlert), run.Reject, run.CodeRunTerminal},

		{"M01 complete", "manual", complete("ask", 2), run.Accept, ""},
		{"M01 complete the latest", "manual", complete("ask", 0), run.Accept, ""},
		{"M01 complete as failed", "manual", run.Signal{Type: run.CompleteManual, StepID: "ask", Outcome: run.ManualFailed},
			run.Accept, ""},
		{"M01 complete as cancelled", "manual", run.Signal{Type: run.CompleteManual, StepID: "ask",
			Outcome: run.ManualCancelled}, run.Accept, ""},
		{"complete without an outcome", "manual", run.Signal{Type: run.CompleteManual, StepID: "ask"}, run.Reject,
			run.CodeBadInput},
		{"T47 complete in a pause", "manual, paused", complete("ask", 2), run.Accept, ""},
		{"M03 complete a superseded attempt", "manual", complete("ask", 1), run.Reject, run.CodeManualNotWaiting},
		{"complete an attempt to come", "manual", complete("ask", 3), run.Reject, run.CodeManualNotWaiting},
		{"M02 complete twice", "manual", complete("done", 1), run.Reject, run.CodeManualNotWaiting},
		{"M02 complete what runs by itself", "manual", complete("busy", 1), run.Reject, run.CodeManualNotWaiting},
		{"complete what has not started", "manual", complete("todo", 0), run.Reject, run.CodeManualNotWaiting},
		{"complete an unknown step", "manual", complete("nobody", 0), run.Reject, run.CodeStepNotFound},
		{"complete before the start", "approved", complete("ask", 0), run.Reject, run.CodeInvalidRunState},
		{"T91 complete while compensating", "manual, compensating", complete("ask", 2), run.Reject, run.CodeRunFinalizing},
		{"complete a step of an ended run", "manual, ended", complete("ask", 2), run.Reject, run.CodeRunTerminal},
		{"retry of a step that waits", "manual", retry("ask", 2), run.Reject, run.CodeStepNotFailed},
		{"skip of a step that waits", "manual", skip("ask"), run.Reject, run.CodeStepNotSkippable},
		{"unknown signal", "running", plain("DANCE"), run.Reject, run.CodeNotSupported},
	}
	for _, tt := range tests {
		t.Run(strings.ReplaceAll(tt.name, " ", "_"), func(t *testing.T) {
			t.Parallel()
			s := run.Project(runtest.ID, runtest.Log(histories[tt.log]...))
			v := view{State: s}
			if id, latched := strings.CutSuffix(tt.sig.StepID, "-latched"); latched {
				tt.sig.StepID, v.pending = id, map[string]bool{id: true}
			}
			got := run.Judge(v, tt.sig)
			if got.Outcome != tt.want || got.Code != tt.code || got.Message == "" || strings.Contains(got.Message, "%!") {
				t.Errorf("Judge() = %+v, want %d %s", got, tt.want, tt.code)
			}
			if len(v.pending) == 0 && run.Judge(s, tt.sig) != got {
				t.Error("a State judges differently from a View of it")
			}
		})
	}
}

// contract: T56
func TestJudge_PolicyOfTheRun(t *testing.T) {
	t.Parallel()
	s := run.Project(runtest.ID, runtest.Log(runtest.Start("bad"), failed("bad", 2, "E")))
	policy := *s.Policy
	policy.MaxLogicalAttemptsManual = 2
	s.Policy = &policy
	if got := run.Judge(s, run.Signal{Type: run.RetryStep, StepID: "bad"}); got.Code != run.CodeRetryDenied ||
		!strings.Contains(got.Message, "allows 2") {
		t.Errorf("Judge() = %+v", got)
	}
	s.Policy = nil
	if got := s.MaxAttempts(); got != run.DefaultMaxAttempts {
		t.Errorf("MaxAttempts() without a policy = %d", got)
	}
}

// A judgement is total: any signal on any state gives an answer with a message.
func TestJudge_Total(t *testing.T) {
	t.Parallel()
	types := []run.SignalType{run.Pause, run.Resume, run.RetryStep, run.SkipStep, run.UpdateParams, run.InjectOverride,
		run.EscalateAlert, run.UpdateTarget, run.EmergencyStop, run.Cancel, run.CompleteManual, ""}
	for seed := range logs / 10 {
		s := run.Project(runtest.ID, runtest.Hostile(uint64(seed)))
		for _, typ := range types {
			for _, id := range []string{"", "s0", "stranger"} {
				if got := run.Judge(s, run.Signal{Type: typ, StepID: id, ExpectedAttempt: seed % 3}); got.Message == "" ||
					(got.Outcome == run.Accept) != (got.Code == "") {
					t.Fatalf("seed %d: Judge(%s %s) = %+v", seed, typ, id, got)
				}
			}
		}
	}
}
