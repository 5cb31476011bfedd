package server

import (
	"errors"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/dvt-engine/dvt"
	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/graph"
	"github.com/dvt-engine/dvt/store/remote"
)

// routes is everything that this process answers over HTTP. notes is set in
// `dvt dev` only, which also signs browsers in.
func (p *parts) routes(notes *notifications) http.Handler {
	p.callers = graph.NewCallers(p.apiConfig())
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok\n")) })
	mux.HandleFunc("GET /readyz", p.ready)
	mux.HandleFunc("GET /engine/health", p.health)
	mux.HandleFunc("GET /engine/health/detailed", p.detailedHealth)
	mux.HandleFunc("GET /engine/runs/{runId}/debug", p.debugRun)
	mux.Handle("GET /metrics", p.metrics())
	mux.Handle(remote.Path, p.slowed(p.remoteJournal()))
	if slices.Contains(p.cfg.Duties, "api") {
		p.graph = p.graphQL(notes != nil)
		mux.Handle("/graphql", p.graph)
		p.signInRoutes(mux)
		mux.HandleFunc("GET /schema.graphqls", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/plain; charset=utf-8")
			_, _ = w.Write([]byte(dvt.Schema))
		})
		if notes != nil {
			mux.HandleFunc("POST /dev/session", p.devSession)
			mux.HandleFunc("POST /dev/notify", notes.receive)
			mux.HandleFunc("GET /dev/notify", notes.list)
			mux.HandleFunc("GET /dev/plans/{name}", p.devPlan)
		}
		mux.Handle("/", p.interfaceFiles(notes != nil))
	}
	if notes != nil {
		return p.onLoopback(mux)
	}
	return mux
}

// apiConfig says who may send what to the API.
func (p *parts) apiConfig() graph.Config {
	origins := p.cfg.AllowedOrigins
	if p.cfg.PublicURL != "" {
		origins = append(slices.Clone(origins), p.cfg.PublicURL)
	}
	return graph.Config{Identify: p.identify, Session: p.session, Throttle: p.throttle, Address: p.address, AllowedOrigins: origins}
}

func (p *parts) graphQL(dev bool) *graph.Handler {
	cfg := p.apiConfig()
	cfg.Logger, cfg.Introspection = p.log, true
	cfg.Streams.Metrics = p.registry
	if dev {
		cfg.DevPrincipals = devPrincipals
	}
	return graph.NewHandler(p.control, cfg)
}

// ready says whether this process should get requests: the store answers.
func (p *parts) ready(w http.ResponseWriter, r *http.Request) {
	if err := p.raw.Ping(r.Context()); err != nil {
		http.Error(w, "the store does not answer", http.StatusServiceUnavailable)
		return
	}
	_, _ = w.Write([]byte("ok\n"))
}

func (p *parts) remoteJournal() http.Handler {
	return &remote.Server{
		Journal: p.journal, Logger: p.log, Tenant: p.journal.Tenant,
		Authenticate: func(token string) (func(string) bool, error) {
			w, err := p.directory.AuthenticateWorker(token)
			return w.MayServe, err
		},
	}
}

// slowed lets nobody guess tokens of workers faster than those of people.
func (p *parts) slowed(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token, address := authz.Bearer(r.Header.Get("Authorization")), p.address(r)
		if wait := p.throttle.Wait(address, token); wait > 0 {
			w.Header().Set("Retry-After", strconv.Itoa(int((wait+time.Second-1)/time.Second)))
			http.Error(w, "too many wrong tokens came from this address", http.StatusTooManyRequests)
			return
		}
		if _, err := p.directory.AuthenticateWorker(token); token != "" && !errors.Is(err, authz.ErrExpired) {
			p.throttle.Done(address, token, err == nil)
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
	gauge("dvt_watched_runs", "Runs that this process watches.", func() float64 { runs, _ := p.hub.Watched(); return float64(runs) })
	gauge("dvt_streams", "Streams that are open in this process.", func() float64 { _, n := p.hub.Watched(); return float64(n) })
	gauge("dvt_bus_up", "1 while the bus answers.", func() float64 {
		if p.bus.Up() {
			return 1
		}
		return 0
	})
	return promhttp.HandlerFor(r, promhttp.HandlerOpts{})
}
