package reads_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control/controltest"
	"github.com/dvt-engine/dvt/control/reads"
	"github.com/dvt-engine/dvt/control/watch"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// raise raises an alert and returns its id.
func (w *world) raise(a store.Alert) string {
	w.T.Helper()
	a.Level, a.Actor = store.AlertHigh, "dvt"
	return controltest.Must[store.AlertRaised](w.T)(w.Raw.RaiseAlert(w.T.Context(), a)).State.ID
}

func (w *world) alertCodes(p authz.Principal) (codes []run.Code) {
	w.T.Helper()
	for _, a := range controltest.Must[reads.AlertsPage](w.T)(w.ListAlerts(w.T.Context(), p, reads.AlertsQuery{})).Alerts {
		codes = append(codes, a.Code)
	}
	return codes
}

func TestAlerts_AreForThoseWhoMayReadTheirScope(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.CreateQueued("r1", "s1")
	ofRun := w.raise(store.Alert{TenantID: "acme", ProjectID: "shop", RunID: id, Code: run.CodeTimeout})
	w.raise(store.Alert{TenantID: "acme", Code: run.CodeAuditUnlinked})
	ofAll := w.raise(store.Alert{Code: run.CodeProjectorAbsent})
	admin, sre := w.Principal("dev-admin"), w.Principal("dev-sre")
	shop := w.GrantTo("shop-viewer", authz.Grant{Role: authz.Viewer, ProjectID: "shop", EnvironmentID: "*"})
	other := w.GrantTo("two-viewer", authz.Grant{Role: authz.Admin, ProjectID: "other", EnvironmentID: "*"})
	for _, c := range []struct {
		name string
		p    authz.Principal
		want []run.Code
	}{
		{"an SRE of the whole tenant", sre, []run.Code{run.CodeProjectorAbsent, run.CodeAuditUnlinked, run.CodeTimeout}},
		{"an Admin, who may not see the installation", admin, []run.Code{run.CodeAuditUnlinked, run.CodeTimeout}},
		{"a Viewer of the project", shop, []run.Code{run.CodeTimeout}},
		{"an Admin of another project", other, nil},
	} {
		if diff := cmp.Diff(c.want, w.alertCodes(c.p)); diff != "" {
			t.Errorf("alerts of %s (-want +got):\n%s", c.name, diff)
		}
	}
	for _, c := range []struct {
		name, id string
		p        authz.Principal
	}{
		{"another tenant's alert", ofRun, w.ForeignPrincipal()}, {"an alert of another project", ofRun, other},
		{"an alert about the installation", ofAll, admin}, {"an unknown alert", "no-uuid", admin},
	} {
		_, err := w.GetAlert(t.Context(), c.p, c.id)
		controltest.Refusal(t, err, run.CodeNotFound)
		_, err = w.AcknowledgeAlert(t.Context(), c.p, reads.AcknowledgeAlert{ID: c.id, RequestID: "a"})
		if controltest.Refusal(t, err, run.CodeNotFound); t.Failed() {
			t.Fatalf("for %s", c.name)
		}
		_, err = w.ListAlerts(t.Context(), c.p, reads.AlertsQuery{After: c.id})
		controltest.Refusal(t, err, run.CodeCursorInvalid)
	}
}

func TestAcknowledgeAlert_IsAuditedAndEndsTheCount(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.CreateQueued("r1", "s1")
	alert := w.raise(store.Alert{TenantID: "acme", ProjectID: "shop", RunID: id, Code: run.CodeTimeout})
	operator, viewer := w.Principal("dev-operator"), w.Principal("dev-viewer")
	count := func() int { return controltest.Must[int](t)(w.CountOpenAlerts(t.Context(), viewer)) }
	stream := controltest.OpenStream[watch.AlertsFrame](t)(w.WatchAlerts(t.Context(), viewer))
	controltest.TakeFrame(t, stream, "one open alert", func(f watch.AlertsFrame) bool { return f.Known && f.Count == 1 })
	_, err := w.AcknowledgeAlert(t.Context(), viewer, reads.AcknowledgeAlert{ID: alert, RequestID: "a"})
	controltest.Refusal(t, err, run.CodeForbidden)
	in := reads.AcknowledgeAlert{ID: alert, RequestID: "a", Note: "on it"}
	got := controltest.Must[reads.AcknowledgedAlert](t)(w.AcknowledgeAlert(t.Context(), operator, in))
	if got.Alert.AcknowledgedBy != operator.ID || got.Change.RequestID != "a" ||
		got.Alert.Stage() != store.AlertAcknowledged {
		t.Errorf("the acknowledgement is %+v, want one by %s", got, operator.ID)
	}
	again := controltest.Must[reads.AcknowledgedAlert](t)(w.AcknowledgeAlert(t.Context(), operator, in))
	if again.Change.Action != "" {
		t.Errorf("the repeated acknowledgement has the receipt %+v, want none", again.Change)
	}
	if n := w.CountAuditRows(`action = 'ACKNOWLEDGE_ALERT' AND outcome = 'ACCEPTED'`); n != 1 {
		t.Errorf("%d audit rows, want 1", n)
	}
	controltest.TakeFrame(t, stream, "no open alert", func(f watch.AlertsFrame) bool { return f.Known && f.Count == 0 })
	if n := count(); n != 0 {
		t.Errorf("%d alerts ask for somebody, want 0", n)
	}
	controltest.Must[[]store.AlertState](t)(w.Raw.ResolveAlerts(t.Context(), []string{got.Alert.Fingerprint()}, "over"))
	in.Note = "too late"
	_, err = w.AcknowledgeAlert(t.Context(), operator, in)
	controltest.Refusal(t, err, run.CodeAlertResolved)
}

func TestSilenceAlerts_CoversItsScopeUntilItEnds(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.CreateQueued("r1", "s1")
	w.raise(store.Alert{TenantID: "acme", ProjectID: "shop", RunID: id, Code: run.CodeTimeout})
	operator, viewer := w.Principal("dev-operator"), w.Principal("dev-viewer")
	count := func() int { return controltest.Must[int](t)(w.CountOpenAlerts(t.Context(), viewer)) }
	in := reads.SilenceAlerts{RequestID: "s", Code: run.CodeTimeout, Until: w.Clock.Now().Add(time.Hour), Reason: "known"}
	_, err := w.SilenceAlerts(t.Context(), viewer, in)
	controltest.Refusal(t, err, run.CodeForbidden)
	if !strings.Contains(err.Error(), "to take on or silence an alert") {
		t.Errorf("the refusal does not name the action: %v", err)
	}
	for _, change := range []func(*reads.SilenceAlerts){
		func(s *reads.SilenceAlerts) { s.Code = "" }, func(s *reads.SilenceAlerts) { s.Code = "NO_SUCH" },
		func(s *reads.SilenceAlerts) { s.Code = run.CodeWorkerAbsent },
		func(s *reads.SilenceAlerts) { s.Code = "ESCALATE_ALERT" },
		func(s *reads.SilenceAlerts) { s.Reason = "" }, func(s *reads.SilenceAlerts) { s.Until = w.Clock.Now() },
		func(s *reads.SilenceAlerts) { s.Until = w.Clock.Now().Add(31 * 24 * time.Hour) },
	} {
		bad := in
		change(&bad)
		_, err := w.SilenceAlerts(t.Context(), operator, bad)
		controltest.Refusal(t, err, run.CodeBadInput)
	}
	_, err = w.SilenceAlerts(t.Context(), w.ForeignPrincipal(), reads.SilenceAlerts{RequestID: "s", RunID: id})
	controltest.Refusal(t, err, run.CodeNotFound)
	made := controltest.Must[reads.SilencedAlerts](t)(w.SilenceAlerts(t.Context(), operator, in))
	controltest.Must[reads.SilencedAlerts](t)(w.SilenceAlerts(t.Context(), operator, in)) // safe to repeat
	if n := count(); n != 0 {
		t.Errorf("%d alerts ask for somebody while silenced, want 0", n)
	}
	if got := controltest.Must[[]reads.AlertSilence](t)(w.Silences(t.Context(), viewer)); len(got) != 1 {
		t.Errorf("the silences are %+v, want one", got)
	}
	if got := controltest.Must[[]reads.AlertSilence](t)(w.Silences(t.Context(), w.ForeignPrincipal())); len(got) != 0 {
		t.Errorf("another tenant has the silences %+v, want none", got)
	}
	_, err = w.EndSilence(t.Context(), w.ForeignPrincipal(), made.Silence.ID, "e")
	controltest.Refusal(t, err, run.CodeNotFound)
	_, err = w.EndSilence(t.Context(), viewer, made.Silence.ID, "e")
	controltest.Refusal(t, err, run.CodeForbidden)
	if _, err := w.EndSilence(t.Context(), operator, made.Silence.ID, "e"); err != nil {
		t.Fatal(err)
	}
	if n := count(); n != 1 {
		t.Errorf("%d alerts ask for somebody after the silence, want 1", n)
	}
	if n := w.CountAuditRows(`action IN ('SILENCE_ALERTS', 'END_SILENCE') AND outcome = 'ACCEPTED'`); n != 2 {
		t.Errorf("%d audit rows, want 2", n)
	}
}
