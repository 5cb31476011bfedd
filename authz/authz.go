// Package authz authenticates callers and decides what they may do. It is the only package that uses Casbin. Decisions
// deny by default, do no I/O and are safe for concurrent use. An outage of the policy's source is not a denial: it is
// ErrUnavailable, so that clients retry instead of asking for rights (contract T202).
package authz

import (
	"errors"
	"time"
)

// Sentinel errors.
var (
	ErrUnauthenticated = errors.New("authz: no or unknown token")
	ErrExpired         = errors.New("authz: token expired")
	ErrIdle            = errors.New("authz: session not used for too long, as far as is known here")
	ErrUnavailable     = errors.New("authz: policy unavailable")
)

// Role of a principal within a tenant (contract O3). Viewer < Operator < Engineer <
// Admin inherit; Planner, System and SRE stand apart.
type Role string

// Roles.
const (
	Viewer   Role = "VIEWER"
	Operator Role = "OPERATOR"
	Engineer Role = "ENGINEER"
	Admin    Role = "ADMIN"
	Planner  Role = "PLANNER"
	System   Role = "SYSTEM"
	SRE      Role = "SRE"
)

// Action is something that a principal may be allowed to do. The action of a signal is its type.
type Action string

// Actions of this version.
const (
	Read      Action = "READ"
	Start     Action = "START"
	Pause     Action = "PAUSE"
	Resume    Action = "RESUME"
	RetryStep Action = "RETRY_STEP"
	SkipStep  Action = "SKIP_STEP"
	Cancel    Action = "CANCEL"
	Rerun     Action = "RERUN"
	Approve   Action = "APPROVE"
	Debug     Action = "DEBUG"

	UpdateParams   Action = "UPDATE_PARAMS"
	InjectOverride Action = "INJECT_OVERRIDE"
	UpdateTarget   Action = "UPDATE_TARGET"
	EscalateAlert  Action = "ESCALATE_ALERT"
	EmergencyStop  Action = "EMERGENCY_STOP"
	CompleteManual Action = "COMPLETE_MANUAL_STEP"
	Annotate       Action = "ANNOTATE" // tags and notes of runs, and views shared with a project

	ReadDeadLetters Action = "READ_DEAD_LETTERS"
	Redrive         Action = "REDRIVE"

	ReadPolicy   Action = "READ_POLICY" // also to list who could do an action
	SetPolicy    Action = "SET_POLICY"
	CreateToken  Action = "CREATE_TOKEN"  // for oneself
	ManageTokens Action = "MANAGE_TOKENS" // of others, and for services
	ReadAudit    Action = "READ_AUDIT"

	SetQuota      Action = "SET_QUOTA"
	FreezeTenant  Action = "FREEZE_TENANT"
	SetEngineMode Action = "SET_ENGINE_MODE" // only for principals of the operators' tenant
)

// Principal is an authenticated caller. It is passed as a parameter from the API inwards, never in a context.
type Principal struct {
	ID        string
	TenantID  string
	Grants    []Grant
	ExpiresAt time.Time // zero: the token does not expire
	TokenID   string    // id of the API token that narrows its rights; "": no API token was used
	SessionID string    // id of the browser's session; the rights end with the session
	Provider  string    // name of the provider that identified it; "": an account or a service
	Groups    []string  // group names as of GroupID; the principal also has their grants
	Address   string    // client address of its request, behind trusted proxies; "": no request
	Via       string    // ViaHTTP, ViaWebSocket, …; "": no request
}

// Values of Principal.Via.
const (
	ViaHTTP      = "http"
	ViaWebSocket = "websocket"
	ViaSignIn    = "sign-in"
	ViaWorker    = "worker"
)

// Credential describes the credential of p without its secret, for the audit: token:ID, session:ID, jwt or account,
// followed by @PROVIDER if a provider identified p. It is empty for a principal without a credential.
func (p Principal) Credential() string {
	name := ""
	switch {
	case p.TokenID != "":
		name = "token:" + p.TokenID
	case p.SessionID != "":
		name = "session:" + p.SessionID
	case p.Provider != "":
		name = "jwt"
	case p.Via != "" && p.Via != ViaSignIn:
		name = "account"
	}
	if p.Provider != "" {
		name += "@" + p.Provider
	}
	return name
}

// Grant gives a role in a project and environment; "*" is all.
type Grant struct {
	Role          Role   `yaml:"role" json:"role"`
	ProjectID     string `yaml:"project" json:"project"`
	EnvironmentID string `yaml:"environment" json:"environment"`

	ExpiresAt  time.Time `yaml:"-" json:"-"` // zero: it does not expire
	BreakGlass bool      `yaml:"-" json:"-"` // its holder took it in an emergency
}

// Object is the target of an action: a tenant, project and environment.
type Object struct{ TenantID, ProjectID, EnvironmentID string }

// Decision is the answer of Decide, with the facts that explain a denial.
type Decision struct {
	Allowed      bool
	Rule         string // the rule that decided; "" when none matched
	RequiredRole Role   // the lowest role that has the action there; "": none
	Version      int64  // version of the whole state in this process; it grows with every change
	Policy       int64  // version of the tenant's policy; 0: the tenant has no policy of its own
}

// Class identifies viewers who may see the same bytes, so that they can share a stream. It is opaque and comparable.
type Class string
