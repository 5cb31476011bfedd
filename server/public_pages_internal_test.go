package server

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/dvt-engine/dvt/control/runs"
	"github.com/dvt-engine/dvt/run"
)

func TestSharePage_FailedRunWaitsForARetry(t *testing.T) {
	t.Parallel()
	status, _ := shareWords(runs.SharedRun{Status: run.Running, Substatus: run.AwaitingOperator})
	if want := "failed, waiting for a retry"; status != want {
		t.Errorf("the status is %q, want %q", status, want)
	}
}

func TestDocs_AddressesThatPeopleTryLeadSomewhere(t *testing.T) {
	t.Parallel()
	mux := http.NewServeMux()
	docsRoutes(mux, []byte("the reference"))
	get := func(path string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		return w
	}
	index := get("/docs")
	for _, want := range []string{"/docs/api", "/docs/api#errors", "/graphiql", "/schema.graphqls"} {
		if !strings.Contains(index.Body.String(), `href="`+want+`"`) {
			t.Errorf("the index has no link to %s", want)
		}
	}
	if got := index.Header().Get("Content-Security-Policy"); got != publicPagePolicy {
		t.Errorf("the content policy of the index is %q, want %q", got, publicPagePolicy)
	}
	for path, want := range map[string]string{"/docs/": "/docs", "/docs/codes": "/docs/api#errors"} {
		if got := get(path); got.Code != http.StatusPermanentRedirect || got.Header().Get("Location") != want {
			t.Errorf("%s: %d to %q, want %d to %q", path, got.Code, got.Header().Get("Location"),
				http.StatusPermanentRedirect, want)
		}
	}
}
