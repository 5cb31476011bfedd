package authz

// Approval returns how many people must approve a run of a project and environment before it starts; 0 means none. The
// tenant's most specific row that covers both decides. Between a row for the project and one for the environment the
// stricter decides. The result for a policy that cannot be read is 0, which is safe because Decide then refuses every
// start in the tenant. A call costs a few map look-ups.
func (a *Authorizer) Approval(tenantID, project, environment string) int {
	t := a.state.Load().tenants[tenantID]
	if t == nil {
		return 0
	}
	if n, ok := t.approvals[scope{project, environment}]; ok {
		return n
	}
	ofProject, ok := t.approvals[scope{project, "*"}]
	ofEnvironment, ok2 := t.approvals[scope{"*", environment}]
	if ok || ok2 {
		return max(ofProject, ofEnvironment)
	}
	return t.approvals[scope{"*", "*"}]
}

func approvalsOf(rows []Approval) map[scope]int {
	out := make(map[scope]int, len(rows))
	for _, r := range rows {
		out[scopeOf(r.ProjectID, r.EnvironmentID)] = r.Required
	}
	return out
}
