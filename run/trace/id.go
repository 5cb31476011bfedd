// Package trace derives the trace of a run from its log. It is pure: trace ids and span ids are hashes of the run's id
// and of the subjects of its events, so that the same log always gives the same spans. A process that dies while it
// exports them loses nothing, and a repeated export changes nothing.
package trace

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"math"
	"strconv"
)

// TraceID is the id of the trace of one run, in the form of W3C Trace Context.
type TraceID [16]byte

// SpanID is the id of a span within a trace. The zero value stands for no span.
type SpanID [8]byte

// String returns the id in lower-case hex.
func (t TraceID) String() string { return hex.EncodeToString(t[:]) }

// String returns the id in lower-case hex.
func (s SpanID) String() string { return hex.EncodeToString(s[:]) }

// IDOf returns the id of the trace of a run. It depends on nothing but the run's id, so every process can compute it.
func IDOf(runID string) TraceID {
	var buf [128]byte
	sum := sha256.Sum256(append(append(buf[:0], "trace|"...), runID...))
	return TraceID(sum[:16])
}

// RootSpan returns the id of the span of a whole run.
func RootSpan(runID string) SpanID { return spanID(runID, kindRun) }

// StepSpan returns the id of the span of a step.
func StepSpan(runID, stepID string) SpanID { return spanID(runID, kindStep, stepID) }

// AttemptSpan returns the id of the span of one logical attempt of a step. Its engine attempts share the span, because
// the log has one StepStarted for all of them.
func AttemptSpan(runID, stepID string, logicalAttempt int) SpanID {
	return spanID(runID, kindAttempt, stepID, strconv.Itoa(logicalAttempt))
}

// spanID hashes the parts, which contain no separator: see run.Draft.Validate.
func spanID(runID string, kind Kind, subject ...string) SpanID {
	var buf [256]byte // long enough for most subjects, so that nothing is allocated
	b := append(append(append(buf[:0], "span|"...), runID...), '|')
	b = append(append(b, kind...), '|')
	for i, part := range subject {
		if i > 0 {
			b = append(b, '|')
		}
		b = append(b, part...)
	}
	sum := sha256.Sum256(b)
	return SpanID(sum[:8])
}

// IsSampled reports whether a trace belongs to the sampled share of all traces. It decides like the TraceIdRatioBased
// sampler of OpenTelemetry, so that a service with the same ratio samples the same traces. ratio is from 0 to 1.
func IsSampled(t TraceID, ratio float64) bool {
	if ratio >= 1 {
		return true
	}
	return binary.BigEndian.Uint64(t[8:])>>1 < uint64(max(ratio, 0)*math.MaxInt64)
}

// Parent returns the W3C traceparent with which the work of an attempt continues the trace of its run. The flag says
// whether the trace is sampled at this ratio.
func Parent(runID, stepID string, logicalAttempt int, ratio float64) string {
	t, flags := IDOf(runID), "00"
	if IsSampled(t, ratio) {
		flags = "01"
	}
	return "00-" + t.String() + "-" + AttemptSpan(runID, stepID, logicalAttempt).String() + "-" + flags
}
