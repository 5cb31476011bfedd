package client_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"

	"github.com/dvt-engine/dvt/client"
)

// newServer starts a server that answers every request with the same JSON text.
func newServer(answer string) *httptest.Server {
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, answer)
	}))
}

func ExampleNew() {
	server := newServer(`{"data": {"viewer": {"principal": "ola", "tenantId": "acme"}}}`)
	defer server.Close()
	c := client.New(server.URL, "token")
	me, err := client.WhoAmI(context.Background(), c)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(me.Viewer.Principal, me.Viewer.TenantId)
	// Output: ola acme
}

// Named returns the code of an error of the API, so that a program can decide what to do.
func ExampleAsAPIError() {
	server := newServer(`{"errors": [{"message": "Your role may not do this.", "extensions": {"code": "FORBIDDEN",
	  "denial": {"action": "PAUSE", "rule": "OPERATOR may PAUSE", "whoCould": ["ola"]}}}]}`)
	defer server.Close()
	_, err := client.WhoAmI(context.Background(), client.New(server.URL, "token"))
	var named *client.Error
	if errors.As(client.AsAPIError(err), &named) {
		fmt.Println(named.Code, named.Denial.WhoCould)
		fmt.Println(named)
	}
	// Output:
	// FORBIDDEN [ola]
	// FORBIDDEN: Your role may not do this.
	//   the rule "OPERATOR may PAUSE" denies it
	//   who can do this: ola
}

// Fields that a fragment of operations.graphql selects have the type of the fragment in every answer: the same function
// describes a run of a list and a run that was started.
func ExampleListRuns() {
	server := newServer(`{"data": {"runs": {"pageInfo": {"hasNextPage": false},
	  "edges": [{"node": {"runId": "r1", "status": "RUNNING"}}]}, "startRun": {"run": {"runId": "r2", "status": "PENDING"}}}}`)
	defer server.Close()
	ctx, c := context.Background(), client.New(server.URL, "token")
	describe := func(r client.RunRow) { fmt.Println(r.RunId, r.Status) }

	list, err := client.ListRuns(ctx, c, nil, nil, nil, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, edge := range list.Runs.Edges {
		describe(edge.Node)
	}
	started, err := client.StartRun(ctx, c, client.StartRunInput{})
	if err != nil {
		fmt.Println(err)
		return
	}
	describe(started.StartRun.Run)
	// Output:
	// r1 RUNNING
	// r2 PENDING
}
