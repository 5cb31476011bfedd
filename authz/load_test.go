package authz_test

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/casbin/casbin/v2"
	"github.com/casbin/casbin/v2/model"
	"github.com/google/go-cmp/cmp"

	"github.com/dvt-engine/dvt/authz"
)

// moving is a clock that a test can set.
type moving struct{ off atomic.Int64 }

func (m *moving) now() time.Time      { return now.Add(time.Duration(m.off.Load())) }
func (m *moving) set(d time.Duration) { m.off.Store(int64(d)) }
func given(doc authz.Document) authz.Stored {
	return authz.Stored{Version: 1, Policies: []authz.StoredPolicy{{TenantID: "acme", Version: 1, Document: &doc}}}
}
func holder(id string, r authz.Role, place ...string) authz.PrincipalGrant {
	g := grant(r, place...)
	return authz.PrincipalGrant{Principal: id, Role: r, ProjectID: g.ProjectID, EnvironmentID: g.EnvironmentID}
}

func loaded(t testing.TB, clock func() time.Time, s authz.Stored, accounts ...authz.Account) *authz.Authorizer {
	t.Helper()
	d, err := authz.NewDirectory(accounts, clock)
	if err != nil {
		t.Fatal(err)
	}
	a := authorizer(t, d)
	if err := a.Load(s); err != nil {
		t.Fatal(err)
	}
	return a
}

func who(id string) authz.Principal { return authz.Principal{ID: id, TenantID: "acme"} }

// contract: T202
func TestLoad_AnOutageIsNoDenial(t *testing.T) {
	t.Parallel()
	clock := &moving{}
	a := loaded(t, clock.now, given(authz.Document{Grants: []authz.PrincipalGrant{holder("ola", authz.Operator)}}),
		account("ola", grant(authz.Viewer)))
	for _, c := range []struct {
		after time.Duration
		ok    bool
	}{{0, true}, {5 * time.Minute, true}, {5*time.Minute + time.Nanosecond, false}, {time.Hour, false}} {
		clock.set(c.after)
		d, err := a.Decide(who("ola"), authz.Pause, shopDev)
		if c.ok != (err == nil) || c.ok != d.Allowed || !c.ok && !errors.Is(err, authz.ErrUnavailable) {
			t.Errorf("after %v: %+v, %v", c.after, d, err)
		}
		if _, err := a.Authenticate("dvt_unknown"); !c.ok && !errors.Is(err, authz.ErrUnavailable) {
			t.Errorf("after %v Authenticate returned %v, want the same outage", c.after, err)
		}
	}
	a.Confirm()
	if !decide(t, a, who("ola"), authz.Pause, shopDev).Allowed {
		t.Error("no decision is made although the source is back")
	}
	if err := a.Load(authz.Stored{
		Version: 2, Policies: []authz.StoredPolicy{{TenantID: "acme", Version: 2}}}); err != nil {
		t.Fatal(err)
	}
	if d, err := a.Decide(who("ola"), authz.Pause, shopDev); d.Allowed || !errors.Is(err, authz.ErrUnavailable) {
		t.Errorf("a policy that cannot be read: %+v, %v, want ErrUnavailable", d, err)
	}
	if d, err := a.Decide(authz.Principal{ID: "m", TenantID: "globex"}, authz.Pause, shopDev); d.Allowed || err != nil {
		t.Errorf("a principal of another tenant: %+v, %v, want a plain denial that hides the outage", d, err)
	}
}

// The policy of a tenant replaces the grants of the settings and the default rules, for that tenant only.
// contract: O3
func TestLoad_PolicyOfATenantReplacesTheSettings(t *testing.T) {
	t.Parallel()
	other := account("mallory", grant(authz.Admin))
	other.TenantID = "globex"
	a := loaded(t, clock, authz.Stored{Version: 7}, account("ola", grant(authz.Operator)),
		account("ana", grant(authz.Admin)), other)
	if !decide(t, a, who("ola"), authz.Pause, shopDev).Allowed {
		t.Error("without a policy the grants of the settings do not apply")
	}
	if doc, version := a.Policy("acme"); version != 0 || len(doc.Grants) != 2 || !doc.SOD.Approve ||
		!doc.SOD.CompleteManual || doc.Rules != nil {
		t.Errorf("version %d %+v", version, doc)
	}
	changed := a.Changed()
	doc := authz.Document{
		Rules: []authz.Rule{{authz.Viewer, authz.Read, "*", "*"}, {authz.Viewer, authz.Pause, "shop", "dev"},
			{"LATER", authz.Read, "*", "*"}},
		Grants: []authz.PrincipalGrant{holder("ola", authz.Viewer, "shop", "*"), holder("eve", "LATER")},
	}
	if err := a.Load(given(doc)); err != nil {
		t.Fatal(err)
	}
	select {
	case <-changed:
	default:
		t.Error("Load did not close the channel of Changed")
	}
	prod := authz.Object{TenantID: "acme", ProjectID: "shop", EnvironmentID: "prod"}
	for _, c := range []struct {
		id     string
		action authz.Action
		o      authz.Object
		rule   string
	}{
		{"ola", authz.Read, prod, "p, VIEWER, READ"}, {"ola", authz.Pause, shopDev, "p, VIEWER, PAUSE, shop, dev"},
		{"ola", authz.Pause, prod, ""},
		{"ana", authz.Read, prod, ""}, {"eve", authz.Read, prod, ""}, {"ola", authz.Resume, shopDev, ""},
	} {
		if d := decide(t, a, who(c.id), c.action, c.o); d.Rule != c.rule || d.Allowed != (c.rule != "") || d.Policy != 1 {
			t.Errorf("%s %s on %v: %+v, want the rule %q", c.id, c.action, c.o, d, c.rule)
		}
	}
	if d := decide(t, a, authz.Principal{ID: "mallory", TenantID: "globex"}, authz.Cancel,
		authz.Object{TenantID: "globex", ProjectID: "x", EnvironmentID: "y"}); !d.Allowed || d.Policy != 0 {
		t.Errorf("another tenant: %+v, want it unaffected", d)
	}
	if could := a.WhoCould(authz.Pause, shopDev); !cmp.Equal(could, []string{"ola"}) {
		t.Errorf("%v could pause, want only ola", could)
	}
}

// The test compares random policies with Casbin, which matches projects and environments itself.
// contract: O3
func TestLoad_LookUpAgreesWithCasbin(t *testing.T) {
	t.Parallel()
	const scoped = `
[request_definition]
r = role, act, project, environment
[policy_definition]
p = role, act, project, environment
[role_definition]
g = _, _
[policy_effect]
e = some(where (p.eft == allow))
[matchers]
m = g(r.role, p.role) && r.act == p.act && (p.project == "*" || p.project == r.project) && (p.environment == "*" || p.environment == r.environment)
`
	r := rand.New(rand.NewPCG(7, 8))
	projects, environments := []string{"*", "shop", "store"}, []string{"*", "dev", "prod"}
	roles, actions := authz.Roles(), authz.Actions()
	for range 60 {
		m, err := model.NewModelFromString(scoped)
		if err != nil {
			t.Fatal(err)
		}
		e, err := casbin.NewEnforcer(m)
		if err != nil {
			t.Fatal(err)
		}
		for _, pair := range [][]string{{"ADMIN", "ENGINEER"}, {"ENGINEER", "OPERATOR"}, {"OPERATOR", "VIEWER"}} {
			if _, err := e.AddGroupingPolicy(pair[0], pair[1]); err != nil {
				t.Fatal(err)
			}
		}
		doc := authz.Document{Rules: []authz.Rule{}}
		for range r.IntN(12) {
			rule := authz.Rule{Role: roles[r.IntN(len(roles))], Action: actions[r.IntN(4)], ProjectID: projects[r.IntN(3)],
				EnvironmentID: environments[r.IntN(3)]}
			doc.Rules = append(doc.Rules, rule)
			if _, err := e.AddPolicy(string(rule.Role), string(rule.Action), rule.ProjectID, rule.EnvironmentID); err != nil {
				t.Fatal(err)
			}
		}
		for _, role := range roles {
			doc.Grants = append(doc.Grants, holder(string(role), role))
		}
		a := loaded(t, clock, given(doc))
		for _, role := range roles {
			for _, action := range actions[:5] {
				for _, project := range projects[1:] {
					for _, environment := range environments[1:] {
						want, err := e.Enforce(string(role), string(action), project, environment)
						if err != nil {
							t.Fatal(err)
						}
						got := decide(t, a, who(string(role)), action, authz.Object{TenantID: "acme", ProjectID: project,
							EnvironmentID: environment})
						if got.Allowed != want {
							t.Fatalf("%v: %s %s on %s/%s: %t, Casbin says %t", doc.Rules, role, action, project, environment, got.Allowed,
								want)
						}
					}
				}
			}
		}
	}
}

func TestCheck_ReportsEveryProblemAndLockOuts(t *testing.T) {
	t.Parallel()
	gone := account("gone")
	gone.ExpiresAt = now
	a := loaded(t, clock, authz.Stored{}, account("ana"), account("ola"), gone)
	until := now.Add(time.Hour)
	bad := authz.Document{
		Rules: []authz.Rule{{"BOSS", "FLY", "", "*"}, {authz.Viewer, authz.Read, "*", "*"},
			{authz.Viewer, authz.Read, "*", "*"}},
		Grants: []authz.PrincipalGrant{{Role: authz.Viewer, ProjectID: "a b", EnvironmentID: "*"},
			{Principal: "x", Role: authz.Viewer, ProjectID: "*", EnvironmentID: "*", BreakGlass: true}},
		Approvals:  []authz.Approval{{"*", "*", 0}},
		BreakGlass: []authz.BreakGlass{{"ana", authz.Admin, 0}},
	}
	var got []string
	for _, p := range a.Check("acme", bad) {
		got = append(got, p.Path+" "+p.Code)
	}
	want := []string{
		"rules[0].role UNKNOWN", "rules[0].action UNKNOWN", "rules[0].projectId INVALID", "rules[2] DUPLICATE",
		"grants[0].principal INVALID",
		"grants[0].projectId INVALID", "grants[1].expiresAt REQUIRED", "approvals[0].required RANGE",
		"breakGlass[0].maxMinutes RANGE",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
	lapses := holder("ana", authz.Admin)
	lapses.ExpiresAt = &until
	narrow := authz.DefaultPolicy()
	narrow = slices.DeleteFunc(narrow, func(r authz.Rule) bool { return r.Action == authz.SetPolicy })
	for name, c := range map[string]struct {
		doc authz.Document
		ok  bool
	}{
		"an admin":    {authz.Document{Grants: []authz.PrincipalGrant{holder("ana", authz.Admin)}}, true},
		"nobody":      {authz.Document{}, false},
		"an engineer": {authz.Document{Grants: []authz.PrincipalGrant{holder("ana", authz.Engineer)}}, false},
		"of one project": {authz.Document{Grants: []authz.PrincipalGrant{holder("ana", authz.Admin, "shop", "*")}},
			false},
		"expired account":   {authz.Document{Grants: []authz.PrincipalGrant{holder("gone", authz.Admin)}}, false},
		"no account":        {authz.Document{Grants: []authz.PrincipalGrant{holder("eve", authz.Admin)}}, false},
		"a grant that ends": {authz.Document{Grants: []authz.PrincipalGrant{lapses}}, false},
		"no rule": {authz.Document{Rules: narrow, Grants: []authz.PrincipalGrant{holder("ana", authz.Admin)}},
			false},
		"a rule for an operator": {
			authz.Document{Rules: append(slices.Clone(narrow), authz.Rule{authz.Operator, authz.SetPolicy, "*", "*"}),
				Grants: []authz.PrincipalGrant{holder("ola", authz.Operator)}}, true},
	} {
		ps := a.Check("acme", c.doc)
		if (len(ps) == 0) != c.ok || !c.ok && ps[0].Code != authz.LockedOut {
			t.Errorf("%s: the problems are %+v, want LockedOut: %t", name, ps, !c.ok)
		}
	}
	many := authz.Document{Grants: []authz.PrincipalGrant{holder("ana", authz.Admin)}}
	for i := range authz.MaxPolicyRows {
		many.Grants = append(many.Grants, holder(fmt.Sprintf("p%d", i), authz.Viewer))
	}
	if ps := a.Check("acme", many); len(ps) != 1 || ps[0].Code != "RANGE" {
		t.Errorf("%d rows: the problems are %+v, want one RANGE", len(many.Grants), ps)
	}
}

// contract: O6
func TestToken_LimitsItsPrincipal(t *testing.T) {
	t.Parallel()
	clock := &moving{}
	secret, _ := authz.NewSecret()
	token := func(id, principal string, grants ...authz.Grant) authz.Token {
		return authz.Token{ID: id, TenantID: "acme", Principal: principal, SHA256: sha256.Sum256([]byte(secret + id)),
			Grants: grants, ExpiresAt: now.Add(time.Hour)}
	}
	stored := given(authz.Document{Grants: []authz.PrincipalGrant{
		holder("ana", authz.Admin), holder("ola", authz.Operator, "shop", "*"), holder("service/ci", authz.Operator, "shop",
			"dev"), holder("left", authz.Admin),
	}})
	stored.Tokens = []authz.Token{
		token("1", "ana", grant(authz.Viewer)), token("2", "ola", grant(authz.Admin, "*", "dev")),
		token("3", "service/ci", grant(authz.Engineer)),
		token("4", "left", grant(authz.Admin)), token("5", "service/none", grant(authz.Admin)),
	}
	a := loaded(t, clock.now, stored, account("ana"), account("ola"))
	store := authz.Object{TenantID: "acme", ProjectID: "store", EnvironmentID: "dev"}
	for _, c := range []struct {
		id     string
		action authz.Action
		o      authz.Object
		want   bool
	}{
		{"1", authz.Read, shopDev, true}, {"1", authz.Pause, shopDev, false}, {"1", authz.SetPolicy,
			authz.Object{TenantID: "acme", ProjectID: "*", EnvironmentID: "*"}, false},
		{"2", authz.Pause, shopDev, true}, {"2", authz.Cancel, shopDev, false}, {"2", authz.Pause, store, false},
		{"3", authz.Pause, shopDev, true}, {"3", authz.Cancel, shopDev, false}, {"3", authz.Pause, store, false},
		{"5", authz.Read, shopDev, false},
	} {
		p, err := a.Authenticate(secret + c.id)
		if err != nil || p.TokenID != c.id {
			t.Fatalf("token %s: %+v %v", c.id, p, err)
		}
		if d := decide(t, a, p, c.action, c.o); d.Allowed != c.want {
			t.Errorf("token %s %s on %v: %+v", c.id, c.action, c.o, d)
		}
	}
	if _, err := a.Authenticate(secret + "4"); !errors.Is(err, authz.ErrUnauthenticated) {
		t.Errorf("the token of a principal without an account: %v, want ErrUnauthenticated", err)
	}
	p, err := a.Authenticate(secret + "2")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]authz.Grant{grant(authz.Admin, "shop", "dev")}, a.Grants(p)); diff != "" {
		t.Errorf("the grants of the token (-want +got):\n%s", diff)
	}
	if used := a.TakeUsed(); len(used) != 4 || len(a.TakeUsed()) != 0 {
		t.Errorf("used %v", used)
	}
	clock.set(59 * time.Minute)
	a.Confirm()
	if _, err := a.Authenticate(secret + "2"); err != nil || len(a.TakeUsed()) != 0 {
		t.Errorf("a second use within the hour: %v, want no new use to store", err)
	}
	clock.set(time.Hour)
	if _, err := a.Authenticate(secret + "2"); !errors.Is(err, authz.ErrExpired) {
		t.Errorf("an expired token: %v, want ErrExpired", err)
	}
	if decide(t, a, p, authz.Pause, shopDev).Allowed {
		t.Error("a principal with an expired token may still pause")
	}
	clock.set(0)
	stored.Tokens = nil
	if err := a.Load(stored); err != nil {
		t.Fatal(err)
	}
	if decide(t, a, p, authz.Pause, shopDev).Allowed {
		t.Error("a principal with a revoked token may still pause")
	}
}

// contract: O6
func TestMayGive_NobodyGivesMoreThanItHas(t *testing.T) {
	t.Parallel()
	rules := append(authz.DefaultPolicy(), authz.Rule{authz.Viewer, authz.Cancel, "lab", "*"})
	a := loaded(t, clock, given(authz.Document{Rules: rules, Grants: []authz.PrincipalGrant{
		holder("ana", authz.Admin), holder("ola", authz.Operator, "shop", "*"), holder("vic", authz.Viewer),
		holder("pat", authz.Planner),
	}}), account("ana"))
	for _, c := range []struct {
		id    string
		grant authz.Grant
		want  bool
	}{
		{"ana", grant(authz.Admin), true}, {"ana", grant(authz.System), false}, {"ola", grant(authz.Operator, "shop", "dev"),
			true},
		{"ola", grant(authz.Operator), false}, {"ola", grant(authz.Engineer, "shop", "dev"), false},
		{"vic", grant(authz.Viewer), true},
		{"pat", grant(authz.Viewer), false}, {"pat", grant(authz.Viewer, "shop", "*"), true},
		{"nobody", grant(authz.Viewer), false},
	} {
		if got, err := a.MayGive(who(c.id), []authz.Grant{c.grant}); err != nil || got != c.want {
			t.Errorf("%s may give %v: %t, %v, want %t", c.id, c.grant, got, err, c.want)
		}
	}
}

func TestUntil_IsTheEarliestExpiry(t *testing.T) {
	t.Parallel()
	clock := &moving{}
	until := now.Add(10 * time.Minute)
	taken := holder("ola", authz.Admin)
	taken.ExpiresAt, taken.BreakGlass = &until, true
	a := loaded(t, clock.now, given(authz.Document{Grants: []authz.PrincipalGrant{holder("ola", authz.Operator), taken}}),
		account("ola"))
	if !decide(t, a, who("ola"), authz.EmergencyStop, shopDev).Allowed || !a.Until(who("ola")).Equal(until) ||
		len(a.Grants(who("ola"))) != 2 {
		t.Errorf("until %v with %v", a.Until(who("ola")), a.Grants(who("ola")))
	}
	clock.set(10 * time.Minute)
	a.Confirm()
	if decide(t, a, who("ola"), authz.EmergencyStop, shopDev).Allowed || !decide(t, a, who("ola"), authz.Pause,
		shopDev).Allowed || !a.Until(who("ola")).IsZero() {
		t.Errorf("until %v with %v", a.Until(who("ola")), a.Grants(who("ola")))
	}
}

func TestThrottle_SlowsOnlyAddressesThatGuess(t *testing.T) {
	t.Parallel()
	clock := &moving{}
	th := authz.NewThrottle(clock.now)
	const proxy = "192.0.2.1"
	th.RecordResult(proxy, "good", true)
	for i := range 10 {
		if th.Wait(proxy, "x") != 0 {
			t.Fatalf("the address must wait after %d failures, want 10 free ones", i)
		}
		th.RecordResult(proxy, "x", false)
	}
	at := time.Duration(0)
	for _, want := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second, 8 * time.Second} {
		if w := th.Wait(proxy, "x"); w != 0 {
			t.Fatalf("at %v still %v to wait", at, w)
		}
		for range 7 { // use up the failures that became free in the meantime
			if th.Wait(proxy, "x") == 0 {
				th.RecordResult(proxy, "x", false)
			}
		}
		if w := th.Wait(proxy, "x"); w != want {
			t.Fatalf("the address must wait %v, want %v", w, want)
		}
		if th.Wait(proxy, "good") != 0 {
			t.Error("a token that was good before must wait")
		}
		if th.Wait("192.0.2.2", "x") != 0 || th.Wait("2001:db8:1::1", "x") != 0 {
			t.Error("another address must wait")
		}
		at += want
		clock.set(at)
	}
	for range 3 {
		th.RecordResult(proxy, "good", false) // revoked
	}
	if th.Wait(proxy, "good") == 0 {
		t.Error("a token that was revoked need not wait")
	}
	clock.set(at + 3*time.Minute)
	th.RecordResult(proxy, "x", false)
	if th.Wait(proxy, "x") != 0 {
		t.Error("an address without failures for a long time must wait after the first one")
	}
	for range 12 {
		th.RecordResult("2001:db8::1", "x", false)
	}
	if th.Wait("2001:db8::ffff", "y") == 0 {
		t.Error("another address of the same /64 need not wait")
	}
	if w := (*authz.Throttle)(nil).Wait(proxy, strings.Repeat("x", 9)); w != 0 {
		t.Error("a nil Throttle makes callers wait")
	}
}
