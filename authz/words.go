package authz

import (
	"fmt"
	"slices"
	"strings"
)

// Word returns the role as a word of a sentence, such as "Engineer".
func (r Role) Word() string {
	if r == SRE {
		return "SRE"
	}
	return string(r[:min(1, len(r))]) + strings.ToLower(string(r[min(1, len(r)):]))
}

// actionWords completes sentences that end with "to …".
//
//nolint:gochecknoglobals // a table
var actionWords = map[Action]string{
	Read: "see this", Start: "start a run", Pause: "pause a run", Resume: "resume a run", RetryStep: "retry a step",
	SkipStep: "skip a step", Cancel: "cancel a run", Rerun: "rerun a run", Approve: "approve a run",
	Debug:        "see the details of the installation",
	UpdateParams: "change parameters", InjectOverride: "override inputs", UpdateTarget: "change a target",
	EscalateAlert: "raise an alert", EmergencyStop: "stop a run in an emergency", CompleteManual: "complete a manual step",
	Annotate:        "tag a run, write a note, or acknowledge or silence an alert",
	ReadDeadLetters: "read dead letters", Redrive: "redrive dead letters",
	ReadPolicy: "read the policy", SetPolicy: "change the policy", CreateToken: "create a token",
	ManageTokens: "manage tokens", ReadAudit: "read the audit log",
	SetQuota: "change the quotas", FreezeTenant: "freeze the tenant", SetEngineMode: "change the mode",
}

// Words returns the action as words that complete "to …", such as "retry a step". It returns an action without words
// unchanged.
func (a Action) Words() string {
	if words, ok := actionWords[a]; ok {
		return words
	}
	return string(a)
}

// Words returns the place of the object in words, such as "shop / prod" or "every environment of shop".
func (o Object) Words() string {
	switch every := o.EnvironmentID == "*"; {
	case o.ProjectID == "*" && every:
		return "the whole tenant"
	case o.ProjectID == "*":
		return fmt.Sprintf("%s of every project", o.EnvironmentID)
	case every:
		return fmt.Sprintf("every environment of %s", o.ProjectID)
	}
	return o.ProjectID + " / " + o.EnvironmentID
}

// NeedsRole says which role an action on an object takes. Where an SRE may do it too, it says so.
func NeedsRole(r Role, a Action, o Object) string {
	if r == SRE {
		return NeedsRoleSomewhere(r, a)
	}
	return fmt.Sprintf("You need the %s role on %s to %s.", roleWords(r, a), o.Words(), a.Words())
}

// NeedsRoleSomewhere is NeedsRole for a person who has the action nowhere, so that no place is named.
func NeedsRoleSomewhere(r Role, a Action) string {
	return fmt.Sprintf("You need the %s role to %s.", roleWords(r, a), a.Words())
}

func roleWords(r Role, a Action) string {
	sre := slices.Contains(DefaultPolicy(), Rule{Role: SRE, Action: a, ProjectID: "*", EnvironmentID: "*"})
	if sre && r == Admin {
		return "Admin or the SRE"
	}
	return r.Word()
}
