package authz

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
)

// Document is the policy of one tenant, whole.
type Document struct {
	// Rules give actions to roles. nil is DefaultPolicy of the program that reads it,
	// so that a later program's actions come with it.
	Rules  []Rule           `json:"rules"`
	Grants []PrincipalGrant `json:"grants"`
	SOD    SOD              `json:"sod"`
	// Approvals say where a run needs how many people before it starts.
	Approvals []Approval `json:"approvals"`
	// BreakGlass names who may take a role for a while in an emergency.
	BreakGlass []BreakGlass `json:"breakGlass"`
	// Sandbox bounds the programs that plans may start.
	Sandbox []Sandbox `json:"sandbox,omitempty"`
}

// PrincipalGrant gives a principal a role in a project and environment; "*" is all.
type PrincipalGrant struct {
	Principal     string     `json:"principal"`
	Role          Role       `json:"role"`
	ProjectID     string     `json:"projectId"`
	EnvironmentID string     `json:"environmentId"`
	ExpiresAt     *time.Time `json:"expiresAt,omitempty"`
	BreakGlass    bool       `json:"breakGlass,omitempty"` // taken, not given
}

// SOD is separation of duties (contract O4). Who asked for a run may not approve it, and who asked for or approved it
// may not complete its manual steps. A service has API tokens of people and is no person of its own, so it does
// neither while the part is on.
type SOD struct {
	Approve        bool `json:"approve"`
	CompleteManual bool `json:"completeManual"`
	// CompleteManualInEveryPlan holds CompleteManual also for steps whose plan says `sod: false`.
	CompleteManualInEveryPlan bool `json:"completeManualInEveryPlan,omitempty"`
}

// Approval asks for a number of people in a project and environment.
type Approval struct {
	ProjectID     string `json:"projectId"`
	EnvironmentID string `json:"environmentId"`
	Required      int    `json:"required"`
}

// BreakGlass lets a principal take a role on the whole tenant for at most MaxMinutes.
type BreakGlass struct {
	Principal  string `json:"principal"`
	Role       Role   `json:"role"`
	MaxMinutes int    `json:"maxMinutes"`
}

// Limits of a Document.
const (
	MaxPolicyRows    = 10_000  // rules, grants, approvals, break-glass entries and ceilings of sandboxes together
	MaxPolicyBytes   = 2 << 20 // as compact JSON
	MaxGrantsOfOne   = 200     // of one principal, so that a decision stays short
	maxApprovals     = 10
	maxBreakGlass    = 24 * 60
	maxNameLength    = 256
	maxPolicyProblem = 100
)

// Problem is one thing wrong with a Document.
type Problem struct{ Path, Code, Message string }

// LockedOut is the code of a Problem: nobody could change the policy any more.
const LockedOut = "LOCKED_OUT"

// Check names everything that is wrong with a document that is to become the policy
// of the tenant, at most 100 things; none means that it may. Among them: after the change
// somebody with an account that has not expired must still have SetPolicy on
// the whole tenant, by a grant that does not end by itself.
func (a *Authorizer) Check(tenantID string, doc Document) []Problem {
	c := &checking{seen: map[string]bool{}, grants: map[string]int{}}
	if n := len(doc.Rules) + len(doc.Grants) + len(doc.Approvals) + len(doc.BreakGlass) +
		len(doc.Sandbox); n > MaxPolicyRows {
		c.bad("document", "RANGE", "it has %d rules, grants, approvals, break-glass entries and ceilings of sandboxes; at "+
			"most %d are allowed", n, MaxPolicyRows)
		return c.out
	}
	if size, err := json.Marshal(doc); err != nil || len(size) > MaxPolicyBytes {
		c.bad("document", "RANGE", "it is larger than %d bytes", MaxPolicyBytes)
		return c.out
	}
	c.rules(doc.Rules)
	c.people(doc)
	c.sandboxes(doc.Sandbox)
	if len(c.out) > 0 {
		return c.out
	}
	if !a.changeable(tenantID, doc) {
		c.bad("grants", LockedOut, "nobody with an account that has not expired could change the policy any more: leave a "+
			"lasting grant on %q/%q of a role that has %s", "*", "*", SetPolicy)
	}
	return c.out
}

type checking struct {
	out    []Problem
	seen   map[string]bool
	grants map[string]int
}

func (c *checking) bad(path, code, format string, args ...any) {
	if len(c.out) < maxPolicyProblem {
		c.out = append(c.out, Problem{path, code, fmt.Sprintf(format, args...)})
	}
}

func (c *checking) rules(list []Rule) {
	for i, r := range list {
		path := fmt.Sprintf("rules[%d]", i)
		c.role(path, r.Role)
		if !slices.Contains(Actions(), r.Action) {
			c.bad(path+".action", "UNKNOWN", "there is no action %q", r.Action)
		}
		c.place(path, r.ProjectID, r.EnvironmentID)
		c.once(path, "rule", string(r.Role), string(r.Action), r.ProjectID, r.EnvironmentID)
	}
}

func (c *checking) people(doc Document) {
	for i, g := range doc.Grants {
		path := fmt.Sprintf("grants[%d]", i)
		c.name(path+".principal", g.Principal)
		c.role(path, g.Role)
		c.place(path, g.ProjectID, g.EnvironmentID)
		c.once(path, "grant", g.Principal, string(g.Role), g.ProjectID, g.EnvironmentID, fmt.Sprint(g.BreakGlass))
		if g.BreakGlass && g.ExpiresAt == nil {
			c.bad(path+".expiresAt", "REQUIRED", "what was taken in an emergency ends")
		}
		if c.grants[g.Principal]++; c.grants[g.Principal] == MaxGrantsOfOne+1 {
			c.bad(path, "RANGE", "%q has more than %d grants", g.Principal, MaxGrantsOfOne)
		}
	}
	for i, ap := range doc.Approvals {
		path := fmt.Sprintf("approvals[%d]", i)
		c.place(path, ap.ProjectID, ap.EnvironmentID)
		c.once(path, "approval", ap.ProjectID, ap.EnvironmentID)
		if ap.Required < 1 || ap.Required > maxApprovals {
			c.bad(path+".required", "RANGE", "must be from 1 to %d", maxApprovals)
		}
	}
	for i, b := range doc.BreakGlass {
		path := fmt.Sprintf("breakGlass[%d]", i)
		c.name(path+".principal", b.Principal)
		c.role(path, b.Role)
		c.once(path, "break-glass entry", b.Principal, string(b.Role))
		if b.MaxMinutes < 1 || b.MaxMinutes > maxBreakGlass {
			c.bad(path+".maxMinutes", "RANGE", "must be from 1 to %d", maxBreakGlass)
		}
	}
}

func (c *checking) role(path string, r Role) {
	if !slices.Contains(Roles(), r) {
		c.bad(path+".role", "UNKNOWN", "there is no role %q", r)
	}
}

func (c *checking) place(path, project, environment string) {
	c.name(path+".projectId", project)
	c.name(path+".environmentId", environment)
}

func (c *checking) name(path, s string) {
	if s == "" || len(s) > maxNameLength || strings.ContainsFunc(s, unprintable) {
		c.bad(path, "INVALID", "must be 1 to %d printable characters without spaces; * is all projects or environments",
			maxNameLength)
	}
}

func unprintable(r rune) bool {
	return !unicode.IsPrint(r) || unicode.IsSpace(r) || r == unicode.ReplacementChar
}

func (c *checking) once(path, what string, words ...string) {
	key := what + "\x00" + strings.Join(words, "\x00")
	if c.seen[key] {
		c.bad(path, "DUPLICATE", "this %s stands above already", what)
	}
	c.seen[key] = true
}

// changeable reports whether somebody could change the policy after doc.
func (a *Authorizer) changeable(tenantID string, doc Document) bool {
	list := doc.Rules
	if list == nil {
		list = DefaultPolicy()
	}
	r, err := compile(list)
	if err != nil {
		return false
	}
	tables := r.covering(place{"*", "*"})
	for _, g := range doc.Grants {
		if g.ExpiresAt == nil && g.ProjectID == "*" && g.EnvironmentID == "*" && allow(tables, g.Role, SetPolicy) != "" &&
			!IsService(g.Principal) && a.directory.mayCome(tenantID, g.Principal) {
			return true
		}
	}
	return false
}
