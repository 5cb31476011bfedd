package authz_test

import (
	"crypto/sha256"
	"encoding/csv"
	"os"
	"testing"
	"time"

	"github.com/dvt-engine/dvt/authz"
)

// Each line of the table holds also for one who has its grant only by a token that narrows every role,
// for a token of every role of one who has only its grant, and for one who took it in an
// emergency, until that ends.
func TestDecide_O3_O6_TheTableThroughTokensAndBreakGlass(t *testing.T) {
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
	for i, row := range rows[1:] {
		action, line, want := authz.Action(row[0]), grant(authz.Role(row[1]), row[2], row[3]), row[7] == "allow"
		o := authz.Object{TenantID: row[4], ProjectID: row[5], EnvironmentID: row[6]}
		clock.set(0)
		for name, c := range map[string]struct{ own, token []authz.Grant }{
			"a token narrows": {every, []authz.Grant{line}}, "a token gives no more": {[]authz.Grant{line}, every},
		} {
			secret, _ := authz.NewSecret()
			a := loaded(t, clock.now, authz.Stored{Version: 1, Tokens: []authz.Token{{
				ID: "t", TenantID: "acme", Principal: "x", SHA256: sha256.Sum256([]byte(secret)), Grants: c.token, ExpiresAt: ends,
			}}}, account("x", c.own...))
			p, err := a.Authenticate(secret)
			if err != nil {
				t.Fatal(err)
			}
			if d := decide(t, a, p, action, o); d.Allowed != want {
				t.Errorf("line %d: %v, %s: allowed %t", i+2, row, name, d.Allowed)
			}
		}
		a := loaded(t, clock.now, given(authz.Document{Grants: []authz.PrincipalGrant{{
			Principal: "x", Role: line.Role, ProjectID: line.ProjectID, EnvironmentID: line.EnvironmentID, ExpiresAt: &ends, BreakGlass: true,
		}}}), account("x"))
		if d := decide(t, a, who("x"), action, o); d.Allowed != want {
			t.Errorf("line %d: %v, in an emergency: allowed %t", i+2, row, d.Allowed)
		}
		clock.set(time.Minute)
		if d := decide(t, a, who("x"), action, o); d.Allowed {
			t.Errorf("line %d: %v, after the emergency: allowed", i+2, row)
		}
	}
}
