// Package oidc authenticates callers by the tokens of OIDC providers, and signs browsers in with them (contract O6). A
// token is accepted if its issuer is configured, its signature verifies with a key that the issuer publishes now, and
// its audience and times are valid. Only algorithms of a fixed list may sign. An issuer that does not answer leads to
// authz.ErrUnavailable and never to a refusal; known keys continue to work meanwhile.
package oidc

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/go-jose/go-jose/v4/jwt"
	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/sync/errgroup"

	"github.com/dvt-engine/dvt/authz"
)

// MaxToken is the largest accepted token, in bytes.
const MaxToken = 16 << 10

// maxVerified bounds the cache of verified tokens.
const maxVerified = 8192

// Issuer is the configuration of one provider.
type Issuer struct {
	Name         string // in addresses and the audit
	Label        string // for people
	URL          string // must equal the claim iss exactly
	ClientID     string
	ClientSecret string   // "": a public client, protected by PKCE only
	Audience     string   // required audience of bearer tokens
	Scopes       []string // scopes that a sign-in requests beside openid

	PrincipalClaim string // sub, or another that the issuer keeps stable and unique; email must be verified
	Prefix         string // prefix for the names of principals and groups
	TenantID       string // tenant of everybody; "": TenantClaim names it
	TenantClaim    string
	Tenants        []string // permitted values of TenantClaim; empty: any
	GroupsClaim    string   // "": principals have no groups
}

// Config configures Providers.
type Config struct {
	Issuers  []Issuer
	Callback string        // URL of the callback; "": browsers cannot sign in
	Key      []byte        // for the cookies of unfinished sign-ins, the same on all servers; at least 32 bytes
	Skew     time.Duration // tolerated difference of clocks
	// KeysEvery is the interval at which keys are fetched, and so the longest time that a revoked key works. 0 is 5
	// min.
	KeysEvery time.Duration
	Now       func() time.Time
	Logger    *slog.Logger
	// Transport is used for requests to issuers. nil is http.DefaultTransport.
	Transport http.RoundTripper
}

// Providers are the configured issuers. They are safe for concurrent use.
type Providers struct {
	cfg      Config
	list     []*provider
	byURL    map[string]*provider
	verified *lru.Cache[[sha256.Size]byte, verifiedToken]
}

type provider struct {
	Issuer
	keys *keys
}

// verifiedToken is the result of a verification. It is valid only for one generation of the issuer's keys.
type verifiedToken struct {
	by         *provider
	generation int64
	principal  authz.Principal
}

// New makes Providers. It does no I/O, so that an issuer that is down does not prevent a server from starting.
func New(cfg Config) *Providers {
	if cfg.KeysEvery == 0 {
		cfg.KeysEvery = 5 * time.Minute
	}
	cache, err := lru.New[[sha256.Size]byte, verifiedToken](maxVerified)
	if err != nil {
		panic(err) // lru.New only fails for a size below 1
	}
	ps := &Providers{cfg: cfg, byURL: map[string]*provider{}, verified: cache}
	client := newClient(cfg.Transport)
	for _, issuer := range cfg.Issuers {
		p := &provider{Issuer: issuer, keys: newKeys(issuer.URL, client, cfg.Now)}
		ps.list, ps.byURL[issuer.URL] = append(ps.list, p), p
	}
	return ps
}

// Run fetches the keys of every issuer every KeysEvery, and every 15 s after a failure, until ctx ends. It returns nil.
func (ps *Providers) Run(ctx context.Context) error {
	var g errgroup.Group
	for _, p := range ps.list {
		g.Go(func() error { ps.follow(ctx, p); return nil })
	}
	return g.Wait()
}

// retryEvery is the interval at which keys are fetched after a failure.
const retryEvery = 15 * time.Second

func (ps *Providers) follow(ctx context.Context, p *provider) {
	failing := false
	for {
		err := p.keys.refresh(ctx, ps.cfg.Now())
		if ctx.Err() != nil {
			return
		}
		if (err != nil) != failing {
			failing = err != nil
			if failing {
				ps.cfg.Logger.WarnContext(ctx, "the keys of an OIDC issuer cannot be read; the last ones stay in use",
					slog.String("provider", p.Name), slog.Any("error", err))
			} else {
				ps.cfg.Logger.WarnContext(ctx, "the keys of an OIDC issuer can be read again",
					slog.String("provider", p.Name))
			}
		}
		wait := ps.cfg.KeysEvery
		if failing {
			wait = min(wait, retryEvery)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}

// Looks reports whether a token has the form of a JWT. Authenticate refuses every other token.
func Looks(token string) bool {
	dots := 0
	for i := range len(token) {
		if token[i] == '.' {
			dots++
		}
	}
	return dots == 2
}

// Authenticate returns the principal of a bearer token. Its errors are authz.ErrUnauthenticated, authz.ErrExpired, and
// authz.ErrUnavailable if the signing key is unknown and the issuer does not answer. It calls the issuer only for an
// unknown key, once for all waiting callers, and at most every 2 s.
func (ps *Providers) Authenticate(ctx context.Context, token string) (authz.Principal, error) {
	if len(token) > MaxToken {
		return authz.Principal{}, fmt.Errorf("%w: larger than %d bytes", authz.ErrUnauthenticated, MaxToken)
	}
	hash := sha256.Sum256([]byte(token))
	if v, ok := ps.verified.Get(hash); ok && v.generation == v.by.keys.generation() {
		if ps.cfg.Now().Before(v.principal.ExpiresAt.Add(ps.cfg.Skew)) {
			return v.principal, nil
		}
		return authz.Principal{}, authz.ErrExpired
	}
	parsed, err := parse(token)
	if err != nil {
		return authz.Principal{}, err
	}
	var said jwt.Claims
	if err := parsed.UnsafeClaimsWithoutVerification(&said); err != nil || ps.byURL[said.Issuer] == nil {
		return authz.Principal{}, fmt.Errorf("%w: no issuer of ours", authz.ErrUnauthenticated)
	}
	p := ps.byURL[said.Issuer]
	generation := p.keys.generation()
	c, err := ps.verify(ctx, p, parsed, p.Audience)
	if err != nil {
		return authz.Principal{}, err
	}
	if c.Nonce != "" && p.Audience == p.ClientID {
		return authz.Principal{}, fmt.Errorf("%w: an ID token of a sign-in is no bearer token", authz.ErrUnauthenticated)
	}
	who, err := p.principal(c)
	if err != nil {
		return authz.Principal{}, err
	}
	if generation == p.keys.generation() { // otherwise a key that was just revoked may have verified the token
		ps.verified.Add(hash, verifiedToken{by: p, generation: generation, principal: who})
	}
	return who, nil
}

var errNoKey = errors.New("oidc: no such key")
