package server

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestRequestID_IsThatOfTheCallerOrANewOne(t *testing.T) {
	t.Parallel()
	var seen string
	h := withRequestID(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { seen = requestID(r.Context()) }))
	for id, kept := range map[string]bool{
		"4bf92f3577b34da6:1": true, strings.Repeat("a", 64): true,
		"": false, strings.Repeat("a", 65): false, "a b": false, "a\nlevel=ERROR": false, "\u00e9": false,
	} {
		r := httptest.NewRequest(http.MethodGet, "/livez", http.NoBody)
		if id != "" {
			r.Header["X-Request-Id"] = []string{id}
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if got := w.Header().Get("X-Request-Id"); got == "" || got != seen || (got == id) != kept {
			t.Errorf("the id %q is answered with %q and handled as %q, want it kept: %t", id, got, seen, kept)
		}
	}
}
