package server_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/dvt-engine/dvt/web"
)

// testSession signs a browser in with the link of the ready line, and tests what its session permits.
func testSession(t *testing.T, data, base, link string) {
	if _, built := web.Dist(); !built {
		t.Fatal("the user interface is not built: run `make build`")
	}
	if c := get(t, base+"/").cookie(); c != nil {
		t.Errorf("a browser without a key got the session %+v, want none", c)
	}
	session := openLink(t, base, link)
	mine := "Cookie: " + session.Name + "=" + session.Value
	if a := ask(t, base, whoAmI, nil, mine); a.StatusCode != http.StatusOK || !strings.Contains(a.body, `"dev-engineer"`) {
		t.Errorf("a query with the session is answered %d %s, want the principal dev-engineer", a.StatusCode, a.body)
	}
	if a := ask(t, base, whoAmI, nil, "Authorization: Bearer "+session.Value); a.StatusCode != http.StatusUnauthorized {
		t.Errorf("the API answers a session as a bearer token with %d %s, want 401", a.StatusCode, a.body)
	}
	for name, value := range map[string]string{
		"a token": devToken(t, data, "dev-engineer"), "another name": strings.Replace(session.Value, "dev-engineer",
			"dev-admin", 1),
		"a longer life": strings.Replace(session.Value, ".1", ".2", 1), "nothing": "",
	} {
		if a := ask(t, base, whoAmI, nil, "Cookie: "+session.Name+"="+value); a.StatusCode != http.StatusUnauthorized {
			t.Errorf("%s as a session is answered %d %s, want 401", name, a.StatusCode, a.body)
		}
	}
	if a := ask(t, base, cancel, map[string]any{"id": "x"}, mine); a.StatusCode != http.StatusForbidden ||
		a.code() != "FORBIDDEN" {
		t.Errorf("a mutation with the session and no Origin is answered %d %s, want FORBIDDEN", a.StatusCode, a.body)
	}
	if a := ask(t, base, cancel, map[string]any{"id": "x"}, mine, "Origin: "+base); a.code() != "NOT_FOUND" {
		t.Errorf("a mutation from the UI is answered %d %s, want NOT_FOUND, because it is permitted", a.StatusCode, a.body)
	}
	if a := ask(t, base, cancel, map[string]any{"id": "x"}, "Authorization: Bearer "+
		devToken(t, data, "dev-engineer")); a.code() != "NOT_FOUND" {
		t.Errorf("a mutation with a token and no Origin is answered %d %s, want NOT_FOUND, because it is permitted",
			a.StatusCode, a.body)
	}

	become := func(principal string, header ...string) answer {
		return send(t, http.MethodPost, base+"/dev/session", fmt.Sprintf(`{"principal":%q}`, principal),
			append(header, "Content-Type: application/json")...)
	}
	switched := become("dev-viewer", mine, "Origin: "+base)
	c := switched.cookie()
	if switched.StatusCode != http.StatusNoContent || c == nil || c.Name != session.Name || !c.HttpOnly ||
		c.SameSite != http.SameSiteStrictMode {
		t.Fatalf("a switch of the principal is answered %d with the cookie %+v, want 204 and a new session",
			switched.StatusCode, c)
	}
	if a := ask(t, base, whoAmI, nil, "Cookie: "+c.Name+"="+c.Value); !strings.Contains(a.body, `"dev-viewer"`) {
		t.Errorf("after the switch the principal is %s, want dev-viewer", a.body)
	}
	for name, refused := range map[string]struct {
		answer
		status int
	}{
		"to an unknown principal":       {become("dev-nobody", mine, "Origin: "+base), http.StatusBadRequest},
		"with a body that is too large": {become(strings.Repeat("x", 5<<10), mine, "Origin: "+base), http.StatusBadRequest},
		"from another site":             {become("dev-admin", mine, "Origin: http://evil.example"), http.StatusForbidden},
		"without an Origin":             {become("dev-admin", mine), http.StatusForbidden},
		"without a session":             {become("dev-admin", "Origin: "+base), http.StatusUnauthorized},
		"with a token and no session": {become("dev-admin", "Origin: "+base, "Authorization: Bearer "+
			devToken(t, data, "dev-engineer")), http.StatusUnauthorized},
		"with a name in place of a session": {become("dev-admin", "Origin: "+base, "Cookie: "+session.Name+"=dev-engineer"),
			http.StatusUnauthorized},
	} {
		if refused.StatusCode != refused.status || refused.cookie() != nil {
			t.Errorf("a switch %s is answered %d, want %d and no cookie, got %+v", name, refused.StatusCode, refused.status,
				refused.cookie())
		}
	}
}

// openLink opens the link of the ready line and returns the session. The link signs in once and redirects to the page
// without the key.
func openLink(t *testing.T, base, link string) *http.Cookie {
	t.Helper()
	key := strings.TrimPrefix(link, base+"/?key=")
	if len(key) < 43 || key == link {
		t.Fatalf("the ready line has the link %q, want one with a key", link)
	}
	opened := get(t, base+"/runs?status=FAILED&key="+key)
	session := opened.cookie()
	if session == nil || !session.HttpOnly || session.SameSite != http.SameSiteStrictMode || session.Path != "/" ||
		session.MaxAge < 3600 {
		t.Fatalf("the link is answered %d with the cookie %+v, want a session", opened.StatusCode, session)
	}
	if opened.StatusCode != http.StatusSeeOther || opened.Header.Get("Location") != "/runs?status=FAILED" ||
		opened.Header.Get("Referrer-Policy") != "no-referrer" || opened.Header.Get("Cache-Control") != "no-store" {
		t.Errorf("the link is answered %d %v, want a redirect to the page without the key", opened.StatusCode, opened.Header)
	}
	for name, at := range map[string]string{"used": link, "wrong": base + "/?key=" + strings.Repeat("A", 43),
		"empty": base + "/?key="} {
		a := get(t, at)
		if a.StatusCode != http.StatusForbidden || a.cookie() != nil || !strings.Contains(a.body, "dvt dev link") {
			t.Errorf("a key that is %s is answered %d %+v %s, want 403 and a hint to dvt dev link", name, a.StatusCode,
				a.cookie(), a.body)
		}
	}
	return session
}
