package server_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/dvt-engine/dvt/client"
	"github.com/dvt-engine/dvt/plan"
)

// A worker process reports the capabilities of its sandbox, and servers admit plans by this report.
func TestSandbox_PlansAreAdmittedByTheReportOfTheirWorker(t *testing.T) {
	t.Parallel()
	p := startDeployment(t)
	operator := client.New(p.urlB, samToken)
	var worker client.ShowWorkersWorkersWorkerReport
	waitUntil(t, "the data worker reports its sandbox", time.Minute, func() bool {
		out, err := client.ShowWorkers(t.Context(), operator)
		must(t, err)
		for _, w := range out.Workers {
			if w.Queue == "tq-data-dev" && w.Live && w.Ok {
				worker = w
			}
		}
		return worker.Worker != ""
	})
	if len(worker.Parts)+len(worker.Missing) != len(plan.SandboxParts()) || worker.Account == "" || worker.Runtime == "" {
		t.Errorf("the worker reports %+v, want each part of a sandbox as present or missing", worker)
	}
	if _, err := client.ShowWorkers(t.Context(), client.New(p.urlA, adaToken)); err == nil ||
		!strings.Contains(client.AsAPIError(err).Error(), "FORBIDDEN") {
		t.Errorf("an engineer who asks for the workers gets %v, want FORBIDDEN", err)
	}
	requiring := func(part string) []byte {
		return stepsPlan("requires-"+part, fmt.Sprintf(
			`{"stepId":"s1","type":"COMMAND","inputs":{"argv":["true"]},"timeout":"1m","sandbox":{"require":[%q]}}`, part))
	}
	ada := client.New(p.urlA, adaToken)
	for _, missing := range worker.Missing {
		doc := json.RawMessage(requiring(missing.Part))
		_, err := client.StartRun(t.Context(), ada, client.StartRunInput{
			Plan: client.PlanInput{Inline: &doc}, RunRequestId: "missing-" + missing.Part, ProjectId: "shop",
			EnvironmentId: "dev",
		})
		want := fmt.Sprintf("step s1 requires %s; workers of queue tq-data-dev lack: %s", missing.Part, missing.Part)
		if err == nil || !strings.Contains(client.AsAPIError(err).Error(), "SANDBOX_UNAVAILABLE") ||
			!strings.Contains(client.AsAPIError(err).Error(), want) {
			t.Errorf("a plan that requires %s is answered with %v, want SANDBOX_UNAVAILABLE and %q", missing.Part, err, want)
		}
	}
	for _, part := range worker.Parts {
		if st := waitForEnd(t, ada, start(t, ada, "has-"+part, requiring(part)),
			time.Minute); st.Status != client.RunStatusCompleted {
			t.Errorf("a run that requires %s, which its worker has, ended %s, want COMPLETED", part, st.Status)
		}
	}
}
