package send_test

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/dvt-engine/dvt/destination"
	"github.com/dvt-engine/dvt/destination/send"
	"github.com/dvt-engine/dvt/egress"
)

// Addresses of the receiver that was checked, and of a server inside that the rules deny.
const (
	outside = "127.0.0.1"
	inside  = "127.0.0.2"
)

// newInside listens inside on the port of the receiver, and counts the connections that reach it.
func newInside(t *testing.T, port string) *atomic.Int64 {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", inside+":"+port)
	if err != nil {
		t.Fatal(err)
	}
	var reached atomic.Int64
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			reached.Add(1)
			conn.Close()
		}
	}()
	t.Cleanup(func() { l.Close(); <-done })
	return &reached
}

// guarded makes a sender that may call every address but the one inside.
func guarded(t *testing.T, cfg destination.Config) destination.Sender {
	t.Helper()
	guard, err := egress.New(egress.Settings{AllowPrivate: true,
		Rules: map[string]egress.Rules{egress.Everyone: {Deny: []string{inside}}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return newSender(t, cfg, development, func(o *send.Options) { o.Guard = guard })
}

// The name of a destination resolves outside when it is configured and first called, and inside afterwards: over a kept
// connection, after its end, for the target of a redirect, and as the second address of an answer whose first one
// refuses connections.
func TestSend_ANameThatMovesInsideIsRefused(t *testing.T) {
	t.Parallel()
	moving.Store("moves.test", outside)
	var accepted atomic.Int64
	var redirect atomic.Pointer[string]
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if to := redirect.Load(); to != nil {
			http.Redirect(w, r, *to, http.StatusTemporaryRedirect)
			return
		}
		accepted.Add(1)
	}))
	t.Cleanup(srv.Close)
	_, port, _ := net.SplitHostPort(srv.Listener.Addr().String())
	reached := newInside(t, port)
	s := guarded(t, destination.Config{Kind: destination.Webhook, URL: "http://moves.test:" + port,
		Secrets: []destination.SecretRef{secretFile(t, newKey('a'))}})
	wantKind(t, s.Send(t.Context(), eventMessage()), "accepted")

	moving.Store("moves.test", inside)
	wantKind(t, s.Send(t.Context(), eventMessage()), "accepted") // the connection leads to the address that was judged
	srv.CloseClientConnections()
	_ = s.Send(t.Context(), eventMessage()) // may meet the end of the connection
	if err := s.Send(t.Context(), eventMessage()); !strings.Contains(fmt.Sprint(err), "may be called") {
		t.Errorf("after the end of the connection: %v, want that the address may not be called", err)
	}

	moving.Store("moves.test", outside)
	wantKind(t, s.Send(t.Context(), eventMessage()), "accepted")
	to := "http://moves.test:" + port + "/again"
	redirect.Store(&to)
	moving.Store("moves.test", inside)
	wantKind(t, s.Send(t.Context(), eventMessage()), "rejected")

	srv.Close()
	moving.Store("moves.test", outside+","+inside)
	if err := s.Send(t.Context(), eventMessage()); err == nil {
		t.Error("a message was accepted after the receiver ended")
	}
	if n := reached.Load(); n != 0 || accepted.Load() != 3 {
		t.Errorf("%d connections inside and %d messages accepted outside, want 0 and 3", n, accepted.Load())
	}
}

// Every kind judges the address when it connects, not when the sender is made.
func TestSend_EveryKindJudgesWhenItConnects(t *testing.T) {
	t.Parallel()
	for kind, scheme := range map[destination.Kind]string{destination.Webhook: "http", destination.Slack: "http",
		destination.PagerDuty: "http", destination.Email: "smtp", destination.Syslog: "tcp"} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			name := string(kind) + ".moves.test"
			moving.Store(name, outside)
			l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", inside+":0")
			if err != nil {
				t.Fatal(err)
			}
			_, port, _ := net.SplitHostPort(l.Addr().String())
			l.Close()
			reached := newInside(t, port)
			secret := newKey('a')
			if kind == destination.Slack {
				secret = scheme + "://" + name + ":" + port + "/services/x"
			}
			cfg := destination.Config{Kind: kind, URL: scheme + "://" + name + ":" + port}
			switch kind {
			case destination.Email:
				cfg.From, cfg.To = "dvt@example.com", []string{"ada@example.com"}
			case destination.Syslog:
			default:
				cfg.Secrets = []destination.SecretRef{secretFile(t, secret)}
			}
			s := guarded(t, cfg)
			moving.Store(name, inside)
			if err := s.Send(t.Context(), alertMessage()); !strings.Contains(fmt.Sprint(err), "may be called") {
				t.Errorf("the send ended with %v, want that the address may not be called", err)
			}
			if n := reached.Load(); n != 0 {
				t.Errorf("%d connections reached the server inside, want 0", n)
			}
		})
	}
}
