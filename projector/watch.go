package projector

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/dvt-engine/dvt/live"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// Alerts: the values of projector_alerts_total (DD-30).
const (
	alertLag           = "PROJECTOR_LAG_HIGH"
	alertCausal        = string(run.CodeCausalViolation)
	alertNonContiguous = "PROJECTOR_NON_CONTIGUOUS_FETCH_DETECTED"
	alertDelivery      = "EVENT_BUS_DELIVERY_FAILED"
)

// watch measures a projector and raises its alerts.
type watch struct {
	cfg       Config
	failures  prometheus.Counter
	dead      prometheus.Counter
	latencies prometheus.Histogram
	alerts    *prometheus.CounterVec

	mu    sync.Mutex
	worst time.Duration // lag since the last settle
	shown time.Duration // and before it
	high  bool          // the alert was raised and lasts
	calm  int           // sweeps since there was reason for it
}

func newWatch(cfg Config, breaker func() BreakerState) *watch {
	bus := prometheus.Labels{"bus": cfg.BusName}
	w := &watch{
		cfg: cfg,
		failures: prometheus.NewCounter(prometheus.CounterOpts{Name: "eventbus_publish_failures_total", ConstLabels: bus,
			Help: "Messages that the bus refused or could not take."}),
		dead: prometheus.NewCounter(prometheus.CounterOpts{Name: "eventbus_dead_letters_total", ConstLabels: bus,
			Help: "Messages that were given up after too many refusals."}),
		latencies: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "engine_event_latency_seconds",
			Help:    "From the commit of an event until the bus has it, for the oldest event of each message.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 60, 300}}),
		alerts: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "projector_alerts_total", Help: "Alerts, by name."},
			[]string{"alert"}),
	}
	for _, name := range []string{alertLag, alertCausal, alertNonContiguous, alertDelivery} {
		w.alerts.WithLabelValues(name)
	}
	if cfg.Metrics == nil {
		return w
	}
	state := func(is BreakerState) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "eventbus_breaker_state",
			ConstLabels: prometheus.Labels{"bus": cfg.BusName, "state": string(is)},
			Help:        "1 for the state that the breaker is in."},
			func() float64 {
				if breaker() == is {
					return 1
				}
				return 0
			})
	}
	cfg.Metrics.MustRegister(w.failures, w.dead, w.latencies, w.alerts, state(Closed), state(Open), state(HalfOpen),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "projector_lag_seconds",
			Help: "Age of the oldest event that no checkpoint had when it was last looked at; 0 when there is none."},
			func() float64 { return w.lagging().Seconds() }))
	return w
}

func (w *watch) failure() { w.failures.Inc() }

func (w *watch) latency(d time.Duration) { w.latencies.Observe(d.Seconds()) }

func (w *watch) anomaly(runID string, a run.Anomaly) {
	w.alerts.WithLabelValues(alertCausal).Inc()
	w.cfg.Logger.Info(alertCausal, slog.String("severity", "P3"), slog.String("runId", runID),
		slog.Int64("runSeq", int64(a.Seq)),
		slog.String("code", string(a.Code)), slog.String("detail", a.Detail))
	if w.cfg.OnAnomaly != nil {
		w.cfg.OnAnomaly(runID, a)
	}
}

// tail looks for holes in what was read after a seq. They are normal (T25), and
// only imported logs have them.
func (w *watch) tail(runID string, after run.Seq, evs []run.Event) {
	for _, e := range evs {
		if e.Seq != after+1 {
			w.alerts.WithLabelValues(alertNonContiguous).Inc()
			w.cfg.Logger.Warn(alertNonContiguous, slog.String("severity", "P2"), slog.String("runId", runID),
				slog.Int64("after", int64(after)), slog.Int64("runSeq", int64(e.Seq)))
			return
		}
		after = e.Seq
	}
}

// buried raises the alert of a message that was given up (R102).
func (w *watch) buried(ctx context.Context, m live.Message, r store.Refusal, cause string) {
	w.dead.Inc()
	w.alerts.WithLabelValues(alertDelivery).Inc()
	w.cfg.Logger.ErrorContext(ctx, alertDelivery, slog.String("severity", "P1"), slog.String("runId", m.RunID),
		slog.Int64("fromSeq", int64(m.From)), slog.Int64("toSeq", int64(r.Upto)), slog.Int("attempts", r.Attempts),
		slog.String("cause", cause))
}

// lag notes the age of the first event of a run that no checkpoint has. Above
// LagHigh it is an alert, once until there was none such for some sweeps (P15, T34).
func (w *watch) lag(runID string, age time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.worst = max(w.worst, age)
	if age <= w.cfg.LagHigh {
		return
	}
	if w.calm = 0; w.high {
		return
	}
	w.high = true
	w.alerts.WithLabelValues(alertLag).Inc()
	w.cfg.Logger.Warn(alertLag, slog.String("severity", "P2"), slog.String("runId", runID), slog.Duration("lag", age))
}

// settle is called by every sweep.
func (w *watch) settle() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.calm++; w.calm > idleSweeps {
		w.high = false
	}
	w.shown, w.worst = w.worst, 0
}

func (w *watch) lagging() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return max(w.shown, w.worst)
}
