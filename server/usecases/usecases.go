// Package usecases wires the use cases of control to one store, one engine and one bus. Servers, benchmarks and tests
// share this wiring, so that tests exercise the use cases of a server.
package usecases

import (
	"cmp"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/dvt-engine/dvt/artifact"
	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/control/access"
	"github.com/dvt-engine/dvt/control/admission"
	"github.com/dvt-engine/dvt/control/bulk"
	"github.com/dvt-engine/dvt/control/delivery"
	"github.com/dvt-engine/dvt/control/diagnosis"
	"github.com/dvt-engine/dvt/control/durations"
	"github.com/dvt-engine/dvt/control/duty"
	"github.com/dvt-engine/dvt/control/erasing"
	"github.com/dvt-engine/dvt/control/health"
	"github.com/dvt-engine/dvt/control/nodes"
	"github.com/dvt-engine/dvt/control/reads"
	"github.com/dvt-engine/dvt/control/retention"
	"github.com/dvt-engine/dvt/control/runs"
	"github.com/dvt-engine/dvt/control/secrets"
	"github.com/dvt-engine/dvt/control/watch"
	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/engine/ticket"
	"github.com/dvt-engine/dvt/internal/contain"
	"github.com/dvt-engine/dvt/live"
	"github.com/dvt-engine/dvt/notifier"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
	"github.com/dvt-engine/dvt/store/subject"
)

// Config contains the dependencies and settings of the use cases. Store must wake the projector, see
// decorate.WakeOnCommit.
type Config struct {
	Store  store.Store
	Engine engine.Engine
	Hub    *live.Hub
	// Lists are the watched pages of runs; nil: New creates them on Store and Bus.
	Lists *live.Lists
	Bus   live.Bus
	Authz *authz.Authorizer
	Logs  artifact.Logs
	// AuditHeads is the archive for the signed heads of the audit; the zero value writes none.
	AuditHeads control.AuditHeads
	// AuditRows opens the sealed texts of audit rows; nil: they cannot be read.
	AuditRows control.RowOpener
	// Blobs stores payloads of signals that are too large for a row.
	Blobs  artifact.Blobs
	Queues plan.Queues // templates; an engine gets the queues of its run
	// Redriver publishes dead letters again; nil: RedriveDeadLetters returns NOT_SUPPORTED.
	Redriver reads.Redriver
	// Quotas are the limits of tenants; nil: no limits.
	Quotas *admission.Quotas
	// Policy is the policy of runs whose plan sets none. New sets the defaults of zero fields.
	Policy run.Policy
	Limits runs.Limits
	Leases admission.Leases
	// ManualKeys verify completion tokens, and the first one signs them. Without keys, manual steps cannot be completed
	// here (contract T201).
	ManualKeys []runs.ManualKey
	// Seals proves that this installation made a link of a run or an artifact; nil: it makes none.
	Seals runs.Sealer
	// Sessions is how long browsers stay signed in.
	Sessions access.Sessions
	// Searching bounds the work for one page of a search in step logs.
	Searching reads.SearchLimits
	// Reconcile contains the settings of Reconcile.
	Reconcile duty.ReconcileSettings
	// Retention is how long things live where a tenant says nothing.
	Retention retention.Installation
	// Erasing is what the installation has for erasures.
	Erasing erasing.Installation
	// Recovery is what dvt does about runs that hang; "" is RecoveryOff.
	Recovery admission.RecoveryMode
	// Standby says that this site is a standby, and how; nil: it is not.
	Standby func() string
	// OperatorsTenant is the tenant whose principals may set the engine's mode; "": nobody may.
	OperatorsTenant string
	// ApprovalTTL is how long a run waits for approval; 0 means 24 h.
	ApprovalTTL time.Duration
	// PublishGate is held while the engine's mode is READ_ONLY; may be nil.
	PublishGate admission.PublishGate
	// KeepAlive is the maximum time between two frames of a stream, so that clients notice a broken connection; 0 means 15
	// s.
	KeepAlive time.Duration
	// RightsCheckInterval is the maximum time between two checks of a stream's rights, after which a revoked right ends
	// the stream; 0 means 60 s (contract T178).
	RightsCheckInterval time.Duration
	// EngineTrouble returns a sentence that explains why the engine does not answer, or "". It is nil when this process
	// does not supervise the engine. Health calls it only while the engine does not answer.
	EngineTrouble func() string
	// Beats contains the intervals of heartbeats.
	Beats control.BeatSettings
	// Meter contains the settings of MeasureHealth.
	Meter   health.MeterSettings
	Now     func() time.Time
	Metrics prometheus.Registerer // none when nil
	Logger  *slog.Logger
}

// UseCases contains the use cases of control by embedding. It is safe for concurrent use. Create it with New.
type UseCases struct {
	maxSteps int
	*control.Rights
	*control.Alerts
	*control.Heartbeats
	*control.Background
	*control.Audits
	*control.AuditLinker
	*control.AuditHeadWriter
	*access.Policies
	*access.Loader
	*access.TokenIssuer
	*access.SignIns
	*access.Viewers
	*admission.Allowances
	*admission.QuotaEditor
	*admission.UsageMeter
	*admission.QueueViews
	*admission.ModeEditor
	*retention.Editor
	*retention.HoldKeeper
	*retention.ArchiveReader
	Expiries *retention.Expiries // of artifacts; the Journal sets them
	*health.Checks
	*health.Reports
	*health.Meter
	*health.WorkerReader
	*health.Pollers
	*reads.WaitReader
	*runs.Views
	*runs.ReceiptReader
	*runs.Starter
	*runs.Approver
	*runs.Signaller
	*runs.Completer
	*runs.TaskReader
	*runs.PlanReader
	*diagnosis.Doctor
	*runs.Previewer
	*runs.ActionReader
	*runs.InputReader
	*runs.Annotator
	*runs.Sharer
	*reads.RunLists
	*reads.Forecaster
	*reads.PlanHistories
	*reads.Comparer
	*reads.EventReader
	*reads.Differ
	*reads.LogReader
	*reads.LogSearcher
	*reads.ArtifactReader
	*reads.DBTReader
	*reads.NodeReader
	*reads.EvidenceReader
	*reads.Debugger
	*reads.DeadLetterDesk
	*reads.ViewKeeper
	*reads.AlertDesk
	*reads.IncidentDesk
	*delivery.DestinationReader
	*delivery.DestinationSteerer
	*delivery.ReplayPreviewer
	*secrets.AccessReader
	*secrets.Orders
	*erasing.ErasureDesk
	*bulk.Requester
	*bulk.Reader
	*bulk.Estimator
	*bulk.Sender
	*watch.Watcher
	*watch.ReceiptWatcher
	*watch.LogWatcher
	*watch.InboxReader
	*watch.InboxWatcher
	*watch.AlertWatcher
	*duty.Dispatcher
	*duty.Deliverer
	*duty.Reconciler
	StepEnds *duty.StepEnds
}

// withDefaults sets the defaults of the zero fields that several objects share. An object sets those of its own
// settings.
func (c Config) withDefaults() Config {
	c.Limits.MaxSteps = cmp.Or(c.Limits.MaxSteps, plan.MaxSteps)
	c.Limits.MaxSignalBytes = cmp.Or(c.Limits.MaxSignalBytes, 64<<10)
	c.Limits.MaxOverlayBytes = cmp.Or(c.Limits.MaxOverlayBytes, 1<<20)
	c.Limits.MaxParamsBytes = cmp.Or(c.Limits.MaxParamsBytes, 64<<10)
	c.Limits.DenialsPerMinute = cmp.Or(c.Limits.DenialsPerMinute, 10)
	c.Limits.SignalsPerMinute = cmp.Or(c.Limits.SignalsPerMinute, 60)
	c.Leases.TTL, c.Leases.Batch = cmp.Or(c.Leases.TTL, 30*time.Second), cmp.Or(c.Leases.Batch, 16)
	c.Policy.MaxParallelSteps = cmp.Or(c.Policy.MaxParallelSteps, 100)
	c.Policy.MaxLogicalAttemptsManual = cmp.Or(c.Policy.MaxLogicalAttemptsManual, 10)
	c.Policy.RetryWindowMS = cmp.Or(c.Policy.RetryWindowMS, (10 * time.Minute).Milliseconds())
	c.Policy.DrainTimeoutMS = cmp.Or(c.Policy.DrainTimeoutMS, (5 * time.Minute).Milliseconds())
	c.KeepAlive = cmp.Or(c.KeepAlive, 15*time.Second)
	c.RightsCheckInterval = cmp.Or(c.RightsCheckInterval, time.Minute)
	c.ApprovalTTL = cmp.Or(c.ApprovalTTL, 24*time.Hour)
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Seals == nil {
		c.Seals = ticket.Keys{}
	}
	if c.Lists == nil {
		c.Lists = live.NewLists(c.Store, c.Bus, live.ListsConfig{KeepAlive: min(c.KeepAlive, 14*time.Second),
			Metrics: c.Metrics, Logger: c.Logger})
	}
	return c
}

// New wires the use cases, sets the defaults of zero fields of cfg, and registers metrics.
func New(cfg Config) *UseCases {
	cfg = cfg.withDefaults()
	st, now, log := cfg.Store, cfg.Now, cfg.Logger
	if cfg.AuditRows == nil {
		cfg.AuditRows = (*subject.Keyring)(nil)
	}
	s := &UseCases{maxSteps: cfg.Limits.MaxSteps}
	s.Rights = control.NewRights(control.RightsConfig{
		Authz: cfg.Authz, Store: st, OperatorsTenant: cfg.OperatorsTenant, CheckInterval: cfg.RightsCheckInterval, Now: now,
		Metrics: cfg.Metrics, Logger: log,
	})
	s.Alerts = control.NewAlerts(st, cfg.Metrics, now, log)
	waker := admission.NewWaker(cfg.Bus)
	modes := admission.NewModes(admission.NewBreaker(now, cfg.Metrics), cfg.PublishGate, waker, cfg.Leases.Batch, log)
	modes.Installed = cfg.Recovery
	cfg.Beats.Seen = modes.FollowBreakers
	s.Heartbeats = control.NewHeartbeats(st, s.Alerts, cfg.Beats)
	s.Background = control.NewBackground(st, s.Alerts, s.Heartbeats, contain.New(cfg.Metrics, log), now, log)
	s.Audits = control.NewAudits(s.Rights, st, st, cfg.AuditRows, cfg.OperatorsTenant, now)
	s.AuditLinker = control.NewAuditLinker(st, s.Alerts, cfg.Metrics, now, log)
	cfg.AuditHeads.OperatorsTenant = cfg.OperatorsTenant
	s.AuditHeadWriter = control.NewAuditHeadWriter(st, cfg.AuditHeads, s.Alerts, cfg.Metrics, now, log)

	s.Allowances = admission.NewAllowances(cfg.Quotas, modes, waker, log)
	s.Loader = access.NewLoader(s.Rights, st, modes, s.Allowances)
	s.Policies = access.NewPolicies(s.Rights, st, s.Loader)
	s.TokenIssuer = access.NewTokenIssuer(s.Rights, st, s.Loader)
	s.SignIns = access.NewSignIns(s.Rights, st, s.TokenIssuer, s.Loader, cfg.Sessions)
	s.Viewers = access.NewViewers(s.Rights, st, cfg.Engine)
	usage := admission.NewMetrics(cfg.Metrics)
	s.QuotaEditor = admission.NewQuotaEditor(s.Rights, st, s.Allowances, s.Loader)
	s.Pollers = health.NewPollers(cfg.Engine, now)
	s.UsageMeter = admission.NewUsageMeter(s.Rights, st, s.Allowances, usage, s.Alerts, s.Backlog)
	s.QueueViews = admission.NewQueueViews(s.Rights, st, s.Allowances)
	s.ModeEditor = admission.NewModeEditor(s.Rights, st, modes, s.Loader)
	s.Editor = retention.NewEditor(s.Rights, st, cfg.Retention, now)
	s.HoldKeeper = retention.NewHoldKeeper(s.Rights, st)
	s.ArchiveReader = retention.NewArchiveReader(st)
	admission := &admission.Admission{Modes: modes, Allowances: s.Allowances,
		Sandboxes: admission.NewSandboxes(s.Rights, st, cfg.Queues),
		Usage:     usage, Waker: waker, Leases: cfg.Leases}

	probe := &health.EngineProbe{Engine: cfg.Engine, Trouble: cfg.EngineTrouble}
	s.Checks = health.NewChecks(st, st, cfg.Logs, cfg.Bus, probe, modes, s.Background)
	s.SetStandby(cfg.Standby)
	s.Reports = health.NewReports(s.Rights, st, s.Checks)
	s.Meter = health.NewMeter(s.Rights, s.Checks, cfg.Meter, cfg.Metrics)
	s.WorkerReader = health.NewWorkerReader(s.Rights, st)

	s.ReceiptReader = runs.NewReceiptReader(s.Rights, st, cfg.Reconcile.WithDefaults().StopWithin)
	s.Views = runs.NewViews(s.Rights, st, s.QueueViews, s.ReceiptReader)
	s.WaitReader = reads.NewWaitReader(s.Rights, s.Views, cfg.Engine, s.Pollers, s.WorkerReader, cfg.Queues,
		now)
	s.PlanReader = runs.NewPlanReader(s.Rights, st, cfg.Queues)
	s.Starter = runs.NewStarter(s.Rights, st, s.Views, admission, runs.StartRules{
		Queues: cfg.Queues, Policy: cfg.Policy, MaxSteps: cfg.Limits.MaxSteps, MaxParamsBytes: cfg.Limits.MaxParamsBytes,
		ApprovalTTL: cfg.ApprovalTTL,
	})
	s.Approver = runs.NewApprover(s.Rights, st, s.Views, admission, s.Background)
	stopper := runs.NewStopper(st, cfg.Engine, s.ReceiptReader, now)
	judge := runs.NewJudge(stopper, s.Allowances, cfg.Limits)
	judge.Rates = runs.NewSignalRates(cfg.Metrics, usage.Label, now)
	folds := nodes.NewFolds(st)
	checker := runs.NewSignalChecker(s.PlanReader, cfg.Limits)
	checker.UseNodes(st, nodes.NewSets(folds, cfg.Blobs))
	s.Signaller = runs.NewSignaller(s.Rights, st, judge, checker, cfg.Blobs, s.Alerts)
	s.TaskReader = runs.NewTaskReader(s.Rights, st, s.PlanReader, cfg.ManualKeys)
	s.Completer = runs.NewCompleter(s.Rights, st, judge, s.TaskReader, s.Views)
	s.Previewer = runs.NewPreviewer(s.Rights, st, s.Starter, s.Completer, s.Approver, checker)
	s.ActionReader = runs.NewActionReader(s.Rights, s.Approver)
	s.InputReader = runs.NewInputReader(s.Rights, st, s.PlanReader, cfg.Blobs)

	s.Annotator = runs.NewAnnotator(s.Rights, st)
	s.Sharer = runs.NewSharer(s.Rights, s.Views, st, modes, cfg.Seals)

	lengths := durations.NewReader(st, now)
	s.RunLists = reads.NewRunLists(s.Rights, st, s.PlanReader, lengths)
	s.Forecaster = reads.NewForecaster(s.Views, lengths, now)
	s.UseMedians(s.StepMedians)
	s.PlanHistories = reads.NewPlanHistories(s.Rights, st, s.PlanReader)
	s.Doctor = diagnosis.NewDoctor(s.Rights, s.Views,
		diagnosis.Decisions{Receipts: s.ReceiptReader, Approver: s.Approver, Tasks: s.TaskReader}, s.RunLists, s.WaitReader,
		diagnosis.NewSurroundings(s.Pollers, s.Reports, s.WorkerReader, cfg.Engine, cfg.Queues))
	s.Comparer = reads.NewComparer(s.Views, s.PlanReader, now)
	s.EventReader = reads.NewEventReader(s.Rights, st)
	s.Differ = reads.NewDiffer(s.Views, s.EventReader)
	s.LogReader = reads.NewLogReader(s.Rights, st, cfg.Logs)
	s.LogSearcher = reads.NewLogSearcher(s.Rights, st, cfg.Logs, cfg.Searching)
	s.Expiries = retention.NewExpiries(st, cfg.Retention, now)
	s.ArtifactReader = reads.NewArtifactReader(s.Rights, st, cfg.Blobs, cfg.Seals, s.Expiries)
	s.DBTReader = reads.NewDBTReader(s.Rights, st, cfg.Blobs, s.Expiries)
	s.NodeReader = reads.NewNodeReader(s.Rights, st, folds)
	s.EvidenceReader = reads.NewEvidenceReader(s.Rights, st, cfg.Blobs)
	s.Debugger = reads.NewDebugger(s.Rights, st, cfg.Engine, s.ReceiptReader, cfg.Logs)
	s.DeadLetterDesk = reads.NewDeadLetterDesk(s.Rights, st, cfg.Redriver)

	s.ViewKeeper = reads.NewViewKeeper(s.Rights, st)
	s.AlertDesk = reads.NewAlertDesk(s.Rights, st)
	s.IncidentDesk = reads.NewIncidentDesk(s.Rights, st, s.AlertDesk)

	s.ErasureDesk = erasing.New(s.Rights, st, cfg.Erasing)
	s.DestinationReader = delivery.NewDestinationReader(s.Rights, st)
	s.DestinationSteerer = delivery.NewDestinationSteerer(s.Rights, st, s.DestinationReader)
	s.ReplayPreviewer = delivery.NewReplayPreviewer(s.Rights, s.DestinationReader, notifier.NewReplayCounter(st))

	s.AccessReader = secrets.NewAccessReader(s.Rights, st, s.InputReader)
	s.Orders = secrets.NewOrders(s.Rights, st, cfg.Queues)

	s.Reader = bulk.NewReader(s.Rights, st, st, cfg.KeepAlive)
	s.Requester = bulk.NewRequester(s.Rights, st, s.Reader, checker, s.Starter)
	s.Estimator = bulk.NewEstimator(s.Rights, st, s.Requester, s.Previewer)
	s.Sender = bulk.NewSender(s.Rights, st, s.Signaller, s.Starter, s.Background,
		bulk.SenderSettings{LeaseTTL: cfg.Leases.TTL, Wake: s.Wake, Sent: bulk.NewRowsSent(cfg.Metrics),
			Chains: st})

	s.Watcher = watch.NewWatcher(s.Rights, cfg.Hub, cfg.Lists, st, s.Background)
	s.ReceiptWatcher = watch.NewReceiptWatcher(s.Rights, cfg.Hub, s.ReceiptReader)
	s.LogWatcher = watch.NewLogWatcher(s.Rights, st, s.LogReader, cfg.KeepAlive)
	s.InboxReader = watch.NewInboxReader(s.Rights, st, s.TaskReader, s.Approver, s.RunLists)
	s.AlertWatcher = watch.NewAlertWatcher(s.Rights, st, s.AlertDesk, cfg.KeepAlive)
	s.InboxWatcher = watch.NewInboxWatcher(s.InboxReader, cfg.Bus, s.Background, cfg.KeepAlive)

	s.StepEnds = duty.NewStepEnds(now)
	s.Reconciler = duty.NewReconciler(st, st, stopper, s.Background, admission, duty.ReconcileHelp{
		Forecasts: s.Forecaster,
		Plans:     s.PlanReader, Pollers: s.Pollers, Settings: cfg.Reconcile, Metrics: duty.NewReconcileMetrics(cfg.Metrics),
		Recovery: duty.RecoveryHelp{Rights: s.Rights, Signaller: s.Signaller, Durations: lengths,
			Receipts: st, Ends: s.StepEnds,
			Incidents: st},
	})
	launcher := duty.NewLauncher(s.Rights, probe, cfg.Queues, modes, s.Alerts, s.Reconciler)
	s.Dispatcher = duty.NewDispatcher(st, st, launcher, s.Starter, admission, s.Background)
	s.Deliverer = duty.NewDeliverer(st, cfg.Engine, stopper, s.Background, cfg.Leases, judge.Deliveries)
	return s
}

// MaxSteps returns the maximum number of steps of a plan.
func (s *UseCases) MaxSteps() int { return s.maxSteps }
