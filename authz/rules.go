package authz

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/casbin/casbin/v2"
	"github.com/casbin/casbin/v2/model"
)

// Rule gives an action to a role and, by inheritance, to the roles above it, in a
// project and environment; "*" (or nothing, in Go) is all.
type Rule struct {
	Role          Role   `json:"role"`
	Action        Action `json:"action"`
	ProjectID     string `json:"projectId"`
	EnvironmentID string `json:"environmentId"`
}

// DefaultPolicy is the roles of O3, T92 and T222. The role of every action is
// data: what no rule names is denied.
func DefaultPolicy() []Rule {
	var out []Rule
	for _, of := range []struct {
		role    Role
		actions []Action
	}{
		{Viewer, []Action{Read, CreateToken}},
		{Operator, []Action{Start, Pause, Resume}},
		{Engineer, []Action{RetryStep, SkipStep, Cancel, Rerun, CompleteManual}},
		{Admin, []Action{UpdateParams, InjectOverride, UpdateTarget, EmergencyStop, ReadDeadLetters, Redrive, ReadPolicy,
			SetPolicy, ManageTokens, ReadAudit, SetQuota, FreezeTenant}},
		{Planner, []Action{Read, CreateToken, Approve}},
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
		Read, Start, Pause, Resume, RetryStep, SkipStep, Cancel, Rerun, CompleteManual, UpdateParams, InjectOverride,
		UpdateTarget, EscalateAlert, EmergencyStop, Approve, Debug, ReadDeadLetters, Redrive, ReadPolicy, SetPolicy,
		CreateToken, ManageTokens, ReadAudit,
		SetQuota, FreezeTenant, SetEngineMode,
	}
}

// Roles lists every role there is, those that inherit first.
func Roles() []Role { return []Role{Viewer, Operator, Engineer, Admin, Planner, System, SRE} }

// inherits is the ladder of O3: each role has what the one after it has.
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

// place is a project and an environment; "*" is all of them.
type place struct{ project, environment string }

func placeOf(project, environment string) place {
	return place{cmp.Or(project, "*"), cmp.Or(environment, "*")}
}

// covers reports whether everything in other lies in p.
func (p place) covers(other place) bool {
	return (p.project == "*" || p.project == other.project) && (p.environment == "*" || p.environment == other.environment)
}

// and is where both are; false: nowhere.
func (p place) and(other place) (place, bool) {
	project, ok1 := both(p.project, other.project)
	environment, ok2 := both(p.environment, other.environment)
	return place{project, environment}, ok1 && ok2
}

func both(a, b string) (string, bool) {
	if a == "*" {
		return b, true
	}
	return a, b == "*" || a == b
}

type roleAction struct {
	role   Role
	action Action
}

// rules is a policy's rules with every role, action and place that they name
// decided once, so that a decision is a few look-ups.
type rules struct {
	at    map[place]*table
	named []place // the places, for those who ask about parts of one
}

// table is what holds in one place by the rules that name just this place.
type table struct {
	allows map[roleAction]string // the rule that allows; absent: none does
	least  map[Action]Role
}

// known refuses rules that name no role or no action.
func known(list []Rule) error {
	for _, r := range list {
		if !slices.Contains(Roles(), r.Role) || !slices.Contains(Actions(), r.Action) {
			return fmt.Errorf("authz: rule %s %s names no role or no action", r.Role, r.Action)
		}
	}
	return nil
}

// compile asks Casbin everything that can be asked about the rules (contract T202). Rules of
// words that this program does not know are left out: they are a later program's,
// and nobody asks for them here.
func compile(list []Rule) (*rules, error) {
	at := map[place][]roleAction{}
	for _, r := range list {
		if known([]Rule{r}) == nil {
			p := placeOf(r.ProjectID, r.EnvironmentID)
			at[p] = append(at[p], roleAction{r.Role, r.Action})
		}
	}
	out := &rules{at: make(map[place]*table, len(at))}
	answers := map[string]map[roleAction]roleAction{} // places mostly have the same rules
	for p, pairs := range at {
		slices.SortFunc(pairs, func(a, b roleAction) int {
			return cmp.Or(cmp.Compare(a.role, b.role),
				cmp.Compare(a.action, b.action))
		})
		pairs = slices.Compact(pairs)
		key := fmt.Sprint(pairs)
		if answers[key] == nil {
			asked, err := ask(pairs)
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

// ask loads the rules of one place into a fresh enforcer and asks which role gets which
// of the actions, and by which of the rules.
func ask(pairs []roleAction) (map[roleAction]roleAction, error) {
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

func newTable(p place, answers map[roleAction]roleAction) *table {
	t := &table{allows: make(map[roleAction]string, len(answers)), least: map[Action]Role{}}
	for asked, by := range answers {
		words := []string{"p", string(by.role), string(by.action)}
		if p != (place{"*", "*"}) {
			words = append(words, p.project, p.environment)
		}
		t.allows[asked] = strings.Join(words, ", ")
		if least, ok := t.least[asked.action]; !ok || rank(asked.role) < rank(least) {
			t.least[asked.action] = asked.role
		}
	}
	return t
}

// rank orders roles as Roles does.
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

// covering are the tables of the places that cover p.
func (r *rules) covering(p place) (out [4]*table) {
	out[0] = r.at[place{"*", "*"}]
	if len(r.at) == 1 && out[0] != nil {
		return out
	}
	if p.project != "*" {
		out[1] = r.at[place{p.project, "*"}]
	}
	if p.environment != "*" {
		out[2] = r.at[place{"*", p.environment}]
	}
	if p.project != "*" && p.environment != "*" {
		out[3] = r.at[p]
	}
	return out
}

// least is the least role that has the action in all of the place; "": none has.
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

// allow is the rule that gives the action to the role; "": none does.
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
