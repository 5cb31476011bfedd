package oidc

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"github.com/dvt-engine/dvt/authz"
)

// AttemptLife is the time that a person has to sign in.
const AttemptLife = 10 * time.Minute

// ErrUnknown means that no provider has the name, or that the provider cannot sign browsers in.
var ErrUnknown = errors.New("oidc: no such provider")

// Method is a provider with which people can sign in.
type Method struct{ Name, Label string }

// Methods returns the providers with which people can sign in, in the order of the settings.
func (ps *Providers) Methods() []Method {
	var out []Method
	for _, p := range ps.list {
		if ps.signsIn(p) {
			out = append(out, Method{p.Name, p.Label})
		}
	}
	return out
}

func (ps *Providers) signsIn(p *provider) bool { return p.ClientID != "" && ps.cfg.Callback != "" }

// pending is a sign-in that is not finished. It is stored only in the browser's cookie, encrypted.
type pending struct {
	Provider string    `json:"p"`
	State    string    `json:"s"`
	Nonce    string    `json:"n"`
	Verifier string    `json:"v"`
	To       string    `json:"t"`
	Until    time.Time `json:"u"`
}

// Begin starts a sign-in with the named provider. It returns the address to which the browser must be redirected, and
// the value of a cookie with the lifetime AttemptLife. Finish returns to again. The errors are ErrUnknown and
// authz.ErrUnavailable.
func (ps *Providers) Begin(ctx context.Context, name, to string) (address, cookie string, err error) {
	i := slices.IndexFunc(ps.list, func(p *provider) bool { return p.Name == name && ps.signsIn(p) })
	if i < 0 {
		return "", "", ErrUnknown
	}
	p := ps.list[i]
	if p.keys.known.Load().endpoint.AuthURL == "" {
		if err := p.keys.refresh(ctx, ps.cfg.Now()); err != nil {
			return "", "", err
		}
	}
	a := pending{
		Provider: name, State: rand.Text(), Nonce: rand.Text(), Verifier: oauth2.GenerateVerifier(), To: to,
		Until: ps.cfg.Now().Add(AttemptLife).UTC(),
	}
	if cookie, err = ps.seal(a); err != nil {
		return "", "", err
	}
	return ps.oauth(p).AuthCodeURL(a.State, oidc.Nonce(a.Nonce), oauth2.S256ChallengeOption(a.Verifier)), cookie, nil
}

// Finish ends a sign-in. answer are the parameters with which the provider redirected the browser to the callback, and
// cookie is that of Begin. It returns the principal, the name of the provider and the to of Begin. The errors are
// authz.ErrUnauthenticated with a reason and authz.ErrUnavailable; with an error the name and to are returned as far as
// they are known. A call cannot be repeated, because the provider accepts a code only once.
func (ps *Providers) Finish(ctx context.Context, cookie string, answer url.Values) (who authz.Principal, name,
	to string, err error) {
	refuse := func(format string, args ...any) (authz.Principal, string, string, error) {
		return authz.Principal{}, name, to, fmt.Errorf("%w: "+format, append([]any{authz.ErrUnauthenticated}, args...)...)
	}
	a, err := ps.open(cookie)
	if err != nil {
		return refuse("the sign-in did not begin in this browser, or too long ago")
	}
	i := slices.IndexFunc(ps.list, func(p *provider) bool { return p.Name == a.Provider && ps.signsIn(p) })
	if i < 0 {
		return refuse("no provider %q", a.Provider)
	}
	p := ps.list[i]
	name, to = p.Name, a.To
	if subtle.ConstantTimeCompare([]byte(answer.Get("state")), []byte(a.State)) != 1 {
		return refuse("the answer belongs to another sign-in")
	}
	if iss := answer.Get("iss"); iss != "" && iss != p.URL {
		return refuse("another issuer answered")
	}
	if answer.Get("error") != "" || answer.Get("code") == "" {
		return refuse("the provider did not agree")
	}
	raw, err := ps.exchange(ctx, p, answer.Get("code"), a.Verifier)
	if err != nil {
		return authz.Principal{}, name, to, err
	}
	who, err = ps.identify(ctx, p, raw, a.Nonce)
	return who, name, to, err
}

// exchange trades the code for an ID token at the provider.
func (ps *Providers) exchange(ctx context.Context, p *provider, code, verifier string) (string, error) {
	ctx, cancel := context.WithTimeout(oidc.ClientContext(ctx, p.keys.client), fetchTimeout)
	defer cancel()
	token, err := ps.oauth(p).Exchange(ctx, code, oauth2.VerifierOption(verifier))
	if refused, ok := errors.AsType[*oauth2.RetrieveError](err); ok && refused.Response.StatusCode < 500 {
		return "", fmt.Errorf("%w: the provider refused the code (%s)", authz.ErrUnauthenticated, refused.ErrorCode)
	}
	if err != nil {
		// The error is not wrapped, because it may contain the code.
		return "", fmt.Errorf("%w: the provider did not take the code", authz.ErrUnavailable)
	}
	raw, _ := token.Extra("id_token").(string)
	if raw == "" || len(raw) > MaxToken {
		return "", fmt.Errorf("%w: the provider sent no ID token", authz.ErrUnauthenticated)
	}
	return raw, nil
}

// identify returns the principal of an ID token that belongs to the sign-in with the nonce.
func (ps *Providers) identify(ctx context.Context, p *provider, raw, nonce string) (authz.Principal, error) {
	t, err := parse(raw)
	if err != nil {
		return authz.Principal{}, err
	}
	c, err := ps.verify(ctx, p, t, p.ClientID)
	switch {
	case err != nil:
		return authz.Principal{}, err
	case subtle.ConstantTimeCompare([]byte(c.Nonce), []byte(nonce)) != 1:
		return authz.Principal{}, fmt.Errorf("%w: the ID token belongs to another sign-in", authz.ErrUnauthenticated)
	case c.AuthorizedParty != "" && c.AuthorizedParty != p.ClientID:
		return authz.Principal{}, fmt.Errorf("%w: the ID token was made for another client", authz.ErrUnauthenticated)
	}
	return p.principal(c)
}

func (ps *Providers) oauth(p *provider) *oauth2.Config {
	known := p.keys.known.Load()
	endpoint := known.endpoint
	endpoint.AuthStyle = oauth2.AuthStyleInParams
	if p.ClientSecret != "" && known.inHeader {
		endpoint.AuthStyle = oauth2.AuthStyleInHeader
	}
	return &oauth2.Config{
		ClientID: p.ClientID, ClientSecret: p.ClientSecret, Endpoint: endpoint, RedirectURL: ps.cfg.Callback,
		Scopes: slices.Concat([]string{oidc.ScopeOpenID}, p.Scopes),
	}
}

// cookieUse derives the key of the cookie, so that the same configured key can protect other things.
const cookieUse = "dvt sign-in under way"

func (ps *Providers) aead() (cipher.AEAD, error) {
	key, err := hkdf.Key(sha256.New, ps.cfg.Key, nil, cookieUse, 32)
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCMWithRandomNonce(block)
}

func (ps *Providers) seal(a pending) (string, error) {
	doc, err := json.Marshal(a)
	if err != nil {
		return "", err
	}
	box, err := ps.aead()
	if err != nil {
		return "", err
	}
	return base64.RawURLEncoding.EncodeToString(box.Seal(nil, nil, doc, []byte(cookieUse))), nil
}

func (ps *Providers) open(cookie string) (a pending, err error) {
	sealed, err := base64.RawURLEncoding.DecodeString(cookie)
	if err != nil {
		return a, err
	}
	box, err := ps.aead()
	if err != nil {
		return a, err
	}
	doc, err := box.Open(nil, nil, sealed, []byte(cookieUse))
	if err != nil {
		return a, err
	}
	if err := json.Unmarshal(doc, &a); err != nil {
		return a, err
	}
	if !ps.cfg.Now().Before(a.Until) {
		return a, authz.ErrExpired
	}
	return a, nil
}
