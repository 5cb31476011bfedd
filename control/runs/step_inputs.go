package runs

import (
	"context"
	"encoding/json"
	"errors"
	"slices"

	"github.com/dvt-engine/dvt/artifact"
	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/internal/secretvalue"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// InputReader shows the inputs of steps as their attempts get them. It is safe for concurrent use.
type InputReader struct {
	rights *control.Rights
	store  store.Overlays
	plans  *PlanReader
	blobs  artifact.Blobs
}

// NewInputReader makes an InputReader.
func NewInputReader(rights *control.Rights, store store.Overlays, plans *PlanReader,
	blobs artifact.Blobs) *InputReader {
	return &InputReader{rights: rights, store: store, plans: plans, blobs: blobs}
}

// StepInputs are the inputs of an attempt: those of the plan and the run, with the changes that were accepted before
// the attempt started. Values that look like a secret are hidden as in PlanDocument.
type StepInputs struct {
	Inputs  json.RawMessage
	Params  json.RawMessage // of the run; nil when it has none
	Secrets []plan.SecretRef
	Changes []SignalReceipt // UPDATE_PARAMS, INJECT_OVERRIDE and UPDATE_TARGET, in the order in which they were applied
}

// StepInputs returns the inputs of the attempt that started at the event upTo, or, when upTo is 0, of one that starts
// now. It returns nil when PlanDocument does, and when the plan has no such step. Errors: NOT_FOUND, STORE_UNAVAILABLE.
func (s *InputReader) StepInputs(ctx context.Context, p authz.Principal, runID, stepID string,
	upTo run.Seq) (*StepInputs,
	error) {
	r, err := s.rights.GetVisible(ctx, p, authz.Read, runID)
	if err != nil {
		return nil, err
	}
	pl, err := s.plans.storedPlan(ctx, r.PlanRef)
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil //nolint:nilnil // no worker has fetched it yet
	}
	if err != nil {
		return nil, control.Translate(err)
	}
	i := slices.IndexFunc(pl.Steps, func(step plan.Step) bool { return step.StepID == stepID })
	if i < 0 || !control.IsInScope(pl.Scope, r.Identity) {
		return nil, nil //nolint:nilnil // anybody who knows the digest can start a run with it
	}
	out := &StepInputs{Inputs: pl.Steps[i].Inputs, Params: r.Params, Secrets: pl.Steps[i].SecretRefs}
	if err := s.change(ctx, out, runID, stepID, upTo); err != nil {
		return nil, control.Translate(err)
	}
	out.Inputs = secretvalue.Hide(out.Inputs)
	if out.Params != nil {
		out.Params = secretvalue.Hide(out.Params)
	}
	return out, nil
}

// change applies the overlays that were accepted for the step up to an event of the run.
func (s *InputReader) change(ctx context.Context, in *StepInputs, runID, stepID string, upTo run.Seq) error {
	if upTo == 0 {
		upTo = run.MaxSeq
	}
	return EachOverlay(ctx, s.store, s.blobs, runID, stepID, 0, upTo, func(r run.SignalReceipt, o Overlay) {
		in.Inputs, in.Params = o.Apply(in.Inputs, in.Params)
		in.Changes = append(in.Changes, SignalReceipt{SignalReceipt: r})
	})
}
