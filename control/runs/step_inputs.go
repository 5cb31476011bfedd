package runs

import (
	"context"
	"encoding/json"
	"errors"
	"slices"

	"github.com/dvt-engine/dvt/artifact"
	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control"
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

// NewInputReader makes a InputReader.
func NewInputReader(rights *control.Rights, store store.Overlays, plans *PlanReader,
	blobs artifact.Blobs) *InputReader {
	return &InputReader{rights: rights, store: store, plans: plans, blobs: blobs}
}

// StepInputs is what an attempt of a step is given: what its plan and its run say, with the changes that were
// accepted before it began. What looks like a secret is hidden as in PlanDocument.
type StepInputs struct {
	Inputs  json.RawMessage
	Params  json.RawMessage // of the run; nil for none
	Secrets []plan.SecretRef
	Changes []SignalReceipt // UPDATE_PARAMS, INJECT_OVERRIDE and UPDATE_TARGET, in the order in which they were applied
}

// StepInputs gives what a step's attempt that began at upTo was given, or one that began now when upTo is 0. Nil
// when PlanDocument has none, and when the plan has no such step. NOT_FOUND, STORE_UNAVAILABLE.
func (s *InputReader) StepInputs(ctx context.Context, p authz.Principal, runID, stepID string,
	upTo run.Seq) (*StepInputs,
	error) {
	r, err := s.rights.Visible(ctx, p, authz.Read, runID)
	if err != nil {
		return nil, err
	}
	pl, err := s.plans.storedPlan(ctx, r.PlanRef)
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil //nolint:nilnil // there is none yet
	}
	if err != nil {
		return nil, control.Translate(err)
	}
	i := slices.IndexFunc(pl.Steps, func(step plan.Step) bool { return step.StepID == stepID })
	if i < 0 || !control.OfPlace(pl.Scope, r.Identity) {
		return nil, nil //nolint:nilnil // whoever knows a digest may ask for a run of it
	}
	out := &StepInputs{Inputs: pl.Steps[i].Inputs, Params: r.Params, Secrets: pl.Steps[i].SecretRefs}
	if err := s.change(ctx, out, runID, stepID, upTo); err != nil {
		return nil, control.Translate(err)
	}
	out.Inputs = hideSecrets(out.Inputs)
	if out.Params != nil {
		out.Params = hideSecrets(out.Params)
	}
	return out, nil
}

// change applies to in what was accepted for the step up to an event of the run.
func (s *InputReader) change(ctx context.Context, in *StepInputs, runID, stepID string, upTo run.Seq) error {
	if upTo == 0 {
		upTo = run.MaxSeq
	}
	return EachOverlay(ctx, s.store, s.blobs, runID, stepID, 0, upTo, func(r run.Receipt, o Overlay) {
		in.Inputs, in.Params = o.Apply(in.Inputs, in.Params)
		in.Changes = append(in.Changes, SignalReceipt{Receipt: r})
	})
}
