package secrettest

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/secret"
)

// counted counts the reads of a provider.
type counted struct {
	secret.Provider
	reads atomic.Int32
}

func (c *counted) Read(ctx context.Context, path, version string) (secret.Answer, error) {
	c.reads.Add(1)
	return c.Provider.Read(ctx, path, version)
}

const (
	template = "{tenant}/{environment}/{key}"
	patience = 20 * time.Second
)

// resolver returns a resolver of the world's provider by the name one.
func (w World) resolver(p secret.Provider) *secret.Resolver {
	return secret.NewResolver(secret.Source{Name: "one", Provider: p, Path: template, CacheTTL: time.Minute,
		Timeout: patience})
}

func readsBytes(t *testing.T, w World) {
	if w.PutBytes == nil {
		t.Log("the system stores texts only")
		return
	}
	body := "\xff\xfe\x80 " + canary + " \x01\r\n"
	w.PutBytes("t1/dev/keystore", []byte(body))
	wantFields(t, w, "t1/dev/keystore", "", map[string]string{plan.DefaultSecretField: body})
	body = "\x00\x01" + canary
	w.PutBytes("t1/dev/zeros", []byte(body))
	r, scope := w.resolver(w.Provider), secret.Scope{TenantID: "t1", EnvironmentID: "dev"}
	got, err := r.Resolve(t.Context(), scope, []secret.Ref{{Provider: "one", Key: "zeros",
		As: plan.SecretAs{File: "zeros"}}})
	if err != nil || got.Values[0].Reveal() != body {
		t.Errorf("bytes with zeros as a file: %v", err)
	}
	_, err = r.Resolve(t.Context(), scope, []secret.Ref{{Provider: "one", Key: "zeros", As: plan.SecretAs{Env: "ZEROS"}}})
	if !errors.Is(err, secret.ErrDenied) {
		t.Errorf("bytes with zeros as a variable: %v, want ErrDenied", err)
	}
}

func readsADocument(t *testing.T, w World) {
	if !w.Whole {
		t.Log("secrets have fields of their own")
		return
	}
	const doc = `{"user":"ann", "password":"` + canary + `", "port":5432, "tls":true, "more":{"a":1}, "none":null}`
	w.Put("t1/dev/db", map[string]string{plan.DefaultSecretField: doc})
	wantFields(t, w, "t1/dev/db", "", map[string]string{plan.DefaultSecretField: doc, "user": "ann", "password": canary,
		"port": "5432", "tls": "true"})
	for _, text := range []string{`{"a":`, `[1,2]`, `{"a":"b"} {"c":"d"}`, `"text"`, "{{ " + canary} {
		w.Put("t1/dev/text", map[string]string{plan.DefaultSecretField: text})
		answer, err := w.Provider.Read(t.Context(), "t1/dev/text", "")
		if err != nil || len(answer.Fields) != 1 || answer.Fields[plan.DefaultSecretField].Reveal() != text {
			t.Errorf("the text %q has %d fields, %v", text, len(answer.Fields), err)
		}
	}
}

func waitsWhileItIsThrottled(t *testing.T, w World) {
	if w.Network == nil {
		t.Log("there is no network")
		return
	}
	w.Put("t1/dev/key", map[string]string{"value": canary})
	wantFields(t, w, "t1/dev/key", "", map[string]string{"value": canary}) // its login is not what is refused
	throttle := []func(){func() { w.Network.Set(Limited) }}
	if w.Throttle != nil {
		throttle = append(throttle, w.Throttle)
	}
	for i, next := range throttle {
		next()
		_, err := w.Provider.Read(t.Context(), "t1/dev/key", "")
		refused, ok := errors.AsType[*secret.ThrottledError](err)
		if !ok {
			t.Fatalf("a request that was throttled returned %v, want a ThrottledError", err)
		}
		if i == 0 && refused.After != time.Second {
			t.Errorf("the provider asks for a pause of one second, the error for %s", refused.After)
		}
		next()
		began := time.Now()
		scope := secret.Scope{TenantID: "t1", EnvironmentID: "dev"}
		got, err := w.resolver(w.Provider).Resolve(t.Context(), scope, []secret.Ref{{Provider: "one", Key: "key"}})
		if err != nil || got.Values[0].Reveal() != canary {
			t.Errorf("the resolver did not wait: %v", err)
		}
		if took := time.Since(began); i == 0 && took < time.Second {
			t.Errorf("the resolver asked again after %s, want the second that the provider asked for", took)
		}
	}
}

func survivesTheNetwork(t *testing.T, w World) {
	if w.Network == nil {
		t.Log("there is no network")
		return
	}
	w.Put("t1/dev/key", map[string]string{"value": canary})
	wantFields(t, w, "t1/dev/key", "", map[string]string{"value": canary})
	for _, f := range []Fault{Silent, Huge, Malformed, Redirected, Broken} {
		w.Network.Set(f)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		began := time.Now()
		_, err := w.Provider.Read(ctx, "t1/dev/key", "")
		cancel()
		switch took := time.Since(began); {
		case err == nil || errors.Is(err, secret.ErrNotFound) || errors.Is(err, secret.ErrDenied):
			t.Errorf("%s: %v, want an error that may go away", f, err)
		case took > patience:
			t.Errorf("%s: the read ended after %s", f, took)
		case strings.Contains(err.Error(), canary) || strings.Contains(err.Error(), "127.0.0.1"):
			t.Errorf("%s: the error repeats an answer or an address: %v", f, err)
		default:
			t.Logf("%s: %v", f, err)
		}
	}
	if n := w.Network.Strayed(); n > 0 {
		t.Errorf("%d requests followed a redirect to another host", n)
	}
	w.Network.Set(None)
	wantFields(t, w, "t1/dev/key", "", map[string]string{"value": canary})
}

// A value is rotated while an attempt runs. One read past the cache gets the new one, which all later ones see.
func seesARotation(t *testing.T, w World) {
	w.Put("t1/dev/key", map[string]string{"value": "old-" + canary})
	p := &counted{Provider: w.Provider}
	r, scope := w.resolver(p), secret.Scope{TenantID: "t1", EnvironmentID: "dev"}
	refs := []secret.Ref{{Provider: "one", Key: "key"}}
	want := func(set *secret.Set, err error, value string, reads int32) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		if got := set.Values[0].Reveal(); got != value+canary {
			t.Errorf("got the value %q…, want %q…", got[:4], value)
		}
		if n := p.reads.Load(); n != reads {
			t.Errorf("the provider was asked %d times, want %d", n, reads)
		}
	}
	old, err := r.Resolve(t.Context(), scope, refs)
	want(old, err, "old-", 1)
	_, changed, err := r.Renew(t.Context(), scope, refs, old)
	if err != nil || changed {
		t.Errorf("a value that was not rotated: changed %t, %v", changed, err)
	}
	w.Put("t1/dev/key", map[string]string{"value": "new-" + canary})
	set, err := r.Resolve(t.Context(), scope, refs)
	want(set, err, "old-", 2)
	set, changed, err = r.Renew(t.Context(), scope, refs, old)
	want(set, err, "new-", 3)
	if !changed {
		t.Error("the new value is not said to differ")
	}
	set, err = r.Resolve(t.Context(), scope, refs)
	want(set, err, "new-", 3)
}

// contract: X02
func keepsTenantsApart(t *testing.T, w World) {
	w.Put("one/t1/dev/key", map[string]string{"value": "one-" + canary})
	w.Put("two/t1/dev/key", map[string]string{"value": "two-" + canary})
	w.Put("t1/dev/key", map[string]string{"value": "t1-" + canary})
	w.Put("t2/dev/key", map[string]string{"value": "t2-" + canary})
	source := func(name, path string) secret.Source {
		return secret.Source{Name: name, Provider: w.Provider, Path: path, CacheTTL: time.Minute, Timeout: patience}
	}
	r := secret.NewResolver(source("one", "one/"+template), source("two", "two/"+template), source("root", template))
	scope := secret.Scope{TenantID: "t1", EnvironmentID: "dev"}
	for range 2 { // the second time from the cache
		got, err := r.Resolve(t.Context(), scope, []secret.Ref{{Provider: "one", Key: "key"}, {Provider: "two", Key: "key"}})
		if err != nil {
			t.Fatal(err)
		}
		for i, want := range []string{"one-", "two-"} {
			if v := got.Values[i].Reveal(); v != want+canary {
				t.Errorf("secret %d is %q…, want %q…", i, v[:4], want)
			}
		}
	}
	for _, key := range []string{"../../t2/dev/key", "../dev/key", "../../t2/dev/key#value", "/t2/dev/key", "t2/dev/key",
		"a/../../../t2/dev/key", "%2e%2e/%2e%2e/t2/dev/key", "..%2f..%2ft2/dev/key", "key?x=/t2/dev/key", "--t2--dev--key",
		"__t2__dev__key"} {
		got, err := r.Resolve(t.Context(), scope, []secret.Ref{{Provider: "root", Key: key}})
		if err == nil {
			t.Errorf("the key %q of t1 was read: %q…", key, got.Values[0].Reveal()[:3])
		} else if !errors.Is(err, secret.ErrNotFound) && !errors.Is(err, secret.ErrDenied) {
			t.Errorf("the key %q of t1: %v, want ErrNotFound or ErrDenied", key, err)
		}
	}
	for _, id := range []string{"t1/dev", "..", "t2/dev/key#", "", "t1?"} {
		_, err := r.Resolve(t.Context(), secret.Scope{TenantID: id, EnvironmentID: "dev"},
			[]secret.Ref{{Provider: "root", Key: "key"}})
		if !errors.Is(err, secret.ErrDenied) {
			t.Errorf("the tenant id %q: %v, want ErrDenied", id, err)
		}
	}
}

// Texts returns all texts of up to n bytes of an alphabet. With them a test shows that names of secrets are of one path
// only.
func Texts(alphabet string, n int) []string {
	out := []string{""}
	for from, length := 0, 1; length <= n; length++ {
		end := len(out)
		for _, text := range out[from:end] {
			for _, c := range alphabet {
				out = append(out, text+string(c))
			}
		}
		from = end
	}
	return out[1:]
}
