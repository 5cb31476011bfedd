package graph_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// gqlgen returns a nil response for a cancelled request. The handler must answer UNAVAILABLE and not dereference it.
func TestHTTP_ACancelledRequestIsUnavailable(t *testing.T) {
	t.Parallel()
	a := serve(t, &fake{})
	ctx, leave := context.WithCancel(t.Context())
	leave()
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/graphql",
		strings.NewReader(request(`{health{status}}`, nil)))
	r.Header.Set("Authorization", "Bearer good")
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	a.ServeHTTP(w, r)
	if w.Code != http.StatusServiceUnavailable || code(t, w.Body.String()) != "UNAVAILABLE" {
		t.Errorf("answered %d %s, want 503 with UNAVAILABLE", w.Code, w.Body)
	}
}

// Validation of variables ignores the case of enums, but gqlgen's unmarshalling does not. Its error must not be
// INTERNAL.
func TestHTTP_AnEnumInTheWrongCaseIsBadInput(t *testing.T) {
	t.Parallel()
	a := serve(t, &fake{})
	const query = `mutation($in:BreakGlassInput!){breakGlass(input:$in){role}}`
	body := a.query(query, map[string]any{"in": map[string]any{"requestId": "r", "role": "VIEWeR", "minutes": 5,
		"reason": "r"}})
	if code(t, body) != "BAD_USER_INPUT" {
		t.Errorf("answered %s, want BAD_USER_INPUT", body)
	}
}
