package authz_test

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dvt-engine/dvt/authz"
)

// federated returns an Authorizer for a tenant whose policy names a person and two groups of a provider, and an
// account.
func federated(t *testing.T, now func() time.Time, tokens ...authz.Token) *authz.Authorizer {
	t.Helper()
	d, err := authz.NewDirectory([]authz.Account{
		{ID: "ana", TenantID: "acme", TokenSHA256: hashOf("ana")},
		{ID: "group:base", TenantID: "globex", OIDC: true,
			Grants: []authz.Grant{{Role: authz.Viewer, ProjectID: "*", EnvironmentID: "*"}}},
	}, now)
	if err != nil {
		t.Fatal(err)
	}
	d.Trust(authz.Provider{Name: "corp", TenantID: "acme"})
	a, err := authz.New(authz.DefaultPolicy(), d)
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Load(authz.Stored{Version: 1, Policies: people(), Tokens: tokens}); err != nil {
		t.Fatal(err)
	}
	return a
}

// people returns the policy of acme.
func people() []authz.StoredPolicy {
	return []authz.StoredPolicy{{TenantID: "acme", Version: 1, Document: &authz.Document{Grants: []authz.PrincipalGrant{
		{Principal: "ada", Role: authz.Viewer, ProjectID: "*", EnvironmentID: "*"},
		{Principal: "group:ops", Role: authz.Operator, ProjectID: "shop", EnvironmentID: "*"},
		{Principal: "group:admins", Role: authz.Admin, ProjectID: "*", EnvironmentID: "*"},
		{Principal: "service/ci", Role: authz.Operator, ProjectID: "shop", EnvironmentID: "dev"},
	}}}}
}

var inShop = authz.Object{TenantID: "acme", ProjectID: "shop", EnvironmentID: "dev"}

// contract: O6
func TestDecide_GroupsHaveGrants(t *testing.T) {
	t.Parallel()
	a := federated(t, time.Now)
	ada := authz.Principal{ID: "ada", TenantID: "acme", Provider: "corp"}
	ops := ada
	ops.Groups = []string{"group:none", "group:ops"}
	for _, c := range []struct {
		who    authz.Principal
		action authz.Action
		at     authz.Object
		want   bool
	}{
		{ada, authz.Read, inShop, true},
		{ada, authz.Pause, inShop, false},
		{ops, authz.Pause, inShop, true},
		{ops, authz.Pause, authz.Object{TenantID: "acme", ProjectID: "mill", EnvironmentID: "dev"}, false},
		{ops, authz.Read, authz.Object{TenantID: "globex", ProjectID: "shop", EnvironmentID: "dev"}, false},
		{ops, authz.SetPolicy, inShop, false},
		{authz.Principal{ID: "eve", TenantID: "globex", Groups: []string{"group:base"}}, authz.Read,
			authz.Object{TenantID: "globex", ProjectID: "p", EnvironmentID: "e"}, true},
	} {
		if d, err := a.Decide(c.who, c.action, c.at); err != nil || d.Allowed != c.want {
			t.Errorf("%s %v %s: %t, %v, want %t", c.who.ID, c.who.Groups, c.action, d.Allowed, err, c.want)
		}
	}
	if got := len(a.Grants(ops)); got != 2 {
		t.Errorf("the principal has %d grants, want 2", got)
	}
	if got := a.WhoCould(authz.SetPolicy, inShop); !cmp.Equal(got, []string{"group:admins"}) {
		t.Errorf("%v could set the policy, want only the group", got)
	}
	held := authz.Document{
		Grants: []authz.PrincipalGrant{{Principal: "group:admins", Role: authz.Admin, ProjectID: "*", EnvironmentID: "*"}}}
	if problems := a.Check("acme", held); len(problems) != 0 {
		t.Errorf("administrators from a trusted provider: problems %v, want none", problems)
	}
	if problems := a.Check("globex", held); len(problems) != 1 || problems[0].Code != authz.LockedOut {
		t.Errorf("administrators without a trusted provider: problems %v, want LockedOut", problems)
	}
}

func secretOf(t *testing.T, token authz.Token) (string, authz.Token) {
	t.Helper()
	secret, _ := authz.NewSecret()
	token.SHA256 = sha256.Sum256([]byte(secret))
	return secret, token
}

// contract: O6
func TestSession_HasAllRightsOfItsPrincipalAndEnds(t *testing.T) {
	t.Parallel()
	now := time.Now()
	session := authz.Token{ID: "s", TenantID: "acme", Principal: "ada", Session: true, Provider: "corp",
		Groups: []string{"group:ops"}, CreatedAt: now, ExpiresAt: now.Add(12 * time.Hour)}
	secret, session := secretOf(t, session)
	foreign := session
	foreign.ID, foreign.Provider = "f", "former"
	foreignSecret, foreign := secretOf(t, foreign)
	api := session
	api.ID, api.Session, api.Grants = "t", false, []authz.Grant{{Role: authz.Operator, ProjectID: "*", EnvironmentID: "*"}}
	apiSecret, api := secretOf(t, api)
	a := federated(t, func() time.Time { return now }, session, foreign, api)

	p, err := a.Session(secret, time.Hour)
	if err != nil || p.SessionID != "s" || p.TokenID != "" || !p.ExpiresAt.Equal(session.ExpiresAt) || len(p.Grants) != 2 {
		t.Fatalf("Session returned %+v, %v, want the session with two grants", p, err)
	}
	if d, _ := a.Decide(p, authz.Pause, inShop); !d.Allowed {
		t.Error("the session may not do what the group of its principal may")
	}
	for name, err := range map[string]error{
		"an unknown one":                    second(a.Session("dvt_unknown", 0)),
		"of a provider that is not trusted": second(a.Session(foreignSecret, 0)),
		"a token as a session":              second(a.Session(apiSecret, 0)),
		"a session as a token":              second(a.Authenticate(secret)),
	} {
		if !errors.Is(err, authz.ErrUnauthenticated) {
			t.Errorf("%s: %v, want ErrUnauthenticated", name, err)
		}
	}
	if p, err := a.Authenticate(apiSecret); err != nil || p.TokenID != "t" || !cmp.Equal(p.Groups, session.Groups) {
		t.Errorf("an API token of a principal from a provider: %+v, %v, want its groups", p, err)
	}
	if used := a.TakeUsed(); !slices.Contains(used, "s") || !slices.Contains(used, "t") {
		t.Errorf("TakeUsed returned %v, want s and t", used)
	}
	now = now.Add(time.Hour)
	a.Confirm()
	if _, err := a.Session(secret, time.Hour); !errors.Is(err, authz.ErrIdle) {
		t.Errorf("after an hour without use: %v, want ErrIdle", err)
	}
	a.RecordUse("s", now.Add(-time.Minute))
	if _, err := a.Session(secret, time.Hour); err != nil {
		t.Errorf("after a use on another server: %v, want the session", err)
	}
	now = now.Add(7 * time.Minute) // more than a tenth of the idle time
	a.Confirm()
	if _, err := a.Session(secret, time.Hour); err != nil || !slices.Contains(a.TakeUsed(), "s") {
		t.Errorf("TakeUsed does not return the session again: %v", err)
	}
	if err := a.Load(authz.Stored{Version: 2, Policies: people()}); err != nil {
		t.Fatal(err)
	}
	if d, _ := a.Decide(p, authz.Read, authz.Object{TenantID: "acme", ProjectID: "shop",
		EnvironmentID: "dev"}); d.Allowed || len(a.Grants(p)) != 0 {
		t.Error("a principal has rights after the end of its session")
	}
	if _, err := a.Session(secret, 0); !errors.Is(err, authz.ErrUnauthenticated) {
		t.Errorf("a revoked session: %v, want ErrUnauthenticated", err)
	}
}

func second[T any](_ T, err error) error { return err }

// contract: O6
func TestNewDirectory_OIDCAccountsHaveNoToken(t *testing.T) {
	t.Parallel()
	for name, account := range map[string]authz.Account{
		"oidc with a token":       {ID: "x", TenantID: "acme", OIDC: true, TokenSHA256: hashOf("x")},
		"oidc worker":             {ID: "x", OIDC: true, Worker: true, Serves: []string{"*"}},
		"a group with a token":    {ID: "group:x", TenantID: "acme", TokenSHA256: hashOf("x")},
		"neither":                 {ID: "x", TenantID: "acme"},
		"a service by a provider": {ID: "service/x", TenantID: "acme", OIDC: true},
	} {
		if _, err := authz.NewDirectory([]authz.Account{account}, time.Now); err == nil {
			t.Errorf("NewDirectory accepted %s, want an error", name)
		}
	}
	d, err := authz.NewDirectory([]authz.Account{{ID: "x", TenantID: "acme", OIDC: true},
		{ID: "y", TenantID: "acme", OIDC: true}}, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Authenticate(""); !errors.Is(err, authz.ErrUnauthenticated) {
		t.Errorf("an empty token: %v, want ErrUnauthenticated", err)
	}
}

func FuzzBearer(f *testing.F) {
	for _, s := range []string{"", "Bearer", "Bearer ", "bearer a", "BEARER  a ", "Bearer a b", "Basic YTpi",
		"Bearer a\tb", "Bearer \x00", "Bearer ü", "a", "Bearer a,Bearer b"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, header string) {
		token := authz.Bearer(header)
		if token == "" {
			return
		}
		if len(header) < len("bearer ")+len(token) || !strings.EqualFold(header[:7], "bearer ") ||
			!strings.HasSuffix(strings.TrimRight(header, " "), token) {
			t.Errorf("%q has the token %q", header, token)
		}
		for _, r := range token {
			if r <= ' ' || r > '~' {
				t.Errorf("%q has the token %q", header, token)
			}
		}
		if again := authz.Bearer("Bearer " + token); again != token {
			t.Errorf("Bearer of the token %q returned %q", token, again)
		}
	})
}

func hashOf(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}
