package health

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/dvt-engine/dvt/control/admission"
	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/store"
)

// SecretsStore reads what workers report.
type SecretsStore interface {
	WorkerReports(ctx context.Context, queues []string, age time.Duration) ([]store.WorkerReport, error)
}

// ProviderState is what the live workers report about a provider of secrets. Servers use none themselves.
type ProviderState struct {
	Name      string
	Reachable bool          // for each of the workers
	Latency   time.Duration // the longest of the workers' last checks
	Workers   int           // that use it
	Failing   int           // of them, that cannot use it
	Problem   string        // of one of these; "" when there are none
}

const (
	// secretsFresh is how long a server remembers the reports: workers report every 20 seconds.
	secretsFresh = 5 * time.Second
	maxProviders = 100 // of all workers together; further ones, in the order of names, are not shown
)

// storeView is the store, with the states of providers that it remembers for secretsFresh.
type storeView struct {
	HealthStore
	reports SecretsStore
	standby func() string // says that this site is a standby; nil: it is not

	mu   sync.Mutex
	last []ProviderState
	at   time.Time // zero before the first read
}

// providers returns the providers of secrets that live workers report, by name. When the store does not answer, they
// are those of the last read: the check of the store says the rest.
func (s *storeView) providers(ctx context.Context, now time.Time) []ProviderState {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.at.IsZero() && now.Sub(s.at) < secretsFresh {
		return s.last
	}
	rows, err := s.reports.WorkerReports(ctx, nil, admission.FreshReport)
	if err == nil {
		s.last, s.at = providersOf(rows), now
	}
	return s.last
}

// providersOf merges the reports of workers. A worker has a report for each of its queues and counts once.
func providersOf(rows []store.WorkerReport) []ProviderState {
	states, seen := map[string]ProviderState{}, map[string]bool{}
	for _, row := range rows {
		var r engine.WorkerReport
		worker := row.Account + "/" + row.Worker
		if seen[worker] || json.Unmarshal(row.Doc, &r) != nil {
			continue
		}
		seen[worker] = true
		for _, p := range r.Secrets {
			state := states[p.Name]
			state.Name, state.Workers = p.Name, state.Workers+1
			state.Latency = max(state.Latency, time.Duration(p.LatencyMS)*time.Millisecond)
			if !p.Reachable {
				state.Failing, state.Problem = state.Failing+1, p.Problem
			}
			state.Reachable = state.Failing == 0
			states[p.Name] = state
		}
	}
	var out []ProviderState
	for _, name := range slices.Sorted(maps.Keys(states)) {
		out = append(out, states[name])
	}
	return out[:min(len(out), maxProviders)]
}

// secretsTrouble says which providers cannot be used, or "".
func secretsTrouble(providers []ProviderState) string {
	var out []string
	for _, p := range providers {
		if !p.Reachable {
			out = append(out, fmt.Sprintf("%d of %d workers cannot use the provider %s (%s)", p.Failing, p.Workers, p.Name,
				strings.TrimPrefix(p.Problem, "secret: ")))
		}
	}
	const most = 3
	if more := len(out) - most; more > 0 {
		out = append(out[:most], fmt.Sprintf("%d more providers cannot be used", more))
	}
	if len(out) == 0 {
		return ""
	}
	return strings.Join(out, "; ") + ". Steps that name their secrets fail, and nothing else stops."
}

// complete adds the providers to the check of secrets. Its latency is that of the slowest.
func (c *HealthCheck) complete(providers []ProviderState) {
	c.Providers, c.Unused = providers, len(providers) == 0
	if c.Unused {
		c.Message = "No worker reports a provider of secrets. Steps that name secrets fail."
		return
	}
	for _, p := range providers {
		c.Latency = max(c.Latency, p.Latency)
	}
	if c.Message == "" {
		c.Message = fmt.Sprintf("Workers can use all %d providers of secrets.", len(providers))
		if len(providers) == 1 {
			c.Message = "Workers can use the provider of secrets."
		}
	}
}
