package temporaladmin

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/dvt-engine/dvt/engine/temporal"
	"github.com/dvt-engine/dvt/internal/testserver"
	"github.com/dvt-engine/dvt/internal/testtime"
	"github.com/dvt-engine/dvt/server/config/configtest"
	"github.com/dvt-engine/dvt/server/connect"
)

// A server measures the drift, and says it once.
func TestDriftWatch_MeasuresADifferenceUntilTheSetup(t *testing.T) {
	t.Parallel()
	frontend := testserver.TemporalAlone(t) // keeps histories for a day
	cfg := configtest.MustLoad(t, false, "temporal: "+frontend.Addr)
	to, err := connect.Temporal(&cfg, slog.New(slog.DiscardHandler), false)
	if err != nil {
		t.Fatal(err)
	}
	var lines bytes.Buffer
	registry := prometheus.NewRegistry()
	w, err := NewDriftWatch(&cfg, to, registry, slog.New(slog.NewTextHandler(&lines, nil)))
	if err != nil {
		t.Fatal(err)
	}
	retention := func() (sum float64) {
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			for _, m := range f.GetMetric() {
				for _, l := range m.GetLabel() {
					if l.GetValue() == string(temporal.DriftRetention) {
						sum += m.GetGauge().GetValue()
					}
				}
			}
		}
		return sum
	}
	w.compare(t.Context())
	w.compare(t.Context())
	if got := retention(); got != 1 {
		t.Errorf("the metric of the retention is %v, want 1", got)
	}
	if said := lines.String(); strings.Count(said, "level=WARN") != 1 || !strings.Contains(said, "kept for 24 h") {
		t.Errorf("the log is %q, want one warning that names the retention", said)
	}
	if _, err := SetUp(t.Context(), cfg, slog.New(slog.DiscardHandler), false); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(testtime.Of(time.Minute)); ; time.Sleep(200 * time.Millisecond) {
		if w.compare(t.Context()); retention() == 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the metric of the retention stays 1 after the setup")
		}
	}
	if said := lines.String(); strings.Count(said, "level=INFO") != 1 {
		t.Errorf("the log is %q, want one line that the namespaces are right again", said)
	}
}
