package server_test

import (
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/internal/pace"
	"github.com/dvt-engine/dvt/internal/testserver"
	"github.com/dvt-engine/dvt/server"
)

// load reads settings from a file with this content, the environment and flags.
func load(t *testing.T, dev bool, file string, args ...string) (server.Config, error) {
	t.Helper()
	f := pflag.NewFlagSet("dvt", pflag.ContinueOnError)
	server.Flags(f, "listen", "log-level", "heartbeat", "concurrency", "duties", "no-sample", "allow-private", "plan-roots", "store")
	f.String("config", "", "")
	if file != "" {
		name := filepath.Join(t.TempDir(), "dvt.yaml")
		must(t, os.WriteFile(name, []byte(file), 0o600))
		args = append(args, "--config", name)
	}
	must(t, f.Parse(args))
	return server.Load(f, dev)
}

func TestLoad_FlagsBeatEnvironmentBeatsFile(t *testing.T) {
	t.Setenv("DVT_LISTEN", "127.0.0.1:2")
	t.Setenv("DVT_HEARTBEAT", "4s")
	t.Setenv("DVT_PLAN_ROOTS", "/a,/b")
	t.Setenv("DVT_TOKEN", "a client's own")
	c, err := load(t, false, "listen: 127.0.0.1:1\nheartbeat: 3s\nlog-level: error\nconcurrency: 7\nduties: [api, deliver]\n", "--listen", "127.0.0.1:3")
	must(t, err)
	if c.Listen != "127.0.0.1:3" || c.Heartbeat != 4*time.Second || c.LogLevel != "error" || c.Concurrency != 7 {
		t.Errorf("listen %s of the flag, heartbeat %s of the environment, log-level %s and concurrency %d of the file", c.Listen, c.Heartbeat, c.LogLevel, c.Concurrency)
	}
	if diff := cmp.Diff([][]string{{"api", "deliver"}, {"/a", "/b"}}, [][]string{c.Duties, c.PlanRoots}); diff != "" {
		t.Errorf("lists (-want +got):\n%s", diff)
	}
	if c.AllowPrivate || c.NoSample {
		t.Error("what nobody asked for is on")
	}
	if c.ControlQueue != "tq-control-dev" || !filepath.IsAbs(c.Data) || !strings.HasPrefix(c.Artifacts, "file:///") {
		t.Errorf("defaults: %s, %s, %s", c.ControlQueue, c.Data, c.Artifacts)
	}
}

func TestLoad_ReadsAccounts(t *testing.T) {
	c, err := load(t, false, `
accounts:
  - id: ada
    tenant: acme
    tokenSha256: "00"
    grants: [{role: ENGINEER, project: shop, environment: dev}]
    expiresAt: 2100-01-01T00:00:00Z
  - {id: steps-1, worker: true, serves: [acme], tokenSha256: "01"}
`)
	must(t, err)
	want := []authz.Account{
		{ID: "ada", TenantID: "acme", TokenSHA256: "00", ExpiresAt: time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC),
			Grants: []authz.Grant{{Role: authz.Engineer, ProjectID: "shop", EnvironmentID: "dev"}}},
		{ID: "steps-1", TokenSHA256: "01", Worker: true, Serves: []string{"acme"}},
	}
	if diff := cmp.Diff(want, c.Accounts); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestLoad_NamesEverythingWrong(t *testing.T) {
	t.Setenv("DVT_LISTENN", "127.0.0.1:2")
	_, err := load(t, false, "lisetn: x\nstore: mysql://x\naccounts: [{id: ada, role: x}]\n", "--heartbeat", "5ms", "--duties", "api,dance", "--listen", "here")
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{"lisetn", "DVT_LISTENN", "store must begin", `"role"`, "heartbeat", "dance", `"here"`} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not name %s: %v", want, err)
		}
	}
	for name, file := range map[string]string{"a section": "store:\n  url: x\n", "not YAML": "a: [\n", "a list": "- listen\n"} {
		if c, err := load(t, false, file); err == nil {
			t.Errorf("%s passed: %+v", name, c.Store)
		}
	}
}

// Nothing is fail-open, whatever a setting that asks for it is called, and the
// process says why it does not start.
func TestLoad_B05_T216_NothingIsFailOpen(t *testing.T) {
	for name, file := range map[string]string{
		"state-write-fail-open": "state-write-fail-open: [StepCompleted]\n",
		"state_write_fail_open": "state_write_fail_open: true\n",
		"stateStore.failOpenForEventClass": `
stateStore:
  failOpenForEventClass: [StepStarted]
  neverFailOpen: [StepCompleted, StepFailed]
`,
	} {
		_, err := load(t, false, file)
		if err == nil || !strings.Contains(err.Error(), name+" is not offered: no event is fail-open") {
			t.Errorf("%s: %v", name, err)
		}
	}
	t.Setenv("DVT_STATE_WRITE_FAIL_OPEN", "StepFailed")
	if _, err := load(t, false, ""); err == nil || !strings.Contains(err.Error(), "DVT_STATE_WRITE_FAIL_OPEN is not offered: ") {
		t.Errorf("of the environment: %v", err)
	}
	file := fileIn(t)
	must(t, os.WriteFile(file, []byte("state-write-fail-open: [StepCompleted]\n"), 0o600))
	if out := fails(t, "server", "--config", file, "--duties", "dance"); !strings.Contains(out, "state-write-fail-open is not offered") {
		t.Errorf("the server says %q", out)
	}
}

func TestLoad_T120_WriteBudget(t *testing.T) {
	c, err := load(t, false, "")
	if must(t, err); c.WriteBudget != 3*time.Second {
		t.Errorf("default %s", c.WriteBudget)
	}
	for budget, ok := range map[string]bool{"1999ms": false, "2s": true, "5s": true, "5001ms": false} {
		if _, err := load(t, false, "write-budget: "+budget+"\n"); (err == nil) != ok {
			t.Errorf("%s: %v", budget, err)
		}
	}
}

func TestLoad_T105_RotateAfter(t *testing.T) {
	c, err := load(t, false, "")
	if must(t, err); c.RotateAfter != 50 {
		t.Errorf("default %d", c.RotateAfter)
	}
	for steps, ok := range map[string]bool{"0": false, "1": true, "1000": true, "1001": false} {
		if _, err := load(t, false, "rotate-after: "+steps+"\n"); (err == nil) != ok {
			t.Errorf("%s: %v", steps, err)
		}
	}
}

func TestLoad_SecretsAreNotPrinted(t *testing.T) {
	t.Setenv("DVT_WORKER_TOKEN", "hush")
	c, err := load(t, false, "")
	must(t, err)
	if string(c.WorkerToken) != "hush" || c.WorkerToken.String() == "hush" {
		t.Errorf("the token is printed as %s", c.WorkerToken)
	}
}

func TestLoad_T201_ManualKeys(t *testing.T) {
	secret := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("s", 32)))
	c, err := load(t, false, "manual-keys: [\"new:"+secret+"\", \"old:"+secret+"\"]\n")
	if must(t, err); len(c.ManualKeys) != 2 || strings.Contains(fmt.Sprintf("%v %+v %s", c, c, c.ManualKeys), secret) {
		t.Errorf("keys %v", c.ManualKeys)
	}
	t.Setenv("DVT_MANUAL_KEYS", "k2:"+secret+",k1:"+secret)
	if c, err = load(t, false, ""); err != nil || len(c.ManualKeys) != 2 {
		t.Errorf("of the environment: %v, %v", c.ManualKeys, err)
	}
	t.Setenv("DVT_MANUAL_KEYS", "k1:"+secret[:20])
	if _, err = load(t, false, ""); err == nil || !strings.Contains(err.Error(), "manual-keys: ") || strings.Contains(err.Error(), secret[:20]) {
		t.Errorf("a short secret: %v", err)
	}
}

// TestServer_Duties starts servers that carry out some duties only; the engine and
// the bus are away, which is no reason not to start or to answer.
func TestServer_Duties(t *testing.T) {
	file := filepath.Join(t.TempDir(), "dvt.db")
	if out := fails(t, "server", "--duties", "dance"); !strings.Contains(out, "dance") {
		t.Errorf("an unknown duty: %q", out)
	}
	for duties, api := range map[string]bool{"project,reconcile,deliver": false, "api": true} {
		address := testserver.FreeAddress(t)
		p := spawn(t, "dvt server "+duties, nil, "server", "--listen", address, "--store", "sqlite:"+file, "--redis", "redis://127.0.0.1:1/0",
			"--temporal", "127.0.0.1:1", "--artifacts", "mem://", "--duties", duties)
		answers(t, "http://"+address)
		if status := get(t, "http://"+address+"/livez").StatusCode; status != 200 {
			t.Errorf("%s: /livez %d", duties, status)
		}
		want := 404
		if api {
			want = 401
		}
		if status := get(t, "http://"+address+"/graphql?query={viewer{principal}}").StatusCode; status != want {
			t.Errorf("%s: /graphql %d, want %d", duties, status, want)
		}
		if took := p.terminate(); took > pace.Of(15*time.Second) {
			t.Errorf("%s: ending took %s", duties, took)
		}
	}
}
