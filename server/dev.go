package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/dvt-engine/dvt/server/config"
	"github.com/dvt-engine/dvt/server/internal/machine"

	"golang.org/x/sync/errgroup"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control/runs"
	"github.com/dvt-engine/dvt/engine/executor"
	"github.com/dvt-engine/dvt/engine/temporal"
	"github.com/dvt-engine/dvt/examples"
)

// Project and environment of the sample run, and the principal that starts it.
const (
	sampleProject     = "shop"
	sampleEnvironment = "dev"
	samplePrincipal   = "dev-engineer"
)

// RunDev is `dvt dev`. It runs all parts in one process, supervises a Temporal server unless the settings name one, and
// listens on loopback only. It prints the ready line to out when the sample run can be watched, and returns after a
// clean shutdown when ctx ends.
func RunDev(ctx context.Context, cfg config.Config, log *slog.Logger, out io.Writer) error {
	worker, err := workerConfig(&cfg)
	if err != nil {
		return err
	}
	if err := cfg.MakeData(); err != nil {
		return err
	}
	if err := closeToOthers(cfg.Data); err != nil {
		return err
	}
	unlock, err := lock(filepath.Join(cfg.Data, lockFile))
	if err != nil {
		return err
	}
	defer unlock()
	access, err := openDevAccess(cfg.Data)
	if err != nil {
		return err
	}
	if err := cfg.MakeKeys(); err != nil {
		return err
	}
	if err := closeWorkspaces(cfg.Workspace); err != nil {
		return err
	}
	if n := machine.EndSteps(cfg.Workspace); n > 0 {
		log.Warn("killed processes that steps of an earlier dvt had left running", slog.Int("processes", n))
	}
	ln, err := listen(ctx, cfg.Listen, "listen")
	if err != nil {
		return err
	}
	defer ln.Close()
	cfg.Listen = ln.Addr().String()
	access.Address = cfg.Listen
	if err := access.write(); err != nil {
		return err
	}
	if cfg.Store == "" {
		cfg.Store = "sqlite:" + filepath.Join(cfg.Data, "dvt.db")
	}
	if cfg.Redis == "" {
		bus := newEmbeddedRedis()
		defer bus.close()
		cfg.DialRedis = bus.dial
	}
	if cfg.ProjectRoot, err = sampleRoot(cfg); err != nil {
		return err
	}
	engineCtx, stopEngine := context.WithCancel(context.WithoutCancel(ctx))
	engineDone := make(chan struct{})
	supervised := cfg.Temporal == ""
	defer func() { stopEngine(); <-engineDone }() // the engine ends after everything that uses it
	if supervised {
		t, err := newTemporalServer(ctx, cfg, log)
		if err != nil {
			close(engineDone)
			return err
		}
		cfg.Temporal, cfg.DialTemporal, cfg.EngineTrouble = t.address(), t.dialer(), t.health.trouble
		warnOfOpenPorts(&cfg, log)
		go func() { defer close(engineDone); t.run(engineCtx) }()
		if err := t.ready(ctx); err != nil {
			return err
		}
	} else {
		close(engineDone)
	}
	p, err := assemble(ctx, cfg, append(authz.DevAccounts(func(name string) string { return access.Tokens[name] }),
		authz.RecoveryAccount("acme")), log)
	if err != nil {
		return err
	}
	defer p.close()
	p.dev = newDevDoor(access, p.cfg.Now)
	box, err := openIsolation(&p.cfg, log, p.registry)
	if err != nil {
		return err
	}
	defer box.close()
	p.executions = executor.NewMeter(p.registry)
	secrets, err := openSecrets(p.cfg, p.registry, p.log)
	if err != nil {
		return err
	}
	runner, err := newRunner(ctx, p.cfg, p.journal, []string{cfg.DataQueue}, box, p.executions, secrets, p.registry, p.log)
	if err != nil {
		return err
	}
	return p.serve(ctx, ln, p.routes(), func(work context.Context, g *errgroup.Group) {
		w := worker
		w.Control, w.Data, w.StopTimeout = []string{cfg.ControlQueue}, []string{cfg.DataQueue}, 8*time.Second
		w.Executions = temporal.NewExecutions()
		w.Metrics, w.Tickets, w.ControlSteps = p.registry, p.tickets, p.controlSteps([]string{p.cfg.ControlQueue})
		client, served := p.temporal.Workers(&p.cfg, w)
		run := func() error {
			return box.whileIsolated(
				work, func(ctx context.Context) error { return temporal.Run(ctx, client, served, p.journal, runner) })
		}
		g.Go(func() error {
			return newWorkerReports(p.journal, cfg.Version, w, box, secrets, runner.Workspaces, log).run(work)
		})
		g.Go(func() error {
			if !supervised {
				return run()
			}
			return keepWorking(work, run, log)
		})
		g.Go(func() error { return p.greet(ctx, out) })
	})
}

// keepWorking runs a worker again when it ends before ctx does. The SDK ends a worker whose namespace has not been
// found for two minutes. The supervisor restores the namespace, and dvt keeps serving reads meanwhile.
func keepWorking(ctx context.Context, run func() error, log *slog.Logger) error {
	for {
		err := run()
		if ctx.Err() != nil {
			return err
		}
		log.Warn("the worker of dvt dev ended; it starts again in 5 seconds", slog.Any("error", err))
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(5 * time.Second):
		}
	}
}

// greet submits the sample run and prints the ready line with a link that signs in.
func (p *parts) greet(ctx context.Context, out io.Writer) error {
	if !p.cfg.NoSample {
		doc, err := p.sample(examples.Shop)
		if err != nil {
			return err
		}
		who, err := p.devPrincipal(samplePrincipal)
		if err != nil {
			return err
		}
		_, err = p.control.StartRun(ctx, who, runs.StartRun{
			RequestID: fmt.Sprintf("sample-%d", time.Now().UnixNano()), ProjectID: sampleProject,
			EnvironmentID: sampleEnvironment, Inline: doc,
		})
		if err != nil {
			return fmt.Errorf("the sample run was not started: %w", err)
		}
	}
	_, err := fmt.Fprintf(out, "dvt is ready: %s\n", p.signInLink(samplePrincipal))
	return err
}

// sample renders an example plan for this server.
func (p *parts) sample(name string) ([]byte, error) {
	data := sampleData(&p.cfg)
	if err := os.MkdirAll(data, 0o700); err != nil {
		return nil, err
	}
	return examples.Plan(name, examples.Values{NotifyURL: p.dev.access.NotifyURL(), Data: data})
}

// sampleRoot returns the directory from which relative directories of the sample resolve. It is the project root when
// that contains the examples. Otherwise it is a copy of the examples in the data directory.
func sampleRoot(cfg config.Config) (string, error) {
	if _, err := os.Stat(filepath.Join(cfg.ProjectRoot, "examples", "shop", "dbt_project.yml")); err == nil {
		return cfg.ProjectRoot, nil
	}
	root := filepath.Join(cfg.Data, "project")
	err := fs.WalkDir(examples.FS, ".", func(path string, d fs.DirEntry, err error) error {
		to := filepath.Join(root, "examples", path)
		if err != nil {
			return err
		}
		if d.IsDir() {
			return os.MkdirAll(to, 0o700)
		}
		b, err := examples.FS.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(to, b, 0o600)
	})
	return root, err
}

// lockFile is the file that the process using a data directory locks, so that no second process uses the same data.
const lockFile = "lock"

// errLocked means that another process uses the data directory.
var errLocked = errors.New("another dvt already runs")

// lock locks a data directory for this process. The kernel releases the lock when the process ends.
func lock(path string) (unlock func(), err error) {
	for range 5 { // DevAccess.Running of a command holds the lock for a moment
		if unlock, err = flock(path, syscall.LOCK_EX); !errors.Is(err, errLocked) {
			return unlock, err
		}
		time.Sleep(20 * time.Millisecond)
	}
	return nil, fmt.Errorf("%w on %s: stop it, or choose another directory with --data", err, filepath.Dir(path))
}

// flock takes a kernel lock, LOCK_EX or LOCK_SH, without waiting. It returns errLocked when another process holds it.
func flock(path string, how int) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), how|syscall.LOCK_NB); err != nil {
		_ = f.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, errLocked
		}
		return nil, err
	}
	return func() { _ = f.Close() }, nil
}
