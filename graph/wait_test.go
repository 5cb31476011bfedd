package graph_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/run"
)

// PollerSeen returns a time only for the data queue.
func (f *fake) PollerSeen(_ context.Context, queue string) *time.Time {
	if queue != "tq-data-dev" {
		return nil
	}
	return after(-time.Hour)
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
