package authz

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/casbin/casbin/v2"
	"github.com/casbin/casbin/v2/model"
)

// Rule allows an action for a role and, by inheritance, for the roles above it, in a project and environment; "*" or ""
// is all.
type Rule struct {
	Role          Role   `json:"role"`
	Action        Action `json:"action"`
	ProjectID     string `json:"projectId"`
	EnvironmentID string `json:"environmentId"`
}

// DefaultPolicy returns the default rules (contract O3, T92, T222). An action that no rule names is denied.
func DefaultPolicy() []Rule {
	var out []Rule
	for _, of := range []struct {
		role    Role
		actions []Action
	}{
		{Viewer, []Action{Read, CreateToken}},
		{Operator, []Action{Start, Pause, Resume, Annotate}},
		{Engineer, []Action{RetryStep, SkipStep, Cancel, Rerun, CompleteManual}},
		{Admin, []Action{UpdateParams, InjectOverride, UpdateTarget, EmergencyStop, ReadDeadLetters, Redrive, ReadPolicy,
			SetPolicy, ManageTokens, ReadAudit, SetQuota, FreezeTenant}},
		{Planner, []Action{Read, CreateToken, Approve, Annotate}},
		{System, []Action{Read, CreateToken, EscalateAlert}},
		{SRE, []Action{Read, CreateToken, Debug, ReadDeadLetters, Redrive, ReadAudit, FreezeTenant, SetEngineMode}},
	} {
		for _, action := range of.actions {
			out = append(out, Rule{Role: of.role, Action: action, ProjectID: "*", EnvironmentID: "*"})
		}
	}
	return out
}

// Actions lists every action there is, in the order in which people see them.
func Actions() []Action {
	return []Action{
		Read, Start, Pause, Resume, RetryStep, SkipStep, Cancel, Rerun, CompleteManual, Annotate, UpdateParams,
		InjectOverride, UpdateTarget, EscalateAlert, EmergencyStop, Approve, Debug, ReadDeadLetters, Redrive, ReadPolicy,
		SetPolicy, CreateToken, ManageTokens, ReadAudit,
		SetQuota, FreezeTenant, SetEngineMode,
	}
}

// Roles lists every role there is, those that inherit first.
func Roles() []Role { return []Role{Viewer, Operator, Engineer, Admin, Planner, System, SRE} }

// inherits are the pairs of roles where the first has all actions of the second (contract O3).
//
//nolint:gochecknoglobals // a table
var inherits = [][2]Role{{Admin, Engineer}, {Engineer, Operator}, {Operator, Viewer}}

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

// scope is a project and an environment; "*" is all of them.
type scope struct{ project, environment string }

func scopeOf(project, environment string) scope {
	return scope{cmp.Or(project, "*"), cmp.Or(environment, "*")}
}

// covers reports whether everything in other lies in p.
func (p scope) covers(other scope) bool {
	return (p.project == "*" || p.project == other.project) && (p.environment == "*" || p.environment == other.environment)
}

// intersect returns the scope that both cover, and false if there is none.
func (p scope) intersect(other scope) (scope, bool) {
	project, ok1 := intersectNames(p.project, other.project)
	environment, ok2 := intersectNames(p.environment, other.environment)
	return scope{project, environment}, ok1 && ok2
}

func intersectNames(a, b string) (string, bool) {
	if a == "*" {
		return b, true
	}
	return a, b == "*" || a == b
}

type roleAction struct {
	role   Role
	action Action
}

// rules is a compiled policy. Every combination of role, action and scope in it is decided once, so that a decision
// costs a few map look-ups.
type rules struct {
	at    map[scope]*table
	named []scope // the scopes that rules name
}

// table holds the decisions of the rules that name exactly one scope.
type table struct {
	allows map[roleAction]string // the rule that allows it; absent: no rule does
	least  map[Action]Role       // the lowest role that has the action
}

// checkRules returns an error for a rule with an unknown role or action.
func checkRules(list []Rule) error {
	for _, r := range list {
		if !slices.Contains(Roles(), r.Role) || !slices.Contains(Actions(), r.Action) {
			return fmt.Errorf("authz: rule %s %s has an unknown role or action", r.Role, r.Action)
		}
	}
	return nil
}

// compile lets Casbin decide every role and action in every scope of the rules (contract T202). It skips rules with
// unknown words: they come from a later version of the program, and nobody can ask this one for them.
func compile(list []Rule) (*rules, error) {
	at := map[scope][]roleAction{}
	for _, r := range list {
		if checkRules([]Rule{r}) == nil {
			p := scopeOf(r.ProjectID, r.EnvironmentID)
			at[p] = append(at[p], roleAction{r.Role, r.Action})
		}
	}
	out := &rules{at: make(map[scope]*table, len(at))}
	answers := map[string]map[roleAction]roleAction{} // by the rules, because most scopes have the same ones
	for p, pairs := range at {
		slices.SortFunc(pairs, func(a, b roleAction) int {
			return cmp.Or(cmp.Compare(a.role, b.role),
				cmp.Compare(a.action, b.action))
		})
		pairs = slices.Compact(pairs)
		key := fmt.Sprint(pairs)
		if answers[key] == nil {
			asked, err := enforceAll(pairs)
			if err != nil {
				return nil, err
			}
			answers[key] = asked
		}
		out.at[p] = newTable(p, answers[key])
		out.named = append(out.named, p)
	}
	return out, nil
}

// enforceAll loads the rules of one scope into a new enforcer and returns, for each role and action that they allow,
// the rule that does.
func enforceAll(pairs []roleAction) (map[roleAction]roleAction, error) {
	m, err := model.NewModelFromString(policyModel)
	if err != nil {
		return nil, fmt.Errorf("authz: model: %w", err)
	}
	e, err := casbin.NewEnforcer(m)
	if err != nil {
		return nil, fmt.Errorf("authz: enforcer: %w", err)
	}
	actions := map[Action]bool{}
	for _, p := range pairs {
		if _, err := e.AddPolicy(string(p.role), string(p.action)); err != nil {
			return nil, fmt.Errorf("authz: rule %s %s: %w", p.role, p.action, err)
		}
		actions[p.action] = true
	}
	for _, pair := range inherits {
		if _, err := e.AddGroupingPolicy(string(pair[0]), string(pair[1])); err != nil {
			return nil, fmt.Errorf("authz: role %s: %w", pair[0], err)
		}
	}
	out := map[roleAction]roleAction{}
	for _, role := range Roles() {
		for action := range actions {
			ok, why, err := e.EnforceEx(string(role), string(action))
			if err != nil {
				return nil, fmt.Errorf("authz: %s %s: %w", role, action, err)
			}
			if ok && len(why) == 2 {
				out[roleAction{role, action}] = roleAction{Role(why[0]), Action(why[1])}
			}
		}
	}
	return out, nil
}

func newTable(p scope, answers map[roleAction]roleAction) *table {
	t := &table{allows: make(map[roleAction]string, len(answers)), least: map[Action]Role{}}
	for asked, by := range answers {
		words := []string{"p", string(by.role), string(by.action)}
		if p != (scope{"*", "*"}) {
			words = append(words, p.project, p.environment)
		}
		t.allows[asked] = strings.Join(words, ", ")
		if least, ok := t.least[asked.action]; !ok || rank(asked.role) < rank(least) {
			t.least[asked.action] = asked.role
		}
	}
	return t
}

// rank returns the index of a role in Roles.
func rank(r Role) int {
	switch r {
	case Viewer:
		return 0
	case Operator:
		return 1
	case Engineer:
		return 2
	case Admin:
		return 3
	case Planner:
		return 4
	case System:
		return 5
	}
	return 6
}

// tablesFor returns the tables of the scopes that cover p; missing ones are nil.
func (r *rules) tablesFor(p scope) (out [4]*table) {
	out[0] = r.at[scope{"*", "*"}]
	if len(r.at) == 1 && out[0] != nil {
		return out
	}
	if p.project != "*" {
		out[1] = r.at[scope{p.project, "*"}]
	}
	if p.environment != "*" {
		out[2] = r.at[scope{"*", p.environment}]
	}
	if p.project != "*" && p.environment != "*" {
		out[3] = r.at[p]
	}
	return out
}

// least returns the lowest role that has the action by the tables, or "".
func least(tables [4]*table, action Action) (role Role) {
	for _, t := range tables {
		if t == nil {
			continue
		}
		if r, ok := t.least[action]; ok && (role == "" || rank(r) < rank(role)) {
			role = r
		}
	}
	return role
}

// allow returns the rule that allows the action for the role, or "".
func allow(tables [4]*table, role Role, action Action) string {
	for _, t := range tables {
		if t == nil {
			continue
		}
		if rule, ok := t.allows[roleAction{role, action}]; ok {
			return rule
		}
	}
	return ""
}
