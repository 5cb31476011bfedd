package runs_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dvt-engine/dvt/control/controltest"
	"github.com/dvt-engine/dvt/control/runs"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/server/usecases"
	"github.com/dvt-engine/dvt/store"
)

// contract: T224
func TestStartRun_ApprovesTheRunAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := controltest.Must[runs.StartedRun](t)(w.StartRun(t.Context(), w.Principal("dev-operator"),
		controltest.StartOf("r1", controltest.Document(nil, "s1", "b<s1"))))
	if st := s.View.State; s.Deduplicated || st.Status != run.Approved || st.Seq != 1 ||
		st.TriggeredBy != "dev-operator" || s.View.Queue == nil {
		t.Errorf("the started run is %+v, want APPROVED with its requester and queue entry", s)
	}
	id := s.View.Run.RunID
	if diff := cmp.Diff([]string{"1 RunApproved"}, w.EventLog(id)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if !w.HasAuditRow("acme", "dev-operator START ACCEPTED  "+id) {
		t.Errorf("the audit %q has no row of the start", w.AuditRows("acme"))
	}
	_, err := w.StartRun(t.Context(), w.Principal("dev-viewer"), controltest.StartOf("r2", controltest.Document(nil,
		"s1")))
	if e := controltest.Refusal(t, err, run.CodeForbidden); e.Denial == nil || !strings.Contains(e.Message, "Operator") {
		t.Errorf("the refusal is %+v, want a denial that names the role Operator", e)
	}
	if !w.HasAuditRow("acme", "dev-viewer START DENIED FORBIDDEN") || w.CountTenantRuns("acme") != 1 {
		t.Errorf("the audit is %q with %d runs, want a row of the denial and 1 run", w.AuditRows("acme"),
			w.CountTenantRuns("acme"))
	}
}

// contract: Q09
func TestStartRun_TheSameRequestReturnsTheSameRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	doc := controltest.Document(nil, "s1")
	var indented bytes.Buffer
	if err := json.Indent(&indented, doc, "", "  "); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	var mu sync.Mutex
	ids, created := map[string]int{}, 0
	for i := range 5 {
		all.Go(func() {
			d := doc
			if i%2 == 1 {
				d = indented.Bytes() // the same document with other whitespace
			}
			s, err := w.StartRun(context.Background(), w.Engineer(), controltest.StartOf("r1", d))
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				t.Error(err)
			}
			ids[s.View.Run.RunID]++
			if !s.Deduplicated {
				created++
			}
		})
	}
	all.Wait()
	if len(ids) != 1 || created != 1 || w.CountTenantRuns("acme") != 1 {
		t.Errorf("there are %d ids, %d created runs and %d rows, want one of each", len(ids), created,
			w.CountTenantRuns("acme"))
	}
	other := controltest.Must[runs.StartedRun](t)(
		w.StartRun(t.Context(), w.Engineer(), controltest.StartOf("r1",
			controltest.Document(controltest.M{"metadata.planVersion": "2.0"}, "s1"))))
	if other.Deduplicated || ids[other.View.Run.RunID] != 0 || w.CountTenantRuns("acme") != 2 {
		t.Errorf("the request with another planVersion is answered %+v, want another run", other)
	}
	_, err := w.StartRun(t.Context(), w.Engineer(), controltest.StartOf("r1", controltest.Document(nil, "s1", "s2")))
	controltest.Refusal(t, err, run.CodeRequestConflict)
	if w.CountTenantRuns("acme") != 2 {
		t.Errorf("there are %d runs, want 2", w.CountTenantRuns("acme"))
	}
}

// contract: W-9
func TestStartRun_RefusesAnInvalidPlanWithAllViolations(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	doc := controltest.Document(controltest.M{"steps": []controltest.M{
		{"stepId": "a", "type": "NOOP", "inputs": controltest.M{}, "timeout": "1m", "dependsOn": []string{"b"}},
		{"stepId": "b", "type": "NOOP", "inputs": controltest.M{}, "dependsOn": []string{"a"}},
		{"stepId": "a", "type": "NOOP", "inputs": controltest.M{}, "timeout": "1m"},
	}})
	_, err := w.StartRun(t.Context(), w.Engineer(), controltest.StartOf("w9", doc))
	e := controltest.Refusal(t, err, run.CodePlanInvalid)
	var got []string
	for _, v := range e.Violations {
		got = append(got, v.Code+" "+v.Path)
	}
	for _, want := range []string{"CYCLE", "DUPLICATE", "MISSING steps[1].timeout"} {
		if !strings.Contains(strings.Join(got, ";"), want) {
			t.Errorf("violations %v lack %s", got, want)
		}
	}
	if len(got) != 3 {
		t.Errorf("violations %v, want three", got)
	}
	if w.CountTenantRuns("acme") != 0 {
		t.Errorf("there are %d runs, want none", w.CountTenantRuns("acme"))
	}
}

// contract: W-10
func TestStartRun_RefusesAnUnknownSchemaVersion(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	in := controltest.StartOf("w10", controltest.Document(nil, "s1"))
	in.Inline, in.Ref = nil, &plan.Ref{URI: "https://plans.example/p.json", SHA256: strings.Repeat("a", 64),
		SchemaVersion: "v7.0", PlanID: "p", PlanVersion: "1"}
	for _, in := range []runs.StartRun{
		in, controltest.StartOf("w10", controltest.Document(controltest.M{"schemaVersion": "v7.0",
			"metadata.schemaVersion": "v7.0"}, "s1"))} {
		_, err := w.StartRun(t.Context(), w.Engineer(), in)
		e := controltest.Refusal(t, err, run.CodePlanSchema)
		if diff := cmp.Diff([]string{"v1.0", "v1.1", "v1.2"}, e.Supported); diff != "" {
			t.Errorf("supported (-want +got):\n%s", diff)
		}
	}
	if w.CountTenantRuns("acme") != 0 {
		t.Errorf("there are %d runs, want none", w.CountTenantRuns("acme"))
	}
}

func TestStartRun_RefusesWhatCannotRunHere(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *usecases.Config) { c.Limits.MaxSteps = 1000 })
	for path, value := range map[string]string{"scope.tenantId": "globex", "scope.projectId": "store",
		"scope.environmentId": "prod"} {
		in := controltest.StartOf("scope", controltest.Document(controltest.M{path: value}, "s1"))
		in.ProjectID, in.EnvironmentID = "shop", "dev"
		_, err := w.StartRun(t.Context(), w.Engineer(), in)
		e := controltest.Refusal(t, err, run.CodePlanInvalid)
		if len(e.Violations) != 1 || e.Violations[0].Path != path {
			t.Errorf("the violations about %s are %+v, want one", path, e.Violations)
		}
	}
	many := make([]string, 1001)
	for i := range many {
		many[i] = fmt.Sprintf("s%d", i)
	}
	_, err := w.StartRun(t.Context(), w.Engineer(), controltest.StartOf("many", controltest.Document(nil, many...)))
	if e := controltest.Refusal(t, err, run.CodePlanTooManySteps); e.Limit != 1000 {
		t.Errorf("the refusal has the limit %d, want that of the server", e.Limit)
	}
	in := controltest.StartOf("", controltest.Document(nil, "s1"))
	in.ProjectID, in.EnvironmentID, in.Ref = "a b", "", &plan.Ref{}
	in.Params = json.RawMessage(`"` + strings.Repeat("x", 65536) + `"`)
	_, err = w.StartRun(t.Context(), w.Engineer(), in)
	var paths []string
	for _, v := range controltest.Refusal(t, err, run.CodeBadInput).Violations {
		paths = append(paths, v.Path)
	}
	if diff := cmp.Diff([]string{"runRequestId", "projectId", "environmentId", "plan", "params"}, paths); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	in = controltest.StartOf("unplaced", controltest.Document(controltest.M{"scope.environmentId": "",
		"metadata.planId": "a b"}, "s1"))
	in.EnvironmentID, paths = "", nil
	_, err = w.StartRun(t.Context(), w.Engineer(), in)
	for _, v := range controltest.Refusal(t, err, run.CodeBadInput).Violations {
		paths = append(paths, v.Path)
	}
	if diff := cmp.Diff([]string{"environmentId", "metadata.planId", "scope.environmentId"}, paths); diff != "" {
		t.Errorf("with those of its plan (-want +got):\n%s", diff)
	}
	in = controltest.StartOf("hidden", controltest.Document(nil, "s1"))
	in.Priority, in.Params, paths = -1, json.RawMessage(`{"api_token":"***","note":"***","password":"x"}`), nil
	_, err = w.StartRun(t.Context(), w.Engineer(), in)
	for _, v := range controltest.Refusal(t, err, run.CodeBadInput).Violations {
		paths = append(paths, v.Path)
	}
	if diff := cmp.Diff([]string{"params.api_token", "priority"}, paths); diff != "" {
		t.Errorf("with the placeholder of a hidden value (-want +got):\n%s", diff)
	}
	if w.CountTenantRuns("acme") != 0 {
		t.Errorf("there are %d runs, want none", w.CountTenantRuns("acme"))
	}
	ok := controltest.Must[runs.StartedRun](t)(w.StartRun(t.Context(), w.Engineer(), controltest.StartOf("many",
		controltest.Document(nil, many[:1000]...))))
	if ok.View.State.Status != run.Approved {
		t.Errorf("the run with 1,000 steps is %+v, want APPROVED", ok.View.State.Header)
	}
}

// A reference that has expired starts no new run, and its preview says so. The same request still returns its run.
// contract: DD-10
func TestStartRun_AnExpiredReferenceStartsNoNewRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	expires := w.Clock.Now().Add(time.Hour)
	doc := controltest.Document(nil, "s1")
	started := func(requestID string) (runs.StartedRun, runs.ActionPreview, error, error) {
		in := controltest.StartOf(requestID, doc)
		ref := plan.RefOf(doc, controltest.Must[plan.Plan](t)(plan.Parse(doc, plan.Queues{Control: "tq-control-dev",
			Data: "tq-data-dev"})), "file:///plans/nightly.json")
		ref.ExpiresAt = expires
		in.Inline, in.Ref = nil, &ref
		preview, previewErr := w.PreviewAction(t.Context(), w.Engineer(), runs.PreviewAction{Start: &in})
		s, err := w.StartRun(t.Context(), w.Engineer(), in)
		return s, preview, err, previewErr
	}
	first, preview, err, previewErr := started("r1")
	if err != nil || previewErr != nil || preview.Outcome != "APPLY" {
		t.Fatalf("before: %v, %v, %q, want a run and a preview of it", err, previewErr, preview.Outcome)
	}
	w.Clock.Advance(time.Hour)
	again, _, err, _ := started("r1")
	if err != nil || !again.Deduplicated || again.View.Run.RunID != first.View.Run.RunID {
		t.Errorf("the same request: %+v, %v, want its run", again, err)
	}
	_, _, err, previewErr = started("r2")
	for _, err := range []error{err, previewErr} {
		vs := controltest.Refusal(t, err, run.CodeBadInput).Violations
		if len(vs) != 1 || vs[0].Path != "plan.ref.expiresAt" {
			t.Errorf("violations %+v, want one about plan.ref.expiresAt", vs)
		}
	}
	if n := w.CountTenantRuns("acme"); n != 1 {
		t.Errorf("there are %d runs, want one", n)
	}
}

// contract: Q05
func TestDispatch_TwoDispatchersStartEachRunOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var ids []string
	for i := range 100 {
		ids = append(ids, w.CreateQueued(fmt.Sprintf("q05-%d", i), "s1"))
	}
	other := usecases.New(w.Config)
	w.Spawn(func(ctx context.Context) error { return w.Dispatch(ctx, "a") })
	w.Spawn(func(ctx context.Context) error { return other.Dispatch(ctx, "b") })
	controltest.Eventually(t, "all started", func() bool {
		for _, id := range ids {
			if w.QueueRow(id).Status != store.QueueStarted {
				return false
			}
		}
		return true
	})
	for _, id := range ids {
		if q := w.QueueRow(id); w.Engine.StartsOf(id) != 1 || q.Attempts != 1 {
			t.Errorf("there are %d starts of %s and %d leases, want one of each", w.Engine.StartsOf(id), id, q.Attempts)
		}
	}
}

// contract: Q07
func TestDispatch_AnotherServerTakesOverAnExpiredLease(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.CreateQueued("q07", "s1")
	if rows := controltest.Must[[]store.QueueRow](t)(w.Store.Lease(t.Context(), "dead", 30*time.Second,
		1)); len(rows) != 1 {
		t.Fatal(rows)
	}
	w.Spawn(func(ctx context.Context) error { return w.Dispatch(ctx, "b") })
	w.AwaitLeases()
	if w.QueueRow(id).Owner != "dead" || w.Engine.StartsOf(id) != 0 {
		t.Fatal("the run was started while another server held the lease")
	}
	w.Clock.Advance(31 * time.Second)
	controltest.Eventually(t, "started", func() bool { return w.QueueRow(id).Status == store.QueueStarted })
	if w.Engine.StartsOf(id) != 1 {
		t.Errorf("there are %d starts, want 1", w.Engine.StartsOf(id))
	}
}

// The first dispatcher had started the run when it lost its lease (also Q06).
// contract: W-7
func TestDispatch_ALostLeaseIsFenced(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.CreateQueued("w7", "s1")
	stopped, wake := make(chan struct{}), make(chan struct{})
	resume := sync.OnceFunc(func() { close(wake) })
	var calls atomic.Int32
	w.Engine.Set(func(e *controltest.FakeEngine) {
		e.OnStart = func(run.Identity) error {
			if calls.Add(1) == 1 { // stop the first dispatcher here
				close(stopped)
				<-wake
			}
			return nil
		}
	})
	w.Spawn(func(ctx context.Context) error { return w.Dispatch(ctx, "r1") })
	t.Cleanup(resume) // before the test waits for the dispatcher
	<-stopped
	w.Clock.Advance(40 * time.Second)
	other := usecases.New(w.Config)
	end := w.Spawn(func(ctx context.Context) error { return other.Dispatch(ctx, "r2") })
	controltest.Eventually(t, "r2 marks it", func() bool { return w.QueueRow(id).Status == store.QueueStarted })
	after := w.QueueRow(id)
	end()
	resume()
	w.AwaitLeases() // by r1, after it finished its earlier leases
	if diff := cmp.Diff(after, w.QueueRow(id)); diff != "" || after.Generation != 2 || after.Owner != "r2" {
		t.Errorf("the row has generation %d of %s; r1 changed the row:\n%s", after.Generation, after.Owner, diff)
	}
}

func TestDispatch_KeepsTheRunWhileTheEngineIsDown(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Engine.Set(func(e *controltest.FakeEngine) {
		e.OnStart = func(run.Identity) error { return fmt.Errorf("connection refused") }
	})
	w.Clock.Hold() // no retry is due
	id := w.CreateQueued("down", "s1")
	w.Spawn(func(ctx context.Context) error { return w.Dispatch(ctx, "a") })
	controltest.Eventually(t, "released", func() bool {
		q := w.QueueRow(id)
		return q.Status == store.QueuePending &&
			q.Attempts == 1
	})
	if q := w.QueueRow(id); !q.NotBefore.After(w.Clock.Now()) || q.LastError == "" {
		t.Errorf("the queue row is %+v, want it due later with the error", q)
	}
	w.Engine.Set(func(e *controltest.FakeEngine) { e.OnStart = nil })
	w.Clock.Advance(time.Minute)
	controltest.Eventually(t, "started", func() bool { return w.QueueRow(id).Status == store.QueueStarted })
}
