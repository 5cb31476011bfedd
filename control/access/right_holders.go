package access

import (
	"context"
	"fmt"
	"slices"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/plan"
)

// Limits of RightHolders.
const (
	maxHolders       = 10 // names for one action
	maxHolderActions = 20
)

// RightHolders names the principals that may do an action where its caller could ask them for help.
type RightHolders struct {
	Action authz.Action
	Needs  string   // which role the action takes by the caller's policy, as a sentence; "" if no role has it
	Names  []string // at most maxHolders, sorted within each scope
	More   bool     // there may be others
}

// needsWholeTenant lists the actions that a right in a part of the tenant does not allow anywhere.
func needsWholeTenant() []authz.Action {
	return []authz.Action{authz.SetPolicy, authz.ManageTokens, authz.SetQuota, authz.FreezeTenant, authz.SetEngineMode,
		authz.ReadAudit, authz.Debug}
}

// RightHolders names for each action who may do it, so that a caller who may not knows whom to ask. It names principals
// of the caller's tenant that have the right on the whole tenant, and then, for actions that a part of the tenant is
// enough for, those that have it in the scopes of the caller's own grants in which the caller may read. The holders of
// rights in another scope are as secret as its runs. Nobody is named for SET_ENGINE_MODE outside the operators' tenant,
// and to a caller without rights. Error: BAD_USER_INPUT.
func (s *Policies) RightHolders(_ context.Context, p authz.Principal, actions []authz.Action) ([]RightHolders, error) {
	if n := len(actions); n < 1 || n > maxHolderActions {
		return nil, control.BadInput([]plan.Violation{{Path: "actions", Code: plan.CodeRange,
			Message: fmt.Sprintf("must be 1 to %d", maxHolderActions)}})
	}
	scopes, err := s.readableScopes(p)
	if err != nil {
		return nil, err
	}
	whole := authz.Object{TenantID: p.TenantID, ProjectID: "*", EnvironmentID: "*"}
	out := make([]RightHolders, len(actions))
	for i, action := range actions {
		d, err := s.rights.Authz.Decide(p, action, whole)
		if err != nil {
			return nil, control.Translate(err)
		}
		out[i] = RightHolders{Action: action}
		if d.RequiredRole != "" {
			out[i].Needs = authz.NeedsRoleSomewhere(d.RequiredRole, action)
		}
		if action == authz.SetEngineMode && p.TenantID != s.rights.Operators {
			continue
		}
		asked := scopes
		if slices.Contains(needsWholeTenant(), action) {
			asked = scopes[:min(1, len(scopes))]
		}
		for _, o := range asked {
			found := s.rights.Authz.WhoCould(action, o)
			out[i].More = out[i].More || len(found) >= maxHolders
			for _, name := range found {
				if !slices.Contains(out[i].Names, name) {
					out[i].Names = append(out[i].Names, name)
				}
			}
			if len(out[i].Names) >= maxHolders {
				out[i].Names, out[i].More = out[i].Names[:maxHolders], true
				break
			}
		}
	}
	return out, nil
}

// readableScopes returns the whole tenant and then the scopes of the grants of p in which p may read. It returns none
// for a p without grants.
func (s *Policies) readableScopes(p authz.Principal) ([]authz.Object, error) {
	grants := s.rights.Authz.Grants(p)
	if len(grants) == 0 {
		return nil, nil
	}
	out := []authz.Object{{TenantID: p.TenantID, ProjectID: "*", EnvironmentID: "*"}}
	for _, g := range grants {
		o := authz.Object{TenantID: p.TenantID, ProjectID: g.ProjectID, EnvironmentID: g.EnvironmentID}
		if slices.Contains(out, o) {
			continue
		}
		d, err := s.rights.Authz.Decide(p, authz.Read, o)
		if err != nil {
			return nil, control.Translate(err)
		}
		if d.Allowed {
			out = append(out, o)
		}
	}
	return out, nil
}
