package server

import (
	"net/http"

	"github.com/klauspost/compress/gzhttp"

	"github.com/dvt-engine/dvt/graph"
)

// apiPagePolicy lets the page of the API load its style sheet and nothing else.
const apiPagePolicy = "default-src 'none'; style-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// apiPageRoutes serves the page of the API. Like the schema it needs no sign-in, because it says nothing about tenants.
func (p *parts) apiPageRoutes(mux *http.ServeMux) {
	page, err := graph.APIPage()
	if err != nil {
		panic(err) // the schema of this binary does not parse; the test of the page finds that
	}
	serve := func(kind string, body []byte) http.Handler {
		return gzhttp.GzipHandler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Security-Policy", apiPagePolicy)
			w.Header().Set("Content-Type", kind)
			_, _ = w.Write(body)
		}))
	}
	mux.Handle("GET /docs/api", serve("text/html; charset=utf-8", page))
	mux.Handle("GET /docs/api.css", serve("text/css; charset=utf-8", []byte(graph.APIStyle)))
}
