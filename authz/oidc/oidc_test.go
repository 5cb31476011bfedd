package oidc_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"github.com/google/go-cmp/cmp"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/authz/oidc"
	"github.com/dvt-engine/dvt/internal/testserver"
)

const callback = "http://127.0.0.1:1/auth/callback"

// clock is a clock that a test can move forward.
type clock struct{ ahead atomic.Int64 }

func (c *clock) now() time.Time          { return time.Now().Add(time.Duration(c.ahead.Load())) }
func (c *clock) forward(d time.Duration) { c.ahead.Add(int64(d)) }

// counting counts requests to the provider. It may put another ID token into an answer.
type counting struct {
	keys    atomic.Int64
	instead func() string
}

func (c *counting) RoundTrip(r *http.Request) (*http.Response, error) {
	if strings.Contains(r.URL.Path, "keys") {
		c.keys.Add(1)
	}
	if c.instead != nil && strings.HasSuffix(r.URL.Path, "/token") {
		doc, _ := json.Marshal(map[string]any{"access_token": "x", "token_type": "Bearer", "id_token": c.instead()})
		return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}},
			Body: io.NopCloser(bytes.NewReader(doc)), Request: r}, nil
	}
	return http.DefaultTransport.RoundTrip(r)
}

type world struct {
	*oidc.Providers
	op    *testserver.OIDCProvider
	clock clock
	calls counting
}

func newWorld(t *testing.T, change ...func(*oidc.Issuer)) *world {
	t.Helper()
	w := &world{op: testserver.OIDC(t, callback)}
	issuer := oidc.Issuer{
		Name: "corp", Label: "Corp", URL: w.op.URL, ClientID: "dvt", ClientSecret: "secret", Audience: "dvt-api",
		PrincipalClaim: "sub", TenantID: "acme", GroupsClaim: "groups",
	}
	for _, c := range change {
		c(&issuer)
	}
	w.Providers = oidc.New(oidc.Config{
		Issuers: []oidc.Issuer{issuer}, Callback: callback, Key: []byte(strings.Repeat("k", 32)), Skew: time.Minute,
		Now: w.clock.now, Logger: slog.New(slog.DiscardHandler), Transport: &w.calls,
	})
	return w
}

func (w *world) with(claims map[string]any) string {
	all := w.op.Claims("dvt-api")
	maps.Copy(all, claims)
	return w.op.Sign(all, "")
}

func (w *world) is(t *testing.T, what, token string, want error) authz.Principal {
	t.Helper()
	p, err := w.Authenticate(t.Context(), token)
	if !errors.Is(err, want) || want == nil && err != nil {
		t.Errorf("%s: %v, want %v", what, err, want)
	}
	return p
}

// contract: O6
func TestAuthenticate_AcceptsAJWTOfTheIssuer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	exp := time.Now().Add(time.Hour).Truncate(time.Second).UTC()
	p := w.is(t, "good", w.with(map[string]any{"exp": exp.Unix(), "groups": []any{"ops", "with space", 7, "ops", ""}}),
		nil)
	want := authz.Principal{ID: "ada", TenantID: "acme", Provider: "corp", Groups: []string{"group:ops"}, ExpiresAt: exp}
	if diff := cmp.Diff(want, p); diff != "" {
		t.Error(diff)
	}
	hour := time.Hour
	at := func(d time.Duration) int64 { return time.Now().Add(d).Unix() }
	for what, claims := range map[string]map[string]any{
		"another audience":  {"aud": "somebody"},
		"the client's":      {"aud": "dvt"},
		"another issuer":    {"iss": "https://elsewhere.example"},
		"the issuer with /": {"iss": w.op.URL + "/"},
		"no exp":            {"exp": nil},
		"not yet":           {"nbf": at(hour)},
		"made tomorrow":     {"iat": at(hour)},
		"no subject":        {"sub": ""},
		"a service":         {"sub": "service/ci"},
		"a group":           {"sub": "group:ops"},
		"a space":           {"sub": "a b"},
	} {
		w.is(t, what, w.with(claims), authz.ErrUnauthenticated)
	}
	w.is(t, "in a list of audiences", w.with(map[string]any{"aud": []string{"x", "dvt-api"}}), nil)
	w.is(t, "an access token", w.op.Sign(w.op.Claims("dvt-api"), "at+jwt"), nil)
	w.is(t, "a logout token", w.op.Sign(w.op.Claims("dvt-api"), "logout+jwt"), authz.ErrUnauthenticated)
}

// The tokens are those that a forger could make without a key of the issuer.
// contract: O6
func TestAuthenticate_RefusesForgedTokens(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	good := w.with(nil)
	w.is(t, "good", good, nil)
	parts := strings.Split(good, ".")
	header := func(doc string) string { return base64.RawURLEncoding.EncodeToString([]byte(doc)) }
	var h struct{ Kid string }
	raw, _ := base64.RawURLEncoding.DecodeString(parts[0])
	if err := json.Unmarshal(raw, &h); err != nil {
		t.Fatal(err)
	}
	// One token uses the public RSA key as the secret of an HMAC, the other carries its own key.
	shared, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.HS256, Key: []byte(strings.Repeat("public", 9))},
		(&jose.SignerOptions{}).WithHeader("kid", h.Kid))
	if err != nil {
		t.Fatal(err)
	}
	hmac, err := jwt.Signed(shared).Claims(w.op.Claims("dvt-api")).Serialize()
	if err != nil {
		t.Fatal(err)
	}
	for what, token := range map[string]string{
		"none":               header(`{"alg":"none"}`) + "." + parts[1] + ".",
		"none, with its kid": header(`{"alg":"none","kid":"`+h.Kid+`"}`) + "." + parts[1] + "." + parts[2],
		"None":               header(`{"alg":"None"}`) + "." + parts[1] + ".",
		"HS256":              hmac,
		"other claims": parts[0] + "." + header(`{"iss":"`+w.op.URL+
			`","aud":"dvt-api","sub":"root","exp":9999999999}`) + "." + parts[2],
		"no signature":     parts[0] + "." + parts[1] + ".",
		"half a signature": good[:len(good)-20],
		"empty":            "..",
		"critical": header(`{"alg":"RS256","crit":["x"],"x":1,"kid":"`+h.Kid+`"}`) + "." + parts[1] + "." +
			parts[2],
		"too large": good + strings.Repeat("A", oidc.MaxToken),
	} {
		w.is(t, what, token, authz.ErrUnauthenticated)
	}
	before := w.calls.keys.Load()
	for i := range 50 {
		kid := header(`{"alg":"RS256","kid":"guess-` + string(rune('a'+i%26)) + `"}`)
		w.is(t, "an unknown key", kid+"."+parts[1]+"."+parts[2], authz.ErrUnauthenticated)
	}
	if n := w.calls.keys.Load() - before; n > 3 {
		t.Errorf("50 tokens with unknown keys caused %d requests to the issuer", n)
	}
}

// contract: O6
func TestAuthenticate_ToleratesSkewOfClocks(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ends := time.Now().Add(10 * time.Minute)
	token := w.with(map[string]any{"exp": ends.Unix()})
	w.is(t, "now", token, nil)
	w.is(t, "not before 30 s from now", w.with(map[string]any{"nbf": time.Now().Add(30 * time.Second).Unix()}), nil)
	w.is(t, "made 30 s from now", w.with(map[string]any{"iat": time.Now().Add(30 * time.Second).Unix()}), nil)
	w.clock.forward(10*time.Minute + 40*time.Second)
	if p := w.is(t, "40 s after its end", token, nil); !p.ExpiresAt.Equal(ends.Truncate(time.Second)) {
		t.Errorf("the principal expires at %v, want %v", p.ExpiresAt, ends)
	}
	w.clock.forward(30 * time.Second)
	w.is(t, "70 s after its end", token, authz.ErrExpired)
	fresh := w.with(map[string]any{"exp": time.Now().Add(-2 * time.Minute).Unix()})
	w.is(t, "never seen before", fresh, authz.ErrExpired)
	w.is(t, "expired and forged", fresh[:len(fresh)-8]+"AAAAAAAA", authz.ErrUnauthenticated)
}

// A new key is accepted at once, and many concurrent tokens cause one fetch. A revoked key is refused after the next
// fetch.
// contract: O6
func TestAuthenticate_FetchesANewKeyOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	old := w.with(nil)
	w.is(t, "the first key", old, nil)
	w.op.Rotate(true)
	w.clock.forward(3 * time.Second)
	next, before := w.with(nil), w.calls.keys.Load()
	done := make(chan error, 20)
	for range cap(done) {
		go func() { _, err := w.Authenticate(context.WithoutCancel(t.Context()), next); done <- err }()
	}
	for range cap(done) {
		if err := <-done; err != nil {
			t.Errorf("a token of the new key: %v, want it accepted", err)
		}
	}
	if n := w.calls.keys.Load() - before; n != 1 {
		t.Errorf("20 tokens of the new key caused %d requests to the issuer", n)
	}
	w.is(t, "the first key is still published", old, nil)
	w.op.Rotate(false)
	w.clock.forward(3 * time.Second)
	w.is(t, "the third key", w.with(nil), nil)
	w.is(t, "a key that was taken back", old, authz.ErrUnauthenticated)
	w.is(t, "another that was taken back", next, authz.ErrUnauthenticated)
}

// If no token uses a new key, the periodic fetch still removes the old one.
// contract: O6
func TestRun_RevokedKeyStopsWorking(t *testing.T) {
	t.Parallel()
	op := testserver.OIDC(t, callback)
	ps := oidc.New(oidc.Config{
		Issuers:   []oidc.Issuer{{Name: "corp", URL: op.URL, Audience: "dvt-api", PrincipalClaim: "sub", TenantID: "acme"}},
		KeysEvery: 2100 * time.Millisecond, Now: time.Now, Logger: slog.New(slog.DiscardHandler),
	})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- ps.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	token := op.Sign(op.Claims("dvt-api"), "")
	if _, err := ps.Authenticate(ctx, token); err != nil {
		t.Fatal(err)
	}
	op.Rotate(false)
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(100 * time.Millisecond) {
		if _, err := ps.Authenticate(ctx, token); errors.Is(err, authz.ErrUnauthenticated) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("the revoked key still works")
		}
	}
}

// contract: O6
func TestAuthenticate_KnownKeysWorkWhileTheIssuerIsDown(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	known := w.with(nil)
	w.op.Rotate(true)
	unknown := w.with(nil)
	w.op.Stop()
	w.is(t, "nothing is known", known, authz.ErrUnavailable)
	w.op.Start()
	w.clock.forward(10 * time.Second)
	known = w.with(nil)
	other := w.with(map[string]any{"sub": "bob"})
	w.is(t, "it is back", known, nil)
	w.op.Stop()
	w.clock.forward(30 * time.Minute)
	w.is(t, "seen before", known, nil)
	w.is(t, "by a known key", other, nil)
	w.is(t, "by an unknown key", unknown, authz.ErrUnavailable)
	w.clock.forward(time.Second)
	w.is(t, "by an unknown key, again", unknown, authz.ErrUnavailable)
	w.is(t, "of another issuer", "eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJ4In0.AAAA", authz.ErrUnauthenticated)
}

// contract: O6
func TestAuthenticate_MapsClaimsToThePrincipal(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(i *oidc.Issuer) {
		i.PrincipalClaim, i.Prefix, i.TenantID, i.TenantClaim, i.Tenants, i.GroupsClaim = "email", "corp:", "",
			"realm.tenant", []string{"acme", "globex"}, "https://example.com/groups"
	})
	in := func(tenant any) map[string]any { return map[string]any{"tenant": tenant} }
	good := map[string]any{"email": "ada@example.com", "email_verified": true, "realm": in("globex"),
		"https://example.com/groups": "ops"}
	p := w.is(t, "good", w.with(good), nil)
	if diff := cmp.Diff([]string{"corp:ada@example.com", "globex", "group:corp:ops"},
		append([]string{p.ID, p.TenantID}, p.Groups...)); diff != "" {
		t.Error(diff)
	}
	for what, change := range map[string]map[string]any{
		"not verified": {"email_verified": false}, "no word about it": {"email_verified": nil}, "no email": {"email": nil},
		"not its tenant": {"realm": in("initech")}, "no tenant": {"realm": nil}, "a list": {"realm": in([]string{"acme"})},
	} {
		claims := maps.Clone(good)
		maps.Copy(claims, change)
		w.is(t, what, w.with(claims), authz.ErrUnauthenticated)
	}
}

// browser fills in the login form of the provider as user and returns the parameters of the redirect to the callback.
func browser(t *testing.T, at, user string) url.Values {
	t.Helper()
	jar, _ := cookiejar.New(nil)
	c := &http.Client{Jar: jar, CheckRedirect: func(r *http.Request, _ []*http.Request) error {
		if strings.HasPrefix(r.URL.String(), callback) {
			return http.ErrUseLastResponse
		}
		return nil
	}}
	res, err := c.Get(at)
	if err != nil {
		t.Fatal(err)
	}
	page, _ := io.ReadAll(res.Body)
	res.Body.Close()
	id := regexp.MustCompile(`name="id" value="([^"]+)"`).FindSubmatch(page)
	if id == nil {
		t.Fatalf("the provider answered %d without a login form: %s", res.StatusCode, page)
	}
	res, err = c.PostForm(res.Request.URL.ResolveReference(&url.URL{Path: "/login/username"}).String(),
		url.Values{"id": {string(id[1])}, "username": {user}, "password": {"verysecure"}})
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	back, err := res.Location()
	if err != nil {
		t.Fatalf("the provider answered %d without a redirect: %v", res.StatusCode, err)
	}
	return back.Query()
}

// contract: O6
func TestSignIn_UsesACodeWithPKCE(t *testing.T) {
	t.Parallel()
	for name, client := range map[string][2]string{"a client with a secret": {"dvt", "secret"},
		"a public client": {"dvt-public", ""}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, func(i *oidc.Issuer) { i.ClientID, i.ClientSecret = client[0], client[1] })
			if diff := cmp.Diff([]oidc.Method{{Name: "corp", Label: "Corp"}}, w.Methods()); diff != "" {
				t.Error(diff)
			}
			at, cookie, err := w.Begin(t.Context(), "corp", "/runs?x=1")
			if err != nil {
				t.Fatal(err)
			}
			if q, _ := url.Parse(at); q.Query().Get("code_challenge_method") != "S256" || q.Query().Get("nonce") == "" ||
				strings.Contains(at, "runs") {
				t.Errorf("the browser is sent to %s", at)
			}
			answer := browser(t, at, "ada")
			p, name, to, err := w.Finish(t.Context(), cookie, answer)
			if err != nil || p.ID != "ada" || p.TenantID != "acme" || name != "corp" || to != "/runs?x=1" ||
				!cmp.Equal(p.Groups, []string{"group:dvt-ada", "group:everybody"}) {
				t.Errorf("signed in as %+v by %s to %s: %v", p, name, to, err)
			}
			if _, _, _, err := w.Finish(t.Context(), cookie, answer); !errors.Is(err, authz.ErrUnauthenticated) {
				t.Errorf("the same answer again: %v, want ErrUnauthenticated", err)
			}
		})
	}
}

// contract: O6
func TestSignIn_RefusesAnswersOfOtherSignIns(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	begin := func() (string, string) {
		at, cookie, err := w.Begin(t.Context(), "corp", "/")
		if err != nil {
			t.Fatal(err)
		}
		return at, cookie
	}
	refused := func(what, cookie string, answer url.Values) {
		t.Helper()
		if p, _, _, err := w.Finish(t.Context(), cookie, answer); !errors.Is(err, authz.ErrUnauthenticated) || p.ID != "" {
			t.Errorf("%s: signed in as %q, %v, want ErrUnauthenticated", what, p.ID, err)
		}
	}
	at1, cookie1 := begin()
	at2, cookie2 := begin()
	answer1, answer2 := browser(t, at1, "ada"), browser(t, at2, "bob")
	refused("no cookie", "", answer1)
	refused("another browser's cookie", cookie2, answer1)
	refused("a changed cookie", cookie1[:len(cookie1)-2]+"AA", answer1)
	refused("no state", cookie1, url.Values{"code": answer1["code"]})
	refused("an error", cookie1, url.Values{"state": answer1["state"], "error": {"access_denied"}})
	refused("another issuer's answer", cookie1, url.Values{"state": answer1["state"], "code": answer1["code"],
		"iss": {"https://elsewhere.example"}})
	refused("a code of another sign-in", cookie1, url.Values{"state": answer1["state"], "code": answer2["code"]}) // PKCE
	at3, cookie3 := begin()
	answer3 := browser(t, at3, "ada")
	w.clock.forward(11 * time.Minute)
	refused("too late", cookie3, answer3)
	if _, _, err := w.Begin(t.Context(), "nobody", "/"); !errors.Is(err, oidc.ErrUnknown) {
		t.Errorf("an unknown provider: %v, want ErrUnknown", err)
	}
	w.op.Stop()
	_, cookie4 := begin()
	if _, _, _, err := w.Finish(t.Context(), cookie4, url.Values{"state": {"x"}}); !errors.Is(err,
		authz.ErrUnauthenticated) {
		t.Errorf("a wrong state while the provider is down: %v, want ErrUnauthenticated", err)
	}
}

// The provider's answer may contain an ID token of another sign-in, client or issuer.
// contract: O6
func TestSignIn_ChecksTheIDToken(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for what, c := range map[string]struct {
		claims map[string]any
		want   error
	}{
		"its own":          {nil, nil},
		"another nonce":    {map[string]any{"nonce": "replayed"}, authz.ErrUnauthenticated},
		"no nonce":         {map[string]any{"nonce": nil}, authz.ErrUnauthenticated},
		"another client's": {map[string]any{"aud": "other"}, authz.ErrUnauthenticated},
		"for another":      {map[string]any{"aud": []string{"dvt", "other"}, "azp": "other"}, authz.ErrUnauthenticated},
		"another issuer's": {map[string]any{"iss": "https://elsewhere.example"}, authz.ErrUnauthenticated},
		"expired":          {map[string]any{"exp": time.Now().Add(-time.Hour).Unix()}, authz.ErrExpired},
	} {
		at, cookie, err := w.Begin(t.Context(), "corp", "/")
		if err != nil {
			t.Fatal(err)
		}
		sent, _ := url.Parse(at)
		w.calls.instead = func() string {
			claims := w.op.Claims("dvt")
			claims["nonce"] = sent.Query().Get("nonce")
			maps.Copy(claims, c.claims)
			return w.op.Sign(claims, "")
		}
		_, _, _, err = w.Finish(t.Context(), cookie, url.Values{"state": {sent.Query().Get("state")}, "code": {"x"}})
		if !errors.Is(err, c.want) || c.want == nil && err != nil {
			t.Errorf("%s: %v, want %v", what, err, c.want)
		}
	}
}

// If the settings name no separate audience, bearer tokens and ID tokens have the same one. An ID token must not be
// accepted as a bearer token, because it is stored in logs and browsers.
func TestAuthenticate_AnIDTokenIsNoBearerToken(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(i *oidc.Issuer) { i.Audience = i.ClientID })
	w.is(t, "an access token", w.with(map[string]any{"aud": "dvt"}), nil)
	w.is(t, "an ID token", w.with(map[string]any{"aud": "dvt", "nonce": "n"}), authz.ErrUnauthenticated)
}
