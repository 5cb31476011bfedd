package control

import (
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/dvt-engine/dvt/artifact"
	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/internal/contain"
	"github.com/dvt-engine/dvt/internal/sizedlru"
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
	// Outlet is shut while the engine's mode is READ_ONLY; may be nil.
	Outlet Outlet
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
	*Rights
	*Alerts
	*Background
	*Audits
	*AuditLinker
	*AuditHeadWriter
	cfg          Config
	denials      *perMinuteLimiter // of signals, by principal
	starts       chan struct{}     // wakes the reconciler
	signals      chan struct{}     // wakes delivery
	bulks        chan struct{}     // wakes who sends bulks
	plans        *sizedlru.Cache[planFacts]
	sweeps       sweepMetrics
	bulkRowsSent *prometheus.CounterVec
	quotas       atomic.Pointer[map[string]*tenantQuota] // of the tenants that have a document of their own
	tiers        *lru.Cache[string, *tenantQuota]        // of other tenants
	places       *places                                 // tells reconcilers elsewhere
	usage        *quotaMetrics
	asked        *lru.Cache[string, string] // the planVersion that a request id came with last (T138)
	// authority is held while policies and tokens are read and put in force.
	authority sync.Mutex
	ruling    *ruling
	breaker   *startBreaker

	sessionReads   chan struct{} // one place for each read of the last use of a session
	sessionCatchUp flight
	healthSample   sample[Health]
	readySample    sample[bool]

	identities identities
	inboxes    inboxes
	measured   *measured
	queues     *queueWatch
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
	s := &Service{
		plans:        sizedlru.New[planFacts](maxPlans, maxFactsBytes),
		identities:   identities{kept: newLRU[run.Identity](maxIdentities)},
		inboxes:      inboxes{open: map[authz.Class]*inbox{}},
		sessionReads: make(chan struct{}, maxSessionReads),
		cfg:          cfg, denials: newPerMinuteLimiter(cfg.Now),
		ruling: newRuling(), breaker: newStartBreaker(cfg.Now, cfg.Metrics),
		starts: make(chan struct{}, 1), signals: make(chan struct{}, 1), bulks: make(chan struct{}, 1),
		bulkRowsSent: newBulkRowsSent(cfg.Metrics),
		sweeps:       newSweepMetrics(cfg.Metrics),
		tiers:        newLRU[*tenantQuota](maxTenants), asked: newLRU[string](maxAsked), places: &places{bus: cfg.Bus},
		usage: newQuotaMetrics(cfg.Metrics),
	}
	s.queues = newQueueWatch(cfg.Engine, cfg.Now)
	cfg.AuditHeads.OperatorsTenant = cfg.OperatorsTenant
	s.Rights = NewRights(RightsConfig{
		Authz: cfg.Authz, Store: cfg.Store, OperatorsTenant: cfg.OperatorsTenant, Recheck: cfg.Recheck, Now: cfg.Now,
		Metrics: cfg.Metrics, Logger: cfg.Logger,
	})
	s.Alerts = NewAlerts(cfg.Store, cfg.Metrics, cfg.Now)
	s.Background = NewBackground(cfg.Store, s.Alerts, contain.New(cfg.Metrics, cfg.Logger), cfg.Now, cfg.Logger)
	s.Audits = NewAudits(s.Rights, cfg.Store, cfg.Store, cfg.OperatorsTenant, cfg.Now)
	s.AuditLinker = NewAuditLinker(cfg.Store, s.Alerts, cfg.Metrics, cfg.Now, cfg.Logger)
	s.AuditHeadWriter = NewAuditHeadWriter(cfg.Store, cfg.AuditHeads, s.Alerts, cfg.Metrics, cfg.Now, cfg.Logger)
	s.measured = &measured{since: cfg.Now()}
	s.quotas.Store(&map[string]*tenantQuota{})
	return s
}

// MaxSteps of a plan that runs here.
func (s *Service) MaxSteps() int { return s.cfg.Limits.MaxSteps }
