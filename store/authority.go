package store

import (
	"context"
	"encoding/json"
	"time"
)

// Authority keeps who may do what: the policy of each tenant as insert-only
// versions, and the API tokens. One number grows with every change of either, in
// the order in which the changes commit; it is what other processes ask for (T202).
type Authority interface {
	// AuthorityVersion reads that number, 0 before the first change. It is one cheap read.
	AuthorityVersion(ctx context.Context) (int64, error)
	// Authority reads everything in one snapshot: the newest policy of each tenant that
	// has one, and the tokens that are neither revoked nor expired since before expiredAfter, in no
	// particular order, and the newest version of each setting.
	Authority(ctx context.Context, expiredAfter time.Time) (StoredAuthority, error)
	Policies
	Tokens
	Settings
}

// Policies keeps the versions of policies.
type Policies interface {
	// PutPolicy adds the version p.Version of p.TenantID, with the audit row in the same
	// transaction; p.At is set by the store. It is compare-and-set: ErrConflict, and
	// nothing is written, unless the newest version is p.Version - 1 (0: there is none).
	PutPolicy(ctx context.Context, p StoredPolicy, audit AuditRow) (StoredPolicy, error)
	// PolicyHistory lists versions of a tenant below before (0: from the newest),
	// newest first, at most limit.
	PolicyHistory(ctx context.Context, tenantID string, before int64, limit int) ([]StoredPolicy, error)
}

// Tokens keeps API tokens; of the token itself only the SHA-256 (O6).
type Tokens interface {
	// PutToken keeps a token with the audit row in the same transaction. One whose ID is
	// known is left as it is: the stored one and false are returned.
	PutToken(ctx context.Context, t StoredToken, audit AuditRow) (StoredToken, bool, error)
	// RevokeToken ends a token for good, with the audit row in the same transaction. False:
	// it was revoked before, nothing is written. ErrNotFound also for another tenant's.
	RevokeToken(ctx context.Context, tenantID, id, by string, audit AuditRow) (StoredToken, bool, error)
	// TokensUsed records when tokens were used last; an earlier time changes nothing. It
	// does not count as a change of the authority.
	TokensUsed(ctx context.Context, at time.Time, ids ...string) error
	// Tokens lists tokens, newest first.
	Tokens(ctx context.Context, f TokenFilter) ([]StoredToken, error)
}

// StoredAuthority answers Authority.Authority.
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

// StoredToken is an API token.
type StoredToken struct {
	ID         string    // UUID
	Kind       TokenKind // "": TokenAPI
	TenantID   string
	Name       string
	Principal  string   // whose rights it has, at most
	Provider   string   // that said who the principal is; "": its account is in the settings, or it is a service
	Groups     []string // of the principal, as its provider said them when the token was made
	SHA256     string   // lower-case hex
	Grants     json.RawMessage
	CreatedBy  string
	CreatedAt  time.Time // set by the store
	ExpiresAt  time.Time
	RevokedAt  *time.Time
	RevokedBy  string
	LastUsedAt *time.Time
}

// TokenKind says how a token came to be.
type TokenKind string

// Kinds of tokens.
const (
	TokenAPI     TokenKind = "API"     // somebody made it (O6)
	TokenSession TokenKind = "SESSION" // a browser signed in; it is in its cookie
)

// TokenFilter selects tokens of one tenant. Empty fields do not restrict.
type TokenFilter struct {
	TenantID  string
	Principal string
	ID        string
	Kind      TokenKind
	Live      bool   // neither revoked nor expired, by the store's clock
	Before    string // ID: those created before it
	Limit     int    // 1..MaxPage
}
