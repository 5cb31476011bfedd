package runs

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/dvt-engine/dvt/artifact"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// maxOverlays bounds the overlays of one run, because each start of an attempt reads those of its step.
const maxOverlays = 1000

// Variables that UPDATE_TARGET sets for a dbt step. Models and profiles read them.
const (
	varTargetDatabase = "dvt_target_database"
	varTargetSchema   = "dvt_target_schema"
)

// Payloads of the signals that have more fields than a step and a reason.
type (
	updateParams struct {
		NewParams json.RawMessage `json:"newParams"`
	}
	injectOverride struct {
		Override json.RawMessage `json:"override"`
	}
	updateTarget struct {
		NewTarget struct {
			DestinationDB *string `json:"destinationDb"`
			Schema        *string `json:"schema"`
		} `json:"newTarget"`
	}
	escalateAlert struct {
		Level store.AlertLevel `json:"level"`
		Note  string           `json:"note"`
	}
)

// Overlay is the change that one accepted parameter signal makes, as merge patches.
type Overlay struct{ params, inputs json.RawMessage }

// overlayOf decodes the payload of an accepted signal.
func overlayOf(t run.SignalType, payload json.RawMessage) (Overlay, error) {
	switch t {
	case run.UpdateParams:
		p, err := run.PayloadOf[updateParams](payload)
		return Overlay{params: p.NewParams}, err
	case run.InjectOverride:
		p, err := run.PayloadOf[injectOverride](payload)
		return Overlay{inputs: p.Override}, err
	case run.UpdateTarget:
		p, err := run.PayloadOf[updateTarget](payload)
		if err != nil {
			return Overlay{}, err
		}
		vars := map[string]string{}
		if db := p.NewTarget.DestinationDB; db != nil {
			vars[varTargetDatabase] = *db
		}
		if schema := p.NewTarget.Schema; schema != nil {
			vars[varTargetSchema] = *schema
		}
		inputs, err := json.Marshal(map[string]any{"vars": vars})
		return Overlay{inputs: inputs}, err
	}
	return Overlay{}, fmt.Errorf("control: %s is no overlay", t)
}

// Apply returns a step's inputs and the run's parameters with the change of o.
func (o Overlay) Apply(inputs, params json.RawMessage) (newInputs, newParams json.RawMessage) {
	if o.params != nil {
		params = plan.MergePatch(params, o.params)
	}
	if o.inputs != nil {
		inputs = plan.MergePatch(inputs, o.inputs)
	}
	return inputs, params
}

// EachOverlay calls take with each overlay that was accepted for a step after the event after and up to the event upTo,
// in order.
func EachOverlay(ctx context.Context, from store.Overlays, b artifact.Blobs, runID, stepID string, after, upTo run.Seq,
	take func(run.SignalReceipt, Overlay)) error {
	for {
		receipts, err := from.Overlays(ctx, runID, stepID, after, upTo)
		if err != nil {
			return err
		}
		for _, r := range receipts {
			payload, err := openPayload(ctx, b, r.Payload)
			if err != nil {
				return fmt.Errorf("control: payload of signal %s: %w", r.Signal.ID, err)
			}
			o, err := overlayOf(r.Signal.Type, payload)
			if err != nil {
				return fmt.Errorf("control: payload of signal %s: %w", r.Signal.ID, err)
			}
			take(r, o)
			after = r.AcceptedSeq
		}
		if len(receipts) < store.MaxPage {
			return nil
		}
	}
}

// payloadRef is the content of a receipt whose payload is stored as an artifact because of its size (contract W-12).
type payloadRef struct {
	Artifact *run.ArtifactRef `json:"artifact,omitempty"`
}

const kindPayload = "signal-payload"

// compactPayload returns the form of a payload in a receipt: the payload itself, or above limit bytes a reference to an
// artifact. It stores nothing.
func compactPayload(r run.Identity, payload json.RawMessage, limit int) (json.RawMessage, error) {
	if len(payload) <= limit {
		return payload, nil
	}
	sum := sha256.Sum256(payload)
	digest := hex.EncodeToString(sum[:])
	return json.Marshal(payloadRef{Artifact: &run.ArtifactRef{
		URI: artifact.URI(payloadName(r, digest)), Kind: kindPayload, SHA256: digest, SizeBytes: int64(len(payload)),
		ContentType: "application/json",
	}})
}

func payloadName(r run.Identity, digest string) string {
	return strings.Join([]string{r.TenantID, r.RunID, "signals", digest + ".json"}, "/")
}

// putPayload stores a payload that compactPayload replaced by a reference. It is idempotent.
func putPayload(ctx context.Context, b artifact.Blobs, r run.Identity, payload json.RawMessage) error {
	if b == nil {
		return errors.New("control: there is no artifact store for the payload of a signal")
	}
	sum := sha256.Sum256(payload)
	_, _, _, err := b.Put(ctx, payloadName(r, hex.EncodeToString(sum[:])), bytes.NewReader(payload))
	return err
}

// openPayload returns the payload that a receipt contains or refers to.
func openPayload(ctx context.Context, b artifact.Blobs, kept json.RawMessage) (json.RawMessage, error) {
	p, err := run.PayloadOf[payloadRef](kept)
	if err != nil || p.Artifact == nil {
		return kept, err
	}
	body, err := b.Open(ctx, p.Artifact.URI)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	doc, err := io.ReadAll(io.LimitReader(body, p.Artifact.SizeBytes+1))
	if err != nil {
		return nil, err
	}
	if sum := sha256.Sum256(doc); hex.EncodeToString(sum[:]) != p.Artifact.SHA256 {
		return nil, fmt.Errorf("%s has other bytes than the accepted payload", p.Artifact.URI)
	}
	return doc, nil
}

// acceptOverlay accepts a change of parameters, inputs or target. The receipt itself is the stored overlay (contract
// T197).
func (j *judging) acceptOverlay(ctx context.Context, tx store.RunTx) error {
	n, _, err := tx.CountOverlays(ctx, j.in.Signal.StepID)
	if err != nil {
		return err
	}
	if n >= maxOverlays {
		return j.reject(ctx, tx, run.CodeInvalidRunState,
			fmt.Sprintf("The run has had %d changes of parameters, inputs and targets, the maximum. Start a new run.",
				n))
	}
	return j.appendApplied(ctx, tx, run.GateOverlaid)
}
