package duty

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/control/admission"
	"github.com/dvt-engine/dvt/control/health"
	"github.com/dvt-engine/dvt/control/runs"
	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// ReconcileHelp has the dependencies of a Reconciler beside the store and the engine.
type ReconcileHelp struct {
	Plans    *runs.PlanReader
	Pollers  *health.Pollers
	Settings ReconcileSettings
	Metrics  ReconcileMetrics
	Recovery RecoveryHelp

	Forecasts Forecaster
}

// DriftStore reads runs whose log and engine may disagree, and ends them.
type DriftStore interface {
	Get(ctx context.Context, runID string) (store.Run, error)
	Heads(ctx context.Context, runIDs []string) (store.Heads, error)
	InRun(ctx context.Context, runID string, f func(tx store.RunTx) error) error
	Load(ctx context.Context, runID string) (store.Loaded, error)
	ListQuietRuns(ctx context.Context, quiet time.Duration, afterRunID string, limit int) ([]store.QuietRun, error)
	Audit(ctx context.Context, rows ...store.AuditRow) error
}

// OverdueStore lists runs and starts that wait for too long.
type OverdueStore interface {
	ListExpiredWaits(ctx context.Context, limit int) ([]store.QueueRow, error)
	ListStoppingRuns(ctx context.Context, age time.Duration, afterRunID string, limit int) ([]store.StoppingRun, error)
	ListStuckStarts(ctx context.Context, age time.Duration, limit int) ([]store.QueueRow, error)
}

// Reconciler finds runs whose log and engine disagree. It repairs or reports them. It is safe for concurrent use.
type Reconciler struct {
	runs       DriftStore
	waits      OverdueStore
	stopper    *runs.Stopper
	background *control.Background
	admission  *admission.Admission
	help       ReconcileHelp
}

// NewReconciler makes a Reconciler.
func NewReconciler(runs DriftStore, waits OverdueStore, stopper *runs.Stopper, background *control.Background,
	admission *admission.Admission,
	help ReconcileHelp) *Reconciler {
	return &Reconciler{runs: runs, waits: waits, stopper: stopper, background: background, admission: admission,
		help: help}
}

// ReconcileSettings has the intervals and limits of a Reconciler. A zero field takes the default that its comment
// names.
type ReconcileSettings struct {
	// Interval is the time between two rounds; 5 s.
	Interval time.Duration
	// Quiet is the time without a new event after which a run is checked; 30 s.
	Quiet time.Duration
	// Confirm is the minimum time between the two checks that must agree before a run is ended or started again; 5 s.
	Confirm time.Duration
	// StartAge is how long a start may be overdue before it counts as stuck; 2 min.
	StartAge time.Duration
	// StepSlack is the time that an attempt may run beyond all its tries; 10 min.
	StepSlack time.Duration
	// NoWorkerAfter is the time without a poll after which a queue with waiting tasks counts as unserved; 5 min.
	NoWorkerAfter time.Duration
	// StopWithin is how long the engine may take to carry out a stop before the Reconciler ends the run; 2 min.
	StopWithin time.Duration
	// PauseDrain is how long a paused run may drain before people are told; 5 min (contract R116).
	PauseDrain time.Duration
	// Heartbeat is the time without a heartbeat after which the engine gives an attempt up; 30 s.
	Heartbeat time.Duration
	// RecoverEvery is the time between two looks at a run in which something hangs; 1 min.
	RecoverEvery time.Duration
	// Batch is the number of quiet runs that one round checks; 500.
	Batch int
}

// WithDefaults returns c with the defaults in place of zero fields.
func (c ReconcileSettings) WithDefaults() ReconcileSettings {
	def := func(d *time.Duration, v time.Duration) {
		if *d <= 0 {
			*d = v
		}
	}
	def(&c.Interval, 5*time.Second)
	def(&c.Quiet, 30*time.Second)
	def(&c.Confirm, 5*time.Second)
	def(&c.StartAge, 2*time.Minute)
	def(&c.StepSlack, 10*time.Minute)
	def(&c.NoWorkerAfter, 5*time.Minute)
	def(&c.StopWithin, 2*time.Minute)
	def(&c.PauseDrain, 5*time.Minute)
	def(&c.Heartbeat, 30*time.Second)
	def(&c.RecoverEvery, time.Minute)
	if c.Batch <= 0 || c.Batch > store.MaxPage {
		c.Batch = 500
	}
	return c
}

// Kinds of findings. They are labels of metrics.
const (
	workflowGone    = "workflow_gone"    // the execution ended, the run did not
	workflowMissing = "workflow_missing" // the engine does not know a run that was handed to it
	// workflowForeign is an execution that dvt did not start and that holds the id of a run.
	workflowForeign  = "workflow_foreign"
	workflowLeftover = "workflow_leftover" // an execution of a run that has ended
	stopUnanswered   = "stop_unanswered"   // a stop that the engine has not carried out in time
	startStuck       = "start_stuck"       // a queued start that no dispatcher takes
	stepStuck        = "step_stuck"        // an attempt that runs for longer than all its tries may take
	stepStray        = "step_stray"        // an attempt that is RUNNING in the log but that the engine does not execute
	logRegressed     = "log_regressed"     // the engine knows later events than the log has
	noWorker         = "no_worker"         // a queue with waiting runs that no worker serves
	pauseDrains      = "pause_drains"      // a paused run whose attempts have not ended in time
	attemptHung      = "attempt_hung"      // an attempt whose worker or engine is silent
	runOverdue       = "run_overdue"       // a run that takes much longer than those of its plan
	runMayBeLate     = "run_may_be_late"   // a run that will probably miss its deadline
	runLate          = "run_late"          // a run that has missed its deadline
	runLateWarned    = "run_late_warned"   // the same, of a run with a warning before
	failuresHigh     = "failures_high"     // a type of step that fails more often than usual
)

// Actions of the Reconciler. They are labels of metrics.
const (
	didFail      = "failed"    // the run ended with RunFailed
	didCancel    = "cancelled" // the run ended by its open stop
	didRestart   = "restarted"
	didWake      = "woken"
	didEscalate  = "escalated"  // an alert was raised
	didTerminate = "terminated" // the execution was ended in the engine
	didRetry     = "retried"    // a hung attempt was retried
)

// Limits of the Reconciler.
const (
	maxSuspects    = 10000
	maxClosed      = 1000            // closed executions that one round reads
	maxForgotten   = 10              // with more lost runs than this and than known ones, doubt the engine
	closedOverlap  = 2 * time.Minute // overlap of two reads of the closed executions
	closedAtFirst  = time.Hour       // how far back the first read goes
	regressedPause = time.Minute     // before a doubtful run is checked again
)

// reconcilableEngine is the set of engine interfaces that a Reconciler needs.
type reconcilableEngine interface {
	engine.Engine
	engine.Census
	engine.Historian
	engine.Debugger
}

// Reconcile looks for runs, starts and queues that have stopped making progress, until ctx ends. It repairs them or
// raises an alert with the reason (contract T99, T166, T192):
//
//   - An execution that ended while its run did not (found within a minute, contract E-16), and a run that the engine
//     does not know: the open stop of the run is completed, else the run fails with ENGINE_TERMINATED or ENGINE_LOST. A
//     run that never began is started again. Two checks must agree, and the log must not have moved between them.
//   - An execution under a run's id that dvt did not start: it is ended, and the run is treated like one whose
//     execution ended.
//   - A stop that the engine has not carried out within StopWithin: the run is ended in the store, even if the engine
//     does not answer, and its execution when the engine answers.
//   - An open execution of a run that has ended: it is ended.
//   - A start that is overdue: its lease is ended and the dispatchers are woken.
//   - A run that waited longer than its TTL: it fails with QUEUE_TTL_EXCEEDED (contract T131).
//   - A queue with waiting runs that no worker serves: an alert is raised, if the engine implements engine.Pollers.
//   - An attempt that runs for longer than all its tries may take: it fails when the engine does not execute it, else
//     an alert is raised. PAUSED runs and steps that wait for a person are skipped (contract H06).
//   - A paused run whose attempts have not ended within PauseDrain: an alert is raised, also when no RESUME came.
//   - An attempt that hangs, a run that takes much longer than usual, and steps that fail more often than usual: an
//     alert is raised. With RecoveryAct a hung attempt is retried once, and the run ends when it hangs again
//     (contract H06).
//   - A run that will miss the deadline of its plan, or has missed it: an alert is raised.
//   - An attempt of a stopping run that the engine does not execute: it ends, so that the run can end.
//
// An engine that does not answer causes no finding. A run whose log is shorter than the engine knows is never ended,
// because the store was restored from an older state and needs repair (contract T194). Any number of servers may
// reconcile: every repair happens once, under the head lock of the run. The cost depends on the number of open quiet
// runs, not on the number of all runs. Reconcile returns an error when the engine cannot list its executions.
func (s *Reconciler) Reconcile(ctx context.Context) error {
	target, ok := s.stopper.Engine.(reconcilableEngine)
	if !ok {
		return errors.New("control: this engine cannot list its executions, so its runs cannot be reconciled")
	}
	w := &pass{
		s: s, engine: target, cfg: s.help.Settings.WithDefaults(), metrics: s.help.Metrics,
		suspects: map[string]*suspect{}, strays: map[string]stray{},
		silentQueues: map[string]*silentQueue{}, hung: map[string]int{}, hungDue: map[string]time.Time{},
		usual: control.NewLRU[usualRuns](maxUsualPlans), hungSince: map[string]time.Time{},
		deadlineDue: map[string]time.Time{}, warned: map[string]bool{},
	}
	w.rules = DefaultHungRules(w.cfg.Heartbeat)
	var stops sync.WaitGroup
	defer stops.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stops.Go(func() {
		_ = s.background.Panics.Loop(ctx, control.DutyReconcile, (&stopLoop{w: w}).run)
	})
	return w.run(ctx)
}

// ReconcileMetrics count the actions and the open findings of a Reconciler.
type ReconcileMetrics struct {
	done *prometheus.CounterVec
	open *prometheus.GaugeVec
}

// NewReconcileMetrics registers the metrics of the Reconciler with r.
func NewReconcileMetrics(r prometheus.Registerer) ReconcileMetrics {
	register := promauto.With(r)
	m := ReconcileMetrics{
		done: register.NewCounterVec(prometheus.CounterOpts{
			Name: "dvt_swept_total", Help: "Actions of the reconciler on runs, starts and queues without progress.",
		}, []string{"kind", "action"}),
		open: register.NewGaugeVec(prometheus.GaugeOpts{
			Name: "dvt_sweep_open", Help: "Findings of this server's reconciler that are not repaired yet.",
		}, []string{"kind"}),
	}
	for _, kind := range []string{
		workflowGone, workflowMissing, workflowForeign, stopUnanswered, startStuck, stepStuck, logRegressed, noWorker,
		pauseDrains, attemptHung, runOverdue, failuresHigh,
	} {
		m.open.WithLabelValues(kind)
	}
	return m
}

// pass is the state of one Reconcile call. One goroutine uses it; stopLoop runs beside it.
type pass struct {
	s       *Reconciler
	engine  reconcilableEngine
	cfg     ReconcileSettings
	metrics ReconcileMetrics

	closedUpTo time.Time // start of the newest read of the closed executions
	cursor     string    // position in the list of quiet runs
	suspects   map[string]*suspect
	asOf       time.Time // the store's time at the newest check of suspects
	strays     map[string]stray
	known      int // quiet runs of the last cycle that the engine executes
	knows      int // the same in this cycle so far
	stuck      int // stuck steps found in this cycle
	draining   int // paused runs found in this cycle that drain for too long

	runningPage string // next page of the engine's open executions

	cycle        int // number of completed cycles through the quiet runs
	silentQueues map[string]*silentQueue

	rules        HungRules
	hung         map[string]int                // findings of this cycle, by kind
	hungDue      map[string]time.Time          // next look at runs with findings
	hungSince    map[string]time.Time          // when findings were made first, by run, step and attempt
	hungLooks    int                           // runs that this round asked the engine about
	usual        *lru.Cache[string, usualRuns] // by plan
	deadlinePage string                        // cursor of checkDeadlines
	deadlineDue  map[string]time.Time          // next look at runs with a deadline
	warned       map[string]bool               // runs with a warning that this server found
	// usualReads is the number of plans whose earlier runs this round has read.
	usualReads int
}

// suspect is a run that at least one check has doubts about.
type suspect struct {
	id    run.Identity
	kind  string // "" before the first look
	head  run.Seq
	since time.Time // time of the first check with this finding
	next  time.Time // time of the next check
}

func (w *pass) run(ctx context.Context) error {
	tick := time.NewTicker(w.cfg.Interval)
	defer tick.Stop()
	for {
		for _, look := range []func(context.Context) error{
			w.checkWaiting, w.checkClosed, w.checkQuiet, w.checkSilentQueues, w.checkStarts, w.checkSuspects,
			w.checkLeftovers, w.checkDeadlines, w.checkFailures, w.openIncidents, w.checkAlerts,
		} {
			if err := look(ctx); err != nil && ctx.Err() == nil && !errors.Is(err, control.ErrSetAside) &&
				!errors.Is(err, store.ErrUnavailable) && !errors.Is(err, engine.ErrUnavailable) {
				w.s.background.Log.WarnContext(ctx, "a check of the reconciler failed; the next round tries again",
					slog.Any("error", err))
			}
		}
		w.count()
		w.s.background.Beats.Mark(control.DutyReconcile)
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// count updates the gauges of open findings.
func (w *pass) count() {
	n := map[string]int{workflowGone: 0, workflowMissing: 0, workflowForeign: 0, logRegressed: 0}
	for _, x := range w.suspects {
		if x.kind != "" {
			n[x.kind]++
		}
	}
	for kind, count := range n {
		w.metrics.open.WithLabelValues(kind).Set(float64(count))
	}
}

// suspect adds a run to those that the next round checks.
func (w *pass) suspect(id run.Identity) {
	if w.suspects[id.RunID] == nil && len(w.suspects) < maxSuspects {
		w.suspects[id.RunID] = &suspect{id: id}
	}
}

// checkClosed suspects open runs whose execution ended recently. It makes one query to the engine and one to the
// heads.
func (w *pass) checkClosed(ctx context.Context) error {
	began := w.s.background.Now()
	since := w.closedUpTo.Add(-closedOverlap)
	if w.closedUpTo.IsZero() {
		since = began.Add(-closedAtFirst)
	}
	found := map[string]run.Identity{}
	var ids []string
	for d, err := range w.engine.ListClosed(ctx, since) {
		if err != nil {
			return err
		}
		if _, again := found[d.Identity.RunID]; !again {
			found[d.Identity.RunID] = d.Identity
			ids = append(ids, d.Identity.RunID)
		}
		if len(ids) == maxClosed {
			break // checkQuiet finds the rest
		}
	}
	if len(ids) > 0 {
		heads, err := w.s.runs.Heads(ctx, ids)
		if err != nil {
			return err
		}
		for id, h := range heads.ByRun {
			if h.Terminal {
				continue
			}
			r, err := w.s.runs.Get(ctx, id)
			if err != nil {
				return err
			}
			if r.TenantID == found[id].TenantID { // a forged execution may name the run of another tenant
				w.suspect(r.Identity)
			}
		}
	}
	w.closedUpTo = began
	return nil
}

// checkQuiet reads the next page of open runs whose log has not moved, and suspects those that the engine's index does
// not list as open.
func (w *pass) checkQuiet(ctx context.Context) error {
	w.hungLooks, w.usualReads = 0, 0
	rows, err := w.s.runs.ListQuietRuns(ctx, w.cfg.Quiet, w.cursor, w.cfg.Batch)
	if err != nil {
		return err
	}
	broken := w.checkDrains(ctx, rows)
	if broken != nil && control.IsOutage(ctx, broken) {
		return broken
	}
	var handed []store.QuietRun
	for _, r := range rows {
		// The engine does not have a pending start yet. A run without a queue row was never given to an engine by this
		// store, so it must not be ended here.
		if r.Queue != store.QueuePending && r.Queue != store.QueueLocked && r.Queue != "" {
			handed = append(handed, r)
		}
	}
	for len(handed) > 0 {
		part := handed[:min(len(handed), engine.MaxCensus)]
		handed = handed[len(part):]
		ids := make([]run.Identity, len(part))
		for i, r := range part {
			ids[i] = r.Identity
		}
		open, err := w.engine.FindOpen(ctx, ids)
		if err != nil {
			return err
		}
		err = control.ForEach(ctx, part, func(r store.QuietRun) error {
			if !open[r.RunID] {
				w.suspect(r.Identity)
				return nil
			}
			w.knows++
			return w.s.background.DoForRun(ctx, control.DutyReconcile, r.RunID, func() error {
				return cmp.Or(w.checkStrays(ctx, r), w.checkSteps(ctx, r), w.checkQueues(ctx, r), w.checkHung(ctx, r))
			})
		})
		if err != nil && control.IsOutage(ctx, err) {
			return err // the next round reads the page again
		}
		broken = cmp.Or(broken, err)
	}
	if len(rows) < w.cfg.Batch { // the end of the cycle
		w.metrics.open.WithLabelValues(stepStuck).Set(float64(w.stuck))
		w.metrics.open.WithLabelValues(pauseDrains).Set(float64(w.draining))
		for _, kind := range []string{attemptHung, runOverdue} {
			w.metrics.open.WithLabelValues(kind).Set(float64(w.hung[kind]))
		}
		clear(w.hung)
		if len(w.hungSince) > maxSuspects {
			clear(w.hungSince) // the store knows the times
		}
		maps.DeleteFunc(w.hungDue, func(_ string, due time.Time) bool { return !w.s.background.Now().Before(due) })
		w.cursor, w.stuck, w.draining, w.known, w.knows = "", 0, 0, w.knows, 0
		w.cycle++
		return broken
	}
	w.cursor = rows[len(rows)-1].RunID
	return broken
}

// done logs and counts an action on a finding.
func (w *pass) done(ctx context.Context, runID, kind, action, why string) {
	w.metrics.done.WithLabelValues(kind, action).Inc()
	w.s.background.Log.WarnContext(ctx, "the reconciler acted on something that makes no progress",
		slog.String("runId", runID), slog.String("kind", kind), slog.String("action", action), slog.String("why", why))
}
