package server

import (
	"errors"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/dvt-engine/dvt/graph/limit"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/dvt-engine/dvt"
	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/engine/remote"
	"github.com/dvt-engine/dvt/graph"
)

// routes is everything that this process answers over HTTP.
func (p *parts) routes() http.Handler {
	p.callers = graph.NewCallers(p.apiConfig())
	mux := http.NewServeMux()
	p.metricsHandler = p.metrics()
	mux.HandleFunc("GET /livez", alive)
	mux.HandleFunc("GET /readyz", p.ready)
	mux.HandleFunc("GET /engine/health", p.health)
	mux.HandleFunc("GET /engine/health/detailed", p.detailedHealth)
	mux.HandleFunc("GET /engine/runs/{runId}/debug", p.debugRun)
	mux.HandleFunc("GET /metrics", p.protectedMetrics)
	p.codecRoutes(mux)
	journal := p.slowed(p.remoteJournal())
	// else ServeMux redirects it, with what the caller wrote, before anybody asks for a token
	mux.Handle(remote.Path, journal)
	mux.Handle(remote.Path+"/", journal)
	if slices.Contains(p.cfg.Duties, "api") {
		p.graph = p.graphQL()
		mux.Handle("/graphql", p.graph)
		p.signInRoutes(mux)
		mux.HandleFunc("GET /schema.graphqls", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/plain; charset=utf-8")
			_, _ = w.Write([]byte(dvt.Schema))
		})
		if p.dev != nil {
			p.devRoutes(mux)
		}
		mux.Handle("/", p.interfaceFiles())
	}
	if p.dev != nil {
		return p.withHeaders(p.onLoopback(p.fromOurPages(mux)))
	}
	return p.withHeaders(p.fromOurPages(mux))
}

// withHeaders gives every answer the headers that keep a browser from guessing types, from sharing a process or a
// window with pages of others, and, where people come by https, from coming by http again.
func (p *parts) withHeaders(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		if p.secure() {
			h.Set("Strict-Transport-Security", "max-age=31536000")
		}
		next.ServeHTTP(w, r)
	})
}

// apiConfig says who may send what to the API.
func (p *parts) apiConfig() graph.Config {
	origins := p.cfg.AllowedOrigins
	if p.cfg.PublicURL != "" {
		origins = append(slices.Clone(origins), p.cfg.PublicURL)
	}
	return graph.Config{
		Identify: p.identify, Session: p.session, Throttle: p.throttle, Failed: p.authFailed, Address: p.address,
		AllowedOrigins: origins, Secure: p.secure(),
	}
}

func (p *parts) graphQL() *graph.Handler {
	cfg := p.apiConfig()
	cfg.Logger, cfg.Introspection = p.log, true
	cfg.Streams.Metrics = p.registry
	cfg.Limits = limit.Limits{PerMinute: p.cfg.RequestsPerMinute, AddressPerMinute: p.cfg.AddressRequestsPerMinute}
	if p.dev != nil {
		cfg.DevPrincipals = devPrincipals
	}
	return graph.NewHandler(graph.UseCasesOf(p.control), cfg)
}

// ready says whether this process should get requests: the store answered within the last second.
func (p *parts) ready(w http.ResponseWriter, r *http.Request) {
	if !p.control.Ready(r.Context()) {
		http.Error(w, "the store does not answer", http.StatusServiceUnavailable)
		return
	}
	_, _ = w.Write([]byte("ok\n"))
}

func (p *parts) remoteJournal() http.Handler {
	return &remote.Server{
		Logger: p.log, ClientCertificates: p.cfg.ListenTLSClientCA != "",
		Authenticate: func(token string) (engine.AttemptJournal, error) {
			w, err := p.directory.AuthenticateWorker(token)
			return p.journal.For(w), err
		},
	}
}

// slowed lets nobody guess tokens of workers faster than those of people.
func (p *parts) slowed(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token, address := authz.Bearer(r.Header.Get("Authorization")), p.address(r)
		if wait := p.throttle.Wait(address, token); wait > 0 {
			p.authFailed(graph.FailedThrottled)
			w.Header().Set("Retry-After", strconv.Itoa(int((wait+time.Second-1)/time.Second)))
			http.Error(w, "too many wrong tokens came from this address", http.StatusTooManyRequests)
			return
		}
		if _, err := p.directory.AuthenticateWorker(token); token != "" && !errors.Is(err, authz.ErrExpired) {
			p.throttle.Done(address, token, err == nil)
			if err != nil {
				p.authFailed(graph.FailedWorker)
			}
		}
		r = r.Clone(r.Context())
		r.Header.Set("Authorization", "Bearer "+token) // what was looked at, and nothing else
		next.ServeHTTP(w, r)
	})
}

// metrics offers what the parts registered, Go's own, and what the hub watches.
func (p *parts) metrics() http.Handler {
	r := p.registry
	r.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	gauge := func(name, help string, value func() float64) {
		r.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, value))
	}
	gauge("dvt_watched_runs", "Runs that this process watches.", func() float64 {
		runs,
			_ := p.hub.Watched()
		return float64(runs)
	})
	gauge("dvt_streams", "Streams that are open in this process.", func() float64 {
		_,
			n := p.hub.Watched()
		return float64(n)
	})
	gauge("dvt_bus_up", "1 while the bus answers.", func() float64 {
		if p.bus.Up() {
			return 1
		}
		return 0
	})
	return promhttp.HandlerFor(r, promhttp.HandlerOpts{})
}
