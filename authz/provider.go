package authz

import (
	"slices"
	"strings"
)

// Provider is a source of identities beside the accounts: an OIDC issuer that the settings trust.
type Provider struct {
	Name     string
	TenantID string // tenant of everybody whom it identifies; "": its tokens name the tenant
}

// Trust adds a provider. Tokens and sessions of principals that an untrusted provider identified have no rights.
func (d *Directory) Trust(p Provider) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.trusted = append(d.trusted, p)
}

func (d *Directory) trusts(provider, tenantID string) bool {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return slices.ContainsFunc(d.trusted, func(p Provider) bool {
		return p.Name == provider && (p.TenantID == "" || p.TenantID == tenantID)
	})
}

// canSignIn reports whether a caller could authenticate as the principal or as a member of the group: it has an account
// that has not expired, or a trusted provider could name it.
func (d *Directory) canSignIn(tenantID, id string) bool {
	if IsSystem(id) {
		return false
	}
	d.mu.RLock()
	defer d.mu.RUnlock()
	if a, ok := d.accounts[name{tenantID, id}]; ok && !a.OIDC {
		return !a.expired(d.now())
	}
	return slices.ContainsFunc(d.trusted, func(p Provider) bool { return p.TenantID == "" || p.TenantID == tenantID })
}

// groupPrefix begins the names by which the policy gives grants to groups.
const groupPrefix = "group:"

// GroupID returns the name of a group in the policy.
func GroupID(name string) string { return groupPrefix + name }

// IsGroup reports whether a name in the policy is a group.
func IsGroup(id string) bool { return strings.HasPrefix(id, groupPrefix) }

// IsValidName reports whether id is a valid name of a principal or group for a policy and a provider: 1 to 256
// printable characters without spaces, and not a service.
func IsValidName(id string) bool {
	return id != "" && len(id) <= maxNameLength && !strings.ContainsFunc(id, unprintable) && !IsService(id) &&
		!IsSystem(id)
}
