package authz

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
)

// Document is the whole policy of one tenant.
type Document struct {
	// Rules give actions to roles. nil means the DefaultPolicy of the program that reads the document, so that the
	// actions of a later version are included.
	Rules  []Rule           `json:"rules"`
	Grants []PrincipalGrant `json:"grants"`
	SOD    SOD              `json:"sod"`
	// Approvals are the numbers of people who must approve a run before it starts, by scope.
	Approvals []Approval `json:"approvals"`
	// BreakGlass lists who may take which role for a limited time in an emergency.
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
	BreakGlass    bool       `json:"breakGlass,omitempty"` // the principal took it in an emergency
}

// SOD is separation of duties (contract O4). A principal who requested a run may not approve it, and a principal who
// requested or approved it may not complete its manual steps. A service may do neither while the respective part is on,
// because people act through its API tokens.
type SOD struct {
	Approve        bool `json:"approve"`
	CompleteManual bool `json:"completeManual"`
	// CompleteManualInEveryPlan applies CompleteManual also to steps whose plan says `sod: false`.
	CompleteManualInEveryPlan bool `json:"completeManualInEveryPlan,omitempty"`
}

// Approval is the number of people who must approve a run of a project and environment; "*" is all.
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
	MaxGrantsOfOne   = 200     // of one principal, because a decision looks at all of them
	maxApprovals     = 10
	maxBreakGlass    = 24 * 60
	maxNameLength    = 256
	maxPolicyProblem = 100
)

// Problem is one thing wrong with a Document.
type Problem struct{ Path, Code, Message string }

// LockedOut is the code of the Problem that nobody could change the policy any more.
const LockedOut = "LOCKED_OUT"

// Check returns what is wrong with a document as the next policy of the tenant, at most 100 problems. An empty result
// means that the document is valid. After the change somebody with an account that has not expired must still have
// SetPolicy on the whole tenant, by a grant that does not expire; otherwise the problem has the code LockedOut.
func (a *Authorizer) Check(tenantID string, doc Document) []Problem {
	c := &checker{seen: map[string]bool{}, grants: map[string]int{}}
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

// checker collects the problems of one document.
type checker struct {
	out    []Problem
	seen   map[string]bool
	grants map[string]int
}

func (c *checker) bad(path, code, format string, args ...any) {
	if len(c.out) < maxPolicyProblem {
		c.out = append(c.out, Problem{path, code, fmt.Sprintf(format, args...)})
	}
}

func (c *checker) rules(list []Rule) {
	for i, r := range list {
		path := fmt.Sprintf("rules[%d]", i)
		c.role(path, r.Role)
		if !slices.Contains(Actions(), r.Action) {
			c.bad(path+".action", "UNKNOWN", "there is no action %q", r.Action)
		}
		c.scope(path, r.ProjectID, r.EnvironmentID)
		c.once(path, "rule", string(r.Role), string(r.Action), r.ProjectID, r.EnvironmentID)
	}
}

func (c *checker) people(doc Document) {
	for i, g := range doc.Grants {
		path := fmt.Sprintf("grants[%d]", i)
		c.name(path+".principal", g.Principal)
		c.role(path, g.Role)
		c.scope(path, g.ProjectID, g.EnvironmentID)
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
		c.scope(path, ap.ProjectID, ap.EnvironmentID)
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

func (c *checker) role(path string, r Role) {
	if !slices.Contains(Roles(), r) {
		c.bad(path+".role", "UNKNOWN", "there is no role %q", r)
	}
}

func (c *checker) scope(path, project, environment string) {
	c.name(path+".projectId", project)
	c.name(path+".environmentId", environment)
}

func (c *checker) name(path, s string) {
	if s == "" || len(s) > maxNameLength || strings.ContainsFunc(s, unprintable) {
		c.bad(path, "INVALID", "must be 1 to %d printable characters without spaces; * is all projects or environments",
			maxNameLength)
	}
}

func unprintable(r rune) bool {
	return !unicode.IsPrint(r) || unicode.IsSpace(r) || r == unicode.ReplacementChar
}

func (c *checker) once(path, what string, words ...string) {
	key := what + "\x00" + strings.Join(words, "\x00")
	if c.seen[key] {
		c.bad(path, "DUPLICATE", "this %s stands above already", what)
	}
	c.seen[key] = true
}

// changeable reports whether somebody could still change the policy if doc were in force.
func (a *Authorizer) changeable(tenantID string, doc Document) bool {
	list := doc.Rules
	if list == nil {
		list = DefaultPolicy()
	}
	r, err := compile(list)
	if err != nil {
		return false
	}
	tables := r.tablesFor(scope{"*", "*"})
	for _, g := range doc.Grants {
		if g.ExpiresAt == nil && g.ProjectID == "*" && g.EnvironmentID == "*" && allow(tables, g.Role, SetPolicy) != "" &&
			!IsService(g.Principal) && a.directory.canSignIn(tenantID, g.Principal) {
			return true
		}
	}
	return false
}
