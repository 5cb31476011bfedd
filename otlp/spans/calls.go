package spans

import (
	"context"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
)

// Store begins the span of a call of the store. system is postgresql or sqlite, and call the name of the call; neither
// statements nor values are recorded. A call below a request belongs to it. A write to the run runID that no request
// caused belongs to the trace of the run; other calls have no span. The caller calls end with the kind of the failure,
// or with "".
func (t *Tracer) Store(ctx context.Context, system, call, runID string) (context.Context, func(failure string)) {
	if current(ctx) == nil {
		if runID == "" {
			return ctx, ignore
		}
		if !t.samplesCallsFor(runID) { // most calls of a process are such, so that each must cost little
			began := time.Now()
			return ctx, func(failure string) {
				if failure != "" {
					t.fail(inRun(ctx, runID), call, failure, began, storeAttributes(system, call, runID))
				}
			}
		}
		ctx = inRun(ctx, runID)
	}
	return t.call(ctx, call, storeAttributes(system, call, runID))
}

func storeAttributes(system, call, runID string) []attribute.KeyValue {
	attrs := []attribute.KeyValue{attribute.String("db.system.name", system), attribute.String("db.operation.name", call)}
	if runID != "" {
		attrs = append(attrs, attribute.String("runId", runID))
	}
	return attrs
}

// fail makes the span of a call that began earlier and has failed.
func (t *Tracer) fail(ctx context.Context, name, failure string, began time.Time, attrs []attribute.KeyValue) {
	_, s := t.start(ctx, name, client, trace.WithTimestamp(began), trace.WithAttributes(attrs...))
	s.fail(failure)
	s.end()
}

// client is the kind of the spans of calls.
var client = trace.WithSpanKind(trace.SpanKindClient)

// Engine begins the span of a call of Temporal. method is the full name of the method, such as
// /temporal.api.workflowservice.v1.WorkflowService/StartWorkflowExecution. Calls by which a worker waits for tasks or
// reports them have no span. The caller calls end with the code of gRPC if the call failed, or with "".
func (t *Tracer) Engine(ctx context.Context, method string) (context.Context, func(failure string)) {
	method = strings.TrimPrefix(method, "/")
	if isOfAWorker(method) {
		return ctx, ignore
	}
	return t.call(ctx, method, []attribute.KeyValue{attribute.String("rpc.system.name", "grpc"),
		attribute.String("rpc.method", method)})
}

// isOfAWorker reports whether workers call a method all the time, with or without runs.
func isOfAWorker(method string) bool {
	_, name, _ := strings.Cut(method, "/")
	for _, prefix := range []string{"Poll", "Respond", "Record", "GetSystemInfo", "Shutdown", "DescribeNamespace",
		"GetClusterInfo", "DescribeTaskQueue", "Check", "FetchWorkerConfig", "ListWorkers"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}

func ignore(string) {}

// call begins a span of a client. A call that would be the first of a trace that is not sampled gets its span only when
// it fails, because most of the calls of a process are such.
func (t *Tracer) call(ctx context.Context, name string, attrs []attribute.KeyValue) (context.Context, func(string)) {
	if current(ctx) == nil {
		if sc := trace.SpanContextFromContext(ctx); sc.IsValid() && !t.samplesRun([16]byte(sc.TraceID())) {
			began := time.Now()
			return ctx, func(failure string) {
				if failure != "" {
					t.fail(ctx, name, failure, began, attrs)
				}
			}
		}
	}
	ctx, s := t.start(ctx, name, client, trace.WithAttributes(attrs...))
	return ctx, func(failure string) {
		if failure != "" {
			s.fail(failure)
		}
		s.end()
	}
}
