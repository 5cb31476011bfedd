package server

import (
	"encoding/json"
	"fmt"
	"html/template"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/graph"
)

// devDoor contains the sign-in of `dvt dev` and the state of the routes that only `dvt dev` has.
type devDoor struct {
	access DevAccess
	keys   *signInKeys
	notes  notifications
}

func newDevDoor(access DevAccess, now func() time.Time) *devDoor {
	return &devDoor{access: access, keys: &signInKeys{now: now}}
}

// Paths that only `dvt dev` has.
const (
	devSessionPath = "/dev/session"
	devLinkPath    = "/dev/link"
	notifyPath     = "/dev/notify/"
	devPlansPath   = "/dev/plans/"
)

func (p *parts) devRoutes(mux *http.ServeMux) {
	mux.HandleFunc("POST "+devSessionPath, p.devSession)
	mux.HandleFunc("POST "+devLinkPath, p.devLink)
	mux.HandleFunc("POST "+notifyPath+"{key}", p.receiveNote)
	mux.HandleFunc("GET "+strings.TrimSuffix(notifyPath, "/"), p.requireCaller(p.dev.notes.list))
	mux.HandleFunc("GET "+devPlansPath+"{name}", p.requireCaller(p.devPlan))
}

// requireCaller passes only authenticated requests to next.
func (p *parts) requireCaller(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if _, err := p.callers.Caller(r); refusedHTTP(w, err) {
			return
		}
		next(w, r)
	}
}

// devPrincipal returns the dev principal with a name.
func (p *parts) devPrincipal(name string) (authz.Principal, error) {
	return p.directory.Authenticate(p.dev.access.Tokens[name])
}

func devPrincipals() []graph.DevPrincipal {
	var out []graph.DevPrincipal
	for _, a := range authz.DevAccounts(func(string) string { return "" }) {
		out = append(out, graph.DevPrincipal{Principal: a.ID, TenantID: a.TenantID, Role: a.Grants[0].Role})
	}
	return out
}

// setDevSession sets the cookie that signs a browser in.
func (p *parts) setDevSession(w http.ResponseWriter, principal string) {
	value := p.dev.access.session(principal, p.cfg.Now().Add(devSessionLife))
	http.SetCookie(w, p.cookie(p.sessionName(), value, "/", http.SameSiteStrictMode, int(devSessionLife.Seconds())))
}

// devSession switches a browser that is signed in to another dev principal. It accepts requests only from pages of this
// server.
func (p *parts) devSession(w http.ResponseWriter, r *http.Request) {
	if !p.callers.OwnOrigin(r) {
		http.Error(w, "only a page of this server may switch the principal", http.StatusForbidden)
		return
	}
	cookie, _ := p.session(r)
	if _, err := p.dev.access.principalOf(cookie, p.cfg.Now()); err != nil {
		http.Error(w, "this browser is not signed in: run `dvt dev link` and open the link that it prints",
			http.StatusUnauthorized)
		return
	}
	var in struct {
		Principal string `json:"principal"`
	}
	err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 4<<10)).Decode(&in)
	if err != nil || p.dev.access.Tokens[in.Principal] == "" {
		http.Error(w, "no dev principal has this name", http.StatusBadRequest)
		return
	}
	p.setDevSession(w, in.Principal)
	w.WriteHeader(http.StatusNoContent)
}

// devLink answers with a link that signs a browser in once, as the dev principal whose own token the request carries.
func (p *parts) devLink(w http.ResponseWriter, r *http.Request) {
	who, err := p.callers.Caller(r)
	if refusedHTTP(w, err) {
		return
	}
	principal, ok := p.dev.access.nameOf(authz.Bearer(r.Header.Get("Authorization")))
	if !ok {
		http.Error(w, fmt.Sprintf("a link needs the token of %s that `dvt dev token` prints, not an API token", who.ID), http.StatusForbidden)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	_ = json.NewEncoder(w).Encode(map[string]string{"url": p.signInLink(principal)})
}

// signInLink returns the address of the UI with a new key.
func (p *parts) signInLink(principal string) string {
	return "http://" + p.cfg.Listen + "/?" + url.Values{"key": {p.dev.keys.add(principal)}}.Encode()
}

// signInByKey handles a request for a page with a key and reports whether it did. It signs the browser in and redirects
// to the page without the key, so that the key stays out of the history.
func (p *parts) signInByKey(w http.ResponseWriter, r *http.Request) bool {
	q := r.URL.Query()
	if p.dev == nil || !q.Has("key") {
		return false
	}
	w.Header().Set("Cache-Control", "no-store")
	if r.Method != http.MethodGet {
		http.Error(w, "open the link in a browser", http.StatusMethodNotAllowed)
		return true
	}
	principal, ok := p.dev.keys.take(q.Get("key"))
	if !ok {
		h := w.Header()
		h.Set("Content-Type", "text/html; charset=utf-8")
		h.Set("Content-Security-Policy", "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
		w.WriteHeader(http.StatusForbidden)
		_ = usedKeyPage.Execute(w, nil)
		return true
	}
	p.setDevSession(w, principal)
	q.Del("key")
	leave(w, localPath((&url.URL{Path: r.URL.Path, RawQuery: q.Encode()}).String()))
	return true
}

// usedKeyPage loads no files, so that it also works when the UI is not built. It follows the theme of the browser.
var usedKeyPage = template.Must(template.New("").Parse(`<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<meta name="color-scheme" content="light dark">
<title>Sign in to dvt</title>
<main>
<h1>This link does not sign you in</h1>
<p>A link signs in one browser, once, within 24 hours, while the <code>dvt dev</code> that printed it runs.</p>
<p>Run <code>dvt dev link</code> for a new one, with the same <code>--data</code>, and open it here.</p>
</main>
</html>
`)) //nolint:gochecknoglobals // a constant

// namesLoopback reports whether the Host of a request is localhost or a loopback address.
func namesLoopback(r *http.Request) bool {
	host := (&url.URL{Host: r.Host}).Hostname()
	ip := net.ParseIP(host)
	return strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback()
}

// requireLoopback refuses requests whose Host is neither localhost nor a loopback address: a foreign site can point its
// name at this machine (DNS rebinding). Hosts of allowed origins pass.
func (p *parts) requireLoopback(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		named := slices.ContainsFunc(p.cfg.AllowedOrigins, func(origin string) bool {
			u, err := url.Parse(origin)
			return err == nil && u.Host != "" && strings.EqualFold(u.Host, r.Host)
		})
		if !named && !namesLoopback(r) {
			http.Error(w, "dvt dev answers under localhost and loopback addresses only", http.StatusMisdirectedRequest)
			return
		}
		next.ServeHTTP(w, r)
	})
}
