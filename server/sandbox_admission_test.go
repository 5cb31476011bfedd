package server_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/Khan/genqlient/graphql"

	"github.com/dvt-engine/dvt/client"
	"github.com/dvt-engine/dvt/plan"
)

// A worker process reports the capabilities of its sandbox, and servers admit plans by this report.
func TestSandbox_PlansAreAdmittedByTheReportOfTheirWorker(t *testing.T) {
	t.Parallel()
	p := startDeployment(t, "operators-tenant: acme")
	operator := client.New(p.urlB, samToken)
	var worker client.WorkerRow
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
	drainTheWorker(t, p, worker)
}

// drainTheWorker drains the only data worker while it runs a step. That step ends in peace, and the next one waits
// until the drain has ended.
func drainTheWorker(t *testing.T, p *deployment, worker client.WorkerRow) {
	t.Helper()
	ada, operator := client.New(p.urlA, adaToken), client.New(p.urlB, samToken)
	set := func(as graphql.Client, drain bool) (*client.DrainWorkerResponse, error) {
		return client.DrainWorker(t.Context(), as, client.DrainWorkerInput{RequestId: fmt.Sprintf("drain-%t", drain),
			Account: worker.Account, Worker: worker.Worker, Drain: drain, Reason: "a new kernel"})
	}
	state := func(what string, holds func(client.WorkerRow) bool) {
		t.Helper()
		waitUntil(t, what, time.Minute, func() bool {
			out, err := client.ShowWorkers(t.Context(), operator)
			must(t, err)
			for _, w := range out.Workers {
				if w.Worker == worker.Worker && w.Queue == worker.Queue {
					return holds(w)
				}
			}
			return false
		})
	}
	if _, err := set(ada, true); err == nil || !strings.Contains(client.AsAPIError(err).Error(), "FORBIDDEN") {
		t.Errorf("an engineer who drains a worker gets %v, want FORBIDDEN", err)
	}
	busy := start(t, ada, "busy", stepsPlan("busy",
		`{"stepId":"s1","type":"COMMAND","inputs":{"argv":["sleep","30"]},"timeout":"1m"}`))
	state("the worker says that it runs the step", func(w client.WorkerRow) bool {
		return w.InUse == 1 && len(w.Steps) == 1 && w.Steps[0].RunId == busy && w.Last && w.Slots > 1
	})
	for range 2 { // repeating changes nothing
		out, err := set(operator, true)
		must(t, err)
		if d := out.DrainWorker; len(d.Workers) == 0 || d.Workers[0].Drain == nil || d.Workers[0].Drain.Actor != "sam" {
			t.Errorf("the drained worker is %+v, want sam's drain", d.Workers)
		}
	}
	state("the worker is drained", func(w client.WorkerRow) bool { return w.Drained && !w.Last })
	next := start(t, ada, "next", stepsPlan("next",
		`{"stepId":"s1","type":"COMMAND","inputs":{"argv":["true"]},"timeout":"1m"}`))
	if st := waitForEnd(t, ada, busy, time.Minute); st.Status != client.RunStatusCompleted {
		t.Errorf("the step that ran when its worker was drained ended %s, want COMPLETED", st.Status)
	}
	out, err := client.ShowRun(t.Context(), ada, next, nil)
	must(t, err)
	if out.Run.Status == client.RunStatusCompleted {
		t.Error("the drained worker began a step")
	}
	_, err = set(operator, false)
	must(t, err)
	if st := waitForEnd(t, ada, next, time.Minute); st.Status != client.RunStatusCompleted {
		t.Errorf("after the drain the run ended %s, want COMPLETED", st.Status)
	}
}
