package server

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/dvt-engine/dvt/authz"
)

// The access log names who did what and how it ended, in one line, and has no text of queries, no value and no path.
func TestAccessLog_HasOneLineARequestWithoutSecrets(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	p := &parts{log: slog.New(slog.NewJSONHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /share/{token}", func(w http.ResponseWriter, r *http.Request) {
		accessOf(r.Context()).setPrincipal(authz.Principal{ID: "ana", TenantID: "acme"})
		noteOperation(r.Context(), "StartRun")
		noteOperation(r.Context(), "query { hunter2 }") // not a name
		w.WriteHeader(http.StatusTeapot)
	})
	r := httptest.NewRequest(http.MethodPost, "/share/hunter2?password=hunter2", strings.NewReader("hunter2"))
	r.Header.Set("Authorization", "Bearer hunter2")
	r.Header.Set("Cookie", "s=hunter2")
	r.Header.Set("X-Request-Id", "r1")
	withRequestID(p.logAccess(mux)).ServeHTTP(httptest.NewRecorder(), r)
	if strings.Contains(log.String(), "hunter2") || strings.Count(log.String(), "\n") != 1 {
		t.Errorf("the log is %q, want one line without the secret", log.String())
	}
	var line map[string]any
	if err := json.Unmarshal(log.Bytes(), &line); err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]any{"msg": "request", "requestId": "r1", "method": "POST", "status": 418.0,
		"route": "POST /share/{token}", "principal": "ana", "tenantId": "acme", "operation": "StartRun"} {
		if line[key] != want {
			t.Errorf("the line has %s %v, want %v", key, line[key], want)
		}
	}
	log.Reset()
	p.log = slog.New(slog.NewJSONHandler(&log, nil))
	mux.HandleFunc("GET /x", func(http.ResponseWriter, *http.Request) {})
	p.logAccess(mux).ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/x", http.NoBody))
	if log.Len() != 0 {
		t.Errorf("at INFO the log is %q, want nothing", log.String())
	}
}
