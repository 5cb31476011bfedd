package duty

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

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

// ReconcileHelp is what a Sweeper asks beside the store and the engine.
type ReconcileHelp struct {
	Plans    *runs.PlanReader
	Pollers  *health.Pollers
	Settings ReconcileSettings
	Metrics  ReconcileMetrics
}

// DriftStore reads and ends runs whose log and engine disagree.
type DriftStore interface {
	Get(ctx context.Context, runID string) (store.Run, error)
	Heads(ctx context.Context, runIDs []string) (store.Heads, error)
	InRun(ctx context.Context, runID string, f func(tx store.RunTx) error) error
	Load(ctx context.Context, runID string) (store.Loaded, error)
	Quiet(ctx context.Context, quiet time.Duration, afterRunID string, limit int) ([]store.QuietRun, error)
	Audit(ctx context.Context, rows ...store.AuditRow) error
}

// OverdueStore lists runs that wait for too long.
type OverdueStore interface {
	Alerts(ctx context.Context, f store.AlertFilter) ([]store.Alert, error)
	ExpiredWaiting(ctx context.Context, limit int) ([]store.QueueRow, error)
	Stopping(ctx context.Context, age time.Duration, afterRunID string, limit int) ([]store.StoppingRun, error)
	StuckStarts(ctx context.Context, age time.Duration, limit int) ([]store.QueueRow, error)
}

// Reconciler finds runs whose log and engine disagree, and mends or reports them. It is safe for concurrent use.
type Reconciler struct {
	runs       DriftStore
	waits      OverdueStore
	stopper    *runs.Stopper
	background *control.Background
	admission  *admission.Admission
	help       ReconcileHelp
}

// NewReconciler makes a Sweeper.
func NewReconciler(runs DriftStore, waits OverdueStore, stopper *runs.Stopper, background *control.Background,
	admission *admission.Admission,
	help ReconcileHelp) *Reconciler {
	return &Reconciler{runs: runs, waits: waits, stopper: stopper, background: background, admission: admission,
		help: help}
}

// ReconcileSettings is how a sweep goes about; zero fields take the defaults named.
type ReconcileSettings struct {
	// Interval between two looks; 5 s.
	Interval time.Duration
	// Quiet is how long a run's log has stood still before the run is looked at; 30 s.
	Quiet time.Duration
	// Confirm is the time between the two looks that must agree before a run is
	// ended or started again; 5 s.
	Confirm time.Duration
	// StartAge is how long a start may be overdue; 2 min.
	StartAge time.Duration
	// StepSlack is what a step may take beyond all its tries; 10 min.
	StepSlack time.Duration
	// NoWorkerAfter is how long no worker may ask a queue for work that a run waits for; 5 min.
	NoWorkerAfter time.Duration
	// StopWithin is how long the engine may take to carry out a stop before the sweep ends the run; 2 min.
	StopWithin time.Duration
	// Batch is how many quiet runs one look takes; 500.
	Batch int
}

// WithDefaults returns c with the defaults of the fields that are zero.
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
	if c.Batch <= 0 || c.Batch > store.MaxPage {
		c.Batch = 500
	}
	return c
}

// What a sweep finds.
const (
	workflowGone    = "workflow_gone"    // the execution ended, the run did not
	workflowMissing = "workflow_missing" // the engine does not know a run that was handed to it
	// An execution that dvt did not start holds the id of a run.
	workflowForeign  = "workflow_foreign"
	workflowLeftover = "workflow_leftover" // an execution of a run that has ended
	stopUnanswered   = "stop_unanswered"   // a stop that the engine has not carried out in time
	startStuck       = "start_stuck"       // a queued start that nobody makes
	stepStuck        = "step_stuck"        // an attempt that runs for longer than all its tries may take
	stepStray        = "step_stray"        // an attempt that is RUNNING in the log and that the engine does not execute
	logRegressed     = "log_regressed"     // the engine knows more of the log than there is
	noWorker         = "no_worker"         // a queue that a run waits for and that no worker serves
)

// What a sweep does about it.
const (
	didFail      = "failed"    // the run, with RunFailed
	didCancel    = "cancelled" // the run, by the stop that was open
	didRestart   = "restarted"
	didWake      = "woken"
	didEscalate  = "escalated"  // people are told
	didTerminate = "terminated" // the execution, in the engine
)

// Bounds of a sweep.
const (
	maxSuspects    = 10000
	maxClosed      = 1000            // of the executions that one look at the closed ones takes
	maxForgotten   = 10              // runs that an engine may not know while it knows fewer than that
	closedOverlap  = 2 * time.Minute // by which two looks at the closed executions overlap
	closedAtFirst  = time.Hour       // that the first of them goes back
	regressedPause = time.Minute     // before a run whose log is too short is looked at again
)

// lookout is what a sweep asks of an engine.
type lookout interface {
	engine.Engine
	engine.Census
	engine.Historian
	engine.Debugger
}

// Reconcile finds what has come to stand still until ctx ends, says in words what is
// wrong, and heals it or tells people (T99, T166, T192):
//
//   - an execution that ended while its run did not, within a minute (E-16), and a
//     run that the engine does not know: the run's open stop is completed, else it
//     fails with ENGINE_TERMINATED or ENGINE_LOST; one that never began is started
//     again. Two looks must agree, with the log standing still between them;
//   - an execution under a run's id that dvt did not start: it is ended, and the run is treated as one whose execution
//     ended;
//   - a stop that the engine has not carried out within StopWithin: the run is ended in the store, whether the engine
//     answers or not, and its execution when it answers;
//   - an execution of a run that has ended: it is ended too;
//   - a start that is overdue: it is made due, and the reconcilers are woken;
//   - a run that waited longer than it may: it fails with QUEUE_TTL_EXCEEDED (T131);
//   - a queue that runs wait for and that no worker serves: people are told, where the
//     engine knows who serves a queue (engine.Pollers);
//   - an attempt that runs for longer than all its tries may take: it fails when the engine does not execute it,
//     else people are told. Runs that are PAUSED and steps that wait for a person are left alone (H06);
//   - an attempt of a run that is being stopped and that the engine does not execute: it ends, so that the run can.
//
// An engine that does not answer is no finding, and a run whose log is shorter than
// the engine knows is for repair, never ended (T194). Any number of servers may
// sweep: what is done is done under the head lock, once. Its price follows what is
// open and quiet, not what there ever was. An error says that the engine in use
// cannot be swept.
func (s *Reconciler) Reconcile(ctx context.Context) error {
	eye, ok := s.stopper.Engine.(lookout)
	if !ok {
		return errors.New("control: this engine gives no census, so its runs cannot be swept")
	}
	w := &pass{
		s: s, eye: eye, cfg: s.help.Settings.WithDefaults(), metrics: s.help.Metrics,
		suspects: map[string]*suspect{}, told: map[string]bool{}, strays: map[string]stray{},
		silentQueues: map[string]*silentQueue{},
	}
	var stops sync.WaitGroup
	defer stops.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stops.Go(func() {
		_ = s.background.Panics.Loop(ctx, control.DutySweep, (&stopLoop{w: w}).run)
	})
	return w.run(ctx)
}

// ReconcileMetrics count what the Reconciler did and what it left open.
type ReconcileMetrics struct {
	done *prometheus.CounterVec
	open *prometheus.GaugeVec
}

// NewReconcileMetrics registers the metrics of the Reconciler with r.
func NewReconcileMetrics(r prometheus.Registerer) ReconcileMetrics {
	register := promauto.With(r)
	m := ReconcileMetrics{
		done: register.NewCounterVec(prometheus.CounterOpts{
			Name: "dvt_swept_total", Help: "What sweeps did about runs, starts and steps that had come to stand still.",
		}, []string{"kind", "action"}),
		open: register.NewGaugeVec(prometheus.GaugeOpts{
			Name: "dvt_sweep_open", Help: "What sweeps of this server know to stand still and has not been healed.",
		}, []string{"kind"}),
	}
	for _, kind := range []string{
		workflowGone, workflowMissing, workflowForeign, stopUnanswered, startStuck, stepStuck, logRegressed, noWorker,
	} {
		m.open.WithLabelValues(kind)
	}
	return m
}

// pass is one sweep; it has one goroutine, and a stopSweep beside it.
type pass struct {
	s       *Reconciler
	eye     lookout
	cfg     ReconcileSettings
	metrics ReconcileMetrics

	closedUpTo time.Time // when the closed executions were looked at
	cursor     string    // in the list of quiet runs
	suspects   map[string]*suspect
	asOf       time.Time       // of the newest look at suspects, by the store's clock
	told       map[string]bool // escalations, by sweepID
	strays     map[string]stray
	known      int // quiet runs that the engine knows, of the last cycle
	knows      int // the same of this cycle, so far
	stuck      int // steps of this cycle that are stuck

	runningPage string // of the engine's open executions, where the next look goes on

	cycle        int // of looks at the quiet runs
	silentQueues map[string]*silentQueue
}

// suspect is a run about which one look found something.
type suspect struct {
	id    run.Identity
	kind  string // "" before the first look
	head  run.Seq
	since time.Time // of the first look that found this
	next  time.Time // not to be looked at before
}

func (w *pass) run(ctx context.Context) error {
	tick := time.NewTicker(w.cfg.Interval)
	defer tick.Stop()
	for {
		for _, look := range []func(context.Context) error{
			w.lookAtWaiting, w.lookAtClosed, w.lookAtQuiet, w.lookAtSilentQueues, w.lookAtStarts, w.lookAtSuspects,
			w.lookAtLeftovers,
		} {
			if err := look(ctx); err != nil && ctx.Err() == nil && !errors.Is(err, control.ErrSetAside) &&
				!errors.Is(err, store.ErrUnavailable) && !errors.Is(err, engine.ErrUnavailable) {
				w.s.background.Log.WarnContext(ctx, "sweep", slog.Any("error", err))
			}
		}
		w.count()
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// count says what is open.
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

// suspect marks a run to be looked at.
func (w *pass) suspect(id run.Identity) {
	if w.suspects[id.RunID] == nil && len(w.suspects) < maxSuspects {
		w.suspects[id.RunID] = &suspect{id: id}
	}
}

// lookAtClosed suspects the runs whose execution was ended lately and that have
// not: one list of the engine's, one read of heads.
func (w *pass) lookAtClosed(ctx context.Context) error {
	began := w.s.background.Now()
	since := w.closedUpTo.Add(-closedOverlap)
	if w.closedUpTo.IsZero() {
		since = began.Add(-closedAtFirst)
	}
	found := map[string]run.Identity{}
	var ids []string
	for d, err := range w.eye.Closed(ctx, since) {
		if err != nil {
			return err
		}
		if _, again := found[d.Identity.RunID]; !again {
			found[d.Identity.RunID] = d.Identity
			ids = append(ids, d.Identity.RunID)
		}
		if len(ids) == maxClosed {
			break // the rest is among the quiet ones
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
			if r.TenantID == found[id].TenantID { // else somebody's execution names the run of another tenant
				w.suspect(r.Identity)
			}
		}
	}
	w.closedUpTo = began
	return nil
}

// lookAtQuiet takes the next open runs whose log stands still, and suspects those
// that the engine's index does not show as open.
func (w *pass) lookAtQuiet(ctx context.Context) error {
	rows, err := w.s.runs.Quiet(ctx, w.cfg.Quiet, w.cursor, w.cfg.Batch)
	if err != nil {
		return err
	}
	var broken error
	var handed []store.QuietRun
	for _, r := range rows {
		// A start that waits is not the engine's yet; a run without a queue row was
		// never handed to an engine by this store, and is not ours to end.
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
		open, err := w.eye.Open(ctx, ids)
		if err != nil {
			return err
		}
		err = control.ForEach(ctx, part, func(r store.QuietRun) error {
			if !open[r.RunID] {
				w.suspect(r.Identity)
				return nil
			}
			w.knows++
			return w.s.background.DoForRun(ctx, control.DutySweep, r.RunID, func() error {
				return cmp.Or(w.lookAtStrays(ctx, r), w.lookAtSteps(ctx, r), w.lookAtQueues(ctx, r))
			})
		})
		if err != nil && control.IsOutage(ctx, err) {
			return err // they are looked at again
		}
		broken = cmp.Or(broken, err)
	}
	if len(rows) < w.cfg.Batch { // the end of the cycle
		w.metrics.open.WithLabelValues(stepStuck).Set(float64(w.stuck))
		w.cursor, w.stuck, w.known, w.knows = "", 0, w.knows, 0
		w.cycle++
		return broken
	}
	w.cursor = rows[len(rows)-1].RunID
	return broken
}

// done says what was done about a finding.
func (w *pass) done(ctx context.Context, runID, kind, action, why string) {
	w.metrics.done.WithLabelValues(kind, action).Inc()
	w.s.background.Log.WarnContext(ctx, "the sweep found something that stands still", slog.String("runId", runID),
		slog.String("kind", kind), slog.String("action", action), slog.String("why", why))
}
