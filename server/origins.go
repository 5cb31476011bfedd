package server

import (
	"encoding/json"
	"net/http"
	"strings"

	"github.com/dvt-engine/dvt/run"
)

// fromOurPages refuses what a page of another origin makes a browser send, before anything of it is read: requests and
// upgrades to websockets with an Origin that is neither this server's own nor allowed. `dvt dev` also refuses what
// browsers send without an Origin, such as images and frames, unless a person opens a page by a link: every page of this
// machine, of whatever port, is the same site to a browser.
//
// The codec decides by itself: its setting codec-origins names pages of Temporal's UI.
func (p *parts) fromOurPages(mux *http.ServeMux) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, origin := r.Header["Origin"]
		switch {
		case strings.HasPrefix(r.URL.Path, codecPath+"/"):
		case origin && (len(r.Header["Origin"]) > 1 || !p.callers.OwnOrigin(r)),
			!origin && p.dev != nil && fromElsewhere(r) && !opensPage(mux, r):
			refuseOrigin(w)
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// fromElsewhere reports whether a browser says that a page of another origin made it send a request. Programs and old
// browsers say nothing.
func fromElsewhere(r *http.Request) bool {
	site := r.Header.Get("Sec-Fetch-Site")
	return site != "" && site != "none" && site != "same-origin"
}

// opensPage reports whether a request shows a page in a window of its own, which the page that led there cannot read.
func opensPage(mux *http.ServeMux, r *http.Request) bool {
	_, route := mux.Handler(r)
	return (route == "/" || route == "GET /schema.graphqls") && (r.Method == http.MethodGet || r.Method == http.MethodHead) &&
		r.Header.Get("Sec-Fetch-Mode") == "navigate" && r.Header.Get("Sec-Fetch-Dest") == "document"
}

// refuseOrigin answers in the form of the API, so that clients show the sentence. The connection is closed: the rest of
// the request is not read.
func refuseOrigin(w http.ResponseWriter) {
	h := w.Header()
	h.Set("Content-Type", "application/json; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	h.Set("Connection", "close")
	w.WriteHeader(http.StatusForbidden)
	_ = json.NewEncoder(w).Encode(map[string]any{"errors": []any{map[string]any{
		"message":    "A page of another origin sent this. Open dvt by its own address, or have the page's origin added to allowed-origins.",
		"extensions": map[string]any{"code": run.CodeForbidden},
	}}})
}
