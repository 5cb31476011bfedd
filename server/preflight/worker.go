package preflight

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"syscall"

	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/secret/providers"
	"github.com/dvt-engine/dvt/server/config"
	"github.com/dvt-engine/dvt/server/connect"
)

// journal asks the server of a data worker whether it knows the token of the worker.
func (t *target) journal(ctx context.Context, l *list) {
	if t.Server == "" || string(t.WorkerToken)+t.WorkerTokenFile == "" {
		return // a finding of the settings
	}
	j, err := connect.Journal(t.Config, t.log)
	if err != nil {
		l.missing("files", err.Error(), "the process cannot connect without them", "correct the file that the finding names")
		return
	}
	switch err := j.Check(ctx); {
	case errors.Is(err, engine.ErrDenied):
		l.missing("token", "the server denies access: "+err.Error(), "the worker ends when it starts",
			"make a token for the queues of this worker, and write it into worker-token-file")
	case err != nil:
		l.missing("reachable", "the server does not answer: "+err.Error(), "the worker begins no step until it does",
			"check server and server-tls-…; a proxy in between must pass POST /engine/journal/…")
	default:
		l.ok("token", "the server answers and knows the token")
	}
}

// secrets asks each provider whether it can be used.
func (t *target) secrets(ctx context.Context, l *list) {
	r, err := providers.Open(t.Secrets, t.Dev, t.Data)
	if err != nil {
		l.missing("file", err.Error(), "steps read their secrets through it", "correct the file of the setting secrets")
		return
	}
	if len(r.Names()) == 0 {
		l.ok("providers", "no provider is set; steps that name secrets fail")
		return
	}
	results := r.Measure(ctx)
	for _, name := range slices.Sorted(maps.Keys(results)) {
		if err := results[name].Err; err != nil {
			l.missing(name, err.Error(), "steps that name its secrets fail",
				"check its address, its authentication and its rights; see \"Secrets of steps\" in docs/operations.md")
			continue
		}
		l.ok(name, "the provider answers")
	}
}

// sandbox opens the runtime of the sandbox once and says which parts the machine cannot enforce.
func (t *target) sandbox(_ context.Context, l *list) {
	if t.SandboxRuntime == config.RuntimeNone {
		l.note("runtime", "sandbox-runtime is none", "a program of a step has all rights of the worker",
			"set sandbox-runtime to process, docker or gvisor unless something else isolates the programs")
		return
	}
	normal, _, err := t.StepLimits()
	if err != nil {
		return // the settings were refused before
	}
	r, err := connect.Sandbox(t.Config, "preflight", normal)
	if err != nil {
		l.missing("runtime", fmt.Sprintf("the runtime %s cannot be opened: %v", t.SandboxRuntime, err),
			"the worker does not start", "see \"The sandbox of steps\" in docs/operations.md")
		return
	}
	defer r.Close()
	have := r.Capabilities()
	for _, part := range slices.Sorted(maps.Keys(have.Missing)) {
		found := fmt.Sprintf("this machine cannot enforce it: %s", have.Missing[part])
		remedy := "see \"The sandbox of steps\" in docs/operations.md for the remedy, or accept it with " +
			"sandbox-allow-missing: [" + string(part) + "]"
		if slices.Contains(config.RequiredParts, part) && !slices.Contains(t.SandboxAllowMissing, string(part)) {
			l.missing(string(part), found, "the worker does not start without it", remedy)
			continue
		}
		l.note(string(part), found, "programs of steps are isolated less", remedy)
	}
	l.ok("runtime", "%s enforces %s", have.Runtime, config.JoinWords(have.Parts))
}

// ports tries the addresses that the process listens on.
func (t *target) ports(ctx context.Context, l *list) {
	addresses := map[string]string{}
	if t.Process == Server {
		addresses["listen"] = t.Listen
	}
	if t.MetricsListen != "" {
		addresses["metrics-listen"] = t.MetricsListen
	}
	for _, setting := range slices.Sorted(maps.Keys(addresses)) {
		address := addresses[setting]
		ln, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
		switch {
		case errors.Is(err, syscall.EADDRINUSE):
			l.missing(setting, "the address "+address+" is taken", "the process does not start",
				"stop what listens there (`ss -ltnp` shows it), or choose another with --"+setting)
		case errors.Is(err, syscall.EACCES):
			l.missing(setting, "this user may not listen on "+address, "the process does not start",
				"choose a port above 1023 with --"+setting)
		case err != nil:
			l.missing(setting, fmt.Sprintf("cannot listen on %s: %v", address, err), "the process does not start",
				"choose an address of this machine with --"+setting)
		default:
			_ = ln.Close() // nothing was accepted
			l.ok(setting, "%s is free", address)
		}
	}
}
