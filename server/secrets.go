package server

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/engine/executor"
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
	meter *meter.Meter
	file  string // that has to exist for a check; of `dvt dev` it need not
	log   *slog.Logger

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
	w := &secretsWatch{Resolver: r, meter: meter.New(registry, r.Names()), log: log,
		states: map[string]engine.SecretsProvider{}, failures: map[string]int{}}
	if cfg.Secrets == "" {
		w.file = providers.DevFile(cfg.Data)
	}
	r.Held, r.Observer = filepath.Join(cfg.Data, "leases"), w.meter
	return w, nil
}

// watch checks the providers at once and repeatedly until ctx ends.
func (w *secretsWatch) watch(ctx context.Context) {
	for len(w.Names()) > 0 {
		pause := secretsCheckEvery
		if w.file != "" && !exists(w.file) {
			w.forget()
		} else if results := w.Measure(ctx); ctx.Err() == nil && !w.note(results) {
			pause = secretsCheckAgain
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
	}
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}

// forget forgets what the last checks found.
func (w *secretsWatch) forget() {
	w.mu.Lock()
	defer w.mu.Unlock()
	clear(w.states)
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

const (
	// secretPoll is the time between two polls for orders about secrets.
	secretPoll = 2 * time.Second
	// secretPollFailed is the time after a poll that failed.
	secretPollFailed = 10 * time.Second
	// secretOrderTime bounds the work for one order.
	secretOrderTime = 30 * time.Second
	// maxOrdersAtOnce bounds the orders that one poll begins.
	maxOrdersAtOnce = 20
)

// secretOrders carries out the orders about secrets that a server gives to a worker: it checks which secrets can be
// read, forgets values and ends leases. One goroutine may use it.
type secretOrders struct {
	to       engine.SecretDispatcher
	secrets  *secret.Resolver
	worker   string
	queues   []string
	log      *slog.Logger
	answered map[string]engine.SecretAnswer // orders that the server still gives
	unsent   []engine.SecretAnswer
}

// run polls for orders until ctx ends.
func (s *secretOrders) run(ctx context.Context) {
	s.answered = map[string]engine.SecretAnswer{}
	failing := false
	for {
		pause := secretPoll
		did, err := s.poll(ctx)
		if err != nil && ctx.Err() == nil && !failing {
			s.log.WarnContext(ctx, "orders about secrets cannot be read from the server; the worker tries again",
				slog.Any("error", err))
		}
		if failing = err != nil; failing {
			pause = secretPollFailed
		}
		if did {
			continue // send the answers at once
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
	}
}

// poll sends the answers that it has and carries out new orders. It reports whether there are answers to send.
func (s *secretOrders) poll(ctx context.Context) (bool, error) {
	call, cancel := context.WithTimeout(ctx, reportTimeout)
	defer cancel()
	var orders []engine.SecretOrder
	var errs []error
	parts := slices.Collect(slices.Chunk(slices.Compact(slices.Sorted(slices.Values(s.queues))), reportQueues))
	for _, part := range parts {
		given, err := s.to.SecretOrders(call, engine.SecretPoll{Worker: s.worker, Queues: part, Answers: s.unsent})
		orders, errs = append(orders, given...), append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return false, err
	}
	s.unsent = nil
	open := map[string]bool{}
	begun := 0
	for _, o := range orders {
		open[o.ID] = true
		if _, done := s.answered[o.ID]; done || begun == maxOrdersAtOnce {
			continue
		}
		begun++
		answer := s.carryOut(ctx, o)
		s.answered[o.ID] = answer
		s.unsent = append(s.unsent, answer)
	}
	maps.DeleteFunc(s.answered, func(id string, _ engine.SecretAnswer) bool { return !open[id] })
	return begun > 0, nil
}

func (s *secretOrders) carryOut(ctx context.Context, o engine.SecretOrder) engine.SecretAnswer {
	ctx, cancel := context.WithTimeout(ctx, secretOrderTime)
	defer cancel()
	out := engine.SecretAnswer{OrderID: o.ID}
	switch {
	case o.Revoke != nil:
		did := s.secrets.Revoke(ctx, o.TenantID, o.Revoke.RunID)
		out.Dropped, out.Ended, out.Failed = did.Dropped, did.Ended, did.Failed
		s.log.WarnContext(ctx, "secrets were revoked: the worker forgot its values and ended its leases",
			slog.String("tenantId", o.TenantID), slog.String("runId", o.Revoke.RunID), slog.Int("values", did.Dropped),
			slog.Int("leases", did.Ended), slog.Int("failed", did.Failed))
	case o.Check != nil:
		out.Checked = executor.CheckSecrets(ctx, s.secrets,
			secret.Scope{TenantID: o.TenantID, EnvironmentID: o.Check.EnvironmentID}, o.Check.Refs)
	}
	return out
}
