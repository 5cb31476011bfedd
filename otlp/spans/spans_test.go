package spans_test

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/dvt-engine/dvt/otlp"
	"github.com/dvt-engine/dvt/otlp/otlptest"
	"github.com/dvt-engine/dvt/otlp/spans"
	"github.com/dvt-engine/dvt/run/trace"
)

// fixture is a process with one route that calls the store, and a receiver of its spans.
type fixture struct {
	*testing.T
	receiver *otlptest.Receiver
	tracer   *spans.Tracer
	handler  http.Handler
	metrics  *prometheus.Registry
}

// newFixture returns a process. status is the answer of its route, and failure that of the store below it.
func newFixture(t *testing.T, ratio float64, status int, failure string) *fixture {
	t.Helper()
	f := &fixture{T: t, receiver: otlptest.New(t), metrics: prometheus.NewRegistry()}
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f.receiver.URL)
	c, err := otlp.Open(t.Context(), os.Getenv, "test", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	f.tracer = spans.New(spans.Config{Client: c, Ratio: ratio, Runs: 1, Metrics: f.metrics})
	mux := http.NewServeMux()
	mux.HandleFunc("POST /runs/{id}", func(w http.ResponseWriter, r *http.Request) {
		spans.SetOperation(r.Context(), "StartRun")
		_, end := f.tracer.Store(r.Context(), "sqlite", "append", "r1")
		end(failure)
		w.WriteHeader(status)
	})
	f.handler = f.tracer.Requests(mux, func(r *http.Request) bool { return r.Header.Get("Authorization") == "worker" })
	return f
}

func (f *fixture) request(headers ...string) {
	f.Helper()
	r := httptest.NewRequest(http.MethodPost, "/runs/secret-of-a-link?q=secret", strings.NewReader("secret"))
	for i := 0; i < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	f.handler.ServeHTTP(httptest.NewRecorder(), r)
}

// sent ends the process and returns the spans that the receiver got.
func (f *fixture) sent() []*tracepb.Span {
	f.Helper()
	if err := f.tracer.Close(f.Context()); err != nil {
		f.Fatal(err)
	}
	return f.receiver.Requests()
}

func attributes(s *tracepb.Span) (out []string) {
	for _, a := range s.Attributes {
		out = append(out, fmt.Sprintf("%s=%s%d", a.Key, a.Value.GetStringValue(), a.Value.GetIntValue()))
	}
	slices.Sort(out)
	return out
}

func TestRequests_HaveASpanWithTheCallsBelow(t *testing.T) {
	f := newFixture(t, 1, http.StatusOK, "")
	f.request()
	got := f.sent()
	if len(got) != 2 {
		t.Fatalf("the receiver has %d spans, want the request and its call of the store", len(got))
	}
	call, request := got[0], got[1]
	if request.Name != "POST /runs/{id}" || request.Kind != tracepb.Span_SPAN_KIND_SERVER ||
		len(request.ParentSpanId) > 0 {
		t.Errorf("the request has the span %v, want a root POST /runs/{id} of a server", request)
	}
	if call.Name != "append" || call.Kind != tracepb.Span_SPAN_KIND_CLIENT ||
		!slices.Equal(call.ParentSpanId, request.SpanId) || !slices.Equal(call.TraceId, request.TraceId) {
		t.Errorf("the call has the span %v, want one of a client below the request", call)
	}
	for s, want := range map[*tracepb.Span]string{
		request: "graphql.operation.name=StartRun0 http.request.method=POST0 http.response.status_code=200 " +
			"http.route=/runs/{id}0",
		call: "db.operation.name=append0 db.system.name=sqlite0 runId=r10",
	} {
		if have := strings.Join(attributes(s), " "); have != want {
			t.Errorf("the span %s has %s, want %s", s.Name, have, want)
		}
		if strings.Contains(s.String(), "secret") {
			t.Errorf("the span %v has a value of the request", s)
		}
	}
}

// 2,000 requests in the share of a tenth, within what chance allows.
func TestRequests_AreSampledByTheirShare(t *testing.T) {
	f := newFixture(t, 0.1, http.StatusOK, "")
	for range 2000 {
		f.request()
	}
	if n := len(f.sent()) / 2; n < 130 || n > 270 {
		t.Errorf("%d of 2000 requests were exported, want about 200", n)
	}
}

// A hostile caller sets the flag, chooses ids that any ratio samples, and repeats the header.
// contract: R400
func TestRequests_ForeignContextIsALinkAndForcesNothing(t *testing.T) {
	const claimed = "00-4bf92f3577b34da60000000000000001-00f067aa0ba902b7-01"
	f := newFixture(t, 0, http.StatusOK, "")
	for range 100 {
		f.request("Traceparent", claimed, "Tracestate", "vendor=1", "Baggage", "secret=1")
	}
	if n := len(f.sent()); n > 0 {
		t.Errorf("callers forced the export of %d spans, want none", n)
	}
	f = newFixture(t, 1, http.StatusOK, "")
	f.request("Traceparent", claimed)
	for _, bad := range []string{"", "x", strings.ToUpper(claimed), strings.Replace(claimed, "00-", "ff-", 1),
		"00-00000000000000000000000000000000-00f067aa0ba902b7-01", claimed + "-more", strings.Repeat("0", 1<<16)} {
		f.request("Traceparent", bad)
	}
	f.request("Traceparent", claimed, "Traceparent", claimed)
	linked := 0
	for _, s := range f.sent() {
		if hex.EncodeToString(s.TraceId) == claimed[3:35] {
			t.Errorf("the span %v belongs to the trace of a caller", s)
		}
		for _, l := range s.Links {
			if linked++; hex.EncodeToString(l.TraceId) != claimed[3:35] || hex.EncodeToString(l.SpanId) != claimed[36:52] {
				t.Errorf("the span links to %v, want what the caller said", l)
			}
		}
	}
	if linked != 1 {
		t.Errorf("%d spans have a link, want the one whose caller sent one well-formed traceparent", linked)
	}
}

// The call of a worker belongs to the trace of the run. The share decides by the run, and the flag of the worker not.
// contract: R400
func TestRequests_OfWorkersBelongToTheRun(t *testing.T) {
	parent := func(runID string) string { return trace.Parent(runID, "load", 1, 0) } // the flag says: not sampled
	f := newFixture(t, 0.5, http.StatusOK, "")
	want := 0
	for i := range 100 {
		id := fmt.Sprint("run-", i)
		if trace.IsSampled(trace.IDOf(id), 0.5) {
			want++
		}
		f.request("Authorization", "worker", "Traceparent", parent(id))
	}
	got := f.sent()
	if len(got) != 2*want {
		t.Errorf("%d spans were exported, want 2 for each of the %d sampled runs", len(got), want)
	}
	for _, s := range got {
		if s.Kind == tracepb.Span_SPAN_KIND_SERVER && hex.EncodeToString(s.ParentSpanId) == "" {
			t.Errorf("the span %v is a root, want it below the attempt", s)
		}
	}
}

// A failure is exported with what encloses it, whatever the share is.
func TestFailures_AreAlwaysExported(t *testing.T) {
	for name, c := range map[string]struct {
		status  int
		failure string
		want    int
	}{
		"answer 500":             {http.StatusInternalServerError, "", 1},
		"answer 404":             {http.StatusNotFound, "", 0},
		"store down, answer 200": {http.StatusOK, "unavailable", 2},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, 0, c.status, c.failure)
			f.request()
			got := f.sent()
			if len(got) != c.want {
				t.Fatalf("%d spans were exported, want %d", len(got), c.want)
			}
			for _, s := range got {
				if s.Flags&1 != 1 {
					t.Errorf("the span %s is not marked as sampled, so a receiver may drop it", s.Name)
				}
			}
		})
	}
}

// Writes that no request caused are in the trace of the run, in its share, and when they fail.
func TestStore_WritesOfTheEngineBelongToTheRun(t *testing.T) {
	f := newFixture(t, 0, http.StatusOK, "")
	_, end := f.tracer.Store(t.Context(), "postgresql", "append", "r1")
	end("")
	_, end = f.tracer.Store(t.Context(), "postgresql", "append", "r2")
	end("unavailable")
	_, end = f.tracer.Store(t.Context(), "postgresql", "list", "")
	end("unavailable")
	got := f.sent()
	if len(got) != 1 || hex.EncodeToString(got[0].TraceId) != trace.IDOf("r2").String() ||
		hex.EncodeToString(got[0].ParentSpanId) != trace.RootSpan("r2").String() ||
		got[0].Status.GetMessage() != "unavailable" || got[0].EndTimeUnixNano < got[0].StartTimeUnixNano {
		t.Errorf("the spans are %v, want only the failed append, below the root of r2", got)
	}
}

func TestEngine_CallsHaveSpansAndPollsNone(t *testing.T) {
	const service = "/temporal.api.workflowservice.v1.WorkflowService/"
	f := newFixture(t, 1, http.StatusOK, "")
	for _, method := range []string{"StartWorkflowExecution", "PollWorkflowTaskQueue", "RespondActivityTaskCompleted",
		"RecordActivityTaskHeartbeat", "SignalWorkflowExecution"} {
		_, end := f.tracer.Engine(t.Context(), service+method)
		end("")
	}
	var names []string
	for _, s := range f.sent() {
		names = append(names, strings.TrimPrefix(s.Name, service[1:]))
	}
	if !slices.Equal(names, []string{"StartWorkflowExecution", "SignalWorkflowExecution"}) {
		t.Errorf("the spans are %v, want those of the start and the signal", names)
	}
}

// Somebody who causes failures cannot flood the receiver.
func TestTracer_DropsWhatIsTooMuchAndCountsIt(t *testing.T) {
	f := newFixture(t, 0, http.StatusInternalServerError, "")
	const requests = 12 * spans.MaxPerSecond
	for range requests {
		f.request()
	}
	n := len(f.sent())
	families, err := f.metrics.Gather()
	if err != nil || len(families) != 1 {
		t.Fatalf("the metrics are %v: %v", families, err)
	}
	dropped := families[0].Metric[0].Counter.GetValue()
	if n > 12*spans.MaxPerSecond-1 || dropped == 0 {
		t.Errorf("%d of %d spans were exported and %.0f counted as dropped, want at most 10 s of the allowance", n, requests,
			dropped)
	}
}

// A stream and a socket have no span, and still stream.
func TestRequests_LeaveStreamsAlone(t *testing.T) {
	f := newFixture(t, 1, http.StatusOK, "")
	f.request("Accept", "text/event-stream")
	f.request("Upgrade", "websocket")
	for _, s := range f.sent() {
		if s.Kind == tracepb.Span_SPAN_KIND_SERVER {
			t.Errorf("a stream has the span %v", s)
		}
	}
}

func TestClose_OfNoTracer(t *testing.T) {
	t.Parallel()
	var none *spans.Tracer
	if err := none.Close(context.Background()); err != nil {
		t.Error(errors.Join(errors.New("a process without a receiver did not end"), err))
	}
}
