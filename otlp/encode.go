package otlp

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"time"

	coltracepb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/dvt-engine/dvt/run/trace"
)

// scope names the code that makes the spans.
const scope = "github.com/dvt-engine/dvt/run/trace"

func (c *Client) encode(spans []trace.Span) *tracepb.ResourceSpans {
	out := make([]*tracepb.Span, len(spans))
	for i, s := range spans {
		out[i] = encodeSpan(s)
	}
	return &tracepb.ResourceSpans{Resource: c.resource, ScopeSpans: []*tracepb.ScopeSpans{{
		Scope: &commonpb.InstrumentationScope{Name: scope, Version: c.version}, Spans: out,
	}}}
}

func encodeSpan(s trace.Span) *tracepb.Span {
	out := &tracepb.Span{
		TraceId: s.Trace[:], SpanId: s.ID[:], Name: s.Name, Kind: tracepb.Span_SPAN_KIND_INTERNAL,
		StartTimeUnixNano: nanos(s.Start), EndTimeUnixNano: nanos(s.End), Flags: 1, // sampled
		Attributes: []*commonpb.KeyValue{textValue("dvt.kind", string(s.Kind))},
	}
	if s.Parent != (trace.SpanID{}) {
		out.ParentSpanId = s.Parent[:]
	}
	for _, a := range s.Attributes {
		if a.Text != "" {
			out.Attributes = append(out.Attributes, textValue(a.Key, a.Text))
			continue
		}
		out.Attributes = append(out.Attributes, &commonpb.KeyValue{Key: a.Key, Value: &commonpb.AnyValue{
			Value: &commonpb.AnyValue_IntValue{IntValue: a.Number}}})
	}
	for _, l := range s.Links {
		out.Links = append(out.Links, &tracepb.Span_Link{TraceId: l.Trace[:], SpanId: l.Span[:],
			Attributes: []*commonpb.KeyValue{textValue("dvt.relation", l.Relation)}})
	}
	if s.Failed {
		out.Status = &tracepb.Status{Code: tracepb.Status_STATUS_CODE_ERROR, Message: codeOf(s)}
	}
	return out
}

// codeOf returns the code of the failure, which backends show as the message of the status.
func codeOf(s trace.Span) string {
	for _, a := range s.Attributes {
		if a.Key == "code" {
			return a.Text
		}
	}
	return ""
}

// nanos is the time since 1970; earlier times of imported logs have no value in OTLP.
func nanos(t time.Time) uint64 { return uint64(max(t.UnixNano(), 0)) }

func textValue(key, value string) *commonpb.KeyValue {
	return &commonpb.KeyValue{Key: key,
		Value: &commonpb.AnyValue{Value: &commonpb.AnyValue_StringValue{StringValue: value}}}
}

// JSON returns spans as one document of OTLP JSON, which collectors and the importers of Jaeger and Grafana Tempo read.
// The same spans give the same bytes.
func JSON(getenv func(string) string, version string, spans []trace.Span) ([]byte, error) {
	c := &Client{resource: resourceOf(getenv), version: version}
	doc, err := protojson.MarshalOptions{UseEnumNumbers: true}.Marshal(
		&coltracepb.ExportTraceServiceRequest{ResourceSpans: []*tracepb.ResourceSpans{c.encode(spans)}})
	if err != nil {
		return nil, err
	}
	var tree map[string]any
	if err := json.Unmarshal(doc, &tree); err != nil {
		return nil, err
	}
	idsToHex(tree)
	return json.Marshal(tree)
}

// idsToHex changes the ids from base64, as protobuf has them in JSON, to hex, as OTLP does.
func idsToHex(v any) {
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			idsToHex(e)
		}
	case map[string]any:
		for key, e := range v {
			if text, ok := e.(string); ok && (key == "traceId" || key == "spanId" || key == "parentSpanId") {
				if id, err := base64.StdEncoding.DecodeString(text); err == nil {
					v[key] = hex.EncodeToString(id)
				}
				continue
			}
			idsToHex(e)
		}
	}
}
