package reads_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control/controltest"
	"github.com/dvt-engine/dvt/control/reads"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// openIncident raises an alert and returns the id of its incident.
func (w *world) openIncident(a store.Alert) string {
	w.T.Helper()
	w.raise(a)
	opened := controltest.Must[[]store.Incident](w.T)(w.Raw.OpenIncidents(w.T.Context(), 10,
		func(store.AlertState) store.Severity { return store.Sev2 }))
	if len(opened) != 1 {
		w.T.Fatalf("%d incidents were opened, want one", len(opened))
	}
	return opened[0].ID
}

func TestIncidents_AreForThoseWhoMaySeeTheirAlerts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.CreateQueued("r1", "s1")
	ofRun := w.openIncident(store.Alert{TenantID: "acme", ProjectID: "shop", RunID: id, Code: run.CodeStepStuck})
	ofAll := w.openIncident(store.Alert{Code: run.CodeWorkerAbsent})
	list := func(p authz.Principal) (ids []string) {
		page := controltest.Must[reads.IncidentsPage](t)(w.ListIncidents(t.Context(), p, reads.IncidentsQuery{}))
		for _, i := range page.Incidents {
			ids = append(ids, i.ID)
		}
		return ids
	}
	other := w.GrantTo("two-viewer", authz.Grant{Role: authz.Admin, ProjectID: "other", EnvironmentID: "*"})
	for name, c := range map[string]struct {
		p    authz.Principal
		want []string
	}{
		"an SRE": {w.Principal("dev-sre"), []string{ofAll, ofRun}}, "an Admin": {w.Principal("dev-admin"), []string{ofRun}},
		"an Admin of another project": {other, nil}, "another tenant": {w.ForeignPrincipal(), nil},
	} {
		if got := list(c.p); !slices.Equal(got, c.want) {
			t.Errorf("%s sees the incidents %v, want %v", name, got, c.want)
		}
	}
	for _, p := range []authz.Principal{other, w.ForeignPrincipal()} {
		for _, x := range []string{ofRun, ofAll, "unknown"} {
			controltest.Refusal(t, controltest.ErrorOf(w.GetIncident(t.Context(), p, x)), run.CodeNotFound)
			controltest.Refusal(t, controltest.ErrorOf(w.IncidentAlerts(t.Context(), p, x)), run.CodeNotFound)
			controltest.Refusal(t, controltest.ErrorOf(w.ActOnIncident(t.Context(), p, reads.ActOnIncident{ID: x,
				RequestID: "a", Note: "n", Act: store.IncidentClose})), run.CodeNotFound)
		}
	}
}

func TestActOnIncident_IsAuditedAndEndsWithTheIncident(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.openIncident(store.Alert{TenantID: "acme", ProjectID: "shop", RunID: w.CreateQueued("r1", "s1"),
		Code: run.CodeStepStuck})
	act := func(p authz.Principal, act reads.IncidentAct, note string) error {
		return controltest.ErrorOf(w.ActOnIncident(t.Context(), p, reads.ActOnIncident{ID: id, RequestID: "q-" + note,
			Note: note, Act: act}))
	}
	controltest.Refusal(t, act(w.Principal("dev-viewer"), store.IncidentAcknowledge, "me"), run.CodeForbidden)
	if n := w.CountAuditRows("action = 'ACKNOWLEDGE_INCIDENT' AND outcome = 'DENIED'"); n != 1 {
		t.Errorf("%d audit rows name what was refused, want 1", n)
	}
	controltest.Refusal(t, act(w.Engineer(), store.IncidentClose, ""), run.CodeBadInput)
	set := func(p authz.Principal, severity reads.Severity) error {
		return controltest.ErrorOf(w.ActOnIncident(t.Context(), p, reads.ActOnIncident{ID: id, RequestID: "q", Note: "worse",
			Act: store.IncidentSetSeverity, Severity: severity}))
	}
	controltest.Refusal(t, set(w.Principal("dev-viewer"), store.Sev1), run.CodeForbidden)
	controltest.Refusal(t, set(w.Engineer(), store.Sev2), run.CodeBadInput)
	if err := set(w.Engineer(), store.Sev1); err != nil {
		t.Fatalf("to raise the severity: %v", err)
	}
	if n := w.CountAuditRows("action = 'SEVERITY_INCIDENT' AND detail LIKE '%SEV_1%SEV_2%'"); n != 1 {
		t.Errorf("the raised severity left %d audit rows with both severities, want one", n)
	}
	for _, a := range []reads.IncidentAct{store.IncidentAcknowledge, store.IncidentAddNote, store.IncidentClose} {
		if err := act(w.Engineer(), a, "note"); err != nil {
			t.Fatalf("%s: %v", a, err)
		}
		of := "action = '" + string(a) + "_INCIDENT' AND outcome = 'ACCEPTED' AND reason = 'note'"
		if n := w.CountAuditRows(of); n != 1 {
			t.Errorf("%s left %d audit rows, want one", a, n)
		}
	}
	controltest.Refusal(t, act(w.Engineer(), store.IncidentAddNote, "late"), run.CodeIncidentClosed)
	controltest.Refusal(t, set(w.Engineer(), store.Sev1), run.CodeIncidentClosed)
	i := controltest.Must[reads.Incident](t)(w.GetIncident(t.Context(), w.Engineer(), id))
	if i.ClosedBy != w.Engineer().ID || len(i.Notes) != 4 || i.Severity != store.Sev1 {
		t.Errorf("the incident is %+v, want it closed with four notes and the raised severity", i)
	}
}

func TestRunbook_IsAPageForEverySeverityAndNamesItsCode(t *testing.T) {
	t.Parallel()
	page := func(i reads.Incident) string {
		t.Helper()
		text, err := os.ReadFile("../../docs/runbooks/" + reads.Runbook(i) + ".md")
		if err != nil {
			t.Errorf("the runbook of %s, %s: %v", i.Severity, i.Code, err)
		}
		return string(text)
	}
	for _, s := range []reads.Severity{store.Sev0, store.Sev1, store.Sev2, store.Sev3} {
		page(reads.Incident{Severity: s})
	}
	for _, code := range []run.Code{run.CodeStoreRegressed, run.CodeCausalViolation, run.CodeAuditUnlinked,
		run.CodeAuditHeads, run.CodeStepStuck, run.CodeEngineLost, run.CodeRecoveryFailed, run.CodePauseDrain,
		run.CodeNoWorker, run.CodeDeliveryFailed} {
		if !strings.Contains(page(reads.Incident{Severity: store.Sev2, Code: code}), string(code)) {
			t.Errorf("the runbook of %s does not name it", code)
		}
	}
}
