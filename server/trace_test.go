package server_test

import (
	"encoding/hex"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/dvt-engine/dvt/client"
	"github.com/dvt-engine/dvt/internal/testserver"
	"github.com/dvt-engine/dvt/otlp/otlptest"
	"github.com/dvt-engine/dvt/run/trace"
	"github.com/dvt-engine/dvt/store"
	"github.com/dvt-engine/dvt/store/sqlite"
)

// traceKills is the number of kills of the test below; a campaign sets more, such as -trace-kills 100.
var traceKills = flag.Int("trace-kills", 4, "kills of TestTrace_KillsAndOutagesLoseNothing")

// The test kills dvt dev, and with it the exporter, while runs are in flight and while the receiver refuses a third of
// the requests. At the end the receiver has one tree for each run, and the tree is that of the log.
// contract: R400, H05
func TestTrace_KillsAndOutagesLoseNothing(t *testing.T) {
	t.Parallel()
	const inFlight = 5
	seed := uint64(time.Now().UnixNano())
	random := rand.New(rand.NewPCG(seed, 1))
	t.Logf("seed %d", seed)
	r := otlptest.New(t)
	var down atomic.Bool
	r.Answer(func() int { // runs under the lock of the receiver
		switch {
		case down.Load():
			return http.StatusServiceUnavailable
		case random.IntN(3) == 0:
			return http.StatusTooManyRequests
		}
		return http.StatusOK
	})
	data, address := dataDir(t), testserver.FreeAddress(t)
	p := spawn(t, "dvt dev", []string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + r.URL, "DVT_TRACE_RUNS=1"}, "dev", "--listen",
		address, "--data", data, "--no-sample", "--heartbeat", "2s")
	c := client.New("http://"+address, devToken(t, data, "dev-engineer"))
	var all []string
	for k := range *traceKills {
		for range inFlight {
			all = append(all, start(t, c, fmt.Sprintf("trace-%d", len(all)), killPlan(len(all))))
		}
		down.Store(k%2 == 1)
		time.Sleep(time.Duration(500+250*(k*7%10)) * time.Millisecond)
		p.kill()
		p.start()
	}
	down.Store(false)
	for _, id := range all {
		waitForEnd(t, c, id, 2*time.Minute)
	}
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(200 * time.Millisecond) {
		missing := 0
		for _, id := range all {
			if !r.HasRoot(trace.IDOf(id).String()) {
				missing++
			}
		}
		if missing == 0 {
			break
		}
	}
	p.terminate()
	s, err := sqlite.Open(t.Context(), filepath.Join(data, "dvt.db"), sqlite.Options{})
	must(t, err)
	defer s.Close()
	spans := 0
	for _, id := range all {
		spans += checkTrace(t, s, r, id)
	}
	if found := len(r.Traces()); found != len(all) {
		t.Errorf("the receiver has %d traces, want %d", found, len(all))
	}
	if twice := r.Contradictions(); len(twice) > 0 {
		t.Errorf("%d spans came twice with different contents, such as %s", len(twice), twice[0])
	}
	calls, repeats := r.Calls()
	t.Logf("%d kills, %d runs, %d spans in %d requests, %d spans came again", *traceKills, len(all), spans, calls, repeats)
}

// checkTrace compares what the receiver has of a run with its log, and returns the number of spans.
func checkTrace(t *testing.T, s store.Store, r *otlptest.Receiver, runID string) int {
	t.Helper()
	facts, err := s.Get(t.Context(), runID)
	must(t, err)
	events, err := s.Events(t.Context(), runID, 0, store.MaxPage)
	must(t, err)
	want := trace.Of(facts.Identity, facts.CreatedAt, events)
	got := r.Trace(trace.IDOf(runID).String())
	if len(got) != len(want) || len(want) < 12 { // five steps with an attempt each, the start and the run
		t.Errorf("run %s: the receiver has %d spans, the log gives %d, want equal and at least 12", runID, len(got), len(want))
	}
	roots := 0
	for _, w := range want {
		g := got[w.ID.String()]
		if g == nil {
			t.Errorf("run %s: the span %s is missing", runID, w.Name)
			continue
		}
		if len(g.ParentSpanId) == 0 {
			roots++
		} else if got[hex.EncodeToString(g.ParentSpanId)] == nil {
			t.Errorf("run %s: the span %s has no parent", runID, w.Name)
		}
		if g.Name != w.Name || g.StartTimeUnixNano != uint64(w.Start.UnixNano()) ||
			g.EndTimeUnixNano != uint64(w.End.UnixNano()) ||
			(g.Status.GetCode() == tracepb.Status_STATUS_CODE_ERROR) != w.Failed {
			t.Errorf("run %s: the span is %v, want %+v", runID, g, w)
		}
	}
	if roots != 1 {
		t.Errorf("run %s has %d roots, want one", runID, roots)
	}
	return len(got)
}

// A service that a step calls gets the context of the attempt's span.
// contract: R400
func TestTrace_ReachesWhatAStepCalls(t *testing.T) {
	t.Parallel()
	r := otlptest.New(t)
	parents := make(chan string, 10)
	called := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, q *http.Request) {
		parents <- q.Header.Get("Traceparent")
	}))
	defer called.Close()
	data, address := dataDir(t), testserver.FreeAddress(t)
	p := spawn(t, "dvt dev", []string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + r.URL}, "dev", "--listen", address, "--data", data,
		"--no-sample", "--heartbeat", "2s", "--trace-sample", "1")
	c := client.New("http://"+address, devToken(t, data, "dev-engineer"))
	id := start(t, c, "called", stepsPlan("called",
		fmt.Sprintf(`{"stepId":"call","type":"HTTP_NOTIFY","inputs":{"url":%q},"timeout":"1m","dependsOn":[]}`, called.URL)))
	if done := waitForEnd(t, c, id, time.Minute); done.Status != client.RunStatusCompleted {
		t.Fatalf("the run ended %s: %+v", done.StatusRaw, done.RootCause)
	}
	if got, want := <-parents, trace.Parent(id, "call", 1, 1); got != want {
		t.Errorf("traceparent %q, want %q", got, want)
	}
	p.terminate()
	checkRequests(t, r, id)
}

// checkRequests looks for the spans of the request that started a run, of its calls, and of the writes of the engine.
func checkRequests(t *testing.T, r *otlptest.Receiver, runID string) {
	t.Helper()
	byID, found := map[string]*tracepb.Span{}, map[string]int{}
	for _, s := range r.Requests() {
		byID[string(s.SpanId)] = s
	}
	for _, s := range byID {
		name := s.Name
		switch parent := byID[string(s.ParentSpanId)]; {
		case parent != nil:
			name += " below " + parent.Name
		case hex.EncodeToString(s.ParentSpanId) == trace.RootSpan(runID).String():
			name += " below the run"
		}
		found[name]++
		for _, a := range s.Attributes {
			if strings.Contains(strings.ToLower(a.Value.GetStringValue()), "mutation") {
				t.Errorf("the span %s has a text of a query: %v", name, a)
			}
		}
	}
	const start = "temporal.api.workflowservice.v1.WorkflowService/StartWorkflowExecution"
	for _, want := range []string{"POST /graphql", "create run below POST /graphql", "append below the run",
		"start attempt below the run", start} {
		if found[want] == 0 {
			t.Errorf("there is no span %s; found are %v", want, found)
		}
	}
}
