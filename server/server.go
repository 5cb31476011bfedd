// Package server is the composition root. It chooses adapters by the settings, wires the parts, serves HTTP, supervises
// the processes of `dvt dev`, and shuts down in order. It is the only package that knows all others.
package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/dvt-engine/dvt/server/config"
	"github.com/dvt-engine/dvt/server/connect"
	"github.com/dvt-engine/dvt/server/internal/storeclock"
	"github.com/dvt-engine/dvt/server/temporaladmin"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/dvt-engine/dvt/artifact"
	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/authz/oidc"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/control/access"
	"github.com/dvt-engine/dvt/control/admission"
	"github.com/dvt-engine/dvt/control/duty"
	"github.com/dvt-engine/dvt/control/erasing"
	"github.com/dvt-engine/dvt/control/health"
	"github.com/dvt-engine/dvt/control/journal"
	"github.com/dvt-engine/dvt/control/retention"
	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/engine/executor"
	"github.com/dvt-engine/dvt/engine/temporal"
	"github.com/dvt-engine/dvt/engine/ticket"
	"github.com/dvt-engine/dvt/graph"
	"github.com/dvt-engine/dvt/internal/contain"
	"github.com/dvt-engine/dvt/live"
	"github.com/dvt-engine/dvt/live/redisbus"
	"github.com/dvt-engine/dvt/otlp"
	"github.com/dvt-engine/dvt/otlp/spans"
	"github.com/dvt-engine/dvt/projector"
	"github.com/dvt-engine/dvt/server/usecases"
	"github.com/dvt-engine/dvt/store"
	"github.com/dvt-engine/dvt/store/coalesce"
	"github.com/dvt-engine/dvt/store/decorate"
	"github.com/dvt-engine/dvt/store/postgres"
	"github.com/dvt-engine/dvt/store/sqlite"
	"github.com/dvt-engine/dvt/store/subject"
	"github.com/dvt-engine/dvt/storeadmin/archive"
)

// drainTime is how long open requests and streams may take to end during a shutdown.
const drainTime = 5 * time.Second

// Time limits for reading a request and for answering it, so that a peer that stops sending or reading cannot hold a
// connection for ever. A plan of 10 MiB takes readTime at 300 kbit/s. WebSockets and event streams stay open longer and
// have their own deadlines.
const (
	readTime  = 5 * time.Minute
	writeTime = readTime + time.Minute
)

// parts are the wired parts of one process. assemble creates them.
type parts struct {
	cfg        config.Config
	log        *slog.Logger
	opened     store.Store // as it was opened
	raw        store.Store // opened, with the archive of old runs
	store      store.Store // raw, with hooks: a commit wakes the projector, and the end of a run notifies starters
	bus        *redisbus.Bus
	artifacts  *artifact.Store
	temporal   *connect.Engine
	namespaces *temporaladmin.DriftWatch
	payloads   *temporal.Payloads // nil: Temporal stores payloads unencrypted
	engine     engine.Engine
	directory  *authz.Directory
	authz      *authz.Authorizer
	throttle   *authz.Throttle
	providers  *oidc.Providers
	address    func(*http.Request) string // returns the client address of a request
	projector  *projector.Projector
	gate       *projector.PublishGate
	hub        *live.Hub
	lists      *live.Lists
	control    *usecases.UseCases
	journal    *journal.Journal
	tickets    ticket.Keys
	graph      *graph.Handler // nil without the api duty
	callers    *graph.Callers
	dev        *devDoor // nil except in `dvt dev`
	owner      string   // of leases: HOST/PID
	site       *site
	registry   *prometheus.Registry
	clock      *storeclock.Clock
	now        func() time.Time  // the time of the store
	executions *executor.Meter   // of the workers in this process; nil in a server without one
	auditHeads *artifact.Archive // nil when no heads are written
	subjects   *subject.Keyring  // seals names in the audit; nil when the settings have no keys
	// stopSubjects ends the check for destroyed keys; nil without keys.
	stopSubjects func()
	spans        *otlp.Client  // nil when the environment names no receiver of traces
	requests     *spans.Tracer // of requests and calls; nil as spans
	// authFailed counts a failed authentication by its kind.
	authFailed func(kind string)

	metricsHandler http.Handler // serves registry; set by routes
	stopping       atomic.Bool  // the server was asked to stop, so proxies must send it no further requests
}

// assemble opens the store, the bus, the artifacts and the connection to Temporal that cfg names, and wires the parts.
// The caller closes the result with close. After an error assemble has already closed it.
func assemble(
	ctx context.Context, cfg config.Config, accounts []authz.Account, log *slog.Logger,
) (p *parts, err error) {
	host, _ := os.Hostname()
	p = &parts{cfg: cfg, log: log, owner: fmt.Sprintf("%s/%d", host, os.Getpid()), registry: prometheus.NewRegistry()}
	p.authFailed = newAuthFailures(p.registry)
	defer func() {
		if err != nil {
			p.close()
		}
	}()
	if p.cfg.Now == nil {
		p.cfg.Now = time.Now
	}
	if err := p.openTraces(ctx); err != nil {
		return p, err
	}
	if p.opened = cfg.Parts.Store; p.opened == nil {
		if p.opened, err = openStore(ctx, cfg, log); err != nil {
			return p, err
		}
	}
	if p.site, err = openSite(ctx, p.opened, cfg.Standby, log); err != nil {
		return p, err
	}
	if err := p.openClock(ctx); err != nil {
		return p, err
	}
	now := p.now
	if p.subjects, err = openSubjects(&cfg); err != nil {
		return p, err
	}
	if p.subjects != nil {
		if p.stopSubjects, err = forgetSubjects(ctx, p.subjects, p.opened, log); err != nil {
			return p, err
		}
	}
	if err := p.checkErasures(ctx); err != nil {
		return p, err
	}
	if p.bus, err = openBus(&cfg, log); err != nil {
		return p, err
	}
	if p.artifacts, err = artifact.Open(ctx, cfg.Artifacts); err != nil {
		return p, err
	}
	p.raw = archive.Reading(p.opened, p.artifacts, func(ctx context.Context, runID string, err error) {
		log.ErrorContext(ctx, "the archived log of a run is missing or damaged, so consumers that are late do not get its "+
			"events: restore the object in the bucket", slog.String("runId", runID), slog.Any("error", err))
	})
	if subjects := p.subjects; subjects != nil {
		p.raw = decorate.ResolveSeals(p.raw, func(ctx context.Context, tenantID, runID string, seal store.LogSeal) (
			store.LogSeal, error) {
			return subjects.Resolve(ctx, p.opened, tenantID, runID, seal)
		})
	}
	to, err := connect.Temporal(&cfg, log, false)
	if err != nil {
		return p, err
	}
	if p.requests != nil {
		to.Trace = p.requests.Engine
	}
	p.payloads = to.Payloads
	if p.namespaces, err = temporaladmin.NewDriftWatch(&p.cfg, to, p.registry, log); err != nil {
		return p, err
	}
	if p.directory, err = authz.NewDirectory(accounts, now); err != nil {
		return p, err
	}
	if p.authz, err = authz.New(authz.DefaultPolicy(), p.directory); err != nil {
		return p, err
	}
	p.throttle = authz.NewThrottle(time.Now)
	p.providers = newProviders(p.cfg, log)
	for _, i := range cfg.Issuers {
		p.directory.Trust(authz.Provider{Name: i.Name, TenantID: i.Tenant})
	}
	proxies, err := cfg.Proxies()
	if err != nil {
		return p, err
	}
	p.address = clientAddress(proxies)
	p.gate = projector.NewPublishGate(p.bus)
	p.projector = projector.New(p.raw, p.gate.Publisher(), projector.Config{MaxRefusals: cfg.PublishTries,
		Metrics: p.registry, Logger: log,
		OnAlert: p.raiseProjectorAlert, OnSweep: func() { p.control.Mark(control.DutyProject) }})
	listed := decorate.WithApprovals(p.raw)
	p.store = decorate.NotifyRunEnd(decorate.WakeOnCommit(listed, p.projector), admission.SlotNotifier(p.bus))
	if p.subjects != nil {
		p.store = decorate.SealAudit(p.store, p.subjects)
	}
	p.store = p.traceStore(p.store)
	p.hub = live.New(p.raw, p.gate.Readers(), live.Config{Now: now, HeadInterval: cfg.HeadCheck,
		OnGap: p.projector.CountGap, Metrics: p.registry, Logger: log})
	p.lists = live.NewLists(listed, p.gate.Readers(), live.ListsConfig{Metrics: p.registry, Logger: log})
	if p.tickets, err = cfg.ParseTicketKeys(); err != nil {
		return p, err
	}
	if p.temporal, err = connect.OpenEngine(&cfg, to, temporal.Config{
		HeartbeatTimeout: cfg.Heartbeat, RotateAfter: cfg.RotateAfter, Tickets: p.tickets, Payloads: to.Payloads, Log: log,
		Now: now,
	}, log); err != nil {
		return p, err
	}
	p.engine = p.temporal
	queues := cfg.PlanQueues()
	leases := admission.Leases{TTL: cfg.Lease}
	keys, err := cfg.ParseManualKeys()
	if err != nil {
		return p, err
	}
	guard, err := newGuard(&cfg, cfg.Dev, log)
	if err != nil {
		return p, err
	}
	heads, err := p.openAuditHeads(ctx)
	if err != nil {
		return p, err
	}
	if heads.Key != nil {
		p.cfg.Retention.Cuts = &retention.CutSigner{Key: heads.Key, Installation: heads.Installation}
	}
	p.control = usecases.New(usecases.Config{
		AuditHeads: heads, AuditRows: p.subjects,
		Store: p.store, Engine: p.engine, Hub: p.hub, Lists: p.lists, Bus: p.bus, Authz: p.authz, Logs: p.artifacts,
		Blobs: p.artifacts, Queues: queues, Leases: leases, Policy: cfg.Policy(),
		RightsCheckInterval: cfg.PolicyRecheck,
		Metrics:             p.registry, Logger: log,
		Standby:         p.site.healthMessage(),
		OperatorsTenant: cfg.OperatorsTenant, ApprovalTTL: cfg.ApprovalTTL, PublishGate: p.gate, Quotas: cfg.Quotas,
		Redriver: p.projector, ManualKeys: keys, Seals: p.tickets, Now: now,
		EngineTrouble: cfg.EngineTrouble,
		Meter:         health.MeterSettings{Every: cfg.HealthInterval, Server: p.owner, ReadCounters: p.liveCounts},
		Reconcile: duty.ReconcileSettings{NoWorkerAfter: cfg.NoWorkerAfter, StopWithin: cfg.StopWithin,
			PauseDrain: cfg.PauseDrain, Heartbeat: cfg.Heartbeat},
		Recovery:  admission.RecoveryMode(strings.ToUpper(cfg.Recovery)),
		Retention: p.cfg.Retention,
		Erasing:   erasing.Installation{Bucket: p.artifacts, Missing: missingForErasures(&cfg)},
		Sessions:  access.Sessions{Life: cfg.SessionLife, Idle: cfg.SessionIdle},
	})
	p.journal = journal.New(journal.Config{
		Store: journal.On(p.store), Logs: p.artifacts, Blobs: p.artifacts, Queues: queues, MaxSteps: p.control.MaxSteps(),
		Heavy: p.control.HeavyBucket, Expiry: p.control.Expiries.OfWritten, Ended: p.control.StepEnds.Note,
		Sandbox: p.authz.Sandbox, OperatorsTenant: cfg.OperatorsTenant, Traceparent: p.traceparent(),
		Fetch: journal.NewFetcher(cfg.PlanRoots, guard).SetBuckets(cfg.PlanBuckets), Tickets: p.tickets, Now: now,
		WriteBudget: cfg.WriteBudget, Alerts: p.control.Alerts, Metrics: p.registry, Logger: log,
	})
	return p, nil
}

func (p *parts) close() {
	p.temporal.Close()
	var errs []error
	if p.bus != nil {
		errs = append(errs, p.bus.Close())
	}
	if p.artifacts != nil {
		errs = append(errs, p.artifacts.Close())
	}
	if p.auditHeads != nil {
		errs = append(errs, p.auditHeads.Close())
	}
	if p.spans != nil {
		errs = append(errs, p.requests.Close(context.Background()), p.spans.Close(context.Background()))
	}
	if p.stopSubjects != nil {
		p.stopSubjects()
	}
	if p.opened != nil {
		errs = append(errs, p.opened.Close())
	}
	if err := errors.Join(errs...); err != nil {
		p.log.Warn("some connections or files could not be closed during the shutdown", slog.Any("error", err))
	}
}

func openBus(c *config.Config, log *slog.Logger) (*redisbus.Bus, error) {
	to, err := connect.Redis(c, log)
	if err != nil {
		return nil, err
	}
	return redisbus.Open(to)
}

func openStore(ctx context.Context, cfg config.Config, log *slog.Logger) (store.Store, error) {
	if path, ok := strings.CutPrefix(cfg.Store, "sqlite:"); ok {
		s, err := sqlite.Open(ctx, path, sqlite.Options{Logger: log})
		if err != nil {
			return nil, err // a nil *sqlite.Store in the interface would not compare equal to nil
		}
		return s, nil
	}
	options, err := connect.Store(&cfg, log)
	if err != nil {
		return nil, err
	}
	s, err := postgres.Open(ctx, cfg.Store, options)
	if errors.Is(err, store.ErrSchema) {
		return nil, fmt.Errorf("this program cannot use the schema of the database: %w", err)
	}
	if err != nil {
		return nil, err
	}
	return coalesce.New(s, coalesce.Config{Panics: contain.New(nil, log)}), nil
}

// openClock opens the clock of the store, by which everything is judged that the store stamps. A store in a file has
// the clock of this machine.
func (p *parts) openClock(ctx context.Context) error {
	p.clock = storeclock.New(p.opened, p.cfg.Now, p.registry, p.log)
	p.now = p.clock.Now
	if p.hasOwnClock() {
		return p.clock.Measure(ctx)
	}
	return nil
}

// hasOwnClock reports whether the store may have another clock than this machine.
func (p *parts) hasOwnClock() bool { return strings.HasPrefix(p.cfg.Store, "postgres") }

// followClock follows the clock of the store until ctx ends.
func (p *parts) followClock(ctx context.Context) error {
	if p.hasOwnClock() {
		return p.clock.Run(ctx)
	}
	<-ctx.Done()
	return nil
}

// Run is `dvt server`. It serves the API, runs the hub and the duties of cfg, and returns after a clean shutdown when
// ctx ends. When the database becomes a primary or a standby, it starts over in the new role.
func Run(ctx context.Context, cfg config.Config, log *slog.Logger) error {
	return acrossRoles(ctx, log, func() error { return runServer(ctx, cfg, log) })
}

func runServer(ctx context.Context, cfg config.Config, log *slog.Logger) error {
	err := errors.Join(need(cfg.Store, "store", cfg.Redis, "redis", cfg.Temporal, "temporal"), cfg.VerifyForServer())
	if slices.ContainsFunc(cfg.Duties, config.NeedsTicketKeys) {
		err = errors.Join(err, cfg.RequireTicketKeys())
	}
	if err != nil {
		return err
	}
	p, err := assemble(ctx, cfg, cfg.Accounts, log)
	if err != nil {
		return err
	}
	defer p.close()
	ln, err := listenSecured(ctx, &cfg, log)
	if err != nil {
		return err
	}
	log.Info("dvt server listens", slog.String("listen", ln.Addr().String()), slog.String("role", p.site.role()))
	defer logStop(ctx, log, "dvt server")()
	if p.subjects == nil {
		log.Warn("no subject-keys are set, so the audit names people in plain text and nobody can be erased from it: set " +
			"subject-keys-file, with the same keys on every server; make a secret with `openssl rand -base64 32`")
	}
	if len(cfg.ManualKeys) == 0 {
		log.Warn("no manual-keys are set, so steps that wait for a person cannot be completed through this server: set " +
			"manual-keys to id:SECRET, the same on every server; make a secret with `openssl rand -base64 32`")
	}
	return p.serve(ctx, ln, p.routes(), nil)
}

// logStop logs why a process stops when ctx ends. The caller calls the returned function when it has stopped. A process
// that ends by an error logs no line here, because its command prints the error.
func logStop(ctx context.Context, log *slog.Logger, process string) (stopped func()) {
	var began atomic.Pointer[time.Time]
	forget := context.AfterFunc(ctx, func() {
		now := time.Now()
		began.Store(&now)
		log.Info("stopping: the work ends in order", slog.String("process", process),
			slog.String("why", context.Cause(ctx).Error()))
	})
	return func() {
		forget()
		if at := began.Load(); at != nil {
			log.Info("stopped", slog.String("process", process),
				slog.Duration("took", time.Since(*at).Round(time.Millisecond)))
		}
	}
}

// need returns an error that names all missing settings. pairs alternate between the value and the name of a setting.
func need(pairs ...string) error {
	var errs []error
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i] == "" {
			errs = append(errs, fmt.Errorf("--%s is missing: give the flag, or set it in the settings file or the environment", pairs[i+1]))
		}
	}
	return errors.Join(errs...)
}

// Migrate is `dvt migrate`. It brings the schema of the store to the version of this program, and creates a SQLite
// store that does not exist. On PostgreSQL it also grants cfg.AppRole the rights of a server. It never changes a
// newer schema, which is store.ErrSchema on SQLite, and on PostgreSQL with cfg.AppRole.
func Migrate(ctx context.Context, cfg config.Config, log *slog.Logger) error {
	if err := need(cfg.Store, "store"); err != nil {
		return err
	}
	if path, ok := strings.CutPrefix(cfg.Store, "sqlite:"); ok {
		if cfg.AppRole != "" {
			return errors.New("--app-role is for PostgreSQL: SQLite has no roles")
		}
		s, err := sqlite.Open(ctx, path, sqlite.Options{})
		if err != nil {
			return err
		}
		return s.Close()
	}
	options, err := connect.Store(&cfg, log)
	if err != nil {
		return err
	}
	return postgres.Migration{AppRole: cfg.AppRole, Logger: log, Password: options.Password}.Run(ctx, cfg.Store)
}

// Schema compares the migrations of the store of cfg with those of this program, and changes nothing.
func Schema(ctx context.Context, cfg config.Config, log *slog.Logger) (store.Schema, error) {
	if err := need(cfg.Store, "store"); err != nil {
		return store.Schema{}, err
	}
	if path, ok := strings.CutPrefix(cfg.Store, "sqlite:"); ok {
		return sqlite.Schema(ctx, path)
	}
	options, err := connect.Store(&cfg, log)
	if err != nil {
		return store.Schema{}, err
	}
	return postgres.Migration{Logger: log, Password: options.Password}.Schema(ctx, cfg.Store)
}

// httpServer returns a server that limits the time and the header size of a request, because any peer can connect
// before it is authenticated.
func httpServer(routes http.Handler) *http.Server {
	return &http.Server{
		Handler: routes, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: readTime, WriteTimeout: writeTime,
		IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10,
	}
}

// serve runs the API and the duties until ctx ends, and then shuts down in order. It tells streams to resume elsewhere,
// waits for requests, and stops the duties last, so that a duty still processes every accepted request.
func (p *parts) serve(ctx context.Context, ln net.Listener, routes http.Handler,
	extra func(ctx context.Context, g *errgroup.Group)) error {
	if err := p.control.LoadPolicy(ctx); err != nil {
		return err
	}
	notify, err := p.newNotifier()
	if err != nil {
		return err
	}
	api, stopAPI := context.WithCancel(context.WithoutCancel(ctx))
	work, stopWork := context.WithCancel(context.WithoutCancel(ctx))
	defer stopWork()
	defer stopAPI()
	srv := httpServer(p.leavingConnections(routes))
	srv.ErrorLog = httpErrors(p.log)
	g, failed := errgroup.WithContext(ctx)
	g.Go(func() error {
		if err := srv.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return nil
	})
	if err := serveObservers(api, p.cfg, p.observers(), p.log, g); err != nil {
		stopAPI()
		return errors.Join(err, srv.Close(), g.Wait())
	}
	panics := contain.New(p.registry, p.log)
	keep := func(ctx context.Context, duty string, f func(context.Context) error) {
		g.Go(func() error { return panics.Loop(ctx, duty, f) })
	}
	keep(api, "watch", p.hub.Run)
	keep(api, "lists", p.lists.Run)
	keep(work, "clock", p.followClock)
	keep(work, "policy", p.control.FollowPolicy)
	keep(work, "providers", p.providers.Run)
	g.Go(func() error { return p.site.watch(failed) })
	duties := p.cfg.Duties
	if p.site.standby {
		duties = nil
	} else {
		keep(work, "quotas", p.control.MeasureQuotas)
		keep(work, "health", p.control.MeasureHealth)
		keep(work, "heartbeats", func(ctx context.Context) error { return p.control.Beat(ctx, p.owner) })
	}
	for _, d := range duties {
		switch d {
		case "project":
			keep(work, "project", p.projector.Run)
		case "dispatch":
			keep(work, "dispatch", func(ctx context.Context) error { return p.control.Dispatch(ctx, p.owner) })
		case "deliver":
			keep(work, "deliver", func(ctx context.Context) error { return p.control.Deliver(ctx, p.owner) })
			keep(work, "bulk", func(ctx context.Context) error { return p.control.SendBulks(ctx, p.owner) })
		case "reconcile":
			keep(work, "reconcile", p.control.Reconcile)
			if !p.cfg.Dev { // the server of dvt dev keeps histories for a day
				keep(work, "namespaces", p.namespaces.Run)
			}
			keep(work, "audit", p.control.LinkAudit)
			keep(work, "audit heads", p.control.WriteAuditHeads)
			keep(work, "approvals", p.control.ExpireApprovals)
			keep(work, "erasures", p.newErasureWatcher().WatchErasures)
		case "trace":
			if p.spans != nil {
				keep(work, "trace", p.newTracer().Run)
			}
		case "retain":
			keep(work, "retain", p.newRetention().Run)
		case "notify":
			if notify != nil {
				keep(work, "notify", notify.Run)
			}
		}
	}
	if extra != nil {
		extra(work, g)
	}
	g.Go(func() error {
		<-failed.Done()
		if ctx.Err() != nil {
			p.awaitProxies()
		}
		if p.cfg.Dev {
			// `dvt dev` must end within 15 s, and its steps may take 13 s of them (contract T226). The next start processes the
			// requests that are accepted from now on.
			stopWork()
		}
		drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTime)
		defer cancel()
		if p.graph != nil {
			if err := p.graph.Shutdown(drain); err != nil {
				p.log.Warn("some streams did not end within the drain time and are cut off; their clients resume", slog.Any("error", err))
			}
		}
		stopAPI()
		err := srv.Shutdown(drain)
		stopWork()
		if errors.Is(err, context.DeadlineExceeded) {
			return srv.Close()
		}
		return err
	})
	return g.Wait()
}

// leavingConnections has clients open new connections once the server was asked to stop, so that a proxy takes them to
// another server. A connection that stayed until the listener closes would be cut, maybe below a request.
func (p *parts) leavingConnections(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if p.stopping.Load() {
			w.Header().Set("Connection", "close")
		}
		next.ServeHTTP(w, r)
	})
}

// awaitProxies makes /readyz answer 503 and waits for shutdown-delay, during which the server works as before. Without
// it, proxies would send requests to a closed listener until their next check.
func (p *parts) awaitProxies() {
	p.stopping.Store(true)
	if p.cfg.ShutdownDelay == 0 {
		return
	}
	p.log.Info("/readyz answers 503 now; the listener closes after shutdown-delay",
		slog.Duration("shutdownDelay", p.cfg.ShutdownDelay))
	time.Sleep(p.cfg.ShutdownDelay)
}
