package health_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dvt-engine/dvt/control/controltest"
	"github.com/dvt-engine/dvt/control/health"
	"github.com/dvt-engine/dvt/engine"
)

// secretsCheck returns the check of secrets, after the server has forgotten the reports that it read before.
func secretsCheck(t *testing.T, w *controltest.World) (all string, c health.HealthCheck) {
	t.Helper()
	w.Clock.Advance(6 * time.Second)
	h := w.Health(t.Context())
	for _, c := range h.Checks {
		if c.Name == health.CheckSecrets {
			return h.Status, c
		}
	}
	t.Fatal("there is no check of secrets")
	return "", c
}

func reportSecrets(t *testing.T, w *controltest.World, worker string, providers ...engine.SecretsProvider) error {
	t.Helper()
	r := controltest.ReportOf(worker)
	r.Secrets = providers
	_, err := w.ReporterOf("acme-worker").Report(t.Context(), r)
	return err
}

// contract: H01
func TestHealth_SaysWhichProviderOfSecretsIsDown(t *testing.T) {
	t.Parallel()
	w := controltest.New(t)
	status, c := secretsCheck(t, w)
	if status != "HEALTHY" || !c.Unused || !strings.Contains(c.Message, "No worker reports") {
		t.Errorf("without a provider the health is %s and the check %+v, want HEALTHY and unused", status, c)
	}
	up := engine.SecretsProvider{Name: "vault", Reachable: true, LatencyMS: 7}
	other := engine.SecretsProvider{Name: "aws", Reachable: true, LatencyMS: 40}
	for worker, providers := range map[string][]engine.SecretsProvider{"w1": {up, other}, "w2": {up}, "w3": nil} {
		if err := reportSecrets(t, w, worker, providers...); err != nil {
			t.Fatal(err)
		}
	}
	status, c = secretsCheck(t, w)
	want := []health.ProviderState{{Name: "aws", Reachable: true, Workers: 1, Latency: 40 * time.Millisecond},
		{Name: "vault", Reachable: true, Workers: 2, Latency: 7 * time.Millisecond}}
	diff := cmp.Diff(want, c.Providers)
	if diff != "" || status != "HEALTHY" || c.Latency != 40*time.Millisecond || c.Unused {
		t.Errorf("health %s, latency %s, providers (-want +got):\n%s", status, c.Latency, diff)
	}
	down := engine.SecretsProvider{Name: "vault", LatencyMS: 5000, Problem: "the provider did not answer in time"}
	if err := reportSecrets(t, w, "w1", down, other); err != nil {
		t.Fatal(err)
	}
	status, c = secretsCheck(t, w)
	if status != "DEGRADED" || c.Status != "UNHEALTHY" || !strings.Contains(c.Message,
		"1 of 2 workers cannot use the provider vault (the provider did not answer in time)") {
		t.Errorf("with a provider that is down the health is %s and the check %+v", status, c)
	}
	w.Clock.Advance(3 * time.Minute) // the workers are gone
	if status, c = secretsCheck(t, w); status != "HEALTHY" || !c.Unused {
		t.Errorf("without live workers the health is %s and the check %+v, want HEALTHY and unused", status, c)
	}
}

// A worker is hostile: it can neither fill the store nor a page, nor report for another provider twice.
func TestReport_BoundsProvidersOfSecrets(t *testing.T) {
	t.Parallel()
	w := controltest.New(t)
	var many []engine.SecretsProvider
	for i := range 50 {
		many = append(many, engine.SecretsProvider{Name: fmt.Sprintf("p%02d", i/2), Problem: strings.Repeat("x", 10_000)})
	}
	many[0] = engine.SecretsProvider{Name: "bad\nname"}
	many[1] = engine.SecretsProvider{Name: strings.Repeat("n", 100)}
	many[2].LatencyMS = -1
	if err := reportSecrets(t, w, "w1", many...); err != nil {
		t.Fatal(err)
	}
	_, c := secretsCheck(t, w)
	if len(c.Providers) != 9 { // the first 20 have 10 names, and one of these is wrong
		t.Errorf("%d providers of the report count, want 9", len(c.Providers))
	}
	for _, p := range c.Providers {
		if len(p.Problem) > 310 || p.Workers != 1 {
			t.Errorf("the provider %s has %d workers and a problem of %d bytes", p.Name, p.Workers, len(p.Problem))
		}
	}
	if len(c.Message) > 1200 {
		t.Errorf("the message has %d bytes", len(c.Message))
	}
}
