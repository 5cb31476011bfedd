package secret_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/secret"
)

// contract: R465
func TestRevoke_ForgetsTheValuesOfOneTenant(t *testing.T) {
	t.Parallel()
	s := &system{read: echo}
	r := resolver(s, time.Minute)
	read := func(tenant string) (cached bool) {
		t.Helper()
		set, err := r.Resolve(t.Context(), secret.Scope{TenantID: tenant, EnvironmentID: "dev"},
			[]secret.Ref{{Provider: "one", Key: "a"}})
		if err != nil {
			t.Fatal(err)
		}
		return set.Reads[0].Cached
	}
	for _, c := range []struct {
		tenant string
		cached bool
	}{{"t1", false}, {"t2", false}, {"t1", true}, {"t2", true}} {
		if got := read(c.tenant); got != c.cached {
			t.Errorf("the read of %s was remembered: %t, want %t", c.tenant, got, c.cached)
		}
	}
	if got, want := r.Revoke(t.Context(), "t1", ""), (secret.Revoked{Dropped: 1}); got != want {
		t.Errorf("the revocation did %+v, want %+v", got, want)
	}
	if read("t1") {
		t.Error("the value of the tenant is still remembered")
	}
	if !read("t2") {
		t.Error("the value of another tenant was forgotten")
	}
}

// A value that was on its way while somebody revoked is given to the attempt that asked, and not remembered.
func TestRevoke_RemembersNoReadThatIsUnderWay(t *testing.T) {
	t.Parallel()
	asked, goOn := make(chan struct{}), make(chan struct{})
	var once sync.Once
	s := &system{read: func(context.Context, string, string) (secret.Answer, error) {
		once.Do(func() { close(asked); <-goOn })
		return answer("old"), nil
	}}
	r := resolver(s, time.Minute)
	ref := []secret.Ref{{Provider: "one", Key: "a"}}
	done := make(chan error, 1)
	go func() {
		_, err := r.Resolve(t.Context(), scope, ref)
		done <- err
	}()
	<-asked
	r.Revoke(t.Context(), "t1", "")
	close(goOn)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if _, err := r.Resolve(t.Context(), scope, ref); err != nil || s.calls.Load() != 2 {
		t.Errorf("the provider was asked %d times (%v), want 2: a value from before the revocation is not remembered",
			s.calls.Load(), err)
	}
}

// lender makes a secret for each reader and counts what it took back.
type lender struct {
	system
	mu      sync.Mutex
	revoked []string
}

func (*lender) Renew(context.Context, string) (time.Duration, error) { return time.Hour, nil }

func (l *lender) Revoke(_ context.Context, leaseID string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.revoked = append(l.revoked, leaseID)
	return nil
}

func TestRevoke_EndsTheLeasesOfARunOrOfATenant(t *testing.T) {
	t.Parallel()
	l := &lender{}
	l.read = func(_ context.Context, path, _ string) (secret.Answer, error) {
		return secret.Answer{Fields: map[string]secret.Value{plan.DefaultSecretField: secret.NewValue(path)},
			Lease: &secret.Lease{ID: path, Life: time.Hour}}, nil
	}
	r := secret.NewResolver(secret.Source{Name: "db", Provider: l, Path: "{tenant}/{key}", Timeout: time.Second,
		Leases: true})
	borrow := func(tenant, runID, key string) *secret.Set {
		t.Helper()
		set, err := r.Resolve(t.Context(), secret.Scope{TenantID: tenant, EnvironmentID: "dev", RunID: runID},
			[]secret.Ref{{Provider: "db", Key: key}})
		if err != nil {
			t.Fatal(err)
		}
		return set
	}
	ended := borrow("t1", "r1", "ended")
	borrow("t1", "r1", "a")
	borrow("t1", "r2", "b")
	borrow("t2", "r3", "c")
	if err := ended.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		tenant, runID string
		want          int
	}{{"t1", "r2", 1}, {"t1", "r3", 0}, {"t1", "", 2}} {
		if got := r.Revoke(t.Context(), c.tenant, c.runID); got.Ended != c.want || got.Failed != 0 {
			t.Errorf("the revocation of %s %s did %+v, want %d leases", c.tenant, c.runID, got, c.want)
		}
	}
	for _, id := range l.revoked {
		if id == "t2/c" {
			t.Error("the lease of another tenant ended")
		}
	}
}
