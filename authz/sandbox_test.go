package authz_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/plan"
)

func TestSandbox_TheMostSpecificRowDecides(t *testing.T) {
	t.Parallel()
	rows := []authz.Sandbox{
		{ProjectID: "*", EnvironmentID: "*", Memory: 1 << 30},
		{ProjectID: "*", EnvironmentID: "prod", Memory: 2 << 30, PIDs: 9, Connect: []string{"443"},
			Require: []plan.SandboxPart{plan.SandboxPIDs}},
		{ProjectID: "shop", EnvironmentID: "*", Memory: 1 << 29, CPU: 2, Connect: []string{"db:443", "80"},
			Require: []plan.SandboxPart{plan.SandboxFiles}},
		{ProjectID: "shop", EnvironmentID: "dev"},
	}
	a := loaded(t, time.Now, given(authz.Document{Sandbox: rows}))
	for _, c := range []struct {
		tenant, project, environment string
		want                         plan.SandboxCeiling
	}{
		{"acme", "shop", "dev", plan.SandboxCeiling{}},
		{"acme", "shop", "prod", plan.SandboxCeiling{ // two equally specific rows: the stricter value
			Limits: plan.SandboxLimits{Memory: 1 << 29, CPU: 2, PIDs: 9}, Connect: []string{"db:443"},
			Require: []plan.SandboxPart{plan.SandboxFiles, plan.SandboxPIDs},
		}},
		{"acme", "lab", "dev", plan.SandboxCeiling{Limits: plan.SandboxLimits{Memory: 1 << 30}}},
		{"globex", "shop", "prod", plan.SandboxCeiling{}},
	} {
		got, err := a.Sandbox(c.tenant, c.project, c.environment)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("ceiling of %s %s/%s (-want +got):\n%s", c.tenant, c.project, c.environment, diff)
		}
	}
}

func TestSandbox_APolicyThatCannotBeReadIsNoPermission(t *testing.T) {
	t.Parallel()
	a := loaded(t, time.Now, authz.Stored{Version: 1, Policies: []authz.StoredPolicy{{TenantID: "acme", Version: 1}}})
	if _, err := a.Sandbox("acme", "shop", "dev"); !errors.Is(err, authz.ErrUnavailable) {
		t.Errorf("Sandbox with an unreadable policy returned %v, want ErrUnavailable", err)
	}
}

func TestCheck_NamesEverythingWrongWithCeilings(t *testing.T) {
	t.Parallel()
	a := loaded(t, time.Now, authz.Stored{Version: 1}, account("ada", grant(authz.Admin)))
	doc := authz.Document{Grants: []authz.PrincipalGrant{holder("ada", authz.Admin)}}
	many := make([]string, plan.MaxSandboxEntries+1)
	doc.Sandbox = []authz.Sandbox{
		{ProjectID: "*", EnvironmentID: "*", Memory: 1, CPU: 5000, PIDs: -1, Disk: 1 << 60},
		{ProjectID: "*", EnvironmentID: "*", Connect: []string{"h", "80", "80"}, Require: []plan.SandboxPart{"gpu",
			plan.SandboxPIDs, plan.SandboxPIDs}},
		{ProjectID: "", EnvironmentID: "dev", Connect: many},
	}
	var got []string
	for _, p := range a.Check("acme", doc) {
		got = append(got, p.Code+" "+p.Path)
	}
	want := []string{
		"RANGE sandbox[0].memory", "RANGE sandbox[0].cpu", "RANGE sandbox[0].pids", "RANGE sandbox[0].disk",
		"DUPLICATE sandbox[1]", "INVALID sandbox[1].connect[0]", "DUPLICATE sandbox[1].connect[2]",
		"UNKNOWN sandbox[1].require[0]", "DUPLICATE sandbox[1].require[2]",
		"INVALID sandbox[2].projectId", "RANGE sandbox[2].connect",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
	doc.Sandbox = []authz.Sandbox{{ProjectID: "*", EnvironmentID: "*", Memory: 512 << 20, CPU: 2, PIDs: 64, Disk: 1 << 30,
		Connect: []string{}}}
	if ps := a.Check("acme", doc); len(ps) > 0 {
		t.Errorf("Check reported problems for a valid document: %v", ps)
	}
}
