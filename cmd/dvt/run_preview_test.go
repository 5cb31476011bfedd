package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	log "github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
	"github.com/dvt-engine/dvt/store"
)

// contract: O10
func TestRunDryRun_ShowsTheEffectAndChangesNothing(t *testing.T) {
	address, r := serve(t)
	s, _ := r.Outbox.(store.Store)
	if _, err := s.Append(t.Context(), store.Append{RunID: "r1", Events: []log.Draft{
		runtest.Start("s1", "s2"), runtest.Draft(log.StepStartedEvent, "s2", 1), runtest.Draft(log.StepCompletedEvent, "s2",
			1),
	}}); err != nil {
		t.Fatal(err)
	}
	before, err := s.Load(t.Context(), "r1")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "plan.yaml")
	if err := os.WriteFile(file, []byte("{}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		token, args string
		status      int
		says        string
	}{
		{"dev-engineer", "pause r1 --dry-run", 0, "Result: the run is paused."},
		{"dev-engineer", "pause r1 --dry-run -o json", 0, `"status": "PAUSED"`},
		{"dev-engineer", "cancel r1 --dry-run", 0, "The run is cancelled. This cannot be undone.\n  s1  pending -> cancelled  Asked to stop.\n"},
		{"dev-engineer", "retry r1 s2 --dry-run", 3, "STEP_NOT_FAILED"},
		{"dev-viewer", "pause r1 --dry-run", 3, "FORBIDDEN"},
		{"dev-mallory", "pause r1 --dry-run", 4, "NOT_FOUND"},
		{"dev-admin", "stop r1 --reason r --dry-run", 0, "Result: the run is cancelled."},
		{"dev-engineer", "rerun r1 --from failed --dry-run", 3, "INVALID_RUN_STATE"},
		{"dev-engineer", "start " + file + " --project shop --environment dev --dry-run", 2, "PLAN_"},
	} {
		out, status, err := dvt(t, address, c.token, append([]string{"run"}, strings.Fields(c.args)...)...)
		if err != nil {
			out += err.Error()
		}
		if status != c.status || !strings.Contains(out, c.says) {
			t.Errorf("dvt run %s: status %d, want %d and %q:\n%s", c.args, status, c.status, c.says, out)
		}
	}
	after, err := s.Load(t.Context(), "r1")
	if err != nil || after.Head.LastSeq != before.Head.LastSeq || after.Head.OpsRev != before.Head.OpsRev {
		t.Errorf("the head changed from %+v to %+v, %v, want no change", before.Head, after.Head, err)
	}
}
