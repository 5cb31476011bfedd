package control

import (
	"encoding/json"

	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
)

// PlanIsInScope reports whether a plan document was made for the tenant, project and environment of a run.
func PlanIsInScope(body json.RawMessage, id run.Identity) bool {
	var of struct{ Scope plan.Scope }
	err := json.Unmarshal(body, &of)
	return err == nil && IsInScope(of.Scope, id)
}

// IsInScope reports whether the scope of a plan is the scope of a run.
func IsInScope(of plan.Scope, id run.Identity) bool {
	return of.TenantID == id.TenantID && of.ProjectID == id.ProjectID && of.EnvironmentID == id.EnvironmentID
}

// OpenPlan parses the plan that a reference names from the stored document. It returns the errors of plan.Ref.Open and
// plan.Parse.
func OpenPlan(doc []byte, ref plan.Ref, queues plan.Queues) (plan.Plan, error) {
	body, err := ref.Open(doc)
	if err != nil {
		return plan.Plan{}, err
	}
	return plan.Parse(body, queues)
}
