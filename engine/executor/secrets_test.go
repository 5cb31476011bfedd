package executor_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/engine/executor"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/secret"
	"github.com/dvt-engine/dvt/secret/file"
	"github.com/dvt-engine/dvt/store"
)

const canary = "canary-7f3a'\"$ x\\9"

// localSecrets returns a resolver of one provider, "local", with the secrets of t1 in dev.
func localSecrets(t *testing.T, secrets map[string]string) *secret.Resolver {
	t.Helper()
	doc := map[string]string{}
	for key, value := range secrets {
		doc["t1/dev/"+key] = value
	}
	body, err := json.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "secrets.yaml")
	write(t, path, string(body))
	return secret.NewResolver(secret.Source{Name: "local", Provider: file.New(path), Path: "{tenant}/{environment}/{key}",
		Timeout: 1e9})
}

func ref(key string, as plan.SecretAs) plan.SecretRef {
	return plan.SecretRef{Provider: "local", Key: key, As: as}
}

// left lists the directories of secrets that executions of this process left behind.
func left(t *testing.T) []string {
	t.Helper()
	dirs, err := filepath.Glob(fmt.Sprintf("/dev/shm/dvt-secrets-%d/%d.*", os.Getuid(), os.Getpid()))
	if err != nil {
		t.Fatal(err)
	}
	return dirs
}

// contract: X01
func TestSecrets_ReachTheProgramAndNothingElse(t *testing.T) {
	t.Parallel()
	for name, cfg := range map[string]executor.Config{"plain": {}, "sandbox": {Sandbox: isolated(t)}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := newJournal(t, plan.Command, sh(`
[ "$PASSWORD" = "$(cat "$DVT_SECRETS_DIR/password")" ] && echo "equal, ${#PASSWORD} characters"
stat -c '%a' "$DVT_SECRETS_DIR/password"
echo "the value is $PASSWORD!"
printf %s "$PASSWORD" | base64
printf %s "$PASSWORD" | od -An -tx1 | tr -d ' \n'; echo
printf %s "$PASSWORD" | cut -c1-6 | tr -d '\n'; sleep 0.2; printf %s "$PASSWORD" | cut -c7-
echo "fatal: login with $PASSWORD failed" >&2
exit 3`))
			j.step.SecretRefs = []plan.SecretRef{ref("db/password", plan.SecretAs{Env: "PASSWORD"}),
				ref("db/password", plan.SecretAs{File: "password"})}
			r := worker(t, j, cfg)
			r.Secrets = localSecrets(t, map[string]string{"db/password": canary})
			end := execute(t, t.Context(), r)
			wantFailed(t, end, executor.CodeExitStatus, true)
			for _, want := range []string{fmt.Sprintf("equal, %d characters", len(canary)), "600", "the value is ***!"} {
				if !strings.Contains(j.log(), want) {
					t.Errorf("the log lacks %q:\n%s", want, j.log())
				}
			}
			all, err := json.Marshal(map[string]any{"lines": j.lines, "end": end, "tries": j.tries, "begins": j.begins})
			if err != nil {
				t.Fatal(err)
			}
			for _, form := range []string{canary[:12], base64.StdEncoding.EncodeToString([]byte(canary))[:16],
				fmt.Sprintf("%x", canary)} {
				if strings.Contains(string(all)+j.log(), form) {
					t.Errorf("the journal got a form of the secret, %q:\n%s", form, j.log())
				}
			}
		})
	}
	t.Cleanup(func() {
		if dirs := left(t); len(dirs) > 0 {
			t.Errorf("files of secrets stayed: %v", dirs)
		}
	})
}

func TestSecrets_FillHeadersAndBodyOfARequest(t *testing.T) {
	t.Parallel()
	got := make(chan string, 1)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got <- r.Header.Get("Authorization") + " " + string(body)
		_, _ = io.WriteString(w, "you sent "+r.Header.Get("Authorization"))
	}))
	t.Cleanup(srv.Close)
	j := newJournal(t, plan.HTTPNotify, map[string]any{"url": srv.URL, "method": "POST",
		"headers": map[string]string{"Authorization": "Bearer ${secret:TOKEN}"},
		"body":    map[string]string{"password": "${secret:TOKEN}"}})
	j.step.SecretRefs = []plan.SecretRef{ref("token", plan.SecretAs{Env: "TOKEN"})}
	r := worker(t, j, private)
	r.Secrets = localSecrets(t, map[string]string{"token": canary})
	if end := execute(t, t.Context(), r); end.Completed == nil {
		t.Fatalf("the step failed: %+v", end.Failed)
	}
	doc, _ := json.Marshal(canary)
	if want := `Bearer ` + canary + ` {"password":` + string(doc) + `}`; <-got != want {
		t.Errorf("the receiver did not get %s", want)
	}
	if !strings.Contains(j.log(), "you sent Bearer ***") {
		t.Errorf("the log shows the secret that the receiver repeated:\n%s", j.log())
	}

	j.step.SecretRefs = nil
	wantFailed(t, execute(t, t.Context(), r), executor.CodeInputsInvalid, false)
}

// contract: X03
func TestSecrets_AStepThatLacksOneDoesNotStart(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		ref       plan.SecretRef
		secrets   executor.Secrets
		code      run.Code
		retryable bool
		message   string
	}{
		"no provider": {ref: ref("a", plan.SecretAs{File: "a"}), code: run.CodeSecretNotFound,
			message: "this worker has no provider of secrets"},
		"another provider": {ref: plan.SecretRef{Provider: "vault", Key: "a"}, secrets: localSecrets(t, nil),
			code: run.CodeSecretNotFound, message: "this worker has the providers local"},
		"unknown": {ref: ref("a", plan.SecretAs{File: "a"}), secrets: localSecrets(t, nil), code: run.CodeSecretNotFound},
		"leaves its directory": {ref: ref("../t2/a", plan.SecretAs{File: "a"}), secrets: localSecrets(t, nil),
			code: run.CodeSecretNotFound},
		"short": {ref: ref("a", plan.SecretAs{Env: "A"}), secrets: localSecrets(t, map[string]string{"a": "1234567"}),
			code: run.CodeSecretDenied, message: "fewer than 8 bytes"},
		"no answer": {ref: ref("a", plan.SecretAs{File: "a"}), secrets: silent{}, code: run.CodeSecretsUnavailable,
			retryable: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := newJournal(t, plan.Command, sh(`echo STARTED`))
			j.step.SecretRefs = []plan.SecretRef{c.ref}
			r := worker(t, j, executor.Config{})
			r.Secrets = c.secrets
			end := execute(t, t.Context(), r)
			wantFailed(t, end, string(c.code), c.retryable)
			if end.Failed != nil && !strings.Contains(end.Failed.ErrorMessage, c.message) {
				t.Errorf("the message %q lacks %q", end.Failed.ErrorMessage, c.message)
			}
			if strings.Contains(j.log(), "STARTED") {
				t.Errorf("the program started:\n%s", j.log())
			}
		})
	}
}

func TestSecrets_AShortValueIsPermittedByThePlan(t *testing.T) {
	t.Parallel()
	j := newJournal(t, plan.Command, sh(`[ "$PIN" = 4711 ]`))
	j.step.SecretRefs = []plan.SecretRef{ref("pin", plan.SecretAs{Env: "PIN"})}
	j.step.SecretRefs[0].Unmasked = true
	r := worker(t, j, executor.Config{})
	r.Secrets = localSecrets(t, map[string]string{"pin": "4711"})
	if end := execute(t, t.Context(), r); end.Completed == nil {
		t.Fatalf("the step failed: %+v", end.Failed)
	}
}

func TestSweepSecrets_RemovesWhatAKilledWorkerLeft(t *testing.T) {
	t.Parallel()
	dead := fmt.Sprintf("/dev/shm/dvt-secrets-%d/%d.dead", os.Getuid(), 1<<22+1) // no system has such a process
	write(t, filepath.Join(dead, "password"), canary)
	own := fmt.Sprintf("/dev/shm/dvt-secrets-%d/%d.own", os.Getuid(), os.Getppid())
	write(t, filepath.Join(own, "password"), canary)
	t.Cleanup(func() { _ = os.RemoveAll(own) })
	// In a container each worker has the number 1: the one that was killed, and the one that sweeps.
	before := fmt.Sprintf("/dev/shm/dvt-secrets-%d/%d.before", os.Getuid(), os.Getpid())
	write(t, filepath.Join(before, "password"), canary)
	// A worker in another container is no process here, and holds its lock.
	elsewhere := fmt.Sprintf("/dev/shm/dvt-secrets-%d/%d.elsewhere", os.Getuid(), 1<<22+1)
	write(t, filepath.Join(elsewhere, "password"), canary)
	t.Cleanup(func() { _ = os.RemoveAll(elsewhere) })
	locked, err := os.Open(elsewhere)
	if err != nil {
		t.Fatal(err)
	}
	defer locked.Close()
	if err := syscall.Flock(int(locked.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	executor.SweepSecrets()
	for _, dir := range []string{dead, before} {
		if _, err := os.Stat(dir); !os.IsNotExist(err) {
			t.Errorf("the files of a dead worker are still there: %v", err)
		}
	}
	if _, err := os.Stat(elsewhere); err != nil {
		t.Errorf("the files of a worker in another container are gone: %v", err)
	}
	if _, err := os.Stat(own); err != nil {
		t.Errorf("the files of a worker that lives are gone: %v", err)
	}
}

// silent answers like a provider that does not answer in time.
type silent struct{}

func (silent) Resolve(_ context.Context, _ secret.Scope, refs []secret.Ref) (*secret.Set, error) {
	return nil, &secret.Error{Ref: refs[0], Err: context.DeadlineExceeded}
}

// A worker records each read before the program starts: secrets that were read, remembered or refused.
// contract: R085
func TestSecrets_EachReadIsRecorded(t *testing.T) {
	t.Parallel()
	j := newJournal(t, plan.Command, sh(`echo "ran"`))
	j.step.SecretRefs = []plan.SecretRef{ref("token", plan.SecretAs{Env: "TOKEN"}),
		ref("token", plan.SecretAs{File: "copy"})}
	r := worker(t, j, executor.Config{})
	r.Worker, r.Secrets = "host-1", localSecrets(t, map[string]string{"token": canary})
	if end := execute(t, t.Context(), r); end.Completed == nil {
		t.Fatalf("the step failed: %+v", end.Failed)
	}
	if len(j.read) != 1 || len(j.read[0].Reads) != 2 {
		t.Fatalf("the journal has %+v, want one call with two reads", j.read)
	}
	call := j.read[0]
	if call.Worker != "host-1" || call.StepID != "s1" || call.LogicalAttempt != 1 || call.Key == "" {
		t.Errorf("the call is %+v, want one of host-1 with the key of the attempt", call)
	}
	for i, got := range call.Reads {
		if want := (engine.SecretRead{No: i + 1, Provider: "local", Key: "token"}); got != want {
			t.Errorf("read %d is %+v, want %+v", i, got, want)
		}
	}
	doc, err := json.Marshal(j.read)
	if err != nil || strings.Contains(string(doc), canary[:8]) {
		t.Errorf("the record contains the value: %s (%v)", doc, err)
	}
}

func TestSecrets_FailedReadsAreRecorded(t *testing.T) {
	t.Parallel()
	j := newJournal(t, plan.Command, sh(`echo "ran"`))
	j.step.SecretRefs = []plan.SecretRef{ref("token", plan.SecretAs{Env: "TOKEN"}),
		ref("other", plan.SecretAs{Env: "OTHER"})}
	r := worker(t, j, executor.Config{})
	r.Secrets = localSecrets(t, map[string]string{"token": canary})
	wantFailed(t, execute(t, t.Context(), r), string(run.CodeSecretNotFound), false)
	if len(j.read) != 1 || j.read[0].Reads[0].Code != "" || j.read[0].Reads[1].Code != run.CodeSecretNotFound {
		t.Errorf("the journal has %+v, want a read that succeeded and one that failed", j.read)
	}
}

// An attempt whose reads cannot be recorded does not start its program: it waits while its time lasts, and fails when
// the journal refuses the record.
func TestSecrets_NoProgramStartsWithoutTheRecord(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answer func(n int) error
		code   string // "": the step succeeds
	}{
		"the journal answers later": {answer: func(n int) error {
			if n < 3 {
				return store.ErrUnavailable
			}
			return nil
		}},
		"the journal never answers": {answer: func(int) error { return store.ErrUnavailable }, code: string(run.CodeTimeout)},
		"the journal refuses": {answer: func(int) error { return engine.ErrRefused },
			code: string(run.CodeSecretsUnavailable)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := newJournal(t, plan.Command, sh(`echo "ran with $TOKEN"`))
			j.reads, j.step.Timeout = c.answer, 2*time.Second
			j.step.SecretRefs = []plan.SecretRef{ref("token", plan.SecretAs{Env: "TOKEN"})}
			r := worker(t, j, executor.Config{})
			r.Secrets = localSecrets(t, map[string]string{"token": canary})
			end := execute(t, t.Context(), r)
			if c.code == "" {
				if end.Completed == nil || j.readCalls != 3 {
					t.Errorf("the step ended %+v after %d calls, want success after 3", end.Failed, j.readCalls)
				}
				return
			}
			wantFailed(t, end, c.code, true)
			if strings.Contains(j.log(), "ran with") {
				t.Errorf("the program started:\n%s", j.log())
			}
		})
	}
}
