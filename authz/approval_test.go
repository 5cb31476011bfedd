package authz_test

import (
	"testing"
	"time"

	"github.com/dvt-engine/dvt/authz"
)

// contract: O3
func TestApproval_TheMostSpecificRowDecides(t *testing.T) {
	t.Parallel()
	d, err := authz.NewDirectory(authz.DevAccounts(func(name string) string { return name }), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	a, err := authz.New(authz.DefaultPolicy(), d)
	if err != nil {
		t.Fatal(err)
	}
	if n := a.Approval("acme", "shop", "prod"); n != 0 {
		t.Errorf("without a policy %d approvals are required, want 0", n)
	}
	rows := []authz.Approval{
		{ProjectID: "*", EnvironmentID: "*", Required: 1},
		{ProjectID: "*", EnvironmentID: "prod", Required: 3},
		{ProjectID: "shop", EnvironmentID: "*", Required: 2},
		{ProjectID: "shop", EnvironmentID: "dev", Required: 5},
	}
	if err := a.Load(authz.Stored{
		Version: 1, Policies: []authz.StoredPolicy{
			{TenantID: "acme", Version: 1, Document: &authz.Document{Approvals: rows}}}}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		tenant, project, environment string
		want                         int
	}{
		{"acme", "shop", "dev", 5},
		{"acme", "shop", "prod", 3}, // the stricter of two equally specific rows
		{"acme", "shop", "test", 2},
		{"acme", "lab", "prod", 3},
		{"acme", "lab", "test", 1},
		{"globex", "shop", "dev", 0},
	} {
		if n := a.Approval(c.tenant, c.project, c.environment); n != c.want {
			t.Errorf("%s %s/%s: %d approvals are required, want %d", c.tenant, c.project, c.environment, n, c.want)
		}
	}
}
