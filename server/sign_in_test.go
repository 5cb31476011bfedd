package server_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"github.com/dvt-engine/dvt/client"
	"github.com/dvt-engine/dvt/examples"
	"github.com/dvt-engine/dvt/internal/testserver"
	"github.com/dvt-engine/dvt/internal/testtime"
	"github.com/dvt-engine/dvt/store"
	"github.com/dvt-engine/dvt/store/postgres"
)

// signInServers is two servers with one store and an OIDC provider. The public URL of both is the address of server A,
// as if one proxy were in front of them.
type signInServers struct {
	urlA, urlB string
	op         *testserver.OIDCProvider
	store      *postgres.Store
	servers    []*process
	dir        string
}

func startSignInServers(t *testing.T) *signInServers {
	t.Helper()
	dsn, redis, engine := testserver.Postgres(t), testserver.Redis(t), testserver.TemporalAlone(t)
	addressA, addressB := testserver.FreeAddress(t), testserver.FreeAddress(t)
	o := &signInServers{urlA: "http://" + addressA, urlB: "http://" + addressB, dir: t.TempDir()}
	o.op = testserver.OIDC(t, o.urlA+"/auth/callback")
	config := filepath.Join(o.dir, "dvt.yaml")
	must(t, os.WriteFile(filepath.Join(o.dir, "secret"), []byte("secret\n"), 0o600))
	must(t, os.WriteFile(config, fmt.Appendf(nil, `
store: %s
redis: redis://%s/0
temporal: %s
temporal-namespace: %s
artifacts: file://%s/artifacts?create_dir=true&no_tmp_dir=true
public-url: %s
sign-in-key: a-key-of-forty-bytes-for-sign-ins-of-tests
session-life: 45s
session-idle: 20s
trusted-proxies: [127.0.0.1]
oidc:
  - {name: corp, label: Corp SSO, issuer: %q, clientId: dvt, clientSecretFile: %s/secret, tenant: acme, groupsClaim: groups}
accounts:
  - {id: ana, tenant: acme, tokenSha256: %s, grants: [{role: ADMIN, project: "*", environment: "*"}]}
  - {id: "group:dvt-ada", tenant: acme, oidc: true, grants: [{role: OPERATOR, project: "*", environment: "*"}]}
  - {id: data-1, tokenSha256: %s, worker: true, serves: [acme]}
`, dsn, redis.Addr, engine.Addr, engine.Namespace, o.dir, o.urlA, o.op.URL, o.dir, tokenHash(adminToken),
		tokenHash("worker-has-a-token")), 0o600))
	migrate := spawn(t, "dvt migrate", nil, "migrate", "--store", dsn)
	<-migrate.exited
	for name, address := range map[string]string{"server A": addressA, "server B": addressB} {
		o.servers = append(o.servers, spawn(t, name, []string{"DVT_LOG_LEVEL=debug"}, "server", "--config", config,
			"--listen", address))
	}
	waitUntilReady(t, o.urlA)
	waitUntilReady(t, o.urlB)
	s, err := postgres.Open(t.Context(), dsn, postgres.Options{})
	must(t, err)
	t.Cleanup(func() { must(t, s.Close()) })
	o.store = s
	return o
}

// browser is an HTTP client with a cookie jar that follows no redirects.
type browser struct {
	*http.Client
	t *testing.T
}

func newBrowser(t *testing.T) *browser {
	jar, err := cookiejar.New(nil)
	must(t, err)
	return &browser{&http.Client{Jar: jar, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse
	}}, t}
}

// do sends a request with header fields such as "Name: value" and returns the answer.
func (p *browser) do(method, at, body string, header ...string) answer {
	p.t.Helper()
	r, err := http.NewRequestWithContext(p.t.Context(), method, at, strings.NewReader(body))
	must(p.t, err)
	for _, h := range header {
		name, value, _ := strings.Cut(h, ": ")
		r.Header.Set(name, value)
	}
	res, err := p.Do(r)
	must(p.t, err)
	defer res.Body.Close()
	read, err := io.ReadAll(res.Body)
	must(p.t, err)
	return answer{res, string(read)}
}

// authenticate follows the redirect of login to the provider, signs user in with the form there, and returns the URL of
// the callback without requesting it.
func (p *browser) authenticate(login answer, user string) string {
	p.t.Helper()
	at, page := login.Header.Get("Location"), login
	for page.StatusCode/100 == 3 {
		to, err := page.Location()
		must(p.t, err)
		at = to.String()
		page = p.do(http.MethodGet, at, "")
	}
	id := regexp.MustCompile(`name="id" value="([^"]+)"`).FindStringSubmatch(page.body)
	if id == nil {
		p.t.Fatalf("no login form at %s: %d %s", at, page.StatusCode, page.body)
	}
	u, err := url.Parse(at)
	must(p.t, err)
	form := url.Values{"id": {id[1]}, "username": {user}, "password": {"verysecure"}}.Encode()
	page = p.do(http.MethodPost, u.ResolveReference(&url.URL{Path: "/login/username"}).String(), form,
		"Content-Type: application/x-www-form-urlencoded")
	for page.StatusCode/100 == 3 {
		to, err := page.Location()
		must(p.t, err)
		if to.Query().Get("code") != "" {
			return to.String()
		}
		page = p.do(http.MethodGet, to.String(), "")
	}
	p.t.Fatalf("the provider did not send the browser back: %d %s", page.StatusCode, page.body)
	return ""
}

// signIn signs user in on a server and returns the answer of the callback. to is the page after the sign-in.
func (p *browser) signIn(base, user, to string) answer {
	p.t.Helper()
	login := p.do(http.MethodGet, base+"/auth/login?"+url.Values{"provider": {"corp"}, "to": {to}}.Encode(), "")
	return p.do(http.MethodGet, p.authenticate(login, user), "")
}

func (p *browser) ask(base, query string, header ...string) answer {
	p.t.Helper()
	body, err := json.Marshal(map[string]any{"query": query})
	must(p.t, err)
	return p.do(http.MethodPost, base+"/graphql", string(body), append(header, "Content-Type: application/json")...)
}

// cookieNamed returns the cookie that the answer sets, or nil.
func (a answer) cookieNamed(name string) *http.Cookie {
	for _, c := range a.Cookies() {
		if c.Name == name {
			return c
		}
	}
	return nil
}

const (
	meQuery          = `{ viewer { principal tenantId } }`
	meAda            = `{"viewer":{"principal":"ada","tenantId":"acme"}}`
	createTokenQuery = `mutation { createToken(input: {requestId: "laptop", name: "laptop", grants: [{role: VIEWER}]}) { token { kind principal provider } secret } }`
)

// A session that starts on one server holds on the other at once. Only pages of the servers can use it. It ends at the
// sign-out and at the end of its life.
// contract: O6, Z01
func TestSignIn_ASessionHoldsOnBothServersUntilSignOut(t *testing.T) {
	t.Parallel()
	o := startSignInServers(t)
	ada := newBrowser(t)
	if a := get(t, o.urlB+"/auth/methods"); a.body != `{"methods":[{"kind":"OIDC","name":"corp","label":"Corp SSO","url":"/auth/login?provider=corp"}]}`+"\n" {
		t.Errorf("/auth/methods answers %s, want the provider corp", a.body)
	}
	back := ada.signIn(o.urlA, "ada", "/runs?status=FAILED")
	session := back.cookieNamed("dvt_session")
	if back.StatusCode != http.StatusSeeOther || back.Header.Get("Location") != "/runs?status=FAILED" || session == nil {
		t.Fatalf("the sign-in is answered %d to %s with %v, want a redirect to the page with a session", back.StatusCode,
			back.Header.Get("Location"), back.Cookies())
	}
	if !session.HttpOnly || session.SameSite != http.SameSiteStrictMode || session.Path != "/" || session.MaxAge < 1 ||
		session.MaxAge > 45 {
		t.Errorf("the cookie of the session is %+v, want HttpOnly, strict and at most 45 s", session)
	}
	if gone := back.cookieNamed("dvt_sign_in"); gone == nil || gone.MaxAge >= 0 {
		t.Errorf("the cookie of the sign-in is %v after it, want it deleted", gone)
	}
	// a cookie jar ignores ports, so both servers are one host
	if a := ada.ask(o.urlB, meQuery); !strings.Contains(a.body, meAda) {
		t.Errorf("the other server answers the session with %s, want ada", a.body)
	}
	t.Run("only pages of the server can use the session", func(t *testing.T) { testSessionOrigin(t, o, ada) })
	t.Run("a session is no token and a token is no session", func(t *testing.T) { testSecretKinds(t, o, session.Value) })
	t.Run("a sign-out ends streams on both servers",
		func(t *testing.T) { testSignOutEndsStreams(t, o, ada, session.Value) })
	t.Run("a session in use lives until its end", func(t *testing.T) { testSessionLife(t, o) })
	t.Run("forged sign-ins are refused", func(t *testing.T) { testRefusedSignIns(t, o) })
	t.Run("a JWT of the provider authenticates until it expires", func(t *testing.T) { testProviderJWT(t, o) })
	t.Run("guesses are limited by address", func(t *testing.T) { testGuessesAreLimited(t, o) })
	checkSignInAudit(t, o, session.Value)
}

// testSessionOrigin sends mutations with the cookie of a session from pages of this server and of other servers.
func testSessionOrigin(t *testing.T, o *signInServers, ada *browser) {
	for _, origin := range []string{"", "null", "https://elsewhere.example", "http://127.0.0.1:1"} {
		if a := ada.ask(o.urlB, createTokenQuery, "Origin: "+origin); a.StatusCode != http.StatusForbidden ||
			strings.Contains(a.body, "secret") {
			t.Errorf("a mutation from the origin %q: %d %s, want 403 without a secret", origin, a.StatusCode, a.body)
		}
		if a := ada.do(http.MethodPost, o.urlB+"/auth/logout", "", "Origin: "+origin); a.StatusCode != http.StatusForbidden {
			t.Errorf("a sign-out from the origin %q: %d, want 403", origin, a.StatusCode)
		}
	}
	a := ada.ask(o.urlB, createTokenQuery, "Origin: "+o.urlA) // the public URL
	if !strings.Contains(a.body, `{"kind":"API","principal":"ada","provider":"corp"}`) {
		t.Errorf("createToken with a session answers %s, want an API token of ada", a.body)
	}
	var created struct {
		Data struct{ CreateToken struct{ Secret string } }
	}
	must(t, json.Unmarshal([]byte(a.body), &created))
	if a := ask(t, o.urlB, meQuery, nil,
		"Authorization: Bearer "+created.Data.CreateToken.Secret); !strings.Contains(a.body,
		meAda) {
		t.Errorf("the API answers the new token with %s, want ada", a.body)
	}
}

// testSecretKinds sends a session as a bearer token and a token as a session.
func testSecretKinds(t *testing.T, o *signInServers, session string) {
	if a := ask(t, o.urlA, meQuery, nil, "Authorization: Bearer "+session); a.code() != "UNAUTHENTICATED" {
		t.Errorf("a session as a bearer token: %s, want UNAUTHENTICATED", a.body)
	}
	if a := ask(t, o.urlA, meQuery, nil, "Cookie: dvt_session="+adminToken); a.code() != "UNAUTHENTICATED" {
		t.Errorf("a token as a session: %s, want UNAUTHENTICATED", a.body)
	}
	a := ask(t, o.urlA, `{ tokens(all: true, live: true) { edges { node { kind principal provider grants { role } } } } }`,
		nil, "Authorization: Bearer "+adminToken)
	if !strings.Contains(a.body, `{"kind":"SESSION","principal":"ada","provider":"corp","grants":[]}`) {
		t.Errorf("the list of tokens is %s, want it with the session of ada", a.body)
	}
}

// testSignOutEndsStreams opens streams on both servers and signs out on one of them.
func testSignOutEndsStreams(t *testing.T, o *signInServers, ada *browser, session string) {
	runID := startSignInRun(t, o)
	streams := []*websocket.Conn{}
	for _, base := range []string{o.urlA, o.urlB} {
		if _, _, err := openSocket(base, "https://elsewhere.example", session); !errors.Is(err, websocket.ErrBadHandshake) {
			t.Errorf("a socket of a page of another origin: %v, want a refused handshake", err)
		}
		c, _, err := openSocket(base, o.urlA, session)
		must(t, err)
		defer c.Close()
		must(t, c.WriteJSON(
			map[string]any{"type": "subscribe", "id": "1", "payload": map[string]any{
				"query": `subscription { runUpdates(runId: "` + runID + `") { runSeq } }`}}))
		var first struct{ Type string }
		must(t, c.ReadJSON(&first))
		if first.Type != "next" {
			t.Fatalf("the first message of the stream is %+v, want next", first)
		}
		streams = append(streams, c)
	}
	if a := ada.do(http.MethodPost, o.urlB+"/auth/logout", "", "Origin: "+o.urlA); a.StatusCode != http.StatusNoContent ||
		a.cookieNamed("dvt_session") == nil {
		t.Errorf("the sign-out: %d %v, want 204 and the cookie deleted", a.StatusCode, a.Cookies())
	}
	began := time.Now()
	for _, c := range streams {
		must(t, c.SetReadDeadline(time.Now().Add(testtime.Of(2*policyDelay))))
		for {
			var m struct {
				Type    string
				Payload json.RawMessage
			}
			must(t, c.ReadJSON(&m))
			if m.Type == "error" || m.Type == "complete" {
				break
			}
			if bytes.Contains(m.Payload, []byte("FORBIDDEN")) {
				break
			}
		}
		if took := time.Since(began); took > testtime.Of(policyDelay) {
			t.Errorf("a stream ended %v after the sign-out, want %v or less", took, policyDelay)
		}
	}
	if a := ask(t, o.urlA, meQuery, nil, "Cookie: dvt_session="+session); a.code() != "UNAUTHENTICATED" {
		t.Errorf("the session after the sign-out: %s, want UNAUTHENTICATED", a.body)
	}
}

// openSocket opens a websocket with the cookie of a session and the Origin of a page, and waits for connection_ack.
func openSocket(base, origin, session string) (*websocket.Conn, *http.Response, error) {
	d := websocket.Dialer{Subprotocols: []string{"graphql-transport-ws"}}
	c, res, err := d.Dial("ws"+strings.TrimPrefix(base, "http")+"/graphql", http.Header{"Origin": {origin},
		"Cookie": {"dvt_session=" + session}})
	if err != nil {
		return nil, res, err
	}
	if err := c.WriteJSON(map[string]any{"type": "connection_init"}); err != nil {
		return nil, res, err
	}
	var ack struct{ Type string }
	if err := c.ReadJSON(&ack); err != nil {
		return nil, res, err
	}
	return c, res, nil
}

func startSignInRun(t *testing.T, o *signInServers) string {
	t.Helper()
	doc, err := examples.Plan(examples.Shop, examples.Values{NotifyURL: o.urlA + "/dev/notify", Data: o.dir})
	must(t, err)
	return start(t, client.New(o.urlA, adminToken), "sign-in", doc)
}

// testSessionLife uses a session on server A only. Server B can learn only from the store that the session is not idle.
func testSessionLife(t *testing.T, o *signInServers) {
	p := newBrowser(t)
	secret := p.signIn(o.urlA, "ada", "/").cookieNamed("dvt_session").Value
	cookie := "Cookie: dvt_session=" + secret
	began := time.Now()
	for time.Since(began) < 21*time.Second { // session-idle is 20s
		if a := ask(t, o.urlA, meQuery, nil, cookie); !strings.Contains(a.body, meAda) {
			t.Fatalf("the session in use after %v: %s, want ada", time.Since(began), a.body)
		}
		time.Sleep(time.Second)
	}
	if a := ask(t, o.urlB, meQuery, nil, cookie); !strings.Contains(a.body, meAda) {
		t.Errorf("server B answers the session with %s, want ada because server A used it", a.body)
	}
	time.Sleep(time.Until(began.Add(46 * time.Second)))
	if a := ask(t, o.urlB, meQuery, nil, cookie); a.code() != "TOKEN_EXPIRED" || a.StatusCode != http.StatusUnauthorized {
		t.Errorf("the session after session-life: %d %s, want TOKEN_EXPIRED", a.StatusCode, a.body)
	}
}

// testRefusedSignIns tries redirects to other sites and forged, repeated and unauthorised sign-ins.
func testRefusedSignIns(t *testing.T, o *signInServers) {
	for to, want := range map[string]string{
		"//elsewhere.example": "/", "https://elsewhere.example/": "/", `/\elsewhere.example`: "/",
		"/\t/elsewhere.example": "/", "javascript:alert(1)": "/",
		"/auth/login?provider=corp": "/", "": "/", "runs": "/", "/a?b=%2F%2Fc#d": "/a?b=%2F%2Fc#d",
	} {
		if back := newBrowser(t).signIn(o.urlA, "ada", to); back.Header.Get("Location") != want {
			t.Errorf("a sign-in to %q redirects to %q, want %q", to, back.Header.Get("Location"), want)
		}
	}
	reason := func(a answer) string {
		u, err := url.Parse(a.Header.Get("Location"))
		must(t, err)
		if a.cookieNamed("dvt_session") != nil || a.StatusCode != http.StatusSeeOther || u.Path != "/signin" {
			t.Errorf("the refused sign-in: %d to %s with %v, want a redirect to /signin without a session", a.StatusCode, u,
				a.Cookies())
		}
		return u.Query().Get("reason")
	}
	victim, attacker := newBrowser(t), newBrowser(t)
	login := attacker.do(http.MethodGet, o.urlA+"/auth/login?provider=corp", "")
	if c := login.cookieNamed("dvt_sign_in"); c == nil || !c.HttpOnly || c.SameSite != http.SameSiteLaxMode ||
		c.Path != "/auth/callback" || strings.Contains(login.Header.Get("Location"), c.Value) {
		t.Errorf("the cookie of a sign-in is %+v, want HttpOnly, lax, only for the callback and not part of the URL", c)
	}
	callback := attacker.authenticate(login, "ada")
	if got := reason(victim.do(http.MethodGet, callback, "")); got != "refused" {
		t.Errorf("a callback in another browser has the reason %s, want refused", got)
	}
	if got := attacker.do(http.MethodGet, strings.Replace(callback, o.urlA, o.urlB, 1),
		""); got.cookieNamed("dvt_session") == nil {
		t.Errorf("a sign-in that ends on the other server: %d to %s, want a session", got.StatusCode,
			got.Header.Get("Location"))
	}
	if got := reason(attacker.do(http.MethodGet, callback, "")); got != "refused" {
		t.Errorf("a repeated callback has the reason %s, want refused", got)
	}
	if got := reason(newBrowser(t).signIn(o.urlA, "bob", "/")); got != "no-rights" {
		t.Errorf("a sign-in without grants has the reason %s, want no-rights", got)
	}
	if a := get(t, o.urlA+"/auth/login?provider=nobody"); a.StatusCode != http.StatusNotFound {
		t.Errorf("a sign-in with an unknown provider: %d, want 404", a.StatusCode)
	}
}

// testProviderJWT authenticates with JWTs of the provider. A stream ends when its JWT expires.
func testProviderJWT(t *testing.T, o *signInServers) {
	claims := o.op.Claims("dvt")
	claims["groups"] = []string{"dvt-ada"}
	token := o.op.Sign(claims, "")
	if a := ask(t, o.urlB, `{ viewer { principal roles } }`, nil, "Authorization: bearer "+
		token); !strings.Contains(a.body, `"principal":"ada"`) || !strings.Contains(a.body, "OPERATOR") {
		t.Errorf("a JWT of the group dvt-ada: %s, want ada as OPERATOR", a.body)
	}
	runID := startSignInRun(t, o)
	claims["exp"] = time.Now().Add(min(testtime.Of(6*time.Second), 30*time.Second)).Unix()
	short := o.op.Sign(claims, "")
	v := watch(t, client.New(o.urlB, short), runID)
	v.waitForLive(1, 10*time.Second)
	select {
	case err := <-v.done:
		if err == nil || !strings.Contains(err.Error(), "TOKEN_EXPIRED") {
			t.Errorf("the stream ended with %v, want TOKEN_EXPIRED", err)
		}
		if early := time.Until(time.Unix(claims["exp"].(int64), 0)); early > 0 {
			t.Errorf("the stream ended %v before its JWT expired", early)
		}
	case <-time.After(testtime.Of(time.Minute)):
		t.Error("the stream goes on after its JWT expired")
	}
	delete(claims, "groups")
	claims["sub"], claims["exp"] = "bob", time.Now().Add(time.Hour).Unix()
	if a := ask(t, o.urlB, `{ viewer { principal roles } }`, nil, "Authorization: Bearer "+
		o.op.Sign(claims, "")); !strings.Contains(a.body, `"principal":"bob"`) || strings.Contains(a.body, "OPERATOR") {
		t.Errorf("a JWT without groups: %s, want bob without OPERATOR", a.body)
	}
}

// testGuessesAreLimited sends wrong secrets of each kind, each kind from its own address behind a proxy.
func testGuessesAreLimited(t *testing.T, o *signInServers) {
	forged := strings.Split(o.op.Sign(o.op.Claims("dvt"), ""), ".")
	for i, c := range []struct {
		name string
		send func(n int, from string) answer
	}{
		{"tokens", func(n int, from string) answer {
			return ask(t, o.urlA, meQuery, nil, from, fmt.Sprintf("Authorization: Bearer guess-%d", n))
		}},
		{"JWTs", func(n int, from string) answer {
			return ask(t, o.urlA, meQuery, nil, from, fmt.Sprintf("Authorization: Bearer %s.%s.AAAA%04d", forged[0], forged[1],
				n))
		}},
		{"sessions", func(n int, from string) answer {
			return ask(t, o.urlA, meQuery, nil, from, fmt.Sprintf("Cookie: dvt_session=dvt_%043d", n))
		}},
		{"workers", func(n int, from string) answer {
			return send(t, http.MethodPost, o.urlA+"/engine/journal", "{}", from, fmt.Sprintf("Authorization: Bearer guess-%d",
				n))
		}},
		{"debug", func(n int, from string) answer {
			return send(t, http.MethodGet, o.urlA+"/engine/runs/x/debug", "", from, fmt.Sprintf("Authorization: Bearer guess-%d",
				n))
		}},
	} {
		from, limited := fmt.Sprintf("X-Forwarded-For: 6.6.6.6, 203.0.113.%d", i), 0
		for n := range 30 {
			switch a := c.send(n, from); {
			case a.StatusCode == http.StatusTooManyRequests && a.Header.Get("Retry-After") != "":
				limited++
			case a.StatusCode != http.StatusUnauthorized:
				t.Errorf("%s: guess %d is answered %d %s, want 401 or 429", c.name, n, a.StatusCode, a.body)
			}
		}
		if limited < 10 {
			t.Errorf("%s: %d of 30 guesses were limited, want 10 or more", c.name, limited)
		}
		if a := c.send(99, "X-Forwarded-For: 198.51.100.1"); a.StatusCode == http.StatusTooManyRequests {
			t.Errorf("%s: another address behind the proxy is limited too", c.name)
		}
	}
	if a := send(t, http.MethodPost, o.urlA+"/engine/journal", "{}", "X-Forwarded-For: 203.0.113.77",
		"Authorization: worker-has-a-token"); a.StatusCode != http.StatusUnauthorized {
		t.Errorf("a token of a worker without Bearer: %d, want 401", a.StatusCode)
	}
}

// checkSignInAudit waits for the rows of all sign-ins in the audit. It also checks that neither the audit nor the logs
// contain a secret.
func checkSignInAudit(t *testing.T, o *signInServers, session string) {
	deadline := time.Now().Add(time.Minute)
	var doc []byte
	for {
		links, err := o.store.AuditLinks(t.Context(), store.AuditFilter{TenantID: "acme", Limit: store.MaxPage})
		must(t, err)
		seen := map[string]int{}
		for _, l := range links {
			seen[fmt.Sprintf("%s %s %s %s", l.Row.Actor, l.Row.Action, l.Row.Outcome, l.Row.Code)]++
		}
		doc, err = json.Marshal(links)
		must(t, err)
		if seen["ada SIGN_IN ACCEPTED "] > 1 && seen["ada SIGN_OUT ACCEPTED "] == 1 &&
			seen["bob SIGN_IN DENIED FORBIDDEN"] == 1 && seen["anonymous SIGN_IN DENIED UNAUTHENTICATED"] == 1 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("after a minute the audit has %v, want the sign-ins of ada, bob and anonymous and a sign-out", seen)
		}
		time.Sleep(200 * time.Millisecond)
	}
	text := string(doc)
	for _, p := range o.servers {
		text += p.output()
	}
	for what, secret := range map[string]string{"a session": session, "the client's secret": `"secret"`,
		"the key": "a-key-of-forty"} {
		if strings.Contains(text, secret) {
			t.Errorf("the audit or a log contains %s", what)
		}
	}
	if code := regexp.MustCompile(`code=[A-Za-z0-9_-]{20,}|eyJ[A-Za-z0-9_-]{20,}`).FindString(text); code != "" {
		t.Errorf("the audit or a log contains the code or JWT %s", code)
	}
}
