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

// Payloads encrypt the data of runs that Temporal stores: inputs, results, details of heartbeats, memos, and messages
// and traces of failures. Data that was stored in clear before stays readable. Clients, workers, the Historian and
// replays use the same Payloads. It is safe for concurrent use; nil stores in clear.
type Payloads struct{ keys func() PayloadKeys }

// NewPayloads returns Payloads with the current keys. It calls keys for each payload, also inside workflow tasks, so
// keys must not block.
func NewPayloads(keys func() PayloadKeys) *Payloads { return &Payloads{keys: keys} }

// Metadata of an encrypted payload. Temporal's UI shows them.
const (
	metadataCipher = "encryption-cipher"
	metadataKeyID  = "encryption-key-id"
	encrypted      = "binary/encrypted"
	cipherName     = "AES-256-GCM/HKDF-SHA256/dvt-1"
)

// codec is Payloads as a converter.PayloadCodec. The SDK compares codecs, so all its fields are comparable.
type codec struct {
	payloads *Payloads // nil means no keys
	dispatch bool      // whether the payloads go to workers of steps
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

// Decode decrypts the payloads of Encode and returns others unchanged. Errors: ErrPayloadKey, errPayload.
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

// dataConverter is the SDK's converter with the codec. Within a workflow it panics when a key is missing. The SDK then
// retries the workflow task until a worker has the key, whereas an error would fail the workflow.
type dataConverter struct {
	converter.DataConverter
	inWorkflow bool
}

var (
	_ workflow.ContextAware                           = dataConverter{}
	_ converter.DataConverterWithSerializationContext = dataConverter{}
)

// converter returns the data converter of clients and workers. A nil Payloads stores in clear.
func (p *Payloads) converter() converter.DataConverter {
	if p == nil {
		return converter.GetDefaultDataConverter()
	}
	return dataConverter{DataConverter: converter.NewCodecDataConverter(converter.GetDefaultDataConverter(),
		codec{payloads: p})}
}

// failures returns the failure converter of clients and workers, which encrypts messages and traces of failures.
func (p *Payloads) failures() converter.FailureConverter {
	return temporal.NewDefaultFailureConverter(temporal.DefaultFailureConverterOptions{DataConverter: p.converter(),
		EncodeCommonAttributes: p != nil})
}

// Decoder returns a handler for POST …/decode, by the protocol of a codec server of Temporal's UI and CLI. The caller
// must bound the body and authorise the request.
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

// judge panics for a missing key within a workflow; see dataConverter.
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
