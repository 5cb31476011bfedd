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

	"github.com/alicebob/miniredis/v2"
	"golang.org/x/sync/errgroup"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/engine/temporal"
	"github.com/dvt-engine/dvt/examples"
)

// Project and environment of the samples.
const (
	sampleProject     = "shop"
	sampleEnvironment = "dev"
	samplePrincipal   = "dev-engineer"
)

// RunDev is `dvt dev`: everything in one process beside a Temporal server that it
// supervises, on loopback, for a newcomer. It prints the ready line to out when
// the sample run can be watched, and returns after a clean shutdown when ctx ends.
func RunDev(ctx context.Context, cfg Config, log *slog.Logger, out io.Writer) error {
	if err := cfg.makeData(); err != nil {
		return err
	}
	unlock, err := lock(filepath.Join(cfg.Data, "lock"))
	if err != nil {
		return err
	}
	defer unlock()
	if err := cfg.makeManualKey(); err != nil {
		return err
	}
	if n := endSteps(cfg.Workspace); n > 0 {
		log.Warn("ended what steps of a killed dvt had left running", slog.Int("processes", n))
	}
	ln, err := listen(ctx, cfg.Listen)
	if err != nil {
		return err
	}
	defer ln.Close()
	cfg.Listen = ln.Addr().String()
	if cfg.Store == "" {
		cfg.Store = "sqlite:" + filepath.Join(cfg.Data, "dvt.db")
	}
	if cfg.Redis == "" {
		r := miniredis.NewMiniRedis()
		if err := r.Start(); err != nil {
			return fmt.Errorf("the embedded Redis cannot be started: %w", err)
		}
		defer r.Close()
		cfg.Redis = "redis://" + r.Addr() + "/0"
	}
	if cfg.ProjectRoot, err = sampleRoot(cfg); err != nil {
		return err
	}
	engineCtx, stopEngine := context.WithCancel(context.WithoutCancel(ctx))
	engineDone := make(chan struct{})
	defer func() { stopEngine(); <-engineDone }() // the engine ends after everything that uses it
	if cfg.Temporal == "" {
		t, err := newTemporalServer(ctx, cfg, log)
		if err != nil {
			close(engineDone)
			return err
		}
		cfg.Temporal = t.address()
		go func() { defer close(engineDone); _ = t.run(engineCtx) }()
		if err := t.ready(ctx); err != nil {
			return err
		}
	} else {
		close(engineDone)
	}
	p, err := assemble(ctx, cfg, authz.DevAccounts(), log)
	if err != nil {
		return err
	}
	defer p.close()
	notes := &notifications{}
	return p.serve(ctx, ln, p.routes(notes), func(work context.Context, g *errgroup.Group) {
		w := temporal.WorkerConfig{
			Namespace: cfg.TemporalNamespace, Control: []string{cfg.ControlQueue}, Data: []string{cfg.DataQueue},
			ControlConcurrency: 50, DataConcurrency: cfg.Concurrency, StopTimeout: 8 * time.Second,
			Metrics: p.registry,
		}
		g.Go(func() error { return temporal.Run(work, p.temporal, w, p.journal, newRunner(p.cfg, p.journal, p.log)) })
		g.Go(func() error { return p.greet(ctx, out) })
	})
}

// greet submits the sample run and says that dvt is ready.
func (p *parts) greet(ctx context.Context, out io.Writer) error {
	if !p.cfg.NoSample {
		doc, err := p.sample(examples.Shop)
		if err != nil {
			return err
		}
		_, err = p.control.StartRun(ctx, p.devPrincipal(samplePrincipal), control.StartRun{
			RequestID: fmt.Sprintf("sample-%d", time.Now().UnixNano()), ProjectID: sampleProject, EnvironmentID: sampleEnvironment, Inline: doc,
		})
		if err != nil {
			return fmt.Errorf("the sample run was not started: %w", err)
		}
	}
	_, err := fmt.Fprintf(out, "dvt is ready: http://%s\n", p.cfg.Listen)
	return err
}

// sample renders a plan of examples for this server.
func (p *parts) sample(name string) ([]byte, error) {
	data := filepath.Join(p.cfg.Data, "sample")
	if err := os.MkdirAll(data, 0o700); err != nil {
		return nil, err
	}
	return examples.Plan(name, examples.Values{Listen: p.cfg.Listen, Data: data})
}

func (p *parts) devPrincipal(id string) authz.Principal {
	principal, _ := p.directory.Authenticate(id) // the token of a dev principal is its name
	return principal
}

// sampleRoot is where the sample's relative directories resolve: the checkout, or
// a copy of the examples when dvt runs elsewhere.
func sampleRoot(cfg Config) (string, error) {
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

// lock keeps a second dvt off the same data. The lock ends with the process.
func lock(path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = f.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("another dvt already runs on %s: stop it, or choose another directory with --data", filepath.Dir(path))
		}
		return nil, err
	}
	return func() { _ = f.Close() }, nil
}
