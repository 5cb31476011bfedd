package server

import (
	"encoding/json"
	"errors"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/klauspost/compress/gzhttp"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/graph"
	"github.com/dvt-engine/dvt/web"
)

// sessionCookie carries a browser's token. Scripts cannot read it, and other
// sites cannot make the browser send it.
const sessionCookie = "dvt_session"

// secure reports whether browsers reach this server by https alone.
func (p *parts) secure() bool { return strings.HasPrefix(p.cfg.PublicURL, "https://") }

// sessionName is the cookie's name; by https one that no other host of the same domain can set.
func (p *parts) sessionName() string {
	if p.secure() {
		return "__Host-" + sessionCookie
	}
	return sessionCookie
}

// cookie lasts for some seconds; 0 is until the browser ends, less deletes it.
func (p *parts) cookie(name, value, path string, site http.SameSite, seconds int) *http.Cookie {
	return &http.Cookie{Name: name, Value: value, Path: path, MaxAge: seconds, HttpOnly: true, Secure: p.secure(), SameSite: site}
}

func (p *parts) session(r *http.Request) (token string, ok bool) {
	c, err := r.Cookie(p.sessionName())
	if err != nil {
		return "", false
	}
	return c.Value, true
}

// setDevSession signs a browser in to `dvt dev`.
func (p *parts) setDevSession(w http.ResponseWriter, token string) {
	http.SetCookie(w, p.cookie(p.sessionName(), token, "/", http.SameSiteStrictMode, 0))
}

func devPrincipals() []graph.DevPrincipal {
	var out []graph.DevPrincipal
	for _, a := range authz.DevAccounts() {
		out = append(out, graph.DevPrincipal{Principal: a.ID, TenantID: a.TenantID, Role: a.Grants[0].Role})
	}
	return out
}

// devSession makes the browser another dev principal.
func (p *parts) devSession(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Principal string `json:"principal"`
	}
	err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 4<<10)).Decode(&in)
	if _, unknown := p.directory.Authenticate(in.Principal); err != nil || unknown != nil || !sameOrigin(r) {
		http.Error(w, "there is no such dev principal", http.StatusBadRequest)
		return
	}
	p.setDevSession(w, in.Principal)
	w.WriteHeader(http.StatusNoContent)
}

// sameOrigin refuses a browser that was sent here by another site.
func sameOrigin(r *http.Request) bool {
	origin := r.Header.Get("Origin")
	return origin == "" || origin == "http://"+r.Host
}

// onLoopback refuses requests that reached `dvt dev` under a name that is not
// this machine's own: it signs in whoever comes, and a foreign page can give its
// name this machine's address (DNS rebinding). Hosts of allowed origins pass.
func (p *parts) onLoopback(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host := (&url.URL{Host: r.Host}).Hostname()
		ip := net.ParseIP(host)
		named := slices.ContainsFunc(p.cfg.AllowedOrigins, func(origin string) bool {
			u, err := url.Parse(origin)
			return err == nil && u.Host != "" && strings.EqualFold(u.Host, r.Host)
		})
		if !named && !strings.EqualFold(host, "localhost") && (ip == nil || !ip.IsLoopback()) {
			http.Error(w, "dvt dev answers under localhost and loopback addresses only", http.StatusMisdirectedRequest)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// contentPolicy lets the page run its own files and talk to its own server, and nothing else.
const contentPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; worker-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types dvt-layout"

// interfaceFiles serves the built UI; every other path is a page of it. In dev
// the page signs the browser in (T230).
func (p *parts) interfaceFiles(dev bool) http.Handler {
	files, built := web.Dist()
	return gzhttp.GzipHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			http.Error(w, "there is nothing here to send to", http.StatusMethodNotAllowed)
			return
		}
		h := w.Header()
		h.Set("Content-Security-Policy", contentPolicy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		if !built {
			http.Error(w, "This dvt was built without its UI. Run `make build`.", http.StatusNotFound)
			return
		}
		name := strings.TrimPrefix(path.Clean(r.URL.Path), "/")
		if _, err := fs.Stat(files, name); name != "" && err == nil {
			if strings.HasPrefix(name, "assets/") {
				h.Set("Cache-Control", "public, max-age=31536000, immutable")
			}
			http.ServeFileFS(w, r, files, name)
			return
		}
		if strings.HasPrefix(name, "assets/") {
			http.NotFound(w, r)
			return
		}
		if token, ok := p.session(r); dev && (!ok || p.unknown(token)) {
			p.setDevSession(w, samplePrincipal)
		}
		page, err := fs.ReadFile(files, "index.html")
		if err != nil {
			http.NotFound(w, r)
			return
		}
		h.Set("Cache-Control", "no-cache")
		h.Set("Content-Type", "text/html; charset=utf-8")
		_, _ = w.Write(page)
	}))
}

func (p *parts) unknown(token string) bool {
	_, err := p.directory.Authenticate(token)
	return errors.Is(err, authz.ErrUnauthenticated)
}
