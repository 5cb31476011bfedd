package temporal_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"

	"github.com/dvt-engine/dvt/engine/executor"
	"github.com/dvt-engine/dvt/run"
)

// lines is a log that several goroutines write.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// A newcomer reads the lines of `dvt dev`. The failure of a step and a stop are events of the run, no faults of dvt.
func TestLog_FailedAndStoppedStepsHaveNoLine(t *testing.T) {
	t.Parallel()
	var out lines
	h := newHarness(t, options{log: slog.New(slog.NewTextHandler(&out, nil))})
	h.steps.on("flaky", func(context.Context, executor.Task) error { return failure("FLAKY", true, "transport") })
	h.steps.on("crash", func(context.Context, executor.Task) error { return errors.New("a surprise") })
	h.hold("slow")
	failed := h.start(document(0, step{id: "flaky", extra: retry(2, 100)}, step{id: "crash"}))
	stopped := h.start(document(0, step{id: "slow"}))
	h.waitUntilRunning(stopped, "slow")
	h.signal(stopped, run.Signal{ID: uuid.NewString(), Type: run.Cancel})
	h.waitForEnd(failed)
	if st := h.waitForEnd(stopped); st.Status != run.Cancelled {
		t.Errorf("the stopped run ended %s, want CANCELLED", st.Status)
	}
	if strings.Contains(out.String(), "Activity error") {
		t.Errorf("the log has lines about steps that failed or were stopped:\n%s", out.String())
	}
}
