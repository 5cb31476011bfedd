package spans

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// keeper passes sampled and failed spans on, at most MaxPerSecond.
type keeper struct {
	next    sdktrace.SpanProcessor
	dropped prometheus.Counter

	mu   sync.Mutex
	left float64 // spans that may pass now
	at   time.Time
}

// OnStart implements sdktrace.SpanProcessor.
func (k *keeper) OnStart(ctx context.Context, s sdktrace.ReadWriteSpan) { k.next.OnStart(ctx, s) }

// OnEnd implements sdktrace.SpanProcessor.
func (k *keeper) OnEnd(s sdktrace.ReadOnlySpan) {
	if !s.SpanContext().IsSampled() {
		if !isKept(s) {
			return
		}
		s = sampledSpan{s}
	}
	if !k.take(time.Now()) {
		k.dropped.Inc()
		return
	}
	k.next.OnEnd(s)
}

// take takes one span from the allowance.
func (k *keeper) take(now time.Time) bool {
	const most = 10 * MaxPerSecond
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.at.IsZero() {
		k.left = most
	} else if passed := now.Sub(k.at).Seconds(); passed > 0 {
		k.left = min(most, k.left+passed*MaxPerSecond)
	}
	k.at = now
	if k.left < 1 {
		return false
	}
	k.left--
	return true
}

// Shutdown implements sdktrace.SpanProcessor.
func (k *keeper) Shutdown(ctx context.Context) error { return k.next.Shutdown(ctx) }

// ForceFlush implements sdktrace.SpanProcessor.
func (k *keeper) ForceFlush(ctx context.Context) error { return k.next.ForceFlush(ctx) }

func isKept(s sdktrace.ReadOnlySpan) bool {
	for _, a := range s.Attributes() {
		if a.Key == kept {
			return a.Value.AsBool()
		}
	}
	return false
}

// sampledSpan is a span whose flag says that it is sampled, as the exporter requires.
type sampledSpan struct{ sdktrace.ReadOnlySpan }

// SpanContext implements sdktrace.ReadOnlySpan.
func (s sampledSpan) SpanContext() trace.SpanContext {
	sc := s.ReadOnlySpan.SpanContext()
	return sc.WithTraceFlags(sc.TraceFlags().WithSampled(true))
}
