package server_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/dvt-engine/dvt/internal/testserver"
)

// The labels of metrics name tenants, and profiles contain memory. The listener of the API serves metrics only to
// callers with DEBUG, and never profiles.
func TestObservers_HaveTheirOwnListener(t *testing.T) {
	t.Parallel()
	data, api, observers := dataDir(t), testserver.FreeAddress(t), testserver.FreeAddress(t)
	spawn(t, "dvt dev", nil, "dev", "--listen", api, "--data", data, "--no-sample", "--metrics-listen", observers)
	for path, want := range map[string]string{
		"/livez": "ok\n", "/readyz": "ok\n", "/engine/health": `"status"`, "/metrics": "dvt_bus_up 1",
		"/debug/pprof/": "goroutine",
	} {
		if a := get(t, "http://"+observers+path); a.StatusCode != http.StatusOK || !strings.Contains(a.body, want) {
			t.Errorf("%s of metrics-listen: %d, want 200 with %q:\n%.300s", path, a.StatusCode, want, a.body)
		}
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+observers+"/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Host = "evil.example" // like a page of a host name that resolves to this machine
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	if _ = res.Body.Close(); res.StatusCode != http.StatusMisdirectedRequest {
		t.Errorf("metrics-listen under a foreign name: %d, want 421", res.StatusCode)
	}
	for _, path := range []string{"/graphql", "/", "/engine/journal/begin"} {
		if a := get(t, "http://"+observers+path); a.StatusCode != http.StatusNotFound {
			t.Errorf("%s of metrics-listen: %d, want 404", path, a.StatusCode)
		}
	}
	for _, path := range []string{"/livez", "/readyz", "/engine/health"} {
		if a := get(t, "http://"+api+path); a.StatusCode != http.StatusOK {
			t.Errorf("%s of the API: %d, want 200", path, a.StatusCode)
		}
	}
	for token, want := range map[string]int{
		"": http.StatusUnauthorized, "wrong": http.StatusUnauthorized, devToken(t, data, "dev-viewer"): http.StatusForbidden,
		devToken(t, data, "dev-sre"): http.StatusOK,
	} {
		a := get(t, "http://"+api+"/metrics", "Authorization: Bearer "+token)
		if a.StatusCode != want || (want == http.StatusOK) != strings.Contains(a.body, "go_goroutines") {
			t.Errorf("/metrics of the API: %d, want %d:\n%.300s", a.StatusCode, want, a.body)
		}
	}
	if a := get(t, "http://"+api+"/debug/pprof/heap"); strings.Contains(a.Header.Get("Content-Type"), "octet-stream") {
		t.Errorf("the API serves a profile: %d %s", a.StatusCode, a.Header.Get("Content-Type"))
	}
}
