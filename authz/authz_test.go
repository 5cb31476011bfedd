package authz_test

import (
	"crypto/sha256"
	"encoding/csv"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dvt-engine/dvt/authz"
)

var (
	now     = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	shopDev = authz.Object{TenantID: "acme", ProjectID: "shop", EnvironmentID: "dev"}
)

func clock() time.Time { return now }

func account(id string, grants ...authz.Grant) authz.Account {
	sum := sha256.Sum256([]byte("token of " + id))
	return authz.Account{ID: id, TenantID: "acme", TokenSHA256: hex.EncodeToString(sum[:]), Grants: grants}
}

func grant(r authz.Role, place ...string) authz.Grant {
	g := authz.Grant{Role: r, ProjectID: "*", EnvironmentID: "*"}
	if len(place) == 2 {
		g.ProjectID, g.EnvironmentID = place[0], place[1]
	}
	return g
}

func directory(t testing.TB, accounts ...authz.Account) *authz.Directory {
	t.Helper()
	d, err := authz.NewDirectory(accounts, clock)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func authorizer(t testing.TB, d *authz.Directory) *authz.Authorizer {
	t.Helper()
	a, err := authz.New(authz.DefaultPolicy(), d)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func decide(t testing.TB, a *authz.Authorizer, p authz.Principal, action authz.Action, o authz.Object) authz.Decision {
	t.Helper()
	d, err := a.Decide(p, action, o)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// The table is the agreed policy. It has a line for every action and role, and further lines for projects and
// environments.
// contract: T92
func TestDecide_FollowsTheAgreedTable(t *testing.T) {
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
	seen := map[string]bool{}
	of := map[authz.Grant]*authz.Authorizer{}
	for i, row := range rows[1:] {
		action, role := authz.Action(row[0]), authz.Role(row[1])
		if row[2] == "*" && row[3] == "*" && row[4] == "acme" {
			seen[row[0]+" "+row[1]] = true
		}
		g := grant(role, row[2], row[3])
		if of[g] == nil {
			of[g] = authorizer(t, directory(t, account("x", g)))
		}
		o := authz.Object{TenantID: row[4], ProjectID: row[5], EnvironmentID: row[6]}
		d := decide(t, of[g], authz.Principal{ID: "x", TenantID: "acme"}, action, o)
		if want := row[7] == "allow"; d.Allowed != want {
			t.Errorf("line %d: %v: allowed %t by %q", i+2, row, d.Allowed, d.Rule)
		}
		if d.Allowed != (d.Rule != "") || d.RequiredRole == "" || d.Version != 1 {
			t.Errorf("line %d: the decision %+v lacks its rule or the required role", i+2, d)
		}
	}
	for _, action := range authz.Actions() {
		for _, role := range authz.Roles() {
			if !seen[fmt.Sprintf("%s %s", action, role)] {
				t.Errorf("testdata/decisions.csv has no line for %s by %s", action, role)
			}
		}
	}
}

func TestDecide_DenyByDefault(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	roles, actions := authz.Roles(), authz.Actions()
	places := []string{"*", "shop", "store", ""}
	ladder := []authz.Role{authz.Viewer, authz.Operator, authz.Engineer, authz.Admin}
	above := func(role, least authz.Role) bool {
		i, j := slices.Index(ladder, role), slices.Index(ladder, least)
		return role == least || i >= 0 && j >= 0 && i > j
	}
	for range 500 {
		var rules []authz.Rule
		for range r.IntN(6) {
			rules = append(rules, authz.Rule{Role: roles[r.IntN(len(roles))], Action: actions[r.IntN(len(actions))]})
		}
		rules = slices.Compact(rules)
		g := grant(roles[r.IntN(len(roles))], places[r.IntN(3)], places[r.IntN(3)])
		a, err := authz.New(rules, directory(t, account("x", g)))
		if err != nil {
			t.Fatal(err)
		}
		o := authz.Object{TenantID: "acme", ProjectID: places[1+r.IntN(3)], EnvironmentID: places[1+r.IntN(3)]}
		action := append(slices.Clone(actions), "SOMETHING_ELSE", "*", "")[r.IntN(len(actions)+3)]
		want := false
		for _, rule := range rules {
			want = want || rule.Action == action && above(g.Role, rule.Role)
		}
		want = want && (g.ProjectID == "*" || g.ProjectID == o.ProjectID) && (g.EnvironmentID == "*" ||
			g.EnvironmentID == o.EnvironmentID)
		if d := decide(t, a, authz.Principal{ID: "x", TenantID: "acme"}, action, o); d.Allowed != want {
			t.Fatalf("rules %v, grant %v, %s on %v: allowed %t", rules, g, action, o, d.Allowed)
		}
	}
	a := authorizer(t, directory(t, account("x", grant(authz.Admin))))
	for _, p := range []authz.Principal{
		{}, {ID: "x"}, {ID: "y", TenantID: "acme"}, {ID: "x", TenantID: "globex"},
		// The grants in the principal are not trusted.
		{ID: "y", TenantID: "acme", Grants: []authz.Grant{grant(authz.Admin)}},
	} {
		for _, action := range actions {
			if decide(t, a, p, action, shopDev).Allowed || decide(t, a, p, action, authz.Object{}).Allowed {
				t.Errorf("a principal without grants in the policy may %s: %+v", action, p)
			}
		}
	}
}

// contract: T101
func TestDecide_OtherTenantMayDoNothing(t *testing.T) {
	t.Parallel()
	d, err := authz.NewDirectory(authz.DevAccounts(func(name string) string { return name }), clock)
	if err != nil {
		t.Fatal(err)
	}
	a := authorizer(t, d)
	mallory, err := d.Authenticate("dev-mallory")
	if err != nil {
		t.Fatal(err)
	}
	for _, action := range authz.Actions() {
		if decide(t, a, mallory, action, shopDev).Allowed {
			t.Errorf("an Admin of globex may %s in acme", action)
		}
	}
}

func TestWhoCould_ListsAtMostTenPrincipals(t *testing.T) {
	t.Parallel()
	gone := account("gone", grant(authz.Admin))
	gone.ExpiresAt = now
	accounts := []authz.Account{
		account("zoe", grant(authz.Engineer)), account("eng", grant(authz.Engineer, "shop", "dev")),
		account("prod", grant(authz.Engineer, "shop", "prod")), account("ola", grant(authz.Operator)), gone,
		authz.RecoveryAccount("acme"), // nobody signs in as it, so it cannot help
	}
	other := account("mallory", grant(authz.Admin))
	other.TenantID = "globex"
	a := authorizer(t, directory(t, append(accounts, other)...))
	if diff := cmp.Diff([]string{"eng", "zoe"}, a.WhoCould(authz.Cancel, shopDev)); diff != "" {
		t.Errorf("who could cancel (-want +got):\n%s", diff)
	}
	for i := range 30 {
		accounts = append(accounts, account(fmt.Sprintf("b%02d", i), grant(authz.Engineer)))
	}
	got := authorizer(t, directory(t, accounts...)).WhoCould(authz.Cancel, shopDev)
	if len(got) != 10 || got[0] != "b00" || !slices.IsSorted(got) {
		t.Errorf("%d names %v, want the first ten", len(got), got)
	}
}

func TestNewDirectory_ReportsEveryProblem(t *testing.T) {
	t.Parallel()
	good := account("good", grant(authz.Viewer))
	twice := good
	twice.TokenSHA256 = account("other").TokenSHA256
	sameToken := account("same")
	sameToken.TokenSHA256 = good.TokenSHA256
	empty := sha256.Sum256(nil)
	d, err := authz.NewDirectory([]authz.Account{
		good,
		{Grants: []authz.Grant{grant("BOSS"), {Role: authz.Viewer}}},
		twice, sameToken,
		{ID: "w", Worker: true, TokenSHA256: "no hex"},
		{ID: "nobody", TenantID: "acme", TokenSHA256: hex.EncodeToString(empty[:])},
	}, clock)
	if err == nil || d != nil {
		t.Fatalf("directory %v, error %v", d, err)
	}
	for _, want := range []string{
		`accounts[1] "": id is missing`, `accounts[1] "": tenant is missing`, `accounts[1] "": tokenSha256 must`,
		`accounts[1] "": grant BOSS on "*"/"*" is not known`, `accounts[1] "": grant VIEWER on ""/"" is not known`,
		`accounts[2] "good": the id is taken`, `accounts[3] "same": another account has the same token`,
		`accounts[4] "w": serves must name`, `accounts[4] "w": tokenSha256 must`,
		`accounts[5] "nobody": tokenSha256 is that of no token`,
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error lacks %q:\n%v", want, err)
		}
	}
}

// contract: O6
func TestDirectory_AuthenticatesByTokenHash(t *testing.T) {
	t.Parallel()
	soon := account("soon", grant(authz.Viewer))
	soon.ExpiresAt = now.Add(time.Nanosecond)
	late := account("late", grant(authz.Viewer))
	late.ExpiresAt = now
	worker := account("w1")
	worker.TenantID, worker.Worker, worker.Serves = "", true, []string{"acme"}
	old := account("w2")
	old.Worker, old.Serves, old.ExpiresAt = true, []string{"*"}, now.Add(-time.Hour)
	d := directory(t, account("vic", grant(authz.Viewer)), soon, late, worker, old)
	for token, want := range map[string]error{
		"token of vic": nil, "token of soon": nil, "token of late": authz.ErrExpired, "token of w1": authz.ErrUnauthenticated,
		"": authz.ErrUnauthenticated, "vic": authz.ErrUnauthenticated, worker.TokenSHA256: authz.ErrUnauthenticated,
	} {
		p, err := d.Authenticate(token)
		if !errors.Is(err, want) || (err == nil) != (p.ID != "") {
			t.Errorf("Authenticate(%q): %+v, %v; want %v", token, p, err, want)
		}
	}
	for token, want := range map[string]error{
		"token of w1": nil, "token of w2": authz.ErrExpired, "token of vic": authz.ErrUnauthenticated,
		"": authz.ErrUnauthenticated,
	} {
		w, err := d.AuthenticateWorker(token)
		if !errors.Is(err, want) || err == nil && (w.ID != "w1" || !w.MayServe("acme") || w.MayServe("globex") ||
			w.MayServe("")) {
			t.Errorf("AuthenticateWorker(%q): %+v, %v; want %v", token, w, err, want)
		}
	}
	if !(authz.Worker{Serves: []string{"*"}}).MayServe("anybody") {
		t.Error("a worker of all tenants does not serve one")
	}
	if names := d.Principals("acme"); !cmp.Equal(names, []string{"soon", "vic"}) {
		t.Errorf("principals %v; workers and expired ones are not among them", names)
	}
}

func TestSetGrants_AppliesToPrincipalsThatSignedInBefore(t *testing.T) {
	t.Parallel()
	d := directory(t, account("ola", grant(authz.Operator)))
	a := authorizer(t, d)
	before, err := d.Authenticate("token of ola")
	if err != nil {
		t.Fatal(err)
	}
	changed := a.Changed()
	d.SetGrants("acme", "ola", []authz.Grant{grant(authz.Viewer)})
	d.SetGrants("acme", "nobody", []authz.Grant{grant(authz.Admin)})
	if err := a.Swap(authz.DefaultPolicy()); err != nil {
		t.Fatal(err)
	}
	select {
	case <-changed:
	default:
		t.Error("Swap did not close the channel of Changed")
	}
	after, err := d.Authenticate("token of ola")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range []authz.Principal{before, after} {
		if decide(t, a, p, authz.Pause, shopDev).Allowed || !decide(t, a, p, authz.Read, shopDev).Allowed {
			t.Errorf("%+v has the old rights, want the new ones", p)
		}
	}
	if diff := cmp.Diff([]authz.Grant{grant(authz.Viewer)}, after.Grants); diff != "" {
		t.Errorf("grants of a principal that signs in now (-want +got):\n%s", diff)
	}
}

// contract: T202
func TestSwap_ABrokenPolicyChangesNothing(t *testing.T) {
	t.Parallel()
	d := directory(t, account("ola", grant(authz.Operator)))
	a := authorizer(t, d)
	changed := a.Changed()
	for _, rules := range [][]authz.Rule{{{Role: "BOSS", Action: authz.Read}},
		{{Role: authz.Viewer, Action: "EVERYTHING"}}} {
		if err := a.Swap(rules); err == nil {
			t.Errorf("Swap accepted the rules %v, want an error", rules)
		}
	}
	select {
	case <-changed:
		t.Error("a refused policy closed the channel of Changed")
	default:
	}
	if got := decide(t, a, authz.Principal{ID: "ola", TenantID: "acme"}, authz.Pause, shopDev); !got.Allowed ||
		got.Version != 1 {
		t.Errorf("the decision after refused policies is %+v, want the one before", got)
	}
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() { _ = a.Swap(nil) })
	}
	all.Wait()
	if got := decide(t, a, authz.Principal{ID: "ola", TenantID: "acme"}, authz.Pause, shopDev); got.Allowed ||
		got.Version != 9 || got.RequiredRole != "" {
		t.Errorf("the decision under an empty policy is %+v, want a denial", got)
	}
}

func TestAllows_ListsActionsInOrder(t *testing.T) {
	t.Parallel()
	a := authorizer(t, directory(t))
	if diff := cmp.Diff([]authz.Action{authz.Read, authz.Start, authz.Pause, authz.Resume, authz.Annotate,
		authz.CreateToken},
		a.Allows(authz.Principal{ID: "x", TenantID: "acme"}, grant(authz.Operator))); diff != "" {
		t.Errorf("an Operator's actions (-want +got):\n%s", diff)
	}
}

// The budget of a decision is 50 us at p99. It does no I/O and must not allocate.
func BenchmarkDecide(b *testing.B) {
	var accounts []authz.Account
	for i := range 1000 {
		accounts = append(accounts, account(fmt.Sprintf("p%d", i), grant(authz.Viewer, "a", "b"),
			grant(authz.Operator, "c", "d"), grant(authz.Engineer)))
	}
	a := authorizer(b, directory(b, accounts...))
	p := authz.Principal{ID: "p500", TenantID: "acme"}
	b.ReportAllocs()
	for b.Loop() {
		if d, err := a.Decide(p, authz.Cancel, shopDev); err != nil || !d.Allowed {
			b.Fatal(d, err)
		}
	}
}

// A worker without queues serves all queues of its tenants. A pattern is a name, or a prefix of names with a trailing
// *.
func TestWorker_MayServeQueue(t *testing.T) {
	t.Parallel()
	worker := func(queues ...string) (authz.Worker, error) {
		a := account("w")
		a.TenantID, a.Worker, a.Serves, a.Queues = "", true, []string{"acme"}, queues
		d, err := authz.NewDirectory([]authz.Account{a}, clock)
		if err != nil {
			return authz.Worker{}, err
		}
		return d.AuthenticateWorker("token of w")
	}
	for _, c := range []struct {
		queues []string
		queue  string
		want   bool
	}{
		{nil, "tq-data-dev", true}, {[]string{"tq-data-dev"}, "tq-data-dev", true}, {[]string{"tq-data-dev"}, "tq-data-dev2",
			false},
		{[]string{"tq-data-*"}, "tq-data-prod", true}, {[]string{"tq-data-*"}, "tq-isolation-acme-prod", false},
		{[]string{"tq-a", "tq-b*"}, "tq-bc", true}, {[]string{"tq-data-dev"}, "", false},
		{[]string{"*"}, "tq-data-dev", true},
	} {
		w, err := worker(c.queues...)
		if err != nil || w.MayServeQueue(c.queue) != c.want {
			t.Errorf("queues %q and %q: %t, %v, want %t", c.queues, c.queue, !c.want, err, c.want)
		}
	}
	if (authz.Worker{ID: "w", Serves: []string{"*"}}).MayServeQueue("tq-data-dev") {
		t.Error("the zero Worker serves a queue, want none")
	}
	for _, bad := range []string{"", "tq-*-dev", "**", "tq data"} {
		if _, err := worker(bad); err == nil || !strings.Contains(err.Error(), "no queue") {
			t.Errorf("the queue %q: %v, want an error", bad, err)
		}
	}
	person := account("p")
	person.Queues = []string{"tq-data-dev"}
	if _, err := authz.NewDirectory([]authz.Account{person}, clock); err == nil || !strings.Contains(err.Error(),
		"only a worker serves queues") {
		t.Errorf("an account with queues that is no worker: %v, want an error", err)
	}
}
