package authz

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dvt-engine/dvt/plan"
)

// grace is how long decisions use the last confirmed policy while its source does not answer (contract T202).
const grace = 5 * time.Minute

// Authorizer makes decisions. Make it with New. It is safe for concurrent use: each decision reads one immutable state.
type Authorizer struct {
	directory *Directory
	swap      sync.Mutex // serialises changes, so that versions grow by one
	state     atomic.Pointer[state]
	changed   atomic.Pointer[chan struct{}]
	// confirmed is the time of the last confirmation by the source, in nanoseconds since 1970. 0: there is no source.
	confirmed atomic.Int64
	uses      uses
}

// state is everything that is in force. It is never changed; a change makes a new one.
type state struct {
	version int64
	source  int64              // Stored.Version
	base    *rules             // for tenants without a policy of their own
	baseDoc []Rule             // the source of base
	tenants map[string]*policy // tenants with a policy of their own
	tokens  map[string]*Token  // by id
	hashes  map[[sha256.Size]byte]*Token
}

// policy is the compiled policy of one tenant.
type policy struct {
	version int64
	doc     Document
	rules   *rules // nil: the document cannot be read
	grants  map[string][]Grant
	names   []string // principals and groups that have grants, sorted
	// approvals is the number of people who must approve a run in a scope.
	approvals map[scope]int
	sandboxes map[scope]plan.SandboxCeiling
}

// New makes an Authorizer. list (usually DefaultPolicy) and the grants of the directory's accounts apply in tenants
// without a policy of their own. It fails for rules with an unknown role or action.
func New(list []Rule, d *Directory) (*Authorizer, error) {
	a := &Authorizer{directory: d, uses: uses{last: map[string]time.Time{}}}
	a.state.Store(&state{})
	c := make(chan struct{})
	a.changed.Store(&c)
	return a, a.Swap(list)
}

// Swap replaces the rules for tenants without a policy of their own, and closes the channel of Changed. On an error the
// old rules stay in force (contract T202).
func (a *Authorizer) Swap(list []Rule) error {
	if err := checkRules(list); err != nil {
		return err
	}
	r, err := compile(list)
	if err != nil {
		return err
	}
	a.change(func(s *state) { s.base, s.baseDoc = r, list })
	return nil
}

// Load replaces the policies and tokens by those of the source, and closes the channel of Changed. From the first Load
// on the Authorizer depends on the source: it answers ErrUnavailable when neither Load nor Confirm was called for 5
// minutes (contract T202). A policy that cannot be read makes only its own tenant unavailable.
func (a *Authorizer) Load(s Stored) error {
	tenants := make(map[string]*policy, len(s.Policies))
	now := a.state.Load()
	for _, p := range s.Policies {
		if old := now.tenants[p.TenantID]; old != nil && old.version == p.Version && old.rules != nil {
			tenants[p.TenantID] = old // a version never changes its content
			continue
		}
		made, err := newPolicy(p)
		if err != nil {
			return err
		}
		tenants[p.TenantID] = made
	}
	tokens, hashes := make(map[string]*Token, len(s.Tokens)), make(map[[sha256.Size]byte]*Token, len(s.Tokens))
	for _, t := range s.Tokens {
		tokens[t.ID], hashes[t.SHA256] = &t, &t
	}
	a.change(func(st *state) { st.source, st.tenants, st.tokens, st.hashes = s.Version, tenants, tokens, hashes })
	a.uses.retain(tokens)
	a.Confirm()
	return nil
}

func newPolicy(p StoredPolicy) (*policy, error) {
	out := &policy{version: p.Version, grants: map[string][]Grant{}}
	if p.Document == nil {
		return out, nil
	}
	out.doc = *p.Document
	out.approvals = approvalsOf(out.doc.Approvals)
	out.sandboxes = sandboxesOf(out.doc.Sandbox)
	list := out.doc.Rules
	if list == nil {
		list = DefaultPolicy()
	}
	var err error
	if out.rules, err = compile(list); err != nil {
		return nil, err
	}
	for _, g := range out.doc.Grants {
		held := Grant{Role: g.Role, ProjectID: g.ProjectID, EnvironmentID: g.EnvironmentID, BreakGlass: g.BreakGlass}
		if g.ExpiresAt != nil {
			held.ExpiresAt = *g.ExpiresAt
		}
		if out.grants[g.Principal] == nil {
			out.names = append(out.names, g.Principal)
		}
		out.grants[g.Principal] = append(out.grants[g.Principal], held)
	}
	slices.Sort(out.names)
	return out, nil
}

// WithPolicy returns an Authorizer that decides as a would if doc were the policy of the tenant. It shares nothing that
// changes with a, so it serves only to answer what a change would do. The document must have passed Check.
func (a *Authorizer) WithPolicy(tenantID string, doc Document) (*Authorizer, error) {
	now := *a.state.Load()
	made, err := newPolicy(StoredPolicy{TenantID: tenantID, Version: a.PolicyVersion(tenantID) + 1, Document: &doc})
	if err != nil {
		return nil, err
	}
	tenants := maps.Clone(now.tenants)
	if tenants == nil {
		tenants = map[string]*policy{}
	}
	tenants[tenantID], now.tenants = made, tenants
	out := &Authorizer{directory: a.directory, uses: uses{last: map[string]time.Time{}}}
	out.state.Store(&now)
	out.confirmed.Store(a.confirmed.Load())
	c := make(chan struct{})
	out.changed.Store(&c)
	return out, nil
}

func (a *Authorizer) change(f func(*state)) {
	a.swap.Lock()
	defer a.swap.Unlock()
	next := *a.state.Load()
	f(&next)
	next.version++
	a.state.Store(&next)
	c := make(chan struct{})
	close(*a.changed.Swap(&c))
}

// Confirm records that the source has nothing newer than the loaded state.
func (a *Authorizer) Confirm() { a.confirmed.Store(a.directory.now().UnixNano()) }

// Source returns the Version of the Stored that was loaded last.
func (a *Authorizer) Source() int64 { return a.state.Load().source }

// isUnconfirmed reports whether the source has not confirmed the state for longer than grace.
func (a *Authorizer) isUnconfirmed() bool {
	at := a.confirmed.Load()
	return at != 0 && a.directory.now().UnixNano()-at > int64(grace)
}

// Changed returns a channel that is closed at the next change of rights. Streams then check the rights of their viewers
// again.
func (a *Authorizer) Changed() <-chan struct{} { return *a.changed.Load() }

// Version returns the version of the whole state. It grows with every change.
func (a *Authorizer) Version() int64 { return a.state.Load().version }

// Policy returns the policy of a tenant and its version. For a tenant without a policy of its own the version is 0, and
// the document has the rules of New and the grants of the directory's accounts.
func (a *Authorizer) Policy(tenantID string) (Document, int64) {
	if t := a.state.Load().tenants[tenantID]; t != nil {
		return t.doc, t.version
	}
	return a.SettingsPolicy(tenantID), 0
}

// SettingsPolicy returns the policy that applies to a tenant without a policy of its own: the rules and the grants of
// the server's settings.
func (a *Authorizer) SettingsPolicy(tenantID string) Document {
	s := a.state.Load()
	doc := Document{Rules: s.baseDoc, SOD: SOD{Approve: true, CompleteManual: true}}
	if slices.Equal(s.baseDoc, DefaultPolicy()) {
		doc.Rules = nil // a policy that is made from this document then follows later defaults
	}
	for _, id := range a.directory.all(tenantID) {
		held, _ := a.directory.Grants(tenantID, id)
		for _, g := range held {
			doc.Grants = append(doc.Grants, PrincipalGrant{Principal: id, Role: g.Role, ProjectID: g.ProjectID,
				EnvironmentID: g.EnvironmentID})
		}
	}
	return doc
}

// PolicyVersion returns the version of the tenant's policy, or 0 if it has no policy of its own.
func (a *Authorizer) PolicyVersion(tenantID string) int64 {
	if t := a.state.Load().tenants[tenantID]; t != nil {
		return t.version
	}
	return 0
}

// SOD returns the separation of duties of a tenant. It costs one map look-up.
func (a *Authorizer) SOD(tenantID string) SOD {
	if t := a.state.Load().tenants[tenantID]; t != nil {
		return t.doc.SOD
	}
	return SOD{Approve: true, CompleteManual: true}
}

// Decide reports whether p may do action to o. A principal of another tenant, or without a grant for the scope, may do
// nothing. With an API token p may do only what both the token and its own rights allow. The error is ErrUnavailable if
// the tenant's policy cannot be read or is not confirmed.
func (a *Authorizer) Decide(p Principal, action Action, o Object) (Decision, error) {
	s := a.state.Load()
	at, tables, version := scope{o.ProjectID, o.EnvironmentID}, [4]*table{}, int64(0)
	t := s.tenants[p.TenantID]
	switch {
	case t == nil:
		tables = s.base.tablesFor(at)
	case t.rules != nil:
		tables, version = t.rules.tablesFor(at), t.version
	}
	d := Decision{RequiredRole: least(tables, action), Version: s.version, Policy: version}
	if p.TenantID == "" || p.TenantID != o.TenantID {
		return d, nil
	}
	if t != nil && t.rules == nil || a.isUnconfirmed() {
		return d, fmt.Errorf("%w: the policy of the tenant cannot be read", ErrUnavailable)
	}
	now := a.directory.now()
	rule := matchingRule(a.heldGrants(s, p), tables, action, at, now)
	if rule != "" && p.TokenID != "" {
		token := a.liveToken(s, p, p.TokenID, now)
		if token == nil || matchingRule(token.Grants, tables, action, at, now) == "" {
			rule = ""
		}
	}
	if p.SessionID != "" && a.liveToken(s, p, p.SessionID, now) == nil {
		rule = ""
	}
	d.Allowed, d.Rule = rule != "", rule
	return d, nil
}

// heldGrants returns the grants of a principal and of its groups, also expired ones.
func (a *Authorizer) heldGrants(s *state, p Principal) []Grant {
	out := a.grantsOf(s, p.TenantID, p.ID)
	for _, group := range p.Groups {
		if more := a.grantsOf(s, p.TenantID, group); len(more) > 0 {
			out = slices.Concat(out, more)
		}
	}
	return out
}

// grantsOf returns the grants that name the principal or group id.
func (a *Authorizer) grantsOf(s *state, tenantID, id string) []Grant {
	if t := s.tenants[tenantID]; t != nil {
		return t.grants[id]
	}
	held, _ := a.directory.Grants(tenantID, id)
	return held
}

// liveToken returns the token or session id of p, or nil if it does not exist, has expired, belongs to another
// principal, or its account or provider is gone.
func (a *Authorizer) liveToken(s *state, p Principal, id string, now time.Time) *Token {
	t := s.tokens[id]
	if t == nil || t.TenantID != p.TenantID || t.Principal != p.ID || !now.Before(t.ExpiresAt) {
		return nil
	}
	known := IsService(p.ID) || a.directory.IsAlive(p.TenantID, p.ID)
	if t.Provider != "" {
		known = a.directory.trusts(t.Provider, p.TenantID)
	}
	if !known {
		return nil
	}
	return t
}

// matchingRule returns the rule by which one of the grants allows the action, or "".
func matchingRule(grants []Grant, tables [4]*table, action Action, at scope, now time.Time) string {
	for _, g := range grants {
		if !(scope{g.ProjectID, g.EnvironmentID}).covers(at) || !g.lasts(now) {
			continue
		}
		if rule := allow(tables, g.Role, action); rule != "" {
			return rule
		}
	}
	return ""
}

// lasts reports whether the grant has not expired.
func (g Grant) lasts(now time.Time) bool { return g.ExpiresAt.IsZero() || now.Before(g.ExpiresAt) }
