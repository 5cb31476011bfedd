package runs

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/store"
)

// PlanDocument reads the document of a run's plan: nil when no worker has fetched it yet, or when it is of another
// place than the run, which will not start. Values of members that look like a secret by their names are hidden, and so
// is the path of an address, which is the secret of many webhooks. The document need not have the plan's digest.
// NOT_FOUND.
func (s *PlanReader) PlanDocument(ctx context.Context, p authz.Principal, runID string) (json.RawMessage, error) {
	r, err := s.rights.Visible(ctx, p, authz.Read, runID)
	if err != nil {
		return nil, err
	}
	kept, err := s.store.Plan(ctx, r.PlanRef.SHA256)
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil //nolint:nilnil // there is none yet
	}
	if err != nil {
		return nil, control.Translate(err)
	}
	body, err := r.PlanRef.Open(kept)
	if err != nil {
		return nil, control.Translate(err)
	}
	if !control.IsOfPlace(body, r.Identity) {
		return nil, nil //nolint:nilnil // whoever knows a digest may ask for a run of it
	}
	return hideSecrets(body), nil
}
