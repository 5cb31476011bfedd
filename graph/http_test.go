package graph_test

import (
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/dvt-engine/dvt/graph"
)

const (
	queryHealth = `{ health { status } }`
	healthy     = `{"data":{"health":{"status":"DEGRADED"}}}`
	started     = `mutation { cancelRun(input: {runId: "r1", signalId: "s1"}) { signal { signalId } } }`
	watched     = `subscription { signalUpdates(runId: "r1") { signalId } }`
)

// contract: Z01
func TestHTTP_EachRequestIsAuthenticated(t *testing.T) {
	t.Parallel()
	a := serve(t, newAnsweringFake())
	for name, test := range map[string]struct {
		path    string
		headers []string
		status  int
		code    string
	}{
		"no token":     {"/", []string{"Authorization", ""}, 401, "UNAUTHENTICATED"},
		"wrong":        {"/", []string{"Authorization", "Bearer bad"}, 401, "UNAUTHENTICATED"},
		"other scheme": {"/", []string{"Authorization", "Basic good"}, 401, "UNAUTHENTICATED"},
		"expired":      {"/", []string{"Authorization", "Bearer old"}, 401, "TOKEN_EXPIRED"},
		"outage":       {"/", []string{"Authorization", "Bearer outage"}, 503, "UNAVAILABLE"},
		"token in the URL": {"/?token=good&access_token=good&Authorization=Bearer+good", []string{"Authorization", ""},
			401, "UNAUTHENTICATED"},
		"good":          {"/", nil, 200, ""},
		"session":       {"/", []string{"Authorization", "", "Cookie", "session=good"}, 200, ""},
		"wrong session": {"/", []string{"Authorization", "", "Cookie", "session=bad"}, 401, "UNAUTHENTICATED"},
		"token before session": {"/", []string{"Authorization", "Bearer bad", "Cookie", "session=good"}, 401,
			"UNAUTHENTICATED"},
	} {
		for _, accept := range []string{"application/json", "text/event-stream"} {
			got := a.do(http.MethodPost, test.path, request(queryHealth, nil), append(test.headers, "Accept", accept)...)
			if got.status != test.status || test.status != 200 && code(t, got.body) != test.code {
				t.Errorf("%s as %s: answered %d %s, want %d %s", name, accept, got.status, got.body, test.status, test.code)
			}
			if (got.header.Get("WWW-Authenticate") != "") != (test.status == 401) {
				t.Errorf("%s: WWW-Authenticate is %q, want it with 401 only", name, got.header.Get("WWW-Authenticate"))
			}
		}
	}
}

func TestHTTP_MutationWithASessionNeedsAnOwnOrigin(t *testing.T) {
	t.Parallel()
	a := serve(t, newAnsweringFake())
	for origin, status := range map[string]int{
		"": 403, "null": 403, "https://evil.example": 403, "https://ui.example.evil.example": 403, "https://ui.example": 200,
		a.url: 200,
	} {
		got := a.do(http.MethodPost, "/", request(started, nil), "Authorization", "", "Cookie", "session=good", "Origin",
			origin)
		if got.status != status || status == 403 && code(t, got.body) != "FORBIDDEN" {
			t.Errorf("origin %q: answered %d %s, want %d", origin, got.status, got.body, status)
		}
	}
	if got := a.do(http.MethodPost, "/", request(started, nil), "Origin", "https://evil.example"); got.status != 200 {
		t.Errorf("a token from a foreign origin answered %d %s, want 200", got.status, got.body)
	}
}

// Anybody on the network path can forge a page of our host that is loaded over http.
func TestOwnOrigin_ComparesTheScheme(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		secure, tls bool
		origin      string
		want        bool
	}{
		{true, false, "https://dvt.example", true}, // TLS ends at a proxy
		{true, false, "http://dvt.example", false},
		{true, true, "http://dvt.example", false},
		{false, false, "http://dvt.example", true},
		{false, false, "https://dvt.example", false},
		{false, true, "https://dvt.example", true},
		{true, false, "https://evil.example", false},
		{true, false, "https://ui.example", true}, // allowed
		{true, false, "ftp://dvt.example", false},
		{true, false, "null", false},
		{true, false, "", false},
	} {
		r := httptest.NewRequest(http.MethodPost, "/graphql", http.NoBody)
		r.Host, r.TLS = "dvt.example", nil
		if c.tls {
			r.TLS = &tls.ConnectionState{}
		}
		r.Header.Set("Origin", c.origin)
		callers := graph.NewCallers(graph.Config{Secure: c.secure, AllowedOrigins: []string{"https://ui.example"}})
		if got := callers.OwnOrigin(r); got != c.want {
			t.Errorf("secure %t, TLS %t, origin %q: OwnOrigin is %t, want %t", c.secure, c.tls, c.origin, got, c.want)
		}
	}
}

func TestHTTP_StatusAndContentTypeFollowTheRequest(t *testing.T) {
	t.Parallel()
	a := serve(t, newAnsweringFake())
	get := func(query string) string { return "/?query=" + url.QueryEscape(query) }
	for name, test := range map[string]struct {
		method, path, body string
		headers            []string
		status             int
		kind               string // content type
	}{
		"query": {"POST", "/", request(queryHealth, nil), nil, 200, "application/json"},
		"query, new type": {"POST", "/", request(queryHealth, nil), []string{"Accept",
			"application/graphql-response+json, application/json;q=0.9"}, 200, "application/graphql-response+json"},
		"query by GET":    {"GET", get(queryHealth) + "&variables=%7B%7D", "", nil, 200, "application/json"},
		"mutation by GET": {"GET", get(started), "", nil, 405, "application/json"},
		"mutation by GET, events": {"GET", get(started), "", []string{"Accept", "text/event-stream"}, 405,
			"application/json"},
		"stream by GET": {"GET", get(watched), "", []string{"Accept", "text/event-stream"}, 200,
			"text/event-stream"},
		"stream by POST": {"POST", "/", request(watched, nil), []string{"Accept", "text/event-stream"}, 200,
			"text/event-stream"},
		"stream as JSON": {"POST", "/", request(watched, nil), nil, 406, "application/json"},
		"query as events": {"POST", "/", request(queryHealth, nil), []string{"Accept", "text/event-stream"}, 200,
			"text/event-stream"},
		"query as either": {"POST", "/", request(queryHealth, nil), []string{"Accept",
			"text/event-stream, application/json"}, 200, "application/json"},
		"mutation as either": {"POST", "/", request(started, nil), []string{"Accept",
			"application/graphql-response+json, text/event-stream"}, 200, "application/graphql-response+json"},
		"invalid": {"POST", "/", request(`{ nothing }`, nil), nil, 200, "application/json"},
		"invalid, new type": {"POST", "/", request(`{ nothing }`, nil), []string{"Accept",
			"application/graphql-response+json"}, 400, "application/graphql-response+json"},
		"invalid as events": {"POST", "/", request(`subscription { nothing }`, nil),
			[]string{"Accept", "text/event-stream"}, 400, "application/json"},
		"no JSON":             {"POST", "/", `{`, nil, 400, "application/json"},
		"two values":          {"POST", "/", request(queryHealth, nil) + "{}", nil, 400, "application/json"},
		"a list":              {"POST", "/", "[" + request(queryHealth, nil) + "]", nil, 400, "application/json"},
		"variables no object": {"GET", get(queryHealth) + "&variables=1", "", nil, 400, "application/json"},
		"form": {"POST", "/", "query=%7Bhealth%7D", []string{"Content-Type",
			"application/x-www-form-urlencoded"}, 415, "application/json"},
		"no type": {"POST", "/", request(queryHealth, nil), []string{"Content-Type", ""}, 415, "application/json"},
		"PUT":     {"PUT", "/", request(queryHealth, nil), nil, 405, "application/json"},
	} {
		got := a.do(test.method, test.path, test.body, test.headers...)
		if got.status != test.status || !strings.HasPrefix(got.header.Get("Content-Type"), test.kind) {
			t.Errorf("%s: answered %d %s %s, want %d %s", name, got.status, got.header.Get("Content-Type"), got.body,
				test.status, test.kind)
		}
		if (got.header.Get("Allow") != "") != (got.status == 405) {
			t.Errorf("%s: Allow is %q, want it with 405 only", name, got.header.Get("Allow"))
		}
		if wrong := strings.Contains(name, "invalid") || test.status >= 400; wrong &&
			code(t, got.body) != "BAD_USER_INPUT" {
			t.Errorf("%s: answered %s, want BAD_USER_INPUT", name, got.body)
		}
	}
}

func TestHTTP_APersistedQueryIsFoundByItsHash(t *testing.T) {
	t.Parallel()
	a := serve(t, newAnsweringFake())
	sum := sha256.Sum256([]byte(queryHealth))
	extensions := `"extensions":{"persistedQuery":{"version":1,"sha256Hash":"` + hex.EncodeToString(sum[:]) + `"}}`
	short := "{" + extensions + "}"
	if got := a.do(http.MethodPost, "/", short).body; code(t, got) != "PERSISTED_QUERY_NOT_FOUND" {
		t.Errorf("an unknown hash answered %s, want PERSISTED_QUERY_NOT_FOUND", got)
	}
	if got := a.do(http.MethodPost, "/", `{"query":"`+queryHealth+`",`+extensions+"}").body; got != healthy {
		t.Errorf("hash and document answered %s, want %s", got, healthy)
	}
	if got := a.do(http.MethodPost, "/", short).body; got != healthy {
		t.Errorf("a known hash answered %s, want %s", got, healthy)
	}
}
