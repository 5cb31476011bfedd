package authz

import (
	"slices"
	"strings"
)

// Provider says who people are beside the accounts: an OIDC issuer that the settings trust.
type Provider struct {
	Name     string
	TenantID string // of whom it says; "": it names the tenant itself
}

// Trust adds a provider. Tokens and sessions of who came by one that is not trusted have no rights.
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

// mayCome reports whether somebody could come as the principal, or as one of the group: it
// has an account that has not expired, or a provider could name it.
func (d *Directory) mayCome(tenantID, id string) bool {
	d.mu.RLock()
	defer d.mu.RUnlock()
	if a, ok := d.accounts[name{tenantID, id}]; ok && !a.OIDC {
		return !a.expired(d.now())
	}
	return slices.ContainsFunc(d.trusted, func(p Provider) bool { return p.TenantID == "" || p.TenantID == tenantID })
}

// groupPrefix begins the names by which the policy gives grants to groups.
const groupPrefix = "group:"

// GroupID is the name of a group in the policy.
func GroupID(name string) string { return groupPrefix + name }

// IsGroup reports whether a name is that of a group.
func IsGroup(id string) bool { return strings.HasPrefix(id, groupPrefix) }

// Nameable reports whether a policy could name the principal or group, and a provider may:
// 1 to 256 printable characters without spaces, and no service's.
func Nameable(id string) bool {
	return id != "" && len(id) <= maxNameLength && !strings.ContainsFunc(id, unprintable) && !IsService(id)
}
