// Package oidc says who somebody is by the tokens of OIDC providers, and signs browsers in with
// them (contract O6). A token counts when its issuer is configured and its signature, by a key that the
// issuer publishes now, its audience and its times hold; which algorithms may sign is a list of
// our own. What it cannot know, because an issuer does not answer, is authz.ErrUnavailable and
// never a refusal; keys that are known go on working meanwhile.
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

// MaxToken is the largest token that is looked at, in bytes.
const MaxToken = 16 << 10

// maxVerified bounds the tokens that are known to be good.
const maxVerified = 8192

// Issuer is one provider, as the settings describe it.
type Issuer struct {
	Name         string // in addresses and the audit
	Label        string // for people
	URL          string // compared as it is with the claim iss
	ClientID     string
	ClientSecret string   // "": a public client, which PKCE alone protects
	Audience     string   // of bearer tokens
	Scopes       []string // that a sign-in asks for beside openid

	PrincipalClaim string // sub, or another that the issuer keeps stable and unique; email must be verified
	Prefix         string // before the principal's name and those of its groups
	TenantID       string // of everybody; "": TenantClaim says it
	TenantClaim    string
	Tenants        []string // that TenantClaim may say; none: any
	GroupsClaim    string   // "": none
}

// Config is what Providers stand on.
type Config struct {
	Issuers  []Issuer
	Callback string        // address of the callback, for browsers; "": nobody signs in
	Key      []byte        // of the cookies of sign-ins under way, the same for all servers; 32 bytes or more
	Skew     time.Duration // by which clocks may differ
	// KeysEvery is how often keys are read again, and so how long one that the issuer took back may
	// work; 5 min.
	KeysEvery time.Duration
	Now       func() time.Time
	Logger    *slog.Logger
	// Transport reaches the issuers; nil is http.DefaultTransport.
	Transport http.RoundTripper
}

// Providers are the configured issuers. They are safe for concurrent use.
type Providers struct {
	cfg      Config
	list     []*provider
	byURL    map[string]*provider
	verified *lru.Cache[[sha256.Size]byte, verified]
}

type provider struct {
	Issuer
	keys *keys
}

// verified is a token that was good under a generation of its issuer's keys.
type verified struct {
	by         *provider
	generation int64
	principal  authz.Principal
}

// New makes Providers. It calls nobody: an issuer that is down does not keep a server from starting.
func New(cfg Config) *Providers {
	if cfg.KeysEvery == 0 {
		cfg.KeysEvery = 5 * time.Minute
	}
	cache, err := lru.New[[sha256.Size]byte, verified](maxVerified)
	if err != nil {
		panic(err) // only a size below 1 is refused
	}
	ps := &Providers{cfg: cfg, byURL: map[string]*provider{}, verified: cache}
	client := newClient(cfg.Transport)
	for _, issuer := range cfg.Issuers {
		p := &provider{Issuer: issuer, keys: newKeys(issuer.URL, client, cfg.Now)}
		ps.list, ps.byURL[issuer.URL] = append(ps.list, p), p
	}
	return ps
}

// Run reads keys again every KeysEvery, and soon after a failure, until ctx ends.
func (ps *Providers) Run(ctx context.Context) error {
	var g errgroup.Group
	for _, p := range ps.list {
		g.Go(func() error { ps.follow(ctx, p); return nil })
	}
	return g.Wait()
}

// retryEvery is how often an issuer that does not answer is asked for its keys.
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
			ps.cfg.Logger.WarnContext(ctx, "the keys of an OIDC issuer", slog.String("provider", p.Name),
				slog.Bool("known", !failing), slog.Any("error", err))
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

// Looks reports whether a token looks like a JWT; others need not be shown here.
func Looks(token string) bool {
	dots := 0
	for i := range len(token) {
		if token[i] == '.' {
			dots++
		}
	}
	return dots == 2
}

// Authenticate returns the principal of a bearer token: authz.ErrUnauthenticated, ErrExpired, or
// ErrUnavailable when it is signed by a key that is not known here and the issuer does not answer.
// It calls the issuer for such a key only, once for all who wait, and then not again for 2 s.
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
	if generation == p.keys.generation() { // else it was perhaps one of the former keys
		ps.verified.Add(hash, verified{by: p, generation: generation, principal: who})
	}
	return who, nil
}

var errNoKey = errors.New("oidc: no such key")
