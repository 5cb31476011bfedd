package server

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/dvt-engine/dvt/graph/limit"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/dvt-engine/dvt"
	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/engine/remote"
	"github.com/dvt-engine/dvt/graph"
	"github.com/dvt-engine/dvt/otlp/spans"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// routes returns the handler of all HTTP routes of this process. Call it once, because it registers metrics.
func (p *parts) routes() http.Handler {
	p.callers = graph.NewCallers(p.apiConfig())
	mux := http.NewServeMux()
	p.metricsHandler = p.metrics()
	mux.HandleFunc("GET /livez", livez)
	mux.HandleFunc("GET /readyz", p.ready)
	mux.HandleFunc("GET /engine/health", p.health)
	mux.HandleFunc("GET /engine/health/detailed", p.detailedHealth)
	mux.HandleFunc("GET /engine/runs/{runId}/debug", p.debugRun)
	mux.HandleFunc("GET /engine/runs/{runId}/steps/{stepId}/logs", p.debugStepLogs)
	mux.HandleFunc("POST /engine/runs/{runId}/inspect", p.inspectRun)
	mux.HandleFunc("/engine/", p.unknownEngine)
	mux.HandleFunc("GET /metrics", p.protectedMetrics)
	p.codecRoutes(mux)
	journal := p.throttleWorkers(p.remoteJournal())
	// Without the route for the exact path, ServeMux redirects it and repeats the caller's input before a token is
	// checked.
	mux.Handle(remote.Path, journal)
	mux.Handle(remote.Path+"/", journal)
	if slices.Contains(p.cfg.Duties, "api") {
		p.graph = p.graphQL()
		mux.Handle("/graphql", p.graph)
		p.signInRoutes(mux)
		p.downloadRoutes(mux)
		p.shareRoutes(mux)
		mux.HandleFunc("GET /schema.graphqls", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/plain; charset=utf-8")
			_, _ = w.Write([]byte(dvt.Schema))
		})
		mux.HandleFunc("GET "+plan.SchemaPath+"{file}", planSchema)
		p.apiPageRoutes(mux)
		if p.dev != nil {
			p.devRoutes(mux)
		}
		mux.Handle("/", p.interfaceFiles())
	}
	if p.dev != nil {
		return withRequestID(p.logAccess(p.traceRequests(p.withHeaders(p.requireLoopback(p.requireOwnOrigin(mux))))))
	}
	return withRequestID(p.logAccess(p.traceRequests(p.withHeaders(p.requireOwnOrigin(mux)))))
}

// planSchema serves the JSON Schema of a version of plans, such as /schemas/plan/v1.2.json, to editors. It is the same
// for everybody and says nothing about this installation, so it needs no token.
func planSchema(w http.ResponseWriter, r *http.Request) {
	version, isJSON := strings.CutSuffix(r.PathValue("file"), ".json")
	doc, ok := plan.JSONSchema(version)
	if !isJSON || !ok {
		http.NotFound(w, r)
		return
	}
	h := w.Header()
	h.Set("Content-Type", "application/schema+json")
	h.Set("Cache-Control", "public, max-age=3600")
	_, _ = w.Write(doc)
}

// withHeaders sets headers on every response that prevent a browser from guessing content types and from sharing a
// process or a window with pages of other origins. With https they also prevent the browser from using http later.
func (p *parts) withHeaders(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		if p.usesHTTPS() {
			h.Set("Strict-Transport-Security", "max-age=31536000")
		}
		next.ServeHTTP(w, r)
	})
}

// apiConfig returns the settings of the API for authentication, throttling and origins.
func (p *parts) apiConfig() graph.Config {
	origins := p.cfg.AllowedOrigins
	if p.cfg.PublicURL != "" {
		origins = append(slices.Clone(origins), p.cfg.PublicURL)
	}
	return graph.Config{
		Identify: p.identify, Session: p.session, Throttle: p.throttle, Failed: p.authFailed, Address: p.address,
		AllowedOrigins: origins, Secure: p.usesHTTPS(),
	}
}

func (p *parts) graphQL() *graph.Handler {
	cfg := p.apiConfig()
	cfg.Logger, cfg.Introspection, cfg.RequestID = p.log, true, requestID
	cfg.Operation, cfg.Fault, cfg.Standby = noteOperation, spans.Fail, p.site.standby
	cfg.Streams.Metrics = p.registry
	cfg.Limits = limit.Limits{PerMinute: p.cfg.RequestsPerMinute, AddressPerMinute: p.cfg.AddressRequestsPerMinute}
	if p.dev != nil {
		cfg.DevPrincipals = devPrincipals
	}
	return graph.NewHandler(p.control, cfg)
}

// ready serves /readyz. It responds 200 when the store answered within the last second, and 503 otherwise and once the
// server was asked to stop, so that a load balancer sends requests to other processes. With ?role=primary it also
// responds 503 on a standby.
func (p *parts) ready(w http.ResponseWriter, r *http.Request) {
	if p.stopping.Load() {
		http.Error(w, "the server stops", http.StatusServiceUnavailable)
		return
	}
	if !p.control.Ready(r.Context()) {
		http.Error(w, "the store does not answer", http.StatusServiceUnavailable)
		return
	}
	if p.site.standby && r.URL.Query().Get("role") == "primary" {
		http.Error(w, "this site is a standby", http.StatusServiceUnavailable)
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
		Unknown: p.tellAboutWorker, Standby: p.site.standby,
	}
}

// tellAboutWorker raises an alert about a worker whose token no account has. Strangers can cause it too, so it is not
// of level HIGH, and there is one for the installation.
func (p *parts) tellAboutWorker(ctx context.Context, remoteAddress string) {
	if !p.control.IsFirst(string(run.CodeWorkerDenied)) {
		return
	}
	_, err := p.control.Raise(ctx, store.Alert{Level: store.AlertMedium, Code: run.CodeWorkerDenied,
		Actor: control.EngineActor, Note: "A worker at " + remoteAddress + " calls the journal with a token that no " +
			"account has, so it begins no step. Give it the token of its account, then restart it. If no worker of yours is " +
			"there, somebody is guessing tokens."})
	if err != nil && ctx.Err() == nil && !errors.Is(err, store.ErrUnavailable) {
		p.log.WarnContext(ctx, "the alert about a worker's token was not written", slog.Any("error", err))
	}
}

// throttleWorkers limits wrong tokens of workers by address, so that nobody can guess them faster than those of people.
func (p *parts) throttleWorkers(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token, address := authz.Bearer(r.Header.Get("Authorization")), p.address(r)
		if wait := p.throttle.Wait(address, token); wait > 0 {
			p.authFailed(graph.FailedThrottled)
			w.Header().Set("Retry-After", strconv.Itoa(int((wait+time.Second-1)/time.Second)))
			http.Error(w, "too many wrong tokens came from this address: wait as long as Retry-After says", http.StatusTooManyRequests)
			return
		}
		if _, err := p.directory.AuthenticateWorker(token); token != "" && !errors.Is(err, authz.ErrExpired) {
			p.throttle.RecordResult(address, token, err == nil)
			if err != nil {
				p.authFailed(graph.FailedWorker)
			}
		}
		r = r.Clone(r.Context())
		r.Header.Set("Authorization", "Bearer "+token) // only the token that was checked
		next.ServeHTTP(w, r)
	})
}

// metrics adds the metrics of the Go runtime, the process, the hub and the bus to the registry, and returns the handler
// of /metrics.
func (p *parts) metrics() http.Handler {
	r := p.registry
	r.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	gauge := func(name, help string, value func() float64) {
		r.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, value))
	}
	gauge("dvt_watched_runs", "Runs that this process watches.", func() float64 {
		runs, _ := p.hub.Watched()
		return float64(runs)
	})
	gauge("dvt_streams", "Streams that are open in this process.", func() float64 {
		_, n := p.hub.Watched()
		return float64(n)
	})
	gauge("dvt_bus_up", "1 while the bus answers.", func() float64 {
		if p.bus.Up() {
			return 1
		}
		return 0
	})
	gauge("dvt_site_standby", "1 while this process belongs to a standby site.", p.site.isStandby)
	gauge("dvt_replica_lag_bytes", "Bytes of the log of the primary that the database of this standby has not replayed.",
		p.site.lagBytes)
	gauge("dvt_replica_lag_seconds", "Age of the newest transaction of a standby that is behind its primary.",
		p.site.lagSeconds)
	return promhttp.HandlerFor(r, promhttp.HandlerOpts{EnableOpenMetrics: true})
}

// requestIDHeader names a request to people and to logs. A proxy or a client may choose the id.
const requestIDHeader = "X-Request-Id"

// maxRequestID is the maximum length of an id that a caller chooses.
const maxRequestID = 64

type requestIDKey struct{}

// withRequestID keeps the caller's X-Request-Id if it has 1 to 64 of A-Z a-z 0-9 - _ . :, and else sets a random one,
// because the id is copied into logs. The answer repeats the id.
func withRequestID(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id := r.Header.Get(requestIDHeader)
		if !isRequestID(id) {
			id = rand.Text()
		}
		w.Header().Set(requestIDHeader, id)
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), requestIDKey{}, id)))
	})
}

// requestID returns the id of the request that ctx belongs to, or "".
func requestID(ctx context.Context) string {
	id, _ := ctx.Value(requestIDKey{}).(string)
	return id
}

func isRequestID(s string) bool {
	for _, c := range []byte(s) {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '-', c == '_', c == '.', c == ':':
		default:
			return false
		}
	}
	return s != "" && len(s) <= maxRequestID
}

// accessEntry collects what a line of the access log says about a request. It is safe for concurrent use, because a
// socket authenticates again while it is open.
type accessEntry struct {
	mu                             sync.Mutex
	principal, tenantID, operation string
}

type accessKey struct{}

// accessOf returns the entry of the request that ctx belongs to, or nil while the log has no such lines.
func accessOf(ctx context.Context) *accessEntry {
	a, _ := ctx.Value(accessKey{}).(*accessEntry)
	return a
}

func (a *accessEntry) setPrincipal(who authz.Principal) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.principal, a.tenantID = who.ID, who.TenantID
}

// noteOperation remembers the name of an operation if it is one: anything else could be a text of a query.
func noteOperation(ctx context.Context, name string) {
	if !isRequestID(name) {
		return
	}
	spans.SetOperation(ctx, name)
	if a := accessOf(ctx); a != nil {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.operation = name
	}
}

// logAccess writes one line for each request at the level DEBUG: no query, no value and no path, because paths of share
// links are secrets. A socket has its line when it ends.
func (p *parts) logAccess(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !p.log.Enabled(r.Context(), slog.LevelDebug) {
			next.ServeHTTP(w, r)
			return
		}
		began, a, out := time.Now(), &accessEntry{}, &statusWriter{ResponseWriter: w, status: http.StatusOK}
		r = r.WithContext(context.WithValue(r.Context(), accessKey{}, a))
		next.ServeHTTP(out, r)
		a.mu.Lock()
		defer a.mu.Unlock()
		p.log.DebugContext(r.Context(), "request", slog.String("requestId", requestID(r.Context())),
			slog.String("method", r.Method), slog.String("route", r.Pattern), slog.Int("status", out.status),
			slog.Int64("ms", time.Since(began).Milliseconds()), slog.String("principal", a.principal),
			slog.String("tenantId", a.tenantID), slog.String("operation", a.operation))
	})
}

// statusWriter remembers the status of an answer.
type statusWriter struct {
	http.ResponseWriter
	status int
	wrote  bool
}

func (w *statusWriter) WriteHeader(status int) {
	if !w.wrote {
		w.status, w.wrote = status, status >= 200
	}
	w.ResponseWriter.WriteHeader(status)
}

// Unwrap is for http.ResponseController.
func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Flush implements http.Flusher for event streams.
func (w *statusWriter) Flush() { _ = http.NewResponseController(w.ResponseWriter).Flush() }

// Hijack implements http.Hijacker for sockets.
func (w *statusWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	w.status = http.StatusSwitchingProtocols
	return http.NewResponseController(w.ResponseWriter).Hijack()
}
