package authz

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// Stored is the content of the source of policies and tokens as of Version.
type Stored struct {
	Version  int64
	Policies []StoredPolicy // the newest policy of each tenant that has one
	Tokens   []Token        // without revoked ones
}

// StoredPolicy is the newest policy of a tenant. Document is nil if it cannot be read.
type StoredPolicy struct {
	TenantID string
	Version  int64
	Document *Document
}

// Token is an API token or a session. The bearer of an API token may do what both its grants and the rights of its
// principal allow, until it expires or is revoked (contract O6).
type Token struct {
	ID         string
	TenantID   string
	Name       string
	Principal  string
	SHA256     [sha256.Size]byte
	Grants     []Grant
	CreatedAt  time.Time
	ExpiresAt  time.Time
	LastUsedAt time.Time // the stored value, see TakeUsed; zero: never
	Session    bool      // a browser's session; it has all rights of the principal, Grants do not limit it
	Provider   string    // name of the provider that identified the principal; "": an account or a service
	Groups     []string  // groups of the principal, as the provider reported them when the token was made
}

// servicePrefix begins the ids of principals that have no account, only API tokens.
const servicePrefix = "service/"

// ServiceID returns the principal id of a service.
func ServiceID(name string) string { return servicePrefix + name }

// IsService reports whether the principal is a service. A service has API tokens and no account.
func IsService(id string) bool { return strings.HasPrefix(id, servicePrefix) }

// systemPrefix begins the ids of duties of dvt that act for a tenant by grants of its policy. Nobody can authenticate
// as one of them.
const systemPrefix = "system:"

// Recovery is the principal that retries and ends runs that hang. A tenant permits it by a grant; without one it does
// nothing there.
const Recovery = systemPrefix + "recovery"

// IsSystem reports whether the principal is a duty of dvt. It has neither a token nor a session.
func IsSystem(id string) bool { return strings.HasPrefix(id, systemPrefix) }

// secretPrefix lets people and secret scanners recognise a token.
const secretPrefix = "dvt_"

// NewSecret returns a new secret with 256 random bits, and its SHA-256 in hex.
func NewSecret() (secret, hash string) {
	raw := make([]byte, 32)
	_, _ = rand.Read(raw) // it never fails
	secret = secretPrefix + base64.RawURLEncoding.EncodeToString(raw)
	sum := sha256.Sum256([]byte(secret))
	return secret, hex.EncodeToString(sum[:])
}

// shownCharacters are the characters of a secret, behind its common prefix, that people may see: 36 of its 256 bits.
const shownCharacters = 6

// SecretPrefix returns the beginning of a secret, by which its owner recognises a token in a list.
func SecretPrefix(secret string) string {
	return secret[:min(len(secret), len(secretPrefix)+shownCharacters)]
}

// LooksLikeSecret reports whether s has the form of NewSecret's secrets.
func LooksLikeSecret(s string) bool {
	return len(s) == len(secretPrefix)+base64.RawURLEncoding.EncodedLen(32) && strings.HasPrefix(s, secretPrefix)
}

// Bearer returns the token of an Authorization header. It returns "" for another scheme and for a token with spaces or
// characters other than printable ASCII.
func Bearer(header string) string {
	scheme, token, _ := strings.Cut(header, " ")
	token = strings.Trim(token, " ")
	if !strings.EqualFold(scheme, "Bearer") || strings.ContainsFunc(token, func(r rune) bool {
		return r <= ' ' ||
			r > '~'
	}) {
		return ""
	}
	return token
}

// Authenticate returns the principal of an account's token or an API token. Its errors are ErrUnauthenticated,
// ErrExpired, and ErrUnavailable while the stored tokens are not confirmed. It does no I/O and compares only hashes.
func (a *Authorizer) Authenticate(token string) (Principal, error) {
	p, err := a.directory.Authenticate(token)
	if !errors.Is(err, ErrUnauthenticated) || !strings.HasPrefix(token, secretPrefix) {
		return p, err
	}
	s, now := a.state.Load(), a.directory.now()
	t := s.hashes[sha256.Sum256([]byte(token))]
	if err := a.checkToken(t, false, now); err != nil {
		return Principal{}, err
	}
	return a.principalOf(t, Principal{TokenID: t.ID}, useEvery, now)
}

// Session returns the principal of a browser's session by the secret in its cookie. Its errors are ErrUnauthenticated,
// ErrExpired, ErrUnavailable, and ErrIdle if this process knows of no use within idle; 0 is no limit. After ErrIdle the
// caller should read the last use from the store and report it with Used, because another server may know of one.
// Session does no I/O.
func (a *Authorizer) Session(secret string, idle time.Duration) (Principal, error) {
	s, now := a.state.Load(), a.directory.now()
	t := s.hashes[sha256.Sum256([]byte(secret))]
	if err := a.checkToken(t, true, now); err != nil {
		return Principal{}, err
	}
	every := useEvery
	if idle > 0 {
		every = min(every, idle/10)
		if now.Sub(a.uses.lastUsed(t)) >= idle {
			return Principal{SessionID: t.ID, TenantID: t.TenantID}, ErrIdle
		}
	}
	return a.principalOf(t, Principal{SessionID: t.ID}, every, now)
}

// RecordUse records the last use of a token as the store has it.
func (a *Authorizer) RecordUse(id string, at time.Time) { a.uses.setLastUsed(id, at) }

// checkToken returns the error for a token that cannot be used: ErrUnavailable, ErrUnauthenticated or ErrExpired.
func (a *Authorizer) checkToken(t *Token, session bool, now time.Time) error {
	switch {
	case a.isUnconfirmed():
		return ErrUnavailable
	case t == nil || t.Session != session:
		return ErrUnauthenticated
	case !now.Before(t.ExpiresAt):
		return ErrExpired
	}
	return nil
}

// principalOf completes p, which has the id of the token or session, with the data of t. It records the use, at most
// once within every.
func (a *Authorizer) principalOf(t *Token, p Principal, every time.Duration, now time.Time) (Principal, error) {
	p.ID, p.TenantID, p.ExpiresAt, p.Provider, p.Groups = t.Principal, t.TenantID, t.ExpiresAt, t.Provider, t.Groups
	if a.liveToken(a.state.Load(), p, t.ID, now) == nil {
		return Principal{}, ErrUnauthenticated // the account or the provider is gone
	}
	p.Grants = a.Grants(p)
	a.uses.record(t, every, now)
	return p, nil
}

// IsAlive reports whether p could authenticate again in the same way: its token or session is valid, and its account or
// provider still exists. It does not look at rights. The error is ErrUnavailable while the stored tokens are not
// confirmed.
func (a *Authorizer) IsAlive(p Principal) (bool, error) {
	if a.isUnconfirmed() {
		return false, ErrUnavailable
	}
	now := a.directory.now()
	if !p.ExpiresAt.IsZero() && !now.Before(p.ExpiresAt) {
		return false, nil
	}
	for _, id := range []string{p.TokenID, p.SessionID} {
		if id != "" {
			return a.liveToken(a.state.Load(), p, id, now) != nil, nil
		}
	}
	if p.Provider != "" {
		return a.directory.trusts(p.Provider, p.TenantID), nil
	}
	return a.directory.IsAlive(p.TenantID, p.ID), nil
}

// useEvery is the resolution of the stored last use of a token. A session has a tenth of its longest idle time, if that
// is shorter.
const useEvery = time.Hour

// uses holds the last uses of tokens until TakeUsed hands them out for storage. It has at most one entry per token.
type uses struct {
	mu   sync.Mutex
	last map[string]time.Time // last use that was handed out or read from the store, by token id
	due  []string             // ids for the next TakeUsed
}

// lastUsed returns the last known use of a token, or its creation.
func (u *uses) lastUsed(t *Token) time.Time {
	u.mu.Lock()
	defer u.mu.Unlock()
	return latest(t.CreatedAt, t.LastUsedAt, u.last[t.ID])
}

func latest(at time.Time, others ...time.Time) time.Time {
	for _, o := range others {
		if o.After(at) {
			at = o
		}
	}
	return at
}

func (u *uses) record(t *Token, every time.Duration, now time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if now.Sub(latest(t.LastUsedAt, u.last[t.ID])) < every {
		return
	}
	u.last[t.ID] = now
	u.due = append(u.due, t.ID)
}

func (u *uses) setLastUsed(id string, at time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.last[id] = latest(u.last[id], at)
}

// retain forgets all tokens but these.
func (u *uses) retain(tokens map[string]*Token) {
	u.mu.Lock()
	defer u.mu.Unlock()
	maps.DeleteFunc(u.last, func(id string, _ time.Time) bool { return tokens[id] == nil })
	u.due = slices.DeleteFunc(u.due, func(id string) bool { return tokens[id] == nil })
}

// TakeUsed returns the ids of the tokens whose use the caller should store, and forgets them. A token is returned at
// most once an hour, a session at most once in a tenth of its longest idle time.
func (a *Authorizer) TakeUsed() []string {
	a.uses.mu.Lock()
	defer a.uses.mu.Unlock()
	due := a.uses.due
	a.uses.due = nil
	return due
}
