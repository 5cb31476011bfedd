package otlp

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"strings"
	"time"
	"unicode/utf8"

	coltracepb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/dvt-engine/dvt/run/trace"
)

// scopeName names the code that makes the spans.
const scopeName = "github.com/dvt-engine/dvt/run/trace"

// encode returns the spans as a message of the protocol. Only its resource is made of the types of the protocol; the
// scope and the spans are encoded here and added as they are, because 512 spans of these types are 20,000 objects.
func (c *Client) encode(spans []trace.Span) *tracepb.ResourceSpans {
	scope := appendText(appendText(nil, 1, scopeName), 2, c.version)
	all := make([]byte, 0, len(spans)*spanSize)
	all = appendBytes(all, 1, scope)
	var e spanEncoder
	for i := range spans {
		all = appendBytes(all, 2, e.span(&spans[i]))
	}
	out := &tracepb.ResourceSpans{Resource: c.resource}
	const scopeSpans = 2
	field := make([]byte, 0, len(all)+16)
	out.ProtoReflect().SetUnknown(appendBytes(field, scopeSpans, all))
	return out
}

// typed returns a message of encode in the types of the protocol.
func typed(m *tracepb.ResourceSpans) (*tracepb.ResourceSpans, error) {
	doc, err := proto.Marshal(m)
	if err != nil {
		return nil, err
	}
	out := &tracepb.ResourceSpans{}
	return out, proto.Unmarshal(doc, out)
}

// spanSize is about the bytes of an encoded span.
const spanSize = 512

// spanEncoder encodes spans one after the other and uses its buffers again. The numbers of fields are those of
// opentelemetry/proto/trace/v1/trace.proto and common.proto; a test decodes them with the types of the protocol.
type spanEncoder struct {
	buf, pair, value []byte
	// The spans of a run begin with the same attributes. These are those of the previous span, and their encoding.
	before  []trace.Attribute
	encoded []byte
	ends    []int // where each attribute ends in encoded
}

// span returns an encoded span, which the next call overwrites.
func (e *spanEncoder) span(s *trace.Span) []byte {
	b := e.buf[:0]
	b = appendBytes(b, 1, s.Trace[:])
	b = appendBytes(b, 2, s.ID[:])
	if s.Parent != (trace.SpanID{}) {
		b = appendBytes(b, 4, s.Parent[:])
	}
	b = appendText(b, 5, s.Name)
	b = appendNumber(b, 6, uint64(tracepb.Span_SPAN_KIND_INTERNAL))
	b = protowire.AppendFixed64(protowire.AppendTag(b, 7, protowire.Fixed64Type), nanos(s.Start))
	b = protowire.AppendFixed64(protowire.AppendTag(b, 8, protowire.Fixed64Type), nanos(s.End))
	b = e.attribute(b, 9, trace.Attribute{Key: "dvt.kind", Text: string(s.Kind)})
	b = append(b, e.attributes(9, s.Attributes)...)
	for _, l := range s.Links {
		link := appendBytes(appendBytes(nil, 1, l.Trace[:]), 2, l.Span[:])
		b = appendBytes(b, 13, e.attribute(link, 4, trace.Attribute{Key: "dvt.relation", Text: l.Relation}))
	}
	if s.Failed {
		status := appendText(nil, 2, codeOf(s))
		b = appendBytes(b, 15, appendNumber(status, 3, uint64(tracepb.Status_STATUS_CODE_ERROR)))
	}
	const sampled = 1
	b = protowire.AppendFixed32(protowire.AppendTag(b, 16, protowire.Fixed32Type), sampled)
	e.buf = b
	return b
}

// attributes returns attributes as fields. It encodes only those that follow what they have in common with the previous
// ones.
func (e *spanEncoder) attributes(field protowire.Number, all []trace.Attribute) []byte {
	same, end := 0, 0
	for same < len(all) && same < len(e.before) && all[same] == e.before[same] {
		end = e.ends[same]
		same++
	}
	e.encoded, e.ends, e.before = e.encoded[:end], e.ends[:same], all
	for _, a := range all[same:] {
		e.encoded = e.attribute(e.encoded, field, a)
		e.ends = append(e.ends, len(e.encoded))
	}
	return e.encoded
}

// attribute appends a KeyValue as a field.
func (e *spanEncoder) attribute(to []byte, field protowire.Number, a trace.Attribute) []byte {
	e.value = e.value[:0]
	if a.Text != "" {
		e.value = appendText(e.value, 1, a.Text)
	} else {
		e.value = appendNumber(e.value, 3, uint64(a.Number))
	}
	e.pair = appendBytes(appendText(e.pair[:0], 1, a.Key), 2, e.value)
	return appendBytes(to, field, e.pair)
}

func appendBytes(to []byte, field protowire.Number, value []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(to, field, protowire.BytesType), value)
}

// appendText appends a text. The protocol permits valid UTF-8 only, and a receiver refuses the whole request otherwise.
func appendText(to []byte, field protowire.Number, value string) []byte {
	if !utf8.ValidString(value) {
		value = strings.ToValidUTF8(value, "\uFFFD")
	}
	return protowire.AppendString(protowire.AppendTag(to, field, protowire.BytesType), value)
}

func appendNumber(to []byte, field protowire.Number, value uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(to, field, protowire.VarintType), value)
}

// codeOf returns the code of the failure, which backends show as the message of the status.
func codeOf(s *trace.Span) string {
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
	request, err := typed(c.encode(spans))
	if err != nil {
		return nil, err
	}
	doc, err := protojson.MarshalOptions{UseEnumNumbers: true}.Marshal(
		&coltracepb.ExportTraceServiceRequest{ResourceSpans: []*tracepb.ResourceSpans{request}})
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
