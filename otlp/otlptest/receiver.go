// Package otlptest is a receiver of traces for tests. It speaks OTLP over HTTP with the messages of the OpenTelemetry
// project, so that a test sees the bytes that a collector would get.
package otlptest

import (
	"compress/gzip"
	"encoding/hex"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	coltracepb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// Receiver keeps every span that it accepted. It is safe for concurrent use.
type Receiver struct {
	URL string // of its endpoint, for OTEL_EXPORTER_OTLP_ENDPOINT

	mu        sync.Mutex
	answer    func() int
	spans     map[string]map[string]*tracepb.Span // of runs, by trace and span
	others    []*tracepb.Span                     // of requests and calls
	different []string                            // spans that came twice with other contents
	calls     int
	repeats   int
}

// New starts a receiver that stops with the test.
func New(t testing.TB) *Receiver {
	t.Helper()
	var lc net.ListenConfig
	ln, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &Receiver{URL: "http://" + ln.Addr().String(), spans: map[string]map[string]*tracepb.Span{}}
	srv := &http.Server{Handler: r, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = srv.Serve(ln) }()
	t.Cleanup(func() { _ = srv.Close() })
	return r
}

// Answer sets the function that chooses the status of each call; nil accepts all.
func (r *Receiver) Answer(status func() int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answer = status
}

// ServeHTTP implements http.Handler.
func (r *Receiver) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	body := io.Reader(q.Body)
	if q.Header.Get("Content-Encoding") == "gzip" {
		z, err := gzip.NewReader(body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		body = z
	}
	doc, err := io.ReadAll(body)
	var in coltracepb.ExportTraceServiceRequest
	if err == nil {
		err = proto.Unmarshal(doc, &in)
	}
	if err != nil || !strings.HasSuffix(q.URL.Path, "/v1/traces") {
		http.Error(w, "not an OTLP request for traces", http.StatusBadRequest)
		return
	}
	if status := r.receive(&in); status != http.StatusOK {
		http.Error(w, "refused by the test", status)
		return
	}
	out, _ := proto.Marshal(&coltracepb.ExportTraceServiceResponse{})
	w.Header().Set("Content-Type", "application/x-protobuf")
	_, _ = w.Write(out)
}

// receive keeps the spans of a request, and returns the status of the answer in HTTP.
func (r *Receiver) receive(in *coltracepb.ExportTraceServiceRequest) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls++
	if r.answer != nil {
		if status := r.answer(); status != http.StatusOK {
			return status
		}
	}
	for _, rs := range in.ResourceSpans {
		for _, ss := range rs.ScopeSpans {
			if ss.Scope.GetName() != ofRuns {
				r.others = append(r.others, ss.Spans...)
				continue
			}
			for _, s := range ss.Spans {
				r.keep(s)
			}
		}
	}
	return http.StatusOK
}

func (r *Receiver) keep(s *tracepb.Span) {
	trace, id := hex.EncodeToString(s.TraceId), hex.EncodeToString(s.SpanId)
	if r.spans[trace] == nil {
		r.spans[trace] = map[string]*tracepb.Span{}
	}
	if before := r.spans[trace][id]; before != nil {
		r.repeats++
		if !proto.Equal(before, s) {
			r.different = append(r.different, before.String()+" then "+s.String())
		}
	}
	r.spans[trace][id] = s
}

// ofRuns is the scope of the spans that are derived from the logs of runs.
const ofRuns = "github.com/dvt-engine/dvt/run/trace"

// Requests returns the spans of requests and calls, in the order in which they came.
func (r *Receiver) Requests() []*tracepb.Span {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.others)
}

// Trace returns the spans of a run's trace, without those of requests, by their ids, both in hex.
func (r *Receiver) Trace(traceID string) map[string]*tracepb.Span {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.spans[traceID])
}

// HasRoot reports whether the root of a trace has come.
func (r *Receiver) HasRoot(traceID string) bool {
	for _, s := range r.Trace(traceID) {
		if len(s.ParentSpanId) == 0 {
			return true
		}
	}
	return false
}

// Traces returns the ids of all traces.
func (r *Receiver) Traces() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Sorted(maps.Keys(r.spans))
}

// Contradictions describes the spans that came twice with different contents.
func (r *Receiver) Contradictions() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.different)
}

// Calls returns the number of requests, and the number of spans that came again.
func (r *Receiver) Calls() (calls, repeats int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.calls, r.repeats
}
