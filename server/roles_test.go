package server_test

import (
	"encoding/csv"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
	"github.com/dvt-engine/dvt/store"
)

// nineSignals has each signal of the catalogue as input of the API.
var nineSignals = map[authz.Action]string{ //nolint:gochecknoglobals // a table
	authz.Pause: `pause:{reason:"r"}`, authz.Resume: `resume:{reason:"r"}`, authz.RetryStep: `retryStep:{stepId:"s"}`,
	authz.SkipStep:       `skipStep:{stepId:"s"}`,
	authz.UpdateParams:   `updateParams:{newParams:{a:1}}`,
	authz.InjectOverride: `injectOverride:{stepId:"s",override:{a:1},reason:"r"}`,
	authz.EscalateAlert:  `escalateAlert:{level:LOW}`,
	authz.UpdateTarget:   `updateTarget:{stepId:"s",newTarget:{schema:"x"},reason:"r"}`,
	authz.EmergencyStop:  `emergencyStop:{reason:"r"}`,
}

// Each role sends each of the nine signals. A role with the right gets a receipt or an error about the signal. A role
// without it gets FORBIDDEN, the log gets a SignalRejected, and the status of the run does not change. A stranger gets
// NOT_FOUND and a row in the audit of his own tenant, and the log does not change.
// contract: G02, G03
func TestSignals_AreDecidedByRoleAsInTheTable(t *testing.T) {
	t.Parallel()
	may := readDecisions(t)
	var accounts []authz.Account
	for _, r := range authz.Roles() {
		accounts = append(accounts, accountOf("acme", string(r), role(r, "*", "*")))
	}
	w := startSeededServer(t, seedOptions{accounts: append(accounts, accountOf("globex", "mal", role(authz.Admin, "*",
		"*")))})
	state := func(id string) (run.Status, run.Seq) {
		t.Helper()
		l, err := w.store.Load(t.Context(), id)
		must(t, err)
		return l.State.RunStatus(), l.Head.LastSeq
	}
	pairs := 0
	for action, signal := range nineSignals {
		for _, who := range append(authz.Roles(), "mal") {
			pairs++
			id := fmt.Sprintf("run-%s-%s", action, who)
			importRunningRun(t, w, id)
			status, head := state(id)
			a := ask(t, w.url, fmt.Sprintf(`mutation{signalRun(input:{runId:%q,signalId:"one",signal:{%s}}){signal{decision}}}`,
				id, signal), nil, "Authorization: Bearer "+string(who))
			after, now := state(id)
			evs, err := w.store.Events(t.Context(), id, head, 10)
			must(t, err)
			switch {
			case a.StatusCode != http.StatusOK:
				t.Errorf("%s by %s: %d, want 200", action, who, a.StatusCode)
			case who == "mal":
				if a.code() != "NOT_FOUND" || now != head {
					t.Errorf("%s by a stranger: %s, want NOT_FOUND; the head was %d and is %d", action, a.body, head, now)
				}
			case may[string(action)+" "+string(who)]:
				if a.code() == "FORBIDDEN" || a.code() == "NOT_FOUND" {
					t.Errorf("%s by %s: %s, want that it is permitted", action, who, a.body)
				}
			case a.code() != "FORBIDDEN" || after != status || len(evs) != 1 || evs[0].Type != run.SignalRejected:
				t.Errorf("%s by %s: %s, the run was %s and is %s, events %v; want FORBIDDEN and one SignalRejected", action, who,
					a.body, status, after, evs)
			}
		}
	}
	_, err := w.store.LinkAudit(t.Context(), store.MaxPage)
	must(t, err)
	rows, err := w.store.AuditLinks(t.Context(), store.AuditFilter{TenantID: "globex", Limit: store.MaxPage})
	must(t, err)
	if len(rows) != len(nineSignals) {
		t.Errorf("the audit of the stranger's tenant has %d rows, want one for each of %d signals", len(rows),
			len(nineSignals))
	}
	if want := 9 * (len(authz.Roles()) + 1); pairs != want {
		t.Errorf("the test tried %d pairs of signal and role, want %d", pairs, want)
	}
}

// readDecisions reads the decisions of the table for grants of the whole tenant. Its keys are "ACTION ROLE".
func readDecisions(t *testing.T) map[string]bool {
	t.Helper()
	f, err := os.Open(filepath.Join(root(t), "authz", "testdata", "decisions.csv"))
	must(t, err)
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	must(t, err)
	out := map[string]bool{}
	for _, row := range rows[1:] {
		if strings.Join(row[2:5], " ") == "* * acme" {
			out[row[0]+" "+row[1]] = row[7] == "allow"
		}
	}
	return out
}

// importRunningRun imports a run of acme with one running step.
func importRunningRun(t *testing.T, w *seededServer, id string) {
	t.Helper()
	at := run.Identity{RunID: id, TenantID: "acme", ProjectID: "shop", EnvironmentID: "dev", PlanID: "plan-3",
		PlanVersion: "1.0"}
	evs := runtest.Log(runtest.Draft(run.RunApproved, "", 1), runtest.Start("s"), runtest.Draft(run.StepStartedEvent, "s",
		1))
	for i := range evs {
		evs[i].Identity, evs[i].Key = at, run.Key(fmt.Sprint(id, i))
	}
	must(t, w.store.Import(t.Context(), store.NewRun{Run: store.Run{Identity: at, CreatedAt: time.Now()}}, evs))
}
