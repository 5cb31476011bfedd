package gqlgenpeer_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control/health"
	"github.com/dvt-engine/dvt/control/watch"
	"github.com/dvt-engine/dvt/graph"
	"github.com/dvt-engine/dvt/graph/gqlgenpeer"
	"github.com/dvt-engine/dvt/live"
	"github.com/dvt-engine/dvt/run"
)

type fake struct{ graph.UseCases }

func (fake) SampledHealth(context.Context) health.Health { return health.Health{Status: "HEALTHY"} }

func (fake) WatchRun(_ context.Context, p authz.Principal, in watch.WatchRun) (graph.Stream[live.Frame], error) {
	return stream{p.ID, in.RunID}, nil
}

type stream struct{ who, runID string }

func (s stream) Next(context.Context) (live.Frame, error) {
	f := live.Frame{Sync: live.Live, Changed: true}
	f.State = run.State{Header: run.Header{Identity: run.Identity{RunID: s.runID}, TriggeredBy: s.who}}
	return f, nil
}

func (stream) Close() {}

// The peer authenticates callers, and answers queries and streams as the API does.
func TestHandler_AnswersQueriesAndStreams(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(
		gqlgenpeer.Handler(fake{}, graph.Config{Authenticate: func(token string) (authz.Principal, error) {
			if token != "good" {
				return authz.Principal{}, authz.ErrUnauthenticated
			}
			return authz.Principal{ID: "eva"}, nil
		}}))
	defer server.Close()
	post := func(token string) string {
		req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL,
			strings.NewReader(`{"query":"{ health { status } }"}`))
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Authorization", "Bearer "+token)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, _ := io.ReadAll(resp.Body)
		return string(body)
	}
	if got := post("good"); got != `{"data":{"health":{"status":"HEALTHY"}}}` {
		t.Errorf("a good token was answered %s, want the health", got)
	}
	if got := post("bad"); strings.Contains(got, "data") {
		t.Errorf("a bad token was answered %s, want no data", got)
	}
	d := websocket.Dialer{Subprotocols: []string{"graphql-transport-ws"}}
	conn, _, err := d.Dial("ws"+strings.TrimPrefix(server.URL, "http"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetReadDeadline(time.Now().Add(time.Minute))
	for _, m := range []string{
		`{"type":"connection_init","payload":{"Authorization":"Bearer good"}}`,
		`{"type":"subscribe","id":"1","payload":{"query":"subscription { runUpdates(runId: \"r1\") { sync snapshot { runId triggeredBy } } }"}}`,
	} {
		if err := conn.WriteMessage(websocket.TextMessage, []byte(m)); err != nil {
			t.Fatal(err)
		}
	}
	for {
		_, got, err := conn.ReadMessage()
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(got), `"next"`) {
			if !strings.Contains(string(got), `{"sync":"LIVE","snapshot":{"runId":"r1","triggeredBy":"eva"}}`) {
				t.Errorf("the stream sent %s, want the run r1 as seen by eva", got)
			}
			return
		}
	}
}
