// Package tracer exports the traces of all runs. It reads the feed, derives spans from the log of each run, and sends
// them to a receiver of OpenTelemetry. It observes runs and never delays them.
package tracer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/dvt-engine/dvt/internal/sizedlru"
	"github.com/dvt-engine/dvt/otlp"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/trace"
	"github.com/dvt-engine/dvt/store"
	"github.com/dvt-engine/dvt/store/feed"
)

// Limits of an Exporter.
const (
	// MaxBatch is the most spans of one request.
	MaxBatch = 512
	// A server that died is replaced when its lease expires.
	leaseTTL = 12 * time.Second
	// renewEvery is the time between two saves of the position, and the longest wait before a request is repeated: both
	// extend the lease.
	renewEvery = leaseTTL / 4
	// idle is the time between two looks at the feed. A look costs three queries, however little it finds.
	idle      = 2 * time.Second
	firstWait = 200 * time.Millisecond // before a request is repeated
	sendTime  = leaseTTL / 2           // of one request, whatever OTEL_EXPORTER_OTLP_TIMEOUT says
	// maxWeight bounds the steps and signals of the runs that are kept in memory. The log of another run is read again
	// from its begin.
	maxWeight = 300_000
)

// cursorName is the name of the position in the store.
const cursorName = "trace"

// Store is the part of a store that an Exporter needs.
type Store interface {
	feed.Store
	store.Cursors
	Get(ctx context.Context, runID string) (store.Run, error)
	Events(ctx context.Context, runID string, after run.Seq, limit int) ([]run.Event, error)
}

// Sender sends spans in one request, and without spans asks whether the receiver accepts requests. A *otlp.RefusedError
// says that a repetition is of no use.
type Sender interface {
	Send(ctx context.Context, spans []trace.Span) error
}

// Config contains the dependencies and settings of an Exporter.
type Config struct {
	Store  Store
	Sender Sender
	Owner  string  // of leases: names this process
	Ratio  float64 // of the runs whose traces are exported, from 0 to 1; runs with failures are exported always
	// Now is the time of the store, which stamps events. nil means time.Now, for a store on this machine.
	Now func() time.Time
	// Metrics and Logger may be nil.
	Metrics prometheus.Registerer
	Logger  *slog.Logger
}

// Exporter sends the finished spans of every run at least once. Any number of processes may run one: a lease in the
// store lets one work at a time. Create it with New.
type Exporter struct {
	cfg      Config
	log      *slog.Logger
	metrics  *metrics
	builders *sizedlru.Cache[*trace.Builder]
	down     bool // the receiver did not answer the last request
	accepted bool // the receiver has accepted a request
}

// New returns an exporter and registers its metrics.
func New(cfg Config) *Exporter {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	x := &Exporter{cfg: cfg, log: cfg.Logger, metrics: newMetrics(cfg.Metrics, cfg.Now)}
	if x.log == nil {
		x.log = slog.New(slog.DiscardHandler)
	}
	return x
}

// errLeaseLost says that another process exports now.
var errLeaseLost = errors.New("tracer: the lease was lost")

// Run exports until ctx ends. It waits while another process holds the lease, while the store fails and while the
// receiver fails.
func (x *Exporter) Run(ctx context.Context) error {
	failing := false
	for ctx.Err() == nil {
		began := time.Now()
		c, err := x.cfg.Store.LeaseCursor(ctx, cursorName, x.cfg.Owner, leaseTTL)
		if err == nil {
			err = x.export(ctx, c)
		}
		switch {
		case err == nil, errors.Is(err, store.ErrConflict), errors.Is(err, errLeaseLost), ctx.Err() != nil:
			failing = false
		case !failing || time.Since(began) > time.Minute: // one line for one outage
			failing = true
			x.log.WarnContext(ctx, "traces are not exported until the store answers", slog.Any("error", err))
		}
		x.metrics.oldest.Store(0)
		sleep(ctx, renewEvery)
	}
	return nil
}

// position is what the store keeps: the checkpoint of the feed, and the time of the first export. Runs that ended
// before it are not exported: `dvt trace export` does so on request.
type position struct {
	Since      time.Time `json:"since"`
	Checkpoint string    `json:"checkpoint"`
}

// session is the work under one lease.
type session struct {
	*Exporter
	cursor  store.Cursor
	at      position
	reader  *feed.Reader
	pending []trace.Span
	saved   time.Time
}

func (x *Exporter) export(ctx context.Context, c store.Cursor) error {
	s := &session{Exporter: x, cursor: c}
	if json.Unmarshal([]byte(c.Position), &s.at) != nil || s.at.Since.IsZero() {
		s.at = position{Since: x.cfg.Now().UTC()}
	}
	x.builders = sizedlru.New[*trace.Builder](feed.MaxRuns, maxWeight)
	var err error
	filter := store.RunFilter{EveryTenant: true}
	if s.reader, err = feed.NewReader(x.cfg.Store, filter, s.at.Checkpoint); err != nil {
		x.log.WarnContext(ctx, "the position of the export of traces cannot be read; it starts from the beginning",
			slog.Any("error", err))
		if s.reader, err = feed.NewReader(x.cfg.Store, filter, ""); err != nil {
			return err
		}
	}
	if err := s.save(ctx); err != nil {
		return err
	}
	defer s.release(ctx)
	for ctx.Err() == nil {
		if err := s.step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// step handles one batch of the feed. It saves the position only when every span before it was sent.
func (s *session) step(ctx context.Context) error {
	b, err := s.reader.Next(ctx)
	if err != nil {
		return err
	}
	if b.Reset { // another history: what is pending belongs to runs that may not exist
		s.builders, s.pending = sizedlru.New[*trace.Builder](feed.MaxRuns, maxWeight), nil
	}
	if len(b.Events) > 0 {
		if s.metrics.oldest.Load() == 0 {
			s.metrics.oldest.Store(b.Events[0].PersistedAt.UnixNano())
		}
		spans, err := s.spansOf(ctx, b)
		if err != nil {
			return err
		}
		s.pending = append(s.pending, spans...)
	}
	isIdle := len(b.Events) == 0
	if len(s.pending) >= MaxBatch || isIdle {
		if err := s.send(ctx); err != nil {
			return err
		}
	}
	if len(s.pending) == 0 && time.Since(s.saved) > renewEvery/2 {
		if err := s.save(ctx); err != nil {
			return err
		}
	}
	if isIdle {
		s.metrics.oldest.Store(0)
		sleep(ctx, idle)
	}
	return nil
}

// save saves the position after the last batch and extends the lease.
func (s *session) save(ctx context.Context) error {
	s.at.Checkpoint = s.reader.Checkpoint()
	doc, err := json.Marshal(s.at)
	if err != nil {
		return err
	}
	s.cursor.Position = string(doc)
	return s.renew(ctx)
}

// renew extends the lease and does not move the position.
func (s *session) renew(ctx context.Context) error {
	err := s.cfg.Store.SaveCursor(ctx, s.cursor, leaseTTL)
	if errors.Is(err, store.ErrConflict) {
		return errLeaseLost
	}
	s.saved = time.Now()
	return err
}

func (s *session) release(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	_ = s.cfg.Store.ReleaseCursor(ctx, s.cursor) // else the lease expires
}

// send sends what is pending, in requests of at most MaxBatch spans.
func (s *session) send(ctx context.Context) error {
	for batch := range slices.Chunk(s.pending, MaxBatch) {
		if err := s.sendBatch(ctx, batch); err != nil {
			return err
		}
	}
	clear(s.pending) // the array is used again
	s.pending = s.pending[:0]
	return nil
}

// sendBatch sends a batch until the receiver accepts or refuses it. A batch that is refused as a whole is divided, so
// that one bad span does not cost the others.
func (s *session) sendBatch(ctx context.Context, spans []trace.Span) error {
	for wait := firstWait; ; wait = min(2*wait, renewEvery) {
		err := s.try(ctx, spans)
		var refused *otlp.RefusedError
		if errors.As(err, &refused) && !s.accepted && s.refusesAll(ctx) {
			// The fault is not that of the spans: the address may be that of another service, or speak TLS.
			refused, err = nil, fmt.Errorf("the receiver refuses every request, check its address: %w", refused.Cause)
		}
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err == nil:
			s.received(ctx, len(spans), 0)
			return nil
		case refused != nil && refused.Spans >= len(spans) && len(spans) > 1:
			half := len(spans) / 2
			if err := s.sendBatch(ctx, spans[:half]); err != nil {
				return err
			}
			return s.sendBatch(ctx, spans[half:])
		case refused != nil:
			s.received(ctx, len(spans)-refused.Spans, refused.Spans)
			s.log.WarnContext(ctx, "the receiver of traces refused spans, which are dropped",
				slog.Int("spans", refused.Spans), slog.String("traceId", spans[0].Trace.String()), slog.Any("error", err))
			return nil //nolint:nilerr // a repetition is of no use
		}
		s.metrics.failures.Inc()
		if !s.down {
			s.down = true
			s.log.WarnContext(ctx, "the receiver of traces does not accept spans; they are sent when it does",
				slog.Any("error", err))
		}
		sleep(ctx, wait/2+rand.N(wait/2))
		if time.Since(s.saved) > renewEvery/2 {
			if err := s.renew(ctx); err != nil {
				return err
			}
		}
	}
}

// try sends spans once. A receiver that hangs must not cost the lease.
func (s *session) try(ctx context.Context, spans []trace.Span) error {
	ctx, cancel := context.WithTimeout(ctx, sendTime)
	defer cancel()
	err := s.cfg.Sender.Send(ctx, spans)
	s.accepted = s.accepted || err == nil
	return err
}

// refusesAll reports whether the receiver refuses a request without spans.
func (s *session) refusesAll(ctx context.Context) bool {
	var refused *otlp.RefusedError
	return errors.As(s.try(ctx, nil), &refused)
}

func (s *session) received(ctx context.Context, exported, refused int) {
	s.metrics.exported.Add(float64(exported))
	s.metrics.refused.Add(float64(refused))
	if s.down {
		s.down = false
		s.log.InfoContext(ctx, "the receiver of traces accepts spans again")
	}
}

// sleep waits for d or the end of ctx.
func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
