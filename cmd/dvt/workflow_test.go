package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const recorded = "../../engine/temporal/testdata/"

// contract: E-03, Z06
func TestWorkflowReplay_ReportsTheFirstDifference(t *testing.T) {
	t.Parallel()
	junk := filepath.Join(t.TempDir(), "junk.json")
	if err := os.WriteFile(junk, []byte(`{"runs":[]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args   []string
		status int
		says   string
	}{
		{[]string{recorded + "v1/linear.json"}, 0, "events replay"},
		{[]string{recorded + "v1/rotation-2.json"}, 0, "events replay"},
		{[]string{recorded + "v1/linear.json", "-o", "json"}, 0, `"replays": true`},
		{[]string{recorded + "bad/swapped-steps.json"}, 1, "ActivityTaskScheduled dvt.execute b/1.1"},
		{[]string{recorded + "bad/swapped-steps.json", "-o", "json"}, 1, `"replays": false`},
		{[]string{junk}, 2, ""},
		{[]string{filepath.Join(t.TempDir(), "none")}, 2, ""},
		{nil, 2, ""},
		{[]string{recorded + "v1/linear.json", "-o", "yaml"}, 0, "replays: true"},
		{[]string{junk, "-o", "xml"}, 2, ""},
	} {
		out, status, err := dvt(t, "http://127.0.0.1:1", "", append([]string{"workflow", "replay"}, c.args...)...)
		if status != c.status || !strings.Contains(out, c.says) || (err == nil) != (status == 0) {
			t.Errorf("replay %v: status %d, %v, want %d and %q\n%s", c.args, status, err, c.status, c.says, out)
		}
	}
}

// contract: T107, Z06
func TestWorkflowDebug_PrintsExecutionsAndPendingSignals(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Header.Get("Authorization") != "Bearer dev-sre":
			w.WriteHeader(http.StatusForbidden)
			_, _ = w.Write([]byte(`{"code":"FORBIDDEN","message":"debug needs the role SRE."}`))
		case r.URL.Path == "/engine/runs/r1/debug":
			_, _ = w.Write([]byte(`{"runId":"r1","status":"RUNNING","runSeq":7,"engine":{"ref":{"workflowId":"dvt/acme/r1"},"total":2,
				"executions":[{"engineRunId":"first","status":"ContinuedAsNew","historyEvents":400,"historyBytes":90000},{"engineRunId":"second","status":"Running"}],
				"pending":[{"id":"s9/1.1","type":"dvt.execute","state":"Started","attempt":2,"lastFailure":"lost"}],
				"last":[{"no":12,"what":"ActivityTaskScheduled dvt.execute s9/1.1"}]},
				"signals":[{"no":3,"signalId":"u3","signalType":"PAUSE","application":"PENDING","delivered":true}]}`))
		default:
			w.WriteHeader(http.StatusNotFound)
			_, _ = w.Write([]byte(`{"code":"NOT_FOUND","message":"There is no such run, or it is not yours."}`))
		}
	}))
	t.Cleanup(s.Close)
	out, status, err := dvt(t, s.URL, "dev-sre", "workflow", "debug", "r1")
	for _, want := range []string{"running at seq 7", "dvt/acme/r1, 2 executions", "first", "second", "s9/1.1", "lost",
		"12", "u3", "PAUSE"} {
		if !strings.Contains(out, want) {
			t.Errorf("the output lacks %q", want)
		}
	}
	if status != 0 || t.Failed() {
		t.Errorf("status %d, %v\n%s", status, err, out)
	}
	if out, status, err = dvt(t, s.URL, "dev-engineer", "workflow", "debug", "r1"); status != 3 {
		t.Errorf("without the role: status %d, %v, want 3\n%s", status, err, out)
	}
	if out, status, err = dvt(t, s.URL, "dev-sre", "workflow", "debug", "r2"); status != 4 {
		t.Errorf("an unknown run: status %d, %v, want 4\n%s", status, err, out)
	}
}
