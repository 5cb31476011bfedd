package spans

import (
	"context"
	"net/http"
	"strconv"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
)

// Requests returns a handler that makes a span of each request that next answers. Streams have none, because a span is
// seen only when it ends.
//
// A traceparent is one of the caller's claims. isWorker reports whether the caller has the token of a worker: its
// traceparent names an attempt, so the span becomes a part of the trace of the run. That of anybody else becomes a link
// of a trace of its own. Neither decides what is sampled, and tracestate and baggage are ignored.
func (t *Tracer) Requests(next http.Handler, isWorker func(*http.Request) bool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if isStream(r) {
			next.ServeHTTP(w, r)
			return
		}
		method := r.Method
		if !isKnown(method) {
			method = "_OTHER"
		}
		o := []trace.SpanStartOption{trace.WithSpanKind(trace.SpanKindServer),
			trace.WithAttributes(attribute.String("http.request.method", method))}
		ctx := r.Context()
		if parents := r.Header.Values("Traceparent"); len(parents) == 1 {
			if sc, ok := parse(parents[0]); ok {
				if isWorker(r) {
					ctx = trace.ContextWithRemoteSpanContext(ctx, sc)
				} else {
					o = append(o, trace.WithLinks(trace.Link{SpanContext: sc}))
				}
			}
		}
		ctx, s := t.start(ctx, method, o...)
		r = r.WithContext(ctx)
		out := &statusWriter{ResponseWriter: w, status: http.StatusOK}
		defer func() {
			// The pattern is of a fixed set; the path is not, and the paths of share links are secrets.
			if route := routeOf(r.Pattern); route != "" {
				s.SetName(method + " " + route)
				s.SetAttributes(attribute.String("http.route", route))
			}
			s.SetAttributes(attribute.Int("http.response.status_code", out.status))
			if out.status >= http.StatusInternalServerError {
				s.fail(strconv.Itoa(out.status))
			}
			s.end()
		}()
		next.ServeHTTP(out, r)
	})
}

// SetOperation names the operation of GraphQL that the request of ctx makes. The caller checks that it is a name.
func SetOperation(ctx context.Context, name string) {
	if s := current(ctx); s != nil && name != "" {
		s.SetAttributes(attribute.String("graphql.operation.name", name))
	}
}

// Fail says that the request of ctx failed although its status does not say so. kind is a code of dvt.
func Fail(ctx context.Context, kind string) {
	if s := current(ctx); s != nil {
		s.fail(kind)
	}
}

func isKnown(method string) bool {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete,
		http.MethodOptions:
		return true
	}
	return false
}

// isStream reports whether a request asks for a socket or for events.
func isStream(r *http.Request) bool {
	return r.Header.Get("Upgrade") != "" || strings.Contains(r.Header.Get("Accept"), "text/event-stream")
}

// routeOf returns the path of a pattern of http.ServeMux.
func routeOf(pattern string) string {
	if _, path, found := strings.Cut(pattern, " "); found {
		return path
	}
	return pattern
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

// Flush implements http.Flusher.
func (w *statusWriter) Flush() { _ = http.NewResponseController(w.ResponseWriter).Flush() }
