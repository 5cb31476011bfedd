package executor_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dvt-engine/dvt/engine/executor"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/secret"
	"github.com/dvt-engine/dvt/secret/file"
)

// rotating is a provider whose secret "key" of t1 in dev is remembered for a minute.
type rotating struct {
	*secret.Resolver
	t    *testing.T
	path string
}

func newRotating(t *testing.T, value string) rotating {
	t.Helper()
	r := rotating{t: t, path: filepath.Join(t.TempDir(), "secrets.yaml")}
	r.Resolver = secret.NewResolver(secret.Source{Name: "local", Provider: file.New(r.path), CacheTTL: time.Minute,
		Path: "{tenant}/{environment}/{key}", Timeout: 5 * time.Second})
	r.rotate(value)
	if _, err := r.Resolve(t.Context(), secret.Scope{TenantID: "t1", EnvironmentID: "dev"},
		[]secret.Ref{ref("key", plan.SecretAs{})}); err != nil {
		t.Fatal(err)
	}
	return r
}

func (r rotating) rotate(value string) {
	r.t.Helper()
	doc, err := json.Marshal(map[string]string{"t1/dev/key": value})
	if err != nil {
		r.t.Fatal(err)
	}
	if err := os.WriteFile(r.path, doc, 0o600); err != nil {
		r.t.Fatal(err)
	}
}

const oldValue, newValue = "old-canary-1234", "new-canary-5678"

// A service gets another password after the worker remembered the old one. The attempt succeeds and no other one was
// spent; neither value is in the log.
// contract: X02
func TestRotation_DuringAnAttemptCostsNoAttempt(t *testing.T) {
	t.Parallel()
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+newValue {
			http.Error(w, "no: "+r.Header.Get("Authorization"), http.StatusUnauthorized)
			return
		}
		_, _ = w.Write([]byte("yes: " + r.Header.Get("Authorization")))
	}))
	t.Cleanup(service.Close)
	program := sh(`echo "with $KEY, $(cat "$DVT_SECRETS_DIR/key")"; [ "$KEY" = ` + newValue + ` ] && exit 0
echo "FATAL: password authentication failed for user \"dbt\" ($KEY)" >&2; exit 1`)
	call := map[string]any{"url": service.URL, "method": "POST",
		"headers": map[string]string{"Authorization": "Bearer ${secret:KEY}"}}
	for name, c := range map[string]struct {
		typ    plan.StepType
		inputs any
		cfg    executor.Config
	}{
		"a program": {plan.Command, program, executor.Config{}}, "a program in a sandbox": {plan.Command, program,
			executor.Config{Sandbox: isolated(t)}}, "a request": {plan.HTTPNotify, call, private},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := newJournal(t, c.typ, c.inputs)
			j.step.SecretRefs = []plan.SecretRef{ref("key", plan.SecretAs{Env: "KEY"}),
				ref("key", plan.SecretAs{File: "key"})}
			w := worker(t, j, c.cfg)
			secrets := newRotating(t, oldValue)
			w.Secrets = secrets
			secrets.rotate(newValue)
			end := execute(t, t.Context(), w)
			if end.Completed == nil {
				t.Fatalf("the step failed: %+v\n%s", end.Failed, j.log())
			}
			if len(j.begins) != 1 || len(j.ends) != 1 {
				t.Errorf("the log has %d starts and %d ends, want one of each", len(j.begins), len(j.ends))
			}
			if !strings.Contains(j.log(), "a secret of this step was rotated meanwhile") {
				t.Errorf("the log does not say that the step ran again:\n%s", j.log())
			}
			wantNoCanary(t, j, end)
		})
	}
}

func wantNoCanary(t *testing.T, j *journal, end any) {
	t.Helper()
	all, err := json.Marshal(map[string]any{"lines": j.lines, "end": end, "tries": j.tried})
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(all)+j.log(), "canary") {
		t.Errorf("a value is in the log:\n%s", j.log())
	}
}

// A step runs again only when a credential was refused and its secret has another value.
func TestRotation_OtherFailuresRunOnce(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		rotated bool
		status  int
	}{"not rotated": {false, http.StatusUnauthorized}, "another failure": {true, http.StatusTeapot},
		"a failure of the service": {true, http.StatusInternalServerError}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var calls atomic.Int32
			service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				calls.Add(1)
				http.Error(w, "no: "+r.Header.Get("Authorization"), c.status)
			}))
			t.Cleanup(service.Close)
			j := newJournal(t, plan.HTTPNotify, map[string]any{"url": service.URL, "method": "POST",
				"headers": map[string]string{"Authorization": "Bearer ${secret:KEY}"}})
			j.step.SecretRefs = []plan.SecretRef{ref("key", plan.SecretAs{Env: "KEY"})}
			w := worker(t, j, private)
			secrets := newRotating(t, oldValue)
			w.Secrets = secrets
			if c.rotated {
				secrets.rotate(newValue)
			}
			if end := execute(t, t.Context(), w); end.Failed == nil {
				t.Error("the step succeeded")
			}
			if n := calls.Load(); n != 1 {
				t.Errorf("the service was called %d times, want once", n)
			}
			wantNoCanary(t, j, j.ends)
		})
	}
}

// A step whose credential is refused with the new value too fails, and does not run a third time.
func TestRotation_RunsOnceMoreAtMost(t *testing.T) {
	t.Parallel()
	var calls atomic.Int32
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		calls.Add(1)
		w.WriteHeader(http.StatusForbidden)
	}))
	t.Cleanup(service.Close)
	j := newJournal(t, plan.HTTPNotify, map[string]any{"url": service.URL, "method": "POST",
		"headers": map[string]string{"Authorization": "Bearer ${secret:KEY}"}})
	j.step.SecretRefs = []plan.SecretRef{ref("key", plan.SecretAs{Env: "KEY"})}
	w := worker(t, j, private)
	secrets := newRotating(t, oldValue)
	w.Secrets = secrets
	secrets.rotate(newValue)
	wantFailed(t, execute(t, t.Context(), w), executor.CodeHTTPStatus, false)
	if n := calls.Load(); n != 2 {
		t.Errorf("the service was called %d times, want twice", n)
	}
}
