package server

import (
	"encoding/json"
	"net/http"
	"strings"

	"github.com/dvt-engine/dvt/graph"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
)

// requireOwnOrigin refuses requests and websocket upgrades that a page of another origin makes a browser send, before
// it reads anything of them. The Origin must be this server's own or an allowed one. `dvt dev` also refuses
// cross-origin requests without an Origin, such as images and frames, because a browser treats all ports of this
// machine as one site. Only opening a page by a link is permitted.
//
// The codec server checks origins itself, because its setting codec-origins names the pages of Temporal's UI.
func (p *parts) requireOwnOrigin(mux *http.ServeMux) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, origin := r.Header["Origin"]
		switch {
		case strings.HasPrefix(r.URL.Path, codecPath+"/"):
		case origin && (len(r.Header["Origin"]) > 1 || !p.callers.OwnOrigin(r)),
			!origin && p.dev != nil && isCrossOrigin(r) && !opensPage(mux, r):
			refuseOrigin(w)
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// isCrossOrigin reports whether the browser marked a request as sent by a page of another origin. Programs and old
// browsers send no such mark.
func isCrossOrigin(r *http.Request) bool {
	site := r.Header.Get("Sec-Fetch-Site")
	return site != "" && site != "none" && site != "same-origin"
}

// opensPage reports whether a request opens a page in a window of its own. The linking page cannot read the content of
// that window.
func opensPage(mux *http.ServeMux, r *http.Request) bool {
	_, route := mux.Handler(r)
	public := route == "/" || route == "GET /schema.graphqls" || route == "GET "+plan.SchemaPath+"{file}" ||
		route == "GET "+graph.SharePath+"{token}"
	return public && (r.Method == http.MethodGet || r.Method == http.MethodHead) &&
		r.Header.Get("Sec-Fetch-Mode") == "navigate" && r.Header.Get("Sec-Fetch-Dest") == "document"
}

// refuseOrigin answers in the format of the API, so that clients show the message. It closes the connection instead of
// reading the rest of the request.
func refuseOrigin(w http.ResponseWriter) {
	h := w.Header()
	h.Set("Content-Type", "application/json; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	h.Set("Connection", "close")
	w.WriteHeader(http.StatusForbidden)
	_ = json.NewEncoder(w).Encode(map[string]any{"errors": []any{map[string]any{
		"message": "A page of another origin sent this. Open dvt by its own address, or have the page's origin added " +
			"to allowed-origins.",
		"extensions": map[string]any{"code": run.CodeForbidden},
	}}})
}
