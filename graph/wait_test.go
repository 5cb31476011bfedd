package graph_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/control/reads"
	"github.com/dvt-engine/dvt/run"
)

// PollerSeen returns a time only for the data queue.
func (f *fake) PollerSeen(_ context.Context, queue string) *time.Time {
	if queue != "tq-data-dev" {
		return nil
	}
	return after(-time.Hour)
}

// StepWaits returns what the test set.
func (f *fake) StepWaits(context.Context, control.RunView) map[string]reads.StepWait {
	return f.stepWaits
}

// RunWaits returns what the test set.
func (f *fake) RunWaits(context.Context, authz.Principal, string) ([]reads.RunWait, error) {
	return f.runWaits, nil
}

// What only the engine knows replaces the wait for a worker: the quota of heavy steps, with the time of the next try.
// contract: R441, T37
func TestWait_ForTheQuotaOfHeavySteps(t *testing.T) {
	t.Parallel()
	v := failedRun()
	v.State.RetryDeadline, v.State.Counts.Failed = nil, 0
	step := *v.State.Steps[0]
	step.Status, step.DependsOn = run.StepPending, nil
	v.State.Steps = []*run.Step{&step}
	f := newAnsweringFake()
	f.run = func(authz.Principal, string, *run.Seq) (control.RunView, error) { return v, nil }
	quota := reads.StepWait{Kind: reads.WaitQuota, Since: *after(0), Until: *after(time.Minute)}
	f.stepWaits = map[string]reads.StepWait{step.StepID: quota}
	f.runWaits = []reads.RunWait{{Kind: reads.WaitPlan, Message: "m", Help: "h", Try: 2, Tries: 3}}
	got := serve(t, f).query(`{ run(runId: "r1") { steps { notBefore wait { kind since until } }
		waits { kind since message help whoCould try tries httpStatus } } }`, nil)
	for _, want := range []string{`"notBefore":"2026-11-21T03:13:07.123Z"`,
		`"wait":{"kind":"QUOTA","since":"2026-11-21T03:12:07.123Z","until":"2026-11-21T03:13:07.123Z"}`,
		`"waits":[{"kind":"PLAN_FETCH","since":null,"message":"m","help":"h","whoCould":[],` +
			`"try":2,"tries":3,"httpStatus":null}]`} {
		if !strings.Contains(got, want) {
			t.Errorf("the query answered %s, want %s in it", got, want)
		}
	}
}

func TestWait_ForAWorkerNamesTheQueueAndItsLastPoller(t *testing.T) {
	t.Parallel()
	v := failedRun()
	v.State.RetryDeadline, v.State.Counts.Failed = nil, 0
	for i, kind := range []string{"COMMAND", "COMMAND", "NOOP", "SLEEP"} {
		step := *v.State.Steps[i]
		step.Type, step.Status, step.DependsOn = kind, run.StepPending, nil
		if kind == "NOOP" {
			step.TaskQueue = "tq-control-dev"
		}
		v.State.Steps[i] = &step
	}
	f := newAnsweringFake()
	f.run = func(authz.Principal, string, *run.Seq) (control.RunView, error) { return v, nil }
	const wait = `{ stepId wait { kind taskQueue pollerSeenAt } }`
	known := `"wait":{"kind":"WORKER","taskQueue":"tq-data-dev","pollerSeenAt":"2026-11-21T02:12:07.123Z"}`
	want := `"steps":[{"stepId":"compile",` + known + `},{"stepId":"build",` + known +
		`},{"stepId":"test","wait":{"kind":"WORKER","taskQueue":"tq-control-dev","pollerSeenAt":null}},` +
		`{"stepId":"ship","wait":{"kind":"WORKER","taskQueue":null,"pollerSeenAt":null}}]`
	a := serve(t, f)
	if got := a.query(`{ run(runId: "r1") { steps `+wait+` } }`, nil); !strings.Contains(got, want) {
		t.Errorf("the query answered %s, want %s in it", got, want)
	}
	refused := "Wait.pollerSeenAt is not available inside a subscription; select it on run(runId:)."
	if got := a.query(`subscription { runUpdates(runId: "r1") { snapshot { steps `+wait+` } } }`,
		nil); !strings.Contains(got, refused) {
		t.Errorf("the subscription was answered %s, want %q in it", got, refused)
	}
}

// A failed step holds the whole run: a step that does not need it waits too, and says why.
func TestWait_TellsHeldStepsFromBlockedOnes(t *testing.T) {
	t.Parallel()
	f := newAnsweringFake()
	v := failedRun()
	v.State.Steps = append(v.State.Steps,
		&run.Step{StepOutline: run.StepOutline{StepID: "other", Type: "COMMAND", DependsOn: []string{"compile"}}, Ord: 4,
			Status: run.StepPending},
		&run.Step{StepOutline: run.StepOutline{StepID: "later", Type: "COMMAND", DependsOn: []string{"other"}}, Ord: 5,
			Status: run.StepPending})
	f.run = func(authz.Principal, string, *run.Seq) (control.RunView, error) { return v, nil }
	a := serve(t, f)
	const query = `{ run(runId: "r1") { rootCause { blockedSteps heldSteps } cancellation { actor }
		steps { stepId wait { kind blockingSteps } } } }`
	want := `{"data":{"run":{"rootCause":{"blockedSteps":2,"heldSteps":4},"cancellation":null,"steps":[` +
		`{"stepId":"compile","wait":null},{"stepId":"build","wait":{"kind":"PERSON","blockingSteps":[]}},` +
		`{"stepId":"test","wait":{"kind":"FAILED_STEP","blockingSteps":["build"]}},` +
		`{"stepId":"ship","wait":{"kind":"FAILED_STEP","blockingSteps":["build"]}},` +
		`{"stepId":"other","wait":{"kind":"FAIL_FAST","blockingSteps":["build"]}},` +
		`{"stepId":"later","wait":{"kind":"FAIL_FAST","blockingSteps":["build"]}}]}}}`
	if got := a.query(query, nil); got != want {
		t.Errorf("answered\n%s\nwant\n%s", got, want)
	}
}

// A cancelled run has no culprit: its attempts ended because somebody stopped it.
func TestRun_SaysWhoCancelledItInsteadOfACause(t *testing.T) {
	t.Parallel()
	f := newAnsweringFake()
	v := failedRun()
	v.State.Status, v.State.RetryDeadline = run.Cancelled, nil
	v.State.Cancellation = &run.Cancellation{SignalID: "s9", SignalType: run.Cancel, Actor: "ola", Reason: "wrong day",
		At: instant, Seq: 9}
	v.State.RootCause = &run.StepRef{StepID: "build", LogicalAttempt: 1, Seq: 7,
		Error: &run.StepError{Code: string(run.CodeCancelled)}}
	f.run = func(authz.Principal, string, *run.Seq) (control.RunView, error) { return v, nil }
	a := serve(t, f)
	const query = `{ run(runId: "r1") { rootCause { stepId blockedSteps heldSteps }
		cancellation { signalId signalType actor reason code at runSeq } } }`
	want := `{"data":{"run":{"rootCause":null,"cancellation":{"signalId":"s9","signalType":"CANCEL","actor":"ola",` +
		`"reason":"wrong day","code":null,"at":"2026-11-21T03:12:07.123Z","runSeq":9}}}}`
	if got := a.query(query, nil); got != want {
		t.Errorf("answered\n%s\nwant\n%s", got, want)
	}
	v.State.RootCause.Error.Code = "EXIT_STATUS" // it had failed before the run was cancelled
	if got := a.query(query, nil); !strings.Contains(got, `"rootCause":{"stepId":"build","blockedSteps":0,"heldSteps":0}`) {
		t.Errorf("answered %s, want the failure with no blocked steps", got)
	}
}
