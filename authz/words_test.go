package authz_test

import (
	"testing"

	"github.com/dvt-engine/dvt/authz"
)

func TestActions_HaveWords(t *testing.T) {
	t.Parallel()
	for _, action := range authz.Actions() {
		if action.Words() == string(action) {
			t.Errorf("the action %s has no words for a sentence", action)
		}
	}
}

func TestNeedsRole_NamesRoleAndPlaceInWords(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		role    authz.Role
		action  authz.Action
		project string
		env     string
		want    string
	}{
		{authz.SRE, authz.SetEngineMode, "*", "*", "You need the SRE role to change the mode."},
		{authz.Admin, authz.ReadAudit, "*", "*",
			"You need the Admin or the SRE role on the whole tenant to read the audit log."},
		{authz.Planner, authz.Start, "*", "*", "You need the Planner role on the whole tenant to start a run."},
		{authz.Engineer, authz.RetryStep, "shop", "prod", "You need the Engineer role on shop / prod to retry a step."},
		{authz.Operator, authz.Pause, "shop", "*",
			"You need the Operator role on every environment of shop to pause a run."},
		{authz.Operator, authz.Pause, "*", "prod", "You need the Operator role on prod of every project to pause a run."},
	} {
		object := authz.Object{TenantID: "acme", ProjectID: c.project, EnvironmentID: c.env}
		if got := authz.NeedsRole(c.role, c.action, object); got != c.want {
			t.Errorf("NeedsRole(%s, %s) is %q, want %q", c.role, c.action, got, c.want)
		}
	}
}
