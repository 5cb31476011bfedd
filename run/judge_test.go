package run_test

import (
	"strings"
	"testing"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
)

// view is a View like that of the interpreter, which knows the pending retries.
type view struct {
	run.State
	pending map[string]bool
}

func (v view) FindStep(id string) (run.StepView, bool) {
	s, ok := v.State.FindStep(id)
	s.RetryPending = v.pending[id]
	return s, ok
}

// contract: G10, G16, G17, G19, G20, G21, G22, G24, G26, M01, M02, M03, T45, T47, T56, T58, T77, T91, T104, T197, T217
func TestJudge_DecidesBySignalAndState(t *testing.T) {
	t.Parallel()
	histories := map[string][]run.Draft{
		"empty":    nil,
		"approved": {ofRun(run.RunApproved)},
		// ok is SUCCESS, busy RUNNING, bad FAILED and retryable, worse FAILED and not retryable, skip SKIPPED, todo
		// PENDING, and again is RUNNING in attempt 2.
		"running": {runtest.Start("ok", "busy", "bad", "worse", "skip", "todo", "again"), stepCompleted("ok", 1),
			stepStarted("busy", 1), stepFailed("bad", 1, "E"),
			runtest.Draft(run.StepFailedEvent, "worse", 1, runtest.M{"retryable": false}), stepSkipped("skip", 1),
			stepFailed("again", 1, "E"), stepStarted("again", 2)},
	}
	histories["paused"] = append(histories["running"][:len(histories["running"]):len(histories["running"])], runPaused(1))
	histories["compensating"] = append(histories["running"][:len(histories["running"]):len(histories["running"])],
		ofRun(run.RunCompensationStarted))
	histories["completed"] = []run.Draft{runtest.Start("ok"), stepCompleted("ok", 1), ofRun(run.RunCompleted)}
	histories["manual"] = []run.Draft{runtest.Start("ask", "busy", "done", "todo"), stepStarted("ask", 1), stepWaits("ask",
		1),
		stepFailed("ask", 1, "MANUAL_FAILED"),
		stepStarted("ask", 2), stepWaits("ask", 2), stepStarted("busy", 1), stepStarted("done", 1), stepWaits("done", 1),
		stepCompleted("done", 1)}
	histories["manual, paused"] = append(histories["manual"][:len(histories["manual"]):len(histories["manual"])],
		runPaused(1))
	histories["manual, compensating"] = append(histories["manual"][:len(histories["manual"]):len(histories["manual"])],
		ofRun(run.RunCompensationStarted))
	histories["manual, ended"] = append(histories["manual"][:len(histories["manual"]):len(histories["manual"])],
		ofRun(run.RunCancelled))
	histories["tenth"] = []run.Draft{runtest.Start("bad"), stepFailed("bad", 10, "E")}

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
		{"pause", "running", plain(run.Pause), run.Accept, ""},
		{"pause twice", "paused", plain(run.Pause), run.Noop, run.CodeAlreadyInState},
		{"pause before the start", "empty", plain(run.Pause), run.Reject, run.CodeInvalidRunState},
		{"pause of an approved run", "approved", plain(run.Pause), run.Reject, run.CodeInvalidRunState},
		{"pause while compensating", "compensating", plain(run.Pause), run.Noop, run.CodeRunFinalizing},
		{"resume", "paused", plain(run.Resume), run.Accept, ""},
		{"resume of a running run", "running", plain(run.Resume), run.Noop, run.CodeAlreadyInState},
		{"resume before the start", "approved", plain(run.Resume), run.Reject, run.CodeInvalidRunState},

		{"retry", "running", retry("bad", 0), run.Accept, ""},
		{"retry in a pause", "paused", retry("bad", 1), run.Accept, ""},
		{"retry of a success", "running", retry("ok", 0), run.Reject, run.CodeStepNotFailed},
		{"retry of a running step", "running", retry("busy", 0), run.Reject, run.CodeStepNotFailed},
		{"retry of a pending step", "running", retry("todo", 0), run.Reject, run.CodeStepNotFailed},
		{"retry of an unknown step", "running", retry("nobody", 0), run.Reject, run.CodeStepNotFound},
		{"retry of an error that is not retryable", "running", retry("worse", 0), run.Reject, run.CodeRetryDenied},
		{"forced retry of an error that is not retryable", "running", forced("worse"), run.Accept, ""},
		{"force does not retry a running step", "running", forced("busy"), run.Reject, run.CodeStepNotFailed},
		{"retry after the tenth attempt", "tenth", retry("bad", 0), run.Reject, run.CodeRetryDenied},
		{"forced retry after the tenth attempt", "tenth", forced("bad"), run.Accept, ""},
		{"retry of a superseded attempt", "running", retry("again", 1), run.Noop, run.CodeSuperseded},
		{"retry of the attempt that runs", "running", retry("again", 2), run.Reject, run.CodeStepNotFailed},
		{"retry of a future attempt", "running", retry("bad", 2), run.Reject, run.CodeStepNotFailed},
		{"retry of an attempt with a pending retry", "paused", retry("worse-pending", 1), run.Noop, run.CodeSuperseded},
		{"retry while compensating", "compensating", retry("bad", 0), run.Reject, run.CodeRunFinalizing},
		{"retry before the start", "empty", retry("bad", 0), run.Reject, run.CodeInvalidRunState},
		{"retry of an ended run", "completed", retry("ok", 0), run.Reject, run.CodeRunTerminal},

		{"skip of a pending step", "running", skip("todo"), run.Accept, ""},
		{"skip of a failed step", "running", skip("bad"), run.Accept, ""},
		{"skip of a running step", "running", skip("busy"), run.Reject, run.CodeStepNotSkippable},
		{"skip of a success", "running", skip("ok"), run.Reject, run.CodeStepNotSkippable},
		{"skip twice", "running", skip("skip"), run.Noop, run.CodeAlreadyInState},
		{"skip of a step with a pending retry", "paused", skip("worse-pending"), run.Reject, run.CodeStepNotSkippable},
		{"skip of an unknown step", "running", skip("nobody"), run.Reject, run.CodeStepNotFound},
		{"skip before the start", "empty", skip("a"), run.Reject, run.CodeInvalidRunState},
		{"skip while compensating", "compensating", skip("todo"), run.Reject, run.CodeRunFinalizing},

		{"cancel before the start", "empty", plain(run.Cancel), run.Accept, ""},
		{"cancel", "running", plain(run.Cancel), run.Accept, ""},
		{"cancel in a pause", "paused", plain(run.Cancel), run.Accept, ""},
		{"cancel while compensating", "compensating", plain(run.Cancel), run.Reject, run.CodeRunFinalizing},
		{"cancel of an ended run", "completed", plain(run.Cancel), run.Reject, run.CodeRunTerminal},
		{"emergency stop while compensating", "compensating", plain(run.EmergencyStop), run.Accept, ""},
		{"emergency stop before the start", "empty", plain(run.EmergencyStop), run.Accept, ""},

		{"parameters", "running", plain(run.UpdateParams), run.Accept, ""},
		{"parameters before the start", "empty", plain(run.UpdateTarget), run.Accept, ""},
		{"parameters of a finished step", "running", params("ok"), run.Reject, run.CodeStepTerminal},
		{"parameters of a failed step", "running", params("bad"), run.Accept, ""},
		{"parameters of a running step", "running", params("busy"), run.Accept, ""},
		{"parameters of an unknown step", "running", params("nobody"), run.Reject, run.CodeStepNotFound},
		{"parameters of a step before the start", "approved", params("ok"), run.Reject, run.CodeInvalidRunState},
		{"parameters while compensating", "compensating", plain(run.InjectOverride), run.Reject, run.CodeRunFinalizing},
		{"escalate", "running", plain(run.EscalateAlert), run.Accept, ""},
		{"escalate on an ended run", "completed", plain(run.EscalateAlert), run.Reject, run.CodeRunTerminal},

		{"complete the attempt that waits", "manual", complete("ask", 2), run.Accept, ""},
		{"complete without an attempt", "manual", complete("ask", 0), run.Accept, ""},
		{"complete as failed", "manual", run.Signal{Type: run.CompleteManual, StepID: "ask", Outcome: run.ManualFailed},
			run.Accept, ""},
		{"complete as cancelled", "manual", run.Signal{Type: run.CompleteManual, StepID: "ask",
			Outcome: run.ManualCancelled}, run.Accept, ""},
		{"complete without an outcome", "manual", run.Signal{Type: run.CompleteManual, StepID: "ask"}, run.Reject,
			run.CodeBadInput},
		{"complete in a pause", "manual, paused", complete("ask", 2), run.Accept, ""},
		{"complete a superseded attempt", "manual", complete("ask", 1), run.Reject, run.CodeManualNotWaiting},
		{"complete a future attempt", "manual", complete("ask", 3), run.Reject, run.CodeManualNotWaiting},
		{"complete twice", "manual", complete("done", 1), run.Reject, run.CodeManualNotWaiting},
		{"complete a step that is not manual", "manual", complete("busy", 1), run.Reject, run.CodeManualNotWaiting},
		{"complete a step that has not started", "manual", complete("todo", 0), run.Reject, run.CodeManualNotWaiting},
		{"complete an unknown step", "manual", complete("nobody", 0), run.Reject, run.CodeStepNotFound},
		{"complete before the start", "approved", complete("ask", 0), run.Reject, run.CodeInvalidRunState},
		{"complete while compensating", "manual, compensating", complete("ask", 2), run.Reject, run.CodeRunFinalizing},
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
			if id, pending := strings.CutSuffix(tt.sig.StepID, "-pending"); pending {
				tt.sig.StepID, v.pending = id, map[string]bool{id: true}
			}
			got := run.Judge(v, tt.sig)
			if got.Outcome != tt.want || got.Code != tt.code || got.Message == "" || strings.Contains(got.Message, "%!") {
				t.Errorf("Judge() = %+v, want outcome %d and code %q", got, tt.want, tt.code)
			}
			if len(v.pending) == 0 && run.Judge(s, tt.sig) != got {
				t.Error("Judge() of the State differs from Judge() of a View of it")
			}
		})
	}
}

// contract: T56
func TestJudge_AppliesThePolicyOfTheRun(t *testing.T) {
	t.Parallel()
	s := run.Project(runtest.ID, runtest.Log(runtest.Start("bad"), stepFailed("bad", 2, "E")))
	policy := *s.Policy
	policy.MaxLogicalAttemptsManual = 2
	s.Policy = &policy
	if got := run.Judge(s, run.Signal{Type: run.RetryStep, StepID: "bad"}); got.Code != run.CodeRetryDenied ||
		!strings.Contains(got.Message, "allows 2") {
		t.Errorf("Judge() = %+v, want the rejection by the policy's limit of 2", got)
	}
	s.Policy = nil
	if got := s.MaxAttempts(); got != run.DefaultMaxAttempts {
		t.Errorf("MaxAttempts() without a policy = %d, want %d", got, run.DefaultMaxAttempts)
	}
}

func TestJudge_AnswersAnySignalOnAnyState(t *testing.T) {
	t.Parallel()
	types := []run.SignalType{run.Pause, run.Resume, run.RetryStep, run.SkipStep, run.UpdateParams, run.InjectOverride,
		run.EscalateAlert, run.UpdateTarget, run.EmergencyStop, run.Cancel, run.CompleteManual, ""}
	for seed := range logs / 10 {
		s := run.Project(runtest.ID, runtest.Hostile(uint64(seed)))
		for _, typ := range types {
			for _, id := range []string{"", "s0", "stranger"} {
				if got := run.Judge(s, run.Signal{Type: typ, StepID: id, ExpectedAttempt: seed % 3}); got.Message == "" ||
					(got.Outcome == run.Accept) != (got.Code == "") {
					t.Fatalf("seed %d: Judge(%s %s) = %+v, want a message, and a code unless accepted", seed, typ, id, got)
				}
			}
		}
	}
}
