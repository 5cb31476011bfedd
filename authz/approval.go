package authz

// Approval is how many people must approve a run of a project and environment before
// it starts; 0: none. Of the tenant's rows that cover the place the most specific one
// decides; of one for the project and one for the environment, the stricter. A policy that
// cannot be read asks for nobody: nothing is decided for its tenant anyway. It costs a few look-ups.
func (a *Authorizer) Approval(tenantID, project, environment string) int {
	t := a.state.Load().tenants[tenantID]
	if t == nil {
		return 0
	}
	if n, ok := t.approvals[place{project, environment}]; ok {
		return n
	}
	ofProject, ok := t.approvals[place{project, "*"}]
	ofEnvironment, ok2 := t.approvals[place{"*", environment}]
	if ok || ok2 {
		return max(ofProject, ofEnvironment)
	}
	return t.approvals[place{"*", "*"}]
}

func approvalsOf(rows []Approval) map[place]int {
	out := make(map[place]int, len(rows))
	for _, r := range rows {
		out[placeOf(r.ProjectID, r.EnvironmentID)] = r.Required
	}
	return out
}
