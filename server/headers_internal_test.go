package server

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/dvt-engine/dvt/server/config"
)

func TestHeaders_HSTSIsSetForAnHTTPSPublicURL(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{"https://dvt.example": "max-age=31536000", "http://127.0.0.1:8080": "",
		"": ""} {
		w := httptest.NewRecorder()
		p := &parts{cfg: config.Config{PublicURL: address}}
		p.withHeaders(http.NotFoundHandler()).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", http.NoBody))
		if got := w.Header().Get("Strict-Transport-Security"); got != want {
			t.Errorf("public-url %q: Strict-Transport-Security is %q, want %q", address, got, want)
		}
	}
}
