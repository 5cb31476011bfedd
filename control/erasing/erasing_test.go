package erasing_test

import (
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/control/controltest"
	"github.com/dvt-engine/dvt/control/erasing"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/server/usecases"
	"github.com/dvt-engine/dvt/store"
)

// codeOf returns the code of an error of a use case; "" for none.
func codeOf[T any](_ T, err error) run.Code {
	var own *control.Error
	if errors.As(err, &own) {
		return own.Code
	}
	if err != nil {
		return run.Code(err.Error())
	}
	return ""
}

func newWorld(t *testing.T) *controltest.World {
	t.Helper()
	return controltest.New(t, func(c *usecases.Config) { c.OperatorsTenant = "acme" })
}

var purge = erasing.Request{RequestID: "q1", TenantID: "acme", Reason: "the contract has ended"}

// contract: T165, T208
func TestErasure_OnePersonAsksAndAnotherConfirms(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx, admin, sre := t.Context(), w.Principal("dev-admin"), w.Principal("dev-sre")
	asked := controltest.Must[erasing.Decided](t)(w.RequestErasure(ctx, admin, purge))
	if e := asked.Erasure; e.Kind != store.EraseTenant || e.ConfirmedAt != nil ||
		asked.Change.Action != erasing.ActionRequest ||
		e.ExpiresAt.Sub(e.RequestedAt).Round(time.Hour) != erasing.RequestLife {
		t.Errorf("request %+v, want one of the tenant that waits seven days", asked)
	}
	again := controltest.Must[erasing.Decided](t)(w.RequestErasure(ctx, admin, purge))
	if again.Erasure.ID != asked.Erasure.ID {
		t.Error("a repeated request makes another erasure")
	}
	other := purge
	other.Subject = "bo"
	if code := codeOf(w.RequestErasure(ctx, admin, other)); code != run.CodeRequestConflict {
		t.Errorf("the requestId for another erasure gives %s, want REQUEST_ID_CONFLICT", code)
	}
	confirm := erasing.Decision{RequestID: "q2", ID: asked.Erasure.ID, Confirm: true, Reason: "asked by letter"}
	if code := codeOf(w.DecideErasure(ctx, admin, confirm)); code != run.CodeForbidden {
		t.Errorf("a confirmation by the person who asked gives %s, want FORBIDDEN", code)
	}
	confirmed := controltest.Must[erasing.Decided](t)(w.DecideErasure(ctx, sre, confirm))
	if e := confirmed.Erasure; e.ConfirmedBy != sre.ID || e.ConfirmedAt == nil {
		t.Errorf("confirmed %+v, want by dev-sre", e)
	}
	if code := codeOf(w.DecideErasure(ctx, sre, confirm)); code != "" {
		t.Errorf("a repeated confirmation gives %s", code)
	}
	page := controltest.Must[erasing.Page](t)(w.Erasures(ctx, sre, 10, ""))
	if len(page.Erasures) != 1 || page.HasNext {
		t.Errorf("%d erasures are listed, want 1", len(page.Erasures))
	}
	_ = controltest.Must[int](t)(w.Raw.LinkAudit(ctx, 100))
	links := controltest.Must[[]store.AuditLink](t)(w.Raw.AuditLinks(ctx, store.AuditFilter{TenantID: "acme", Limit: 100}))
	var actions []string
	for _, l := range links {
		if strings.HasSuffix(l.Row.Action, "_ERASURE") {
			actions = append(actions, l.Row.Action+" "+l.Row.Outcome)
		}
	}
	want := []string{"REQUEST_ERASURE ACCEPTED", "CONFIRM_ERASURE REJECTED", "CONFIRM_ERASURE ACCEPTED"}
	if !slices.Equal(actions, want) {
		t.Errorf("the audit has %q, want %q", actions, want)
	}
}

// One Admin makes services and gives them rights, so two of them are no two people.
// contract: T165
func TestErasure_AServiceIsNoSecondPerson(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx, admin := t.Context(), w.Principal("dev-admin")
	service := admin
	service.ID = authz.ServiceID("ci")
	service.Grants = []authz.Grant{{Role: authz.Admin, ProjectID: "*", EnvironmentID: "*"}}
	if code := codeOf(w.RequestErasure(ctx, service, purge)); code != run.CodeForbidden {
		t.Errorf("a request by a service gives %s, want FORBIDDEN", code)
	}
	asked := controltest.Must[erasing.Decided](t)(w.RequestErasure(ctx, admin, purge)).Erasure
	decide := erasing.Decision{RequestID: "q2", ID: asked.ID, Confirm: true, Reason: "mine"}
	if _, err := w.DecideErasure(ctx, service, decide); err == nil || !strings.Contains(err.Error(), "a service is none") {
		t.Errorf("a confirmation by a service gives %v, want that it is no person", err)
	}
}

// contract: T228
func TestErasure_StrangersAndWeakRolesLearnNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := t.Context()
	asked := controltest.Must[erasing.Decided](t)(w.RequestErasure(ctx, w.Principal("dev-admin"), purge)).Erasure
	decide := erasing.Decision{RequestID: "q2", ID: asked.ID, Confirm: true, Reason: "mine"}
	for who, want := range map[string]run.Code{"dev-mallory": run.CodeNotFound, "dev-operator": run.CodeForbidden,
		"dev-viewer": run.CodeForbidden} {
		if code := codeOf(w.DecideErasure(ctx, w.Principal(who), decide)); code != want {
			t.Errorf("a confirmation by %s gives %s, want %s", who, code, want)
		}
	}
	for _, who := range []string{"dev-operator", "dev-viewer", "dev-sre"} {
		if code := codeOf(w.RequestErasure(ctx, w.Principal(who), purge)); code != run.CodeForbidden {
			t.Errorf("a request by %s gives %s, want FORBIDDEN", who, code)
		}
	}
	mallory := w.Principal("dev-mallory")
	if page := controltest.Must[erasing.Page](t)(w.Erasures(ctx, mallory, 10, "")); len(page.Erasures) != 0 {
		t.Errorf("a stranger sees %d erasures", len(page.Erasures))
	}
	if code := codeOf(w.RequestErasure(ctx, mallory, purge)); code != run.CodeBadInput {
		t.Errorf("a stranger who asks to erase another tenant gets %s, want BAD_USER_INPUT", code)
	}
	unknown := decide
	unknown.ID = "no such erasure"
	same := codeOf(w.DecideErasure(ctx, w.Principal("dev-sre"), unknown))
	if same != run.CodeNotFound {
		t.Errorf("an unknown erasure gives %s, want NOT_FOUND as for that of another tenant", same)
	}
}

func TestErasure_ACancelledOneCannotBeConfirmed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx, admin, sre := t.Context(), w.Principal("dev-admin"), w.Principal("dev-sre")
	person := erasing.Request{RequestID: "q1", Subject: "dev-operator", Reason: "asked by letter"}
	asked := controltest.Must[erasing.Decided](t)(w.RequestErasure(ctx, admin, person)).Erasure
	if asked.Kind != store.EraseSubject || asked.Subject != "dev-operator" {
		t.Errorf("request %+v, want one of a person", asked)
	}
	cancelled := controltest.Must[erasing.Decided](t)(w.DecideErasure(ctx, admin, erasing.Decision{RequestID: "q2",
		ID: asked.ID, Reason: "a mistake"})).Erasure
	if cancelled.CancelledBy != admin.ID {
		t.Errorf("cancelled by %q, want the person who asked", cancelled.CancelledBy)
	}
	code := codeOf(w.DecideErasure(ctx, sre, erasing.Decision{RequestID: "q3", ID: asked.ID, Confirm: true,
		Reason: "go on"}))
	if code != run.CodeInvalidTransition {
		t.Errorf("a confirmation after it was cancelled gives %s, want INVALID_TRANSITION", code)
	}
	for _, in := range []erasing.Request{{RequestID: "q4", Reason: "r"},
		{RequestID: "q5", TenantID: "globex", Reason: "r"},
		{RequestID: "q6", TenantID: "acme"}, {RequestID: "", Subject: "a", Reason: "r"},
		{RequestID: "q7", Subject: strings.Repeat("a", 300), Reason: "r"}, {RequestID: "q8", Subject: "a\x00", Reason: "r"}} {
		if code := codeOf(w.RequestErasure(ctx, admin, in)); code != run.CodeBadInput {
			t.Errorf("the request %+v gives %s, want BAD_USER_INPUT", in, code)
		}
	}
}

// contract: T165
func TestPreviewErasure_CountsWithoutAsking(t *testing.T) {
	t.Parallel()
	w := controltest.New(t, func(c *usecases.Config) {
		c.Erasing.Missing = []string{"erasure-ledger"}
	})
	ctx, admin := t.Context(), w.Principal("dev-admin")
	before := controltest.Must[erasing.Preview](t)(w.PreviewErasure(ctx, w.Principal("dev-mallory"), ""))
	runID := w.StartOneStep("start").View.Run.RunID
	tenant := controltest.Must[erasing.Preview](t)(w.PreviewErasure(ctx, w.Principal("dev-sre"), ""))
	places := map[string]int64{}
	for _, p := range tenant.Erased {
		places[p.Name] = p.Count
	}
	if tenant.Kind != store.EraseTenant || places["table run"] != 1 || places["table event"] == 0 ||
		places["table audit"] == 0 ||
		len(tenant.Remaining) != 0 || !slices.Equal(tenant.Missing, []string{"erasure-ledger"}) {
		t.Errorf("preview of the tenant %+v after %s started", tenant, runID)
	}
	person := controltest.Must[erasing.Preview](t)(w.PreviewErasure(ctx, admin, "dev-engineer"))
	if person.Kind != store.EraseSubject ||
		!slices.Contains(person.Remaining, erasing.Place{Name: "table run", Count: 1}) {
		t.Errorf("preview of the person who started a run %+v, want it as remaining", person)
	}
	hold := store.Hold{ID: "h", TenantID: "acme", Kind: store.HoldSubject, Subject: "dev-engineer", Reason: "case 12",
		PlacedBy: "ana"}
	if _, _, err := w.Raw.PlaceHold(ctx, hold, store.AuditRow{ID: "00000000-0000-4000-8000-000000000001",
		TenantID: "acme", Actor: "ana"}); err != nil {
		t.Fatal(err)
	}
	for who, want := range map[string]int64{"dev-engineer": 1, "dev-operator": 0, "": 1} {
		if got := controltest.Must[erasing.Preview](t)(w.PreviewErasure(ctx, admin, who)); got.Holds != want {
			t.Errorf("%d holds forbid the erasure of %q, want %d", got.Holds, who, want)
		}
	}
	stranger := controltest.Must[erasing.Preview](t)(w.PreviewErasure(ctx, w.Principal("dev-mallory"), ""))
	if len(stranger.Erased) > len(before.Erased) || stranger.Holds != 0 {
		t.Errorf("a stranger sees %+v of another tenant", stranger)
	}
	for _, who := range []string{"dev-operator", "dev-viewer"} {
		if code := codeOf(w.PreviewErasure(ctx, w.Principal(who), "")); code != run.CodeForbidden {
			t.Errorf("a preview by %s gives %s, want FORBIDDEN", who, code)
		}
	}
	if code := codeOf(w.PreviewErasure(ctx, admin, strings.Repeat("a", 300))); code != run.CodeBadInput {
		t.Errorf("a preview of a long name gives %s, want BAD_USER_INPUT", code)
	}
}

// openAlerts returns the open alerts about erasures as level and note.
func openAlerts(w *controltest.World) (out []string) {
	w.T.Helper()
	for _, a := range controltest.Must[[]store.AlertState](w.T)(w.Raw.ListOpenAlerts(w.T.Context(),
		[]run.Code{run.CodeErasureDelayed}, store.MaxPage)) {
		out = append(out, string(a.Level)+" "+a.Note)
	}
	return out
}

func TestErasureWatcher_TellsPeopleAboutARequestThatStandsStill(t *testing.T) {
	t.Parallel()
	metrics := prometheus.NewRegistry()
	w := controltest.New(t)
	watcher := erasing.NewErasureWatcher(w.Raw, w.Alerts, metrics, w.Clock.Now, slog.New(slog.DiscardHandler))
	ctx, admin, sre := t.Context(), w.Principal("dev-admin"), w.Principal("dev-sre")
	check := func(wait erasing.Wait, phase string, alerts ...string) {
		t.Helper()
		if err := watcher.LookAtErasures(ctx); err != nil {
			t.Fatal(err)
		}
		got := openAlerts(w)
		if len(got) != len(alerts) || len(alerts) == 1 && !strings.Contains(got[0], alerts[0]) ||
			len(alerts) == 1 && strings.Contains(got[0], "dev-operator") {
			t.Errorf("the open alerts are %q, want %q without a name", got, alerts)
		}
		if list := controltest.Must[erasing.Page](t)(w.Erasures(ctx, sre, 1, "")).Erasures; list[0].Waits != wait {
			t.Errorf("it waits for %q, want %q", list[0].Waits, wait)
		}
		families := controltest.Must[[]*dto.MetricFamily](t)(metrics.Gather())
		found := ""
		for _, f := range families {
			if f.GetName() == "dvt_erasures_open" {
				found = f.GetMetric()[0].GetLabel()[0].GetValue()
			}
		}
		if found != phase {
			t.Errorf("dvt_erasures_open has the phase %q, want %q", found, phase)
		}
	}
	person := erasing.Request{RequestID: "q1", Subject: "dev-operator", Reason: "asked by letter"}
	asked := controltest.Must[erasing.Decided](t)(w.RequestErasure(ctx, admin, person)).Erasure
	if got := asked.DueAt.Sub(asked.RequestedAt); got != erasing.Deadline {
		t.Errorf("it is due after %s", got)
	}
	check(erasing.WaitPerson, "ASKED")
	w.Clock.Advance(erasing.LateAfter)
	check(erasing.WaitPerson, "ASKED", "Another person has to confirm it")
	_, _, err := w.Raw.PlaceHold(ctx, store.Hold{ID: "h", TenantID: "acme", Kind: store.HoldSubject,
		Subject: "dev-operator", Reason: "case 12", PlacedBy: "ana"}, store.AuditRow{
		ID: "00000000-0000-4000-8000-000000000001", TenantID: "acme", Actor: "ana"})
	if err != nil {
		t.Fatal(err)
	}
	_ = controltest.Must[erasing.Decided](t)(w.DecideErasure(ctx, sre, erasing.Decision{RequestID: "q2", ID: asked.ID,
		Confirm: true, Reason: "go"}))
	w.Clock.Advance(2 * time.Minute)
	check(erasing.WaitHold, "HELD", "MEDIUM An erasure was asked for 3 days ago")
	w.Clock.Advance(erasing.UrgentAfter)
	check(erasing.WaitHold, "HELD", "HIGH An erasure was asked for 23 days ago")
	if _, _, err := w.Raw.LiftHold(ctx, "acme", "h", "ana", "closed", store.AuditRow{
		ID: "00000000-0000-4000-8000-000000000002", TenantID: "acme", Actor: "ana"}); err != nil {
		t.Fatal(err)
	}
	w.Clock.Advance(2 * time.Minute)
	check(erasing.WaitOwner, "CONFIRMED", "dvt store erase "+asked.ID)
	_ = controltest.Must[erasing.Decided](t)(w.DecideErasure(ctx, admin, erasing.Decision{RequestID: "q3", ID: asked.ID,
		Reason: "withdrawn"}))
	check(erasing.WaitNothing, "")
	second := person
	second.RequestID = "q4"
	_ = controltest.Must[erasing.Decided](t)(w.RequestErasure(ctx, admin, second))
	w.Clock.Advance(erasing.RequestLife + time.Minute)
	check(erasing.WaitRepeat, "EXPIRED", "Nobody confirmed it in time")
}

// contract: T165
func TestRequestErasure_IsRefusedWhileAnotherOneIsOpen(t *testing.T) {
	t.Parallel()
	w := controltest.New(t)
	w.Clock.Hold()
	ctx, admin := t.Context(), w.Principal("dev-admin")
	ask := func(id, subject string) (erasing.Decided, error) {
		return w.RequestErasure(ctx, admin, erasing.Request{RequestID: id, TenantID: "acme", Subject: subject,
			Reason: "the law"})
	}
	first := controltest.Must[erasing.Decided](t)(ask("q1", "ana"))
	if again := controltest.Must[erasing.Decided](t)(ask("q1", "ana")); again.Erasure.ID != first.Erasure.ID {
		t.Errorf("a repetition made the request %s, want %s", again.Erasure.ID, first.Erasure.ID)
	}
	if code := codeOf(ask("q2", "ana")); code != run.CodeErasureOpen {
		t.Errorf("a second request for the same person: %q, want %q", code, run.CodeErasureOpen)
	}
	controltest.Must[erasing.Decided](t)(ask("q3", "bob"))
	controltest.Must[erasing.Decided](t)(ask("q4", ""))
	if code := codeOf(ask("q5", "")); code != run.CodeErasureOpen {
		t.Errorf("a second request for the tenant: %q, want %q", code, run.CodeErasureOpen)
	}
	controltest.Must[erasing.Decided](t)(w.DecideErasure(ctx, admin, erasing.Decision{RequestID: "d1",
		ID: first.Erasure.ID, Reason: "withdrawn"}))
	controltest.Must[erasing.Decided](t)(ask("q6", "ana"))
	w.Clock.Advance(erasing.RequestLife + time.Minute)
	controltest.Must[erasing.Decided](t)(ask("q7", "bob")) // the first one expired without a confirmation
	if !w.HasAuditRow("acme", "dev-admin REQUEST_ERASURE REJECTED") {
		t.Error("the audit has no row of the refused requests")
	}
}

func TestRequestErasure_IsRefusedWithoutALedger(t *testing.T) {
	t.Parallel()
	w := controltest.New(t, func(c *usecases.Config) { c.Erasing.Missing = []string{"erasure-ledger"} })
	_, err := w.RequestErasure(t.Context(), w.Principal("dev-admin"), erasing.Request{RequestID: "q", Subject: "ana",
		Reason: "the law"})
	e := controltest.Refusal(t, err, run.CodeErasureUnprepared)
	if !strings.Contains(e.Error(), "erasure-ledger") {
		t.Errorf("the refusal is %q, want one that names the setting", e.Error())
	}
}
