package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dvt-engine/dvt/server/config"
	"github.com/dvt-engine/dvt/server/connect"
	"github.com/dvt-engine/dvt/server/internal/machine"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/engine/executor"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/sandbox"
)

const (
	// verifyEvery is the time between two verifications of the sandbox of a worker.
	verifyEvery = 10 * time.Minute
	// verifyAgain is the delay before a verification is repeated after a failure.
	verifyAgain = time.Minute
	// maxViolationTenants limits the tenants that appear in worker_isolation_violations_total. The others share one
	// label.
	maxViolationTenants = 1000
	otherTenants        = "other"
)

// isolation is the sandbox for the steps of this process, with the result of its last verification. countViolation and
// workerReport are safe for concurrent use; verify is not.
type isolation struct {
	cfg     *config.Config
	log     *slog.Logger
	worker  string
	runtime sandbox.Runtime
	open    func(name string) (sandbox.Runtime, error)
	own     *ownAddresses
	normal  sandbox.Limits // defaults of a step
	most    sandbox.Limits

	violations *prometheus.CounterVec
	mu         sync.Mutex
	tenants    map[string]bool // tenants with a label in violations

	last atomic.Pointer[engine.WorkerReport]
}

// openIsolation opens the sandbox of a process that runs steps. It returns an error when the machine cannot enforce a
// required part that sandbox-allow-missing does not name; in `dvt dev` it only warns.
func openIsolation(c *config.Config, log *slog.Logger, registry prometheus.Registerer) (*isolation, error) {
	normal, most, err := c.StepLimits()
	if err != nil {
		return nil, err
	}
	host, _ := os.Hostname()
	i := &isolation{
		cfg: c, log: log, worker: fmt.Sprintf("%s/%d", host, os.Getpid()), normal: normal, most: most,
		open: func(name string) (sandbox.Runtime, error) { return connect.Sandbox(c, name, normal) },
		own:  newOwnAddresses(c, log), tenants: map[string]bool{},
		violations: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "worker_isolation_violations_total", Help: "Actions of steps that the sandbox refused.",
		}, []string{"worker", "tenant"}),
	}
	i.runtime, err = i.open(host)
	switch {
	case err != nil && !c.Dev:
		return nil, fmt.Errorf("sandbox-runtime %s: %w", c.SandboxRuntime, err)
	case err != nil:
		log.Warn("steps run without a sandbox, because its runtime cannot be opened", slog.String("runtime", c.SandboxRuntime), slog.Any("error", err))
		i.runtime, i.open = executor.Plain(), func(string) (sandbox.Runtime, error) { return executor.Plain(), nil }
	}
	err = errors.Join(judgeCapabilities(c, i.runtime.Capabilities(), log), registry.Register(i.violations),
		registry.Register(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "worker_memory_pressure_ratio", ConstLabels: prometheus.Labels{"worker": host},
			Help: "Memory in use by the worker and its steps, as a share of what its control group or, without a limit " +
				"there, the machine has.",
		}, machine.MemoryPressure)))
	if err != nil {
		return nil, errors.Join(err, i.runtime.Close())
	}
	i.record(i.runtime.Capabilities(), nil)
	return i, nil
}

// judgeCapabilities returns an error when the machine cannot enforce a required part, and warns of other missing parts.
func judgeCapabilities(c *config.Config, have sandbox.Capabilities, log *slog.Logger) error {
	if c.SandboxRuntime == config.RuntimeNone {
		log.Warn("steps run without a sandbox, because sandbox-runtime is none: a program of a step has all rights of " +
			"this worker, reads its files and reaches its connections; set another sandbox-runtime unless something else " +
			"isolates the programs")
		return nil
	}
	var refused []string
	for _, part := range slices.Sorted(maps.Keys(have.Missing)) {
		required := slices.Contains(config.RequiredParts, part)
		allowed := slices.Contains(c.SandboxAllowMissing, string(part))
		if required && !allowed && !c.Dev {
			refused = append(refused, fmt.Sprintf("%s (%s)", part, have.Missing[part]))
			continue
		}
		log.Warn("the sandbox of steps lacks a part", slog.String("part", string(part)),
			slog.String("reason", have.Missing[part]))
	}
	if len(refused) == 0 {
		return nil
	}
	return fmt.Errorf("this machine cannot enforce parts of the sandbox of steps: %s. See \"The sandbox of steps\" in "+
		"docs/operations.md for the remedies, or accept it by name with sandbox-allow-missing", strings.Join(refused, "; "))
}

// configure adds the settings of the sandbox to those of executors.
func (i *isolation) configure(x *executor.Config) {
	x.Sandbox, x.Limits, x.MaxLimits = i.runtime, i.normal, i.most
	x.AllowedRoots = append(x.AllowedRoots, i.cfg.SandboxRoots...)
	x.Read, x.Write = i.cfg.SandboxRead, slices.Clone(i.cfg.SandboxWrite)
	x.Hidden = i.cfg.HiddenFiles()
	x.Own, x.Violation = i.own.contains, i.countViolation
	if i.cfg.Dev {
		x.Write = append(x.Write, sampleData(i.cfg))
	}
}

// countViolation counts and logs an action that the sandbox refused. The log of the step also contains it.
func (i *isolation) countViolation(v executor.Violation) {
	i.violations.WithLabelValues(i.host(), i.tenantLabel(v.TenantID)).Inc()
	i.log.Warn("the sandbox refused an action of a step", slog.String("tenantId", v.TenantID),
		slog.String("runId", v.RunID),
		slog.String("stepId", v.StepID), slog.String("part", string(v.Part)), slog.String("action", v.Action))
}

func (i *isolation) host() string {
	host, _, _ := strings.Cut(i.worker, "/")
	return host
}

func (i *isolation) tenantLabel(tenant string) string {
	i.mu.Lock()
	defer i.mu.Unlock()
	if !i.tenants[tenant] && len(i.tenants) >= maxViolationTenants {
		return otherTenants
	}
	i.tenants[tenant] = true
	return tenant
}

// verify opens the runtime a second time and compares its capabilities with those of the runtime in use.
func (i *isolation) verify() error {
	err := i.compare()
	i.record(i.runtime.Capabilities(), err)
	return err
}

func (i *isolation) compare() error {
	again, err := i.open(i.host() + connect.VerifierSuffix)
	if err != nil {
		return fmt.Errorf("the runtime of the sandbox cannot be opened again: %w", err)
	}
	before, now := i.runtime.Capabilities(), again.Capabilities()
	if err := again.Close(); err != nil {
		return fmt.Errorf("the runtime of the sandbox: %w", err)
	}
	if before.Digest != now.Digest {
		return fmt.Errorf("the program of the sandbox was replaced: its SHA-256 is %s, it was %s; restart the worker if you "+
			"replaced it", now.Digest, before.Digest)
	}
	var lost []string
	for _, part := range before.Parts {
		if !now.Has(part) {
			lost = append(lost, fmt.Sprintf("%s (%s)", part, now.Missing[part]))
		}
	}
	if len(lost) > 0 {
		return fmt.Errorf("the sandbox lost parts since the worker started: %s", strings.Join(lost, "; "))
	}
	return nil
}

func (i *isolation) record(c sandbox.Capabilities, err error) {
	e := &engine.WorkerReport{
		Worker: i.worker, Runtime: c.Runtime, Digest: c.Digest, Parts: c.Parts, Missing: c.Missing,
		Limits: plan.SandboxLimits(i.normal),
		UID:    os.Getuid(), OK: err == nil, At: clock(i.cfg).UTC(),
	}
	if err != nil {
		e.Problem = err.Error()
	}
	i.last.Store(e)
	facts := []any{
		slog.String("event", "WorkerIsolationEvent"), slog.String("worker", e.Worker), slog.String("runtime", e.Runtime),
		slog.String("digest", e.Digest), slog.Int("uid", e.UID),
		slog.String("parts", config.JoinWords(e.Parts)), slog.Bool("ok", e.OK), slog.Time("at", e.At),
	}
	if err != nil {
		i.log.Warn("the sandbox of steps failed its verification", append(facts, slog.String("problem", e.Problem))...)
		return
	}
	i.log.Info("the sandbox of steps was verified", facts...)
}

// workerReport returns the result of the last verification (WorkerIsolationEvent). The Journal writes it to the audit
// logs of the tenants that the worker serves.
func (i *isolation) workerReport() engine.WorkerReport { return *i.last.Load() }

// whileIsolated runs work, the service of data queues, while the sandbox passes its verification. It cancels work after
// a failed verification and starts it again after a successful one. In `dvt dev` a failure is only logged. It returns
// the error of work, or nil when ctx ends.
func (i *isolation) whileIsolated(ctx context.Context, work func(context.Context) error) error {
	for {
		working, stop := context.WithCancel(ctx)
		done := make(chan error, 1)
		go func() { done <- work(working) }()
		failed, err := i.watch(working, done)
		stop()
		if !failed {
			return err
		}
		if err := <-done; err != nil {
			return err
		}
		for failed {
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(verifyAgain):
			}
			failed = i.verify() != nil
		}
		i.log.Info("the sandbox of steps passed its verification again: this worker serves its data queues")
	}
}

// watch returns when work has ended, with its error, or with failed when a verification failed.
func (i *isolation) watch(ctx context.Context, done <-chan error) (failed bool, err error) {
	tick := time.NewTicker(verifyEvery)
	defer tick.Stop()
	for {
		select {
		case err := <-done:
			return false, err
		case <-tick.C:
		}
		err := i.verify()
		switch {
		case err == nil:
		case i.cfg.Dev:
			i.log.ErrorContext(ctx, "the sandbox of steps cannot be verified", slog.Any("error", err))
		default:
			i.log.ErrorContext(ctx, "the sandbox of steps cannot be verified: this worker serves no data queue until it can",
				slog.Any("error", err))
			return true, nil
		}
	}
}

func (i *isolation) close() {
	if err := i.runtime.Close(); err != nil {
		i.log.Warn("the sandbox of steps could not be closed; the next start removes its leftovers", slog.Any("error", err))
	}
}

func clock(c *config.Config) time.Time {
	if c.Now != nil {
		return c.Now()
	}
	return time.Now()
}

// sampleData returns the directory in which the samples of `dvt dev` keep databases.
func sampleData(c *config.Config) string { return filepath.Join(c.Data, "sample") }

// closeWorkspaces creates the directory of workspaces, and makes it and every workspace in it private to the worker's
// user. Earlier versions or people may have created them with wider permissions.
func closeWorkspaces(root string) error {
	if err := os.MkdirAll(root, 0o700); err != nil {
		return fmt.Errorf("the directory %s cannot be created: choose another with --workspace: %w", root, errors.Unwrap(err))
	}
	entries, err := os.ReadDir(root)
	if err != nil {
		return fmt.Errorf("workspace: %w", err)
	}
	dirs := []string{root}
	for _, e := range entries {
		if e.IsDir() { // symbolic links are skipped
			dirs = append(dirs, filepath.Join(root, e.Name()))
		}
	}
	for _, dir := range dirs {
		info, err := os.Lstat(dir)
		if err != nil || info.Mode().Perm()&0o077 == 0 {
			continue
		}
		if err := os.Chmod(dir, 0o700); err != nil {
			return fmt.Errorf("the workspace %s is open to other users and cannot be closed: give it to the worker's user, or "+
				"delete it: %w", dir, errors.Unwrap(err))
		}
	}
	return nil
}
