package control_test

import (
	"testing"
	"time"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/control/access"
	"github.com/dvt-engine/dvt/control/admission"
	"github.com/dvt-engine/dvt/control/controltest"
	"github.com/dvt-engine/dvt/control/reads"
	"github.com/dvt-engine/dvt/control/runs"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/server/usecases"
	"github.com/dvt-engine/dvt/store"
)

// recorded returns the accepted audit rows that the receipt leads to.
func (w *world) recorded(of control.Change) []store.AuditLink {
	w.T.Helper()
	for {
		n := controltest.Must[int](w.T)(w.Raw.LinkAudit(w.T.Context(), store.MaxPage))
		if n == 0 {
			break
		}
	}
	q := control.AuditQuery{Action: of.Action}
	q.Filter.RequestID, q.Filter.Outcome = of.RequestID, "ACCEPTED"
	return controltest.Must[control.AuditPage](w.T)(w.Audit(w.T.Context(), w.Principal("dev-admin"), q)).Links
}

// A receipt says who did what, when and to which version, and leads to exactly one record, also when the request is
// repeated.
func TestChange_LeadsToItsRecordInTheAudit(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *usecases.Config) { c.OperatorsTenant = "acme" })
	ctx, admin, sre := t.Context(), w.Principal("dev-admin"), w.Principal("dev-sre")
	id := w.CreateQueued("r", "s1")
	freeze := admission.FreezeTenant{RequestID: "f1", Frozen: true, Reason: "leak"}
	mode := admission.SetEngineMode{RequestID: "m1", Mode: admission.ModeDrained, Reason: "maintenance"}
	for name, c := range map[string]struct {
		change  func() control.Change
		actor   string
		version int64
	}{
		"freeze": {func() control.Change {
			return controltest.Must[admission.ModeChange](t)(w.FreezeTenant(ctx, admin, freeze)).Change
		}, "dev-admin", 1},
		"mode": {func() control.Change {
			return controltest.Must[admission.ModeChange](t)(w.SetEngineMode(ctx, sre, mode)).Change
		}, "dev-sre", 1},
		"tags": {func() control.Change {
			return controltest.Must[runs.TaggedRun](t)(w.TagRun(ctx, admin, runs.TagRun{RunID: id, RequestID: "t1",
				Tags: []string{"late"}})).Change
		}, "dev-admin", 0},
	} {
		got := c.change()
		if got.Actor != c.actor || got.Version != c.version || time.Since(got.At).Abs() > time.Hour {
			t.Errorf("%s: the receipt is %+v, want version %d by %s, now", name, got, c.version, c.actor)
		}
		if name != "tags" { // a repetition changes no tags
			if again := c.change(); again.RequestID != got.RequestID || !again.At.Equal(got.At) || again.Version != got.Version {
				t.Errorf("%s: a repeated request has the receipt %+v, want %+v", name, again, got)
			}
		}
		links := w.recorded(got)
		if len(links) != 1 || links[0].Row.Actor != c.actor {
			t.Errorf("%s: the receipt leads to %d records, want one by %s", name, len(links), c.actor)
		}
	}
	if again := controltest.Must[runs.TaggedRun](t)(w.TagRun(ctx, admin, runs.TagRun{RunID: id, RequestID: "t2",
		Tags: []string{"late"}})); again.Change != (control.Change{}) {
		t.Errorf("tags that did not change have the receipt %+v, want none", again.Change)
	}
	controltest.Must[store.SavedView](t)(w.SaveView(ctx, admin, reads.SaveView{ID: "v1", ProjectID: "shop", Name: "Late"}))
	gone := controltest.Must[control.Change](t)(w.DeleteView(ctx, admin, "v1"))
	if links := w.recorded(gone); len(links) != 1 || gone.Actor != "dev-admin" {
		t.Errorf("the removed view has the receipt %+v with %d records, want one", gone, len(links))
	}
}

func TestChange_OfTokensPolicyAndBreakGlass(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx, admin := t.Context(), w.Principal("dev-admin")
	w.ChangePolicy(func(d *authz.Document) {
		d.BreakGlass = []authz.BreakGlass{{Principal: "dev-operator", Role: authz.Admin, MaxMinutes: 30}}
	})
	operator := w.Principal("dev-operator")
	granted := controltest.Must[access.BreakGlassGrant](t)(w.BreakGlass(ctx, operator, access.BreakGlass{RequestID: "b1",
		Role: authz.Admin, Minutes: 5, Reason: "night"}))
	if granted.At.IsZero() || granted.PolicyVersion != 2 {
		t.Errorf("the grant is %+v, want version 2 and its time", granted)
	}
	ended := controltest.Must[access.Policy](t)(w.EndBreakGlass(ctx, operator, "e1"))
	if ended.RequestID != "e1" || ended.Version != 3 {
		t.Errorf("the policy after break-glass is %+v, want version 3 by e1", ended)
	}
	if again := controltest.Must[access.Policy](t)(w.EndBreakGlass(ctx, w.Engineer(), "e2")); again.RequestID == "e2" {
		t.Errorf("ending nothing returns %+v, which looks like a change", again)
	}
	made := controltest.Must[access.CreatedToken](t)(w.CreateToken(ctx, admin, access.CreateToken{RequestID: "c1",
		Name: "ci", Grants: admin.Grants[:1]}))
	revoke := access.RevokeToken{RequestID: "x1", ID: made.Token.ID, Reason: "lost"}
	gone := controltest.Must[access.RevokedToken](t)(w.RevokeToken(ctx, admin, revoke))
	if !gone.First || gone.RevokedBy != admin.ID {
		t.Errorf("the first revocation is %+v", gone)
	}
	revoke.RequestID = "x2"
	if gone := controltest.Must[access.RevokedToken](t)(w.RevokeToken(ctx, admin, revoke)); gone.First {
		t.Error("the second revocation says that it changed something")
	}
	for _, c := range []control.Change{
		{Action: string(control.ActionBreakGlass), RequestID: "b1"}, {Action: string(control.ActionEndBreakGlass),
			RequestID: "e1"}, {Action: string(authz.CreateToken), RequestID: "c1"},
		{Action: control.ActionRevokeToken, RequestID: "x1"},
	} {
		if links := w.recorded(c); len(links) != 1 {
			t.Errorf("%s %s has %d records, want one", c.Action, c.RequestID, len(links))
		}
	}
	q := control.AuditQuery{}
	q.Filter.RequestID = string(make([]byte, control.MaxAuditText+1))
	_, err := w.Audit(ctx, admin, q)
	controltest.Refusal(t, err, run.CodeBadInput)
}
