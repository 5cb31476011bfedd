package main

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dvt-engine/dvt/internal/testtime"
	log "github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
	"github.com/dvt-engine/dvt/store"
)

// Run ids. The first two have the same beginning.
const (
	runA = "deadbeef-0000-4000-8000-000000000001"
	runB = "deadbeef-0000-4000-8000-000000000002"
	runC = "cafe0000-0000-4000-8000-000000000003"
)

// serveThreeRuns serves runA, runB and runC beside r1, and counts the requests.
func serveThreeRuns(t *testing.T) (address string, requests *atomic.Int64) {
	t.Helper()
	behind, r := serve(t)
	s, _ := r.Outbox.(store.Store)
	for _, runID := range []string{runA, runB, runC} {
		id := runtest.ID
		id.RunID, id.TenantID, id.ProjectID = runID, "acme", "shop"
		if _, _, err := s.CreateRun(t.Context(), store.NewRun{Run: store.Run{Identity: id, RequestKey: log.Key(runID)},
			Events: []log.Draft{
				runtest.Draft(log.RunApproved, "", 1), runtest.Start("load", "test"),
				runtest.Draft(log.StepStartedEvent, "load", 1), runtest.Draft(log.StepFailedEvent, "load", 1),
			}}); err != nil {
			t.Fatal(err)
		}
	}
	to, err := url.Parse(behind)
	if err != nil {
		t.Fatal(err)
	}
	requests = &atomic.Int64{}
	proxy := httputil.NewSingleHostReverseProxy(to)
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(front.Close)
	return front.URL, requests
}

// completions returns the words that a shell would offer.
func completions(t *testing.T, address, token string, args ...string) (out []string) {
	t.Helper()
	words := append([]string{"__complete", args[0], "--server=" + address, "--token=" + token}, args[1:]...)
	text, status, err := local(t, "", words...)
	if status != 0 {
		t.Errorf("completion of %v: status %d, %v, want 0", args, status, err)
	}
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, ":") { // the directive to the shell, behind the words
			break
		}
		word, _, _ := strings.Cut(strings.TrimSpace(line), "\t")
		out = append(out, word)
	}
	return out
}

func TestComplete_OffersExistingRunsStepsAndValues(t *testing.T) {
	t.Parallel()
	address, _ := serveThreeRuns(t)
	for _, c := range []struct {
		token, args, want string
	}{
		{"dev-viewer", "run show cafe", runC},
		{"dev-viewer", "run show ", "@last @failed " + runC + " " + runB + " " + runA + " r1"},
		{"dev-viewer", "run show @", "@last @failed"},
		{"dev-viewer", "run diff @f", "@failed"},
		{"dev-viewer", "run logs @failed l", "load"},
		{"dev-viewer", "policy who RETRY", "RETRY_STEP"},
		{"dev-viewer", "run show dead", runB + " " + runA},
		{"dev-mallory", "run show dead", ""},
		{"dev-viewer", "run show " + runA + " ", ""},
		{"dev-viewer", "run logs " + runA + " ", "load test"},
		{"dev-viewer", "run logs cafe l", "load"},
		{"dev-viewer", "run retry " + runA + " ", "load"},
		{"dev-viewer", "run skip " + runA + " ", "load test"},
		{"dev-viewer", "run list --status CO", "COMPLETED"},
		{"dev-viewer", "run list -o ", "table wide json yaml"},
		{"dev-viewer", "service mode READ", "READ_ONLY"},
		{"dev-viewer", "queue list --project s", "shop"},
		{"dev-viewer", "manual list --run cafe", runC},
	} {
		got := strings.Join(completions(t, address, c.token, strings.Split(c.args, " ")...), " ")
		if got != c.want {
			t.Errorf("dvt %s: %q, want %q", c.args, got, c.want)
		}
	}
}

// A person at a shell must not wait for a server that hangs or does not exist, nor see its errors.
func TestComplete_WithoutAnAnswerIsQuickAndSilent(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	hung := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	t.Cleanup(hung.Close)
	t.Cleanup(func() { close(release) })
	for _, address := range []string{hung.URL, "http://127.0.0.1:1"} {
		began := time.Now()
		for _, args := range [][]string{{"run", "show", "c"}, {"run", "logs", "cafe", ""}} {
			if out := completions(t, address, "dev-viewer", args...); len(out) != 0 {
				t.Errorf("%v: %q, want no candidates", args, out)
			}
		}
		if took := time.Since(began); took > testtime.Of(2*completionWait+3*time.Second) ||
			completionWait > waitFactor*time.Second {
			t.Errorf("two completions took %v, want at most twice the wait of %v", took, completionWait)
		}
	}
}
