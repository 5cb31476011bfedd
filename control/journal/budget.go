package journal

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/store"
)

const (
	defaultWriteBudget = 3 * time.Second
	// More than alertTimeouts within alertSpan raise the alert, at most once in each span (contract B06).
	alertTimeouts = 10
	alertSpan     = time.Minute
	// forgetAfter is the time without a try after which another process has probably taken the write over. It is longer
	// than the engine's pause between two tries.
	forgetAfter = time.Minute
	// maxWaiting bounds the writes whose tries are remembered. The gauge does not count further ones.
	maxWaiting = 10000
)

// writes enforces the write budget of a Journal and measures writes (contract T120, R376, R378). It is safe for
// concurrent use.
type writes struct {
	budget time.Duration
	log    *slog.Logger
	now    func() time.Time

	latency, took        prometheus.Histogram // the same, in milliseconds and in seconds
	timeouts, mismatches prometheus.Counter
	signals              prometheus.Histogram
	skew                 prometheus.Histogram

	mu      sync.Mutex
	waiting map[string]*waiting
	late    []time.Time // times of the newest timeouts, at most alertTimeouts+1
	alerted time.Time
}

// write is one try of a write.
type write struct {
	key     string // the same for every try of the same write
	events  int
	bounded bool // give up after the budget
}

// waiting is a write that was tried but is not confirmed.
type waiting struct {
	events      int
	since, last time.Time // times of the first and the newest try
}

func newWrites(cfg Config) *writes {
	w := &writes{budget: cfg.WriteBudget, log: cfg.Logger, now: cfg.Now, waiting: map[string]*waiting{}}
	if w.budget <= 0 {
		w.budget = defaultWriteBudget
	}
	if w.log == nil {
		w.log = slog.New(slog.DiscardHandler)
	}
	if w.now == nil {
		w.now = time.Now
	}
	register := promauto.With(cfg.Metrics)
	w.latency = register.NewHistogram(prometheus.HistogramOpts{
		Name: "state_store_write_latency_ms", Help: "Milliseconds that one write of a run or a worker to the log took, " +
			"answered or not.",
		Buckets: []float64{1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 3000, 5000, 10000},
	})
	w.took = register.NewHistogram(prometheus.HistogramOpts{
		Name: "state_store_write_duration_seconds", Help: "Time that one write of a run or a worker to the log took, " +
			"answered or not.",
		Buckets: []float64{.001, .002, .005, .01, .02, .05, .1, .2, .5, 1, 2, 3, 5, 10},
	})
	w.signals = register.NewHistogram(prometheus.HistogramOpts{
		Name: "engine_signal_latency_seconds", Help: "Time from the acceptance of a signal until the engine answered " +
			"it. Signals that are applied when they are accepted are not counted.",
		Buckets: []float64{.01, .025, .05, .1, .25, .5, 1, 2, 5, 10, 30, 60, 300},
	})
	w.skew = register.NewHistogram(prometheus.HistogramOpts{
		Name: "engine_event_clock_skew_seconds", Help: "Difference between the clock of the producer of an event, when it " +
			"emitted the event, and the clock of the store, when it saved it.",
		Buckets: []float64{.01, .1, .5, 1, 2, 5, 10, 30, 60},
	})
	w.timeouts = register.NewCounter(prometheus.CounterOpts{
		Name: "state_store_write_timeouts_total", Help: "Writes to the log that took longer than the write budget.",
	})
	w.mismatches = register.NewCounter(prometheus.CounterOpts{
		Name: "append_payload_mismatch_total",
		Help: "Events that were repeated with another payload; the first one stays.",
	})
	for _, name := range []string{"state_store_buffered_events_total", "state_store_buffered_events"} {
		register.NewGaugeFunc(prometheus.GaugeOpts{
			Name: name, Help: "Events whose confirmation is outstanding for longer than the write budget.",
		}, w.bufferedEvents)
	}
	register.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "state_store_queue_depth", Help: "Events whose confirmation is outstanding.",
	}, w.outstandingEvents)
	return w
}

// do makes one try of a write. A bounded try ends after the budget; its error is then engine.ErrUnanswered.
func (w *writes) do(ctx context.Context, what write, f func(context.Context) error) error {
	began := w.now()
	w.noteTry(what, began)
	trying, cancel := ctx, context.CancelFunc(func() {})
	if what.bounded {
		trying, cancel = context.WithTimeoutCause(ctx, w.budget, engine.ErrUnanswered)
	}
	err := f(trying)
	over := errors.Is(context.Cause(trying), engine.ErrUnanswered)
	cancel()
	took := w.now().Sub(began)
	w.latency.Observe(float64(took) / float64(time.Millisecond))
	w.took.Observe(took.Seconds())
	if over || took > w.budget {
		w.timeout(ctx, what, took)
	}
	if !isRetried(err) {
		w.noteAnswer(what)
		return err
	}
	if over {
		return fmt.Errorf("%w: %w", engine.ErrUnanswered, err)
	}
	return err
}

// isRetried reports whether the engine tries a write with this error again.
func isRetried(err error) bool {
	for _, again := range []error{store.ErrUnavailable, store.ErrOverloaded, engine.ErrUnanswered,
		context.DeadlineExceeded, context.Canceled} {
		if errors.Is(err, again) {
			return true
		}
	}
	return false
}

func (w *writes) noteTry(what write, at time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if known := w.waiting[what.key]; known != nil {
		known.events, known.last = what.events, at
		return
	}
	if len(w.waiting) >= maxWaiting {
		w.forget(at)
	}
	if len(w.waiting) < maxWaiting {
		w.waiting[what.key] = &waiting{events: what.events, since: at, last: at}
	}
}

func (w *writes) noteAnswer(what write) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.waiting, what.key)
}

// forget drops the writes that this process no longer tries.
func (w *writes) forget(now time.Time) {
	maps.DeleteFunc(w.waiting, func(_ string, x *waiting) bool { return now.Sub(x.last) > forgetAfter })
}

// bufferedEvents returns the number of events that have waited for longer than the budget.
func (w *writes) bufferedEvents() float64 {
	return w.countEvents(func(age time.Duration) bool { return age > w.budget })
}

// outstandingEvents returns the number of events whose writes are not confirmed.
func (w *writes) outstandingEvents() float64 {
	return w.countEvents(func(time.Duration) bool { return true })
}

// countEvents returns the number of events of the unconfirmed writes whose age counts.
func (w *writes) countEvents(counts func(age time.Duration) bool) float64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	n, now := 0, w.now()
	w.forget(now)
	for _, x := range w.waiting {
		if counts(now.Sub(x.since)) {
			n += x.events
		}
	}
	return float64(n)
}

// timeout counts and logs a write that took too long, and logs the alert when there were too many.
func (w *writes) timeout(ctx context.Context, what write, took time.Duration) {
	w.timeouts.Inc()
	w.log.LogAttrs(ctx, slog.LevelWarn, "the store did not confirm a write in time",
		slog.String("write", what.key), slog.Int("events", what.events), slog.Duration("took", took),
		slog.Duration("budget", w.budget))
	w.mu.Lock()
	now := w.now()
	w.late = append(w.late, now)
	if len(w.late) > alertTimeouts+1 {
		w.late = w.late[1:]
	}
	alert := len(w.late) > alertTimeouts && now.Sub(w.late[0]) <= alertSpan && (w.alerted.IsZero() ||
		now.Sub(w.alerted) > alertSpan)
	if alert {
		w.alerted = now
	}
	w.mu.Unlock()
	if alert {
		w.log.LogAttrs(ctx, slog.LevelError, "alert", slog.String("alert", "STATE_STORE_WRITE_TIMEOUTS"),
			slog.String("why", fmt.Sprintf("more than %d writes in %s took longer than the write budget of %s", alertTimeouts,
				plan.DurationWords(alertSpan), plan.DurationWords(w.budget))))
	}
}

// compare measures the clocks of new events. It counts and logs events that were repeated with another payload. The
// first payload stays in the log (contract T15, A04).
func (w *writes) compare(ctx context.Context, a store.Append, out store.Appended) {
	for i, o := range out.Outcomes {
		if !o.Deduplicated && o.Refused == "" && !o.PersistedAt.IsZero() {
			w.skew.Observe(o.PersistedAt.Sub(o.EmittedAt).Abs().Seconds())
		}
		if !o.PayloadMismatch {
			continue
		}
		w.mismatches.Inc()
		w.log.LogAttrs(ctx, slog.LevelWarn, "an event was repeated with another payload", slog.String("runId", a.RunID),
			slog.Int64("runSeq", int64(o.Seq)), slog.String("eventType", string(a.Events[i].Type)),
			slog.String("stepId", a.Events[i].StepID), slog.String("attemptId", fmt.Sprintf("%d.%d",
				a.Events[i].LogicalAttempt, a.Events[i].EngineAttempt)))
	}
}
