package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dvt-engine/dvt/client"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/document"
	log "github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
	"github.com/dvt-engine/dvt/store"
)

// The exit status is 0 for a signal that is applied or accepted, 2 for a wrong call, 3 for a refusal and 4 for an
// unknown run.
func TestRunSignals_EveryVerbSendsItsSignal(t *testing.T) {
	address, r := serve(t)
	s, ok := r.Outbox.(store.Store)
	if !ok {
		t.Fatal("no store")
	}
	if _, err := s.Append(t.Context(), store.Append{RunID: "r1", Events: []log.Draft{
		runtest.Start("s1", "s2"), runtest.Draft(log.StepStartedEvent, "s2", 1), runtest.Draft(log.StepCompletedEvent, "s2",
			1),
	}}); err != nil {
		t.Fatal(err)
	}
	patch := filepath.Join(t.TempDir(), "patch.yaml")
	if err := os.WriteFile(patch, []byte("env:\n  MODE: safe\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		token  string
		args   string
		status int
		says   string
	}{
		{"dev-admin", "update-params --yes r1 " + patch, 0, "update params: applied"},
		{"dev-admin", "update-params --yes r1 " + patch + " --step s1 --signal-id again", 0, "update params: applied"},
		{"dev-admin", "update-params --yes r1 " + patch + " --signal-id again", 3, "SIGNAL_ID_CONFLICT"},
		{"dev-admin", "update-params r1 /nowhere.json", 2, "cannot be read"},
		{"dev-engineer", "update-params --yes r1 " + patch, 3, "FORBIDDEN"},
		{"dev-mallory", "update-params --yes r1 " + patch, 4, "NOT_FOUND"},
		{"dev-admin", "override --yes r1 s1 " + patch + " --reason r", 0, "inject override: applied"},
		{"dev-admin", "override --yes r1 s1 " + patch, 2, "--reason"},
		{"dev-admin", "override --yes r1 s2 " + patch + " --reason r", 3, "STEP_ALREADY_TERMINAL"},
		{"dev-admin", "set-target --yes r1 s1 --schema restored --reason r", 0, "update target: applied"},
		{"dev-admin", "set-target --yes r1 s1 --reason r", 2, "--database"},
		{"dev-system", "alert r1 --level high --note look", 0, "escalate alert: applied"},
		{"dev-system", "alert r1 --level urgent", 2, ""},
		{"dev-engineer", "skip r1 s2 --no-wait", 3, "STEP_NOT_SKIPPABLE"},
		{"dev-engineer", "skip r1 s1 --no-wait", 0, "skip step: accepted"},
		{"dev-engineer", "pause r1 --no-wait", 0, "pause: accepted"},
		{"dev-admin", "stop --yes r1 --no-wait", 2, "--reason"},
		{"dev-admin", "stop r1 --reason r --no-wait", 2, "--yes"},
		{"dev-admin", "cancel r1", 2, "--preview"},
		{"dev-admin", "update-params r1 " + patch, 2, "--yes"},
		{"dev-admin", "override r1 s1 " + patch + " --reason r", 2, "--yes"},
		{"dev-admin", "set-target r1 s1 --schema x --reason r", 2, "--yes"},
		{"dev-engineer", "stop --yes r1 --reason r --no-wait", 3, "FORBIDDEN"},
		{"dev-admin", "stop --yes r1 --force --reason runaway --no-wait", 0, "emergency stop: accepted"},
	} {
		out, status, err := dvt(t, address, c.token, append([]string{"run"}, strings.Fields(c.args)...)...)
		if err != nil {
			out += err.Error()
		}
		if status != c.status || !strings.Contains(out, c.says) {
			t.Errorf("dvt run %s: status %d, want %d and %q:\n%s", c.args, status, c.status, c.says, out)
		}
	}
	rs, err := s.Receipts(t.Context(), "r1", "", 100)
	if err != nil {
		t.Fatal(err)
	}
	sent := map[log.SignalType]string{}
	for _, r := range rs {
		if !r.Rejected {
			sent[r.Signal.Type] = string(r.Payload)
		}
	}
	for sig, want := range map[log.SignalType]string{
		log.InjectOverride: `"override":{"env":{"MODE":"safe"}}`, log.UpdateParams: `"newParams":{"env":{"MODE":"safe"}}`,
		log.UpdateTarget: `"schema":"restored"`, log.EscalateAlert: `"level":"HIGH"`, log.EmergencyStop: `"forceKill":true`,
	} {
		if !strings.Contains(sent[sig], want) || !json.Valid([]byte(sent[sig])) {
			t.Errorf("%s: the payload is %s, want %s in it", sig, sent[sig], want)
		}
	}
}

// Generated types marshal by pointer. A struct that embeds them must be printed in full also when it is passed by
// value.
func TestPrint_IncludesEmbeddedFields(t *testing.T) {
	var out bytes.Buffer
	s := &session{out: &out, output: document.JSON}
	if err := s.print(client.ShowRunRun{RunRow: client.RunRow{RunId: "r1"}}); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), `"runId": "r1"`) {
		t.Errorf("printed %s", out.String())
	}
}
