// Package spans makes the spans of what a process does: requests to the API, calls of the Journal, and calls of the
// store and of the engine below them. The spans of runs are derived from their logs instead: see run/trace.
//
// A share of the requests is exported, and each failure with the spans around it. A process without a receiver has no
// Tracer, and its calls are not wrapped.
package spans

import (
	"context"
	"encoding/hex"
	"hash/maphash"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/dvt-engine/dvt/otlp"
	runtrace "github.com/dvt-engine/dvt/run/trace"
)

// Scope names the code that makes these spans.
const Scope = "github.com/dvt-engine/dvt/otlp/spans"

// MaxPerSecond is the most spans that a process exports in a second, on average over ten seconds. The others are
// counted and dropped, so that callers cannot flood the receiver with failures.
const MaxPerSecond = 200

// closeTime bounds the last export of a process.
const closeTime = 5 * time.Second

// Config configures a Tracer.
type Config struct {
	Client *otlp.Client
	Ratio  float64 // of the requests that are exported, from 0 to 1; failures are exported always
	Runs   float64 // the share of the runs whose traces are exported
	// Metrics and Logger may be nil.
	Metrics prometheus.Registerer
	Logger  *slog.Logger
}

// Tracer makes spans. It is safe for concurrent use. Create it with New.
type Tracer struct {
	provider *sdktrace.TracerProvider
	tracer   trace.Tracer
	cfg      Config
	seed     maphash.Seed
	// Each entry is of a run whose calls are made now. Another run with the same place replaces it.
	sampled [1024]atomic.Pointer[sampledRun]
}

// sampledRun remembers whether the calls for a run are sampled, because that takes a hash for each call.
type sampledRun struct {
	runID   string
	sampled bool
}

// New returns a tracer that exports through the client of cfg.
func New(cfg Config) *Tracer {
	t := &Tracer{cfg: cfg, seed: maphash.MakeSeed()}
	keep := &keeper{
		next: sdktrace.NewBatchSpanProcessor(cfg.Client.Exporter(), sdktrace.WithMaxQueueSize(2048)),
		dropped: prometheus.NewCounter(prometheus.CounterOpts{Name: "dvt_request_spans_dropped_total",
			Help: "Spans of requests that were not exported, because there were too many in a second."}),
	}
	if cfg.Metrics != nil {
		cfg.Metrics.MustRegister(keep.dropped)
	}
	limits := sdktrace.NewSpanLimits()
	limits.AttributeValueLengthLimit = 200
	t.provider = sdktrace.NewTracerProvider(sdktrace.WithSampler(t), sdktrace.WithSpanProcessor(keep),
		sdktrace.WithResource(cfg.Client.Resource()), sdktrace.WithRawSpanLimits(limits))
	t.tracer = t.provider.Tracer(Scope)
	return t
}

// Close exports what is left, for at most 5 seconds. It may be called on a nil Tracer.
func (t *Tracer) Close(ctx context.Context) error {
	if t == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, closeTime)
	defer cancel()
	return t.provider.Shutdown(ctx)
}

// span is one span and those around it in this process.
type span struct {
	trace.Span
	around *span
	failed atomic.Bool // it, or a span in it
}

type spanKey struct{}

// current returns the span of ctx, or nil.
func current(ctx context.Context) *span {
	s, _ := ctx.Value(spanKey{}).(*span)
	return s
}

// start begins a span below that of ctx.
func (t *Tracer) start(ctx context.Context, name string, o ...trace.SpanStartOption) (context.Context, *span) {
	s := &span{around: current(ctx)}
	ctx, s.Span = t.tracer.Start(ctx, name, o...) //nolint:spancheck // end of the result ends it
	return context.WithValue(ctx, spanKey{}, s), s
}

// fail says that the work of a span failed. kind is a name from a fixed set, and never the text of an error.
func (s *span) fail(kind string) {
	s.SetStatus(codes.Error, kind)
	s.SetAttributes(attribute.String("error.type", kind))
	for around := s; around != nil; around = around.around {
		around.failed.Store(true)
	}
}

// kept marks a span that is exported although its trace is not in the share.
const kept = attribute.Key("dvt.kept")

func (s *span) end() {
	if s.failed.Load() && !s.SpanContext().IsSampled() {
		s.SetAttributes(kept.Bool(true))
	}
	s.End()
}

// ShouldSample implements the sampler of OpenTelemetry. A span below another of this process follows it. A span in the
// trace of a run is sampled by the hash of the trace, so that all processes sample the calls of the same runs, and only
// where the run is sampled too. The flag of a caller is never read: it could force the sampling of each request.
func (t *Tracer) ShouldSample(p sdktrace.SamplingParameters) sdktrace.SamplingResult {
	parent := trace.SpanContextFromContext(p.ParentContext)
	sampled := parent.IsSampled()
	switch {
	case !parent.IsValid():
		sampled = runtrace.IsSampled(runtrace.TraceID(p.TraceID), t.cfg.Ratio)
	case parent.IsRemote():
		sampled = t.samplesRun(runtrace.TraceID(p.TraceID))
	}
	if sampled {
		return sdktrace.SamplingResult{Decision: sdktrace.RecordAndSample}
	}
	return sdktrace.SamplingResult{Decision: sdktrace.RecordOnly} // it may fail
}

// Description implements the sampler of OpenTelemetry.
func (t *Tracer) Description() string { return "dvt" }

func (t *Tracer) samplesRun(id runtrace.TraceID) bool {
	return runtrace.IsSampled(id, min(t.cfg.Ratio, t.cfg.Runs))
}

// samplesCallsFor reports whether the calls for a run are sampled.
func (t *Tracer) samplesCallsFor(runID string) bool {
	place := &t.sampled[maphash.String(t.seed, runID)%uint64(len(t.sampled))]
	if known := place.Load(); known != nil && known.runID == runID {
		return known.sampled
	}
	known := &sampledRun{runID, t.samplesRun(runtrace.IDOf(runID))}
	place.Store(known)
	return known.sampled
}

// inRun returns a context whose spans belong to the trace of a run, below its root.
func inRun(ctx context.Context, runID string) context.Context {
	return trace.ContextWithRemoteSpanContext(ctx, trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID(runtrace.IDOf(runID)), SpanID: trace.SpanID(runtrace.RootSpan(runID)), Remote: true,
	}))
}

// parse reads a traceparent of W3C Trace Context, version 00. It returns false when it is malformed.
func parse(traceparent string) (sc trace.SpanContext, ok bool) {
	if len(traceparent) != 55 || traceparent[:3] != "00-" || traceparent[35] != '-' || traceparent[52] != '-' {
		return sc, false
	}
	var c trace.SpanContextConfig
	var flags [1]byte
	for _, part := range []struct {
		to   []byte
		text string
	}{{c.TraceID[:], traceparent[3:35]}, {c.SpanID[:], traceparent[36:52]}, {flags[:], traceparent[53:]}} {
		if !isLowerHex(part.text) {
			return sc, false
		}
		_, _ = hex.Decode(part.to, []byte(part.text)) // cannot fail
	}
	c.Remote = true
	sc = trace.NewSpanContext(c)
	return sc, sc.IsValid()
}

func isLowerHex(text string) bool {
	for _, c := range []byte(text) {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}
