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

// A host that accepts connections and never answers must not keep a run RUNNING without steps for ever.
// contract: T144, L05, R545
func TestPlan_AHostThatHangsFailsTheRun(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { _ = silent.Close() })
	guard, err := egress.New(egress.Settings{AllowPrivate: true}, nil)
	must(t, err)
	h := newHarness(t, options{config: func(c *journal.Config) {
		c.Fetch = journal.NewFetcher(nil, guard)
		c.Fetch.SetTry(4 * time.Second) // three tries take longer than the activities that only reach the log
	}})
	h.patience = 40 * time.Second
	sum := sha256.Sum256([]byte("never read"))
	ref := plan.Ref{PlanID: "p", PlanVersion: "1", SchemaVersion: "v1.2",
		URI: "http://" + silent.Addr().String() + "/plan", SHA256: hex.EncodeToString(sum[:]), SizeBytes: 10}
	started, err := h.control.StartRun(t.Context(), h.who, runs.StartRun{RequestID: "r", ProjectID: "shop",
		EnvironmentID: "dev", Ref: &ref})
	must(t, err)
	id := started.View.Run.RunID
	st := h.waitForEnd(id)
	if f := st.Failure; st.Status != run.Failed || f == nil || f.Code != string(run.CodePlanFetchFailed) {
		t.Errorf("the run is %s with %+v, want FAILED with PLAN_FETCH_FAILED", st.Status, f)
	}
}
