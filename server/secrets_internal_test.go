package server

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/secret"
	"github.com/dvt-engine/dvt/secret/file"
	"github.com/dvt-engine/dvt/secret/meter"
)

// One slow answer is no outage: a provider is down after two failed checks, but for the first check of the worker.
func TestSecretsWatch_ReportsAProviderThatFailsTwice(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	w := &secretsWatch{Resolver: secret.NewResolver(secret.Source{Name: "a", Provider: file.New("/none")},
		secret.Source{Name: "b", Provider: file.New("/none")}), meter: meter.New(prometheus.NewRegistry(), nil),
		log: slog.New(slog.NewTextHandler(&out, nil)), states: map[string]engine.SecretsProvider{},
		failures: map[string]int{}}
	if got := w.report(); len(got) > 0 {
		t.Errorf("before the first check the report has %v", got)
	}
	good := secret.Checked{Took: 7 * time.Millisecond}
	bad := secret.Checked{Err: errors.New("no answer"), Took: time.Second}
	up := engine.SecretsProvider{Name: "a", Reachable: true, LatencyMS: 7}
	down := engine.SecretsProvider{Name: "b", LatencyMS: 1000, Problem: "no answer"}
	downA := engine.SecretsProvider{Name: "a", LatencyMS: 1000, Problem: "no answer"}
	upB := engine.SecretsProvider{Name: "b", Reachable: true, LatencyMS: 7}
	for i, step := range []struct {
		a, b secret.Checked
		want []engine.SecretsProvider
	}{
		{good, bad, []engine.SecretsProvider{up, down}},
		{bad, good, []engine.SecretsProvider{up, upB}},
		{good, bad, []engine.SecretsProvider{up, upB}},
		{bad, good, []engine.SecretsProvider{up, upB}},
		{bad, good, []engine.SecretsProvider{downA, upB}},
		{good, good, []engine.SecretsProvider{up, upB}},
	} {
		well := w.note(map[string]secret.Checked{"a": step.a, "b": step.b})
		if want := step.a.Err == nil && step.b.Err == nil; well != want {
			t.Errorf("check %d: well is %t, want %t", i, well, want)
		}
		if diff := cmp.Diff(step.want, w.report()); diff != "" {
			t.Errorf("check %d (-want +got):\n%s", i, diff)
		}
	}
	if n := strings.Count(out.String(), "level=WARN"); n != 2 {
		t.Errorf("%d warnings, want one for each outage:\n%s", n, out.String())
	}
}
