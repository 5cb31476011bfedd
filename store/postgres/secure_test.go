package postgres_test

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dvt-engine/dvt/internal/testserver"
	"github.com/dvt-engine/dvt/internal/testtime"
	"github.com/dvt-engine/dvt/store/postgres"
)

func TestExposed_NamesHostsWithoutAVerifiedName(t *testing.T) {
	for _, name := range []string{"PGSSLMODE", "PGHOST", "PGSSLROOTCERT", "PGSERVICE"} {
		t.Setenv(name, "")
	}
	ca := testserver.WriteFile(t, t.TempDir(), "ca.pem", testserver.NewAuthority(t, "private").PEM)
	for dsn, want := range map[string][]string{
		"postgres://dvt@127.0.0.1/dvt":                                       nil,
		"postgres://dvt@localhost/dvt?sslmode=disable":                       nil,
		"postgres://dvt@[::1]/dvt":                                           nil,
		"postgres://dvt@/dvt?host=/run/postgresql":                           nil,
		"postgres://dvt@db.internal/dvt":                                     {"db.internal"},
		"postgres://dvt@db.internal/dvt?sslmode=disable":                     {"db.internal"},
		"postgres://dvt@db.internal/dvt?sslmode=require":                     {"db.internal"},
		"postgres://dvt@db.internal/dvt?sslmode=verify-ca&sslrootcert=" + ca: {"db.internal"},
		"postgres://dvt@db.internal/dvt?sslmode=verify-full":                 nil,
		"postgres://dvt@10.0.0.5/dvt?sslmode=verify-full&sslrootcert=" + ca:  nil,
		"postgres://dvt@127.0.0.1,db2.internal,db3.internal/dvt":             {"db2.internal", "db3.internal"},
		"host=db.internal user=dvt dbname=dvt sslmode=prefer":                {"db.internal"},
		"postgres://dvt@db.internal.127.0.0.1.example/dvt?sslmode=allow":     {"db.internal.127.0.0.1.example"},
	} {
		got, err := postgres.PlaintextHosts(dsn)
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%s: %v, hosts (-want +got):\n%s", dsn, err, diff)
		}
	}
	t.Setenv("PGSSLMODE", "verify-full")
	if got, err := postgres.PlaintextHosts("postgres://dvt@db.internal/dvt"); err != nil || got != nil {
		t.Errorf("Exposed with PGSSLMODE=verify-full returned %v, %v; want none", got, err)
	}
	if _, err := postgres.PlaintextHosts("postgres://dvt:hush@db.internal:x/dvt"); err == nil ||
		strings.Contains(err.Error(), "hush") {
		t.Errorf("error for an invalid DSN: %v, want one without the password", err)
	}
}

// An open store picks up new certificates, authorities and passwords of both sides.
func TestStore_UsesReplacedCertificatesAndPasswords(t *testing.T) {
	t.Parallel()
	servers, clients, dir := testserver.NewAuthority(t, "servers"), testserver.NewAuthority(t, "clients"), t.TempDir()
	server := testserver.PostgresTLS(t, servers.Issue(t, "server", "127.0.0.1"), clients, "first")
	var password atomic.Value
	trust := func(word string) {
		testserver.WriteFile(t, dir, "ca.pem", servers.PEM)
		clients.Issue(t, testserver.SecureRole).Write(t, dir, "app")
		password.Store(word)
	}
	trust("first")
	u, err := url.Parse(server.DSN)
	if err != nil {
		t.Fatal(err)
	}
	u.User, u.Path = url.User(testserver.SecureRole), "/dvt"
	u.RawQuery = fmt.Sprintf("sslmode=verify-full&sslrootcert=%[1]s/ca.pem"+
		"&sslcert=%[1]s/app.pem&sslkey=%[1]s/app.key", dir)
	open := func(dsn string) (*postgres.Store, error) {
		o := postgres.Options{Migrate: true, Password: func() string { return password.Load().(string) }}
		return postgres.Open(t.Context(), dsn, o)
	}
	if _, err := open(strings.Replace(u.String(), "verify-full", "disable", 1)); err == nil {
		t.Fatal("the server accepts connections without TLS, so this test proves nothing")
	}
	st, err := open(u.String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = st.Close() })
	until := func(what string, want bool) {
		t.Helper()
		var err error
		deadline := time.Now().Add(testtime.Of(20 * time.Second))
		for ; time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
			server.Cut(t)
			if err = st.Ping(t.Context()); (err == nil) == want {
				return
			}
		}
		t.Fatalf("timeout while waiting for %s; the last result was %v", what, err)
	}
	servers, clients = testserver.NewAuthority(t, "servers 2"), testserver.NewAuthority(t, "clients 2")
	server.ReplaceCredentials(t, servers.Issue(t, "server", "127.0.0.1"), clients, "second")
	until("a refusal of the old files", false)
	trust("second")
	until("a connection with the new files", true)
	// The store keeps working when a certificate is replaced before its key.
	key, err := os.ReadFile(filepath.Join(dir, "app.key"))
	if err != nil {
		t.Fatal(err)
	}
	testserver.WriteFile(t, dir, "app.key", testserver.NewAuthority(t, "others").Issue(t, "app").Key)
	until("a connection while the key does not match the certificate", true)
	testserver.WriteFile(t, dir, "app.key", key)
	until("a connection with the matching key", true)
}
