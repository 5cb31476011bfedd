package authz

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
)

// Account is a principal or worker from the settings, identified by the hash of its token. Tokens themselves are never
// stored (contract O6).
type Account struct {
	ID          string    `yaml:"id" json:"id"`
	TenantID    string    `yaml:"tenant" json:"tenant"`
	TokenSHA256 string    `yaml:"tokenSha256" json:"tokenSha256"` // lower-case hex
	Grants      []Grant   `yaml:"grants" json:"grants"`
	ExpiresAt   time.Time `yaml:"expiresAt" json:"expiresAt"`
	// OIDC marks a person or group that only an OIDC provider can authenticate. It has grants and no token.
	OIDC bool `yaml:"oidc" json:"oidc"`
	// Worker marks a data-plane worker. It may only start and end attempts and report on them, for runs of the tenants
	// in Serves and dispatches to the queues in Queues (contract T203).
	Worker bool     `yaml:"worker" json:"worker"`
	Serves []string `yaml:"serves" json:"serves"` // tenants of a worker; "*" is all
	// Queues of a worker: names, or prefixes of names with a trailing *. Empty means all queues.
	Queues []string `yaml:"queues" json:"queues"`
}

// Worker is an authenticated data-plane worker.
type Worker struct {
	ID     string
	Serves []string // tenants
	Queues []string // names or prefixes; see Account
}

// MayServe reports whether the worker may act for runs of the tenant.
func (w Worker) MayServe(tenantID string) bool {
	return slices.Contains(w.Serves, "*") || slices.Contains(w.Serves, tenantID)
}

// MayServeQueue reports whether the worker may take dispatches to the queue.
func (w Worker) MayServeQueue(queue string) bool {
	return slices.ContainsFunc(w.Queues, func(pattern string) bool {
		beginning, open := strings.CutSuffix(pattern, "*")
		return queue == pattern || open && strings.HasPrefix(queue, beginning)
	})
}

// Directory holds the accounts of the settings and the trusted providers. It is safe for concurrent use.
type Directory struct {
	now func() time.Time

	mu       sync.RWMutex
	byToken  map[[sha256.Size]byte]*Account
	accounts map[name]*Account
	tenants  map[string][]string // principals of a tenant, sorted
	trusted  []Provider
}

var aQueue = regexp.MustCompile(`^[A-Za-z0-9._:-]*(?:[A-Za-z0-9._:-]|\*)$`)

// name identifies a principal.
type name struct{ tenantID, id string }

// NewDirectory makes a Directory of the accounts. Its error lists every problem of every account. now is the clock for
// expiries.
func NewDirectory(accounts []Account, now func() time.Time) (*Directory, error) {
	d := &Directory{
		now: now, byToken: map[[sha256.Size]byte]*Account{}, accounts: map[name]*Account{}, tenants: map[string][]string{},
	}
	var errs []error
	for i, a := range accounts {
		for _, err := range d.add(a) {
			errs = append(errs, fmt.Errorf("accounts[%d] %q: %w", i, a.ID, err))
		}
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	for _, ids := range d.tenants {
		slices.Sort(ids)
	}
	return d, nil
}

// add adds an account, or returns everything that is wrong with it.
func (d *Directory) add(a Account) (errs []error) {
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	raw, err := hex.DecodeString(a.TokenSHA256)
	hashed := err == nil && len(raw) == sha256.Size
	switch {
	case IsSystem(a.ID):
		check(a.TokenSHA256 == "" && !a.Worker && !a.OIDC, "what begins with %s has grants only: nobody signs in as it",
			systemPrefix)
		hashed = false
	case a.OIDC:
		check(a.TokenSHA256 == "" && !a.Worker, "what OIDC knows has no token and is no worker")
		hashed = false
	default:
		check(hashed, "tokenSha256 must be the SHA-256 of the token in hex")
		check(!IsGroup(a.ID), "only what OIDC knows begins with %s: set oidc", groupPrefix)
	}
	var hash [sha256.Size]byte
	if hashed {
		hash = [sha256.Size]byte(raw)
		check(hash != sha256.Sum256(nil), "tokenSha256 is that of no token at all")
		check(d.byToken[hash] == nil, "another account has the same token")
	}
	check(a.ID != "", "id is missing")
	check(!IsService(a.ID), "an id does not begin with %s: such principals have API tokens only", servicePrefix)
	if a.Worker {
		check(len(a.Serves) > 0, "serves must name the worker's tenants")
		check(len(a.Grants) == 0, "a worker has no grants")
		for _, q := range a.Queues {
			check(aQueue.MatchString(q), "%q is no queue: write a name, or the beginning of names and a *", q)
		}
	} else {
		check(len(a.Queues) == 0, "only a worker serves queues")
		check(a.TenantID != "", "tenant is missing")
		check(d.accounts[name{a.TenantID, a.ID}] == nil, "the id is taken in this tenant")
		check(len(a.Serves) == 0, "only a worker serves tenants")
	}
	for _, g := range a.Grants {
		check(slices.Contains(Roles(), g.Role) && g.ProjectID != "" && g.EnvironmentID != "",
			"grant %s on %q/%q is not known", g.Role, g.ProjectID, g.EnvironmentID)
	}
	if len(errs) > 0 {
		return errs
	}
	if hashed {
		d.byToken[hash] = &a
	}
	if !a.Worker {
		d.accounts[name{a.TenantID, a.ID}] = &a
		d.tenants[a.TenantID] = append(d.tenants[a.TenantID], a.ID)
	}
	return nil
}

// lookup finds the account of a token. Only hashes are compared, so the time of a comparison reveals nothing about a
// token.
func (d *Directory) lookup(token string) (Account, error) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	a, ok := d.byToken[sha256.Sum256([]byte(token))]
	if !ok {
		return Account{}, ErrUnauthenticated
	}
	if a.expired(d.now()) {
		return Account{}, ErrExpired
	}
	return *a, nil
}

func (a *Account) expired(now time.Time) bool {
	return !a.ExpiresAt.IsZero() && !now.Before(a.ExpiresAt)
}

// Authenticate returns the principal of an account's token. Its errors are ErrUnauthenticated and ErrExpired.
func (d *Directory) Authenticate(token string) (Principal, error) {
	a, err := d.lookup(token)
	if err != nil {
		return Principal{}, err
	}
	if a.Worker {
		return Principal{}, ErrUnauthenticated
	}
	return Principal{ID: a.ID, TenantID: a.TenantID, Grants: a.Grants, ExpiresAt: a.ExpiresAt}, nil
}

// AuthenticateWorker returns the worker of a token. Its errors are ErrUnauthenticated and ErrExpired.
func (d *Directory) AuthenticateWorker(token string) (Worker, error) {
	a, err := d.lookup(token)
	if err != nil {
		return Worker{}, err
	}
	if !a.Worker {
		return Worker{}, ErrUnauthenticated
	}
	queues := a.Queues
	if len(queues) == 0 {
		queues = []string{"*"}
	}
	return Worker{ID: a.ID, Serves: a.Serves, Queues: queues}, nil
}

// Grants returns the current grants of an account, and false if it does not exist. The caller must not change the
// slice.
func (d *Directory) Grants(tenantID, id string) ([]Grant, bool) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	a, ok := d.accounts[name{tenantID, id}]
	if !ok {
		return nil, false
	}
	return a.Grants, true
}

// Principals lists a tenant's principals whose tokens have not expired, sorted.
func (d *Directory) Principals(tenantID string) []string {
	d.mu.RLock()
	defer d.mu.RUnlock()
	now := d.now()
	var out []string
	for _, id := range d.tenants[tenantID] {
		if !d.accounts[name{tenantID, id}].expired(now) {
			out = append(out, id)
		}
	}
	return out
}

// IsAlive reports whether a principal of the tenant has an account that has not expired.
func (d *Directory) IsAlive(tenantID, id string) bool {
	d.mu.RLock()
	defer d.mu.RUnlock()
	a, ok := d.accounts[name{tenantID, id}]
	return ok && !a.expired(d.now())
}

// all lists a tenant's principals, also those whose tokens have expired, sorted. The caller must not change the slice.
func (d *Directory) all(tenantID string) []string {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return d.tenants[tenantID]
}

// SetGrants replaces the grants of an account. The caller must call Swap of its Authorizer afterwards, so that streams
// check rights again.
func (d *Directory) SetGrants(tenantID, id string, grants []Grant) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if a, ok := d.accounts[name{tenantID, id}]; ok {
		a.Grants = slices.Clone(grants)
	}
}

// RecoveryAccount lets the recovery of dvt act in every project of a tenant whose grants come from accounts.
func RecoveryAccount(tenantID string) Account {
	return Account{ID: Recovery, TenantID: tenantID, Grants: []Grant{{Role: Engineer, ProjectID: "*",
		EnvironmentID: "*"}}}
}

// DevAccounts returns the principals of `dvt dev`: one per role in tenant acme, and an Admin in tenant globex. tokenOf
// returns the token of the principal with that name.
func DevAccounts(tokenOf func(name string) string) []Account {
	var out []Account
	add := func(tenant, id string, role Role) {
		sum := sha256.Sum256([]byte(tokenOf(id)))
		out = append(out, Account{
			ID: id, TenantID: tenant, TokenSHA256: hex.EncodeToString(sum[:]),
			Grants: []Grant{{Role: role, ProjectID: "*", EnvironmentID: "*"}},
		})
	}
	for _, r := range []struct {
		id   string
		role Role
	}{
		{"dev-viewer", Viewer}, {"dev-operator", Operator}, {"dev-engineer", Engineer}, {"dev-admin", Admin},
		{"dev-planner", Planner}, {"dev-system", System}, {"dev-sre", SRE},
	} {
		add("acme", r.id, r.role)
	}
	add("globex", "dev-mallory", Admin)
	return out
}
