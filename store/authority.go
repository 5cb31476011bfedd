package store

import (
	"context"
	"encoding/json"
	"time"
)

// Authority stores the rights of principals: the policy of each tenant as insert-only versions, API tokens, and
// settings. One version number increases with every change of them, in the order in which the changes commit. Other
// processes poll it to learn that they must read again (contract T202).
type Authority interface {
	// AuthorityVersion reads the version number, 0 before the first change. It is one cheap read.
	AuthorityVersion(ctx context.Context) (int64, error)
	// Authority reads in one snapshot: the newest policy of each tenant that has one, the tokens that are not revoked and
	// expire after expiredAfter, and the newest version of each setting, all in no particular order.
	Authority(ctx context.Context, expiredAfter time.Time) (StoredAuthority, error)
	Policies
	Tokens
	Settings
}

// Policies stores the versions of policies.
type Policies interface {
	// PutPolicy inserts version p.Version of the policy of p.TenantID, and the audit row in the same transaction. The
	// store sets p.At. It is a compare-and-set: unless the newest version is p.Version - 1 (0 when there is none), it
	// writes nothing and returns ErrConflict.
	PutPolicy(ctx context.Context, p StoredPolicy, audit AuditRow) (StoredPolicy, error)
	// PolicyHistory lists versions of the policy of a tenant that are below before (0: all), the newest first, at most
	// limit (≤ MaxPage).
	PolicyHistory(ctx context.Context, tenantID string, before int64, limit int) ([]StoredPolicy, error)
}

// Tokens stores API tokens and sessions. It never has the token itself, only its SHA-256, so that a copy of the
// database gives no access (contract O6).
type Tokens interface {
	// PutToken inserts a token, and the audit row in the same transaction. When a token with this ID is stored already it
	// writes nothing and returns the stored token and false.
	PutToken(ctx context.Context, t StoredToken, audit AuditRow) (StoredToken, bool, error)
	// RevokeToken revokes a token for good, with the audit row in the same transaction. When the token was revoked before
	// it writes nothing and returns the token and false. ErrNotFound for an unknown token and for one of another tenant.
	RevokeToken(ctx context.Context, tenantID, id, by string, audit AuditRow) (StoredToken, bool, error)
	// MarkTokensUsed records that tokens were used at a time; LastUsedAt never decreases. It does not change
	// AuthorityVersion.
	MarkTokensUsed(ctx context.Context, at time.Time, ids ...string) error
	// Tokens lists tokens, the newest first.
	Tokens(ctx context.Context, f TokenFilter) ([]StoredToken, error)
}

// StoredAuthority is the result of Authority.Authority.
type StoredAuthority struct {
	Version  int64
	Policies []StoredPolicy
	Tokens   []StoredToken
	Settings []StoredSetting
}

// StoredPolicy is one version of the policy of one tenant.
type StoredPolicy struct {
	TenantID  string
	Version   int64 // from 1
	Doc       json.RawMessage
	Actor     string
	Reason    string
	RequestID string
	At        time.Time
}

// StoredToken is an API token or a session.
type StoredToken struct {
	ID         string    // UUID
	Kind       TokenKind // "": TokenAPI
	TenantID   string
	Name       string
	Principal  string   // the token never has more rights than this principal
	Provider   string   // that authenticated the principal; "": the account is in the settings, or it is a service
	Groups     []string // of the principal, as the provider named them when the token was made
	SHA256     string   // lower-case hex
	Prefix     string   // of the secret, for people; "" for a session
	Grants     json.RawMessage
	CreatedBy  string
	CreatedAt  time.Time // set by the store
	ExpiresAt  time.Time
	RevokedAt  *time.Time
	RevokedBy  string
	LastUsedAt *time.Time
}

// TokenKind says how a token was made.
type TokenKind string

// Kinds of tokens.
const (
	TokenAPI     TokenKind = "API"     // a principal made it
	TokenSession TokenKind = "SESSION" // a browser signed in; its cookie carries the token
)

// TokenFilter selects tokens of one tenant. Empty fields do not restrict.
type TokenFilter struct {
	TenantID  string
	Principal string
	ID        string
	Kind      TokenKind
	Live      bool   // neither revoked nor expired, by the store's clock
	Before    string // ID of a token: only tokens created before it
	Limit     int    // 1..MaxPage
}
