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

// nineSignals are those of the catalogue as the API takes them.
var nineSignals = map[authz.Action]string{ //nolint:gochecknoglobals // a table
	authz.Pause: `pause:{reason:"r"}`, authz.Resume: `resume:{reason:"r"}`, authz.RetryStep: `retryStep:{stepId:"s"}`,
	authz.SkipStep:       `skipStep:{stepId:"s"}`,
	authz.UpdateParams:   `updateParams:{newParams:{a:1}}`,
	authz.InjectOverride: `injectOverride:{stepId:"s",override:{a:1},reason:"r"}`,
	authz.EscalateAlert:  `escalateAlert:{level:LOW}`,
	authz.UpdateTarget:   `updateTarget:{stepId:"s",newTarget:{schema:"x"},reason:"r"}`,
	authz.EmergencyStop:  `emergencyStop:{reason:"r"}`,
}

// Each of the nine signals by each role over the API: who may gets a receipt or is told what is wrong with the
// signal, who may not FORBIDDEN and a SignalRejected, and the run stays as it is. A stranger gets NOT_FOUND and
// a row in its own audit, and the log stays as it is.
// contract: G02, G03
func TestSignals_EveryRoleOverTheAPI(t *testing.T) {
	t.Parallel()
	may := decisions(t)
	var accounts []authz.Account
	for _, r := range authz.Roles() {
		accounts = append(accounts, accountOf("acme", string(r), role(r, "*", "*")))
	}
	w := settle(t, settling{accounts: append(accounts, accountOf("globex", "mal", role(authz.Admin, "*", "*")))})
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
			runsOne(t, w, id)
			status, head := state(id)
			a := ask(t, w.url, fmt.Sprintf(`mutation{signalRun(input:{runId:%q,signalId:"one",signal:{%s}}){signal{decision}}}`,
				id, signal), nil, "Authorization: Bearer "+string(who))
			after, now := state(id)
			evs, err := w.store.Events(t.Context(), id, head, 10)
			must(t, err)
			switch {
			case a.StatusCode != http.StatusOK:
				t.Errorf("%s by %s: %d", action, who, a.StatusCode)
			case who == "mal":
				if a.code() != "NOT_FOUND" || now != head {
					t.Errorf("%s by a stranger: %s, head %d then %d", action, a.body, head, now)
				}
			case may[string(action)+" "+string(who)]:
				if a.code() == "FORBIDDEN" || a.code() == "NOT_FOUND" {
					t.Errorf("%s by %s: %s", action, who, a.body)
				}
			case a.code() != "FORBIDDEN" || after != status || len(evs) != 1 || evs[0].Type != run.SignalRejected:
				t.Errorf("%s by %s: %s, %s then %s, events %v", action, who, a.body, status, after, evs)
			}
		}
	}
	_, err := w.store.LinkAudit(t.Context(), store.MaxPage)
	must(t, err)
	rows, err := w.store.AuditLinks(t.Context(), store.AuditFilter{TenantID: "globex", Limit: store.MaxPage})
	must(t, err)
	if len(rows) != len(nineSignals) {
		t.Errorf("the stranger's audit has %d rows for %d signals", len(rows), len(nineSignals))
	}
	if want := 9 * (len(authz.Roles()) + 1); pairs != want {
		t.Errorf("%d pairs, not %d", pairs, want)
	}
}

// decisions are those of the table on the whole tenant, by action and role.
func decisions(t *testing.T) map[string]bool {
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

// runsOne makes a run with a step that runs.
func runsOne(t *testing.T, w *island, id string) {
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
