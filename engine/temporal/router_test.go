package temporal_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"go.temporal.io/api/workflowservice/v1"

	"github.com/dvt-engine/dvt/control/runs"
	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/engine/namespaces"
	"github.com/dvt-engine/dvt/engine/temporal"
	"github.com/dvt-engine/dvt/internal/testserver"
	"github.com/dvt-engine/dvt/internal/testtime"
	"github.com/dvt-engine/dvt/run"
)

// shortest is namespaces.ShortestRetention.
const shortest = namespaces.ShortestRetention

// setUp creates namespaces on a server as `dvt temporal setup` does, and returns when runs can be started there.
func setUp(t *testing.T, server *testserver.TemporalServer, names ...string) {
	t.Helper()
	for _, name := range names {
		to := temporal.Connection{HostPort: server.Addr, Namespace: name}
		_, err := to.Setup(t.Context(), temporal.Wanted{Shortest: shortest,
			Attributes: append(temporal.Attributes(), temporal.AttributeTier)}, false)
		must(t, err)
		for deadline := time.Now().Add(testtime.Of(time.Minute)); to.Ping(t.Context()) != nil; {
			if time.Now().After(deadline) {
				t.Fatalf("the namespace %s does not answer", name)
			}
			time.Sleep(200 * time.Millisecond)
		}
	}
}

// twoNamespaces returns a harness with a namespace of its own for each of the environments dev and staging.
func twoNamespaces(t *testing.T, o options) (h *harness, dev, staging string) {
	t.Helper()
	o.server = testserver.Temporal(t)
	id := uuid.NewString()[:8]
	dev, staging = "dev-"+id, "staging-"+id
	setUp(t, o.server, dev, staging)
	o.strategy = namespaces.Strategy{Environments: map[string]string{"dev": dev, "staging": staging},
		Tiers: map[string]string{"acme": "HIPAA"}}
	return newHarness(t, o), dev, staging
}

// startIn starts a run in an environment.
func (h *harness) startIn(environment string, doc []byte) string {
	h.t.Helper()
	doc = bytes.ReplaceAll(doc, []byte(`"environmentId":"dev"`), fmt.Appendf(nil, `"environmentId":%q`, environment))
	out, err := h.control.StartRun(h.t.Context(), h.who, runs.StartRun{RequestID: uuid.NewString(), ProjectID: "shop",
		EnvironmentID: environment, Inline: doc})
	must(h.t, err)
	return out.View.State.RunID
}

// only returns an engine of one namespace, as a server with other settings has it.
func (h *harness) only(namespace string) *temporal.Engine {
	return temporal.New(h.clients[namespace], namespace, temporal.Config{Tickets: h.keys})
}

// contract: R305, R309, R247
func TestRouter_RunsStayInTheNamespaceOfTheirEnvironment(t *testing.T) {
	t.Parallel()
	h, dev, staging := twoNamespaces(t, options{})
	long := map[string]any{"timeout": "20m"} // on a busy machine
	openDev, openStaging := h.hold("b"), h.hold("d")
	ids := map[string]string{
		dev:     h.startIn("dev", document(0, step{id: "a"}, step{id: "b", deps: "a", extra: long})),
		staging: h.startIn("staging", document(0, step{id: "c"}, step{id: "d", deps: "c", extra: long})),
	}
	h.waitUntilRunning(ids[dev], "b")
	h.waitUntilRunning(ids[staging], "d")
	for namespace, runID := range ids {
		id := h.identity(runID)
		d, err := h.engine.Describe(t.Context(), id)
		must(t, err)
		if d.Ref.Namespace != namespace || !d.Open {
			t.Errorf("the run of %s is in %+v, want open in %s", id.EnvironmentID, d.Ref, namespace)
		}
		started := payload[run.RunStartedPayload](h, runID, "RunStarted")
		if started.Engine.Namespace != namespace {
			t.Errorf("RunStarted names the namespace %s, want %s", started.Engine.Namespace, namespace)
		}
		for _, other := range []string{dev, staging, testserver.TemporalNamespace} {
			_, err := h.only(other).Describe(t.Context(), id)
			if other == namespace && err != nil || other != namespace && !errors.Is(err, engine.ErrNotStarted) {
				t.Errorf("an engine of %s alone describes the run of %s with %v", other, namespace, err)
			}
		}
		if _, err := h.engine.Debug(t.Context(), id); err != nil {
			t.Errorf("Debug of the run in %s: %v", namespace, err)
		}
	}
	h.eventuallyOpen(ids[dev], ids[staging])
	copied := h.backup()
	h.signal(ids[dev], run.Signal{Type: run.Cancel})
	if st := h.waitForEnd(ids[dev]); st.Status != run.Cancelled {
		t.Errorf("the cancelled run is %s, want CANCELLED", st.Status)
	}
	h.signal(ids[staging], run.Signal{Type: run.Pause})
	h.waitForEvent(ids[staging], "RunPaused(1)")
	h.signal(ids[staging], run.Signal{Type: run.Resume})
	openDev()
	openStaging()
	if st := h.waitForEnd(ids[staging]); st.Status != run.Completed {
		t.Errorf("the resumed run is %s, want COMPLETED", st.Status)
	}
	h.verify()
	for _, runID := range ids {
		h.untilClosed(runID)
	}
	restored := h.restore(copied)
	restored.repair()
	for namespace, runID := range ids {
		log, repaired := withoutSignals(h.facts(runID)), withoutSignals(restored.facts(runID))
		if d := cmp.Diff(log, repaired); d != "" {
			t.Errorf("the repaired log of the run in %s (-log +repaired):\n%s", namespace, d)
		}
	}
	restored.verify()
}

// withoutSignals sorts the facts of a log and leaves out pauses and the acceptance of signals. The control plane writes
// them ahead of the engine, whose history lacks them when the run ended first.
func withoutSignals(facts []string) []string {
	out := slices.DeleteFunc(facts, func(f string) bool {
		return strings.HasPrefix(f, "RunPaused(") || strings.HasPrefix(f, "RunResumed(") ||
			strings.HasPrefix(f, "SignalAccepted(")
	})
	slices.Sort(out)
	return out
}

// untilClosed waits until the execution of a run has ended.
func (h *harness) untilClosed(runID string) {
	h.t.Helper()
	for deadline := time.Now().Add(testtime.Of(h.patience)); ; time.Sleep(50 * time.Millisecond) {
		d, err := h.engine.Describe(h.t.Context(), h.identity(runID))
		must(h.t, err)
		if !d.Open {
			return
		}
		if time.Now().After(deadline) {
			h.t.Fatalf("the execution of %s did not end", runID)
		}
	}
}

// eventuallyOpen waits until the index of every namespace lists open runs.
func (h *harness) eventuallyOpen(runIDs ...string) {
	h.t.Helper()
	var ids []run.Identity
	want := map[string]bool{}
	for _, id := range runIDs {
		ids, want[id] = append(ids, h.identity(id)), true
	}
	for deadline := time.Now().Add(testtime.Of(h.patience)); ; time.Sleep(100 * time.Millisecond) {
		open, err := h.engine.FindOpen(h.t.Context(), ids)
		must(h.t, err)
		var listed []string
		for page, more := "", true; more; more = page != "" {
			var found []run.Identity
			found, page, err = h.engine.ListOpen(h.t.Context(), page)
			must(h.t, err)
			for _, id := range found {
				listed = append(listed, id.RunID)
			}
		}
		missing := slices.ContainsFunc(runIDs, func(id string) bool { return !slices.Contains(listed, id) })
		if d := cmp.Diff(want, open); d == "" && !missing {
			return
		} else if time.Now().After(deadline) {
			h.t.Fatalf("FindOpen returns %v and ListOpen %v, want %v", open, listed, runIDs)
		}
	}
}

// A run that was started under other settings is found where it is, and is not started again.
func TestRouter_FollowsARunAfterItsEnvironmentMoved(t *testing.T) {
	t.Parallel()
	h, dev, staging := twoNamespaces(t, options{workers: -1})
	id := run.Identity{RunID: uuid.NewString(), TenantID: "acme", ProjectID: "shop", EnvironmentID: "dev", PlanID: "p",
		PlanVersion: "1"}
	first, err := h.engine.Start(t.Context(), id, h.queues)
	must(t, err)
	moved := namespaces.Strategy{Default: testserver.TemporalNamespace, Environments: map[string]string{"dev": staging},
		Former: []string{dev}}
	must(t, moved.Check())
	r := temporal.NewRouter([]*temporal.Engine{h.only(testserver.TemporalNamespace), h.only(staging), h.only(dev)},
		temporal.Route{Of: moved.Of})
	again, err := r.Start(t.Context(), id, h.queues)
	must(t, err)
	if d := cmp.Diff(first.Ref, again.Ref); d != "" {
		t.Errorf("the second start made another execution (-first +second):\n%s", d)
	}
	if _, err := h.only(staging).Describe(t.Context(), id); !errors.Is(err, engine.ErrNotStarted) {
		t.Errorf("the new namespace describes the run with %v, want ErrNotStarted", err)
	}
	must(t, r.Signal(t.Context(), id, engine.Signal{No: 1, ID: "s", Type: run.Cancel}))
	must(t, r.Terminate(t.Context(), id, "a test"))
	d, err := r.Describe(t.Context(), id)
	must(t, err)
	if d.Open || d.Ref.Namespace != dev {
		t.Errorf("the terminated run is %+v, want closed in %s", d, dev)
	}
}

// contract: R306, R313
func TestRouter_TemporalFindsARunByEachSearchAttribute(t *testing.T) {
	t.Parallel()
	h, dev, _ := twoNamespaces(t, options{workers: -1})
	id := run.Identity{RunID: uuid.NewString(), TenantID: "acme", ProjectID: "shop", EnvironmentID: "dev",
		PlanID: "nightly", PlanVersion: "1.2"}
	_, err := h.engine.Start(t.Context(), id, h.queues)
	must(t, err)
	for name, value := range map[string]string{"DvtRunId": id.RunID, "DvtTenantId": "acme", "DvtProjectId": "shop",
		"DvtEnvironmentId": "dev", "DvtPlanId": "nightly", "DvtPlanVersion": "1.2", "DvtRegulatoryTier": "HIPAA"} {
		count := func(c temporal.Client, value string) int64 {
			out, err := c.CountWorkflow(context.WithoutCancel(t.Context()),
				&workflowservice.CountWorkflowExecutionsRequest{Query: fmt.Sprintf("%s = '%s'", name, value)})
			must(t, err)
			return out.GetCount()
		}
		for deadline := time.Now().Add(testtime.Of(h.patience)); count(h.clients[dev], value) != 1; {
			if time.Now().After(deadline) {
				t.Fatalf("Temporal does not find the run by %s = %s", name, value)
			}
			time.Sleep(50 * time.Millisecond)
		}
		if n := count(h.clients[dev], value+"x"); n != 0 {
			t.Errorf("%s = %sx finds %d runs, want none", name, value, n)
		}
	}
}
