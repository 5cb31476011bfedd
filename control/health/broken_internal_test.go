package health

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/store"
)

func TestMeasureHealth_LogsABrokenPartOnceAndItsRecovery(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	log, b, at := slog.New(slog.NewTextHandler(&out, nil)), brokenChecks{}, time.Unix(1_700_000_000, 0)
	for i, status := range []string{"HEALTHY", "UNHEALTHY", "UNHEALTHY", "UNHEALTHY", "HEALTHY", "HEALTHY"} {
		b.note(t.Context(), Health{Checks: []HealthCheck{{Name: CheckTemporal, Status: status, Message: "No answer."},
			{Name: CheckBus, Status: status}}}, at.Add(time.Duration(i)*15*time.Second), log)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 2 || !strings.Contains(lines[0], "level=WARN") || !strings.Contains(lines[0], "temporal-namespace") ||
		!strings.Contains(lines[1], "level=INFO") || !strings.Contains(lines[1], "after=45s") {
		t.Errorf("the log is %q, want one warning with what to do, and one line after 45 s", lines)
	}
}

// alertLog records what happens to alerts.
type alertLog struct {
	control.AlertStore
	lines []string
}

func (l *alertLog) RaiseAlert(_ context.Context, a store.Alert) (store.AlertRaised, error) {
	l.lines = append(l.lines, "raised "+string(a.Code)+" "+a.Subject)
	return store.AlertRaised{}, nil
}

func (l *alertLog) ResolveAlerts(_ context.Context, fingerprints []string, _ string) ([]store.AlertState, error) {
	for _, f := range fingerprints {
		l.lines = append(l.lines, "resolved "+f[strings.LastIndexByte(f, '\n')+1:])
	}
	return nil, nil
}

// One slow answer wakes nobody, and an alert about the store could not be written.
func TestMeasureHealth_AlertsAboutAPartThatFailsTwice(t *testing.T) {
	t.Parallel()
	recorded, log, now := &alertLog{}, slog.New(slog.DiscardHandler), time.Unix(1_700_000_000, 0)
	alerts := control.NewAlerts(recorded, nil, func() time.Time { return now }, log)
	registry := prometheus.NewRegistry()
	m := &Meter{rights: &control.Rights{Trail: &control.Trail{Log: log}}, up: newDependencyGauge(registry),
		checks: &Checks{background: &control.Background{Alerts: alerts}}}
	m.up.register()
	broken := brokenChecks{}
	sample := func(temporal, bus string) {
		h := Health{Checks: []HealthCheck{{Name: CheckTemporal, Status: temporal}, {Name: CheckBus, Status: bus},
			{Name: CheckStore, Status: temporal}, {Name: CheckSecrets, Status: "HEALTHY", Unused: true}}}
		m.tellPeople(t.Context(), h, broken)
		broken.note(t.Context(), h, now, log)
		now = now.Add(15 * time.Second)
	}
	sample("UNHEALTHY", "UNHEALTHY")
	working := func() (n float64) {
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range families[0].GetMetric() {
			n += m.GetGauge().GetValue()
		}
		return n
	}
	if n := working(); n != 2 {
		t.Errorf("dvt_dependency_up counts %v parts that work, want the artifacts and the secrets", n)
	}
	if len(recorded.lines) > 0 {
		t.Errorf("one sample led to %q, want no alert", recorded.lines)
	}
	sample("UNHEALTHY", "HEALTHY")
	sample("UNHEALTHY", "HEALTHY")
	sample("HEALTHY", "HEALTHY")
	sample("HEALTHY", "HEALTHY")
	want := []string{"raised DEPENDENCY_DOWN temporal", "resolved eventBus", "resolved temporal"}
	if diff := cmp.Diff(want, recorded.lines); diff != "" {
		t.Errorf("alerts (-want +got):\n%s", diff)
	}
	if n := working(); n != 5 {
		t.Errorf("dvt_dependency_up counts %v parts that work again, want 5", n)
	}
}

// An alert about a provider of secrets ends with the workers that reported it.
func TestMeasureHealth_AlertsAboutProvidersOfSecrets(t *testing.T) {
	t.Parallel()
	recorded, log, now := &alertLog{}, slog.New(slog.DiscardHandler), time.Unix(1_700_000_000, 0)
	m := &Meter{rights: &control.Rights{Trail: &control.Trail{Log: log}}, up: newDependencyGauge(nil),
		checks: &Checks{background: &control.Background{Alerts: control.NewAlerts(recorded, nil,
			func() time.Time { return now }, log)}}}
	broken := brokenChecks{}
	for _, c := range []HealthCheck{{Status: "HEALTHY", Unused: true}, {Status: "UNHEALTHY"}, {Status: "UNHEALTHY"},
		{Status: "HEALTHY", Unused: true}, {Status: "HEALTHY", Unused: true}} {
		c.Name = CheckSecrets
		m.tellPeople(t.Context(), Health{Checks: []HealthCheck{c}}, broken)
		broken.note(t.Context(), Health{Checks: []HealthCheck{c}}, now, log)
		now = now.Add(15 * time.Second)
	}
	want := []string{"raised DEPENDENCY_DOWN secretsProvider", "resolved secretsProvider"}
	if diff := cmp.Diff(want, recorded.lines); diff != "" {
		t.Errorf("alerts (-want +got):\n%s", diff)
	}
}
