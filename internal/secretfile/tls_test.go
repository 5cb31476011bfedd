package secretfile_test

import (
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dvt-engine/dvt/internal/secretfile"
	"github.com/dvt-engine/dvt/internal/testserver"
	"github.com/dvt-engine/dvt/internal/testtime"
)

var quiet = slog.New(slog.DiscardHandler)

// echo starts a TLS server that returns the bytes that it receives.
func echo(t *testing.T) (addr string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ln.Close() })
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go func() { defer c.Close(); _, _ = io.Copy(c, c) }()
		}
	}()
	return ln.Addr().String()
}

// say makes a connection, sends a byte and reads it back.
func say(addr string, c *tls.Config) error {
	d := &net.Dialer{Timeout: 5 * time.Second}
	conn, err := tls.DialWithDialer(d, "tcp", addr, c)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(5 * time.Second)); err != nil {
		return err
	}
	if _, err := conn.Write([]byte("x")); err != nil {
		return err
	}
	_, err = io.ReadFull(conn, make([]byte, 1)) // with TLS 1.3 this read reports a refused client certificate
	return err
}

// eventually repeats f until its success is as wanted, and fails the test otherwise.
func eventually(t *testing.T, what string, want bool, f func() error) {
	t.Helper()
	var err error
	deadline := time.Now().Add(testtime.Of(10 * time.Second))
	for ; time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		if err = f(); (err == nil) == want {
			return
		}
	}
	t.Fatalf("%s: the last error was %v, want success %t", what, err, want)
}

func TestClient_UsesReplacedFilesWithoutAnotherConfig(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	servers, clients := testserver.NewAuthority(t, "servers"), testserver.NewAuthority(t, "clients")
	proxy := testserver.NewTLSProxy(t, echo(t), servers.Issue(t, "server", "127.0.0.1"), clients)
	cert, key := clients.Issue(t, "first").Write(t, dir, "client")
	files := secretfile.Files{CA: testserver.WriteFile(t, dir, "ca.pem", servers.PEM), Cert: cert, Key: key}
	c, err := files.Client(quiet, "127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	if err := say(proxy.Addr, c); err != nil || proxy.Clients("first") != 1 {
		t.Fatalf("%d connections with the first certificate (%v), want 1", proxy.Clients("first"), err)
	}
	servers, clients = testserver.NewAuthority(t, "servers 2"), testserver.NewAuthority(t, "clients 2")
	proxy.Replace(t, servers.Issue(t, "server", "127.0.0.1"), clients)
	if err := say(proxy.Addr, c); err == nil {
		t.Fatal("a server of an untrusted authority was accepted")
	}
	testserver.WriteFile(t, dir, "ca.pem", servers.PEM)
	clients.Issue(t, "second").Write(t, dir, "client")
	eventually(t, "a connection after all files were replaced", true, func() error { return say(proxy.Addr, c) })
	if proxy.Clients("second") == 0 {
		t.Error("the client did not present the second certificate")
	}
}

func TestClient_AcceptsOnlyTheExpectedName(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	authority := testserver.NewAuthority(t, "private")
	ca := testserver.WriteFile(t, dir, "ca.pem", authority.PEM)
	cert, key := authority.Issue(t, "client").Write(t, dir, "client")
	for name, c := range map[string]struct {
		host, expected string
		ok             bool
	}{
		"the name":           {"temporal.internal", "temporal.internal", true},
		"another name":       {"temporal.internal", "store.internal", false},
		"the address":        {"127.0.0.1", "127.0.0.1", true},
		"another address":    {"127.0.0.2", "127.0.0.1", false},
		"a name for address": {"temporal.internal", "127.0.0.1", false},
	} {
		proxy := testserver.NewTLSProxy(t, echo(t), authority.Issue(t, "server", c.host), authority)
		config, err := secretfile.Files{CA: ca, Cert: cert, Key: key}.Client(quiet, c.expected)
		if err != nil {
			t.Fatal(err)
		}
		err = say(proxy.Addr, config)
		if (err == nil) != c.ok {
			t.Errorf("%s: got %v, want success %t", name, err, c.ok)
		}
		if _, verification := errors.AsType[*tls.CertificateVerificationError](err); !c.ok && !verification {
			t.Errorf("%s: the error is not a verification error: %v", name, err)
		}
	}
	if _, err := (secretfile.Files{CA: ca}).Client(quiet, ""); err == nil {
		t.Error("Client without a name succeeded, want an error")
	}
}

func TestServer_AcceptsClientsOfTheCurrentAuthority(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	servers, clients := testserver.NewAuthority(t, "servers"), testserver.NewAuthority(t, "clients")
	cert, key := servers.Issue(t, "server", "127.0.0.1").Write(t, dir, "server")
	clientCA := testserver.WriteFile(t, dir, "clients.pem", clients.PEM)
	c, err := secretfile.Files{CA: clientCA, Cert: cert, Key: key}.Server(quiet)
	if err != nil {
		t.Fatal(err)
	}
	ln, err := tls.Listen("tcp", "127.0.0.1:0", c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ln.Close() })
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			go func() { defer conn.Close(); _, _ = io.Copy(conn, conn) }()
		}
	}()
	with := func(a *testserver.Authority, name string) *tls.Config {
		cert, key := a.Issue(t, name).Write(t, dir, name)
		config, err := secretfile.Files{CA: testserver.WriteFile(t, dir, name+"-ca.pem", servers.PEM), Cert: cert,
			Key: key}.Client(quiet, "127.0.0.1")
		if err != nil {
			t.Fatal(err)
		}
		return config
	}
	addr, others := ln.Addr().String(), testserver.NewAuthority(t, "others")
	known, stranger := with(clients, "known"), with(others, "stranger")
	if err := say(addr, known); err != nil {
		t.Errorf("a client of the authority was refused: %v", err)
	}
	if err := say(addr, stranger); err == nil {
		t.Error("a client of another authority was accepted")
	}
	testserver.WriteFile(t, dir, "clients.pem", others.PEM)
	eventually(t, "a client of the replaced authority", false, func() error { return say(addr, known) })
	eventually(t, "a client of the new authority", true, func() error { return say(addr, stranger) })
}

func TestFiles_AreCheckedWhenTheyAreOpened(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	a := testserver.NewAuthority(t, "private")
	cert, key := a.Issue(t, "one").Write(t, dir, "one")
	_, other := a.Issue(t, "two").Write(t, dir, "two")
	ca := testserver.WriteFile(t, dir, "ca.pem", a.PEM)
	none := filepath.Join(dir, "none")
	for name, c := range map[string]struct {
		files secretfile.Files
		want  string
	}{
		"a certificate without a key": {secretfile.Files{Cert: cert}, "together"},
		"the key of another certificate": {secretfile.Files{Cert: cert, Key: other},
			"no certificate with its private key"},
		"a missing authority": {secretfile.Files{CA: none}, "cannot be read"},
		"a key as authority":  {secretfile.Files{CA: key}, "no certificate in PEM"},
		"all files":           {secretfile.Files{CA: ca, Cert: cert, Key: key}, ""},
	} {
		_, err := c.files.Client(quiet, "h")
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: got the error %v, want %q", name, err, c.want)
		}
	}
}
