package control

import (
	"encoding/json"

	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
)

// IsOfPlace says whether a plan was made for where the run is.
func IsOfPlace(body json.RawMessage, id run.Identity) bool {
	var of struct{ Scope plan.Scope }
	err := json.Unmarshal(body, &of)
	return err == nil && OfPlace(of.Scope, id)
}

// OfPlace reports whether a scope of a plan is that of a run.
func OfPlace(of plan.Scope, id run.Identity) bool {
	return of.TenantID == id.TenantID && of.ProjectID == id.ProjectID && of.EnvironmentID == id.EnvironmentID
}

// OpenPlan reads the plan that a reference names from the stored document: errors of plan.Ref.Open and plan.Parse.
func OpenPlan(doc []byte, ref plan.Ref, queues plan.Queues) (plan.Plan, error) {
	body, err := ref.Open(doc)
	if err != nil {
		return plan.Plan{}, err
	}
	return plan.Parse(body, queues)
}
