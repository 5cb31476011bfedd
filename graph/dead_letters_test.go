package graph_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control/reads"
	"github.com/dvt-engine/dvt/graph"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
	"github.com/dvt-engine/dvt/server/usecases"
	"github.com/dvt-engine/dvt/store"
	"github.com/dvt-engine/dvt/store/sqlite"
)

// markOnly is a Redriver that marks a dead letter as redriven and sends nothing.
type markOnly struct{ store.Outbox }

func (m markOnly) Redrive(ctx context.Context, d reads.DeadLetter) error {
	_, err := m.MarkRedriven(ctx, d.ID)
	return err
}

// serveStore serves the API over the use cases on a new SQLite store with one open dead letter of the tenant acme.
func serveStore(t *testing.T) *api {
	t.Helper()
	ctx := t.Context()
	s, err := sqlite.Open(ctx, filepath.Join(t.TempDir(), "dvt.db"), sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	id := runtest.ID
	id.RunID, id.TenantID, id.ProjectID = "r1", "acme", "shop"
	_, _, err = s.CreateRun(ctx, store.NewRun{
		Run:    store.Run{Identity: id, RequestKey: "k"},
		Events: []run.Draft{runtest.Draft(run.RunApproved, "", 1), runtest.Start("s1")},
	})
	if err == nil {
		_, err = s.RecordRefusal(ctx, "r1", 2, "message too large", 0)
	}
	added := false
	if err == nil {
		added, err = s.AddDeadLetter(ctx, "r1", 2, "message too large")
	}
	if err != nil || !added {
		t.Fatalf("add the dead letter: added %t, %v", added, err)
	}
	directory, err := authz.NewDirectory(authz.DevAccounts(func(name string) string { return name }), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	rights, err := authz.New(authz.DefaultPolicy(), directory)
	if err != nil {
		t.Fatal(err)
	}
	h := graph.NewHandler(usecases.New(usecases.Config{Store: s, Authz: rights, Redriver: markOnly{s}}),
		graph.Config{Authenticate: directory.Authenticate})
	server := httptest.NewServer(h)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := h.Shutdown(ctx); err != nil {
			t.Errorf("shutdown: %v", err)
		}
		server.Close()
	})
	return &api{t: t, Handler: h, url: server.URL}
}

// The test queries a real store. Principals with the right read and redrive dead letters. Other tenants see nothing,
// and other roles get FORBIDDEN.
// contract: T101, T123, O04
func TestDeadLetters_OnlyPrincipalsWithTheRightReadAndRedriveThem(t *testing.T) {
	t.Parallel()
	a := serveStore(t)
	query := func(token, operation string) string {
		return a.do(http.MethodPost, "/graphql", request(operation, nil), "Authorization", "Bearer "+token).body
	}
	const list = `{ deadLetters(open: true) { edges { node { id runId fromSeq toSeq cause } } pageInfo { hasNextPage endCursor } } }`
	var got struct {
		Data struct {
			DeadLetters struct {
				Edges []struct {
					Node struct {
						ID, RunID, Cause string
						FromSeq, ToSeq   int
					}
				}
				PageInfo struct{ EndCursor string }
			}
		}
	}
	body := query("dev-sre", list)
	if err := json.Unmarshal([]byte(body), &got); err != nil || len(got.Data.DeadLetters.Edges) != 1 {
		t.Fatalf("%v: %s", err, body)
	}
	letter := got.Data.DeadLetters.Edges[0].Node
	if letter.RunID != "r1" || letter.FromSeq != 0 || letter.ToSeq != 2 || letter.Cause != "message too large" {
		t.Errorf("the dead letter is %+v, want r1 from 0 to 2 with its cause", letter)
	}
	after := fmt.Sprintf(`{ deadLetters(after: %q) { edges { cursor } } }`, got.Data.DeadLetters.PageInfo.EndCursor)
	node := fmt.Sprintf(`{ node(id: %q) { ... on DeadLetter { runId } } }`, letter.ID)
	redrive := func(letters string) string {
		return `mutation { redriveDeadLetters(input: {requestId: "q1", letters: ` + letters +
			`}) { results { outcome code } more } }`
	}
	ids := redrive(fmt.Sprintf(`{ids: [%q]}`, letter.ID))
	for _, c := range []struct{ token, operation, data, code string }{
		{"dev-sre", after, `{"deadLetters":{"edges":[]}}`, ""},
		{"dev-admin", node, `{"node":{"runId":"r1"}}`, ""},
		{"dev-mallory", list, `{"deadLetters":{"edges":[],"pageInfo":{"hasNextPage":false,"endCursor":null}}}`, ""},
		{"dev-mallory", after, `null`, "CURSOR_INVALID"},
		{"dev-mallory", node, `{"node":null}`, ""},
		{"dev-mallory", `{ deadLetters(runId: "r1") { edges { cursor } } }`, `null`, "NOT_FOUND"},
		{"dev-mallory", ids, `{"redriveDeadLetters":{"results":[{"outcome":"FAILED","code":"NOT_FOUND"}],"more":false}}`,
			""},
		{"dev-mallory", redrive(`{allOpen: true}`), `{"redriveDeadLetters":{"results":[],"more":false}}`, ""},
		{"dev-viewer", list, `null`, "FORBIDDEN"},
		{"dev-engineer", ids, `null`, "FORBIDDEN"},
		{"dev-viewer", node, `{"node":null}`, "FORBIDDEN"},
		{"dev-sre", `{ deadLetters(first: 0) { edges { cursor } } }`, `null`, "BAD_USER_INPUT"},
		{"dev-sre", `{ deadLetters(after: "?") { edges { cursor } } }`, `null`, "CURSOR_INVALID"},
		{"dev-sre", redrive(`{allOpen: false}`), `null`, "BAD_USER_INPUT"},
		{"dev-sre", redrive(
			`{ids: ["UnVuOnIx"]}`), `{"redriveDeadLetters":{"results":[{"outcome":"FAILED","code":"NOT_FOUND"}],"more":false}}`,
			""},
		{"dev-admin", ids, `{"redriveDeadLetters":{"results":[{"outcome":"REDRIVEN","code":null}],"more":false}}`, ""},
		{"dev-admin", ids, `{"redriveDeadLetters":{"results":[{"outcome":"ALREADY_REDRIVEN","code":null}],"more":false}}`,
			""},
		{"dev-sre", list, `{"deadLetters":{"edges":[],"pageInfo":{"hasNextPage":false,"endCursor":null}}}`, ""},
		{"dev-sre", `{ deadLetters(runId: "r1") { edges { node { runId } } } }`,
			`{"deadLetters":{"edges":[{"node":{"runId":"r1"}}]}}`, ""},
	} {
		answer := query(c.token, c.operation)
		var out struct{ Data json.RawMessage }
		if err := json.Unmarshal([]byte(answer), &out); err != nil {
			t.Fatalf("%v: %s", err, answer)
		}
		if diff := cmp.Diff(c.data, string(out.Data)); diff != "" || code(t, answer) != c.code {
			t.Errorf("%s: %s\nanswered %s, want the code %q (-want +got):\n%s", c.token, c.operation, answer, c.code, diff)
		}
	}
}
