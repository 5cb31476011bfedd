package config_test

import (
	"encoding/base64"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/egress"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/server/config"
	"github.com/dvt-engine/dvt/server/config/configtest"
)

func TestLoad_FlagsBeatEnvironmentBeatsFile(t *testing.T) {
	t.Setenv("DVT_LISTEN", "127.0.0.1:2")
	t.Setenv("DVT_HEARTBEAT", "4s")
	t.Setenv("DVT_PLAN_ROOTS", "/a,/b")
	t.Setenv("DVT_TOKEN", "a client's own")
	c := configtest.MustLoad(t, false, "listen: 127.0.0.1:1\nheartbeat: 3s\nlog-level: error\nconcurrency: 7\nduties: "+
		"[api, deliver]\n", "--listen", "127.0.0.1:3")
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
	hashes := []string{strings.Repeat("00", 32), strings.Repeat("01", 32)}
	c := configtest.MustLoad(t, false, `
accounts:
  - id: ada
    tenant: acme
    tokenSha256: "`+hashes[0]+`"
    grants: [{role: ENGINEER, project: shop, environment: dev}]
    expiresAt: 2100-01-01T00:00:00Z
  - {id: steps-1, worker: true, serves: [acme], tokenSha256: "`+hashes[1]+`"}
`)
	want := []authz.Account{
		{ID: "ada", TenantID: "acme", TokenSHA256: hashes[0], ExpiresAt: time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC),
			Grants: []authz.Grant{{Role: authz.Engineer, ProjectID: "shop", EnvironmentID: "dev"}}},
		{ID: "steps-1", TokenSHA256: hashes[1], Worker: true, Serves: []string{"acme"}},
	}
	if diff := cmp.Diff(want, c.Accounts); diff != "" {
		t.Errorf("accounts (-want +got):\n%s", diff)
	}
}

func TestLoad_ReadsEgress(t *testing.T) {
	c := configtest.MustLoad(t, false, `
egress:
  "*": {deny: ["*.internal.example"]}
  acme: {allow: [hooks.example.com, 10.20.0.0/16]}
`)
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
		if _, err := configtest.Load(t, false, file); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want one with %s", file, err, want)
		}
	}
}

// The duty reconcile had another meaning where sweep was a duty, so that settings of that time must not start a server
// that dispatches nothing.
func TestLoad_RefusesTheFormerNamesOfDuties(t *testing.T) {
	_, err := configtest.Load(t, false, "duties: [api, project, reconcile, deliver, sweep]\n")
	want := `duties: "sweep" was renamed: on every server write "dispatch" in place of "reconcile", and "reconcile" in ` +
		`place of "sweep"`
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("the duty sweep: the error is %v, want %s", err, want)
	}
}

func TestLoad_NamesEverythingWrong(t *testing.T) {
	t.Setenv("DVT_LISTENN", "127.0.0.1:2")
	_, err := configtest.Load(t, false, "lisetn: x\nstore: mysql://x\naccounts: [{id: ada, role: x}]\n", "--heartbeat", "5ms",
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
		if c, err := configtest.Load(t, false, file); err == nil {
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
		_, err := configtest.Load(t, false, file)
		if err == nil || !strings.Contains(err.Error(), name+" is not offered: no event is fail-open") {
			t.Errorf("%s: the error is %v, want one that the setting is not offered", name, err)
		}
	}
	t.Setenv("DVT_STATE_WRITE_FAIL_OPEN", "StepFailed")
	if _, err := configtest.Load(t, false, ""); err == nil || !strings.Contains(err.Error(),
		"DVT_STATE_WRITE_FAIL_OPEN is not offered: ") {
		t.Errorf("DVT_STATE_WRITE_FAIL_OPEN: the error is %v, want one that it is not offered", err)
	}
	_, err := configtest.Load(t, false, "state-write-fail-open: [StepCompleted]\n", "--duties", "dance")
	if err == nil || !strings.Contains(err.Error(), "state-write-fail-open is not offered") {
		t.Errorf("a file with the setting: the error is %v, want one that it is not offered", err)
	}
}

// Without the error the ports would be ignored, and nothing would listen there.
func TestLoad_PortsOfAnEmbeddedTemporalNeedOne(t *testing.T) {
	for _, port := range []string{"temporal-port", "temporal-ui-port"} {
		_, err := configtest.Load(t, true, "temporal: 127.0.0.1:7233\n"+port+": 7234\n")
		if err == nil || !strings.Contains(err.Error(), "set either temporal or the ports") {
			t.Errorf("temporal together with %s: %v, want a refusal", port, err)
		}
	}
}

// contract: T120
func TestLoad_WriteBudgetIsBetween2And5Seconds(t *testing.T) {
	c := configtest.MustLoad(t, false, "")
	if c.WriteBudget != 3*time.Second {
		t.Errorf("the default is %s, want 3s", c.WriteBudget)
	}
	for budget, ok := range map[string]bool{"1999ms": false, "2s": true, "5s": true, "5001ms": false} {
		if _, err := configtest.Load(t, false, "write-budget: "+budget+"\n"); (err == nil) != ok {
			t.Errorf("write-budget %s: the error is %v, want valid: %t", budget, err, ok)
		}
	}
}

// contract: T105
func TestLoad_RotateAfterIsBetween1And1000(t *testing.T) {
	c := configtest.MustLoad(t, false, "")
	if c.RotateAfter != 50 {
		t.Errorf("the default is %d, want 50", c.RotateAfter)
	}
	for steps, ok := range map[string]bool{"0": false, "1": true, "1000": true, "1001": false} {
		if _, err := configtest.Load(t, false, "rotate-after: "+steps+"\n"); (err == nil) != ok {
			t.Errorf("rotate-after %s: the error is %v, want valid: %t", steps, err, ok)
		}
	}
}

func TestLoad_SecretsAreNotPrinted(t *testing.T) {
	t.Setenv("DVT_WORKER_TOKEN", "hush")
	c := configtest.MustLoad(t, false, "")
	if string(c.WorkerToken) != "hush" || c.WorkerToken.String() == "hush" {
		t.Errorf("the worker token prints as %s, want it hidden", c.WorkerToken)
	}
}

// contract: T201
func TestLoad_ReadsManualKeysAndHidesTheirSecrets(t *testing.T) {
	secret := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("s", 32)))
	c := configtest.MustLoad(t, false, "manual-keys: [\"new:"+secret+"\", \"old:"+secret+"\"]\n")
	if len(c.ManualKeys) != 2 || strings.Contains(fmt.Sprintf("%v %+v %s", c, c, c.ManualKeys), secret) {
		t.Errorf("manual-keys is %v, want two keys whose secrets do not print", c.ManualKeys)
	}
	t.Setenv("DVT_MANUAL_KEYS", "k2:"+secret+",k1:"+secret)
	if c = configtest.MustLoad(t, false, ""); len(c.ManualKeys) != 2 {
		t.Errorf("DVT_MANUAL_KEYS gives %v, want two keys", c.ManualKeys)
	}
	t.Setenv("DVT_MANUAL_KEYS", "k1:"+secret[:20])
	if _, err := configtest.Load(t, false, ""); err == nil || !strings.Contains(err.Error(), "manual-keys: ") ||
		strings.Contains(err.Error(), secret[:20]) {
		t.Errorf("a short secret: the error is %v, want one that names the setting and hides the secret", err)
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
		_, err := configtest.Load(t, c.dev, c.file)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
	}
}

func TestLoad_StopWithinLeavesTheEngineTimeForALostWorker(t *testing.T) {
	c := configtest.MustLoad(t, false, "")
	if c.StopWithin != 2*time.Minute {
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
		_, err := configtest.Load(t, false, c.file)
		if c.bad != (err != nil && strings.Contains(err.Error(),
			"stop-within must be between 10s and 1h, and at least twice the heartbeat")) {
			t.Errorf("%s: got %v, want an error about stop-within: %t", name, err, c.bad)
		}
	}
}

func TestLoad_ReadsTicketKeysAndHidesTheirSecrets(t *testing.T) {
	secret := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("k", 32)))
	c := configtest.MustLoad(t, false, "ticket-keys: [\"new:"+secret+"\", \"old:"+secret+"\"]\n")
	if len(c.TicketKeys) != 2 || strings.Contains(fmt.Sprintf("%v %+v %s", c, c, c.TicketKeys), secret) {
		t.Errorf("ticket-keys is %v, want two keys whose secrets do not print", c.TicketKeys)
	}
	t.Setenv("DVT_TICKET_KEYS", "k1:"+secret[:20])
	if _, err := configtest.Load(t, false, ""); err == nil || !strings.Contains(err.Error(), "ticket-keys: ") ||
		strings.Contains(err.Error(), secret[:20]) {
		t.Errorf("a short secret: the error is %v, want one that names the setting and hides the secret", err)
	}
}

// contract: O5
func TestLoad_NumbersHaveDefaultsAndBounds(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ key, byDefault, least, most, below, above string }{
		{"retry-window", "10m0s", "1s", "168h", "0s", "169h"},
		{"max-parallel-steps", "100", "1", "1000", "0", "1001"},
		{"max-manual-attempts", "10", "1", "1000", "0", "1001"},
		{"lease", "30s", "5s", "10m", "4s", "11m"},
		{"publish-tries", "10", "1", "1000", "0", "1001"},
		{"head-check", "1s", "200ms", "10s", "100ms", "11s"},
		{"policy-recheck", "1m0s", "1s", "10m", "500ms", "11m"},
		{"pause-drain-timeout", "5m0s", "10s", "24h", "9s", "25h"},
	} {
		if is := numberOf(configtest.MustLoad(t, false, ""), c.key); is != c.byDefault {
			t.Errorf("%s is %s without a setting, want %s", c.key, is, c.byDefault)
		}
		for _, in := range []string{c.least, c.most} {
			configtest.MustLoad(t, false, c.key+": "+in)
		}
		for _, out := range []string{c.below, c.above} {
			if _, err := configtest.Load(t, false, c.key+": "+out); err == nil || !strings.Contains(err.Error(), c.key) {
				t.Errorf("%s: %s gives %v, want an error that names the setting", c.key, out, err)
			}
		}
	}
	set := configtest.MustLoad(t, false, "retry-window: 2m\nmax-parallel-steps: 7\nmax-manual-attempts: 3\n"+
		"pause-drain-timeout: 20s")
	want := run.Policy{RetryWindowMS: 120_000, DrainTimeoutMS: 20_000, MaxParallelSteps: 7, MaxLogicalAttemptsManual: 3}
	if diff := cmp.Diff(want, set.Policy()); diff != "" {
		t.Errorf("the policy of runs (-want +got):\n%s", diff)
	}
	if is := configtest.MustLoad(t, true, "").Lease; is != 5*time.Second {
		t.Errorf("the lease of dvt dev is %s, want 5s", is)
	}
}

// numberOf returns the value of a setting of TestLoad_NumbersHaveDefaultsAndBounds.
func numberOf(c config.Config, key string) string {
	return fmt.Sprint(map[string]any{
		"retry-window": c.RetryWindow, "max-parallel-steps": c.MaxParallelSteps, "max-manual-attempts": c.MaxManualAttempts,
		"lease": c.Lease, "publish-tries": c.PublishTries, "head-check": c.HeadCheck, "policy-recheck": c.PolicyRecheck,
		"pause-drain-timeout": c.PauseDrain,
	}[key])
}

func TestLoad_DestinationsHoldRunsBackForAtLeastAMinute(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]time.Duration{"1m": time.Minute, "48h": 48 * time.Hour, "59s": 0, "soon": 0} {
		c, err := configtest.Load(t, false, "retention: {destinationsWait: "+value+"}")
		switch {
		case want == 0 && (err == nil || !strings.Contains(err.Error(), "retention: destinationsWait must be a duration")):
			t.Errorf("%s: error %v, want one about destinationsWait", value, err)
		case want > 0 && (err != nil || c.Retention.DestinationsWait != want):
			t.Errorf("%s: %v, %v, want %v", value, c.Retention.DestinationsWait, err, want)
		}
	}
}

func TestLoad_ARetentionHasAShareOfTheTime(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]float64{"0.05": 0.05, "1": 1, "0": 0, "-0.1": 0, "1.5": 0} {
		c, err := configtest.Load(t, false, "retention: {share: "+value+"}")
		switch {
		case want == 0 && (err == nil || !strings.Contains(err.Error(), "retention: share must be above 0")):
			t.Errorf("%s: error %v, want one about share", value, err)
		case want > 0 && (err != nil || c.Retention.Share != want):
			t.Errorf("%s: %v, %v, want %v", value, c.Retention.Share, err, want)
		}
	}
}

func TestLoad_TheAuditIsKeptForAYearAtLeast(t *testing.T) {
	t.Parallel()
	for value, isValid := range map[int]bool{0: true, 364: false, 365: true, 2557: true, 40_000: false} {
		if _, err := configtest.Load(t, false, fmt.Sprintf("retention: {audit: %d}", value)); (err == nil) != isValid {
			t.Errorf("audit: %d: error %v, want a valid setting: %t", value, err, isValid)
		}
	}
}
