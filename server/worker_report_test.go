package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/store"
)

// reports is a server that accepts reports or returns an error.
type reports struct {
	taken []engine.WorkerReport
	err   error
}

func (r *reports) Report(_ context.Context, w engine.WorkerReport) error {
	r.taken = append(r.taken, w)
	return r.err
}

func TestWorker_ReportsItsSandboxAtItsStartAndEachMinute(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute+time.Second)
		defer cancel()
		to := &reports{}
		queues := []string{"tq-data-b", "tq-data-a", "tq-data-b"}
		if err := reportSandbox(ctx, to, queues, unsandboxed, slog.New(slog.DiscardHandler)); err != nil {
			t.Fatal(err)
		}
		if len(to.taken) != 3 {
			t.Errorf("%d reports in two minutes, want 3", len(to.taken))
		}
		if got := strings.Join(to.taken[0].Queues, " "); got != "tq-data-a tq-data-b" {
			t.Errorf("the report names the queues %s, want each once", got)
		}
	})
}

func TestWorker_LogsOnceThatItsReportsAreNotTaken(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute+time.Second)
		defer cancel()
		var out strings.Builder
		to := &reports{err: errors.Join(store.ErrUnavailable)}
		if err := reportSandbox(ctx, to, []string{"q"}, unsandboxed, slog.New(slog.NewTextHandler(&out, nil))); err != nil {
			t.Fatal(err)
		}
		if lines := strings.Count(out.String(), "level=WARN"); lines != 1 || len(to.taken) != 6 {
			t.Errorf("%d warnings of %d reports, want 1 of 6", lines, len(to.taken))
		}
	})
}

func TestSendReport_NamesAtMost64QueuesInOneReport(t *testing.T) {
	t.Parallel()
	var queues []string
	for i := range reportQueues + 1 {
		queues = append(queues, fmt.Sprintf("q%03d", i))
	}
	to := &reports{}
	if err := sendReport(t.Context(), to, queues, unsandboxed()); err != nil {
		t.Fatal(err)
	}
	if len(to.taken) != 2 || len(to.taken[0].Queues) != reportQueues || len(to.taken[1].Queues) != 1 {
		t.Errorf("%d reports, want one of %d queues and one of 1", len(to.taken), reportQueues)
	}
}

// unsandboxed returns the report of a worker that starts programs without a sandbox.
func unsandboxed() engine.WorkerReport {
	r := engine.WorkerReport{Worker: "host/1", Runtime: "none", Parts: []plan.SandboxPart{}, Missing: map[plan.SandboxPart]string{}, OK: true, At: time.Now().UTC()}
	for _, part := range plan.SandboxParts() {
		r.Missing[part] = "this worker starts programs without a sandbox"
	}
	return r
}
