package graph_test

import (
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/graph"
	"github.com/dvt-engine/dvt/run"
)

func TestOperations_ConcurrentOnesOfACallerAreLimited(t *testing.T) {
	t.Parallel()
	f := newAnsweringFake()
	known := f.run
	here, release := make(chan struct{}, 9), make(chan struct{})
	var reads atomic.Int32 // the first two reads wait for release
	f.run = func(p authz.Principal, id string, at *run.Seq) (control.RunView, error) {
		held := reads.Add(1) <= 2 // read before the test continues, so that a later caller is not counted first
		here <- struct{}{}
		if held {
			<-release
		}
		return known(p, id, at)
	}
	a := serve(t, f, func(c *graph.Config) {
		c.Limits.Operations = 2
		c.Authenticate = func(token string) (authz.Principal, error) {
			return authz.Principal{ID: token, TenantID: "acme"},
				nil
		}
	})
	query := request(`{ run(runId: "r1") { runId } }`, nil)
	ask := func(who string) answer {
		return a.do(http.MethodPost, "/", query, "Authorization", "Bearer "+who, "Accept",
			"application/graphql-response+json")
	}
	var both sync.WaitGroup
	for range 2 {
		both.Go(func() {
			if got := ask("eva"); got.status != http.StatusOK || strings.Contains(got.body, "errors") {
				t.Errorf("one of the first two answered %d %s, want 200 without errors", got.status, got.body)
			}
		})
		<-here
	}
	if got := ask("eva"); code(t, got.body) != "TOO_MANY_OPERATIONS" || got.status != http.StatusTooManyRequests ||
		got.header.Get("Retry-After") != "1" {
		t.Errorf("the third of two answered %d %s, want TOO_MANY_OPERATIONS with Retry-After", got.status, got.body)
	}
	if got := ask("olga"); got.status != http.StatusOK {
		t.Errorf("another caller was answered %d %s, want 200", got.status, got.body)
	}
	close(release)
	both.Wait()
	if got := ask("eva"); got.status != http.StatusOK {
		t.Errorf("after the first two had ended: answered %d %s, want 200", got.status, got.body)
	}
}
