package authz

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/casbin/casbin/v2"
	"github.com/casbin/casbin/v2/model"
)

// Rule gives an action to a role and, by inheritance, to the roles above it.
type Rule struct {
	Role   Role
	Action Action
}

// DefaultPolicy is the roles of O3, T92 and T222. The role of every action is
// data: what no rule names is denied.
func DefaultPolicy() []Rule {
	return []Rule{
		{Viewer, Read}, {Planner, Read}, {System, Read}, {SRE, Read},
		{Operator, Start}, {Operator, Pause}, {Operator, Resume},
		{Engineer, RetryStep}, {Engineer, SkipStep}, {Engineer, Cancel}, {Engineer, Rerun}, {Engineer, CompleteManual},
		{Admin, UpdateParams}, {Admin, InjectOverride}, {Admin, UpdateTarget}, {Admin, EmergencyStop},
		{System, EscalateAlert},
		{Planner, Approve},
		{SRE, Debug},
		{Admin, ReadDeadLetters}, {SRE, ReadDeadLetters}, {Admin, Redrive}, {SRE, Redrive},
	}
}

// Actions lists every action there is, in the order in which people see them.
func Actions() []Action {
	return []Action{
		Read, Start, Pause, Resume, RetryStep, SkipStep, Cancel, Rerun, CompleteManual, UpdateParams, InjectOverride,
		UpdateTarget, EscalateAlert, EmergencyStop, Approve, Debug, ReadDeadLetters, Redrive,
	}
}

// Roles lists every role there is, those that inherit first.
func Roles() []Role { return []Role{Viewer, Operator, Engineer, Admin, Planner, System, SRE} }

// inherits is the ladder of O3: each role has what the one after it has.
var inherits = [][2]Role{{Admin, Engineer}, {Engineer, Operator}, {Operator, Viewer}} //nolint:gochecknoglobals // a table

const policyModel = `
[request_definition]
r = role, act
[policy_definition]
p = role, act
[role_definition]
g = _, _
[policy_effect]
e = some(where (p.eft == allow))
[matchers]
m = g(r.role, p.role) && r.act == p.act
`

// policy is one version of the rules, with every (role, action) decided once:
// the product of roles and actions is small, so a decision is a look-up.
type policy struct {
	version int64
	rules   map[roleAction]string // the rule that allows; absent: denied
	least   map[Action]Role
}

type roleAction struct {
	role   Role
	action Action
}

// compile loads the rules into a fresh enforcer and asks it everything that can be asked (T202).
func compile(rules []Rule, version int64) (*policy, error) {
	m, err := model.NewModelFromString(policyModel)
	if err != nil {
		return nil, fmt.Errorf("authz: model: %w", err)
	}
	e, err := casbin.NewEnforcer(m)
	if err != nil {
		return nil, fmt.Errorf("authz: enforcer: %w", err)
	}
	for _, r := range rules {
		if !slices.Contains(Roles(), r.Role) || !slices.Contains(Actions(), r.Action) {
			return nil, fmt.Errorf("authz: rule %s %s names no role or no action", r.Role, r.Action)
		}
		if _, err := e.AddPolicy(string(r.Role), string(r.Action)); err != nil {
			return nil, fmt.Errorf("authz: rule %s %s: %w", r.Role, r.Action, err)
		}
	}
	for _, pair := range inherits {
		if _, err := e.AddGroupingPolicy(string(pair[0]), string(pair[1])); err != nil {
			return nil, fmt.Errorf("authz: role %s: %w", pair[0], err)
		}
	}
	p := &policy{version: version, rules: map[roleAction]string{}, least: map[Action]Role{}}
	for _, role := range Roles() {
		for _, action := range Actions() {
			ok, why, err := e.EnforceEx(string(role), string(action))
			if err != nil {
				return nil, fmt.Errorf("authz: %s %s: %w", role, action, err)
			}
			if !ok || len(why) != 2 {
				continue
			}
			p.rules[roleAction{role, action}] = fmt.Sprintf("p, %s, %s", why[0], why[1])
			if _, known := p.least[action]; !known {
				p.least[action] = role
			}
		}
	}
	return p, nil
}

// Authorizer decides. Make it with New; it is safe for concurrent use, and a
// decision reads one immutable policy.
type Authorizer struct {
	directory *Directory
	swap      sync.Mutex // one Swap at a time, so that versions grow
	policy    atomic.Pointer[policy]
	changed   atomic.Pointer[chan struct{}]
}

// New makes an Authorizer on a policy (DefaultPolicy for most) and the directory
// that it names principals from.
func New(rules []Rule, d *Directory) (*Authorizer, error) {
	a := &Authorizer{directory: d}
	p, err := compile(rules, 1)
	if err != nil {
		return nil, err
	}
	c := make(chan struct{})
	a.policy.Store(p)
	a.changed.Store(&c)
	return a, nil
}

// Swap puts another policy in force and wakes who waits on Changed. On an error
// the old policy stays (T202).
func (a *Authorizer) Swap(rules []Rule) error {
	a.swap.Lock()
	defer a.swap.Unlock()
	p, err := compile(rules, a.Version()+1)
	if err != nil {
		return err
	}
	a.policy.Store(p)
	a.wake()
	return nil
}

func (a *Authorizer) wake() {
	c := make(chan struct{})
	close(*a.changed.Swap(&c))
}

// Changed returns a channel that is closed when rights may have changed since
// the call.
func (a *Authorizer) Changed() <-chan struct{} { return *a.changed.Load() }

// Version of the policy in force; it grows with every Swap.
func (a *Authorizer) Version() int64 { return a.policy.Load().version }

// Decide says whether p may do action to o. A principal of another tenant may
// do nothing; so may one without a grant for the place.
func (a *Authorizer) Decide(p Principal, action Action, o Object) (Decision, error) {
	pol := a.policy.Load()
	d := Decision{RequiredRole: pol.least[action], Version: pol.version}
	if p.TenantID == "" || p.TenantID != o.TenantID {
		return d, nil
	}
	for _, g := range a.Grants(p) {
		if !g.covers(o) {
			continue
		}
		if rule, ok := pol.rules[roleAction{g.Role, action}]; ok {
			d.Allowed, d.Rule = true, rule
			return d, nil
		}
	}
	return d, nil
}

// Grants of a principal are those of the directory now, so that a right that
// was taken away is gone for one that signed in before.
func (a *Authorizer) Grants(p Principal) []Grant {
	now, _ := a.directory.Grants(p.TenantID, p.ID)
	return now
}

func (g Grant) covers(o Object) bool {
	return (g.ProjectID == "*" || g.ProjectID == o.ProjectID) && (g.EnvironmentID == "*" || g.EnvironmentID == o.EnvironmentID)
}

// maxWhoCould bounds the names that a denial gives.
const maxWhoCould = 10

// WhoCould names principals of o's tenant that may do action to o, sorted, at
// most ten. Ask only for a caller of that tenant.
func (a *Authorizer) WhoCould(action Action, o Object) []string {
	var out []string
	for _, id := range a.directory.Principals(o.TenantID) {
		d, err := a.Decide(Principal{ID: id, TenantID: o.TenantID}, action, o)
		if err == nil && d.Allowed {
			out = append(out, id)
			if len(out) == maxWhoCould {
				break
			}
		}
	}
	return out
}

// Allows lists the actions that a grant gives, in the order of Actions.
func (a *Authorizer) Allows(g Grant) []Action {
	pol := a.policy.Load()
	var out []Action
	for _, action := range Actions() {
		if _, ok := pol.rules[roleAction{g.Role, action}]; ok {
			out = append(out, action)
		}
	}
	return out
}

// Class of a viewer of o: viewers of one class may be shown the same bytes.
func (a *Authorizer) Class(p Principal, o Object) Class {
	var bits uint
	for i, action := range Actions() {
		if d, err := a.Decide(p, action, o); err == nil && d.Allowed {
			bits |= 1 << i
		}
	}
	return Class(fmt.Sprintf("%s/%s/%s/%x", o.TenantID, o.ProjectID, o.EnvironmentID, bits))
}
