package projector

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/dvt-engine/dvt/live"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// Alerts are the values of projector_alerts_total (contract DD-30).
const (
	alertLag           = "PROJECTOR_LAG_HIGH"
	alertCausal        = string(run.CodeCausalViolation)
	alertNonContiguous = "PROJECTOR_NON_CONTIGUOUS_FETCH_DETECTED"
	alertDelivery      = "EVENT_BUS_DELIVERY_FAILED"
)

// severities are the levels of the alerts, in the log and in the metric.
var severities = map[string]string{ //nolint:gochecknoglobals // a table
	alertLag: "P2", alertCausal: "P3", alertNonContiguous: "P2", alertDelivery: "P1",
}

// monitor records the metrics of a projector and raises its alerts. Safe for concurrent use.
type monitor struct {
	cfg         Config
	failures    prometheus.Counter
	deadLetters prometheus.Counter
	latencies   prometheus.Histogram
	alerts      *prometheus.CounterVec
	record      recordMeter

	mu          sync.Mutex
	worst       time.Duration // the largest lag since the last sweep
	shown       time.Duration // the largest lag before it
	high        bool          // the alert was raised and continues
	quietSweeps int           // sweeps without a high lag
}

func newMonitor(cfg Config, breaker func() BreakerState) *monitor {
	bus := prometheus.Labels{"bus": cfg.BusName}
	w := &monitor{
		cfg: cfg,
		failures: prometheus.NewCounter(prometheus.CounterOpts{Name: "eventbus_publish_failures_total", ConstLabels: bus,
			Help: "Messages that the bus refused or could not take."}),
		deadLetters: prometheus.NewCounter(prometheus.CounterOpts{Name: "eventbus_dead_letters_total", ConstLabels: bus,
			Help: "Messages that became dead letters after too many refusals."}),
		latencies: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "engine_event_latency_seconds",
			Help:    "Time from the commit of an event until the bus has it, for the oldest event of each message.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 60, 300}}),
		alerts: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "projector_alerts_total",
			Help: "Alerts, by name and severity."},
			[]string{"alert", "severity"}),
		record: newRecordMeter(),
	}
	for _, name := range []string{alertLag, alertCausal, alertNonContiguous, alertDelivery} {
		w.alerts.WithLabelValues(name, severities[name])
	}
	if cfg.Metrics == nil {
		return w
	}
	state := func(is BreakerState) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "eventbus_breaker_state",
			ConstLabels: prometheus.Labels{"bus": cfg.BusName, "state": string(is)},
			Help:        "1 for the current state of the breaker."},
			func() float64 {
				if breaker() == is {
					return 1
				}
				return 0
			})
	}
	cfg.Metrics.MustRegister(w.record.collectors()...)
	cfg.Metrics.MustRegister(w.failures, w.deadLetters, w.latencies, w.alerts, state(Closed), state(Open), state(HalfOpen),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "projector_lag_seconds",
			Help: "Age of the oldest event without a checkpoint at the last sweep; 0 if there is none."},
			func() float64 { return w.currentLag().Seconds() }))
	return w
}

func (w *monitor) count(alert string) { w.alerts.WithLabelValues(alert, severities[alert]).Inc() }

func (w *monitor) countFailure() { w.failures.Inc() }

// observePublished records a message that the bus accepted: how old its oldest event is, and what it says that ended.
func (w *monitor) observePublished(m live.Message, age time.Duration) {
	observeOf(w.latencies, age.Seconds(), m.RunID)
	if m.Delta != nil {
		w.record.observe(*m.Delta)
	}
}

func (w *monitor) reportAnomaly(runID string, a run.Anomaly) {
	w.count(alertCausal)
	w.cfg.Logger.Info(alertCausal, slog.String("severity", severities[alertCausal]), slog.String("runId", runID),
		slog.Int64("runSeq", int64(a.Seq)),
		slog.String("code", string(a.Code)), slog.String("detail", a.Detail))
	if w.cfg.OnAnomaly != nil {
		w.cfg.OnAnomaly(runID, a)
	}
	w.alert(runID, run.CodeCausalViolation, a.Detail)
}

// checkContiguous looks for holes in the events read after a position. Holes are valid (contract T25); only imported
// logs have them.
func (w *monitor) checkContiguous(runID string, after run.Seq, evs []run.Event) {
	for _, e := range evs {
		if e.Seq != after+1 {
			w.count(alertNonContiguous)
			w.cfg.Logger.Warn(alertNonContiguous, slog.String("severity", severities[alertNonContiguous]),
				slog.String("runId", runID), slog.Int64("after", int64(after)), slog.Int64("runSeq", int64(e.Seq)))
			return
		}
		after = e.Seq
	}
}

// reportDeadLetter raises the alert for a message that became a dead letter (contract R102).
func (w *monitor) reportDeadLetter(ctx context.Context, m live.Message, r store.Refusal, cause string) {
	w.deadLetters.Inc()
	w.count(alertDelivery)
	w.cfg.Logger.ErrorContext(ctx, alertDelivery, slog.String("severity", severities[alertDelivery]),
		slog.String("runId", m.RunID), slog.Int64("fromSeq", int64(m.From)), slog.Int64("toSeq", int64(r.Upto)),
		slog.Int("attempts", r.Attempts), slog.String("cause", cause))
	w.alert(m.RunID, run.CodeDeliveryFailed, cause)
}

// alert passes a finding to those who tell people.
func (w *monitor) alert(runID string, code run.Code, why string) {
	if w.cfg.OnAlert != nil {
		w.cfg.OnAlert(runID, code, why)
	}
}

// observeLag records the age of the first event of a run without a checkpoint. Above LagHigh it raises an alert, and
// again only after more than idleSweeps sweeps without one (contract P15, T34).
func (w *monitor) observeLag(runID string, age time.Duration) {
	if age > w.cfg.LagHigh {
		w.alert("", run.CodeLagHigh, fmt.Sprintf("An event of run %s has waited %s for its view.", runID,
			plan.DurationWords(age)))
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.worst = max(w.worst, age)
	if age <= w.cfg.LagHigh {
		return
	}
	if w.quietSweeps = 0; w.high {
		return
	}
	w.high = true
	w.count(alertLag)
	w.cfg.Logger.Warn(alertLag, slog.String("severity", severities[alertLag]), slog.String("runId", runID),
		slog.Duration("lag", age))
}

// endSweep is called by every sweep.
func (w *monitor) endSweep() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.quietSweeps++; w.quietSweeps > idleSweeps {
		w.high = false
	}
	w.shown, w.worst = w.worst, 0
}

func (w *monitor) currentLag() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return max(w.shown, w.worst)
}
