package authz

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dvt-engine/dvt/plan"
)

// grace is how long the last good policy holds while its source does not answer (contract T202).
const grace = 5 * time.Minute

// Authorizer decides. Make it with New; it is safe for concurrent use, and a
// decision reads one immutable state.
type Authorizer struct {
	directory *Directory
	swap      sync.Mutex // one change at a time, so that versions grow
	state     atomic.Pointer[state]
	changed   atomic.Pointer[chan struct{}]
	// confirmed is when the source last said that the state is what it has, in
	// nanoseconds; 0: there is no source.
	confirmed atomic.Int64
	uses      uses
}

// state is all that is in force.
type state struct {
	version int64
	source  int64              // Stored.Version
	base    *rules             // of tenants without a policy of their own
	baseDoc []Rule             // the same as they were given
	tenants map[string]*policy // those with one
	tokens  map[string]*Token  // by id
	hashes  map[[sha256.Size]byte]*Token
}

// policy is that of one tenant.
type policy struct {
	version int64
	doc     Document
	rules   *rules // nil: the document cannot be read
	grants  map[string][]Grant
	names   []string // of those who have grants, sorted
	// approvals is how many people a run needs in a place.
	approvals map[place]int
	sandboxes map[place]plan.SandboxCeiling
}

// New makes an Authorizer on rules (DefaultPolicy for most) and the directory
// that it names principals from. They are what holds in tenants without a policy of their own.
func New(list []Rule, d *Directory) (*Authorizer, error) {
	a := &Authorizer{directory: d, uses: uses{last: map[string]time.Time{}}}
	a.state.Store(&state{})
	c := make(chan struct{})
	a.changed.Store(&c)
	return a, a.Swap(list)
}

// Swap puts other rules in force where a tenant has no policy of its own, and wakes who
// waits on Changed. On an error the old ones stay (contract T202).
func (a *Authorizer) Swap(list []Rule) error {
	if err := known(list); err != nil {
		return err
	}
	r, err := compile(list)
	if err != nil {
		return err
	}
	a.change(func(s *state) { s.base, s.baseDoc = r, list })
	return nil
}

// Load puts what the source has in force, and wakes who waits on Changed. From the first
// Load on the Authorizer has a source: it answers ErrUnavailable when that was not confirmed
// for 5 minutes (contract T202). A policy that cannot be read is UNAVAILABLE for its tenant alone.
func (a *Authorizer) Load(s Stored) error {
	tenants := make(map[string]*policy, len(s.Policies))
	now := a.state.Load()
	for _, p := range s.Policies {
		if old := now.tenants[p.TenantID]; old != nil && old.version == p.Version && old.rules != nil {
			tenants[p.TenantID] = old // versions never change
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
	a.uses.keep(tokens)
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

// Confirm says that the source has nothing newer than what is in force.
func (a *Authorizer) Confirm() { a.confirmed.Store(a.directory.now().UnixNano()) }

// Source is the Version of the Stored that is in force.
func (a *Authorizer) Source() int64 { return a.state.Load().source }

// unconfirmed reports whether the last good policy is too old to decide by.
func (a *Authorizer) unconfirmed() bool {
	at := a.confirmed.Load()
	return at != 0 && a.directory.now().UnixNano()-at > int64(grace)
}

// Changed returns a channel that is closed when rights may have changed since
// the call; streams look at their viewers' rights again then.
func (a *Authorizer) Changed() <-chan struct{} { return *a.changed.Load() }

// Version of all that is in force; it grows with every change.
func (a *Authorizer) Version() int64 { return a.state.Load().version }

// Policy is what holds in a tenant and its version. Version 0 is a tenant without a policy
// of its own: the rules of New, and the grants of the directory's accounts.
func (a *Authorizer) Policy(tenantID string) (Document, int64) {
	s := a.state.Load()
	if t := s.tenants[tenantID]; t != nil {
		return t.doc, t.version
	}
	doc := Document{Rules: s.baseDoc, SOD: SOD{Approve: true, CompleteManual: true}}
	if slices.Equal(s.baseDoc, DefaultPolicy()) {
		doc.Rules = nil // and so what is made of it follows the defaults
	}
	for _, id := range a.directory.all(tenantID) {
		held, _ := a.directory.Grants(tenantID, id)
		for _, g := range held {
			doc.Grants = append(doc.Grants, PrincipalGrant{Principal: id, Role: g.Role, ProjectID: g.ProjectID,
				EnvironmentID: g.EnvironmentID})
		}
	}
	return doc, 0
}

// PolicyVersion is the version of the tenant's policy; 0: it has none of its own.
func (a *Authorizer) PolicyVersion(tenantID string) int64 {
	if t := a.state.Load().tenants[tenantID]; t != nil {
		return t.version
	}
	return 0
}

// SOD is the separation of duties of a tenant. It costs a look-up.
func (a *Authorizer) SOD(tenantID string) SOD {
	if t := a.state.Load().tenants[tenantID]; t != nil {
		return t.doc.SOD
	}
	return SOD{Approve: true, CompleteManual: true}
}

// Decide says whether p may do action to o. A principal of another tenant may
// do nothing; so may one without a grant for the place. With an API token it may do
// what the token and its own rights both allow.
func (a *Authorizer) Decide(p Principal, action Action, o Object) (Decision, error) {
	s := a.state.Load()
	at, tables, version := place{o.ProjectID, o.EnvironmentID}, [4]*table{}, int64(0)
	t := s.tenants[p.TenantID]
	switch {
	case t == nil:
		tables = s.base.covering(at)
	case t.rules != nil:
		tables, version = t.rules.covering(at), t.version
	}
	d := Decision{RequiredRole: least(tables, action), Version: s.version, Policy: version}
	if p.TenantID == "" || p.TenantID != o.TenantID {
		return d, nil
	}
	if t != nil && t.rules == nil || a.unconfirmed() {
		return d, fmt.Errorf("%w: the policy of the tenant cannot be read", ErrUnavailable)
	}
	now := a.directory.now()
	rule := holds(a.held(s, p), tables, action, at, now)
	if rule != "" && p.TokenID != "" {
		token := a.live(s, p, p.TokenID, now)
		if token == nil || holds(token.Grants, tables, action, at, now) == "" {
			rule = ""
		}
	}
	if p.SessionID != "" && a.live(s, p, p.SessionID, now) == nil {
		rule = ""
	}
	d.Allowed, d.Rule = rule != "", rule
	return d, nil
}

// held are the grants of a principal itself and of its groups.
func (a *Authorizer) held(s *state, p Principal) []Grant {
	out := a.given(s, p.TenantID, p.ID)
	for _, group := range p.Groups {
		if more := a.given(s, p.TenantID, group); len(more) > 0 {
			out = slices.Concat(out, more)
		}
	}
	return out
}

// given are the grants that name somebody.
func (a *Authorizer) given(s *state, tenantID, id string) []Grant {
	if t := s.tenants[tenantID]; t != nil {
		return t.grants[id]
	}
	held, _ := a.directory.Grants(tenantID, id)
	return held
}

// live is the token or session that p came with, nil when it does not give it any rights (any more).
func (a *Authorizer) live(s *state, p Principal, id string, now time.Time) *Token {
	t := s.tokens[id]
	if t == nil || t.TenantID != p.TenantID || t.Principal != p.ID || !now.Before(t.ExpiresAt) {
		return nil
	}
	known := IsService(p.ID) || a.directory.Alive(p.TenantID, p.ID)
	if t.Provider != "" {
		known = a.directory.trusts(t.Provider, p.TenantID)
	}
	if !known {
		return nil
	}
	return t
}

// holds is the rule by which one of the grants gives the action; "": none does.
func holds(grants []Grant, tables [4]*table, action Action, at place, now time.Time) string {
	for _, g := range grants {
		if !(place{g.ProjectID, g.EnvironmentID}).covers(at) || !g.lasts(now) {
			continue
		}
		if rule := allow(tables, g.Role, action); rule != "" {
			return rule
		}
	}
	return ""
}

func (g Grant) lasts(now time.Time) bool { return g.ExpiresAt.IsZero() || now.Before(g.ExpiresAt) }
