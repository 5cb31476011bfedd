// Package preflight says what is missing in the target of an installation before anything is installed or started. It
// reads the settings of the process that will run, tries each connection with them, and returns every finding at once
// with its remedy. It changes nothing: it removes the object that it writes into the bucket, and starts no duty. No
// finding contains a secret.
package preflight

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/server/config"
	"github.com/dvt-engine/dvt/store/postgres"
)

// Process is the kind of process that the settings are for. It decides which components are checked.
type Process string

// The processes of an installation.
const (
	Server        Process = "server"
	ControlWorker Process = "control-worker"
	DataWorker    Process = "data-worker"
	Migrate       Process = "migrate" // with the store as its owner
)

// String returns the process in words, such as "data worker".
func (p Process) String() string {
	if p == Migrate {
		return "migration"
	}
	return strings.ReplaceAll(string(p), "-", " ")
}

// Processes lists every process.
func Processes() []Process { return []Process{Server, ControlWorker, DataWorker, Migrate} }

// ProcessOf returns the process that the settings are for: a worker when they name queues, else a server.
func ProcessOf(c *config.Config) Process {
	switch {
	case len(c.Queues) == 0:
		return Server
	case strings.HasPrefix(c.Queues[0], plan.ControlPrefix):
		return ControlWorker
	}
	return DataWorker
}

// State is the result of a check.
type State string

// The states of a finding.
const (
	OK      State = "OK"
	Missing State = "MISSING" // the process would not start or not work
	Note    State = "NOTE"    // it works; the finding has a recommendation, or names a fact that could not be checked
)

// Finding is the result of one check.
type Finding struct {
	Component string `json:"component"` // such as "PostgreSQL"
	Check     string `json:"check"`     // such as "version"
	State     State  `json:"state"`
	Found     string `json:"found"`         // what is there
	Why       string `json:"why,omitempty"` // why it matters; empty for OK
	// Remedy is the command or right that mends it; empty for OK, and where Found says it.
	Remedy string `json:"remedy,omitempty"`
}

// Report is every finding of one process.
type Report struct {
	Process  Process   `json:"process"`
	Missing  int       `json:"missing"` // findings with the state MISSING
	Findings []Finding `json:"findings"`
}

// Options are the expectations of Run.
type Options struct {
	Process Process
	// Peers is the number of servers and control workers of the whole installation, for the connections of PostgreSQL.
	Peers int
	// Timeout bounds each component.
	Timeout time.Duration
}

// Defaults of Options.
const (
	DefaultPeers   = 4
	DefaultTimeout = 15 * time.Second
)

// component checks one part of the target. It adds its findings in a fixed order.
type component struct {
	name  string
	check func(context.Context, *list)
}

// list collects the findings of one component.
type list struct {
	component string
	findings  []Finding
}

func (l *list) ok(check, format string, args ...any) {
	l.findings = append(l.findings, Finding{Component: l.component, Check: check, State: OK,
		Found: fmt.Sprintf(format, args...)})
}

func (l *list) missing(check, found, why, remedy string) {
	l.findings = append(l.findings, Finding{l.component, check, Missing, found, why, remedy})
}

func (l *list) note(check, found, why, remedy string) {
	l.findings = append(l.findings, Finding{l.component, check, Note, found, why, remedy})
}

// target is what the checks of one run share.
type target struct {
	*config.Config
	Options
	log *slog.Logger
}

// Run checks everything that the process needs, the components side by side. A component that does not answer within
// Timeout is a finding, and holds up no other one.
func Run(ctx context.Context, cfg config.Config, o Options) Report {
	if o.Peers < 1 {
		o.Peers = DefaultPeers
	}
	if o.Timeout <= 0 {
		o.Timeout = DefaultTimeout
	}
	t := &target{Config: &cfg, Options: o, log: slog.New(slog.DiscardHandler)}
	components := t.components()
	lists := make([]list, len(components))
	var all sync.WaitGroup
	for i, c := range components {
		all.Go(func() { lists[i] = runWithin(ctx, o.Timeout, c) })
	}
	all.Wait()
	r := Report{Process: o.Process}
	for _, l := range lists {
		r.Findings = append(r.Findings, l.findings...)
	}
	for _, f := range r.Findings {
		if f.State == Missing {
			r.Missing++
		}
	}
	return r
}

// CheckSettings returns a finding for each setting that the process needs and that is missing. It opens nothing.
func CheckSettings(cfg config.Config, p Process) (out []Finding) {
	l := list{component: "Settings"}
	(&target{Config: &cfg, Options: Options{Process: p}}).settings(context.Background(), &l)
	return slices.DeleteFunc(l.findings, func(f Finding) bool { return f.State != Missing })
}

// runWithin runs the checks of a component. Drivers that ignore the end of their context are left behind.
func runWithin(ctx context.Context, limit time.Duration, c component) list {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	done := make(chan list, 1)
	go func() {
		l := list{component: c.name}
		c.check(ctx, &l)
		done <- l
	}()
	const grace = 2 * time.Second // for the finding that names the call which did not answer
	select {
	case l := <-done:
		return l
	case <-time.After(limit + grace):
		l := list{component: c.name}
		l.missing("reachable", "no answer within "+plan.DurationWords(limit), "the process needs it",
			"check its address in the settings, and that this machine reaches it; --timeout waits longer")
		return l
	}
}

// components returns what the process needs, in the order of the report.
func (t *target) components() []component {
	out := []component{{"Settings", t.settings}, {"Files", t.files}}
	if t.Process == Migrate {
		return append(out, component{"PostgreSQL", t.postgres})
	}
	if t.Process != DataWorker {
		out = append(out, component{"PostgreSQL", t.postgres}, component{"Redis", t.redis}, component{"Bucket", t.buckets})
	}
	out = append(out, component{"Temporal", t.temporal})
	if t.Process == DataWorker {
		out = append(out, component{"Journal", t.journal}, component{"Secrets", t.secrets}, component{"Sandbox", t.sandbox})
	}
	return append(out, component{"Ports", t.ports})
}

// settings names each setting that the process needs and does not have.
func (t *target) settings(_ context.Context, l *list) {
	need := func(value, name string) {
		if value == "" {
			l.missing(name, "the setting "+name+" is missing", "the process does not start without it",
				"set "+name+" in the settings file, or "+config.VariableOf(name))
		}
	}
	if t.Process != DataWorker {
		need(t.Store, "store")
	}
	if t.Process == Server || t.Process == ControlWorker {
		need(t.Redis, "redis")
	}
	if t.Process != Migrate {
		need(t.Temporal, "temporal")
	}
	if t.Process == DataWorker {
		need(t.Server, "server")
		need(string(t.WorkerToken)+t.WorkerTokenFile, "worker-token-file")
	}
	if t.Process == ControlWorker || t.Process == DataWorker {
		need(strings.Join(t.Queues, ","), "queues")
	}
	if t.Process == ControlWorker || t.Process == Server && slices.ContainsFunc(t.Duties, config.NeedsTicketKeys) {
		if err := t.RequireTicketKeys(); err != nil {
			l.missing("ticket-keys", "the setting ticket-keys is missing", "without it no run and no step can begin",
				"set ticket-keys to k1:SECRET, the same on every server and control worker; make a secret with "+
					"`openssl rand -base64 32`")
		}
	}
	if t.Process == Server {
		if err := t.VerifyForServer(); err != nil {
			// the error says what to set
			l.missing("access", err.Error(), "a server does not start without it", "")
		}
	}
	if len(l.findings) == 0 {
		l.ok("needed", "every setting that a %s needs is given", t.Process)
	}
}

// peerConnections is how many connections the installation opens at most.
func (t *target) peerConnections() int { return t.Peers * postgres.DefaultMaxConns }
