package authz_test

import (
	"crypto/sha256"
	"encoding/csv"
	"os"
	"testing"
	"time"

	"github.com/dvt-engine/dvt/authz"
)

// Each line of the table also holds for three other principals: one with all roles and a token limited to the grant,
// one with the grant and a token for all roles, and one who took the grant in an emergency, until it expires.
// contract: O3, O6
func TestDecide_TableAlsoHoldsForTokensAndBreakGlass(t *testing.T) {
	t.Parallel()
	f, err := os.Open("testdata/decisions.csv")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	var every []authz.Grant
	for _, r := range authz.Roles() {
		every = append(every, grant(r))
	}
	clock := &moving{}
	ends := now.Add(time.Minute)
	type holder struct {
		*authz.Authorizer
		authz.Principal
	}
	byToken := func(own, token []authz.Grant) holder {
		secret, _ := authz.NewSecret()
		a := loaded(t, clock.now, authz.Stored{Version: 1, Tokens: []authz.Token{{
			ID: "t", TenantID: "acme", Principal: "x", SHA256: sha256.Sum256([]byte(secret)), Grants: token, ExpiresAt: ends,
		}}}, account("x", own...))
		p, err := a.Authenticate(secret)
		if err != nil {
			t.Fatal(err)
		}
		return holder{a, p}
	}
	type holders struct{ narrowed, widened, emergency holder }
	of := map[authz.Grant]holders{}
	for i, row := range rows[1:] {
		action, line, want := authz.Action(row[0]), grant(authz.Role(row[1]), row[2], row[3]), row[7] == "allow"
		o := authz.Object{TenantID: row[4], ProjectID: row[5], EnvironmentID: row[6]}
		clock.set(0)
		h, made := of[line]
		if !made {
			h = holders{byToken(every, []authz.Grant{line}), byToken([]authz.Grant{line}, every),
				holder{loaded(t, clock.now, given(authz.Document{Grants: []authz.PrincipalGrant{{
					Principal: "x", Role: line.Role, ProjectID: line.ProjectID, EnvironmentID: line.EnvironmentID, ExpiresAt: &ends,
					BreakGlass: true,
				}}}), account("x")), who("x")}}
			of[line] = h
		}
		for name, by := range map[string]holder{"a token narrows": h.narrowed, "a token gives no more": h.widened,
			"in an emergency": h.emergency} {
			if d := decide(t, by.Authorizer, by.Principal, action, o); d.Allowed != want {
				t.Errorf("line %d: %v, %s: allowed %t", i+2, row, name, d.Allowed)
			}
		}
		clock.set(time.Minute)
		if d := decide(t, h.emergency.Authorizer, h.emergency.Principal, action, o); d.Allowed {
			t.Errorf("line %d: %v, after the emergency: allowed", i+2, row)
		}
	}
}
