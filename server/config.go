package server

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/knadh/koanf/parsers/yaml"
	"github.com/knadh/koanf/providers/confmap"
	"github.com/knadh/koanf/providers/env/v2"
	"github.com/knadh/koanf/providers/file"
	"github.com/knadh/koanf/providers/posflag"
	"github.com/knadh/koanf/v2"
	"github.com/spf13/pflag"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/store"
)

// Secret is a setting that is never printed.
type Secret string

// String hides the value.
func (Secret) String() string { return "***" }

// Config is every setting of every dvt process. docs/operations.md lists them
// with their defaults; a flag wins over DVT_… in the environment, that over the
// YAML file of --config, and an unknown key is an error.
type Config struct {
	Listen string `koanf:"listen"` // host:port of the API
	Data   string `koanf:"data"`   // directory of everything that `dvt dev` keeps
	Store  string `koanf:"store"`  // postgres://… or sqlite:FILE; empty in dev: a file under data
	Redis  string `koanf:"redis"`  // redis://host:port/0; empty in dev: embedded

	AppRole string `koanf:"app-role"` // the role that `dvt migrate` gives the rights of a server on PostgreSQL

	Temporal          string `koanf:"temporal"`           // host:port; empty in dev: a server of our own
	TemporalNamespace string `koanf:"temporal-namespace"` // dvt
	TemporalBinary    string `koanf:"temporal-binary"`    // the Temporal CLI that dev starts

	Artifacts   string   `koanf:"artifacts"`    // bucket URL, file:///DIRECTORY ; empty: a folder under data
	Workspace   string   `koanf:"workspace"`    // directory of the runs' workspaces; empty: under data
	ProjectRoot string   `koanf:"project-root"` // where relative directories of plans resolve
	DBT         string   `koanf:"dbt"`          // the dbt program
	PlanRoots   []string `koanf:"plan-roots"`   // directories that file: plan references may point into

	ControlQueue string   `koanf:"control-queue"` // tq-control-dev
	DataQueue    string   `koanf:"data-queue"`    // tq-data-dev
	KnownQueues  []string `koanf:"known-queues"`  // further queues that plans may name
	Queues       []string `koanf:"queues"`        // what `dvt worker` serves
	Concurrency  int      `koanf:"concurrency"`   // executions at once per data queue; 4 in a worker, 16 in dev

	Server       string `koanf:"server"`        // URL of the server whose Journal a data worker uses
	WorkerToken  Secret `koanf:"worker-token"`  // of a data worker
	AllowPrivate bool   `koanf:"allow-private"` // HTTP_NOTIFY of this worker may call private addresses (T225); off by default, on in dev

	Accounts       []authz.Account `koanf:"-"`               // accounts, in the file only
	Issuers        []Issuer        `koanf:"-"`               // oidc, in the file only
	PublicURL      string          `koanf:"public-url"`      // where browsers reach this server; on loopback http://LISTEN
	SignInKey      Secret          `koanf:"sign-in-key"`     // seals the cookies of sign-ins under way, the same for all servers
	SessionLife    time.Duration   `koanf:"session-life"`    // of a browser's session
	SessionIdle    time.Duration   `koanf:"session-idle"`    // without a request; 0 is no limit
	ClockSkew      time.Duration   `koanf:"clock-skew"`      // by which clocks of issuers may differ
	TrustedProxies []string        `koanf:"trusted-proxies"` // whose X-Forwarded-For is believed
	AllowedOrigins []string        `koanf:"allowed-origins"` // origins beside the server's own that browsers may come from
	Duties         []string        `koanf:"duties"`          // of: api, project, reconcile, deliver, sweep
	ManualKeys     []Secret        `koanf:"manual-keys"`     // id:secret of the tokens that complete manual steps, the one that signs first; in the file or the environment
	NoSample       bool            `koanf:"no-sample"`
	LogLevel       string          `koanf:"log-level"`    // debug, info, warn, error
	Heartbeat      time.Duration   `koanf:"heartbeat"`    // silence after which an execution counts as lost
	WriteBudget    time.Duration   `koanf:"write-budget"` // how long the store may take to confirm that a step begins or completed
	RotateAfter    int             `koanf:"rotate-after"` // steps that one execution of a run's workflow schedules

	OperatorsTenant string        `koanf:"operators-tenant"` // the tenant whose principals may set the engine's mode; empty: nobody may through the API
	ApprovalTTL     time.Duration `koanf:"approval-ttl"`     // how long a run waits for approval

	HealthInterval time.Duration `koanf:"health-interval"` // between two samples that a server keeps of itself

	Quotas *control.Quotas `koanf:"-"` // quotas, in the file only; nil: nothing is limited

	dev bool
	now func() time.Time // the clock of this process; time.Now when nil

	opened store.Store // in place of Store, which is not opened then; nil mostly
}

// maxSkew is the most that clock-skew may be.
const maxSkew = 5 * time.Minute

// Defaults are the settings that differ between `dvt dev` and the rest.
func Defaults(dev bool) map[string]any {
	d := map[string]any{
		"listen": "127.0.0.1:8080", "data": ".dvt", "temporal-namespace": "dvt",
		"control-queue": "tq-control-dev", "data-queue": "tq-data-dev", "project-root": ".", "dbt": "dbt",
		"log-level": "info", "heartbeat": "30s", "write-budget": "3s", "rotate-after": 50, "approval-ttl": "24h", "health-interval": "15s", "concurrency": 4, "session-life": "12h", "session-idle": "2h", "clock-skew": "60s", "duties": []string{"api", "project", "reconcile", "deliver", "sweep"},
	}
	if dev {
		d["log-level"], d["heartbeat"], d["concurrency"], d["allow-private"] = "warn", "10s", 16, true
		d["operators-tenant"] = "acme"
	}
	return d
}

// Flags registers the settings that a command takes as flags, by name.
func Flags(f *pflag.FlagSet, names ...string) {
	help := map[string]string{
		"listen": "host:port to listen on", "data": "directory that everything is kept in",
		"store": "postgres://USER@HOST/NAME or sqlite:FILE", "redis": "redis://host:port/0",
		"app-role": "PostgreSQL role that servers connect as; it gets what they need and nothing else", "temporal": "host:port of a Temporal server",
		"temporal-namespace": "Temporal namespace", "temporal-binary": "the Temporal CLI to start", "artifacts": "bucket URL of logs and artifacts, file:///DIRECTORY",
		"workspace": "directory of the runs' workspaces", "project-root": "where relative directories of plans resolve", "dbt": "the dbt program",
		"control-queue": "queue of workflows and control steps", "data-queue": "queue of data steps",
		"server": "URL of the server whose journal a data worker uses", "log-level": "debug, info, warn or error",
		"public-url": "where browsers reach this server, https://dvt.example",
		"heartbeat":  "silence after which an execution counts as lost", "write-budget": "how long the store may take to confirm that a step begins or completed",
	}
	lists := map[string]string{
		"plan-roots": "directories that file: plan references may point into", "known-queues": "further queues that plans may name",
		"queues": "queues to serve, separated by commas", "allowed-origins": "further origins that browsers may come from",
		"trusted-proxies": "addresses and networks of proxies whose X-Forwarded-For is believed",
		"duties":          "duties of this server: api, project, reconcile, deliver, sweep",
	}
	for _, n := range names {
		switch {
		case n == "no-sample":
			f.Bool(n, false, "do not submit the sample run")
		case n == "allow-private":
			f.Bool(n, false, "HTTP_NOTIFY may call private addresses")
		case n == "concurrency":
			f.Int(n, 0, "executions at once per data queue")
		case n == "rotate-after":
			f.Int(n, 0, "steps that one execution of a run's workflow schedules")
		case lists[n] != "":
			f.StringSlice(n, nil, lists[n])
		default:
			f.String(n, "", help[n])
		}
	}
}

// Load reads the settings: defaults, then the file, the environment and the
// flags that were given. It returns every problem at once.
func Load(f *pflag.FlagSet, dev bool) (Config, error) {
	k := koanf.New("\x00")
	if err := k.Load(confmap.Provider(Defaults(dev), "\x00"), nil); err != nil {
		return Config{}, err
	}
	if path, err := f.GetString("config"); err == nil && path != "" {
		if err := k.Load(file.Provider(path), yaml.Parser()); err != nil {
			return Config{}, fmt.Errorf("the file %s cannot be read as YAML: %w", path, err)
		}
	}
	known := knownKeys()
	var unknown []string
	err := k.Load(env.Provider("\x00", env.Opt{Prefix: "DVT_", TransformFunc: func(key, v string) (string, any) {
		name := strings.ToLower(strings.ReplaceAll(strings.TrimPrefix(key, "DVT_"), "_", "-"))
		switch {
		case clientVariables[name]:
			return "", nil
		case !known[name]:
			unknown = append(unknown, key)
			return "", nil
		case listKeys[name]:
			return name, strings.Split(v, ",")
		}
		return name, v
	}}), nil)
	if err != nil {
		return Config{}, err
	}
	if err := k.Load(posflag.ProviderWithFlag(f, "\x00", nil, func(fl *pflag.Flag) (string, any) {
		if !fl.Changed || fl.Name == "config" {
			return "", nil
		}
		return fl.Name, posflag.FlagVal(f, fl)
	}), nil); err != nil {
		return Config{}, err
	}
	for _, key := range k.Keys() {
		if !known[strings.Split(key, "\x00")[0]] {
			unknown = append(unknown, key)
		}
	}
	c := Config{dev: dev}
	errs := []error{}
	for _, key := range unknown {
		errs = append(errs, unknownKey(key))
	}
	if err := k.UnmarshalWithConf("", &c, koanf.UnmarshalConf{Tag: "koanf"}); err != nil {
		errs = append(errs, err)
	}
	if c.Accounts, err = accounts(k.Get("accounts")); err != nil {
		errs = append(errs, err)
	}
	if c.Issuers, err = issuers(k.Get("oidc")); err != nil {
		errs = append(errs, err)
	}
	if c.Quotas, err = quotas(k.Get("quotas"), dev); err != nil {
		errs = append(errs, err)
	}
	errs = append(errs, c.verify()...)
	errs = append(errs, c.verifyIdentity()...)
	return c, errors.Join(errs...)
}

// unknownKey says that dvt has no such setting, and why it has none for events
// that are written later than they are acted on (B05, T216).
func unknownKey(key string) error {
	key = strings.ReplaceAll(key, "\x00", ".")
	plain := strings.ToLower(strings.NewReplacer("-", "", "_", "").Replace(key))
	if strings.Contains(plain, "failopen") && !strings.Contains(plain, "neverfailopen") {
		return fmt.Errorf("%s is not offered: no event is fail-open, a step begins and ends only when the log has answered (StepStarted, StepCompleted, StepFailed)", key)
	}
	return fmt.Errorf("%s is not a setting of dvt", key)
}

// accounts reads the list of accounts; a key that an account does not have is an error.
func accounts(list any) (out []authz.Account, err error) {
	if list == nil {
		return nil, nil
	}
	doc, err := json.Marshal(list)
	if err != nil {
		return nil, fmt.Errorf("accounts: %w", err)
	}
	d := json.NewDecoder(bytes.NewReader(doc))
	d.DisallowUnknownFields()
	if err := d.Decode(&out); err != nil {
		return nil, fmt.Errorf("accounts: %w", err)
	}
	return out, nil
}

// clientVariables are DVT_… of the client commands, of the build and of its tests.
var clientVariables = map[string]bool{"token": true, "config": true, "chromium": true, "test-binary": true, "bin": true, "e2e-url": true, "e2e-state": true, "fault-seconds": true, "fault-seed": true, "bad-requests": true} //nolint:gochecknoglobals // a table

var listKeys = map[string]bool{ //nolint:gochecknoglobals // a table
	"plan-roots": true, "known-queues": true, "queues": true, "allowed-origins": true, "duties": true, "manual-keys": true, "trusted-proxies": true,
}

func knownKeys() map[string]bool {
	out := map[string]bool{}
	for _, k := range strings.Fields(`listen data store redis app-role temporal temporal-namespace temporal-binary artifacts workspace project-root dbt
		plan-roots control-queue data-queue known-queues queues concurrency server worker-token allow-private accounts allowed-origins duties no-sample log-level heartbeat
		write-budget rotate-after manual-keys oidc public-url sign-in-key session-life session-idle clock-skew trusted-proxies operators-tenant approval-ttl health-interval quotas`) {
		out[k] = true
	}
	return out
}

// verify names what is wrong with the settings taken together, and makes paths absolute.
func (c *Config) verify() (errs []error) {
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	host, _, err := net.SplitHostPort(c.Listen)
	if err != nil {
		bad("listen must look like 127.0.0.1:8080, not %q", c.Listen)
	} else if ip := net.ParseIP(host); c.dev && host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		bad("dvt dev knows everybody's token, so it listens on loopback only: use `dvt server` for %s", c.Listen)
	}
	for _, p := range []*string{&c.Data, &c.ProjectRoot} {
		if *p, err = filepath.Abs(*p); err != nil {
			bad("%v", err)
		}
	}
	if c.Workspace == "" {
		c.Workspace = filepath.Join(c.Data, "workspace")
	}
	if c.Workspace, err = filepath.Abs(c.Workspace); err != nil {
		bad("%v", err)
	}
	if c.Artifacts == "" {
		c.Artifacts = (&url.URL{Scheme: "file", Path: filepath.Join(c.Data, "artifacts"), RawQuery: "create_dir=true&no_tmp_dir=true"}).String()
	}
	if c.Store != "" && !strings.HasPrefix(c.Store, "postgres://") && !strings.HasPrefix(c.Store, "postgresql://") && !strings.HasPrefix(c.Store, "sqlite:") {
		bad("store must begin with postgres:// or sqlite:")
	}
	if c.Heartbeat < time.Second {
		bad("heartbeat must be at least 1s")
	}
	if c.WriteBudget < 2*time.Second || c.WriteBudget > 5*time.Second {
		bad("write-budget must be between 2s and 5s")
	}
	if c.RotateAfter < 1 || c.RotateAfter > 1000 {
		bad("rotate-after must be between 1 and 1000")
	}
	if c.ApprovalTTL < time.Minute || c.ApprovalTTL > 90*24*time.Hour {
		bad("approval-ttl must be between 1m and 2160h")
	}
	if c.HealthInterval < time.Second || c.HealthInterval > 5*time.Minute {
		bad("health-interval must be between 1s and 5m")
	}
	for _, d := range c.Duties {
		if !strings.Contains(" api project reconcile deliver sweep ", " "+d+" ") {
			bad("duties: %q is not one of api, project, reconcile, deliver, sweep", d)
		}
	}
	if _, err := c.manualKeys(); err != nil {
		bad("manual-keys: %w", err)
	}
	return errs
}

// queues are the task queues that plans may name.
func (c *Config) queues() plan.Queues {
	return plan.Queues{Control: c.ControlQueue, Data: c.DataQueue, Known: append([]string{c.ControlQueue, c.DataQueue}, c.KnownQueues...)}
}

// makeData makes the data directory, with a sentence for a person when it cannot.
func (c *Config) makeData() error {
	for _, dir := range []string{c.Data, c.Workspace} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return fmt.Errorf("the directory %s cannot be written (%w): choose another with --data", dir, errors.Unwrap(err))
		}
	}
	probe, err := os.CreateTemp(c.Data, ".write-*")
	if err != nil {
		return fmt.Errorf("the directory %s cannot be written: choose another with --data", c.Data)
	}
	name := probe.Name()
	return errors.Join(probe.Close(), os.Remove(name))
}
