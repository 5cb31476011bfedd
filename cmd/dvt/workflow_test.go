package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dvt-engine/dvt/control/reads"
	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/run"
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
	at := time.Date(2026, 11, 28, 9, 0, 0, 0, time.UTC)
	debugged := reads.RunDebug{ // the server's own type, so that its JSON cannot change without this command
		RunID: "r1", Status: run.Running, Seq: 7,
		Engine: &reads.RunEngine{Ref: run.EngineRunRef{WorkflowID: "dvt/acme/r1"}, Debug: engine.Debug{
			Total: 2,
			Executions: []engine.Execution{
				{EngineRunID: "first", Status: "ContinuedAsNew", StartedAt: at, Events: 411, Bytes: 90123},
				{EngineRunID: "second", Status: "Running", StartedAt: at},
			},
			Pending: []engine.Pending{{ID: "s9/1.1", Type: "dvt.execute", State: "Started", Attempt: 2, LastFailure: "lost"}},
			Last:    []engine.HistoryEvent{{No: 12, At: at, What: "ActivityTaskScheduled dvt.execute s9/1.1"}},
		}},
		Open: []reads.OpenOrder{{No: 3, ID: "u3", Type: run.Pause, Application: run.SignalPending, Delivered: true}},
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Header.Get("Authorization") != "Bearer dev-sre":
			w.WriteHeader(http.StatusForbidden)
			_, _ = w.Write([]byte(`{"code":"FORBIDDEN","message":"debug needs the role SRE."}`))
		case r.URL.Path == "/engine/runs/r1/debug":
			_ = json.NewEncoder(w).Encode(debugged)
		default:
			w.WriteHeader(http.StatusNotFound)
			_, _ = w.Write([]byte(`{"code":"NOT_FOUND","message":"There is no such run, or it is not yours."}`))
		}
	}))
	t.Cleanup(s.Close)
	out, status, err := dvt(t, s.URL, "dev-sre", "workflow", "debug", "r1")
	for _, want := range []string{"running at seq 7", "dvt/acme/r1, 2 executions", "first", "ContinuedAsNew", "411",
		"90123", "second", "s9/1.1", "Started", "lost", "12", "ActivityTaskScheduled", "u3", "PAUSE", "PENDING", "true"} {
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
