package runs

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/internal/secretvalue"
	"github.com/dvt-engine/dvt/store"
)

// RunRequest is the work that a run was requested to do, for people who approve it.
type RunRequest struct {
	Steps  int             // of the plan; 0 while no worker has fetched it
	Params json.RawMessage // nil when the run has none; values that look like a secret are hidden
}

// RunRequest reads the size of a run's plan and the parameters of the run. Errors:
// NOT_FOUND, STORE_UNAVAILABLE.
func (s *PlanReader) RunRequest(ctx context.Context, p authz.Principal, runID string) (RunRequest, error) {
	r, err := s.rights.GetVisible(ctx, p, authz.Read, runID)
	if err != nil {
		return RunRequest{}, err
	}
	out := RunRequest{}
	if len(r.Params) > 0 {
		out.Params = secretvalue.Hide(r.Params)
	}
	pl, _, err := s.planOfRun(ctx, r) // without steps when it is not known
	if err != nil {
		return RunRequest{}, control.Translate(err)
	}
	out.Steps = len(pl.Steps)
	return out, nil
}

// PlanDocument reads the document of a run's plan. It returns nil when no worker has fetched the plan yet, and when the
// plan has another scope than the run, which then will not start. It hides the values of members whose names look like
// a secret, and the paths of addresses, because the path of a webhook is often its secret. The result therefore need
// not have the plan's digest. Error: NOT_FOUND.
func (s *PlanReader) PlanDocument(ctx context.Context, p authz.Principal, runID string) (json.RawMessage, error) {
	r, err := s.rights.GetVisible(ctx, p, authz.Read, runID)
	if err != nil {
		return nil, err
	}
	body, err := s.body(ctx, r)
	if err != nil || body == nil {
		return nil, err
	}
	return secretvalue.Hide(body), nil
}

// StepOrder returns the positions of the steps in the plan document of a run. The result is empty when PlanDocument
// would return nil. Error: NOT_FOUND.
func (s *PlanReader) StepOrder(ctx context.Context, p authz.Principal, runID string) (map[string]int, error) {
	r, err := s.rights.GetVisible(ctx, p, authz.Read, runID)
	if err != nil {
		return nil, err
	}
	body, err := s.body(ctx, r)
	if err != nil || body == nil {
		return nil, err
	}
	var doc struct {
		Steps []struct {
			StepID string `json:"stepId"`
		} `json:"steps"`
	}
	if err := json.Unmarshal(body, &doc); err != nil {
		return nil, control.Translate(err)
	}
	out := make(map[string]int, len(doc.Steps))
	for i, step := range doc.Steps {
		out[step.StepID] = i
	}
	return out, nil
}

// body returns the document of the plan of a run; nil as PlanDocument.
func (s *PlanReader) body(ctx context.Context, r store.Run) ([]byte, error) {
	kept, err := s.store.Plan(ctx, r.PlanRef.SHA256)
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil //nolint:nilnil // no worker has fetched it yet
	}
	if err != nil {
		return nil, control.Translate(err)
	}
	body, err := r.PlanRef.Open(kept)
	if err != nil {
		return nil, control.Translate(err)
	}
	if !control.PlanIsInScope(body, r.Identity) {
		return nil, nil //nolint:nilnil // anybody who knows the digest can start a run with it
	}
	return body, nil
}
