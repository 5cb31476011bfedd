package server_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dvt-engine/dvt/server/config"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/egress"
	"github.com/dvt-engine/dvt/internal/testserver"
	"github.com/dvt-engine/dvt/internal/testtime"
	"github.com/dvt-engine/dvt/server"
)

// loadConfig reads settings from a file with this content, from the environment and from the flags args.
func loadConfig(t *testing.T, dev bool, file string, args ...string) (config.Config, error) {
	t.Helper()
	f := pflag.NewFlagSet("dvt", pflag.ContinueOnError)
	config.Flags(f, "listen", "log-level", "heartbeat", "concurrency", "duties", "no-sample", "allow-private",
		"plan-roots", "store")
	f.String("config", "", "")
	if file != "" {
		name := filepath.Join(t.TempDir(), "dvt.yaml")
		must(t, os.WriteFile(name, []byte(file), 0o600))
		args = append(args, "--config", name)
	}
	must(t, f.Parse(args))
	return config.Load(f, dev)
}

func TestLoad_FlagsBeatEnvironmentBeatsFile(t *testing.T) {
	t.Setenv("DVT_LISTEN", "127.0.0.1:2")
	t.Setenv("DVT_HEARTBEAT", "4s")
	t.Setenv("DVT_PLAN_ROOTS", "/a,/b")
	t.Setenv("DVT_TOKEN", "a client's own")
	c, err := loadConfig(t, false, "listen: 127.0.0.1:1\nheartbeat: 3s\nlog-level: error\nconcurrency: 7\nduties: "+
		"[api, deliver]\n", "--listen", "127.0.0.1:3")
	must(t, err)
	if c.Listen != "127.0.0.1:3" || c.Heartbeat != 4*time.Second || c.LogLevel != "error" || c.Concurrency != 7 {
		t.Errorf("listen %s, want that of the flag; heartbeat %s, want that of the environment; log-level %s and "+
			"concurrency %d, want those of the file", c.Listen, c.Heartbeat, c.LogLevel, c.Concurrency)
	}
	if diff := cmp.Diff([][]string{{"api", "deliver"}, {"/a", "/b"}}, [][]string{c.Duties, c.PlanRoots}); diff != "" {
		t.Errorf("lists (-want +got):\n%s", diff)
	}
	if c.AllowPrivate || c.NoSample {
		t.Errorf("allow-private is %t and no-sample is %t without a setting, want false", c.AllowPrivate, c.NoSample)
	}
	if c.ControlQueue != "tq-control-{env}" || !filepath.IsAbs(c.Data) || !strings.HasPrefix(c.Artifacts, "file:///") {
		t.Errorf("the defaults are the queue %s, the data directory %s and the bucket %s", c.ControlQueue, c.Data,
			c.Artifacts)
	}
}

func TestLoad_ReadsAccounts(t *testing.T) {
	c, err := loadConfig(t, false, `
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
		t.Errorf("accounts (-want +got):\n%s", diff)
	}
}

func TestLoad_ReadsEgress(t *testing.T) {
	c, err := loadConfig(t, false, `
egress:
  "*": {deny: ["*.internal.example"]}
  acme: {allow: [hooks.example.com, 10.20.0.0/16]}
`)
	must(t, err)
	want := map[string]egress.Rules{
		"*": {Deny: []string{"*.internal.example"}}, "acme": {Allow: []string{"hooks.example.com", "10.20.0.0/16"}},
	}
	if diff := cmp.Diff(want, c.Egress); diff != "" {
		t.Errorf("egress (-want +got):\n%s", diff)
	}
	for file, want := range map[string]string{
		"egress: {acme: {alow: [x.example]}}\n":       `"alow"`,
		"egress: {acme: {allow: [10.0.0.1/8]}}\n":     `egress: acme: allow: "10.0.0.1/8" is no host`,
		"egress: {acme: {deny: ['https://x']}}\n":     `egress: acme: deny: "https://x" is no host`,
		"egress: [x.example]\n":                       "egress: ",
		"egress: {acme: {deny: x.example.com}}\n":     "egress: ",
		"egress: {acme: {deny: [x.example, 7]}}\n":    "egress: ",
		"egress: {acme: [allow, hooks.example]}\n":    "egress: ",
		"egress: {acme: {allow: [hooks..example]}}\n": `"hooks..example" is no host`,
	} {
		if _, err := loadConfig(t, false, file); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want one with %s", file, err, want)
		}
	}
}

// The duty reconcile had another meaning where sweep was a duty, so that settings of that time must not start a server
// that dispatches nothing.
func TestLoad_RefusesTheFormerNamesOfDuties(t *testing.T) {
	_, err := loadConfig(t, false, "duties: [api, project, reconcile, deliver, sweep]\n")
	want := `duties: "sweep" was renamed: on every server write "dispatch" in place of "reconcile", and "reconcile" in ` +
		`place of "sweep"`
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("the duty sweep: the error is %v, want %s", err, want)
	}
}

func TestLoad_NamesEverythingWrong(t *testing.T) {
	t.Setenv("DVT_LISTENN", "127.0.0.1:2")
	_, err := loadConfig(t, false, "lisetn: x\nstore: mysql://x\naccounts: [{id: ada, role: x}]\n", "--heartbeat", "5ms",
		"--duties", "api,dance", "--listen", "here")
	if err == nil {
		t.Fatal("invalid settings were accepted")
	}
	for _, want := range []string{"lisetn", "DVT_LISTENN", "store must begin", `"role"`, "heartbeat", "dance", `"here"`} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not name %s: %v", want, err)
		}
	}
	for name, file := range map[string]string{"a section": "store:\n  url: x\n", "not YAML": "a: [\n",
		"a list": "- listen\n", "the key of fields that are no settings": "\"-\": true\n"} {
		if c, err := loadConfig(t, false, file); err == nil {
			t.Errorf("a settings file with %s was accepted, and its store is %s", name, c.Store)
		}
	}
}

// dvt refuses each spelling of a setting for fail-open writes and says why it does not start, because an operator would
// otherwise believe that the setting has an effect.
// contract: B05, T216
func TestLoad_NothingIsFailOpen(t *testing.T) {
	for name, file := range map[string]string{
		"state-write-fail-open": "state-write-fail-open: [StepCompleted]\n",
		"state_write_fail_open": "state_write_fail_open: true\n",
		"stateStore.failOpenForEventClass": `
stateStore:
  failOpenForEventClass: [StepStarted]
  neverFailOpen: [StepCompleted, StepFailed]
`,
	} {
		_, err := loadConfig(t, false, file)
		if err == nil || !strings.Contains(err.Error(), name+" is not offered: no event is fail-open") {
			t.Errorf("%s: the error is %v, want one that the setting is not offered", name, err)
		}
	}
	t.Setenv("DVT_STATE_WRITE_FAIL_OPEN", "StepFailed")
	if _, err := loadConfig(t, false, ""); err == nil || !strings.Contains(err.Error(),
		"DVT_STATE_WRITE_FAIL_OPEN is not offered: ") {
		t.Errorf("DVT_STATE_WRITE_FAIL_OPEN: the error is %v, want one that it is not offered", err)
	}
	file := newFile(t)
	must(t, os.WriteFile(file, []byte("state-write-fail-open: [StepCompleted]\n"), 0o600))
	if out := expectFailure(t, "server", "--config", file, "--duties", "dance"); !strings.Contains(out,
		"state-write-fail-open is not offered") {
		t.Errorf("the server prints %q, want that the setting is not offered", out)
	}
}

// Without the error the ports would be ignored, and nothing would listen there.
func TestLoad_PortsOfAnEmbeddedTemporalNeedOne(t *testing.T) {
	for _, port := range []string{"temporal-port", "temporal-ui-port"} {
		_, err := loadConfig(t, true, "temporal: 127.0.0.1:7233\n"+port+": 7234\n")
		if err == nil || !strings.Contains(err.Error(), "set either temporal or the ports") {
			t.Errorf("temporal together with %s: %v, want a refusal", port, err)
		}
	}
}

// contract: T120
func TestLoad_WriteBudgetIsBetween2And5Seconds(t *testing.T) {
	c, err := loadConfig(t, false, "")
	if must(t, err); c.WriteBudget != 3*time.Second {
		t.Errorf("the default is %s, want 3s", c.WriteBudget)
	}
	for budget, ok := range map[string]bool{"1999ms": false, "2s": true, "5s": true, "5001ms": false} {
		if _, err := loadConfig(t, false, "write-budget: "+budget+"\n"); (err == nil) != ok {
			t.Errorf("write-budget %s: the error is %v, want valid: %t", budget, err, ok)
		}
	}
}

// contract: T105
func TestLoad_RotateAfterIsBetween1And1000(t *testing.T) {
	c, err := loadConfig(t, false, "")
	if must(t, err); c.RotateAfter != 50 {
		t.Errorf("the default is %d, want 50", c.RotateAfter)
	}
	for steps, ok := range map[string]bool{"0": false, "1": true, "1000": true, "1001": false} {
		if _, err := loadConfig(t, false, "rotate-after: "+steps+"\n"); (err == nil) != ok {
			t.Errorf("rotate-after %s: the error is %v, want valid: %t", steps, err, ok)
		}
	}
}

func TestLoad_SecretsAreNotPrinted(t *testing.T) {
	t.Setenv("DVT_WORKER_TOKEN", "hush")
	c, err := loadConfig(t, false, "")
	must(t, err)
	if string(c.WorkerToken) != "hush" || c.WorkerToken.String() == "hush" {
		t.Errorf("the worker token prints as %s, want it hidden", c.WorkerToken)
	}
}

// contract: T201
func TestLoad_ReadsManualKeysAndHidesTheirSecrets(t *testing.T) {
	secret := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("s", 32)))
	c, err := loadConfig(t, false, "manual-keys: [\"new:"+secret+"\", \"old:"+secret+"\"]\n")
	if must(t, err); len(c.ManualKeys) != 2 || strings.Contains(fmt.Sprintf("%v %+v %s", c, c, c.ManualKeys), secret) {
		t.Errorf("manual-keys is %v, want two keys whose secrets do not print", c.ManualKeys)
	}
	t.Setenv("DVT_MANUAL_KEYS", "k2:"+secret+",k1:"+secret)
	if c, err = loadConfig(t, false, ""); err != nil || len(c.ManualKeys) != 2 {
		t.Errorf("DVT_MANUAL_KEYS gives %v (%v), want two keys", c.ManualKeys, err)
	}
	t.Setenv("DVT_MANUAL_KEYS", "k1:"+secret[:20])
	if _, err = loadConfig(t, false, ""); err == nil || !strings.Contains(err.Error(), "manual-keys: ") ||
		strings.Contains(err.Error(), secret[:20]) {
		t.Errorf("a short secret: the error is %v, want one that names the setting and hides the secret", err)
	}
}

// Servers and control workers do not start without ticket-keys. The error says how to create them.
func TestRun_NeedsTicketKeys(t *testing.T) {
	secret := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("k", 32)))
	c, err := loadConfig(t, false, "store: sqlite:unused\nredis: redis://127.0.0.1:1/0\ntemporal: 127.0.0.1:1\nqueues: "+
		"[tq-control-dev]\n")
	must(t, err)
	for name, run := range map[string]func(context.Context, config.Config, *slog.Logger) error{"server": server.Run,
		"control worker": server.RunWorker} {
		err := run(t.Context(), c, slog.New(slog.DiscardHandler))
		if err == nil || !strings.Contains(err.Error(), "ticket-keys is missing") || !strings.Contains(err.Error(),
			"openssl rand -base64 32") {
			t.Errorf("%s without ticket-keys: the error is %v, want one with the command that creates them", name, err)
		}
	}
	// these duties seal the executions that they start, and recognise executions of dvt by the seal
	for _, duty := range []string{"dispatch", "reconcile"} {
		c.Duties = []string{duty}
		if err := server.Run(t.Context(), c, slog.New(slog.DiscardHandler)); err == nil ||
			!strings.Contains(err.Error(), "ticket-keys is missing") {
			t.Errorf("a server with the duty %s without ticket-keys: the error is %v, want one that names them", duty, err)
		}
	}
	c, err = loadConfig(t, false, "ticket-keys: [\"new:"+secret+"\", \"old:"+secret+"\"]\n")
	if must(t, err); len(c.TicketKeys) != 2 || strings.Contains(fmt.Sprintf("%v %+v %s", c, c, c.TicketKeys), secret) {
		t.Errorf("ticket-keys is %v, want two keys whose secrets do not print", c.TicketKeys)
	}
	t.Setenv("DVT_TICKET_KEYS", "k1:"+secret[:20])
	if _, err = loadConfig(t, false, ""); err == nil || !strings.Contains(err.Error(), "ticket-keys: ") ||
		strings.Contains(err.Error(), secret[:20]) {
		t.Errorf("a short secret: the error is %v, want one that names the setting and hides the secret", err)
	}
}

// A server with some duties serves only the paths of these duties. It starts and answers although the engine and the
// bus are unreachable.
func TestServer_CarriesOutOnlyItsDuties(t *testing.T) {
	file := filepath.Join(t.TempDir(), "dvt.db")
	if out := expectFailure(t, "server", "--duties", "dance"); !strings.Contains(out, "dance") {
		t.Errorf("with an unknown duty the server prints %q, want the name of the duty", out)
	}
	for duties, api := range map[string]bool{"project,dispatch,deliver": false, "api": true} {
		address := testserver.FreeAddress(t)
		p := spawn(t, "dvt server "+duties, nil, "server", "--listen", address, "--store", "sqlite:"+file, "--redis",
			"redis://127.0.0.1:1/0",
			"--temporal", "127.0.0.1:1", "--artifacts", "mem://", "--duties", duties)
		waitUntilReady(t, "http://"+address)
		if status := get(t, "http://"+address+"/livez").StatusCode; status != 200 {
			t.Errorf("duties %s: /livez answers %d, want 200", duties, status)
		}
		want := 404
		if api {
			want = 401
		}
		if status := get(t, "http://"+address+"/graphql?query={viewer{principal}}").StatusCode; status != want {
			t.Errorf("duties %s: /graphql answers %d, want %d", duties, status, want)
		}
		if took := p.terminate(); took > testtime.Of(15*time.Second) {
			t.Errorf("duties %s: the shutdown took %s, want 15 s or less", duties, took)
		}
	}
}

func TestLoad_RefusesQueuesOfTheWrongPlane(t *testing.T) {
	for name, c := range map[string]struct {
		dev        bool
		file, want string // want is part of the error; "" means no error
	}{
		"the defaults":                  {false, "", ""},
		"one name for all environments": {false, "control-queue: tq-control-dev\ndata-queue: tq-data-dev\n", ""},
		"an isolated tenant":            {false, "isolation-tenants: [acme]\n", ""},
		"a control queue without its prefix": {false, "control-queue: control\n",
			"control-queue must begin with tq-control-"},
		"a data queue with that prefix": {false, "data-queue: tq-control-data\n",
			"data-queue must not begin with tq-control-"},
		"two settings that give the same name": {false, "known-queues: [tq-data-dev]\n", "can give queues of the same name"},
		"a no-worker-after that is too short": {false, "no-worker-after: 10s\n",
			"no-worker-after must be between 2m and 24h"},
		"dev":                         {true, "", ""},
		"dev with a template":         {true, "data-queue: tq-data-{env}\n", "name them without {env}"},
		"dev with an isolated tenant": {true, "isolation-tenants: [acme]\n", "set no isolation-tenants"},
	} {
		_, err := loadConfig(t, c.dev, c.file)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
	}
}

func TestLoad_StopWithinLeavesTheEngineTimeForALostWorker(t *testing.T) {
	c, err := loadConfig(t, false, "")
	if must(t, err); c.StopWithin != 2*time.Minute {
		t.Errorf("stop-within is %s, want 2m by default", c.StopWithin)
	}
	for name, c := range map[string]struct {
		file string
		bad  bool
	}{
		"the shortest":                  {"heartbeat: 5s\nstop-within: 10s\n", false},
		"the longest":                   {"stop-within: 1h\n", false},
		"too short":                     {"heartbeat: 1s\nstop-within: 9s\n", true},
		"too long":                      {"stop-within: 61m\n", true},
		"shorter than two heartbeats":   {"stop-within: 59s\n", true},
		"a heartbeat above the default": {"heartbeat: 90s\n", true},
	} {
		_, err := loadConfig(t, false, c.file)
		if c.bad != (err != nil && strings.Contains(err.Error(),
			"stop-within must be between 10s and 1h, and at least twice the heartbeat")) {
			t.Errorf("%s: got %v, want an error about stop-within: %t", name, err, c.bad)
		}
	}
}

func TestRunWorker_ServesOnePlaneAndExactNames(t *testing.T) {
	for queues, want := range map[string]string{
		"tq-control-dev,tq-data-dev": "not both", "tq-control-prod,tq-isolation-acme-prod": "not both",
		"tq-data-{env}": "not a template", "": "--queues is missing",
	} {
		cfg, err := loadConfig(t, false, "temporal: 127.0.0.1:1\nstore: sqlite:x\nredis: redis://127.0.0.1:1/0\n")
		must(t, err)
		if queues != "" {
			cfg.Queues = strings.Split(queues, ",")
		}
		if err := server.RunWorker(t.Context(), cfg, slog.New(slog.DiscardHandler)); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("--queues %s: got %v, want %q", queues, err, want)
		}
	}
}
