package remote_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
)

// Report implements engine.WorkerReporter.
func (j *journal) Report(_ context.Context, r engine.WorkerReport) (engine.WorkerOrder, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.reports = append(j.reports, r)
	return engine.WorkerOrder{Drain: true}, j.err
}

func TestClient_ReportsWithItsCheck(t *testing.T) {
	t.Parallel()
	want := engine.WorkerReport{
		Worker: "host/7", Queues: []string{"tq-data-dev"}, Runtime: "process", Digest: "ab",
		Parts:   []plan.SandboxPart{plan.SandboxFiles},
		Missing: map[plan.SandboxPart]string{plan.SandboxPIDs: "no delegated cgroup"},
		Limits:  plan.SandboxLimits{Memory: 1 << 30, CPU: 0.5},
		UID:     1000, OK: true, At: time.Date(2026, 11, 24, 3, 0, 0, 0, time.UTC),
	}
	j := &journal{}
	base := serve(t, j)
	order, err := client(t, base, "good").Report(t.Context(), want)
	if err != nil {
		t.Fatal(err)
	}
	if !order.Drain {
		t.Error("the order of the answer does not reach the worker")
	}
	if diff := cmp.Diff([]engine.WorkerReport{want}, j.reports); diff != "" {
		t.Errorf("the reports that reached the journal (-want +got):\n%s", diff)
	}
	if err := client(t, base, "good").Check(t.Context()); err != nil || len(j.reports) != 1 {
		t.Errorf("a check without a report: %v, %d reports, want none more", err, len(j.reports))
	}
	if _, err := client(t, base, "bad").Report(t.Context(), want); !errors.Is(err, engine.ErrDenied) {
		t.Errorf("a report with a wrong token: %v, want ErrDenied", err)
	}
	large := fmt.Sprintf(`{"report":{"worker":%q}}`, strings.Repeat("x", 64<<10))
	if status, code := post(t, base, "good", "check",
		strings.NewReader(large)); status != http.StatusRequestEntityTooLarge || code != run.CodeBadInput {
		t.Errorf("a report past its bound is answered with %d %s, want 413", status, code)
	}
	j.err = fmt.Errorf("%w: the queue is not yours", engine.ErrRefused)
	if _, err := client(t, base, "good").Report(t.Context(), want); !errors.Is(err, engine.ErrRefused) ||
		!strings.Contains(err.Error(), "not yours") {
		t.Errorf("a report that is refused: %v, want ErrRefused with the reason", err)
	}
	if _, err := client(t, base, "good").Report(t.Context(), want); errors.Is(err, engine.ErrDenied) {
		t.Errorf("a report that is refused, but not because of the account: %v matches ErrDenied", err)
	}
}

// deniedError is a refusal that wraps engine.ErrDenied too, as that of a Journal.
type deniedError struct{}

func (deniedError) Error() string {
	return engine.ErrRefused.Error() + ": the account lacks tq-data-dev"
}
func (deniedError) Unwrap() []error { return []error{engine.ErrDenied, engine.ErrRefused} }

func TestClient_ReportOutsideTheAccountIsDenied(t *testing.T) {
	t.Parallel()
	base := serve(t, &journal{err: deniedError{}})
	_, err := client(t, base, "good").Report(t.Context(), engine.WorkerReport{Worker: "host/7",
		Queues: []string{"tq-data-dev"}})
	if want := engine.ErrDenied.Error() + ": the account lacks tq-data-dev"; !errors.Is(err, engine.ErrDenied) ||
		err.Error() != want {
		t.Errorf("the report is answered with %v, want %s", err, want)
	}
	// A client of an earlier version knows only the code.
	status, code := post(t, base, "good", "check", strings.NewReader(`{"report":{"worker":"host/7"}}`))
	if status != http.StatusForbidden || code != run.CodeTicketRefused {
		t.Errorf("the report is answered with %d %s, want 403 TICKET_REFUSED", status, code)
	}
}
