package authz

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
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
// of its principal both allow, until it ends or is revoked (O6).
type Token struct {
	ID         string
	TenantID   string
	Name       string
	Principal  string
	SHA256     [sha256.Size]byte
	Grants     []Grant
	ExpiresAt  time.Time
	LastUsedAt time.Time // as it is stored; zero: never
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
	switch {
	case a.unconfirmed():
		return Principal{}, ErrUnavailable
	case t == nil:
		return Principal{}, ErrUnauthenticated
	case !now.Before(t.ExpiresAt):
		return Principal{}, ErrExpired
	}
	p = Principal{ID: t.Principal, TenantID: t.TenantID, ExpiresAt: t.ExpiresAt, TokenID: t.ID}
	if a.live(s, p, now) == nil {
		return Principal{}, ErrUnauthenticated // its principal has gone
	}
	p.Grants = a.Grants(p)
	a.uses.note(t, now)
	return p, nil
}

// useEvery is how coarsely the last use of a token is known.
const useEvery = time.Hour

// uses remembers when tokens were used, until somebody stores it. It has at most as many
// entries as there were tokens.
type uses struct {
	mu   sync.Mutex
	last map[string]time.Time // as it was handed out or is stored
	due  []string
}

func (u *uses) note(t *Token, now time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	last, ok := u.last[t.ID]
	if !ok {
		last = t.LastUsedAt
	}
	if now.Sub(last) < useEvery {
		return
	}
	u.last[t.ID] = now
	u.due = append(u.due, t.ID)
}

// TakeUsed hands out the ids of tokens that were used and whose last use, as it is stored, is an
// hour ago or more. Each is handed out at most once an hour.
func (a *Authorizer) TakeUsed() []string {
	a.uses.mu.Lock()
	defer a.uses.mu.Unlock()
	due := a.uses.due
	a.uses.due = nil
	return due
}
