package temporal_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/dvt-engine/dvt/engine/temporal"
	"github.com/dvt-engine/dvt/engine/ticket"
	"github.com/dvt-engine/dvt/run"
)

// A control worker with wrong ticket-keys ends no run, also if its key has the id of the right one. A worker with the
// right keys continues the run.
// contract: T196
func TestWorker_WithOtherTicketKeysEndsNoRun(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"a key of the same id": "test:MTExMTExMTExMTExMTExMTExMTExMTExMTExMTExMTE=",
		"a key of another id":  "else:MTExMTExMTExMTExMTExMTExMTExMTExMTExMTExMTE=",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHarness(t, options{rotateAfter: 2})
			other, err := ticket.ParseKeys([]string{text})
			must(t, err)
			right := h.keys
			h.patience = 3 * time.Minute // Temporal waits longer after each failed task
			h.keys = other
			h.serve(temporal.WorkerConfig{Control: []string{h.queues.Control}})
			h.keys = right
			var runs []string
			for range 3 {
				runs = append(runs, h.start(document(0, step{id: "a"}, step{id: "b", deps: "a"}, step{id: "c", deps: "b"})))
			}
			for _, id := range runs {
				s := h.waitFor(id, "ended", func(s run.State) bool { return s.Status.Terminal() })
				if s.Status != run.Completed {
					t.Errorf("a run beside a worker with other keys ended %s, want COMPLETED; log %s", s.Status,
						fmt.Sprint(h.log(id)))
				}
			}
		})
	}
}
