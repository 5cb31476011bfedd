package main

import (
	"context"
	"encoding/base64"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dvt-engine/dvt/control/runs"
	"github.com/dvt-engine/dvt/graph"
	"github.com/dvt-engine/dvt/internal/testtime"
	"github.com/dvt-engine/dvt/plan"
	log "github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
	"github.com/dvt-engine/dvt/server/usecases"
	"github.com/dvt-engine/dvt/store"
	"github.com/dvt-engine/dvt/store/sqlite"
)

// serveManual serves the API on a new store. dev-engineer has started a run whose step check waits for a person. write
// appends to the log of the run.
func serveManual(t *testing.T) (address, runID string, write func(...log.Draft)) {
	t.Helper()
	ctx := t.Context()
	ok := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	s, err := sqlite.Open(ctx, filepath.Join(t.TempDir(), "dvt.db"), sqlite.Options{})
	ok(err)
	t.Cleanup(func() { _ = s.Close() })
	directory, rights := devRights(t)
	keys, err := runs.ParseManualKeys(
		[]string{"k1:" + base64.StdEncoding.EncodeToString([]byte(strings.Repeat("k", 32)))})
	ok(err)
	service := usecases.New(usecases.Config{
		Store: s, Authz: rights, ManualKeys: keys, Queues: plan.Queues{Control: "tq-control-dev", Data: "tq-data-dev"},
	})
	h := graph.NewHandler(service, graph.Config{Authenticate: directory.Authenticate})
	server := httptest.NewServer(h)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), testtime.Of(10*time.Second))
		defer cancel()
		if err := h.Shutdown(ctx); err != nil {
			t.Error(err)
		}
		server.Close()
	})
	engineer, err := directory.Authenticate("dev-engineer")
	ok(err)
	doc := runtest.JSON(runtest.M{
		"schemaVersion": "v1.2",
		"metadata": runtest.M{"planId": runtest.ID.PlanID, "planVersion": runtest.ID.PlanVersion,
			"createdAt": runtest.Epoch, "createdBy": "t", "schemaVersion": "v1.2"},
		"scope": runtest.M{"tenantId": "acme", "projectId": "shop", "environmentId": "dev",
			"repoSha": strings.Repeat("0", 40)},
		"steps": []runtest.M{{"stepId": "check", "type": "MANUAL", "timeout": "1m",
			"inputs": runtest.M{"instructions": "look at\nit"}}},
	})
	started, err := service.StartRun(ctx, engineer, runs.StartRun{RequestID: "r", ProjectID: "shop",
		EnvironmentID: "dev", Inline: doc})
	ok(err)
	runID = started.View.Run.RunID
	write = func(events ...log.Draft) {
		t.Helper()
		_, err := s.Append(ctx, store.Append{RunID: runID, Events: events})
		ok(err)
		l, err := s.Load(ctx, runID)
		ok(err)
		_, err = s.Save(ctx, l.State, l.Changes)
		ok(err)
	}
	write(runtest.Start("check"), runtest.Draft(log.StepStartedEvent, "check", 1),
		runtest.Draft(log.StepAwaitingManualCompletion, "check", 1))
	return server.URL, runID, write
}

// contract: M02
func TestManual_ListAndComplete(t *testing.T) {
	address, id, write := serveManual(t)
	if out, _, err := dvt(t, address, "dev-admin", "policy", "who", "complete", id); out != "dev-admin\n" {
		t.Errorf("policy who complete: %q, %v, want dev-admin without dev-engineer, who started the run", out, err)
	}
	for _, c := range []struct {
		token  string
		args   []string
		status int
		says   string
	}{
		{"dev-admin", []string{"manual", "list"}, 0, "  you      look at it"},
		{"dev-engineer", []string{"manual", "list", "--run", id}, 0, "; not you, who requested or approved the run"},
		{"dev-admin", []string{"policy", "who", "complete", id}, 0, "dev-admin\n"},
		{"dev-admin", []string{"manual", "complete", id, "check", "--outcome", "succeeded", "--preview"}, 0,
			"It would be applied."},
		{"dev-admin", []string{"manual", "list", "-o", "json"}, 0, `"stepId": "check"`},
		{"dev-mallory", []string{"manual", "list", "--run", id}, 4, ""},
		{"dev-admin", []string{"manual", "complete", id, "check"}, 2, ""},
		{"dev-admin", []string{"manual", "complete", id, "check", "--outcome", "maybe"}, 2, ""},
		{"dev-engineer", []string{"manual", "complete", id, "check", "--outcome", "succeeded"}, 3, ""},
		{"dev-operator", []string{"manual", "complete", id, "check", "--outcome", "succeeded"}, 3, ""},
		{"dev-admin", []string{"manual", "complete", id, "ghost", "--outcome", "succeeded"}, 3, ""},
		{"dev-admin", []string{"run", "rerun", id, "--from", "failed"}, 3, ""},
		{"dev-admin", []string{"manual", "complete", id, "check", "--outcome", "failed", "--notes", "no", "--no-wait"}, 0,
			""},
		{"dev-admin", []string{"run", "rerun", id}, 3, ""},
	} {
		out, status, err := dvt(t, address, c.token, c.args...)
		if status != c.status || !strings.Contains(out, c.says) || strings.Contains(out, "k1.") {
			t.Errorf("%s %v: status %d (%v), want %d and %q:\n%s", c.token, c.args, status, err, c.status, c.says, out)
		}
	}
	write(runtest.Draft(log.StepFailedEvent, "check", 1), runtest.Draft(log.RunFailed, "", 1))
	out, status, err := dvt(t, address, "dev-admin", "run", "rerun", id, "--from", "failed", "--request-id", "again")
	if status != 0 || newRun(out) == id || newRun(out) == "-" {
		t.Fatalf("rerun: status %d, %v, want 0 and a new run: %s", status, err, out)
	}
	if again, status, _ := dvt(t, address, "dev-admin", "run", "rerun", id, "--from", "failed", "--request-id",
		"again"); status != 0 ||
		newRun(again) != newRun(out) {
		t.Errorf("the same request again: status %d, want 0 and the same run: %s", status, again)
	}
	if _, status, err := dvt(t, address, "dev-admin", "run", "rerun", id, "--from", "check,ghost"); status != 4 ||
		!strings.Contains(err.Error(), "ghost") {
		t.Errorf("an unknown step: status %d, %v, want 4 and its id", status, err)
	}
}
