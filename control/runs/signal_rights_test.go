package runs_test

import (
	"encoding/csv"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control/controltest"
	"github.com/dvt-engine/dvt/control/reads"
	"github.com/dvt-engine/dvt/control/watch"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
	"github.com/dvt-engine/dvt/server/usecases"
)

// allowedRoles reads the role table that the tests of the policy use.
func allowedRoles(t *testing.T) map[run.SignalType]map[string]bool {
	t.Helper()
	f, err := os.Open("../../authz/testdata/decisions.csv")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	out := map[run.SignalType]map[string]bool{}
	for _, row := range controltest.Must[[][]string](t)(csv.NewReader(f).ReadAll()) {
		if row[2] != "*" || row[3] != "*" || row[4] != "acme" {
			continue
		}
		sig := run.SignalType(row[0])
		if out[sig] == nil {
			out[sig] = map[string]bool{}
		}
		out[sig][strings.ToLower(row[1])] = row[7] == "allow"
	}
	return out
}

// catalogue has the nine signals and CANCEL.
var catalogue = []run.SignalType{
	run.Pause, run.Resume, run.RetryStep, run.SkipStep, run.UpdateParams, run.InjectOverride, run.EscalateAlert,
	run.UpdateTarget, run.EmergencyStop, run.Cancel,
}

// contract: G02, T92
func TestSignalRun_FollowsTheRoleTable(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Config.Limits.DenialsPerMinute = 100
	w.UseCases = usecases.New(w.Config)
	may := allowedRoles(t)
	n := 0
	for _, sig := range catalogue {
		kind := "COMMAND s1"
		if sig == run.UpdateTarget {
			kind = "DBT_RUN s1"
		}
		id := w.CreateSteps("g02-"+string(sig), kind)
		w.FinishStep(id, "s1", 1, run.StepFailedEvent)
		if sig == run.Resume {
			w.AppendEvents(id, runtest.Draft(run.RunPaused, "", 1))
		}
		for _, role := range []string{"viewer", "operator", "engineer", "admin", "planner", "system", "sre"} {
			n++
			before := w.StateOf(id)
			in := controltest.SignalOf(id, fmt.Sprintf("sig-%d", n), sig)
			r, err := w.SignalRun(t.Context(), w.Principal("dev-"+role), in)
			after := w.StateOf(id)
			if after.Status != before.Status || after.Seq != before.Seq+1 {
				t.Errorf("%s by %s: the run is %s at seq %d, was %s at %d; want one event more and the same status",
					sig, role, after.Status, after.Seq, before.Status, before.Seq)
			}
			log := w.EventLog(id)
			allowed, listed := may[sig][role]
			if !listed {
				t.Errorf("the table says nothing of %s by %s", sig, role)
			}
			if allowed {
				if err != nil || r.Rejected || r.AcceptedSeq != after.Seq ||
					log[len(log)-1] != fmt.Sprintf("%d SignalAccepted(sig-%d)", after.Seq, n) {
					t.Errorf("%s by %s is answered %+v with the error %v, the log ends with %s; want SignalAccepted",
						sig, role, r, err, log[len(log)-1])
				}
				if !w.HasAuditRow("acme", fmt.Sprintf("dev-%s %s ACCEPTED  %s", role, sig, id)) {
					t.Errorf("%s by %s left no audit row", sig, role)
				}
				continue
			}
			e := controltest.Refusal(t, err, run.CodeForbidden)
			if log[len(log)-1] != fmt.Sprintf("%d SignalRejected(sig-%d)", after.Seq, n) {
				t.Errorf("%s by %s: the log ends with %s, want SignalRejected", sig, role, log[len(log)-1])
			}
			could := "dev-admin"
			if sig == run.EscalateAlert {
				could = "dev-system"
			}
			if e.Denial == nil || e.Denial.Action != authz.Action(sig) || !strings.Contains(strings.Join(e.Denial.WhoCould,
				" "),
				could) {
				t.Errorf("%s by %s: the denial is %+v, want one that explains itself", sig, role, e.Denial)
			}
			if !w.HasAuditRow("acme", fmt.Sprintf("dev-%s %s REJECTED FORBIDDEN %s", role, sig, id)) {
				t.Errorf("%s by %s left no audit row", sig, role)
			}
			// A repetition is refused again without a second event (T222).
			_, err = w.SignalRun(t.Context(), w.Principal("dev-"+role), in)
			controltest.Refusal(t, err, run.CodeForbidden)
			if got := w.StateOf(id).Seq; got != after.Seq {
				t.Errorf("%s by %s again: the run is at seq %d, want %d", sig, role, got, after.Seq)
			}
		}
	}
}

// contract: G03
func TestSignalRun_OtherTenantsGetNotFound(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.CreateRunning("g03", "s1")
	before := w.EventLog(id)
	mallory := w.Principal("dev-mallory")
	_, err := w.SignalRun(t.Context(), mallory, controltest.SignalOf(id, "u1", run.Pause))
	controltest.Refusal(t, err, run.CodeNotFound)
	if diff := cmp.Diff(before, w.EventLog(id)); diff != "" {
		t.Errorf("the log of the other tenant's run changed:\n%s", diff)
	}
	if !w.HasAuditRow("globex", "dev-mallory PAUSE DENIED NOT_FOUND "+id) {
		t.Errorf("the audit of globex has no row of the denial: %v", w.AuditRows("globex"))
	}
	for _, row := range w.AuditRows("acme") {
		if strings.Contains(row, "mallory") {
			t.Errorf("the audit of acme has a row of the other tenant: %s", row)
		}
	}
	// A flood writes one row a minute, and the next row has the count (T208).
	for range 20 {
		_, _ = w.SignalRun(t.Context(), mallory, controltest.SignalOf(id, "u1", run.Pause))
	}
	if rows := w.AuditRows("globex"); len(rows) != 1 {
		t.Errorf("there are %d audit rows of the flood, want 1: %v", len(rows), rows)
	}
	w.Clock.Advance(time.Minute)
	_, _ = w.SignalRun(t.Context(), mallory, controltest.SignalOf(id, "u1", run.Pause))
	if rows := w.AuditRows("globex"); len(rows) != 2 || !strings.HasSuffix(rows[1], `{"repeatedBefore":20}`) {
		t.Errorf("the rows are %v, want two, the second with the count", rows)
	}
}

// A run of another tenant, one in a scope without a grant, and one that does not exist get the same answer word for
// word, from everything that names a run (T101).
func TestForeignAndMissingRunsAnswerAlike(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.CreateRunning("foreign", "s1")
	seq := run.Seq(1)
	calls := map[string]func(p authz.Principal, runID string) error{
		"Run":    func(p authz.Principal, r string) error { _, err := w.Run(t.Context(), p, r, nil); return err },
		"Run at": func(p authz.Principal, r string) error { _, err := w.Run(t.Context(), p, r, &seq); return err },
		"Events": func(p authz.Principal, r string) error {
			_, err := w.Events(t.Context(), p, r, reads.EventPage{})
			return err
		},
		"Receipt":  func(p authz.Principal, r string) error { _, err := w.Receipt(t.Context(), p, r, "s"); return err },
		"Receipts": func(p authz.Principal, r string) error { _, err := w.Receipts(t.Context(), p, r, "s", 1); return err },
		"StepLog": func(p authz.Principal, r string) error {
			_, err := w.StepLog(t.Context(), p, reads.StepLogQuery{RunID: r, StepID: "s1"})
			return err
		},
		"WatchRun": func(p authz.Principal, r string) error {
			_, err := w.WatchRun(t.Context(), p, watch.WatchRun{RunID: r})
			return err
		},
		"WatchEvents": func(p authz.Principal, r string) error {
			_, err := w.WatchEvents(t.Context(), p, watch.WatchRun{RunID: r})
			return err
		},
		"WatchReceipts": func(p authz.Principal, r string) error {
			_, err := w.WatchReceipts(t.Context(), p, r,
				"")
			return err
		},
		"WatchReceipt": func(p authz.Principal, r string) error {
			_, err := w.WatchReceipts(t.Context(), p, r,
				"s")
			return err
		},
		"WatchStepLog": func(p authz.Principal, r string) error {
			_, err := w.WatchStepLog(t.Context(), p, reads.StepLogQuery{RunID: r, StepID: "s1"})
			return err
		},
	}
	for _, sig := range []run.SignalType{run.Pause, run.Resume, run.RetryStep, run.Cancel} {
		calls[string(sig)] = func(p authz.Principal, r string) error {
			_, err := w.SignalRun(t.Context(), p, controltest.SignalOf(r, "x", sig))
			return err
		}
	}
	missing := "00000000-0000-4000-8000-000000000000"
	for name, call := range calls {
		want := controltest.Refusal(t, call(w.Engineer(), missing), run.CodeNotFound)
		for who, runID := range map[string]string{"dev-mallory": id, "nobody": id} {
			got := controltest.Refusal(t, call(w.Principal(who), runID), run.CodeNotFound)
			if got.Error() != want.Error() || got.RetryAfter != want.RetryAfter || got.Denial != nil || got.RunSeq != 0 {
				t.Errorf("%s by %s is answered %+v, but for a missing run %+v", name, who, got, want)
			}
		}
		for _, row := range []string{"dev-engineer", "dev-mallory", "nobody"} {
			tenant := map[bool]string{true: "globex", false: "acme"}[row == "dev-mallory"]
			if !w.HasAuditRow(tenant, row+" ") {
				t.Errorf("%s by %s left no audit row", name, row)
			}
		}
	}
	if got := w.EventLog(id); len(got) != 2 {
		t.Errorf("the log changed: %v", got)
	}
}

// contract: T102
func TestSignalRun_DenialsInTheLogAreLimited(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.CreateRunning("t102", "s1")
	viewer := w.Principal("dev-viewer")
	for i := range 10 {
		_, err := w.SignalRun(t.Context(), viewer, controltest.SignalOf(id, fmt.Sprintf("u%d", i), run.Pause))
		controltest.Refusal(t, err, run.CodeForbidden)
	}
	before := w.EventLog(id)
	for i := range 5 {
		_, err := w.SignalRun(t.Context(), viewer, controltest.SignalOf(id, fmt.Sprintf("v%d", i), run.Pause))
		if e := controltest.Refusal(t, err, run.CodeSignalRate); e.RetryAfter <= 0 || e.RetryAfter > time.Minute {
			t.Errorf("the refusal has RetryAfter %s, want at most a minute", e.RetryAfter)
		}
	}
	if diff := cmp.Diff(before, w.EventLog(id)); diff != "" || w.CountEvents(id, run.SignalRejected) != 10 {
		t.Errorf("the log changed after ten denials:\n%s", diff)
	}
	rows := 0
	for _, row := range w.AuditRows("acme") {
		if strings.HasPrefix(row, "dev-viewer PAUSE DENIED SIGNAL_RATE_LIMITED") {
			rows++
		}
	}
	if rows != 1 {
		t.Errorf("%d coalesced audit rows, want 1: %v", rows, w.AuditRows("acme"))
	}
	// Repeated signals cost nothing, other principals have their own limit, and the limit resets after a minute.
	_, err := w.SignalRun(t.Context(), viewer, controltest.SignalOf(id, "u3", run.Pause))
	controltest.Refusal(t, err, run.CodeForbidden)
	_, err = w.SignalRun(t.Context(), w.Principal("dev-sre"), controltest.SignalOf(id, "w", run.Pause))
	controltest.Refusal(t, err, run.CodeForbidden)
	w.Clock.Advance(time.Minute)
	_, err = w.SignalRun(t.Context(), viewer, controltest.SignalOf(id, "v0", run.Pause))
	controltest.Refusal(t, err, run.CodeForbidden)
	if r := w.Send(w.Engineer(), controltest.SignalOf(id, "ok", run.Pause)); r.Rejected {
		t.Errorf("the receipt is %+v, want it accepted", r)
	}
}
