package server

import (
	"encoding/json"
	"net/http"
	"strings"

	"github.com/dvt-engine/dvt/control/admission"
	"github.com/dvt-engine/dvt/control/health"
)

// health serves the health to probes, without a token. It responds 503 only when the status is UNHEALTHY, so that a
// degraded process is not restarted (contract H01, T136). Only detailedHealth returns the messages of checks.
func (p *parts) health(w http.ResponseWriter, r *http.Request) {
	h := p.control.SampledHealth(r.Context())
	type check struct {
		Status    string `json:"status"`
		LatencyMS int64  `json:"latencyMs"`
		Reachable *bool  `json:"reachable,omitempty"` // secretsProvider: each provider, for each worker that uses it
	}
	out := struct {
		Status string           `json:"status"`
		Role   string           `json:"role"`   // primary or standby
		Checks map[string]check `json:"checks"` // by name
	}{strings.ToLower(h.Status), p.site.role(), make(map[string]check, len(h.Checks))}
	for _, c := range h.Checks {
		one := check{Status: strings.ToLower(c.Status), LatencyMS: c.Latency.Milliseconds()}
		if len(c.Providers) > 0 {
			one.Reachable = new(c.Status == "HEALTHY")
		}
		out.Checks[c.Name] = one
	}
	answerHealth(w, h.Status, out)
}

func answerHealth(w http.ResponseWriter, status string, body any) {
	w.Header().Set("Content-Type", "application/json")
	if status == "UNHEALTHY" {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	_ = json.NewEncoder(w).Encode(body)
}

// detailedCheck is one of the five checks with the details that only operators see.
type detailedCheck struct {
	Status    string  `json:"status"`
	LatencyMS float64 `json:"latencyMs"`
	Message   string  `json:"message,omitempty"`

	Namespace         string   `json:"namespace,omitempty"`         // temporal
	StartLatencyP95MS *float64 `json:"startLatencyP95Ms,omitempty"` // temporal; none without starts in the last minute
	Connections       *int     `json:"connections,omitempty"`       // stateStore
	BacklogDepth      *int     `json:"backlogDepth,omitempty"`      // eventBus

	Providers map[string]providerState `json:"providers,omitempty"` // secretsProvider, by name
}

// providerState is a provider of secrets, as the workers that use it report it.
type providerState struct {
	Reachable bool   `json:"reachable"`
	LatencyMS int64  `json:"latencyMs"`
	Workers   int    `json:"workers"`
	Failing   int    `json:"failing,omitempty"`
	Problem   string `json:"problem,omitempty"`
}

func providerStates(providers []health.ProviderState) map[string]providerState {
	out := map[string]providerState{}
	for _, p := range providers {
		out[p.Name] = providerState{Reachable: p.Reachable, LatencyMS: p.Latency.Milliseconds(), Workers: p.Workers,
			Failing: p.Failing, Problem: p.Problem}
	}
	return out
}

// connectionCounter is a store that knows the number of its open connections.
type connectionCounter interface{ Connections() int }

// detailedHealth serves the health with details to callers who may debug: 401 without a token, 403 without the right.
func (p *parts) detailedHealth(w http.ResponseWriter, r *http.Request) {
	var h health.DetailedHealth
	who, err := p.callers.Caller(r)
	if err == nil {
		h, err = p.control.DetailedHealth(r.Context(), who)
	}
	if refusedHTTP(w, err) {
		return
	}
	out := struct {
		Status       string                   `json:"status"`
		Mode         admission.EngineMode     `json:"mode"`
		StartBreaker string                   `json:"startBreaker"`
		StartSamples int                      `json:"startSamples"`
		ActiveRuns   int64                    `json:"activeRuns"`
		Checks       map[string]detailedCheck `json:"checks"` // by name
	}{
		Status: strings.ToLower(h.Status), Mode: h.Mode, StartBreaker: "CLOSED", StartSamples: h.StartSamples,
		ActiveRuns: h.ActiveRuns, Checks: make(map[string]detailedCheck, len(h.Checks)),
	}
	if h.BreakerOpen {
		out.StartBreaker = "OPEN"
	}
	for _, c := range h.Checks {
		d := detailedCheck{Status: strings.ToLower(c.Status), LatencyMS: float64(c.Latency.Microseconds()) / 1000,
			Message: c.Message}
		switch c.Name {
		case "temporal":
			d.Namespace = p.cfg.TemporalNamespace
			if h.StartSamples > 0 {
				d.StartLatencyP95MS = new(float64(h.StartP95.Microseconds()) / 1000)
			}
		case "stateStore":
			if s, ok := p.opened.(connectionCounter); ok {
				d.Connections = new(s.Connections())
			}
		case "secretsProvider":
			d.Providers = providerStates(c.Providers)
		case "eventBus":
			d.BacklogDepth = &h.Backlog
		}
		out.Checks[c.Name] = d
	}
	answerHealth(w, h.Status, out)
}
