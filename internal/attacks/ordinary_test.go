package attacks_test

import (
	"strings"
	"testing"
	"time"
)

// An ordinary run must leave no row about an attack. Otherwise the rows of real attacks would not stand out.
//
// contract: T203, T229
func TestOrdinaryRun_HasNoRefusalsAndKeepsItsLog(t *testing.T) {
	t.Parallel()
	w := installation(t)
	fails := command("fails", queueData, "/bin/sh", "-c", "echo it fails; exit 3").after("says")
	undone := command("says", queueData, "/bin/sh", "-c", "echo it was said").withCompensation("COMMAND",
		map[string]any{"argv": []string{"/bin/sh", "-c", "echo it was undone"}})
	runID := w.startRun(t, operator, "shop", noop("n"), undone.after("n"), fails)
	last := w.expectEnd(t, operator, runID, "FAILED", time.Minute)
	if last.countEvents("StepCompensated", "says") != 1 {
		t.Errorf("the log has no compensation of the step says: %s", last)
	}
	for id, line := range map[string]string{"says": "it was said", "fails": "it fails"} {
		if text := w.readStepLog(t, runID, id); !strings.Contains(text, line) {
			t.Errorf("the log of %s lacks %q: %s", id, line, text)
		}
	}
	if text := w.readStepLog(t, runID, "says"); !strings.Contains(text, "it was undone") {
		t.Errorf("the log of the hook lacks its line: %s", text)
	}
	if rows := w.readAudit(t, admin, runID, "ENGINE_FORGERY", "REFUSE_WORKER"); len(rows) > 0 {
		t.Errorf("an ordinary run was refused %d calls, such as %+v", len(rows), rows[0])
	}
}
