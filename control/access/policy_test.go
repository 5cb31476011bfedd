package access_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/control/access"
	"github.com/dvt-engine/dvt/control/controltest"
	"github.com/dvt-engine/dvt/control/runs"
	"github.com/dvt-engine/dvt/control/watch"
	"github.com/dvt-engine/dvt/internal/testtime"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/server/usecases"
	"github.com/dvt-engine/dvt/store"
)

// contract: O3, T178
func TestSetPolicy_TakesEffectBeforeItAnswers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx, admin, viewer := t.Context(), w.Principal("dev-admin"), w.Principal("dev-viewer")
	r := w.CreateRunning("r", "s1")
	if _, err := w.Run(ctx, viewer, r, nil); err != nil {
		t.Fatal(err)
	}
	in := access.SetPolicy{RequestID: "p1", Document: w.Document(controltest.WithoutGrants("dev-viewer")),
		Reason: "she left"}
	p, err := w.SetPolicy(ctx, admin, in)
	if err != nil || p.Version != 1 || p.Actor != "dev-admin" || p.Reason != "she left" {
		t.Fatalf("the policy is %+v with the error %v, want version 1 by dev-admin", p, err)
	}
	if _, err := w.Run(ctx, viewer, r, nil); controltest.CodeOf(err) != run.CodeNotFound {
		t.Errorf("the principal that lost the right gets %v, want NOT_FOUND", err)
	}
	if again, err := w.SetPolicy(ctx, admin, in); err != nil || again.Version != 1 || !again.At.Equal(p.At) {
		t.Errorf("the repeated change is answered %+v with the error %v, want version 1", again, err)
	}
	late := in
	late.RequestID = "p2"
	var moved *control.Error
	if _, err := w.SetPolicy(ctx, admin, late); !errors.As(err, &moved) || moved.Code != run.CodePolicyMoved ||
		moved.PolicyVersion != 1 {
		t.Errorf("a change of an old version returned %v, want POLICY_MOVED", err)
	}
	bad := access.SetPolicy{RequestID: "p3", ExpectedVersion: 1,
		Document: authz.Document{
			Grants: []authz.PrincipalGrant{{Principal: "x", Role: "BOSS", ProjectID: "*", EnvironmentID: "*"}}}}
	if _, err := w.SetPolicy(ctx, admin, bad); !errors.As(err, &moved) || moved.Code != run.CodeBadInput ||
		len(moved.Violations) != 2 {
		t.Errorf("an invalid document returned %v, want BAD_USER_INPUT", err)
	}
	out := access.SetPolicy{RequestID: "p4", ExpectedVersion: 1,
		Document: w.Document(controltest.WithoutGrants("dev-admin")),
		Reason:   "oops"}
	if _, err := w.SetPolicy(ctx, admin, out); !errors.As(err, &moved) || len(moved.Violations) != 1 ||
		moved.Violations[0].Code != authz.LockedOut {
		t.Errorf("a document without an Admin returned %v, want BAD_USER_INPUT", err)
	}
	for _, id := range []string{"dev-engineer", "dev-sre", "dev-planner"} {
		if _, err := w.SetPolicy(ctx, w.Principal(id), in); controltest.CodeOf(err) != run.CodeForbidden {
			t.Errorf("SetPolicy by %s returned %v, want FORBIDDEN", id, err)
		}
	}
	if _, err := w.Policy(ctx, w.Principal("dev-mallory")); err != nil {
		t.Errorf("an Admin of another tenant gets %v, want her own policy", err)
	}
	page, err := w.PolicyHistory(ctx, admin, 10, 0)
	if err != nil || len(page.Policies) != 1 || page.HasNext {
		t.Errorf("the history is %+v with the error %v, want one version", page, err)
	}
	for where, want := range map[string]int{
		`action = 'SET_POLICY' AND outcome = 'ACCEPTED' AND reason = 'she left' AND request_id = 'p1' AND detail LIKE '%"policyVersion":1%'`: 1,
		`action = 'SET_POLICY' AND outcome = 'REJECTED' AND code = 'POLICY_MOVED'`:                                                           1,
		`action = 'SET_POLICY' AND outcome = 'REJECTED' AND code = 'BAD_USER_INPUT'`:                                                         2,
		`action = 'SET_POLICY' AND outcome = 'DENIED' AND code = 'FORBIDDEN'`:                                                                3,
	} {
		if n := w.CountAuditRows(where); n != want {
			t.Errorf("%d audit rows where %s, want %d", n, where, want)
		}
	}
}

// contract: O4
func TestSetPolicy_SetsTheSeparationOfDuties(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	if sod := w.Authz.SOD("acme"); !sod.Approve || !sod.CompleteManual {
		t.Errorf("the default separation of duties is %+v, want both rules", sod)
	}
	doc := w.Document(func(d *authz.Document) { d.SOD.CompleteManual = false })
	if _, err := w.SetPolicy(t.Context(), w.Principal("dev-admin"), access.SetPolicy{RequestID: "p", Document: doc,
		Reason: "small team"}); err != nil {
		t.Fatal(err)
	}
	if sod := w.Authz.SOD("acme"); !sod.Approve || sod.CompleteManual {
		t.Errorf("the separation of duties is %+v, want the rule for approvals only", sod)
	}
}

func TestBreakGlass_OnlyForPrincipalsThatThePolicyNames(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx, ola := t.Context(), w.Principal("dev-operator")
	in := access.BreakGlass{RequestID: "b1", Role: authz.Admin, Minutes: 30, Reason: "prod is down"}
	if _, err := w.BreakGlass(ctx, ola, in); controltest.CodeOf(err) != run.CodeForbidden {
		t.Errorf("break-glass without a policy returned %v, want FORBIDDEN", err)
	}
	doc := w.Document(func(d *authz.Document) {
		d.BreakGlass = []authz.BreakGlass{{Principal: "dev-operator", Role: authz.Admin, MaxMinutes: 60}}
	})
	if _, err := w.SetPolicy(ctx, w.Principal("dev-admin"), access.SetPolicy{RequestID: "p", Document: doc,
		Reason: "on call"}); err != nil {
		t.Fatal(err)
	}
	var denied *control.Error
	if _, err := w.BreakGlass(ctx, w.Principal("dev-engineer"), in); !errors.As(err, &denied) || denied.Denial == nil ||
		!slices.Equal(denied.Denial.WhoCould, []string{"dev-operator"}) {
		t.Errorf("break-glass by another principal returned %v, want FORBIDDEN with who could", err)
	}
	long := in
	long.Minutes = 61
	if _, err := w.BreakGlass(ctx, ola, long); controltest.CodeOf(err) != run.CodeBadInput {
		t.Errorf("break-glass for too long returned %v, want BAD_USER_INPUT", err)
	}
	other := in
	other.Role = authz.SRE
	if _, err := w.BreakGlass(ctx, ola, other); controltest.CodeOf(err) != run.CodeForbidden {
		t.Errorf("break-glass for another role returned %v, want FORBIDDEN", err)
	}
	got, err := w.BreakGlass(ctx, ola, in)
	if err != nil || got.PolicyVersion != 2 || got.Role != authz.Admin {
		t.Fatalf("break-glass returned %+v with the error %v, want ADMIN by version 2", got, err)
	}
	if v := w.Viewer(ola); !v.BreakGlassUntil.Equal(got.Until) || v.PolicyVersion != 2 {
		t.Errorf("the viewer is %+v, want the end of break-glass and version 2", v)
	}
	if again, err := w.BreakGlass(ctx, ola, in); err != nil || again != got {
		t.Errorf("the repeated request is answered %+v with the error %v, want the first answer", again, err)
	}
	if n := w.CountAuditRows(
		`action = 'BREAK_GLASS' AND outcome = 'ACCEPTED' AND actor = 'dev-operator' AND reason = 'prod is down'`); n != 1 {
		t.Errorf("there are %d audit rows of break-glass, want 1", n)
	}
	if v := w.Viewer(ola); len(v.BreakGlass) != 1 || v.BreakGlass[0].MaxMinutes != 60 {
		t.Errorf("the viewer may take %+v, want ADMIN for 60 minutes", v.BreakGlass)
	} else if allows := v.BreakGlass[0].Actions; !slices.Contains(allows, authz.SetPolicy) ||
		slices.Contains(allows, authz.Debug) {
		t.Errorf("the role that the viewer may take allows %v, want SET_POLICY and not DEBUG, which an SRE has", allows)
	}
	w.Clock.Advance(31 * time.Minute)
	w.Authz.Confirm()
	if v := w.Viewer(ola); !v.BreakGlassUntil.IsZero() || len(v.Grants) != 1 {
		t.Errorf("after the end of break-glass the viewer is %+v, want one grant", v)
	}
}

func TestPolicyHistory_SaysWhatEachVersionChanged(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx, admin := t.Context(), w.Principal("dev-admin")
	for n, change := range []func(*authz.Document){
		func(d *authz.Document) {
			d.BreakGlass = []authz.BreakGlass{{Principal: "dev-operator", Role: authz.Admin, MaxMinutes: 60}}
		},
		func(d *authz.Document) {
			d.SOD.Approve = false
			d.Grants = append(d.Grants, authz.PrincipalGrant{Principal: "zoe", Role: authz.Viewer, ProjectID: "shop",
				EnvironmentID: "prod"})
			d.Sandbox = []authz.Sandbox{{ProjectID: "*", EnvironmentID: "prod", Memory: 1 << 31, Connect: []string{}}}
		},
	} {
		controltest.Must[access.Policy](t)(w.SetPolicy(ctx, admin, access.SetPolicy{RequestID: fmt.Sprint("p", n),
			ExpectedVersion: int64(n), Document: w.Document(change), Reason: "because"}))
	}
	want := [][]string{
		{
			"- the requester of a run may not approve it",
			"+ zoe is Viewer in shop/prod",
			"+ the requester of a run may approve it",
			"+ programs in environment prod of every project: at most 2147483648 bytes of memory, no connections",
		},
		{"+ dev-operator may become Admin by break-glass for at most 60 minutes"},
	}
	// The last version of a page is compared too, whether the page before it is on this page or not.
	for _, size := range []int{1, 2} {
		page := controltest.Must[access.PolicyPage](t)(w.PolicyHistory(ctx, admin, size, 0))
		for i, p := range page.Policies {
			if diff := cmp.Diff(want[i], p.Changed); diff != "" {
				t.Errorf("pages of %d, version %d (-want +got):\n%s", size, p.Version, diff)
			}
		}
	}
}

func TestEndBreakGlass_TakesBackTheRoleAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx, ola := t.Context(), w.Principal("dev-operator")
	doc := w.Document(func(d *authz.Document) {
		d.BreakGlass = []authz.BreakGlass{{Principal: "dev-operator", Role: authz.Admin, MaxMinutes: 60}}
	})
	controltest.Must[access.Policy](t)(w.SetPolicy(ctx, w.Principal("dev-admin"),
		access.SetPolicy{RequestID: "p", Document: doc,
			Reason: "on call"}))
	controltest.Must[access.BreakGlassGrant](t)(w.BreakGlass(ctx, ola,
		access.BreakGlass{RequestID: "b1", Role: authz.Admin,
			Minutes: 30, Reason: "prod is down"}))
	token := ola
	token.TokenID = "t1"
	if _, err := w.EndBreakGlass(ctx, token, "e0"); controltest.CodeOf(err) != run.CodeForbidden {
		t.Errorf("an API token got %v, want FORBIDDEN", err)
	}
	if got := w.Viewer(token).BreakGlass; len(got) > 0 {
		t.Errorf("an API token is told that it may take %v, want nothing", got)
	}
	// The end by somebody else changes nothing of the role.
	other := controltest.Must[access.Policy](t)(w.EndBreakGlass(ctx, w.Principal("dev-engineer"), "e1"))
	if other.Version != 2 {
		t.Errorf("the policy is at version %d after the request of somebody else, want 2", other.Version)
	}
	for range 2 { // the second request changes nothing
		if version := controltest.Must[access.Policy](t)(w.EndBreakGlass(ctx, ola, "e2")).Version; version != 3 {
			t.Errorf("the policy is at version %d, want 3", version)
		}
	}
	if v := w.Viewer(ola); !v.BreakGlassUntil.IsZero() || len(v.Grants) != 1 {
		t.Errorf("after the end the viewer is %+v, want one grant", v)
	}
	if n := w.CountAuditRows(`action = 'END_BREAK_GLASS' AND outcome = 'ACCEPTED' AND actor = 'dev-operator'`); n != 1 {
		t.Errorf("there are %d audit rows of the end, want 1", n)
	}
}

// contract: O6
func TestTokens_ATokenIsMadeUsedAndRevoked(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx, ola := t.Context(), w.Principal("dev-operator")
	everywhere := func(r authz.Role) []authz.Grant {
		return []authz.Grant{{Role: r, ProjectID: "*",
			EnvironmentID: "*"}}
	}
	in := access.CreateToken{RequestID: "t1", Name: "laptop", Grants: everywhere(authz.Viewer)}
	made, err := w.CreateToken(ctx, ola, in)
	if err != nil || !strings.HasPrefix(made.Secret, "dvt_") || made.Token.Principal != "dev-operator" {
		t.Fatalf("the token is %+v with the error %v, want one of dev-operator with its secret", made, err)
	}
	if p := made.Token.Prefix; p != made.Secret[:10] {
		t.Errorf("the token begins with %q, want the first 10 characters of its secret", p)
	}
	if life := made.Token.ExpiresAt.Sub(w.Clock.Now()); life < 89*24*time.Hour || life > 90*24*time.Hour {
		t.Errorf("the token lives for %v, want 90 days", life)
	}
	if n := w.CountAuditRows(`action = 'CREATE_TOKEN' AND outcome = 'ACCEPTED' AND (detail LIKE '%` + made.Secret +
		`%' OR reason LIKE '%` + made.Secret + `%')`); n != 0 {
		t.Error("the audit contains the secret")
	}
	if again, err := w.CreateToken(ctx, ola, in); err != nil || again.Secret != "" || again.Token.ID != made.Token.ID {
		t.Errorf("the repeated request is answered %+v with the error %v, want the token without its secret",
			again, err)
	}
	p, err := w.Authz.Authenticate(made.Secret)
	if err != nil {
		t.Fatal(err)
	}
	r := w.CreateRunning("r", "s1")
	stream, err := w.WatchRun(ctx, p, watch.WatchRun{RunID: r})
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	if _, err := stream.Next(ctx); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		p    authz.Principal
		in   access.CreateToken
		want run.Code
	}{
		"more than its maker": {ola, access.CreateToken{RequestID: "x", Name: "x", Grants: everywhere(authz.Engineer)},
			run.CodeForbidden},
		"made with a token": {p, access.CreateToken{RequestID: "x", Name: "x", Grants: everywhere(authz.Viewer)},
			run.CodeForbidden},
		"a service": {ola, access.CreateToken{RequestID: "x", Name: "x", Service: "ci",
			Grants: everywhere(authz.Viewer)}, run.CodeForbidden},
		"for ten years": {ola, access.CreateToken{RequestID: "x", Name: "x", Grants: everywhere(authz.Viewer),
			ExpiresAt: w.Clock.Now().AddDate(10, 0, 0)}, run.CodeBadInput},
		"nothing": {ola, access.CreateToken{RequestID: "x", Name: "x"}, run.CodeBadInput},
		"another name": {ola, access.CreateToken{RequestID: "t1", Name: "other", Grants: everywhere(authz.Viewer)},
			run.CodeRequestConflict},
		"a service's by Admin": {w.Principal("dev-admin"), access.CreateToken{RequestID: "s", Name: "ci", Service: "ci",
			Grants: everywhere(authz.Operator)}, ""},
	} {
		if _, err := w.CreateToken(ctx, c.p, c.in); controltest.CodeOf(err) != c.want || c.want == "" && err != nil {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	own, err1 := w.Tokens(ctx, ola, access.TokensQuery{})
	all, err2 := w.Tokens(ctx, w.Principal("dev-admin"), access.TokensQuery{All: true, Live: true})
	if _, err := w.Tokens(ctx, ola, access.TokensQuery{All: true}); err1 != nil || err2 != nil ||
		controltest.CodeOf(err) != run.CodeForbidden || len(own.Tokens) != 1 || len(all.Tokens) != 2 ||
		own.Tokens[0].SHA256 != "" {
		t.Errorf("the own tokens are %+v, all tokens %+v, and another principal gets %v; want 1, 2 and FORBIDDEN",
			own, all, err)
	}
	for _, id := range []string{"dev-viewer", "dev-mallory"} {
		if _, err := w.RevokeToken(ctx, w.Principal(id), access.RevokeToken{RequestID: "r", ID: made.Token.ID,
			Reason: "mine"}); controltest.CodeOf(err) != run.CodeNotFound {
			t.Errorf("the revocation by %s returned %v, want NOT_FOUND", id, err)
		}
	}
	ended := make(chan error, 1)
	go func() {
		for {
			if _, err := stream.Next(context.WithoutCancel(ctx)); err != nil {
				ended <- err
				return
			}
		}
	}()
	gone, err := w.RevokeToken(ctx, ola, access.RevokeToken{RequestID: "r", ID: made.Token.ID, Reason: "lost"})
	if err != nil || gone.RevokedAt == nil {
		t.Fatalf("the revoked token is %+v with the error %v, want the time of the revocation", gone, err)
	}
	select {
	case err := <-ended:
		if controltest.CodeOf(err) != run.CodeForbidden || !strings.Contains(err.Error(), "was revoked") {
			t.Errorf("the stream ended with %v, want FORBIDDEN for a revoked token", err)
		}
	case <-time.After(testtime.Of(time.Second)):
		t.Error("the stream of a revoked token went on for a second")
	}
	if _, err := w.Authz.Authenticate(made.Secret); !errors.Is(err, authz.ErrUnauthenticated) {
		t.Errorf("a revoked token returned %v, want ErrUnauthenticated", err)
	}
}

func TestWhoCould_NeedsReadPolicy(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := w.CreateRunning("r", "s1")
	names, err := w.WhoCould(t.Context(), w.Principal("dev-admin"), access.WhoCould{Action: authz.EscalateAlert, RunID: r})
	if err != nil || !slices.Equal(names, []string{"dev-system"}) {
		t.Errorf("the principals are %v with the error %v, want dev-system", names, err)
	}
	for id, want := range map[string]run.Code{"dev-engineer": run.CodeForbidden, "dev-mallory": run.CodeNotFound} {
		if _, err := w.WhoCould(t.Context(), w.Principal(id), access.WhoCould{Action: authz.Pause,
			RunID: r}); controltest.CodeOf(err) != want {
			t.Errorf("WhoCould by %s returned %v, want the code of its rights", id, err)
		}
	}
	if _, err := w.WhoCould(t.Context(), w.Principal("dev-admin"), access.WhoCould{Action: "FLY",
		RunID: r}); controltest.CodeOf(
		err) != run.CodeBadInput {
		t.Errorf("an unknown action returned %v, want BAD_USER_INPUT", err)
	}
	in := access.WhoCould{Action: authz.Start, ProjectID: "shop", EnvironmentID: "prod"}
	if names, err := w.WhoCould(t.Context(), w.Principal("dev-admin"), in); err != nil ||
		!slices.Contains(names, "dev-engineer") || slices.Contains(names, "dev-viewer") {
		t.Errorf("the principals of a scope are %v with the error %v", names, err)
	}
	if _, err := w.WhoCould(t.Context(), w.Principal("dev-engineer"), in); controltest.CodeOf(err) != run.CodeForbidden {
		t.Errorf("in a place whose policy one may not read: %v", err)
	}
	for _, in := range []access.WhoCould{{}, {RunID: r, ProjectID: "shop", EnvironmentID: "prod"}, {ProjectID: "shop"},
		{ProjectID: "shop", EnvironmentID: "*"}} {
		in.Action = authz.Start
		if _, err := w.WhoCould(t.Context(), w.Principal("dev-admin"), in); controltest.CodeOf(err) != run.CodeBadInput {
			t.Errorf("WhoCould of %+v returned %v, want BAD_USER_INPUT", in, err)
		}
	}
}

// broken is a store whose authority version cannot be read.
type broken struct{ store.Store }

func (broken) AuthorityVersion(context.Context) (int64, error) { return 0, store.ErrUnavailable }

// contract: T202
func TestFollowPolicy_KeepsTheLastGoodPolicyAndEndsCleanly(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *usecases.Config) { c.Store = broken{c.Store} })
	if err := w.LoadPolicy(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- w.FollowPolicy(ctx) }()
	r := w.CreateRunning("r", "s1")
	w.Clock.Advance(4 * time.Minute)
	if _, err := w.Run(t.Context(), w.Principal("dev-viewer"), r, nil); err != nil {
		t.Errorf("after 4 minutes the policy returned %v, want it in force", err)
	}
	w.Clock.Advance(2 * time.Minute)
	if _, err := w.SignalRun(t.Context(), w.Principal("dev-operator"), runs.SignalRun{RunID: r,
		Signal:  run.Signal{ID: "s", Type: run.Pause},
		Payload: []byte(`{}`)}); controltest.CodeOf(err) != run.CodeUnavailable {
		t.Errorf("after 6 minutes the policy returned %v, want UNAVAILABLE", err)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
