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

// WorkerServes reports whether a worker account serves a tenant. An account that the settings do not have, such as that
// of a worker within the server, serves all.
func (a *Authorizer) WorkerServes(account, tenantID string) bool {
	return a.directory.workerServes(account, tenantID)
}

func (d *Directory) workerServes(account, tenantID string) bool {
	d.mu.RLock()
	defer d.mu.RUnlock()
	known := false
	for _, a := range d.byToken {
		if a.Worker && a.ID == account {
			known = true
			if (Worker{Serves: a.Serves}).MayServe(tenantID) {
				return true
			}
		}
	}
	return !known
}
