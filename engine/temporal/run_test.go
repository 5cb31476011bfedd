package temporal_test

import (
	"flag"
	"log/slog"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/dvt-engine/dvt/run"
)

var quietLog = slog.New(slog.DiscardHandler)

// TestMain runs more tests in parallel than there are processors, because most of them wait. It then fails if
// goroutines of the package outlive the tests.
func TestMain(m *testing.M) {
	flag.Parse()
	if f := flag.Lookup("test.parallel"); f.Value.String() == f.DefValue {
		_ = f.Value.Set("8")
	}
	code := m.Run()
	if left := strays(); code == 0 && left != "" {
		_, _ = os.Stderr.WriteString("goroutines outlived the tests:\n" + left + "\n")
		code = 1
	}
	os.Exit(code)
}

// strays returns the stacks of goroutines that still run code of dvt or of a Temporal worker after five seconds.
func strays() (left string) {
	for range 50 {
		all := make([]byte, 4<<20)
		all = all[:runtime.Stack(all, true)]
		left = ""
		for i, g := range strings.Split(string(all), "\n\n") {
			if i > 0 && (strings.Contains(g, "dvt/engine/") || strings.Contains(g, "sdk/internal.(*baseWorker)") ||
				strings.Contains(g, "dvt/control.")) {
				left += g + "\n\n"
			}
		}
		if left == "" {
			return ""
		}
		time.Sleep(100 * time.Millisecond)
	}
	return left
}

// The end of a SLEEP is written within a workflow task, whose clock does not advance. harness.waitForEnd checks that
// the run's end is not earlier.
func TestRun_EndsNoEarlierThanItsSleeps(t *testing.T) {
	t.Parallel()
	h := newHarness(t, options{})
	nap := func(id, deps string, ms int) step {
		return step{id: id, deps: deps, extra: map[string]any{"type": "SLEEP", "inputs": map[string]any{"ms": ms}}}
	}
	for range 3 {
		id := h.start(document(0, nap("s1", "", 1), nap("s2", "s1", 40), nap("s3", "s2", 1)))
		if st := h.waitForEnd(id); st.Status != run.Completed {
			t.Fatalf("the run is %s, want COMPLETED", st.Status)
		}
	}
}

// contract: A01
func TestRun_LinearPlanCompletesStepByStep(t *testing.T) {
	t.Parallel()
	h := newHarness(t, options{})
	id := h.start(document(0, step{id: "s1"}, step{id: "s2", deps: "s1"}, step{id: "s3", deps: "s2"}))
	st := h.waitForEnd(id)
	h.expect(id, 1,
		"RunApproved", "RunStarted", "StepStarted(s1,1)", "StepCompleted(s1,1)", "StepStarted(s2,1)", "StepCompleted(s2,1)",
		"StepStarted(s3,1)", "StepCompleted(s3,1)", "RunCompleted",
	)
	if st.Status != run.Completed || st.Seq != 9 || len(st.Steps) != 3 || st.Counts.Success != 3 {
		t.Fatalf("state %+v, want COMPLETED at event 9 with 3 successes", st.Header)
	}
}
