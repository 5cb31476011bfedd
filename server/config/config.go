// Package config contains the settings of every dvt process. It loads them, validates them, and derives values that
// depend on settings alone. It opens no files except those that settings name.
package config

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/knadh/koanf/v2"
	"github.com/spf13/pflag"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control/admission"
	"github.com/dvt-engine/dvt/control/retention"
	"github.com/dvt-engine/dvt/egress"
	"github.com/dvt-engine/dvt/engine/namespaces"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/store"
)

// Secret is a setting that is never printed.
type Secret string

// String hides the value.
func (Secret) String() string { return "***" }

// GoString hides the value from %#v.
func (Secret) GoString() string { return "***" }

// LogValue hides the value from log records of every format.
func (Secret) LogValue() slog.Value { return slog.StringValue("***") }

// MarshalJSON hides the value.
func (Secret) MarshalJSON() ([]byte, error) { return []byte(`"***"`), nil }

// Config contains every setting of every dvt process. docs/operations.md lists them with their defaults. A flag wins
// over a DVT_… variable of the environment, which wins over the YAML file of --config. An unknown key is an error.
// Create a Config with Load.
type Config struct {
	Listen string `koanf:"listen"` // host:port of the API
	Data   string `koanf:"data"`   // files of this process; `dvt dev` stores everything there
	Store  string `koanf:"store"`  // postgres://… or sqlite:FILE; empty in dev: a file under data
	Redis  string `koanf:"redis"`  // redis://host:port/0; empty in dev: embedded

	// Standby makes this process part of a standby site, also on a database that takes writes.
	Standby bool `koanf:"standby"`
	// PeerStore is the database of the other site, which `dvt dr` compares with that of this one.
	PeerStore Secret `koanf:"peer-store"`

	AppRole string `koanf:"app-role"` // the role that `dvt migrate` gives the rights of a server on PostgreSQL

	Temporal          string `koanf:"temporal"`           // host:port; empty in dev: dvt starts a server
	TemporalNamespace string `koanf:"temporal-namespace"` // dvt
	TemporalBinary    string `koanf:"temporal-binary"`    // the Temporal CLI that dev starts
	TemporalPort      int    `koanf:"temporal-port"`      // port that opens its API on loopback; 0: only dvt reaches it
	TemporalUIPort    int    `koanf:"temporal-ui-port"`   // port of the UI of the server that dev starts; 0: no UI

	Artifacts string `koanf:"artifacts"` // bucket URL, such as file:///DIRECTORY; empty: a directory under data
	Workspace string `koanf:"workspace"` // directory of the runs' workspaces; empty: under data
	// WorkspaceMax bounds the files of one run in its workspace, and WorkspaceLife how long it stays after the last
	// step there; 0 means no bound.
	WorkspaceMax  string        `koanf:"workspace-max"`
	WorkspaceLife time.Duration `koanf:"workspace-life"`
	// StepGrace is the time for which steps go on in a worker that was asked to stop.
	StepGrace time.Duration `koanf:"step-grace"`

	ProjectRoot string `koanf:"project-root"` // where relative directories of plans resolve
	DBT         string `koanf:"dbt"`          // the dbt program
	Secrets     string `koanf:"secrets"`      // file of the providers of secrets; empty: none, but of dvt dev
	// SignedDownloads sends downloads of artifacts to the bucket where the bucket signs addresses.
	SignedDownloads bool     `koanf:"signed-downloads"`
	PlanRoots       []string `koanf:"plan-roots"` // directories that file: plan references may point into

	// Names of queues. {env} stands for the environment of a run and {tenant} for its tenant, see plan.Queues.
	ControlQueue   string `koanf:"control-queue"`   // tq-control-{env}; in dev tq-control-dev
	DataQueue      string `koanf:"data-queue"`      // tq-data-{env}; in dev tq-data-dev
	IsolationQueue string `koanf:"isolation-queue"` // tq-isolation-{tenant}-{env}
	// tenants whose data steps run on their isolation queue only
	IsolationTenants []string `koanf:"isolation-tenants"`
	KnownQueues      []string `koanf:"known-queues"` // further queues that plans may name
	Queues           []string `koanf:"queues"`       // what `dvt worker` serves, exact names
	// concurrent COMMAND steps, and concurrent dbt steps, per data queue; 4 in a worker, 16 in dev
	Concurrency int      `koanf:"concurrency"`
	SlotsByType []string `koanf:"slots-by-type"` // TYPE=N: concurrent steps of a type per queue
	// TENANT=N%: share of the slots of a type; * is every other tenant
	SlotsByTenant   []string `koanf:"slots-by-tenant"`
	RateByType      []string `koanf:"rate-by-type"`       // TYPE=N: steps that this worker begins per second and queue
	QueueRateByType []string `koanf:"queue-rate-by-type"` // the same for all workers of a queue together
	// host:port that serves probes, health and metrics without a token; empty: none
	MetricsListen string `koanf:"metrics-listen"`
	// how long a queue with waiting steps may have no worker before dvt reports it
	NoWorkerAfter time.Duration `koanf:"no-worker-after"`
	// how long the engine may take to stop a run before dvt ends it
	StopWithin time.Duration `koanf:"stop-within"`
	// how long a paused run may drain before dvt raises an alert
	PauseDrain time.Duration `koanf:"pause-drain-timeout"`
	// what dvt does about runs that hang: off, observe or act
	Recovery string `koanf:"recovery"`

	Server      string `koanf:"server"`       // URL of the server whose Journal a data worker uses
	WorkerToken Secret `koanf:"worker-token"` // the token of a data worker
	// HTTP_NOTIFY steps of this worker may call private addresses; off by default, because a plan could otherwise reach
	// services of the network, and on in dev (contract T225)
	AllowPrivate bool `koanf:"allow-private"`

	// egress, in the file only: addresses that HTTP_NOTIFY steps and plan references may call, by tenant
	Egress map[string]egress.Rules `koanf:"-"`

	Accounts  []authz.Account `koanf:"-"`          // accounts, in the file only
	Issuers   []Issuer        `koanf:"-"`          // oidc, in the file only
	PublicURL string          `koanf:"public-url"` // URL at which browsers reach this server; on loopback http://LISTEN
	// encrypts the cookies of sign-ins that have begun; the same on all servers
	SignInKey      Secret        `koanf:"sign-in-key"`
	SessionLife    time.Duration `koanf:"session-life"`    // of a browser session
	SessionIdle    time.Duration `koanf:"session-idle"`    // ends a session without requests; 0: no limit
	ClockSkew      time.Duration `koanf:"clock-skew"`      // tolerated difference of the issuers' clocks
	TrustedProxies []string      `koanf:"trusted-proxies"` // whose X-Forwarded-For is trusted
	AllowedOrigins []string      `koanf:"allowed-origins"` // further origins whose pages may call this server
	// any of api, project, dispatch, deliver, reconcile, trace, notify, retain
	Duties []string `koanf:"duties"`
	// file of the destinations that events and alerts are sent to; empty: nothing is sent
	Destinations string `koanf:"destinations"`
	// share of the runs whose traces are exported, from 0 to 1; those of runs with failures always are
	TraceRuns float64 `koanf:"trace-runs"`
	// share of the requests whose spans are exported, from 0 to 1; those of failures always are
	TraceSample float64 `koanf:"trace-sample"`
	// keys of tokens that complete manual steps, as id:secret; the first one signs; in the file or the environment
	ManualKeys []Secret `koanf:"manual-keys"`
	// keys of the tickets that steps need to begin, as id:secret; the first one signs; in the file or the environment
	TicketKeys []Secret `koanf:"ticket-keys"`
	NoSample   bool     `koanf:"no-sample"`
	LogLevel   string   `koanf:"log-level"` // debug, info, warn, error
	// LogFormat is json or text; "" means text on a terminal and json elsewhere.
	LogFormat string `koanf:"log-format"`
	// Requests per minute that this server accepts from one principal and from one client address.
	RequestsPerMinute        int `koanf:"requests-per-minute"`
	AddressRequestsPerMinute int `koanf:"address-requests-per-minute"`

	// bucket URL or directory for the signed heads of the audit; empty: none are written
	AuditHeads         string        `koanf:"audit-heads"`
	AuditHeadsKey      string        `koanf:"audit-heads-key"`      // file of the Ed25519 private key that signs them
	AuditHeadsInterval time.Duration `koanf:"audit-heads-interval"` // time between two signed heads

	// bucket URL or directory of the ledger of erasures, outside the store; empty: nothing can be erased
	ErasureLedger string `koanf:"erasure-ledger"`

	Heartbeat time.Duration `koanf:"heartbeat"` // time without a heartbeat after which an execution counts as lost
	// how long the store may take to confirm that a step begins or completed
	WriteBudget time.Duration `koanf:"write-budget"`
	RotateAfter int           `koanf:"rotate-after"` // steps that one execution of a run's workflow schedules

	// the tenant whose principals may set the engine's mode; empty: nobody may set it through the API
	OperatorsTenant string        `koanf:"operators-tenant"`
	ApprovalTTL     time.Duration `koanf:"approval-ttl"` // how long a run waits for approval

	HealthInterval time.Duration `koanf:"health-interval"` // time between two samples of a server's health history
	// how long a server that was asked to stop answers /readyz with 503 before it closes its listener
	ShutdownDelay time.Duration `koanf:"shutdown-delay"`

	Quotas *admission.Quotas `koanf:"-"` // quotas, in the file only; nil: no limits

	Retention retention.Installation `koanf:"-"` // retention, in the file only
	// Namespaces assigns runs to namespaces of Temporal: temporal-namespaces, in the file only, over temporal-namespace.
	Namespaces namespaces.Strategy `koanf:"-"`
	// PlanBuckets are the buckets that references to plans may point into, by tenant; in the file only.
	PlanBuckets map[string][]string `koanf:"-"`

	Encryption      `koanf:",squash"`
	SandboxSettings `koanf:",squash"`
	RunPolicy       `koanf:",squash"`

	Dev          bool   `koanf:"-"` // set for `dvt dev`, which has other defaults and rules
	Version      string `koanf:"-"` // of the program, as its linker set it
	SettingsFile string `koanf:"-"` // path of --config; empty when there is none

	Parts `koanf:"-"`
}

// Parts contains dependencies that a program, such as `dvt dev` or a test, supplies instead of settings. No setting
// sets them, and each may be nil.
type Parts struct {
	Now           func() time.Time // the clock of this process; nil means time.Now
	EngineTrouble func() string    // returns the supervisor's reason why the engine does not answer, or ""
	// DialTemporal and DialRedis connect to the embedded servers of dev. When they are nil, the settings temporal and
	// redis give the addresses.
	DialTemporal, DialRedis func(ctx context.Context) (net.Conn, error)

	Store store.Store // replaces the store that the setting store names
}

// maxSkew is the maximum of clock-skew.
const maxSkew = 5 * time.Minute

// Defaults returns the default of each setting that has one, by key. With dev they are those of `dvt dev`.
func Defaults(dev bool) map[string]any {
	q := plan.DefaultQueues()
	d := map[string]any{
		"listen": "127.0.0.1:8080", "data": ".dvt", "temporal-namespace": "dvt",
		"control-queue": q.Control, "data-queue": q.Data, "isolation-queue": q.Isolation,
		"no-worker-after": "5m", "stop-within": "2m", "pause-drain-timeout": "5m", "recovery": "observe",
		"audit-heads-interval": "5m", "project-root": ".", "dbt": "dbt",
		"temporal-tls": tlsAuto, "log-level": "info", "heartbeat": "30s", "write-budget": "3s", "rotate-after": 50,
		"approval-ttl": "24h", "health-interval": "15s", "shutdown-delay": "5s",
		"concurrency": 4, "workspace-max": "10Gi", "workspace-life": "24h", "step-grace": "30s",
		"requests-per-minute": 12_000, "address-requests-per-minute": 30_000, "signed-downloads": true,
		"session-life": "12h", "session-idle": "2h", "clock-skew": "60s", "duties": []string{"api", "project", "dispatch",
			"deliver", "reconcile", "trace", "notify", "retain"}, "trace-runs": 1.0, "trace-sample": 0.1,
	}
	maps.Copy(d, sandboxDefaults())
	maps.Copy(d, runPolicyDefaults())
	if dev {
		d["log-level"], d["heartbeat"], d["concurrency"], d["allow-private"] = "warn", "10s", 16, true
		d["shutdown-delay"] = "0s" // no proxy sends requests to it
		// One process uses these data, so the lease of a killed one may expire soon.
		d["operators-tenant"], d["recovery"], d["lease"] = "acme", "act", "5s"
		d["control-queue"], d["data-queue"] = plan.ControlPrefix+"dev", "tq-data-dev" // one process serves every environment
	}
	return d
}

// Flags registers the settings that a command takes as flags, by name.
func Flags(f *pflag.FlagSet, names ...string) {
	help := map[string]string{
		"listen": "host:port to listen on", "data": "data directory",
		"store": "postgres://USER@HOST/NAME or sqlite:FILE", "redis": "redis://host:port/0",
		"peer-store":         "database of the other site, for dvt dr",
		"app-role":           "PostgreSQL role that servers connect as; it gets the rights that they need and no others",
		"temporal":           "host:port of a Temporal server",
		"temporal-namespace": "Temporal namespace", "temporal-binary": "the Temporal CLI to start",
		"artifacts": "address of the bucket of logs and artifacts: file:///DIRECTORY, s3://, gs:// or azblob://",
		"workspace": "directory of the runs' workspaces", "workspace-max": "size of the files of one run in its workspace, such as 10Gi; 0: no bound",
		"workspace-life": "how long a workspace stays after the last step in it; 0: until the run ends",
		"step-grace":     "how long steps go on in a worker that was asked to stop; then it ends them, and another worker tries them again",
		"project-root":   "where relative directories of plans resolve",
		"dbt":            "the dbt program",
		"secrets":        "YAML file of the providers from which steps get secrets; none by default",
		"control-queue":  "queue of workflows and control steps; {env} and {tenant} stand for those of a run",
		"data-queue":     "queue of data steps", "isolation-queue": "data queue of each of --isolation-tenants",
		"no-worker-after":      "how long a queue with waiting steps may have no worker before dvt reports it",
		"stop-within":          "how long the engine may take to stop a run before dvt ends it",
		"pause-drain-timeout":  "how long a paused run may drain before dvt raises an alert",
		"recovery":             "what dvt does about runs that hang: off, observe or act",
		"audit-heads":          "bucket URL or directory of the signed heads of the audit; none by default",
		"destinations":         "YAML or JSON file of the destinations that events and alerts are sent to; none by default",
		"audit-heads-key":      "PEM file of the Ed25519 private key that signs them",
		"audit-heads-interval": "time between two signed heads",
		"erasure-ledger":       "bucket URL or directory of the ledger of erasures, which no backup of the store contains",
		"metrics-listen": "host:port that serves probes, health, metrics and profiles of this process without a " +
			"token; none by default",
		"server":     "URL of the server whose journal a data worker uses",
		"log-level":  "debug, info, warn or error",
		"log-format": "json or text; by default text on a terminal and json elsewhere",
		"shutdown-delay": "how long a server that was asked to stop still accepts requests while /readyz answers 503, so " +
			"that proxies send the next ones elsewhere; 0s: not at all",
		"public-url":   "URL at which browsers reach this server, such as https://dvt.example",
		"heartbeat":    "time without a heartbeat after which an execution counts as lost",
		"write-budget": "how long the store may take to confirm that a step begins or completed",
		"trace-runs":   "share of the runs whose traces are exported, from 0 to 1",
		"trace-sample": "share of the requests whose spans are exported, from 0 to 1; failures always are",
	}
	lists := map[string]string{
		"plan-roots":         "directories that file: plan references may point into",
		"known-queues":       "further queues that plans may name",
		"isolation-tenants":  "tenants whose data steps run on their isolation queue only",
		"queues":             "queues to serve, separated by commas",
		"slots-by-type":      "TYPE=N: concurrent steps of a type per queue; types are NOOP, COMMAND, DBT and HTTP_NOTIFY",
		"slots-by-tenant":    "TENANT=N%: share of the slots of each type that one tenant may hold; * is every other tenant",
		"rate-by-type":       "TYPE=N: steps of a type that this worker begins per second and queue",
		"queue-rate-by-type": "TYPE=N: the same for all workers of a queue together",
		"allowed-origins":    "further origins whose pages may call this server",
		"trusted-proxies":    "addresses and networks of proxies whose X-Forwarded-For is trusted",
		"duties":             "duties of this server: api, project, dispatch, deliver, reconcile, trace, notify, retain",
	}
	maps.Copy(help, helpOfEncryption)
	maps.Copy(help, sandboxHelp)
	for n, list := range groupedKeys() {
		if list {
			lists[n] = help[n]
		}
	}
	for _, n := range names {
		switch {
		case n == "no-sample":
			f.Bool(n, false, "do not submit the sample run")
		case n == "standby":
			f.Bool(n, false, "serve reads and change nothing, also on a database that takes writes")
		case n == "allow-private":
			f.Bool(n, false, "HTTP_NOTIFY may call private addresses")
		case n == "concurrency":
			f.Int(n, 0, "concurrent COMMAND steps, and concurrent dbt steps, per data queue")
		case n == "temporal-port":
			f.Int(n, 0, "port on loopback of the API of the Temporal server that is started; 0: only dvt reaches it")
		case n == "temporal-ui-port":
			f.Int(n, 0, "port on loopback of the UI of the Temporal server that is started; 0: no UI")
		case n == "sandbox-cpu", n == "trace-runs", n == "trace-sample":
			f.Float64(n, 0, help[n])
		case n == "sandbox-pids":
			f.Int(n, 0, help[n])
		case n == "rotate-after":
			f.Int(n, 0, "steps that one execution of a run's workflow schedules")
		case lists[n] != "":
			f.StringSlice(n, nil, lists[n])
		default:
			f.String(n, "", help[n])
		}
	}
}

// Load reads the settings in the order of their precedence: defaults, the file of the flag config, the environment, and
// the flags that were given. Its error joins all problems, so that an operator can fix them at once.
func Load(f *pflag.FlagSet, dev bool) (Config, error) {
	ls, err := readLayers(f, dev)
	if err != nil {
		return Config{}, err
	}
	return ls.load(dev)
}

// load merges the layers, decodes the settings and verifies them. Its error joins all problems.
func (ls layers) load(dev bool) (Config, error) {
	k := koanf.New(keyDelimiter)
	for _, l := range ls.all {
		if err := k.Merge(l.keys); err != nil {
			return Config{}, err
		}
	}
	settings, unknown := ls.file, ls.unknown
	var err error
	c := Config{Dev: dev, SettingsFile: settings}
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
	if c.Retention, err = retentionPolicy(k.Get("retention"), dev); err != nil {
		errs = append(errs, err)
	}
	if c.PlanBuckets, err = planBuckets(k.Get("plan-buckets")); err != nil {
		errs = append(errs, err)
	}
	if c.Namespaces, err = namespaceStrategy(k.Get("temporal-namespaces"), c.TemporalNamespace, dev); err != nil {
		errs = append(errs, err)
	}
	if c.Egress, err = egressRules(k.Get("egress")); err != nil {
		errs = append(errs, err)
	}
	errs = append(errs, c.verify()...)
	errs = append(errs, c.verifyIdentity()...)
	errs = append(errs, c.verifyEncryption()...)
	errs = append(errs, c.verifySandbox()...)
	errs = append(errs, c.RunPolicy.verify()...)
	errs = append(errs, c.verifyLog()...)
	return c, errors.Join(errs...)
}

// accounts decodes the setting accounts. An unknown key is an error.
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

// clientVariables are the DVT_… variables that are not settings: those of client commands, the build and its tests.
//
//nolint:gochecknoglobals // a table
var clientVariables = map[string]bool{"token": true, "config": true, "chromium": true, "test-binary": true, "bin": true,
	"e2e-url": true, "e2e-state": true, "fault-seconds": true, "fault-seed": true, "bad-requests": true}

var listKeys = map[string]bool{ //nolint:gochecknoglobals // a table
	"plan-roots": true, "known-queues": true, "isolation-tenants": true, "queues": true,
	"slots-by-type": true, "slots-by-tenant": true, "rate-by-type": true, "queue-rate-by-type": true,
	"allowed-origins": true, "duties": true, "manual-keys": true, "ticket-keys": true, "trusted-proxies": true,
}

func knownKeys() map[string]bool {
	out := map[string]bool{}
	for _, k := range strings.Fields(`listen data store redis standby peer-store app-role temporal temporal-namespace temporal-binary temporal-port temporal-ui-port
		artifacts workspace workspace-max workspace-life step-grace project-root dbt
		plan-roots control-queue data-queue isolation-queue isolation-tenants known-queues queues no-worker-after stop-within
		pause-drain-timeout recovery concurrency
		slots-by-type slots-by-tenant rate-by-type queue-rate-by-type metrics-listen
		server worker-token allow-private accounts allowed-origins duties no-sample log-level log-format heartbeat
		write-budget rotate-after manual-keys ticket-keys oidc public-url sign-in-key session-life session-idle clock-skew trusted-proxies operators-tenant approval-ttl health-interval shutdown-delay quotas egress
		requests-per-minute address-requests-per-minute audit-heads audit-heads-key audit-heads-interval
		trace-runs trace-sample destinations secrets retention plan-buckets temporal-namespaces erasure-ledger signed-downloads`) {
		out[k] = true
	}
	for k := range groupedKeys() {
		out[k] = true
	}
	return out
}

// HasDefaultArtifacts reports whether the setting artifacts was left out, so that it is the directory under data.
func (c Config) HasDefaultArtifacts() bool { return c.Artifacts == c.defaultArtifacts() }

func (c Config) defaultArtifacts() string {
	return (&url.URL{Scheme: "file", Path: filepath.Join(c.Data, "artifacts"),
		RawQuery: "create_dir=true&no_tmp_dir=true"}).String()
}

// verify returns all errors in the general settings. It also makes paths absolute and sets defaults that depend on
// other settings.
func (c *Config) verify() (errs []error) {
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	host, _, err := net.SplitHostPort(c.Listen)
	if err != nil {
		bad("listen must look like 127.0.0.1:8080, not %q", c.Listen)
	} else if ip := net.ParseIP(host); c.Dev && host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		bad("dvt dev is for one person, without TLS, so it listens on loopback only: use `dvt server` for %s", c.Listen)
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
	if _, err := c.WorkspaceBytes(); err != nil {
		bad("%v", err)
	}
	if c.WorkspaceLife != 0 && c.WorkspaceLife < time.Minute {
		bad("workspace-life must be at least 1m, or 0 to keep workspaces until their runs end")
	}
	if c.StepGrace < time.Second || c.StepGrace > 24*time.Hour {
		bad("step-grace must be between 1s and 24h")
	}
	if c.Artifacts == "" {
		c.Artifacts = c.defaultArtifacts()
	}
	if c.Store != "" && !strings.HasPrefix(c.Store, "postgres://") && !strings.HasPrefix(c.Store, "postgresql://") &&
		!strings.HasPrefix(c.Store, "sqlite:") {
		bad("store must begin with postgres:// or sqlite:")
	}
	if c.Heartbeat < time.Second {
		bad("heartbeat must be at least 1s")
	}
	if c.WriteBudget < 2*time.Second || c.WriteBudget > 5*time.Second {
		bad("write-budget must be between 2s and 5s")
	}
	if c.TemporalPort < 0 || c.TemporalPort > 65535 {
		bad("temporal-port must be between 1 and 65535, or 0 for a server that only dvt reaches")
	}
	if c.TemporalUIPort < 0 || c.TemporalUIPort > 65535 {
		bad("temporal-ui-port must be between 1 and 65535, or 0 for no UI")
	}
	if c.Temporal != "" && (c.TemporalPort != 0 || c.TemporalUIPort != 0) {
		bad("temporal-port and temporal-ui-port open ports of the server that dvt dev starts, and with temporal it starts " +
			"none: set either temporal or the ports")
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
	if c.ShutdownDelay < 0 || c.ShutdownDelay > 2*time.Minute {
		bad("shutdown-delay must be between 0s and 2m")
	}
	if c.TraceRuns < 0 || c.TraceRuns > 1 {
		bad("trace-runs must be between 0 and 1")
	}
	if c.TraceSample < 0 || c.TraceSample > 1 {
		bad("trace-sample must be between 0 and 1")
	}
	if c.NoWorkerAfter < 2*time.Minute || c.NoWorkerAfter > 24*time.Hour {
		bad("no-worker-after must be between 2m and 24h: an idle worker asks its queue for work once a minute")
	}
	if c.StopWithin < 10*time.Second || c.StopWithin > time.Hour || c.StopWithin < 2*c.Heartbeat {
		bad("stop-within must be between 10s and 1h, and at least twice the heartbeat (%s): a worker that is lost is noticed "+
			"after one heartbeat, and the run stops in order then", c.Heartbeat)
	}
	if c.PauseDrain < 10*time.Second || c.PauseDrain > 24*time.Hour {
		bad("pause-drain-timeout must be between 10s and 24h")
	}
	if !slices.Contains([]string{"off", "observe", "act"}, c.Recovery) {
		bad("recovery must be off, observe or act")
	}
	if (c.AuditHeads == "") != (c.AuditHeadsKey == "") {
		bad("audit-heads and audit-heads-key must be given together")
	}
	if c.AuditHeadsInterval < 10*time.Second || c.AuditHeadsInterval > 24*time.Hour {
		bad("audit-heads-interval must be between 10s and 24h")
	}
	if err := c.PlanQueues().Check(); err != nil {
		errs = append(errs, err)
	}
	if c.Dev && (strings.Contains(c.ControlQueue+c.DataQueue, "{") || len(c.IsolationTenants) > 0) {
		bad("dvt dev serves one control queue and one data queue for all: name them without {env} and {tenant}, and set " +
			"no isolation-tenants")
	}
	for _, d := range c.Duties {
		switch d {
		case "api", "project", "dispatch", "deliver", "reconcile", "trace", "notify", "retain":
		case "sweep": // reconcile had another meaning where sweep was in use, so its old meaning must not change silently
			bad(`duties: "sweep" was renamed: on every server write "dispatch" in place of "reconcile", ` +
				`and "reconcile" in place of "sweep"`)
		default:
			bad("duties: %q is not one of api, project, dispatch, deliver, reconcile, trace, notify, retain", d)
		}
	}
	errs = append(errs, c.verifyWorker()...)
	if _, err := c.ParseManualKeys(); err != nil {
		bad("manual-keys: %w", err)
	}
	if _, err := c.ParseTicketKeys(); err != nil {
		bad("ticket-keys: %w", err)
	}
	return errs
}

// PlanQueues returns the task queues that plans may name.
func (c *Config) PlanQueues() plan.Queues {
	return plan.Queues{
		Control: c.ControlQueue, Data: c.DataQueue, Isolation: c.IsolationQueue, IsolationTenants: c.IsolationTenants,
		Known: c.KnownQueues,
	}
}

// MakeData creates the data directory and the directory of workspaces, for the owner only, and checks that it can write
// to the data directory. Its error tells the operator what to do.
func (c *Config) MakeData() error {
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

// egressRules decodes the setting egress. Unknown keys, and rules that are not a host, an address or a network, are
// errors.
func egressRules(setting any) (map[string]egress.Rules, error) {
	if setting == nil {
		return nil, nil
	}
	out := map[string]egress.Rules{}
	if err := strict(setting, &out); err != nil {
		return nil, fmt.Errorf("egress: %w", err)
	}
	if _, err := egress.New(egress.Settings{Rules: out}, nil); err != nil {
		return nil, fmt.Errorf("egress: %w", err)
	}
	return out, nil
}
