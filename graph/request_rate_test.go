package graph_test

import (
	"net/http"
	"testing"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/graph"
)

func TestRequests_OfOneCallerPerMinuteAreLimited(t *testing.T) {
	t.Parallel()
	a := serve(t, newAnsweringFake(), func(c *graph.Config) {
		c.Limits.PerMinute = 3
		c.Authenticate = func(token string) (authz.Principal, error) {
			return authz.Principal{ID: token, TenantID: "acme"},
				nil
		}
	})
	ask := func(who string) answer {
		return a.do(http.MethodPost, "/", request(`{ run(runId: "r1") { runId } }`, nil), "Authorization", "Bearer "+who,
			"Accept", "application/graphql-response+json")
	}
	for i := range 3 {
		if got := ask("eva"); got.status != http.StatusOK {
			t.Errorf("request %d of three answered %d %s, want 200", i+1, got.status, got.body)
		}
	}
	got := ask("eva")
	if code(t, got.body) != "REQUEST_RATE_LIMITED" || got.status != http.StatusTooManyRequests ||
		got.header.Get("Retry-After") != "1" {
		t.Errorf("the fourth of three answered %d %s, want REQUEST_RATE_LIMITED with Retry-After", got.status, got.body)
	}
	if got := ask("olga"); got.status != http.StatusOK {
		t.Errorf("another caller was answered %d %s, want 200", got.status, got.body)
	}
}

// Requests of an address are counted before their token is looked up, so that a flood of wrong tokens costs no lookups.
func TestRequests_OfOneAddressPerMinuteAreLimited(t *testing.T) {
	t.Parallel()
	looked := 0
	a := serve(t, newAnsweringFake(), func(c *graph.Config) {
		c.Limits.AddressPerMinute = 3
		c.Address = func(r *http.Request) string { return r.Header.Get("X-Test-Address") }
		c.Authenticate = func(string) (authz.Principal, error) {
			looked++
			return authz.Principal{}, authz.ErrUnauthenticated
		}
	})
	ask := func(address string) answer {
		return a.do(http.MethodPost, "/", request(`{ viewer { principal } }`, nil), "Authorization", "Bearer wrong",
			"X-Test-Address", address,
			"Accept", "application/graphql-response+json")
	}
	for range 3 {
		ask("2001:db8::1")
	}
	if got := ask("2001:db8::2"); code(t, got.body) != "REQUEST_RATE_LIMITED" ||
		got.status != http.StatusTooManyRequests || looked != 3 {
		t.Errorf("the fourth of one /64 answered %d %s after %d token lookups, want REQUEST_RATE_LIMITED after 3", got.status,
			got.body, looked)
	}
	if got := ask("192.0.2.1"); code(t, got.body) != "UNAUTHENTICATED" {
		t.Errorf("another address was answered %d %s, want UNAUTHENTICATED", got.status, got.body)
	}
}
