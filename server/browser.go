package server

import (
	"io/fs"
	"net/http"
	"path"
	"slices"
	"strings"

	"github.com/klauspost/compress/gzhttp"

	"github.com/dvt-engine/dvt/web"
)

// sessionCookie carries a browser's session. Scripts cannot read it, and other sites cannot make the browser send it.
const sessionCookie = "dvt_session"

// usesHTTPS reports whether browsers reach this server by https only, so that its cookies can be marked Secure.
func (p *parts) usesHTTPS() bool { return strings.HasPrefix(p.cfg.PublicURL, "https://") }

// sessionName returns the name of the session cookie. With https it has the prefix __Host-, so that no other host of
// the same domain can set the cookie. In `dvt dev` it differs between data directories.
func (p *parts) sessionName() string {
	if p.dev != nil {
		return p.dev.access.cookieName()
	}
	if p.usesHTTPS() {
		return "__Host-" + sessionCookie
	}
	return sessionCookie
}

// cookie returns a cookie that lasts for some seconds. With 0 it lasts until the browser ends; a negative number
// deletes it.
func (p *parts) cookie(name, value, path string, site http.SameSite, seconds int) *http.Cookie {
	return &http.Cookie{Name: name, Value: value, Path: path, MaxAge: seconds, HttpOnly: true, Secure: p.usesHTTPS(),
		SameSite: site}
}

func (p *parts) session(r *http.Request) (token string, ok bool) {
	c, err := r.Cookie(p.sessionName())
	if err != nil {
		return "", false
	}
	return c.Value, true
}

// contentPolicy lets a page load and call its own server only, so that injected code can neither run nor send data
// elsewhere. Images may also be data: URLs.
const contentPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' " +
	"data:; worker-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; " +
	"trusted-types dvt-layout"

// pages are the first path segments under which the UI has pages.
var pages = []string{"", "admin", "alerts", "audit", "bulk", "compare", "deliveries", "dlq", "graphiql", "health",
	"inbox", "incidents", "moment", "plans", "queue", "runs", "signin", "start", "workers"}

// isPage reports whether the UI has pages under the first segment of name, a cleaned path without its leading slash.
func isPage(name string) bool {
	first, _, _ := strings.Cut(name, "/")
	return slices.Contains(pages, first)
}

// interfaceFiles serves the built UI: its files, and one document for all of its pages. Other paths answer 404 with the
// same document, which says that the page does not exist: programs that probe paths read only the status. In `dvt dev`
// a page that is opened with a key signs the browser in (contract T230).
func (p *parts) interfaceFiles() http.Handler {
	files, built := web.Dist()
	return gzhttp.GzipHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			http.Error(w, "this path serves the UI: only GET and HEAD are allowed", http.StatusMethodNotAllowed)
			return
		}
		h := w.Header()
		h.Set("Content-Security-Policy", contentPolicy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		if p.signInByKey(w, r) {
			return
		}
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
		page, err := fs.ReadFile(files, "index.html")
		if err != nil {
			http.NotFound(w, r)
			return
		}
		h.Set("Cache-Control", "no-cache")
		h.Set("Content-Type", "text/html; charset=utf-8")
		if !isPage(name) {
			w.WriteHeader(http.StatusNotFound)
		}
		_, _ = w.Write(page)
	}))
}
