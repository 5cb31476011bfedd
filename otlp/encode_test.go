package otlp

import (
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
	"github.com/dvt-engine/dvt/run/trace"
)

// describe writes a span as one line for comparison.
func describe(traceID, id, parent []byte, name string, start, end uint64, attrs, links []string, status string) string {
	return fmt.Sprintf("%s %s %s %q %d-%d %s %s %s", hex.EncodeToString(traceID), hex.EncodeToString(id),
		hex.EncodeToString(parent), name, start, end, strings.Join(attrs, ","), strings.Join(links, ","), status)
}

func wanted(s trace.Span) string {
	attrs := []string{"dvt.kind=" + string(s.Kind)}
	for _, a := range s.Attributes {
		if a.Text != "" {
			attrs = append(attrs, a.Key+"="+strings.ToValidUTF8(a.Text, "\uFFFD"))
		} else {
			attrs = append(attrs, fmt.Sprint(a.Key, "=", a.Number))
		}
	}
	var links []string
	for _, l := range s.Links {
		links = append(links, l.Trace.String()+"/"+l.Span.String()+"/"+l.Relation)
	}
	status := "ok"
	if s.Failed {
		status = "failed " + codeOf(&s)
	}
	parent := s.Parent[:]
	if s.IsRoot() {
		parent = nil
	}
	return describe(s.Trace[:], s.ID[:], parent, strings.ToValidUTF8(s.Name, "\uFFFD"), nanos(s.Start), nanos(s.End),
		attrs, links, status)
}

func decoded(s *tracepb.Span) string {
	var attrs, links []string
	for _, a := range s.Attributes {
		if number, ok := a.Value.Value.(*commonpb.AnyValue_IntValue); ok {
			attrs = append(attrs, fmt.Sprint(a.Key, "=", number.IntValue))
		} else {
			attrs = append(attrs, a.Key+"="+a.Value.GetStringValue())
		}
	}
	for _, l := range s.Links {
		links = append(links, hex.EncodeToString(l.TraceId)+"/"+hex.EncodeToString(l.SpanId)+"/"+
			l.Attributes[0].Value.GetStringValue())
	}
	status := "ok"
	if s.Status.GetCode() == tracepb.Status_STATUS_CODE_ERROR {
		status = "failed " + s.Status.Message
	}
	return describe(s.TraceId, s.SpanId, s.ParentSpanId, s.Name, s.StartTimeUnixNano, s.EndTimeUnixNano, attrs, links,
		status)
}

// The types of the protocol read what encode writes, and nothing is left over. Requests of 512 spans, an empty one, and
// texts that no valid log has.
func TestEncode_IsWhatTheProtocolReads(t *testing.T) {
	t.Parallel()
	c := &Client{resource: resourceOf(func(string) string { return "" }), version: "v1"}
	var logs [][]trace.Span
	for seed := range uint64(300) {
		logs = append(logs, trace.Of(runtest.ID, time.Time{}, runtest.RandomLog(seed)),
			trace.Of(runtest.ID, time.Time{}, runtest.Hostile(seed)))
	}
	strange := trace.Span{Name: "a\xffb", Kind: "run", Attributes: []trace.Attribute{{Key: "long",
		Text: strings.Repeat("x", 100_000)}, {Key: "negative", Number: -1}, {Key: "bad", Text: "\xc3("}}}
	logs = append(logs, nil, []trace.Span{strange})
	for _, spans := range logs {
		doc, err := proto.Marshal(c.encode(spans))
		if err != nil {
			t.Fatal(err)
		}
		var got tracepb.ResourceSpans
		if err := proto.Unmarshal(doc, &got); err != nil {
			t.Fatal(err)
		}
		scope := got.ScopeSpans[0]
		if got.Resource.Attributes[0].Value.GetStringValue() != "dvt" || scope.Scope.Name != scopeName ||
			scope.Scope.Version != "v1" {
			t.Fatalf("the resource is %v and the scope %v", got.Resource, scope.Scope)
		}
		var want, have []string
		for _, s := range spans {
			want = append(want, wanted(s))
		}
		for _, s := range scope.Spans {
			have = append(have, decoded(s))
			if s.Kind != tracepb.Span_SPAN_KIND_INTERNAL || s.Flags != 1 || len(s.ProtoReflect().GetUnknown()) > 0 {
				t.Errorf("the span %s has the kind %s, the flags %d and unknown fields %x", s.Name, s.Kind, s.Flags,
					s.ProtoReflect().GetUnknown())
			}
		}
		if diff := cmp.Diff(want, have); diff != "" {
			t.Fatalf("decoded spans (-want +got):\n%s", diff)
		}
	}
}

// Reading the log of a run and encoding its spans allocates little, because an installation does it for each event.
func TestEncode_AllocatesLittle(t *testing.T) {
	c := &Client{resource: resourceOf(func(string) string { return "" })}
	var events []run.Event
	for i := range 500 {
		step := fmt.Sprint("s", i)
		events = append(events, runtest.Log(runtest.Draft(run.StepStartedEvent, step, 1),
			runtest.Draft(run.StepCompletedEvent, step, 1))...)
	}
	for i := range events {
		events[i].Seq = run.Seq(i + 1)
	}
	spans := trace.Of(runtest.ID, time.Time{}, events)
	if n := testing.AllocsPerRun(5, func() { c.encode(spans) }) / float64(len(spans)); n > 0.2 {
		t.Errorf("encoding takes %.1f allocations a span, want at most 0.2", n)
	}
	if n := testing.AllocsPerRun(5, func() { trace.Of(runtest.ID, time.Time{}, slices.Clone(events)) }); n > 3*1000 {
		t.Errorf("the spans of 1,000 events take %.0f allocations, want at most 3,000", n)
	}
}
