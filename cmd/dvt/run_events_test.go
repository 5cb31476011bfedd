package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	log "github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
)

func TestRunEvents_ReadsEveryPageAndReconnects(t *testing.T) {
	steps := make([]string, 110)
	for i := range steps {
		steps[i] = fmt.Sprintf("s%d", i)
	}
	address, s := serveWatchedSteps(t, steps...)
	for _, id := range steps {
		append1(t, s, runtest.Draft(log.StepStartedEvent, id, 1))
		append1(t, s, runtest.Draft(log.StepCompletedEvent, id, 1))
	}
	out, status, err := dvt(t, address, "dev-viewer", "run", "events", "r1")
	if n := strings.Count(out, "\n"); n != 222 || status != 0 || !strings.Contains(out, "   222  ") {
		t.Fatalf("%d lines, status %d, %v, want 222 lines", n, status, err)
	}
	if out, _, _ = dvt(t, address, "dev-viewer", "run", "events", "r1", "--type", "StepStarted,StepCompleted", "--after",
		"220", "-o", "json"); strings.Count(out, "\n") != 2 {
		t.Errorf("%s", out)
	}
	for line := range strings.Lines(out) {
		var e struct {
			RunSeq  int64
			Payload json.RawMessage
		}
		if err := json.Unmarshal([]byte(line), &e); err != nil || e.RunSeq < 221 || len(e.Payload) == 0 {
			t.Errorf("%v: %s", err, line)
		}
	}
	if _, status, _ := dvt(t, address, "dev-mallory", "run", "events", "r1"); status != 4 {
		t.Errorf("another tenant's run: status %d, want 4", status)
	}
	front := newCuttableProxy(t, address)
	followed := &printout{}
	c := root()
	c.SetOut(followed)
	c.SetErr(followed)
	c.SetArgs([]string{"run", "events", "r1", "-f", "--after", "221", "--server", front.URL, "--token", "dev-viewer"})
	done := make(chan error, 1)
	go func() { done <- c.ExecuteContext(t.Context()) }()
	followed.await(t, `222 .*StepCompleted +s109`)
	front.down.Store(true)
	front.CloseClientConnections()
	followed.await(t, `OFFLINE: `)
	append1(t, s, runtest.Draft(log.RunCompleted, "", 1))
	front.down.Store(false)
	if err := <-done; err != nil {
		t.Error(err)
	}
	if got := followed.String(); strings.Count(got, "StepCompleted") != 1 || strings.Count(got, "RunCompleted") != 1 {
		t.Errorf("want each event once:\n%s", got)
	}
}

// A probe of a container asks the listener of metrics, which knows no token.
func TestHealth_AsksTheListenerOfMetricsWithoutAToken(t *testing.T) {
	isolateEnvironment(t)
	ask := func(at string) (string, int, error) {
		return local(t, "", "health", "--metrics", strings.TrimPrefix(at, "http://"))
	}
	well := serveAnswer(t, 200, `{"status":"healthy","checks":{"store":{"status":"healthy","latencyMs":2}}}`)
	if out, status, err := ask(well); status != 0 || !strings.Contains(out, "store  HEALTHY") {
		t.Errorf("a healthy server: %d, %v\n%s", status, err, out)
	}
	ill := serveAnswer(t, 503, `{"status":"unhealthy","checks":{"store":{"status":"unhealthy","latencyMs":2}}}`)
	if out, status, err := ask(ill); status != 1 || !strings.Contains(out, "UNHEALTHY") {
		t.Errorf("an unhealthy server: %d, %v, want status 1\n%s", status, err, out)
	}
	other := serveAnswer(t, 200, `{"hello":"world"}`)
	if out, status, err := ask(other); status != 1 || !strings.Contains(fmt.Sprint(err), "metrics-listen") {
		t.Errorf("another server: %d, %v, want status 1 and what to give\n%s", status, err, out)
	}
}

// The first check of a proof that reaches no server says what to do, as every command does.
func TestSmoke_WithoutAServerSaysWhatToDo(t *testing.T) {
	isolateEnvironment(t)
	out, status, err := local(t, "", "smoke", "--server", "http://127.0.0.1:1", "--token", "t", "--project", "shop",
		"--environment", "dev")
	if status != 1 || !strings.Contains(out, "FAILED   api") || !strings.Contains(out, "--server") {
		t.Errorf("%d, %v, want a failed check that names --server\n%s", status, err, out)
	}
}

func TestHealth_UnhealthyHasStatusOneAndVersionIsData(t *testing.T) {
	well := serveAnswer(t, 200, `{"data":{"health":{"status":"HEALTHY","checks":[{"name":"store","status":"HEALTHY","latencyMs":1.5}]}}}`)
	for format, want := range map[string]string{"table": "HEALTHY, at " + well, "json": `"latencyMs": 1.5`,
		"yaml": "latencyMs: 1.5"} {
		if out, status, err := dvt(t, well, "t", "health", "-o", format); status != 0 || !strings.Contains(out, want) {
			t.Errorf("%d, %v\n%s", status, err, out)
		}
	}
	ill := serveAnswer(t, 200, `{"data":{"health":{"status":"UNHEALTHY","checks":[{"name":"store","status":"UNHEALTHY","message":"down"}]}}}`)
	if out, status, err := dvt(t, ill, "t", "health"); status != 1 || !strings.Contains(out, "down") {
		t.Errorf("%d, %v\n%s", status, err, out)
	}
	var about map[string]string
	out, status, err := local(t, "", "version", "-o", "json")
	if jerr := json.Unmarshal([]byte(out), &about); jerr != nil || status != 0 || about["version"] == "" ||
		about["go"] == "" {
		t.Errorf("%d, %v, %v\n%s", status, err, jerr, out)
	}
}
