// Package authz says who somebody is and what they may do. It is the only
// package that speaks Casbin. Decisions deny by default, do no I/O and are safe
// for concurrent use. An outage of the policy's source is not a denial: it is
// ErrUnavailable (contract T202).
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

// Action is what one wants to do; the action of a signal is its type.
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

	ReadDeadLetters Action = "READ_DEAD_LETTERS"
	Redrive         Action = "REDRIVE"

	ReadPolicy   Action = "READ_POLICY" // and who could
	SetPolicy    Action = "SET_POLICY"
	CreateToken  Action = "CREATE_TOKEN"  // for oneself
	ManageTokens Action = "MANAGE_TOKENS" // of others, and for services
	ReadAudit    Action = "READ_AUDIT"

	SetQuota      Action = "SET_QUOTA"
	FreezeTenant  Action = "FREEZE_TENANT"
	SetEngineMode Action = "SET_ENGINE_MODE" // for principals of the operators' tenant alone
)

// Principal is an authenticated caller. It travels as a parameter from the edge
// inwards, never in a context.
type Principal struct {
	ID        string
	TenantID  string
	Grants    []Grant
	ExpiresAt time.Time // zero: the token does not expire
	TokenID   string    // of the API token that narrows its rights; "": it came as itself
	SessionID string    // of the browser's session that it came with; its rights end with that
	Provider  string    // that said who it is; "": the settings did, or it is a service
	Groups    []string  // names like GroupID's whose grants it has too
	Address   string    // that its request came from, behind trusted proxies; "": it came by no request
	Via       string    // ViaHTTP, ViaWebSocket, …; "": it came by no request
}

// Ways by which requests come.
const (
	ViaHTTP      = "http"
	ViaWebSocket = "websocket"
	ViaSignIn    = "sign-in"
	ViaWorker    = "worker"
)

// Credential names what p showed, without its secret: token:ID, session:ID, jwt or account, and @PROVIDER behind it
// when a provider said who p is. It is empty for one that showed nothing.
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

	ExpiresAt  time.Time `yaml:"-" json:"-"` // zero: it stays
	BreakGlass bool      `yaml:"-" json:"-"` // its holder took it in an emergency
}

// Object is what an action is done to.
type Object struct{ TenantID, ProjectID, EnvironmentID string }

// Decision is the answer, with what a denial must explain (api.md §2).
type Decision struct {
	Allowed      bool
	Rule         string // the rule that decided; "" when none matched
	RequiredRole Role   // the least role that the policy gives the action to there; "": none
	Version      int64  // of all that is in force in this process; it grows with every change
	Policy       int64  // version of the tenant's policy; 0: it has none of its own
}

// Class is what a shared stream may show: viewers of one class see the same
// bytes (design §4). Opaque, comparable.
type Class string
