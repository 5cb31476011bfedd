package erasing_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

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
