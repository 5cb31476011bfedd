package secret_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/secret"
)

// system is a provider that counts its calls.
type system struct {
	calls atomic.Int32
	mu    sync.Mutex
	read  func(ctx context.Context, path, version string) (secret.Answer, error)
}

func (s *system) Read(ctx context.Context, path, version string) (secret.Answer, error) {
	s.calls.Add(1)
	s.mu.Lock()
	read := s.read
	s.mu.Unlock()
	return read(ctx, path, version)
}

func (s *system) Check(context.Context) error { return nil }

func answer(text string) secret.Answer {
	return secret.Answer{Fields: map[string]secret.Value{plan.DefaultSecretField: secret.NewValue(text)}}
}

// echo answers each path with itself.
func echo(_ context.Context, path, version string) (secret.Answer, error) {
	return answer(path + "@" + version), nil
}

func resolver(s *system, ttl time.Duration) *secret.Resolver {
	return secret.NewResolver(secret.Source{Name: "one", Provider: s, Path: "dvt/{tenant}/{environment}/{key}",
		CacheTTL: ttl, Timeout: 5 * time.Second}, secret.Source{Name: "two", Provider: s,
		Path: "other/{tenant}/{key}", Timeout: 5 * time.Second})
}

var scope = secret.Scope{TenantID: "t1", EnvironmentID: "dev"}

// contract: X02
func TestResolve_ProvidersWithTheSameKeyDoNotCollide(t *testing.T) {
	t.Parallel()
	got, err := resolver(&system{read: echo}, time.Minute).Resolve(t.Context(), scope, []secret.Ref{
		{Provider: "one", Key: "a/b"}, {Provider: "two", Key: "a/b"}, {Provider: "one", Key: "a/b", Version: "2"}})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"dvt/t1/dev/a/b@", "other/t1/a/b@", "dvt/t1/dev/a/b@2"} {
		if got.Values[i].Reveal() != want {
			t.Errorf("secret %d was read at %q, want %q", i, got.Values[i].Reveal(), want)
		}
	}
}

func TestResolve_NoIDNamesTheDirectoryOfAnotherTenant(t *testing.T) {
	t.Parallel()
	s := &system{read: echo}
	for _, bad := range []secret.Scope{{TenantID: "..", EnvironmentID: "dev"}, {TenantID: "t1/dev", EnvironmentID: "x"},
		{TenantID: "", EnvironmentID: "dev"}, {TenantID: "t1", EnvironmentID: "{key}"}} {
		if _, err := resolver(s, 0).Resolve(t.Context(), bad, []secret.Ref{{Provider: "one", Key: "a"}}); !errors.Is(err,
			secret.ErrDenied) {
			t.Errorf("scope %+v: %v, want ErrDenied", bad, err)
		}
	}
	if n := s.calls.Load(); n != 0 {
		t.Errorf("the provider was asked %d times", n)
	}
}

func TestResolve_NamesEachSecretThatWasNotRead(t *testing.T) {
	t.Parallel()
	s := &system{read: func(_ context.Context, path, _ string) (secret.Answer, error) {
		if strings.HasSuffix(path, "/gone") {
			return secret.Answer{}, secret.ErrNotFound
		}
		return secret.Answer{Fields: map[string]secret.Value{"value": secret.NewValue(""),
			"large": secret.NewValue(strings.Repeat("x", secret.MaxBytes+1)), "zero": secret.NewValue("a\x00b")}}, nil
	}}
	_, err := resolver(s, 0).Resolve(t.Context(), scope, []secret.Ref{{Provider: "one", Key: "gone"},
		{Provider: "one", Key: "a"}, {Provider: "one", Key: "a#none"}, {Provider: "one", Key: "a#large"},
		{Provider: "one", Key: "a#zero", As: plan.SecretAs{Env: "ZERO"}}, {Provider: "three", Key: "a"}})
	if err == nil {
		t.Fatal("all secrets were read")
	}
	for _, want := range []string{`"gone"`, `"a" of the provider "one" was not read: there is no such secret`, `no field "none"`,
		"more than 16384 bytes", "a zero byte", "the providers one, two"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error lacks %q:\n%v", want, err)
		}
	}
}

// contract: X02
func TestResolve_SeesARotatedValueAfterItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &system{read: echo}
		r := resolver(s, time.Minute)
		ask := func() string {
			got, err := r.Resolve(t.Context(), scope, []secret.Ref{{Provider: "one", Key: "a"}})
			if err != nil {
				t.Fatal(err)
			}
			return got.Values[0].Reveal()
		}
		before := ask()
		s.mu.Lock()
		s.read = func(context.Context, string, string) (secret.Answer, error) {
			return answer("rotated"), nil
		}
		s.mu.Unlock()
		time.Sleep(59 * time.Second)
		if got := ask(); got != before {
			t.Errorf("after 59 s: %q, want the remembered value", got)
		}
		time.Sleep(2 * time.Second)
		if got := ask(); got != "rotated" {
			t.Errorf("after 61 s: %q, want the new value", got)
		}
	})
}

func TestResolve_CallersOfOnePathShareACall(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	s := &system{read: func(ctx context.Context, path, version string) (secret.Answer, error) {
		<-release
		return echo(ctx, path, version)
	}}
	r := resolver(s, time.Minute)
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			if _, err := r.Resolve(t.Context(), scope, []secret.Ref{{Provider: "one", Key: "a"}}); err != nil {
				t.Error(err)
			}
		})
	}
	// One of them gives up and must not take the answer from the others.
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := r.Resolve(gone, scope, []secret.Ref{{Provider: "one", Key: "a"}}); !errors.Is(err, context.Canceled) {
		t.Errorf("a caller that gave up got %v", err)
	}
	close(release)
	all.Wait()
	if n := s.calls.Load(); n > 2 { // a late caller may come after the end of the first call, before its value is kept
		t.Errorf("50 callers made %d calls", n)
	}
}

func TestValue_PrintsAsStars(t *testing.T) {
	t.Parallel()
	v := secret.NewValue("canary")
	doc, err := json.Marshal(map[string]any{"v": v, "list": []secret.Value{v}})
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{fmt.Sprint(v), fmt.Sprintf("%s %q %v %+v %#v %x %d", v, v, v, v, v, v, v), string(doc),
		fmt.Sprintf("%+v", struct{ V secret.Value }{v}), fmt.Sprintf("%#v", []secret.Value{v}), v.LogValue().String()} {
		if strings.Contains(text, "canary") || strings.Contains(text, "63616e617279") || !strings.Contains(text, "***") {
			t.Errorf("a value is shown as %s", text)
		}
	}
}

func TestCheck_SaysWhatEachProviderSays(t *testing.T) {
	t.Parallel()
	r := resolver(&system{read: echo}, 0)
	if got := r.Check(t.Context()); len(got) != 2 || got["one"] != nil || got["two"] != nil {
		t.Errorf("the check of two providers that work returned %v", got)
	}
	if got := r.Measure(t.Context())["one"]; got.Err != nil || got.Took < 0 {
		t.Errorf("the measurement of a provider that works returned %+v", got)
	}
}
