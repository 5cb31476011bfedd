package ws_test

import (
	"bufio"
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/99designs/gqlgen/graphql"

	"github.com/dvt-engine/dvt/graph/ws"
	"github.com/dvt-engine/dvt/internal/testtime"
)

// events opens an event stream.
func (s *server) events(ctx context.Context, t *testing.T, query string) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.http.URL+"/events?query="+url.QueryEscape(query), nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := s.http.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { resp.Body.Close() })
	return resp
}

func TestEvents_SendTheResponseAndComplete(t *testing.T) {
	t.Parallel()
	s := start(t, ws.Config{}, respondOnce(`{"a":1}`))
	resp := s.events(t.Context(), t, subscription)
	if got := resp.Header.Get("Content-Type"); !strings.HasPrefix(got, "text/event-stream") {
		t.Errorf("Content-Type is %q, want text/event-stream", got)
	}
	want := ":\n\nevent: next\ndata: {\"data\":{\"a\":1}}\n\nevent: complete\ndata:\n\n"
	if got := readAll(t, resp.Body); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestEvents_EndWithTheErrorOfFail(t *testing.T) {
	t.Parallel()
	s := start(t, ws.Config{}, func(ctx context.Context, _ *graphql.OperationContext) graphql.ResponseHandler {
		ws.Fail(ctx, errors.New("TOKEN_EXPIRED"))
		return func(context.Context) *graphql.Response { return nil }
	})
	want := `data: {"errors":[{"message":"TOKEN_EXPIRED","extensions":{"code":"OTHER"}}],"data":null}` +
		"\n\nevent: complete"
	if got := readAll(t, s.events(t.Context(), t, subscription).Body); !strings.Contains(got, want) {
		t.Errorf("got %q, want it to contain %q", got, want)
	}
}

func TestEvents_CommentsKeepAQuietStreamAlive(t *testing.T) {
	t.Parallel()
	var live atomic.Int64
	s := start(t, ws.Config{CommentEvery: 20 * time.Millisecond}, neverRespond(&live))
	ctx, cancel := context.WithCancel(t.Context())
	lines := bufio.NewScanner(s.events(ctx, t, subscription).Body)
	for comments := 0; comments < 3 && lines.Scan(); {
		if lines.Text() == ":" {
			comments++
		}
	}
	cancel()
	eventually(t, 5*time.Second, "the operation ended with its client", func() bool { return live.Load() == 0 })
}

func TestEvents_ShutdownEndsStreamsAndRefusesNewOnes(t *testing.T) {
	t.Parallel()
	var live atomic.Int64
	s := start(t, ws.Config{StreamsOfPeer: 1}, neverRespond(&live))
	resp := s.events(t.Context(), t, subscription)
	if got := readAll(t, s.events(t.Context(), t, subscription).Body); got != "TOO_MANY_STREAMS\n" {
		t.Errorf("the second stream got %q, want TOO_MANY_STREAMS", got)
	}
	eventually(t, 5*time.Second, "the operation runs", func() bool { return live.Load() == 1 })
	if err := s.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := readAll(t, resp.Body); !strings.Contains(got, "SERVER_SHUTDOWN") ||
		!strings.HasSuffix(got, "event: complete\ndata:\n\n") {
		t.Errorf("the stream ended with %q, want SERVER_SHUTDOWN and complete", got)
	}
	if got := readAll(t, s.events(t.Context(), t, subscription).Body); got != "SERVER_SHUTDOWN\n" {
		t.Errorf("a stream after Shutdown got %q, want SERVER_SHUTDOWN", got)
	}
}

// The timeouts of the HTTP server limit other requests, but must not end a stream.
func TestEvents_OutliveTheTimeoutsOfTheHTTPServer(t *testing.T) {
	t.Parallel()
	var live atomic.Int64
	s := start(t, ws.Config{CommentEvery: 20 * time.Millisecond}, neverRespond(&live))
	within := max(time.Second, testtime.Of(200*time.Millisecond)) // long enough for the request itself
	short := httptest.NewUnstartedServer(s.http.Config.Handler)
	short.Config.ReadTimeout, short.Config.WriteTimeout = within, within
	short.Start()
	defer short.Close()
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, short.URL+"/events?query="+url.QueryEscape(subscription),
		nil)
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	resp, err := short.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	for lines := bufio.NewReader(resp.Body); time.Since(began) < within*3/2; {
		if _, err := lines.ReadString('\n'); err != nil {
			t.Fatalf("the stream ended after %v: %v", time.Since(began), err)
		}
	}
}
