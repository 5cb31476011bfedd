package temporal_test

import (
	"crypto/tls"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dvt-engine/dvt/engine/temporal"
)

// Each call of a client carries the current API key, in the form that Temporal Cloud requires.
func TestConnection_SendsTheCurrentAPIKey(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	shown := map[string]bool{}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		shown[r.Header.Get("Authorization")] = true
		mu.Unlock()
		w.Header().Set("Content-Type", "application/grpc")
		w.Header().Set("Grpc-Status", "7") // PERMISSION_DENIED, which the client does not retry
	}))
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	trusted := server.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs
	key := "first"
	to := temporal.Connection{
		HostPort: strings.TrimPrefix(server.URL, "https://"), Namespace: "dvt", APIKey: func() string { return key },
		TLS: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: trusted, ServerName: "example.com"},
	}
	c, err := temporal.Connect(to, quietLog)
	must(t, err)
	t.Cleanup(c.Close)
	for _, key = range []string{"first", "second"} {
		if _, err := c.DescribeWorkflowExecution(t.Context(), "w", ""); err == nil {
			t.Error("the call succeeded, want PERMISSION_DENIED")
		}
	}
	mu.Lock()
	defer mu.Unlock()
	want := map[string]bool{"Bearer first": true, "Bearer second": true}
	if diff := cmp.Diff(want, shown); diff != "" {
		t.Errorf("keys (-want +got):\n%s", diff)
	}
}
