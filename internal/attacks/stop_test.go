package attacks_test

import (
	"context"
	"strings"
	"syscall"
	"testing"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	sdk "go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
)

// stoppedByDvt is the reason in the receipt of a stop that dvt carried out without the engine.
const stoppedByDvt = "dvt ended the run by itself"

// slack is the time beyond stopWithin that an end by the sweep may take: the interval of the sweep, and a slow machine.
const slack = 25 * time.Second

const queueUnserved = "tq-nobody-runs-workflows-here"

// unservedOptions are the options of an execution on a queue without workers. It accepts signals and does nothing.
var unservedOptions = sdk.StartWorkflowOptions{TaskQueue: queueUnserved}

// takeID starts an execution of the stranger under the id of a run of acme.
func (s *stranger) takeID(
	ctx context.Context, runID, workflowType string, o sdk.StartWorkflowOptions, input ...any,
) (sdk.WorkflowRun, error) {
	o.ID, o.WorkflowIDReusePolicy = workflowID("acme", runID), enumspb.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE
	return s.client.ExecuteWorkflow(ctx, o, workflowType, input...)
}

// replace ends the execution of a run and starts the stranger's in its place.
func (s *stranger) replace(t *testing.T, runID, workflowType string, o sdk.StartWorkflowOptions, input ...any) {
	t.Helper()
	must(t, s.client.TerminateWorkflow(t.Context(), workflowID("acme", runID), "", "says somebody"))
	_, err := s.takeID(t.Context(), runID, workflowType, o, input...)
	must(t, err)
}

// expectStoppedByDvt waits until a run that was cancelled at a given time is CANCELLED by dvt itself, within
// stopWithin.
func (w *world) expectStoppedByDvt(t *testing.T, runID string, cancelled time.Time) {
	t.Helper()
	w.expectEnd(t, operator, runID, "CANCELLED", stopWithin+slack)
	t.Logf("the run was over %s after cancelRun", time.Since(cancelled).Round(time.Second))
	r := w.receiptOf(t, operator, runID)
	if r.Application != "APPLIED" || !strings.Contains(r.ApplicationReason, stoppedByDvt) {
		t.Errorf("the receipt is %+v, want APPLIED by dvt itself", r)
	}
}

// expectOrdinary starts a run and waits until it is COMPLETED.
func (w *world) expectOrdinary(t *testing.T) {
	t.Helper()
	runID := w.startRun(t, operator, "shop", noop("n"))
	w.expectEnd(t, operator, runID, "COMPLETED", time.Minute)
}

// A stranger's execution under the id of a run does not keep the run from being executed, regardless of its type and
// whether it is open.
//
// contract: T111, T130
func TestStranger_CannotKeepARunFromItsStart(t *testing.T) {
	t.Parallel()
	w := installation(t)
	for what, hold := range map[string]func(t *testing.T, runID string){
		"by a workflow of another type": func(t *testing.T, runID string) {
			_, err := w.stranger.takeID(t.Context(), runID, "stranger.holds", unservedOptions)
			must(t, err)
		},
		"by the workflow of dvt on a queue without workers": func(t *testing.T, runID string) {
			_, err := w.stranger.takeID(t.Context(), runID, "dvt.run", unservedOptions,
				map[string]any{"identity": identity(runID, "vault", planName(t))})
			must(t, err)
		},
		"by a workflow that completed": func(t *testing.T, runID string) {
			served := sdk.StartWorkflowOptions{TaskQueue: strangerQueue}
			run, err := w.stranger.takeID(t.Context(), runID, strangerDone, served)
			must(t, err)
			must(t, run.Get(t.Context(), nil))
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			runID := w.startRun(t, operator, "vault", noop("n"))
			hold(t, runID)
			w.approve(t, runID)
			w.expectOrdinary(t)
			w.expectEnd(t, operator, runID, "COMPLETED", time.Minute)
			w.expectAudit(t, admin, runID, "dvt did not start")
		})
	}
}

// holdForEver ends the execution under the id of a run and takes the id, repeatedly until the test ends.
func (s *stranger) holdForEver(t *testing.T, runID string) {
	t.Helper()
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan struct{})
	take := func() error {
		_, err := s.takeID(ctx, runID, "stranger.holds", sdk.StartWorkflowOptions{
			TaskQueue: queueUnserved, WorkflowIDConflictPolicy: enumspb.WORKFLOW_ID_CONFLICT_POLICY_TERMINATE_EXISTING,
		})
		return err
	}
	must(t, take())
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			_ = take() // the loop tries again after an error
			time.Sleep(20 * time.Millisecond)
		}
	}()
	t.Cleanup(func() { stop(); <-done })
}

// A stranger who takes the id of a run repeatedly keeps the run from being executed. cancelRun still ends it.
//
// contract: T99, T200
func TestCancelRun_EndsARunWhoseIDAStrangerTakesForEver(t *testing.T) {
	t.Parallel()
	w := installation(t)
	for what, stop := range map[string]string{
		"cancelRun": `cancelRun(input: {runId: $r, signalId: "stop", reason: "held"})`,
		"a forced stop": `signalRun(input: {
			runId: $r, signalId: "stop", signal: {emergencyStop: {reason: "held", forceKill: true}}})`,
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			s, release, _ := waitingStep(t, "s", queueData) // the run cannot complete if dvt starts it for a moment
			defer release()
			runID := w.startRun(t, operator, "vault", s)
			w.stranger.holdForEver(t, runID)
			w.approve(t, runID)
			time.Sleep(2 * time.Second) // time for the reconciler to try a start
			var none any
			mutation := "mutation($r: String!) { " + stop + " { signal { signalId } } }"
			must(t, w.graphql(t.Context(), admin, mutation, map[string]any{"r": runID}, &none))
			w.expectOrdinary(t)
			w.expectEnd(t, operator, runID, "CANCELLED", stopWithin+slack)
		})
	}
}

// A stranger ends the execution of a run and starts his own in its place. It accepts signals and does nothing.
//
// contract: T99, T192, T200
func TestCancelRun_EndsARunWhoseExecutionAStrangerReplaced(t *testing.T) {
	t.Parallel()
	w := installation(t)
	for what, replace := range map[string]func(t *testing.T, runID string){
		"by the workflow of dvt on a queue without workers": func(t *testing.T, runID string) {
			w.stranger.replace(t, runID, "dvt.run", unservedOptions,
				map[string]any{"identity": identity(runID, "shop", planName(t))})
		},
		"by a workflow of another type": func(t *testing.T, runID string) {
			w.stranger.replace(t, runID, "stranger.holds", unservedOptions)
		},
		"by a copy that begins in a hundred days": func(t *testing.T, runID string) {
			input, memo := w.stranger.readStart(t, runID)
			late := sdk.StartWorkflowOptions{TaskQueue: controlQueue, Memo: memo, StartDelay: 100 * 24 * time.Hour}
			w.stranger.replace(t, runID, "dvt.run", late, input)
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			s, release, _ := waitingStep(t, "s", queueData)
			defer release()
			runID := w.startRun(t, operator, "shop", s)
			w.waitForStart(t, operator, runID, "s")
			replace(t, runID)
			w.cancel(t, admin, runID)
			cancelledAt := time.Now()
			if r := w.receiptOf(t, operator, runID); !strings.Contains(r.ApplicationReason, "dvt ends it by itself") {
				t.Errorf("the receipt does not say when dvt ends the run: %+v", r)
			}
			w.expectOrdinary(t)
			w.expectStoppedByDvt(t, runID, cancelledAt)
			last, err := w.readRun(t.Context(), operator, runID)
			must(t, err)
			if e := last.step("s").Error; e == nil || e.Code != "CANCELLED" || last.countEvents("StepFailed", "s") != 1 {
				t.Errorf("the attempt did not end as cancelled: %s", last)
			}
			w.stranger.expectClosed(t, runID)
		})
	}
}

// Temporal accepts the order, but no control worker carries it out, because its process is stopped. The test is not
// parallel, because it stops all other runs too.
//
// contract: T99, T192, T200
func TestCancelRun_EndsARunWhileItsControlWorkerIsStopped(t *testing.T) {
	w := installation(t)
	s, release, _ := waitingStep(t, "s", queueData)
	defer release()
	beside, releaseBeside, mark := waitingStep(t, "beside", queueData)
	victim := w.startRun(t, operator, "shop", s)
	other := w.startRun(t, operator, "shop", beside, noop("after", "beside"))
	w.waitForStart(t, operator, victim, "s")
	w.waitForStart(t, operator, other, "beside")
	w.control.signal(t, syscall.SIGSTOP)
	defer w.control.signal(t, syscall.SIGCONT)
	w.cancel(t, admin, victim)
	cancelledAt := time.Now()
	waitUntil(t, "the receipt names the time since when the engine has the order", 10*time.Second, func() bool {
		r := w.receiptOf(t, operator, victim)
		return r.Application == "DELIVERED" && strings.Contains(r.ApplicationReason, "has had the order since")
	})
	w.expectStoppedByDvt(t, victim, cancelledAt)
	w.stranger.expectClosed(t, victim)
	w.control.signal(t, syscall.SIGCONT)
	releaseBeside()
	w.expectRealEnd(t, operator, other, "beside", mark)
}

// readStart returns the input and the memo of a run's execution.
func (s *stranger) readStart(t *testing.T, runID string) (input map[string]any, memo map[string]any) {
	t.Helper()
	a := s.readHistory(t, "acme", runID)[0].GetWorkflowExecutionStartedEventAttributes()
	must(t, converter.GetDefaultDataConverter().FromPayloads(a.GetInput(), &input))
	memo = map[string]any{}
	for k, p := range a.GetMemo().GetFields() {
		var v any
		must(t, converter.GetDefaultDataConverter().FromPayload(p, &v))
		memo[k] = v
	}
	return input, memo
}

// expectClosed waits until no execution is open under the id of a run.
func (s *stranger) expectClosed(t *testing.T, runID string) {
	t.Helper()
	waitUntil(t, "the execution of the run that ended is closed", time.Minute, func() bool {
		d, err := s.client.DescribeWorkflowExecution(t.Context(), workflowID("acme", runID), "")
		return err == nil && d.GetWorkflowExecutionInfo().GetStatus() != enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING
	})
}

// Without a cancel dvt finds the stranger's execution and ends it. The run fails as one whose execution was terminated.
//
// contract: E-16, T99
func TestStranger_CannotWedgeARunByReplacingItsExecution(t *testing.T) {
	t.Parallel()
	w := installation(t)
	s, release, _ := waitingStep(t, "s", queueData)
	defer release()
	runID := w.startRun(t, operator, "shop", s)
	w.waitForStart(t, operator, runID, "s")
	w.stranger.replace(t, runID, "dvt.run", unservedOptions, map[string]any{"identity": identity(runID, "shop",
		planName(t))})
	last := w.expectEnd(t, operator, runID, "FAILED", 90*time.Second)
	if last.RootCause == nil || last.RootCause.Code != "ENGINE_TERMINATED" && last.RootCause.Code != "TERMINATED" {
		t.Errorf("the run failed because of %+v, want that its execution was ended: %s", last.RootCause, last)
	}
	w.expectAudit(t, admin, runID, "dvt did not start")
}

// dvt's own workers run a copy of the run's own start, under its id and on its queue. It continues from the state in
// the log.
//
// contract: T111, T130
func TestStranger_ACopyOfTheRunsExecutionContinuesTheRun(t *testing.T) {
	t.Parallel()
	w := installation(t)
	s, release, mark := waitingStep(t, "s", queueData)
	runID := w.startRun(t, operator, "shop", noop("before"), s.after("before"), noop("after", "s"))
	w.waitForStart(t, operator, runID, "s")
	input, memo := w.stranger.readStart(t, runID)
	w.stranger.replace(t, runID, "dvt.run", sdk.StartWorkflowOptions{TaskQueue: controlQueue, Memo: memo}, input)
	release()
	last := w.waitForEnd(t, operator, runID, 2*time.Minute)
	if !last.hasEnded() {
		t.Errorf("the run has not ended within two minutes: %s", last)
	}
	once := last.countEvents("StepCompleted", "s") == 1 && last.countEvents("StepCompleted", "before") == 1
	if last.StatusRaw == "COMPLETED" && (!exists(mark) || !once) {
		t.Errorf("the run is COMPLETED and its steps did not each complete once: %s", last)
	}
	t.Logf("the run ended: %s", last)
}

// A terminated execution whose id names a run of another tenant has no effect on that run.
//
// contract: T99
func TestStranger_CannotEndARunByAnExecutionThatNamesIt(t *testing.T) {
	t.Parallel()
	w := installation(t)
	s, release, mark := waitingStep(t, "s", queueData)
	runID := w.startRun(t, operator, "shop", s)
	w.waitForStart(t, operator, runID, "s")
	id := workflowID("globex", runID)
	_, err := w.stranger.client.ExecuteWorkflow(t.Context(), sdk.StartWorkflowOptions{
		ID: id, TaskQueue: queueUnserved, TypedSearchAttributes: temporal.NewSearchAttributes(
			temporal.NewSearchAttributeKeyKeyword("DvtRunId").ValueSet(runID),
			temporal.NewSearchAttributeKeyKeyword("DvtTenantId").ValueSet("globex"),
			temporal.NewSearchAttributeKeyKeyword("DvtProjectId").ValueSet("shop"),
		),
	}, "dvt.run")
	must(t, err)
	must(t, w.stranger.client.TerminateWorkflow(t.Context(), id, "", "says somebody"))
	for deadline := time.Now().Add(25 * time.Second); time.Now().Before(deadline); time.Sleep(time.Second) {
		if r, err := w.readRun(t.Context(), operator, runID); err == nil && r.hasEnded() {
			t.Fatalf("the run is over: %s", r)
		}
	}
	release()
	w.expectRealEnd(t, operator, runID, "s", mark)
	w.expectEnd(t, operator, runID, "COMPLETED", time.Minute)
}

// Temporal does not answer during cancelRun, because its process is stopped. The test is not parallel, because it stops
// all other runs too.
//
// contract: T99, T192, T200
func TestCancelRun_EndsARunWhileTemporalIsStopped(t *testing.T) {
	w := installation(t)
	s, release, _ := waitingStep(t, "s", queueData)
	defer release()
	beside, releaseBeside, mark := waitingStep(t, "beside", queueData)
	beside["retry"] = map[string]any{"maxAttempts": 3} // Temporal may count its heartbeat as missed
	victim := w.startRun(t, operator, "shop", s)
	other := w.startRun(t, operator, "shop", beside, noop("after", "beside"))
	w.waitForStart(t, operator, victim, "s")
	w.waitForStart(t, operator, other, "beside")
	process := w.engine.PID()
	must(t, syscall.Kill(process, syscall.SIGSTOP))
	resume := func() { _ = syscall.Kill(process, syscall.SIGCONT) }
	defer resume()
	w.cancel(t, admin, victim)
	w.expectStoppedByDvt(t, victim, time.Now())
	resume()
	w.stranger.expectClosed(t, victim)
	releaseBeside()
	last := w.expectEnd(t, operator, other, "COMPLETED", 2*time.Minute)
	if !exists(mark) || last.countEvents("StepCompleted", "beside") != 1 {
		t.Errorf("the other run did not complete its step once: %s", last)
	}
	w.expectOrdinary(t)
}
