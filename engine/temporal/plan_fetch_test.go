package temporal_test

import (
	"crypto/sha256"
	"encoding/hex"
	"net"
	"testing"
	"time"

	"github.com/dvt-engine/dvt/control/journal"
	"github.com/dvt-engine/dvt/control/runs"
	"github.com/dvt-engine/dvt/egress"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
)

// startFromSilentHost starts a run whose plan is on a host that accepts connections and never answers. try is the time
// of one of the three tries to fetch it.
func startFromSilentHost(t *testing.T, try time.Duration) (*harness, string) {
	t.Helper()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { _ = silent.Close() })
	guard, err := egress.New(egress.Settings{AllowPrivate: true}, nil)
	must(t, err)
	h := newHarness(t, options{config: func(c *journal.Config) {
		c.Fetch = journal.NewFetcher(nil, guard)
		c.Fetch.SetTry(try)
	}})
	sum := sha256.Sum256([]byte("never read"))
	ref := plan.Ref{PlanID: "p", PlanVersion: "1", SchemaVersion: "v1.2",
		URI: "http://" + silent.Addr().String() + "/plan", SHA256: hex.EncodeToString(sum[:]), SizeBytes: 10}
	started, err := h.control.StartRun(t.Context(), h.who, runs.StartRun{RequestID: "r", ProjectID: "shop",
		EnvironmentID: "dev", Ref: &ref})
	must(t, err)
	return h, started.View.Run.RunID
}

// A host that accepts connections and never answers must not keep a run RUNNING without steps for ever.
// contract: T144, L05, R545
func TestPlan_AHostThatHangsFailsTheRun(t *testing.T) {
	t.Parallel()
	h, id := startFromSilentHost(t, 4*time.Second) // three tries take longer than the activities that only reach the log
	h.patience = 20 * time.Second
	// People see which try it is, and when the last one ends.
	h.waitFor(id, "loading its plan with a second try", func(run.State) bool {
		w, err := h.engine.Waits(t.Context(), h.identity(id))
		l := w.Loading
		return err == nil && l != nil && l.Try == 2 && l.Tries == 3 && time.Since(l.Since) < 30*time.Second &&
			time.Until(l.Until) > 0 && time.Until(l.Until) < 15*time.Second
	})
	h.patience = 40 * time.Second
	st := h.waitForEnd(id)
	if f := st.Failure; st.Status != run.Failed || f == nil || f.Code != string(run.CodePlanFetchFailed) {
		t.Errorf("the run is %s with %+v, want FAILED with PLAN_FETCH_FAILED", st.Status, f)
	}
}

// A CANCEL must not wait for a host that never answers, and neither must the execution and its worker.
// contract: T144, G24
func TestPlan_ACancelWhileItLoadsEndsTheRunAtOnce(t *testing.T) {
	t.Parallel()
	h, id := startFromSilentHost(t, time.Hour)
	h.waitFor(id, "given to the engine", func(run.State) bool {
		_, err := h.engine.Describe(t.Context(), h.identity(id))
		return err == nil
	})
	time.Sleep(time.Second) // the fetch waits for the host now
	began := time.Now()
	h.cancel(id)
	if took := time.Since(began); took > 3*time.Second {
		t.Errorf("the run was cancelled after %s, want at once", took)
	}
	h.patience = 15 * time.Second
	h.waitUntilClosed(id)
}
