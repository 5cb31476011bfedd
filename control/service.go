package control

import (
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/dvt-engine/dvt/artifact"
	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/internal/contain"
	"github.com/dvt-engine/dvt/live"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// Config is what the use cases stand on. Store must wake the projector (see
// decorate.WakeOnCommit).
type Config struct {
	Store  store.Store
	Engine engine.Engine
	Hub    *live.Hub
	// Lists are the pages of runs that are watched; nil: New makes them on Store and Bus.
	Lists *live.Lists
	Bus   live.Bus
	Authz *authz.Authorizer
	Logs  artifact.Logs
	// AuditHeads says where the signed ends of the audit go.
	AuditHeads AuditHeads
	// Blobs keeps payloads of signals that are too large for a row (W-12).
	Blobs  artifact.Blobs
	Queues plan.Queues // templates; an engine gets those of its run
	// Redriver publishes dead letters again; nil: RedriveDeadLetters is NOT_SUPPORTED.
	Redriver Redriver
	// Quotas is what tenants may use; nil: nothing is limited.
	Quotas *Quotas
	// Policy is what runs get when their plan does not say; zero fields take O2 and O5.
	Policy run.Policy
	Limits Limits
	// ManualKeys make completion tokens, the first one, and know them; none: manual
	// steps cannot be completed here (T201).
	ManualKeys []ManualKey
	// Sessions is how long browsers stay signed in.
	Sessions Sessions
	// Sweeping is how Sweep goes about.
	Sweeping Sweeping
	// OperatorsTenant is the tenant whose principals may set the engine's mode; "": nobody may.
	OperatorsTenant string
	// ApprovalTTL is how long a run waits for approval; 24 h.
	ApprovalTTL time.Duration
	// PublishGate is held while the engine's mode is READ_ONLY; may be nil.
	PublishGate PublishGate
	// Quiet is the longest time between two frames of a stream; 15 s (O9).
	Quiet time.Duration
	// Recheck is the longest time between two looks at a stream's rights; 60 s (T178).
	Recheck time.Duration
	// EngineTrouble says in a sentence why the engine does not answer, or ""; nil: nobody here supervises the engine.
	// Health asks it only while the engine does not answer.
	EngineTrouble func() string
	// Measuring is how MeasureHealth goes about.
	Measuring Measuring
	Now       func() time.Time
	Metrics   prometheus.Registerer // none when nil
	Logger    *slog.Logger
}

// Limits bound what one request may ask; zero fields take the defaults named.
type Limits struct {
	MaxSteps         int           // of a plan that runs here; plan.MaxSteps, 5,000
	MaxSignalBytes   int           // of a signal's payload as compact JSON; 65,536 (T96)
	MaxOverlayBytes  int           // the same of UPDATE_PARAMS and INJECT_OVERRIDE; 1 MiB (T97)
	MaxParamsBytes   int           // 65,536
	DenialsPerMinute int           // that reach a run's log, per principal; 10 (T102)
	SignalsPerMinute int           // of one run; 60, negative: not limited (T96)
	LeaseTTL         time.Duration // 30 s (O5)
	LeaseBatch       int           // 16
}

// Service is the use cases. It is safe for concurrent use.
type Service struct {
	maxSteps int
	*Rights
	*Alerts
	*Background
	*Audits
	*AuditLinker
	*AuditHeadWriter
	*Policies
	*Loader
	*TokenIssuer
	*SignIns
	*Viewers
	*Allowances
	*QuotaEditor
	*UsageMeter
	*QueueViews
	*ModeEditor
	*HealthChecks
	*HealthReports
	*HealthMeter
	*WorkerReports
	*Pollers
	*Views
	*ReceiptReader
	*Starter
	*Approver
	*Signaller
	*Completer
	*TaskReader
	*PlanReader
	*Previewer
	*ActionReader
	*InputReader
	*RunLists
	*EventReader
	*Differ
	*LogReader
	*DBTReader
	*Debugger
	*DeadLetterDesk
	*BulkRequester
	*BulkReader
	*BulkPreviewer
	*BulkSender
	*Watcher
	*ReceiptWatcher
	*LogWatcher
	*InboxReader
	*InboxWatcher
	*Dispatcher
	*Deliverer
	*Sweeper
}

// New makes the use cases.
func New(cfg Config) *Service {
	def := func(p *int, v int) {
		if *p == 0 {
			*p = v
		}
	}
	def(&cfg.Limits.MaxSteps, plan.MaxSteps)
	def(&cfg.Limits.MaxSignalBytes, 64<<10)
	def(&cfg.Limits.MaxOverlayBytes, 1<<20)
	def(&cfg.Limits.MaxParamsBytes, 64<<10)
	def(&cfg.Limits.DenialsPerMinute, 10)
	def(&cfg.Limits.SignalsPerMinute, 60)
	def(&cfg.Limits.LeaseBatch, 16)
	def(&cfg.Policy.MaxParallelSteps, 100)
	def(&cfg.Policy.MaxLogicalAttemptsManual, 10)
	if cfg.Limits.LeaseTTL == 0 {
		cfg.Limits.LeaseTTL = 30 * time.Second
	}
	if cfg.Policy.RetryWindowMS == 0 {
		cfg.Policy.RetryWindowMS = (10 * time.Minute).Milliseconds()
	}
	if cfg.Policy.DrainTimeoutMS == 0 {
		cfg.Policy.DrainTimeoutMS = (5 * time.Minute).Milliseconds()
	}
	if cfg.Quiet == 0 {
		cfg.Quiet = 15 * time.Second
	}
	if cfg.Lists == nil {
		cfg.Lists = live.NewLists(cfg.Store, cfg.Bus, live.ListsConfig{Quiet: min(cfg.Quiet, 14*time.Second),
			Metrics: cfg.Metrics, Logger: cfg.Logger})
	}
	if cfg.Recheck == 0 {
		cfg.Recheck = time.Minute
	}
	if cfg.Measuring.Every == 0 {
		cfg.Measuring.Every = 15 * time.Second
	}
	if cfg.EngineTrouble == nil {
		cfg.EngineTrouble = func() string { return "" }
	}
	if cfg.Measuring.Counted == nil {
		cfg.Measuring.Counted = func() Counted { return Counted{} }
	}
	if cfg.ApprovalTTL == 0 {
		cfg.ApprovalTTL = 24 * time.Hour
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	leases := Leases{TTL: cfg.Limits.LeaseTTL, Batch: cfg.Limits.LeaseBatch}
	st, now, log := cfg.Store, cfg.Now, cfg.Logger
	s := &Service{maxSteps: cfg.Limits.MaxSteps}
	s.Rights = NewRights(RightsConfig{
		Authz: cfg.Authz, Store: st, OperatorsTenant: cfg.OperatorsTenant, Recheck: cfg.Recheck, Now: now,
		Metrics: cfg.Metrics, Logger: log,
	})
	s.Alerts = NewAlerts(st, cfg.Metrics, now)
	s.Background = NewBackground(st, s.Alerts, contain.New(cfg.Metrics, log), now, log)
	s.Audits = NewAudits(s.Rights, st, st, cfg.OperatorsTenant, now)
	s.AuditLinker = NewAuditLinker(st, s.Alerts, cfg.Metrics, now, log)
	cfg.AuditHeads.OperatorsTenant = cfg.OperatorsTenant
	s.AuditHeadWriter = NewAuditHeadWriter(st, cfg.AuditHeads, s.Alerts, cfg.Metrics, now, log)

	waker := NewWaker(cfg.Bus)
	modes := NewModes(newStartBreaker(now, cfg.Metrics), cfg.PublishGate, waker, leases.Batch, log)
	s.Allowances = NewAllowances(cfg.Quotas, modes, waker, log)
	s.Loader = NewLoader(s.Rights, st, modes, s.Allowances)
	s.Policies = NewPolicies(s.Rights, st, s.Loader)
	s.TokenIssuer = NewTokenIssuer(s.Rights, st, s.Loader)
	s.SignIns = NewSignIns(s.Rights, st, s.TokenIssuer, s.Loader, cfg.Sessions)
	s.Viewers = NewViewers(s.Rights, st, cfg.Engine)
	usage := newQuotaMetrics(cfg.Metrics)
	s.QuotaEditor = NewQuotaEditor(s.Rights, st, s.Allowances, s.Loader)
	s.UsageMeter = NewUsageMeter(s.Rights, st, s.Allowances, usage)
	s.QueueViews = NewQueueViews(s.Rights, st, s.Allowances)
	s.ModeEditor = NewModeEditor(s.Rights, st, modes, s.Loader)
	admission := &Admission{modes: modes, allowances: s.Allowances, sandboxes: NewSandboxes(s.Rights, st, cfg.Queues),
		usage: usage, waker: waker, leases: leases}

	probe := &EngineProbe{Engine: cfg.Engine, Trouble: cfg.EngineTrouble}
	s.HealthChecks = NewHealthChecks(st, cfg.Logs, cfg.Bus, probe, modes, s.Background)
	s.HealthReports = NewHealthReports(s.Rights, st, s.HealthChecks)
	s.HealthMeter = NewHealthMeter(s.Rights, s.HealthChecks, cfg.Measuring)
	s.WorkerReports = NewWorkerReports(s.Rights, st)
	s.Pollers = NewPollers(cfg.Engine, now)

	s.ReceiptReader = NewReceiptReader(s.Rights, st, cfg.Sweeping.WithDefaults().StopWithin)
	s.Views = NewViews(s.Rights, st, s.QueueViews, s.ReceiptReader)
	s.PlanReader = NewPlanReader(s.Rights, st, cfg.Queues)
	s.Starter = NewStarter(s.Rights, st, s.Views, admission, StartRules{
		Queues: cfg.Queues, Policy: cfg.Policy, MaxSteps: cfg.Limits.MaxSteps, MaxParamsBytes: cfg.Limits.MaxParamsBytes,
		ApprovalTTL: cfg.ApprovalTTL,
	})
	s.Approver = NewApprover(s.Rights, st, s.Views, admission, s.Background)
	stopper := NewStopper(st, cfg.Engine, s.ReceiptReader, now)
	judge := NewJudge(stopper, s.Allowances, cfg.Limits)
	checker := NewSignalChecker(s.PlanReader, cfg.Limits)
	s.Signaller = NewSignaller(s.Rights, st, judge, checker, cfg.Blobs, s.Alerts)
	s.TaskReader = NewTaskReader(s.Rights, st, s.PlanReader, cfg.ManualKeys)
	s.Completer = NewCompleter(s.Rights, st, judge, s.TaskReader, s.Views)
	s.Previewer = NewPreviewer(s.Rights, st, s.Starter, s.Completer, s.Approver, checker)
	s.ActionReader = NewActionReader(s.Rights, s.Approver)
	s.InputReader = NewInputReader(s.Rights, st, s.PlanReader, cfg.Blobs)

	s.RunLists = NewRunLists(s.Rights, st, s.PlanReader)
	s.EventReader = NewEventReader(s.Rights, st)
	s.Differ = NewDiffer(s.Views, s.EventReader)
	s.LogReader = NewLogReader(s.Rights, st, cfg.Logs)
	s.DBTReader = NewDBTReader(s.Rights, st, cfg.Blobs)
	s.Debugger = NewDebugger(s.Rights, st, cfg.Engine, s.ReceiptReader)
	s.DeadLetterDesk = NewDeadLetterDesk(s.Rights, st, cfg.Redriver)

	s.BulkReader = NewBulkReader(s.Rights, st, st, cfg.Quiet)
	s.BulkRequester = NewBulkRequester(s.Rights, st, s.BulkReader, checker)
	s.BulkPreviewer = NewBulkPreviewer(s.Rights, st, s.BulkRequester, s.Previewer)
	s.BulkSender = NewBulkSender(s.Rights, st, s.Signaller, s.Background,
		BulkSettings{LeaseTTL: leases.TTL, Wake: s.BulkRequester.wake}, newBulkRowsSent(cfg.Metrics))

	s.Watcher = NewWatcher(s.Rights, cfg.Hub, cfg.Lists, st, s.Background)
	s.ReceiptWatcher = NewReceiptWatcher(s.Rights, cfg.Hub, s.ReceiptReader)
	s.LogWatcher = NewLogWatcher(s.Rights, st, s.LogReader, cfg.Quiet)
	s.InboxReader = NewInboxReader(s.Rights, st, s.TaskReader, s.Approver)
	s.InboxWatcher = NewInboxWatcher(s.InboxReader, cfg.Bus, s.Background, cfg.Quiet)

	s.Sweeper = NewSweeper(st, st, stopper, s.Background, admission, SweepHelp{
		Plans: s.PlanReader, Pollers: s.Pollers, Settings: cfg.Sweeping, Metrics: newSweepMetrics(cfg.Metrics),
	})
	launcher := NewLauncher(s.Rights, probe, cfg.Queues, modes, s.Alerts, s.Sweeper)
	s.Dispatcher = NewDispatcher(st, st, launcher, s.Starter, admission, s.Background)
	s.Deliverer = NewDeliverer(st, cfg.Engine, stopper, s.Background, leases, judge.deliveries)
	return s
}

// MaxSteps of a plan that runs here.
func (s *Service) MaxSteps() int { return s.maxSteps }
