package journal_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control/controltest"
	"github.com/dvt-engine/dvt/control/journal"
	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/engine/remote"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
	"github.com/dvt-engine/dvt/store"
	"github.com/dvt-engine/dvt/storeadmin"
)

// A worker whose account does not cover a queue that it polls must end, because it takes steps that it cannot begin.
// Its report is denied with a sentence that names the queue and the setting. A malformed report is only refused.
func TestReport_IsDeniedForQueuesOutsideTheAccount(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var out bytes.Buffer
	registry := prometheus.NewRegistry()
	w.Journal = w.NewJournal(func(c *journal.Config) {
		c.Metrics, c.Logger = registry, slog.New(slog.NewTextHandler(&out, nil))
	})
	var many []string
	for i := range 12 {
		many = append(many, fmt.Sprintf("tq-data-%02d", i))
	}
	for _, c := range []struct {
		name   string
		queues []string
		denied string // part of the sentence; empty: refused and not denied
	}{
		{"one other queue", []string{"tq-data-dev", "tq-data-prod"},
			"does not cover the queues that it serves: tq-data-prod; add them"},
		{"two other queues", []string{"tq-data-prod", "tq-data-dev", "tq-data-qa"},
			"serves: tq-data-prod, tq-data-qa; add them"},
		{"many other queues", many, "tq-data-09 and 2 more; add them"},
		{"another queue twice", []string{"tq-data-prod", "tq-data-prod"}, ""},
		{"no queue", nil, ""},
	} {
		r := controltest.ReportOf("w1", plan.SandboxMemory)
		r.Queues = c.queues
		_, err := w.ReporterOf("acme-worker").Report(t.Context(), r)
		if !errors.Is(err, engine.ErrRefused) || errors.Is(err, engine.ErrDenied) != (c.denied != "") {
			t.Errorf("%s: %v, want ErrRefused, and ErrDenied: %t", c.name, err, c.denied != "")
			continue
		}
		if !strings.Contains(err.Error(), c.denied) {
			t.Errorf("%s: the error %q does not say %q", c.name, err, c.denied)
		}
		for _, want := range []string{"acme-worker", "setting queues of the account", "--queues of this worker"} {
			if c.denied != "" && !strings.Contains(err.Error(), want) {
				t.Errorf("%s: the error %q does not say %q", c.name, err, want)
			}
		}
	}
	if got := controltest.MetricValues(t, registry)["engine_refused_calls_total"]; got != 5 {
		t.Errorf("engine_refused_calls_total is %v, want 5: one for each refused report", got)
	}
	if got := strings.Count(out.String(), "a call to the log was refused"); got != 5 {
		t.Errorf("%d lines about refused calls, want 5:\n%s", got, out.String())
	}
	var rows []store.AuditRow
	for _, l := range w.CheckAuditChain("acme") {
		rows = append(rows, store.AuditRow{Actor: l.Row.Actor, Action: l.Row.Action, Outcome: l.Row.Outcome, Code: l.Row.Code,
			Via: l.Row.Via})
	}
	want := []store.AuditRow{{Actor: "acme-worker", Action: "REFUSE_WORKER", Outcome: "REJECTED", Code: run.CodeForbidden,
		Via: authz.ViaWorker}}
	if diff := cmp.Diff(want, rows); diff != "" {
		t.Errorf("audit rows of five refused reports within a minute (-want +got):\n%s", diff)
	}
}

func TestReport_IsDeniedOverHTTPWithTheSameSentence(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	server := httptest.NewServer(&remote.Server{
		Logger: slog.New(slog.DiscardHandler),
		Authenticate: func(token string) (engine.AttemptJournal, error) {
			return w.Journal.For(authz.Worker{ID: token, Serves: []string{"acme"}, Queues: []string{"tq-data-dev"}}), nil
		},
	})
	t.Cleanup(server.Close)
	client := controltest.Must[*remote.Client](t)(remote.NewClient(server.URL, "data-1"))
	r := controltest.ReportOf("w1", plan.SandboxMemory)
	if _, err := client.Report(t.Context(), r); err != nil {
		t.Errorf("a report of the account's own queue returned %v, want no error", err)
	}
	r.Queues = append(r.Queues, "tq-data-prod")
	_, err := client.Report(t.Context(), r)
	if !errors.Is(err, engine.ErrDenied) || !strings.Contains(err.Error(),
		"the account data-1 of this worker does not cover the queues that it serves: tq-data-prod;") {
		t.Errorf("a report of another queue: %v, want ErrDenied that names account and queue", err)
	}
	r.Queues = nil
	if _, err := client.Report(t.Context(), r); !errors.Is(err, engine.ErrRefused) || errors.Is(err, engine.ErrDenied) {
		t.Errorf("a malformed report: %v, want ErrRefused and not ErrDenied", err)
	}
	w.Raw.Close()
	r.Queues = []string{"tq-data-dev"}
	if _, err := client.Report(t.Context(), r); err == nil || errors.Is(err, engine.ErrDenied) {
		t.Errorf("a report without a store: %v, want an error that is not ErrDenied", err)
	}
}

// A worker learns which of its runs have ended. About others it learns nothing.
func TestReport_SaysWhichRunsOfTheWorkerHaveEnded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	open := w.CreateRunning("open", "s1")
	ended := w.CreateRunning("ended", "s1")
	w.AppendEvents(ended, runtest.Draft(run.RunCompleted, "", 1))
	theirs := runtest.ID
	theirs.RunID, theirs.TenantID = uuid.NewString(), "globex"
	if err := w.Raw.Import(t.Context(), store.NewRun{Run: store.Run{Identity: theirs, TriggeredBy: "eve",
		CreatedAt: w.Clock.Now(), TriggerSource: storeadmin.TriggerImport}}, runtest.Log(
		runtest.Draft(run.RunApproved, "", 1), runtest.Start("s1"), runtest.Draft(run.StepStartedEvent, "s1", 1),
		runtest.Draft(run.StepCompletedEvent, "s1", 1), runtest.Draft(run.RunCompleted, "", 1))); err != nil {
		t.Fatal(err)
	}
	r := controltest.ReportOf("w1", plan.SandboxMemory)
	r.Workspaces = []string{open, ended, theirs.RunID, uuid.NewString(), "x\n", ended}
	order, err := w.ReporterOf("acme-worker").Report(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{ended}, order.EndedRuns); diff != "" {
		t.Errorf("ended runs (-want +got):\n%s", diff)
	}
	r.Workspaces = append(slices.Repeat([]string{open}, engine.MaxWorkspaces), ended)
	order, err = w.ReporterOf("acme-worker").Report(t.Context(), r)
	if err != nil || len(order.EndedRuns) > 0 {
		t.Errorf("a report of more than %d workspaces: %v, error %v; want the others ignored", engine.MaxWorkspaces,
			order.EndedRuns, err)
	}
}
