package authz

// KnowsTenant reports whether the tenant has an account, a policy or a token.
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
