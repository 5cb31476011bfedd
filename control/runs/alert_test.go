package runs_test

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/dvt-engine/dvt/control/controltest"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
	"github.com/dvt-engine/dvt/server/usecases"
	"github.com/dvt-engine/dvt/store"
)

// contract: G26
func TestSignalRun_EscalateAlertRaisesOneAlertAndChangesNothing(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	var log strings.Builder
	w := newWorld(t, func(c *usecases.Config) {
		c.Metrics, c.Logger = registry, slog.New(slog.NewTextHandler(&log, nil))
	})
	id := w.CreateSteps("g26", "NOOP s1")
	before := w.StateOf(id)
	in := controltest.SignalOf(id, "alert", run.EscalateAlert)
	in.Reason, in.Payload = "rows are missing", runtest.JSON(controltest.M{"level": "HIGH", "note": "rows are missing"})
	r := w.Send(w.Principal("dev-system"), in)
	if r.Rejected || r.Application != run.SignalApplied || r.AppliedSeq != before.Seq+1 ||
		r.AcceptedSeq != r.AppliedSeq ||
		r.No != 1 {
		t.Errorf("the receipt is %+v, want APPLIED at its acceptance, with number 1", r.SignalReceipt)
	}
	after := w.StateOf(id)
	after.Seq = before.Seq
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("the run changed:\n%s", diff)
	}
	if again := w.Send(w.Principal("dev-system"), in); !again.Duplicate {
		t.Errorf("the repeated signal is answered %+v, want a duplicate", again)
	}
	got := controltest.Must[[]store.AlertState](t)(w.Store.ListAlerts(t.Context(),
		store.AlertFilter{TenantID: "acme", RunID: id}))
	want := []store.AlertState{{Alert: store.Alert{
		TenantID: "acme", ProjectID: "shop", RunID: id, SignalID: "alert", Subject: "alert", Level: store.AlertHigh,
		Note: "rows are missing", Actor: "dev-system",
	}, EnvironmentID: "dev", Count: 1}}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(store.Alert{}, "ID", "At"),
		cmpopts.IgnoreFields(store.AlertState{}, "LastSeen", "PlanID")); diff != "" || got[0].At.IsZero() ||
		got[0].ID == "" {
		t.Errorf("alerts (-want +got):\n%s", diff)
	}
	if !strings.Contains(log.String(), "severity=HIGH code=ESCALATE_ALERT") {
		t.Errorf("the log lacks a line with the level and the code of the escalation:\n%s", &log)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	counted := map[string]float64{}
	for _, m := range families[0].GetMetric() {
		counted[families[0].GetName()+" "+m.GetLabel()[0].GetValue()] = m.GetCounter().GetValue()
	}
	if diff := cmp.Diff(map[string]float64{"dvt_alerts_total HIGH": 1, "dvt_alerts_total MEDIUM": 0,
		"dvt_alerts_total LOW": 0}, counted); diff != "" {
		t.Errorf("metrics (-want +got):\n%s", diff)
	}
	for _, who := range []string{"dev-admin", "dev-engineer"} {
		_, err := w.SignalRun(t.Context(), w.Principal(who), controltest.SignalOf(id, "by-"+who, run.EscalateAlert))
		controltest.Refusal(t, err, run.CodeForbidden) // System is not inherited (T92)
	}
	if n := len(controltest.Must[[]store.AlertState](t)(w.Store.ListAlerts(t.Context(),
		store.AlertFilter{TenantID: "acme"}))); n != 1 {
		t.Errorf("there are %d alerts, want 1", n)
	}
	if other := controltest.Must[[]store.AlertState](t)(w.Store.ListAlerts(t.Context(),
		store.AlertFilter{TenantID: "globex"})); len(
		other) != 0 {
		t.Errorf("another tenant sees the alerts %v, want none", other)
	}
}
