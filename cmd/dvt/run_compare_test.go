package main

import (
	"strings"
	"testing"

	log "github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
	"github.com/dvt-engine/dvt/store"
)

// createRun adds a run of the same plan as r1, with the given events.
func createRun(t *testing.T, s store.Store, runID string, events ...log.Draft) {
	t.Helper()
	id := runtest.ID
	id.RunID, id.TenantID, id.ProjectID = runID, "acme", "shop"
	events = append([]log.Draft{runtest.Draft(log.RunApproved, "", 1)}, events...)
	if _, _, err := s.CreateRun(t.Context(), store.NewRun{Run: store.Run{Identity: id, RequestKey: log.Key(runID)},
		Events: events}); err != nil {
		t.Fatal(err)
	}
}

func TestRunCompare_ShowsOnlyWhatDiffers(t *testing.T) {
	t.Parallel()
	address, r := serve(t)
	s, _ := r.Outbox.(store.Store)
	createRun(t, s, "green", runtest.Start("load", "test<load"), runtest.Draft(log.StepStartedEvent, "load", 1),
		runtest.Draft(log.StepCompletedEvent, "load", 1), runtest.Draft(log.StepStartedEvent, "test", 1),
		runtest.Draft(log.StepCompletedEvent, "test", 1), runtest.Draft(log.RunCompleted, "", 1))
	createRun(t, s, "red", runtest.Start("load", "test<load"), runtest.Draft(log.StepStartedEvent, "load", 1),
		runtest.Draft(log.StepCompletedEvent, "load", 1), runtest.Draft(log.StepStartedEvent, "test", 1),
		runtest.Draft(log.StepFailedEvent, "test", 1))
	for _, c := range []struct {
		args   string
		status int
		says   []string
		not    string
	}{
		{"run compare green red", 0, []string{"A  green", "B  red", "The parameters are the same.",
			"test  status, error", "1 more step without a difference"}, "load  "},
		{"run compare green red --all", 0, []string{"load  -", "test  status, error"}, "difference;"},
		{"run compare green green", 0, []string{"No step differs."}, "DIFFERS IN"},
		{"run compare red", 0, []string{"A  green", "B  red"}, ""},
		{"run compare green", 4, []string{"no earlier run of this plan completed", "dvt run compare RUN RUN"}, ""},
		{"run compare green red -o json", 0, []string{`"changes"`, `"stepId": "load"`}, "DIFFERS IN"},
		{"run compare green nope", 4, []string{"NOT_FOUND"}, ""},
		{"run compare nope", 4, []string{"NOT_FOUND"}, ""},
	} {
		out, status, err := dvt(t, address, "dev-viewer", strings.Fields(c.args)...)
		said := out + text(err)
		if status != c.status || c.not != "" && strings.Contains(said, c.not) {
			t.Errorf("dvt %s: status %d, want %d and no %q\n%s", c.args, status, c.status, c.not, said)
		}
		for _, want := range c.says {
			if !strings.Contains(said, want) {
				t.Errorf("dvt %s: want %q in\n%s", c.args, want, said)
			}
		}
	}
}
