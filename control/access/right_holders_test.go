package access_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control/access"
	"github.com/dvt-engine/dvt/control/controltest"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/server/usecases"
)

// holders returns the names for one action, and whether there may be others.
func (w *world) holders(p authz.Principal, action authz.Action) access.RightHolders {
	w.T.Helper()
	list := controltest.Must[[]access.RightHolders](w.T)(w.RightHolders(w.T.Context(), p, []authz.Action{action}))
	return list[0]
}

func grantOf(principal string, role authz.Role, project, environment string) authz.PrincipalGrant {
	return authz.PrincipalGrant{Principal: principal, Role: role, ProjectID: project, EnvironmentID: environment}
}

func TestRightHolders_NamesThoseOfTheTenantAndOfTheCallersScopes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	// The viewer reads shop/dev only. dev-operator administers pay, dev-planner administers shop/prod, dev-engineer
	// administers shop/dev.
	w.ChangePolicy(func(d *authz.Document) {
		d.Grants = slices.DeleteFunc(d.Grants, func(g authz.PrincipalGrant) bool { return g.Principal != "dev-admin" })
		d.Grants = append(d.Grants,
			grantOf("dev-viewer", authz.Viewer, "shop", "dev"), grantOf("dev-operator", authz.Admin, "pay", "*"),
			grantOf("dev-planner", authz.Admin, "shop", "prod"), grantOf("dev-engineer", authz.Admin, "shop", "dev"))
	})
	viewer := w.Principal("dev-viewer")
	for action, want := range map[authz.Action][]string{
		authz.SetPolicy: {"dev-admin"}, // a right on shop/dev is not enough for it
		authz.Redrive:   {"dev-admin", "dev-engineer"},
	} {
		if diff := cmp.Diff(want, w.holders(viewer, action).Names); diff != "" {
			t.Errorf("%s: names for a viewer of shop/dev, without those of pay and shop/prod (-want +got):\n%s", action, diff)
		}
	}
	got := w.holders(w.Principal("dev-operator"), authz.Redrive).Names
	if diff := cmp.Diff([]string{"dev-admin", "dev-operator"}, got); diff != "" {
		t.Errorf("names for somebody of pay (-want +got):\n%s", diff)
	}
}

func TestRightHolders_NamesNobodyOfAnotherTenantOrToAStranger(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *usecases.Config) { c.OperatorsTenant = "acme" })
	for _, name := range w.holders(w.Principal("dev-mallory"), authz.SetPolicy).Names {
		if name != "dev-mallory" {
			t.Errorf("somebody of globex is told of %s", name)
		}
	}
	if got := w.holders(w.Principal("dev-mallory"), authz.SetEngineMode).Names; len(got) != 0 {
		t.Errorf("somebody outside the operators' tenant is told of %v", got)
	}
	if got := w.holders(w.Principal("dev-viewer"), authz.SetEngineMode).Names; !slices.Equal(got, []string{"dev-sre"}) {
		t.Errorf("in the operators' tenant %v may set the mode, want dev-sre", got)
	}
	w.ChangePolicy(controltest.WithoutGrants("dev-viewer"))
	if got := w.holders(w.Principal("dev-viewer"), authz.SetPolicy).Names; len(got) != 0 {
		t.Errorf("a principal without rights is told of %v", got)
	}
}

func TestRightHolders_NameTheRoleThatTheActionTakes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for action, want := range map[authz.Action]string{
		authz.Start:        "You need the Operator role to start a run.",
		authz.FreezeTenant: "You need the Admin or the SRE role to freeze the tenant.",
	} {
		got := w.holders(w.Principal("dev-planner"), action)
		if got.Needs != want {
			t.Errorf("%s: a planner reads %q, want %q", action, got.Needs, want)
		}
		if action == authz.Start && !slices.Contains(got.Names, "dev-operator") {
			t.Errorf("%v can start runs, want dev-operator among them", got.Names)
		}
	}
}

func TestRightHolders_IsBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.ChangePolicy(func(d *authz.Document) {
		for _, id := range []string{"dev-viewer", "dev-operator", "dev-engineer", "dev-planner", "dev-sre", "dev-system"} {
			d.Grants = append(d.Grants, grantOf(id, authz.Admin, "*", "*"))
		}
	})
	got := w.holders(w.Principal("dev-viewer"), authz.SetPolicy)
	if len(got.Names) > 10 || got.More && len(got.Names) < 10 {
		t.Errorf("%+v, want at most ten names", got)
	}
	_, err := w.RightHolders(t.Context(), w.Principal("dev-viewer"), nil)
	controltest.Refusal(t, err, run.CodeBadInput)
	_, err = w.RightHolders(t.Context(), w.Principal("dev-viewer"), make([]authz.Action, 21))
	controltest.Refusal(t, err, run.CodeBadInput)
}
