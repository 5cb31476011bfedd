package server

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/pprof"
	"os"
	"strings"
	"time"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/engine/remote"
	"github.com/dvt-engine/dvt/otlp"
	"github.com/dvt-engine/dvt/otlp/spans"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/trace"
	"github.com/dvt-engine/dvt/server/config"
	"github.com/dvt-engine/dvt/store"
	"github.com/dvt-engine/dvt/store/decorate"
	"github.com/dvt-engine/dvt/tracer"

	"golang.org/x/sync/errgroup"
)

// observers returns the routes of the listener metrics-listen, which requires no token. Profiles show memory and
// therefore secrets, so they exist only when the listener is on loopback. It then accepts only names of
// loopback as the host: a web page can point its own name at this machine and read the responses (DNS rebinding).
func (p *parts) observers() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", livez)
	mux.HandleFunc("GET /readyz", p.ready)
	mux.HandleFunc("GET /engine/health", p.health)
	mux.Handle("GET /metrics", p.metricsHandler)
	if !config.IsLoopback(p.cfg.MetricsListen) {
		return mux
	}
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !namesLoopback(r) {
			http.Error(w, "metrics-listen answers under localhost and loopback addresses only", http.StatusMisdirectedRequest)
			return
		}
		mux.ServeHTTP(w, r)
	})
}

func livez(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok\n")) }

// protectedMetrics serves /metrics on the listener of the API. It requires DEBUG on the installation, because the
// labels name tenants.
func (p *parts) protectedMetrics(w http.ResponseWriter, r *http.Request) {
	who, err := p.callers.Caller(r)
	if err == nil {
		err = p.control.MayObserve(r.Context(), who)
	}
	if err == nil {
		p.metricsHandler.ServeHTTP(w, r)
		return
	}
	refusedHTTP(w, err)
}

// serveObservers serves routes on metrics-listen until ctx ends. It does nothing when metrics-listen is empty.
func serveObservers(ctx context.Context, cfg config.Config, routes http.Handler, log *slog.Logger,
	g *errgroup.Group) error {
	if cfg.MetricsListen == "" {
		return nil
	}
	ln, err := listen(ctx, cfg.MetricsListen, "metrics-listen")
	if err != nil {
		return err
	}
	srv := httpServer(routes)
	srv.ErrorLog = httpErrors(log)
	g.Go(func() error {
		if err := srv.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return nil
	})
	g.Go(func() error {
		<-ctx.Done()
		return srv.Close()
	})
	return nil
}

// openTraces opens the connection to the receiver of traces, if the environment names one.
func (p *parts) openTraces(ctx context.Context) (err error) {
	if !otlp.IsEnabled(os.Getenv) {
		return nil
	}
	if p.spans, err = otlp.Open(ctx, os.Getenv, "", p.log); err != nil {
		return err
	}
	p.requests = spans.New(spans.Config{Client: p.spans, Ratio: p.cfg.TraceSample, Runs: p.cfg.TraceRuns,
		Metrics: p.registry})
	return nil
}

// traceStore returns s with a span for each call, or s without a receiver of traces.
func (p *parts) traceStore(s store.Store) store.Store {
	if p.requests == nil {
		return s
	}
	system := "postgresql"
	if strings.HasPrefix(p.cfg.Store, "sqlite:") {
		system = "sqlite"
	}
	return decorate.Trace(s, func(ctx context.Context, call, runID string) (context.Context, func(string)) {
		return p.requests.Store(ctx, system, call, runID)
	})
}

// traceRequests makes a span of each request, but for probes and scrapes.
func (p *parts) traceRequests(next http.Handler) http.Handler {
	if p.requests == nil {
		return next
	}
	traced := p.requests.Requests(next, func(r *http.Request) bool {
		if !strings.HasPrefix(r.URL.Path, remote.Path+"/") {
			return false
		}
		_, err := p.directory.AuthenticateWorker(authz.Bearer(r.Header.Get("Authorization")))
		return err == nil
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/livez", "/readyz", "/metrics":
			next.ServeHTTP(w, r)
		default:
			traced.ServeHTTP(w, r)
		}
	})
}

// newTracer returns the exporter of the traces of runs.
func (p *parts) newTracer() *tracer.Exporter {
	return tracer.New(tracer.Config{
		Store: p.raw, Sender: p.spans, Owner: p.owner, Ratio: p.cfg.TraceRuns, Now: p.now, Metrics: p.registry,
		Logger: p.log,
	})
}

// traceparent returns the function that gives attempts the context of the trace of their run, or nil without a receiver
// of traces.
func (p *parts) traceparent() func(runID, stepID string, logicalAttempt int) string {
	if p.spans == nil {
		return nil
	}
	return func(runID, stepID string, logicalAttempt int) string {
		return trace.Parent(runID, stepID, logicalAttempt, p.cfg.TraceRuns)
	}
}

// raiseTime bounds the time in which a finding of the projector becomes an alert.
const raiseTime = 10 * time.Second

// raiseProjectorAlert turns a finding of the projector into an alert, without blocking the projector. A lost one is
// found again while its state lasts.
func (p *parts) raiseProjectorAlert(runID string, code run.Code, why string) {
	a := store.Alert{RunID: runID, Code: code, Level: store.AlertHigh, Note: why}
	switch code {
	case run.CodeLagHigh:
		a.Level = store.AlertMedium
	case run.CodeCausalViolation:
		a.Level = store.AlertLow
	}
	if runID == "" && p.control.IsRecent(a) {
		return
	}
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), raiseTime)
		defer cancel()
		if runID != "" {
			r, err := p.raw.Get(ctx, runID)
			if err != nil {
				return // the next finding tries again
			}
			a.TenantID, a.ProjectID = r.TenantID, r.ProjectID
		}
		if _, err := p.control.Raise(ctx, a); err != nil {
			p.log.Warn("an alert of the projector was not raised", slog.String("code", string(code)), slog.Any("error", err))
		}
	}()
}
