package authz

// KnowsTenant reports whether anybody has an account in the tenant, or it has a policy or tokens.
func (a *Authorizer) KnowsTenant(tenantID string) bool {
	s := a.state.Load()
	if s.tenants[tenantID] != nil || len(a.directory.all(tenantID)) > 0 {
		return true
	}
	for _, t := range s.tokens {
		if t.TenantID == tenantID {
			return true
		}
	}
	return false
}
