package main

import (
	"strings"
	"testing"

	log "github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
	"github.com/dvt-engine/dvt/store"
)

// A step is named by its name with its id, so that a reader finds the id that a command takes.
func TestRunShowAndEvents_NameStepsByNameAndID(t *testing.T) {
	t.Parallel()
	address, r := serve(t)
	s, ok := r.Outbox.(store.Store)
	if !ok {
		t.Fatal("no store")
	}
	append1(t, s, runtest.Draft(log.RunStarted, "", 1, runtest.M{"steps": []runtest.M{
		{"stepId": "need-file", "type": "NOOP", "name": "Look for a file"},
		{"stepId": "count", "type": "NOOP", "dependsOn": []string{"need-file"}},
	}}))
	append1(t, s, runtest.Draft(log.StepStartedEvent, "need-file", 1))
	for command, want := range map[string]string{
		"run show r1":          "waits for Look for a file (need-file)\n",
		"run show r1 --failed": "",
		"run events r1":        "Look for a file (need-file)",
	} {
		out, status, err := dvt(t, address, "dev-viewer", strings.Fields(command)...)
		if status != 0 || !strings.Contains(out, want) {
			t.Errorf("dvt %s: status %d, %v, want %q\n%s", command, status, err, want, out)
		}
	}
	out, _, _ := dvt(t, address, "dev-viewer", "run", "events", "r1", "-o", "json")
	if strings.Contains(out, "Look for a file (") {
		t.Errorf("data has titles instead of ids:\n%s", out)
	}
}
