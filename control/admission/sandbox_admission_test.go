package admission_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/control/access"
	"github.com/dvt-engine/dvt/control/controltest"
	"github.com/dvt-engine/dvt/control/journal"
	"github.com/dvt-engine/dvt/control/runs"
	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
	"github.com/dvt-engine/dvt/store"
)

// programs returns a plan with a COMMAND step for each sandbox; nil leaves the sandbox out.
func programs(t *testing.T, sandboxes ...controltest.M) []byte {
	t.Helper()
	var steps []controltest.M
	for i, sandbox := range sandboxes {
		step := controltest.M{"stepId": fmt.Sprintf("s%d", i+1), "type": "COMMAND",
			"inputs":  controltest.M{"argv": []string{"true"}},
			"timeout": "1m", "dependsOn": []string{}}
		if sandbox != nil {
			step["sandbox"] = sandbox
		}
		steps = append(steps, step)
	}
	return controltest.Document(controltest.M{"steps": steps})
}

// bound sets the sandbox ceilings of the tenant.
func (w *world) bound(version int64, rows ...authz.Sandbox) {
	w.T.Helper()
	doc := &authz.Document{
		Sandbox: rows, Grants: []authz.PrincipalGrant{{Principal: w.Engineer().ID, Role: authz.Admin, ProjectID: "*",
			EnvironmentID: "*"}}}
	if err := w.Authz.Load(
		authz.Stored{Version: version, Policies: []authz.StoredPolicy{{TenantID: "acme", Version: version,
			Document: doc}}}); err != nil {
		w.T.Fatal(err)
	}
}

func (w *world) report(r engine.WorkerReport) {
	w.T.Helper()
	if _, err := w.ReporterOf("acme-worker").Report(w.T.Context(), r); err != nil {
		w.T.Fatal(err)
	}
}

// refusal starts a run and returns the code of the refusal and the messages of its violations.
func (w *world) refusal(requestID string, doc []byte) (run.Code, []string) {
	w.T.Helper()
	_, err := w.StartRun(w.T.Context(), w.Engineer(), controltest.StartOf(requestID, doc))
	if err == nil {
		return "", nil
	}
	var own *control.Error
	if !errors.As(err, &own) {
		w.T.Fatalf("refused with %v, want a *control.Error", err)
	}
	var out []string
	for _, v := range own.Violations {
		out = append(out, v.Path+": "+v.Message)
	}
	return own.Code, out
}

func TestStartRun_RefusesSandboxesAboveThePolicy(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.bound(1, authz.Sandbox{ProjectID: "shop", EnvironmentID: "dev", Memory: 64 << 20, PIDs: 10,
		Connect: []string{"db:5432"}})
	code, said := w.refusal("above", programs(t, controltest.M{"memory": 65 << 20, "pids": 11}, nil,
		controltest.M{"connect": []string{"443"}}))
	want := []string{
		`steps["s1"].sandbox.memory: the tenant's policy permits at most 67108864 bytes here`,
		`steps["s1"].sandbox.pids: the tenant's policy permits at most 10 processes and threads here`,
		`steps["s3"].sandbox.connect[0]: the tenant's policy does not permit connections to "443" here; it permits db:5432`,
	}
	if code != run.CodeSandboxDenied || cmp.Diff(want, said) != "" {
		t.Errorf("code %q, violations (-want +got):\n%s", code, cmp.Diff(want, said))
	}
	if code, said := w.refusal("within", programs(t, controltest.M{"memory": 64 << 20, "pids": 10,
		"connect": []string{"db:5432"}},
		nil)); code != "" {
		t.Errorf("a plan within the ceilings is refused: %s %v", code, said)
	}
}

func TestStartAttempt_AppliesTheCeilingsToSteps(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	j := w.NewJournal(func(c *journal.Config) { c.Sandbox = w.Authz.Sandbox })
	started := controltest.Must[runs.StartedRun](t)(
		w.StartRun(t.Context(), w.Engineer(), controltest.StartOf("begin", programs(t, nil,
			controltest.M{"memory": 128 << 20}))))
	id := started.View.Run.RunID
	w.HandOver()
	sk := controltest.Must[engine.Skeleton](t)(j.Skeleton(t.Context(), id))
	if sk.Failure != nil {
		t.Fatalf("the run fails with %+v, want no failure", sk.Failure)
	}
	w.AppendEvents(id, runtest.Start("s1<", "s2<"))
	// A policy that changes after the start applies to the steps that begin afterwards.
	w.bound(1, authz.Sandbox{ProjectID: "*", EnvironmentID: "*", Memory: 64 << 20, PIDs: 5,
		Require: []plan.SandboxPart{plan.SandboxFiles}})
	for step, memory := range map[string]int64{"s1": 0, "s2": 64 << 20} {
		b := controltest.Must[engine.AttemptStarted](t)(j.StartAttempt(t.Context(), w.BeginOf(id, step, 1, 1)))
		want := &plan.Sandbox{Memory: memory, Require: []plan.SandboxPart{plan.SandboxFiles}}
		if diff := cmp.Diff(want, b.Step.Sandbox); diff != "" {
			t.Errorf("sandbox of step %s (-want +got):\n%s", step, diff)
		}
		if diff := cmp.Diff(plan.SandboxLimits{Memory: 64 << 20, PIDs: 5}, b.SandboxCeiling); diff != "" {
			t.Errorf("ceiling of step %s (-want +got):\n%s", step, diff)
		}
	}
	if sk := controltest.Must[engine.Skeleton](t)(j.Skeleton(t.Context(), id)); sk.Failure != nil {
		t.Errorf("a run that has started fails with %+v after the policy changed", sk.Failure)
	}
	unreadable := w.NewJournal(func(c *journal.Config) {
		c.Sandbox = func(string, string, string) (plan.SandboxCeiling, error) {
			return plan.SandboxCeiling{}, authz.ErrUnavailable
		}
	})
	if _, err := unreadable.StartAttempt(t.Context(), w.BeginOf(id, "s1", 1, 2)); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("Begin with an unreadable policy returned %v, want ErrUnavailable", err)
	}
}

func TestStartRun_RefusesWhatNoWorkerCanIsolate(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	asking := programs(t, controltest.M{"require": []string{"memory", "pids"}})
	const none = `steps["s1"].sandbox.require: step s1 requires memory, pids; no worker of queue tq-data-dev has reported in the last 2 minutes`
	if code, said := w.refusal("silent", asking); code != run.CodeNoSandbox || cmp.Diff([]string{none}, said) != "" {
		t.Errorf("without workers: code %q, violations %v, want %s", code, said, none)
	}
	if code, said := w.refusal("silent-but-easy", programs(t, controltest.M{"pids": 5})); code != "" {
		t.Errorf("a plan that requires nothing is refused without workers: %s %v", code, said)
	}
	w.report(controltest.ReportOf("w1", plan.SandboxMemory))
	w.report(controltest.ReportOf("w2"))
	const lack = `steps["s1"].sandbox.require: step s1 requires memory, pids; workers of queue tq-data-dev lack: pids (no delegated cgroup)`
	if code, said := w.refusal("lack", asking); code != run.CodeNoSandbox || cmp.Diff([]string{lack}, said) != "" {
		t.Errorf("with workers that lack a part: code %q, violations %v, want %s", code, said, lack)
	}
	broken := controltest.ReportOf("w3", plan.SandboxMemory, plan.SandboxPIDs)
	broken.OK, broken.Problem = false, "the probe could read /etc/shadow"
	w.report(broken)
	if code, _ := w.refusal("broken", asking); code != run.CodeNoSandbox {
		t.Errorf("a worker whose verification failed counts: code %q, want SANDBOX_UNAVAILABLE", code)
	}
	w.report(controltest.ReportOf("w4", plan.SandboxMemory, plan.SandboxPIDs))
	first := controltest.Must[runs.StartedRun](t)(w.StartRun(t.Context(), w.Engineer(), controltest.StartOf("able",
		asking)))
	w.Clock.Advance(2*time.Minute + time.Second)
	if code, said := w.refusal("later", asking); code != run.CodeNoSandbox || len(said) != 1 ||
		!strings.Contains(said[0], "has reported") {
		t.Errorf("reports that are too old give code %q and violations %v, want SANDBOX_UNAVAILABLE", code, said)
	}
	again := controltest.Must[runs.StartedRun](t)(w.StartRun(t.Context(), w.Engineer(), controltest.StartOf("able",
		asking)))
	if !again.Deduplicated || again.View.Run.RunID != first.View.Run.RunID {
		t.Errorf("the repeated request answers %s, deduplicated %t, want run %s", again.View.Run.RunID,
			again.Deduplicated,
			first.View.Run.RunID)
	}
}

func TestStartRun_RequiresThePartsOfThePolicy(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.bound(1, authz.Sandbox{ProjectID: "*", EnvironmentID: "*", Require: []plan.SandboxPart{plan.SandboxFiles}})
	w.report(controltest.ReportOf("w1", plan.SandboxMemory))
	if code, said := w.refusal("policy", programs(t, nil)); code != run.CodeNoSandbox ||
		!strings.Contains(fmt.Sprint(said), "step s1 requires files") {
		t.Errorf("a step without a sandbox gives code %q and violations %v, want those of the policy", code, said)
	}
	if code, said := w.refusal("no-program", controltest.Document(nil, "n1")); code != "" {
		t.Errorf("a plan without programs is refused: %s %v", code, said)
	}
}

// An accepted run fails before its first step when the live workers lack a part by then. It waits when there is no live
// worker.
func TestSkeleton_RepeatsTheDecisionBeforeTheFirstStep(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.report(controltest.ReportOf("w1", plan.SandboxMemory))
	doc := programs(t, controltest.M{"require": []string{"memory"}})
	id := controltest.Must[runs.StartedRun](t)(w.StartRun(t.Context(), w.Engineer(), controltest.StartOf("dispatch",
		doc))).View.Run.RunID
	w.Clock.Advance(3 * time.Minute)
	if sk := controltest.Must[engine.Skeleton](t)(w.Journal.Skeleton(t.Context(), id)); sk.Failure != nil {
		t.Errorf("without any report the run fails: %+v", sk.Failure)
	}
	w.report(controltest.ReportOf("w2"))
	sk := controltest.Must[engine.Skeleton](t)(w.Journal.Skeleton(t.Context(), id))
	if sk.Failure == nil || sk.Failure.ErrorCode != string(run.CodeNoSandbox) ||
		!strings.Contains(sk.Failure.ErrorMessage,
			"lack: memory") {
		t.Errorf("failure %+v, want SANDBOX_UNAVAILABLE that names memory", sk.Failure)
	}
}

func TestReport_IsOfTheWorkersOwnQueues(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for name, change := range map[string]func(*engine.WorkerReport){
		"another queue":       func(r *engine.WorkerReport) { r.Queues = []string{"tq-data-dev", "tq-data-prod"} },
		"a queue twice":       func(r *engine.WorkerReport) { r.Queues = []string{"tq-data-dev", "tq-data-dev"} },
		"no queue":            func(r *engine.WorkerReport) { r.Queues = nil },
		"too many queues":     func(r *engine.WorkerReport) { r.Queues = make([]string, 65) },
		"no name":             func(r *engine.WorkerReport) { r.Worker = "" },
		"a name with a break": func(r *engine.WorkerReport) { r.Worker = "a\nb" },
		"a negative limit":    func(r *engine.WorkerReport) { r.Limits.Memory = -1 },
	} {
		r := controltest.ReportOf("w1", plan.SandboxMemory)
		change(&r)
		if _, err := w.ReporterOf("acme-worker").Report(t.Context(), r); !errors.Is(err, engine.ErrRefused) {
			t.Errorf("%s: %v, want ErrRefused", name, err)
		}
	}
	if rows := controltest.Must[[]store.WorkerReport](t)(w.Store.WorkerReports(t.Context(), nil,
		time.Hour)); len(rows) > 0 {
		t.Errorf("refused reports are stored: %v", rows)
	}
	long := controltest.ReportOf("w1", "gpu", plan.SandboxMemory)
	long.Missing[plan.SandboxPIDs] = strings.Repeat("x", 1000)
	w.report(long)
	rows := controltest.Must[[]store.WorkerReport](t)(w.Store.WorkerReports(t.Context(), nil, time.Hour))
	var kept engine.WorkerReport
	if err := json.Unmarshal(rows[0].Doc, &kept); err != nil || len(kept.Parts) != 1 ||
		len(kept.Missing[plan.SandboxPIDs]) > 300 {
		t.Errorf("stored report %+v (%v), want only the known part and a shortened reason", kept, err)
	}
}

// contract: R425
func TestReport_LeavesARowInTheAuditWhenTheSandboxChanges(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	rows := func() int { return w.CountAuditRows(`action = 'WORKER_ISOLATION' AND tenant_id = 'acme'`) }
	expect := func(want int, after string) {
		t.Helper()
		if got := rows(); got != want {
			t.Errorf("%d audit rows after %s, want %d", got, after, want)
		}
	}
	whole := controltest.ReportOf("w1", plan.SandboxMemory, plan.SandboxPIDs)
	w.report(whole)
	expect(1, "the first report")
	w.report(whole)
	expect(1, "the same report")
	w.Journal = w.NewJournal() // another server, which has not cached the worker
	w.report(whole)
	expect(1, "the same report to another server")
	w.report(controltest.ReportOf("w1", plan.SandboxMemory))
	expect(2, "a part was lost")
	broken := controltest.ReportOf("w1", plan.SandboxMemory)
	broken.OK, broken.Problem = false, "the probe could connect"
	w.report(broken)
	w.report(broken)
	expect(3, "a verification failed twice")
	w.Clock.Advance(11 * time.Minute)
	w.report(broken)
	expect(4, "it still fails ten minutes later")
}

// A policy document without ceilings, from a client that does not know them, keeps the stored ceilings. An empty list
// removes them.
func TestSetPolicy_KeepsCeilingsThatTheDocumentDoesNotName(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	admin := w.Principal("dev-admin")
	ceilings := []authz.Sandbox{{ProjectID: "*", EnvironmentID: "*", PIDs: 9}}
	for i, c := range []struct {
		name      string
		set, want []authz.Sandbox
	}{
		{"ceilings", ceilings, ceilings},
		{"a document without the field", nil, ceilings},
		{"an empty list", []authz.Sandbox{}, nil},
	} {
		doc := w.Document(func(*authz.Document) {})
		doc.Sandbox = c.set
		out := controltest.Must[access.Policy](t)(w.SetPolicy(t.Context(), admin, access.SetPolicy{
			RequestID: fmt.Sprintf("p%d", i), ExpectedVersion: int64(i), Document: doc, Reason: "a test",
		}))
		if diff := cmp.Diff(c.want, out.Document.Sandbox); diff != "" {
			t.Errorf("ceilings after %s (-want +got):\n%s", c.name, diff)
		}
	}
	doc := w.Document(func(*authz.Document) {})
	doc.Sandbox = []authz.Sandbox{{ProjectID: "*", EnvironmentID: "*", PIDs: -1}}
	_, err := w.SetPolicy(t.Context(), admin, access.SetPolicy{RequestID: "bad", ExpectedVersion: 3, Document: doc,
		Reason: "a test"})
	if controltest.CodeOf(err) != run.CodeBadInput {
		t.Errorf("a negative ceiling is answered with %v, want BAD_USER_INPUT", err)
	}
}

// A policy that became stricter applies to reruns of earlier plans and to stored plans by reference.
func TestStartRun_ThePolicyAppliesToStoredPlans(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	doc := programs(t, controltest.M{"pids": 10})
	id := controltest.Must[runs.StartedRun](t)(w.StartRun(t.Context(), w.Engineer(), controltest.StartOf("parent",
		doc))).View.Run.RunID
	w.HandOver()
	w.AppendEvents(id, runtest.Start("s1<"))
	w.AppendEvents(id, runtest.Draft(run.RunCancelled, "", 1))
	w.bound(1, authz.Sandbox{ProjectID: "*", EnvironmentID: "*", PIDs: 9})
	_, err := w.Rerun(t.Context(), w.Engineer(), runs.Rerun{RunID: id, RequestID: "again", Start: true})
	if controltest.CodeOf(err) != run.CodeSandboxDenied {
		t.Errorf("a rerun above the ceiling is answered with %v, want SANDBOX_DENIED", err)
	}
	ref := controltest.Must[store.Run](t)(w.Raw.Get(t.Context(), id)).PlanRef
	_, err = w.StartRun(t.Context(), w.Engineer(), runs.StartRun{RequestID: "by-ref", ProjectID: "shop",
		EnvironmentID: "dev", Ref: &ref})
	if controltest.CodeOf(err) != run.CodeSandboxDenied {
		t.Errorf("a reference to a plan above the ceiling is answered with %v, want SANDBOX_DENIED", err)
	}
	j := w.NewJournal(func(c *journal.Config) { c.Sandbox = w.Authz.Sandbox })
	waiting := w.queuedBy("waiting", doc)
	sk := controltest.Must[engine.Skeleton](t)(j.Skeleton(t.Context(), waiting))
	if sk.Failure == nil || sk.Failure.ErrorCode != string(run.CodeSandboxDenied) {
		t.Errorf("a run that was accepted before the ceiling fails with %+v, want SANDBOX_DENIED", sk.Failure)
	}
}

// queuedBy creates a run of a plan while the tenant has no ceiling, and then restores the ceiling.
func (w *world) queuedBy(requestID string, doc []byte) string {
	w.T.Helper()
	w.bound(2)
	id := controltest.Must[runs.StartedRun](w.T)(w.StartRun(w.T.Context(), w.Engineer(), controltest.StartOf(requestID,
		doc))).View.Run.RunID
	w.bound(3, authz.Sandbox{ProjectID: "*", EnvironmentID: "*", PIDs: 9})
	return id
}
