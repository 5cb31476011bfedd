package server

import (
	"context"
	"log/slog"
	"path/filepath"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/secret"
	"github.com/dvt-engine/dvt/secret/meter"
	"github.com/dvt-engine/dvt/secret/providers"
	"github.com/dvt-engine/dvt/server/config"
)

const (
	// secretsCheckEvery is the time between two checks of providers; after a failed one it is secretsCheckAgain.
	secretsCheckEvery = 30 * time.Second
	secretsCheckAgain = 10 * time.Second
	// secretsFailures are the checks in a row that must fail before a provider counts as down, so that one slow answer
	// wakes nobody. The first check after the start of the worker counts alone.
	secretsFailures = 2
)

// secretsWatch has the providers of secrets of a worker and what the last checks found. It is safe for concurrent use.
type secretsWatch struct {
	*secret.Resolver
	meter   *meter.Meter
	checked bool // a file of providers names them; the file of `dvt dev` need not exist
	log     *slog.Logger

	mu       sync.Mutex
	states   map[string]engine.SecretsProvider
	failures map[string]int // in a row
}

// openSecrets opens the providers of the settings. It connects to none of them.
func openSecrets(cfg config.Config, registry prometheus.Registerer, log *slog.Logger) (*secretsWatch, error) {
	r, err := providers.Open(cfg.Secrets, cfg.Dev, cfg.Data)
	if err != nil {
		return nil, err
	}
	w := &secretsWatch{Resolver: r, meter: meter.New(registry, r.Names()), checked: cfg.Secrets != "", log: log,
		states: map[string]engine.SecretsProvider{}, failures: map[string]int{}}
	r.Held, r.Observer = filepath.Join(cfg.Data, "leases"), w.meter
	return w, nil
}

// watch checks the providers at once and repeatedly until ctx ends.
func (w *secretsWatch) watch(ctx context.Context) {
	for w.checked {
		pause := secretsCheckEvery
		if results := w.Measure(ctx); ctx.Err() == nil && !w.note(results) {
			pause = secretsCheckAgain
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
	}
}

// note keeps the results of a check, logs what changed, and reports whether every check succeeded.
func (w *secretsWatch) note(results map[string]secret.Checked) (well bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	well = true
	for name, result := range results {
		before, known := w.states[name]
		now := engine.SecretsProvider{Name: name, Reachable: true, LatencyMS: result.Took.Milliseconds()}
		if result.Err == nil {
			w.failures[name] = 0
		} else {
			well = false
			if w.failures[name]++; known && before.Reachable && w.failures[name] < secretsFailures {
				continue
			}
			now.Reachable, now.Problem = false, result.Err.Error()
		}
		w.states[name] = now
		w.meter.Up(name, now.Reachable)
		switch {
		case known && now.Reachable == before.Reachable:
		case !now.Reachable:
			w.log.Warn("a provider of secrets cannot be used; steps that name it will fail", slog.String("provider", name),
				slog.Any("error", result.Err))
		default:
			w.log.Info("a provider of secrets can be used", slog.String("provider", name))
		}
	}
	return well
}

// report returns the states of the providers, by name. It is empty before the first check.
func (w *secretsWatch) report() []engine.SecretsProvider {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []engine.SecretsProvider
	for _, name := range w.Names() {
		if state, known := w.states[name]; known {
			out = append(out, state)
		}
	}
	return out[:min(len(out), engine.MaxSecretsProviders)]
}
