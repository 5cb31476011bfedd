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

// sessionCookie carries a browser's session. Scripts cannot read it, and other
// sites cannot make the browser send it.
const sessionCookie = "dvt_session"

// secure reports whether browsers reach this server by https alone.
func (p *parts) secure() bool { return strings.HasPrefix(p.cfg.PublicURL, "https://") }

// sessionName is the cookie's name; by https one that no other host of the same domain can set.
func (p *parts) sessionName() string {
	if p.dev != nil {
		return p.dev.access.cookieName()
	}
	if p.secure() {
		return "__Host-" + sessionCookie
	}
	return sessionCookie
}

// cookie lasts for some seconds; 0 is until the browser ends, less deletes it.
func (p *parts) cookie(name, value, path string, site http.SameSite, seconds int) *http.Cookie {
	return &http.Cookie{Name: name, Value: value, Path: path, MaxAge: seconds, HttpOnly: true, Secure: p.secure(),
		SameSite: site}
}

func (p *parts) session(r *http.Request) (token string, ok bool) {
	c, err := r.Cookie(p.sessionName())
	if err != nil {
		return "", false
	}
	return c.Value, true
}

// contentPolicy lets the page run its own files and talk to its own server, and nothing else.
const contentPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' " +
	"data:; worker-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; " +
	"trusted-types dvt-layout"

// pages are the first segments of the paths that the UI has pages for.
var pages = []string{"", "admin", "audit", "bulk", "dlq", "health", "inbox", "queue", "runs", "signin", "start"}

// isPage reports whether the UI has pages below the first segment of a cleaned path without its leading slash.
func isPage(name string) bool {
	first, _, _ := strings.Cut(name, "/")
	return slices.Contains(pages, first)
}

// interfaceFiles serves the built UI: its files, and one document for all of its pages. Other paths answer 404 with the
// same document, which says so, because programs that probe paths read the status alone. In `dvt dev` a page signs the
// browser in that opens it with a key (T230).
func (p *parts) interfaceFiles() http.Handler {
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
