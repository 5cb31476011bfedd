package temporal

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"
)

// Payloads encrypt what Temporal stores of runs: inputs, results, details of heartbeats, memos, and messages and
// traces of failures. What was stored before in clear can still be read. The same is used by clients, workers, the
// Historian and replays. It is safe for concurrent use.
type Payloads struct{ keys func() PayloadKeys }

// NewPayloads encrypts by the keys of the moment. keys is asked for each payload, also inside workflow tasks: it must
// not wait.
func NewPayloads(keys func() PayloadKeys) *Payloads { return &Payloads{keys: keys} }

// Metadata of an encrypted payload. Temporal's UI shows them.
const (
	metadataCipher = "encryption-cipher"
	metadataKeyID  = "encryption-key-id"
	encrypted      = "binary/encrypted"
	cipherName     = "AES-256-GCM/HKDF-SHA256/dvt-1"
)

// codec is Payloads as a converter.PayloadCodec. The SDK compares codecs, so it is of comparable parts.
type codec struct {
	payloads *Payloads // nil: it has no keys
	dispatch bool      // what it encodes goes to workers of steps
}

func (c codec) keys() PayloadKeys {
	if c.payloads == nil {
		return PayloadKeys{}
	}
	return c.payloads.keys()
}

var (
	_ converter.PayloadCodec                         = codec{}
	_ converter.PayloadCodecWithSerializationContext = codec{}
)

// WithSerializationContext chooses the key of dispatches for activities that workers of steps run.
func (c codec) WithSerializationContext(in converter.SerializationContext) converter.PayloadCodec {
	a, ok := in.(converter.ActivitySerializationContext)
	c.dispatch = ok && !a.IsLocal && (a.ActivityType == activityExecute || a.ActivityType == activityCompensate)
	return c
}

// Encode encrypts whole payloads, their own metadata included.
func (c codec) Encode(in []*commonpb.Payload) ([]*commonpb.Payload, error) {
	out := make([]*commonpb.Payload, len(in))
	for i, p := range in {
		text, err := p.Marshal()
		if err != nil {
			return nil, fmt.Errorf("temporal: encode a payload: %w", err)
		}
		id, sealed, err := c.keys().encrypt(text, c.dispatch)
		if err != nil {
			return nil, err
		}
		out[i] = &commonpb.Payload{Data: sealed, Metadata: map[string][]byte{
			converter.MetadataEncoding: []byte(encrypted), metadataCipher: []byte(cipherName),
			metadataKeyID: []byte(id),
		}}
	}
	return out, nil
}

// Decode decrypts what Encode made and leaves everything else as it is. Errors: ErrPayloadKey, or that a payload was
// changed.
func (c codec) Decode(in []*commonpb.Payload) ([]*commonpb.Payload, error) {
	out := make([]*commonpb.Payload, len(in))
	for i, p := range in {
		m := p.GetMetadata()
		if string(m[converter.MetadataEncoding]) != encrypted || string(m[metadataCipher]) != cipherName {
			out[i] = p
			continue
		}
		text, err := c.keys().decrypt(string(m[metadataKeyID]), p.GetData())
		if err != nil {
			return nil, err
		}
		out[i] = &commonpb.Payload{}
		if err := out[i].Unmarshal(text); err != nil {
			return nil, errors.Join(errPayload, err)
		}
	}
	return out, nil
}

// dataConverter is the SDK's converter behind the codec. Within a workflow a missing key is a panic: the SDK then tries
// the workflow task again, as long as a worker has no such key, where an error would end the workflow as failed.
type dataConverter struct {
	converter.DataConverter
	inWorkflow bool
}

var (
	_ workflow.ContextAware                           = dataConverter{}
	_ converter.DataConverterWithSerializationContext = dataConverter{}
)

// converter is the data converter of clients and workers; a nil Payloads stores in clear.
func (p *Payloads) converter() converter.DataConverter {
	if p == nil {
		return converter.GetDefaultDataConverter()
	}
	return dataConverter{DataConverter: converter.NewCodecDataConverter(converter.GetDefaultDataConverter(),
		codec{payloads: p})}
}

// failures is the failure converter of clients and workers: messages and traces of failures are payloads too.
func (p *Payloads) failures() converter.FailureConverter {
	return temporal.NewDefaultFailureConverter(temporal.DefaultFailureConverterOptions{DataConverter: p.converter(),
		EncodeCommonAttributes: p != nil})
}

// Decoder answers POST …/decode as Temporal's UI and CLI ask it of a codec server. The caller bounds bodies and asks
// who may. There is no need for …/encode: only dvt writes payloads.
func (p *Payloads) Decoder() http.Handler {
	return converter.NewPayloadCodecHTTPHandler(codec{payloads: p})
}

// WithWorkflowContext implements workflow.ContextAware.
func (d dataConverter) WithWorkflowContext(workflow.Context) converter.DataConverter {
	d.inWorkflow = true
	return d
}

// WithContext implements workflow.ContextAware.
func (d dataConverter) WithContext(context.Context) converter.DataConverter { return d }

// WithSerializationContext implements converter.DataConverterWithSerializationContext.
func (d dataConverter) WithSerializationContext(in converter.SerializationContext) converter.DataConverter {
	d.DataConverter = converter.WithDataConverterSerializationContext(d.DataConverter, in)
	return d
}

// FromPayload implements converter.DataConverter.
func (d dataConverter) FromPayload(p *commonpb.Payload, into any) error {
	return d.judge(d.DataConverter.FromPayload(p, into))
}

// FromPayloads implements converter.DataConverter.
func (d dataConverter) FromPayloads(p *commonpb.Payloads, into ...any) error {
	return d.judge(d.DataConverter.FromPayloads(p, into...))
}

func (d dataConverter) judge(err error) error {
	if d.inWorkflow && errors.Is(err, ErrPayloadKey) {
		panic(err)
	}
	return err
}

// canRead returns ErrPayloadKey for a payload whose key is missing.
func (p *Payloads) canRead(in *commonpb.Payloads) error {
	_, err := codec{payloads: p}.Decode(in.GetPayloads())
	return err
}
