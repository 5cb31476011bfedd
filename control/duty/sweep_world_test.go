package duty_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/dvt-engine/dvt/control/controltest"
	"github.com/dvt-engine/dvt/control/duty"
	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/server/usecases"
	"github.com/dvt-engine/dvt/store"
)

// sweptWorld is a world whose engine can be swept, with short intervals.
type sweptWorld struct {
	*controltest.World
	eye      *controltest.SweptEngine
	registry *prometheus.Registry
}

func newSweptWorld(t *testing.T, change ...func(*usecases.Config)) *sweptWorld {
	t.Helper()
	w := &sweptWorld{registry: prometheus.NewRegistry()}
	w.World = controltest.New(t, append([]func(*usecases.Config){func(c *usecases.Config) {
		w.eye = &controltest.SweptEngine{
			FakeEngine: c.Engine.(*controltest.FakeEngine), Ends: map[string]string{}, Unknown: map[string]bool{},
			Heads:   map[string]run.Seq{},
			Pending: map[string][]engine.Pending{}, Foreign: map[string]string{}, ClosedTenant: "acme",
		}
		c.Engine, c.Metrics = w.eye, w.registry
		c.Reconcile = duty.ReconcileSettings{Interval: 10 * time.Millisecond, Quiet: time.Millisecond,
			Confirm: 50 * time.Millisecond}
	}}, change...)...)
	return w
}

func (w *sweptWorld) sweep() (stop func()) { return w.Spawn(w.Reconcile) }

// swept returns the counter of a kind and action, or the gauge of a kind when action is "".
func (w *sweptWorld) swept(kind, action string) (n float64) {
	w.T.Helper()
	families, err := w.registry.Gather()
	if err != nil {
		w.T.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != map[bool]string{true: "dvt_swept_total", false: "dvt_sweep_open"}[action != ""] {
			continue
		}
		for _, m := range f.GetMetric() {
			labels := map[string]string{}
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			if labels["kind"] == kind && labels["action"] == action {
				n += m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
	}
	return n
}

// counted waits until the counter of a kind and action is n, because sweeps count after the commit.
func (w *sweptWorld) counted(kind, action string, n float64) {
	w.T.Helper()
	controltest.Eventually(w.T, fmt.Sprintf("%s %s is counted %v times", kind, action, n),
		func() bool { return w.swept(kind, action) == n })
}

func (w *sweptWorld) alerts() (out []store.AlertState) {
	w.T.Helper()
	return controltest.Must[[]store.AlertState](w.T)(w.Raw.ListAlerts(w.T.Context(), store.AlertFilter{TenantID: "acme",
		Limit: 100}))
}

// atWork creates a run with one running step.
func (w *sweptWorld) atWork(requestID string) string {
	w.T.Helper()
	id := w.CreateRunning(requestID, "s1", "s2")
	w.BeginStep(id, "s1", 1)
	return id
}

// ends waits for the end of a run.
func (w *sweptWorld) ends(id string) run.State {
	w.T.Helper()
	controltest.Eventually(w.T, "the end of "+id, func() bool { return w.StateOf(id).Status.Terminal() })
	return w.StateOf(id)
}

// looksOn waits for further rounds of the sweep, for longer than the time between two checks that must agree.
func (w *sweptWorld) looksOn() {
	w.T.Helper()
	w.eye.Sweeps(w.T, 40)
}
