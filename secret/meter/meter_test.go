package meter_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/dvt-engine/dvt/secret"
	"github.com/dvt-engine/dvt/secret/meter"
)

// system answers by the path, and has leases.
type system struct{}

func (system) Read(_ context.Context, path, _ string) (secret.Answer, error) {
	errs := map[string]error{"t1/gone": secret.ErrNotFound, "t1/forbidden": secret.ErrDenied,
		"t1/slow": &secret.ThrottledError{After: time.Hour}, "t1/down": errors.New("no answer")}
	if err := errs[path]; err != nil {
		return secret.Answer{}, err
	}
	return secret.Answer{Fields: map[string]secret.Value{"value": secret.NewValue("canary")},
		Lease: &secret.Lease{ID: path, Life: time.Hour}}, nil
}

func (system) Check(context.Context) error { return nil }

func (system) Renew(context.Context, string) (time.Duration, error) { return time.Hour, nil }

func (system) Revoke(_ context.Context, lease string) error {
	if lease == "t1/stuck" {
		return errors.New("no answer")
	}
	return nil
}

func TestMeter_CountsEachOutcome(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	m := meter.New(registry, []string{"cloud", "db"})
	source := secret.Source{Name: "cloud", Provider: system{}, Path: "{tenant}/{key}", CacheTTL: time.Minute,
		Timeout: time.Second}
	lender := source
	lender.Name, lender.Leases = "db", true
	r := secret.NewResolver(source, lender)
	r.Observer = m
	for _, key := range []string{"a", "a", "a", "gone", "forbidden", "slow", "down"} {
		_, _ = r.Resolve(t.Context(), secret.Scope{TenantID: "t1"}, []secret.Ref{{Provider: "cloud", Key: key}})
	}
	for _, key := range []string{"role", "stuck"} {
		set, err := r.Resolve(t.Context(), secret.Scope{TenantID: "t1"}, []secret.Ref{{Provider: "db", Key: key}})
		if err != nil {
			t.Fatal(err)
		}
		_ = set.Release(t.Context())
	}
	m.Up("db", false)
	const want = `
# HELP worker_secret_reads_total Reads of secrets by provider and outcome.
# TYPE worker_secret_reads_total counter
worker_secret_reads_total{outcome="cached",provider="cloud"} 2
worker_secret_reads_total{outcome="cached",provider="db"} 0
worker_secret_reads_total{outcome="denied",provider="cloud"} 1
worker_secret_reads_total{outcome="denied",provider="db"} 0
worker_secret_reads_total{outcome="not_found",provider="cloud"} 1
worker_secret_reads_total{outcome="not_found",provider="db"} 0
worker_secret_reads_total{outcome="read",provider="cloud"} 1
worker_secret_reads_total{outcome="read",provider="db"} 2
worker_secret_reads_total{outcome="throttled",provider="cloud"} 1
worker_secret_reads_total{outcome="throttled",provider="db"} 0
worker_secret_reads_total{outcome="unavailable",provider="cloud"} 1
worker_secret_reads_total{outcome="unavailable",provider="db"} 0
# HELP worker_secret_revocations_total Tries to end a lease, by provider and outcome.
# TYPE worker_secret_revocations_total counter
worker_secret_revocations_total{outcome="failed",provider="cloud"} 0
worker_secret_revocations_total{outcome="failed",provider="db"} 1
worker_secret_revocations_total{outcome="ok",provider="cloud"} 0
worker_secret_revocations_total{outcome="ok",provider="db"} 1
# HELP worker_secrets_provider_up 1 while this worker can use a provider of secrets.
# TYPE worker_secrets_provider_up gauge
worker_secrets_provider_up{provider="cloud"} 1
worker_secrets_provider_up{provider="db"} 0
`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want), "worker_secret_reads_total",
		"worker_secret_revocations_total", "worker_secrets_provider_up"); err != nil {
		t.Error(err)
	}
	if n := testutil.CollectAndCount(registry, "worker_secret_read_duration_seconds"); n != 2 {
		t.Errorf("%d series of the duration, want one for each provider", n)
	}
}
