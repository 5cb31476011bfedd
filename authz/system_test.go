package authz_test

import (
	"strings"
	"testing"
	"time"

	"github.com/dvt-engine/dvt/authz"
)

// The recovery has grants and no credential: no token, no provider and no worker can be it.
// contract: T103
func TestSystemPrincipals_CannotSignIn(t *testing.T) {
	t.Parallel()
	hash := strings.Repeat("ab", 32)
	for name, a := range map[string]authz.Account{
		"with a token": {ID: authz.Recovery, TenantID: "acme", TokenSHA256: hash},
		"by OIDC":      {ID: authz.Recovery, TenantID: "acme", OIDC: true},
		"as a worker":  {ID: authz.Recovery, Worker: true, TokenSHA256: hash, Serves: []string{"acme"}},
	} {
		if _, err := authz.NewDirectory([]authz.Account{a}, time.Now); err == nil {
			t.Errorf("an account of %s %s is accepted", authz.Recovery, name)
		}
	}
	if authz.IsValidName(authz.Recovery) {
		t.Errorf("a provider may name %s", authz.Recovery)
	}
	d, err := authz.NewDirectory([]authz.Account{authz.RecoveryAccount("acme")}, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	if g, ok := d.Grants("acme", authz.Recovery); !ok || len(g) != 1 || g[0].Role != authz.Engineer {
		t.Errorf("the grants are %v, want Engineer", g)
	}
}
