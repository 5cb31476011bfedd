package vault_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/dvt-engine/dvt/internal/testserver"
	"github.com/dvt-engine/dvt/internal/testtime"
	"github.com/dvt-engine/dvt/secret"
)

// lent has a provider of credentials of a real PostgreSQL.
type lent struct {
	*secret.Resolver
	server
	dsn string
}

func newLent(t *testing.T) lent {
	t.Helper()
	s, dsn := start(t), testserver.Postgres(t)
	s.database(t, dsn)
	s.write(t, "auth/approle/role/worker", map[string]any{"token_policies": "worker", "token_period": "6s",
		"token_ttl": 0})
	cfg := s.approle(t)
	cfg.Dynamic = true
	r := secret.NewResolver(secret.Source{Name: "db", Provider: open(t, cfg),
		Path: "database/{tenant}/{environment}/creds/{key}", Timeout: 10 * time.Second, Leases: true})
	r.Held = t.TempDir()
	return lent{r, s, dsn}
}

// borrow returns the set of a new attempt, and the name and password of its role.
func (l lent) borrow(t *testing.T) (set *secret.Set, name, password string) {
	t.Helper()
	set, err := l.Resolve(t.Context(), secret.Scope{TenantID: "t1", EnvironmentID: "dev"}, []secret.Ref{
		{Provider: "db", Key: "reader#username"}, {Provider: "db", Key: "reader#password"}})
	if err != nil {
		t.Fatal(err)
	}
	return set, set.Values[0].Reveal(), set.Values[1].Reveal()
}

// logsIn reports whether a role can connect.
func (l lent) logsIn(t *testing.T, name, password string) bool {
	t.Helper()
	cfg, err := pgx.ParseConfig(l.dsn)
	if err != nil {
		t.Fatal(err)
	}
	cfg.User, cfg.Password = name, password
	c, err := pgx.ConnectConfig(t.Context(), cfg)
	if err != nil {
		return false
	}
	_ = c.Close(t.Context())
	return true
}

func (l lent) wantGone(t *testing.T, name, password string, within time.Duration) {
	t.Helper()
	began := time.Now()
	for l.logsIn(t, name, password) {
		if time.Since(began) > testtime.Of(within) {
			t.Fatalf("the role %s can still log in after %s", name, time.Since(began))
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Logf("gone after %s", time.Since(began).Round(time.Millisecond))
}

// notes lists what the resolver noted.
func (l lent) notes(t *testing.T) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(l.Held, "*"))
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func TestLease_EndsWithTheAttempt(t *testing.T) {
	t.Parallel()
	l := newLent(t)
	one, name, password := l.borrow(t)
	other, otherName, otherPassword := l.borrow(t)
	if name == otherName {
		t.Error("two attempts got the same role")
	}
	if !l.logsIn(t, name, password) {
		t.Fatal("the role cannot log in: its name and password are of different leases")
	}
	if n := l.notes(t); len(n) != 2 {
		t.Errorf("two leases have the notes %v", n)
	}
	l.must(t, one.Release(t.Context()))
	l.wantGone(t, name, password, 2*time.Second)
	if !l.logsIn(t, otherName, otherPassword) {
		t.Error("the role of another attempt is gone too")
	}
	l.must(t, other.Release(t.Context()))
	if n := l.notes(t); len(n) > 0 {
		t.Errorf("notes of leases that ended stayed: %v", n)
	}
}

// A worker was killed: its notes name a process that does not exist, or in a container the number of the worker that
// sweeps, because both have the number 1.
func TestLease_OfAKilledWorkerIsSwept(t *testing.T) {
	t.Parallel()
	l := newLent(t)
	roles := map[string]string{}
	for _, pid := range []int{1<<22 + 1, os.Getpid()} {
		before := l.notes(t)
		_, name, password := l.borrow(t)
		roles[name] = password
		notes := slices.DeleteFunc(l.notes(t), func(n string) bool { return slices.Contains(before, n) })
		if len(notes) != 1 {
			t.Fatalf("one lease has the notes %v", notes)
		}
		body, err := os.ReadFile(notes[0])
		if err != nil || strings.Contains(string(body), password) {
			t.Fatalf("the note is %s, %v; want no password in it", body, err)
		}
		// A file that no process has locked takes its place.
		l.must(t, os.Remove(notes[0]))
		l.must(t, os.WriteFile(filepath.Join(l.Held, fmt.Sprintf("%d.killed", pid)), body, 0o600))
	}
	_, kept, keptPassword := l.borrow(t)
	go l.Sweep(t.Context(), func(err error) { t.Errorf("sweep: %v", err) })
	for name, password := range roles {
		l.wantGone(t, name, password, 15*time.Second)
	}
	if !l.logsIn(t, kept, keptPassword) {
		t.Error("the lease of a process that lives was swept")
	}
}

func TestLease_IsKeptWhileTheAttemptRuns(t *testing.T) {
	t.Parallel()
	l := newLent(t)
	l.write(t, "database/t1/dev/roles/reader", map[string]any{"default_ttl": "3s"})
	set, name, password := l.borrow(t)
	lost := make(chan error, 1)
	go set.Keep(t.Context(), func(err error) { lost <- err })
	time.Sleep(10 * time.Second)
	if !l.logsIn(t, name, password) {
		t.Error("after three lives of the lease its role cannot log in")
	}
	l.must(t, set.Release(t.Context()))
	select {
	case err := <-lost:
		if err == nil {
			t.Error("the loss of the lease has no reason")
		}
	case <-time.After(testtime.Of(10 * time.Second)):
		t.Error("nobody was told that the lease was lost")
	}
}

func TestLease_OfAnUnknownRole(t *testing.T) {
	t.Parallel()
	l := newLent(t)
	_, err := l.Resolve(t.Context(), secret.Scope{TenantID: "t1", EnvironmentID: "dev"},
		[]secret.Ref{{Provider: "db", Key: "reader#password"}, {Provider: "db", Key: "writer#password"}})
	if err == nil || errors.Is(err, secret.ErrDenied) {
		t.Errorf("a role that does not exist: %v", err)
	}
	if n := l.notes(t); len(n) > 0 {
		t.Errorf("the lease of the other secret is still held: %v", n)
	}
}
