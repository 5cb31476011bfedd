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

// Stored is what the source of policies and tokens has, as of Version.
type Stored struct {
	Version  int64
	Policies []StoredPolicy // the newest of each tenant that has one
	Tokens   []Token        // none that was revoked
}

// StoredPolicy is the newest policy of a tenant; Document is nil when it cannot be read.
type StoredPolicy struct {
	TenantID string
	Version  int64
	Document *Document
}

// Token is an API token: whoever has its secret may do what its grants and the rights
// of its principal both allow, until it ends or is revoked (contract O6).
type Token struct {
	ID         string
	TenantID   string
	Name       string
	Principal  string
	SHA256     [sha256.Size]byte
	Grants     []Grant
	CreatedAt  time.Time
	ExpiresAt  time.Time
	LastUsedAt time.Time // as it is stored; zero: never
	Session    bool      // a browser's, in its cookie: Grants do not narrow it
	Provider   string    // that said who the principal is; "": the settings did, or it is a service
	Groups     []string  // of the principal, as the provider said when it was made
}

// servicePrefix begins the ids of principals that have no account, only API tokens.
const servicePrefix = "service/"

// ServiceID is the principal of a service.
func ServiceID(name string) string { return servicePrefix + name }

// IsService reports whether a principal is a service: it has API tokens and no account.
func IsService(id string) bool { return strings.HasPrefix(id, servicePrefix) }

// secretPrefix lets people, and programs that look for leaks, see what it is.
const secretPrefix = "dvt_"

// NewSecret makes the secret of an API token, of 256 random bits, and its SHA-256 in hex.
func NewSecret() (secret, hash string) {
	raw := make([]byte, 32)
	_, _ = rand.Read(raw) // it never fails
	secret = secretPrefix + base64.RawURLEncoding.EncodeToString(raw)
	sum := sha256.Sum256([]byte(secret))
	return secret, hex.EncodeToString(sum[:])
}

// LooksLikeSecret reports whether NewSecret could have made it.
func LooksLikeSecret(s string) bool {
	return len(s) == len(secretPrefix)+base64.RawURLEncoding.EncodedLen(32) && strings.HasPrefix(s, secretPrefix)
}

// Bearer is the token of an Authorization header, "" when it has none: printable, without spaces.
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

// Authenticate returns the principal of a token, that of an account or an API token:
// ErrUnauthenticated, ErrExpired, or ErrUnavailable while what is stored cannot be read. It
// does no I/O; the token is hashed before anything is compared.
func (a *Authorizer) Authenticate(token string) (Principal, error) {
	p, err := a.directory.Authenticate(token)
	if !errors.Is(err, ErrUnauthenticated) || !strings.HasPrefix(token, secretPrefix) {
		return p, err
	}
	s, now := a.state.Load(), a.directory.now()
	t := s.hashes[sha256.Sum256([]byte(token))]
	if err := a.usable(t, false, now); err != nil {
		return Principal{}, err
	}
	return a.came(t, Principal{TokenID: t.ID}, useEvery, now)
}

// Session returns the principal of a browser's session, by the secret in its cookie:
// ErrUnauthenticated, ErrExpired, ErrUnavailable, or ErrIdle when it was not used for longer than
// idle as far as is known here; 0 is no limit. It does no I/O.
func (a *Authorizer) Session(secret string, idle time.Duration) (Principal, error) {
	s, now := a.state.Load(), a.directory.now()
	t := s.hashes[sha256.Sum256([]byte(secret))]
	if err := a.usable(t, true, now); err != nil {
		return Principal{}, err
	}
	every := useEvery
	if idle > 0 {
		every = min(every, idle/10)
		if now.Sub(a.uses.of(t)) >= idle {
			return Principal{SessionID: t.ID, TenantID: t.TenantID}, ErrIdle
		}
	}
	return a.came(t, Principal{SessionID: t.ID}, every, now)
}

// Used says when a token was used last, as it was read of the store.
func (a *Authorizer) Used(id string, at time.Time) { a.uses.heard(id, at) }

// usable says why a token cannot be used.
func (a *Authorizer) usable(t *Token, session bool, now time.Time) error {
	switch {
	case a.unconfirmed():
		return ErrUnavailable
	case t == nil || t.Session != session:
		return ErrUnauthenticated
	case !now.Before(t.ExpiresAt):
		return ErrExpired
	}
	return nil
}

// came is who comes with a token; p has how.
func (a *Authorizer) came(t *Token, p Principal, every time.Duration, now time.Time) (Principal, error) {
	p.ID, p.TenantID, p.ExpiresAt, p.Provider, p.Groups = t.Principal, t.TenantID, t.ExpiresAt, t.Provider, t.Groups
	if a.live(a.state.Load(), p, t.ID, now) == nil {
		return Principal{}, ErrUnauthenticated // its principal or its provider has gone
	}
	p.Grants = a.Grants(p)
	a.uses.note(t, every, now)
	return p, nil
}

// Alive reports whether who came as p could come so again: its token or session has not ended, its account
// or its provider is still known. It says nothing of rights. ErrUnavailable while what is stored cannot be read.
func (a *Authorizer) Alive(p Principal) (bool, error) {
	if a.unconfirmed() {
		return false, ErrUnavailable
	}
	now := a.directory.now()
	if !p.ExpiresAt.IsZero() && !now.Before(p.ExpiresAt) {
		return false, nil
	}
	for _, id := range []string{p.TokenID, p.SessionID} {
		if id != "" {
			return a.live(a.state.Load(), p, id, now) != nil, nil
		}
	}
	if p.Provider != "" {
		return a.directory.trusts(p.Provider, p.TenantID), nil
	}
	return a.directory.Alive(p.TenantID, p.ID), nil
}

// useEvery is how coarsely the last use of a token is known, that of a session ten times in its
// longest idle time.
const useEvery = time.Hour

// uses remembers when tokens were used, until somebody stores it. It has at most as many
// entries as there are tokens.
type uses struct {
	mu   sync.Mutex
	last map[string]time.Time // as it was handed out or is stored
	due  []string
}

// of is when a token was used last, or else made.
func (u *uses) of(t *Token) time.Time {
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

func (u *uses) note(t *Token, every time.Duration, now time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if now.Sub(latest(t.LastUsedAt, u.last[t.ID])) < every {
		return
	}
	u.last[t.ID] = now
	u.due = append(u.due, t.ID)
}

func (u *uses) heard(id string, at time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.last[id] = latest(u.last[id], at)
}

// keep forgets all others.
func (u *uses) keep(tokens map[string]*Token) {
	u.mu.Lock()
	defer u.mu.Unlock()
	maps.DeleteFunc(u.last, func(id string, _ time.Time) bool { return tokens[id] == nil })
	u.due = slices.DeleteFunc(u.due, func(id string) bool { return tokens[id] == nil })
}

// TakeUsed hands out the ids of tokens that were used and whose last use, as it is stored, is an
// hour ago or more, of sessions a tenth of their longest idle time. Each is handed out at most as often.
func (a *Authorizer) TakeUsed() []string {
	a.uses.mu.Lock()
	defer a.uses.mu.Unlock()
	due := a.uses.due
	a.uses.due = nil
	return due
}
