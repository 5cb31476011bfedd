package access

import (
	"fmt"
	"slices"
	"strings"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control"
)

// describeChanges fills in Changed of each policy of a page, newest first. last is the version before the page's last
// one, nil when there is none: version 1 is compared with the settings of the server as they are now.
func (s *Policies) describeChanges(tenantID string, page []Policy, last *Policy) {
	lines := make([][]string, len(page)+1)
	for i, p := range page {
		lines[i] = policyLines(p.Document)
	}
	if last != nil {
		lines[len(page)] = policyLines(last.Document)
	} else {
		lines[len(page)] = policyLines(s.rights.Authz.SettingsPolicy(tenantID))
	}
	for i := range page {
		page[i].Changed = control.ChangedLines(lines[i+1], lines[i])
		page[i].OnlyBreakGlass = len(page[i].Changed) > 0 &&
			!slices.ContainsFunc(page[i].Changed, func(line string) bool { return !strings.HasSuffix(line, byBreakGlass) })
	}
}

// byBreakGlass ends the line of a role that was taken by break-glass, and no other line.
const byBreakGlass = " by break-glass"

// policyLines returns a line for each part of a policy, in words.
func policyLines(doc authz.Document) (out []string) {
	if doc.Rules == nil {
		out = append(out, "the rules are the defaults of dvt")
	}
	for _, r := range doc.Rules {
		out = append(out, fmt.Sprintf("%s may %s in %s", r.Role.Word(), r.Action.Words(),
			scopeWords(r.ProjectID, r.EnvironmentID)))
	}
	for _, g := range doc.Grants {
		line := fmt.Sprintf("%s is %s in %s", g.Principal, g.Role.Word(), scopeWords(g.ProjectID, g.EnvironmentID))
		if g.ExpiresAt != nil {
			line += " until " + control.TimeWords(*g.ExpiresAt)
		}
		if g.BreakGlass {
			line += byBreakGlass
		}
		out = append(out, line)
	}
	out = append(out, "the requester of a run "+mayNot(doc.SOD.Approve)+" approve it",
		"the requester of a run "+mayNot(doc.SOD.CompleteManual)+" complete its manual steps",
		"a plan "+mayNot(doc.SOD.CompleteManualInEveryPlan)+" lift the separation of duties of a manual step")
	for _, a := range doc.Approvals {
		out = append(out, fmt.Sprintf("approvals needed in %s: %d", scopeWords(a.ProjectID, a.EnvironmentID), a.Required))
	}
	for _, b := range doc.BreakGlass {
		out = append(out, fmt.Sprintf("%s may become %s by break-glass for at most %d minutes", b.Principal,
			b.Role.Word(), b.MaxMinutes))
	}
	for _, b := range doc.Sandbox {
		out = append(out, fmt.Sprintf("programs in %s: %s", scopeWords(b.ProjectID, b.EnvironmentID),
			strings.Join(sandboxWords(b), ", ")))
	}
	return out
}

// sandboxWords returns a phrase for each bound of a ceiling.
func sandboxWords(b authz.Sandbox) (out []string) {
	if b.Memory > 0 {
		out = append(out, fmt.Sprintf("at most %d bytes of memory", b.Memory))
	}
	if b.CPU > 0 {
		out = append(out, fmt.Sprintf("at most %g cores", b.CPU))
	}
	if b.PIDs > 0 {
		out = append(out, fmt.Sprintf("at most %d processes", b.PIDs))
	}
	if b.Disk > 0 {
		out = append(out, fmt.Sprintf("at most %d bytes in a file", b.Disk))
	}
	switch {
	case len(b.Connect) > 0:
		out = append(out, "connections only to "+strings.Join(b.Connect, " "))
	case b.Connect != nil:
		out = append(out, "no connections")
	}
	for _, part := range b.Require {
		out = append(out, "only where a worker can limit "+string(part))
	}
	if len(out) == 0 {
		return []string{"no bounds"}
	}
	return out
}

func mayNot(forbidden bool) string {
	if forbidden {
		return "may not"
	}
	return "may"
}

func scopeWords(project, environment string) string {
	switch {
	case project == "*" && environment == "*":
		return "every project"
	case environment == "*":
		return "project " + project
	case project == "*":
		return "environment " + environment + " of every project"
	}
	return project + "/" + environment
}
