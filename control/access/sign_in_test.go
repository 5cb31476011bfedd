package access_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control/access"
	"github.com/dvt-engine/dvt/control/controltest"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/server/usecases"
)

// signedIn returns a principal of a provider that is a Viewer by the policy and an Operator by a group.
func (w *world) signedIn() authz.Principal {
	w.T.Helper()
	w.Directory.Trust(authz.Provider{Name: "corp", TenantID: "acme"})
	_, err := w.SetPolicy(w.T.Context(), w.Principal("dev-admin"), access.SetPolicy{RequestID: "people",
		Reason: "people come by corp", Document: w.Document(func(d *authz.Document) {
			d.Grants = append(d.Grants,
				authz.PrincipalGrant{Principal: "ada", Role: authz.Viewer, ProjectID: "*", EnvironmentID: "*"},
				authz.PrincipalGrant{Principal: "group:ops", Role: authz.Operator, ProjectID: "*", EnvironmentID: "*"},
				authz.PrincipalGrant{Principal: "service/ci", Role: authz.Operator, ProjectID: "shop", EnvironmentID: "*"})
		})})
	if err != nil {
		w.T.Fatal(err)
	}
	return authz.Principal{ID: "ada", TenantID: "acme", Provider: "corp", Groups: []string{"group:ops"}}
}

// contract: O6
func TestSignIn_ASessionIsAPersonAndEnds(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *usecases.Config) { c.Sessions = access.Sessions{Life: time.Hour} })
	ctx, ada := t.Context(), w.signedIn()
	made, err := w.SignIn(ctx, ada)
	if err != nil || made.Secret == "" || len(made.Token.Grants) != 0 || made.Token.SHA256 != "" {
		t.Fatalf("the session is %+v with the error %v, want one with a secret and without grants", made, err)
	}
	p, err := w.Session(ctx, made.Secret)
	if err != nil || p.ID != "ada" || p.SessionID != made.Token.ID || !p.ExpiresAt.Equal(made.Token.ExpiresAt) {
		t.Fatalf("the principal is %+v with the error %v, want ada with her session", p, err)
	}
	if v := w.Viewer(p); len(v.Grants) != 2 {
		t.Errorf("the viewer has the grants %+v, want those of the policy and of the group", v.Grants)
	}
	token, err := w.CreateToken(ctx, p, access.CreateToken{RequestID: "t", Name: "laptop",
		Grants: []authz.Grant{{Role: authz.Operator, ProjectID: "*", EnvironmentID: "*"}}})
	if err != nil || token.Token.Provider != "corp" {
		t.Fatalf("a token made with a session is %+v with the error %v, want one of the provider corp", token, err)
	}
	page, err := w.Tokens(ctx, p, access.TokensQuery{})
	if err != nil || len(page.Tokens) != 2 || page.Tokens[0].Kind != "API" || page.Tokens[1].Kind != "SESSION" {
		t.Errorf("her tokens are %+v with the error %v, want the API token and the session", page.Tokens, err)
	}
	if _, err := w.RevokeToken(ctx, w.Principal("dev-admin"), access.RevokeToken{RequestID: "gone", ID: p.SessionID,
		Reason: "lost laptop"}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Session(ctx, made.Secret); !errors.Is(err, authz.ErrUnauthenticated) {
		t.Errorf("the revocation of the session returned %v, want no error", err)
	}
	if v := w.Viewer(p); len(v.Grants) != 0 {
		t.Errorf("after the revocation the viewer has the grants %+v, want none", v.Grants)
	}
	if _, err := w.SignIn(ctx, authz.Principal{ID: "bob", TenantID: "acme", Provider: "corp",
		Groups: []string{"group:none"}}); controltest.CodeOf(err) != run.CodeForbidden {
		t.Errorf("a sign-in without rights returned %v, want FORBIDDEN", err)
	}
	for range 30 {
		w.AuditRefusedSignIn(ctx, "acme", "corp", "192.0.2.9", "the answer belongs to another sign-in")
	}
	for where, want := range map[string]int{
		`action = 'SIGN_IN' AND outcome = 'ACCEPTED' AND actor = 'ada'`:        1,
		`action = 'SIGN_IN' AND outcome = 'DENIED' AND actor = 'bob'`:          1,
		`action = 'SIGN_IN' AND outcome = 'DENIED' AND actor = 'anonymous'`:    1,
		`actor = 'anonymous' AND address = '192.0.2.9' AND via = 'sign-in'`:    1,
		`action = 'REVOKE_TOKEN' AND reason = 'lost laptop'`:                   1,
		`detail LIKE '%` + strings.TrimPrefix(made.Secret, "dvt_")[:20] + `%'`: 0,
	} {
		if n := w.CountAuditRows(where); n != want {
			t.Errorf("there are %d audit rows where %s, want %d", n, where, want)
		}
	}
}

// A person has at most 20 sessions; a new one ends the oldest.
// contract: O6
func TestSignIn_TheOldestOfTooManyEnds(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ada := w.signedIn()
	var secrets []string
	for range 22 {
		made, err := w.SignIn(t.Context(), ada)
		if err != nil {
			t.Fatal(err)
		}
		secrets = append(secrets, made.Secret)
	}
	for i, secret := range secrets {
		if _, err := w.Session(t.Context(), secret); (err == nil) != (i >= 2) {
			t.Errorf("session %d returned %v, want only the oldest to have ended", i, err)
		}
	}
	if err := w.SignOut(t.Context(), ada); err != nil {
		t.Errorf("signing out without a session returned %v, want no error", err)
	}
	p, _ := w.Session(t.Context(), secrets[21])
	for range 2 {
		if err := w.SignOut(t.Context(), p); err != nil {
			t.Errorf("signing out returned %v, want no error", err)
		}
	}
	if _, err := w.Session(t.Context(), secrets[21]); !errors.Is(err, authz.ErrUnauthenticated) {
		t.Errorf("the session returned %v after signing out, want an error", err)
	}
}

// A service has the rights that both the policy and its token grant. It sees only its own tokens, and its viewer is the
// service.
// contract: O6
func TestCreateToken_ServicePrincipals(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.signedIn()
	ctx, admin := t.Context(), w.Principal("dev-admin")
	made, err := w.CreateToken(ctx, admin, access.CreateToken{RequestID: "ci", Name: "ci", Service: "ci",
		Grants: []authz.Grant{{Role: authz.Operator, ProjectID: "*", EnvironmentID: "*"}}})
	if err != nil || made.Token.Principal != "service/ci" || made.Token.Provider != "" {
		t.Fatalf("the token is %+v with the error %v, want one of service/ci", made, err)
	}
	ci, err := w.Authz.Authenticate(made.Secret)
	if err != nil {
		t.Fatal(err)
	}
	v := w.Viewer(ci)
	if v.Principal.ID != "service/ci" || len(v.Grants) != 1 || v.Grants[0].ProjectID != "shop" ||
		v.Grants[0].Role != authz.Operator {
		t.Errorf("the viewer of the service is %+v, want the role OPERATOR", v)
	}
	if _, err := w.CreateToken(ctx, ci, access.CreateToken{RequestID: "x", Name: "x",
		Grants: []authz.Grant{{Role: authz.Viewer, ProjectID: "shop", EnvironmentID: "dev"}}}); controltest.CodeOf(
		err) != run.CodeForbidden {
		t.Errorf("a token that a service makes returned %v, want FORBIDDEN", err)
	}
	if page, err := w.Tokens(ctx, ci, access.TokensQuery{}); err != nil || len(page.Tokens) != 1 ||
		page.Tokens[0].Principal != "service/ci" {
		t.Errorf("the service sees the tokens %+v with the error %v, want its own", page.Tokens, err)
	}
	if _, err := w.Tokens(ctx, ci, access.TokensQuery{All: true}); controltest.CodeOf(err) != run.CodeForbidden {
		t.Errorf("the list of all tokens returned %v, want FORBIDDEN", err)
	}
}
