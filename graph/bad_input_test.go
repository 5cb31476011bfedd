package graph_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// Who goes while an operation is read gets no answer and harms nobody.
func TestHTTP_GoneBeforeTheOperationBegins(t *testing.T) {
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
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// Variables are validated with enums in any case; a word that is not quite one is the caller's mistake.
func TestHTTP_AnEnumInTheWrongCaseIsBadInput(t *testing.T) {
	t.Parallel()
	a := serve(t, &fake{})
	const query = `mutation($in:BreakGlassInput!){breakGlass(input:$in){role}}`
	body := a.query(query, map[string]any{"in": map[string]any{"requestId": "r", "role": "VIEWeR", "minutes": 5,
		"reason": "r"}})
	if code(t, body) != "BAD_USER_INPUT" {
		t.Error(body)
	}
}
