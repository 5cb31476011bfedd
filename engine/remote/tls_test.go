package remote_test

import (
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/engine/remote"
	"github.com/dvt-engine/dvt/internal/secretfile"
	"github.com/dvt-engine/dvt/internal/testserver"
	"github.com/dvt-engine/dvt/store"
)

// serveTLS offers j over TLS to workers with a certificate and the current token.
func serveTLS(t *testing.T, j *journal, files secretfile.Files, token *atomic.Value) (base string) {
	t.Helper()
	c, err := files.Server(slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewUnstartedServer(&remote.Server{
		Logger: slog.New(slog.DiscardHandler), ClientCertificates: true,
		Authenticate: func(shown string) (engine.AttemptJournal, error) {
			if shown != token.Load() {
				return nil, errors.New("unknown")
			}
			return j, nil
		},
	})
	s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug)
	s.Listener.Close()
	if s.Listener, err = tls.Listen("tcp", "127.0.0.1:0", c); err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(s.Close)
	_, port, _ := net.SplitHostPort(s.Listener.Addr().String())
	return "https://127.0.0.1:" + port
}

// contract: T203
func TestClient_ShowsItsCertificateAndTheTokenOfTheMoment(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	authority := testserver.NewAuthority(t, "private")
	ca := testserver.WriteFile(t, dir, "ca.pem", authority.PEM)
	serverCert, serverKey := authority.Issue(t, "server", "127.0.0.1").Write(t, dir, "server")
	workerCert, workerKey := authority.Issue(t, "worker").Write(t, dir, "worker")
	var known, shown atomic.Value
	known.Store("first")
	shown.Store("first")
	j := &journal{begun: engine.AttemptStarted{AttemptStarted: store.AttemptStarted{Verdict: store.StartGranted}}}
	base := serveTLS(t, j, secretfile.Files{CA: ca, Cert: serverCert, Key: serverKey}, &known)
	client := func(f secretfile.Files) *remote.Client {
		c, err := f.Client(slog.New(slog.DiscardHandler), "127.0.0.1")
		if err != nil {
			t.Fatal(err)
		}
		made, err := remote.New(remote.Config{URL: base, TLS: c, Token: func() string { return shown.Load().(string) }})
		if err != nil {
			t.Fatal(err)
		}
		return made
	}
	good := client(secretfile.Files{CA: ca, Cert: workerCert, Key: workerKey})
	begin := func(c *remote.Client) error { _, err := c.StartAttempt(t.Context(), beginInput); return err }
	if err := begin(good); err != nil {
		t.Errorf("with certificate and token: %v", err)
	}
	if err := begin(client(secretfile.Files{CA: ca})); err == nil {
		t.Error("without a certificate the call was answered")
	}
	known.Store("second")
	if err := begin(good); err == nil {
		t.Error("with the old token the call was answered")
	}
	shown.Store("second")
	if err := begin(good); err != nil {
		t.Errorf("with the new token: %v", err)
	}
	plain, err := remote.NewClient(base, "second")
	if err != nil {
		t.Fatal(err)
	}
	if err := begin(plain); err == nil {
		t.Error("a server of a private authority was accepted without that authority")
	}
}

func TestNew_PlainTextOffLoopbackIsAllowedByNameOnly(t *testing.T) {
	t.Parallel()
	token := func() string { return "t" }
	if _, err := remote.New(remote.Config{URL: "http://dvt.example", Token: token}); err == nil {
		t.Error("http off loopback was accepted")
	}
	if _, err := remote.New(remote.Config{URL: "http://dvt.example", Token: token, AllowPlaintext: true}); err != nil {
		t.Errorf("http off loopback where it is allowed: %v", err)
	}
}
