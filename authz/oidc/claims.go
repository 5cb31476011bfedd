package oidc

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/dvt-engine/dvt/authz"
)

// algorithms are those that may sign tokens. Algorithms with a shared secret and "none" are not among them.
var algorithms = []jose.SignatureAlgorithm{ //nolint:gochecknoglobals // a table
	jose.RS256, jose.RS384, jose.RS512, jose.PS256, jose.PS384, jose.PS512, jose.ES256, jose.ES384, jose.ES512, jose.EdDSA,
}

// tokenTypes are the header types of tokens that identify a caller. Other tokens, such as logout tokens, are signed by
// the same keys and must not be accepted.
var tokenTypes = []string{"", "jwt", "at+jwt", "application/jwt", "application/at+jwt"} //nolint:gochecknoglobals // a table

// claims are the claims of a verified token.
type claims struct {
	jwt.Claims
	Nonce           string `json:"nonce"`
	AuthorizedParty string `json:"azp"`
	all             map[string]any
}

// parse reads a signed token in its compact form without verifying it. The error is authz.ErrUnauthenticated.
func parse(token string) (*jwt.JSONWebToken, error) {
	t, err := jwt.ParseSigned(token, algorithms)
	if err != nil || len(t.Headers) != 1 {
		return nil, fmt.Errorf("%w: no JWT signed by an algorithm of %v", authz.ErrUnauthenticated, algorithms)
	}
	kind, _ := t.Headers[0].ExtraHeaders[jose.HeaderType].(string)
	if !slices.Contains(tokenTypes, strings.ToLower(kind)) {
		return nil, fmt.Errorf("%w: a JWT of the type %q", authz.ErrUnauthenticated, kind)
	}
	return t, nil
}

// verify checks all claims except the subject, and the signature. Tokens that are invalid regardless of their signature
// are rejected before keys are fetched, so that a forger cannot cause requests to the issuer. The errors are
// authz.ErrUnauthenticated, authz.ErrExpired and authz.ErrUnavailable.
func (ps *Providers) verify(ctx context.Context, p *provider, t *jwt.JSONWebToken, audience string) (claims, error) {
	expected := jwt.Expected{Issuer: p.URL, AnyAudience: jwt.Audience{audience}, Time: ps.cfg.Now()}
	var said jwt.Claims
	if err := t.UnsafeClaimsWithoutVerification(&said); err != nil || said.Expiry == nil {
		return claims{}, fmt.Errorf("%w: no claims, or no exp among them", authz.ErrUnauthenticated)
	}
	wrong := said.ValidateWithLeeway(expected, ps.cfg.Skew)
	if wrong != nil && !errors.Is(wrong, jwt.ErrExpired) {
		return claims{}, fmt.Errorf("%w: %w", authz.ErrUnauthenticated, wrong)
	}
	found, err := p.keys.byID(ctx, t.Headers[0].KeyID, wrong == nil)
	if errors.Is(err, errNoKey) {
		return claims{}, fmt.Errorf("%w: %w", authz.ErrUnauthenticated, err)
	}
	if err != nil {
		return claims{}, err
	}
	for _, key := range found {
		var c claims
		if key.Algorithm != "" && key.Algorithm != t.Headers[0].Algorithm || t.Claims(key.Key, &c, &c.all) != nil {
			continue
		}
		if wrong != nil {
			return claims{}, authz.ErrExpired
		}
		return c, nil
	}
	return claims{}, fmt.Errorf("%w: the signature is by no key of %s", authz.ErrUnauthenticated, p.Name)
}

// maxGroups bounds the groups of a principal; further ones are ignored.
const maxGroups = 200

// principal returns the principal that the claims identify. The error is authz.ErrUnauthenticated if a claim is missing
// or not acceptable.
func (p *provider) principal(c claims) (authz.Principal, error) {
	id, ok := c.text(p.PrincipalClaim)
	if !ok {
		return authz.Principal{}, fmt.Errorf("%w: the claim %s is missing", authz.ErrUnauthenticated, p.PrincipalClaim)
	}
	if p.PrincipalClaim == "email" && c.all["email_verified"] != true && c.all["email_verified"] != "true" {
		return authz.Principal{}, fmt.Errorf("%w: the email address is not verified", authz.ErrUnauthenticated)
	}
	id = p.Prefix + id
	if !authz.IsValidName(id) || authz.IsGroup(id) {
		return authz.Principal{}, fmt.Errorf("%w: the claim %s is no name of a principal", authz.ErrUnauthenticated,
			p.PrincipalClaim)
	}
	tenant := p.TenantID
	if tenant == "" {
		tenant, _ = c.text(p.TenantClaim)
		if !authz.IsValidName(tenant) || len(p.Tenants) > 0 && !slices.Contains(p.Tenants, tenant) {
			return authz.Principal{}, fmt.Errorf("%w: the claim %s says no tenant of this issuer", authz.ErrUnauthenticated,
				p.TenantClaim)
		}
	}
	return authz.Principal{ID: id, TenantID: tenant, Provider: p.Name, Groups: p.groups(c),
		ExpiresAt: c.Expiry.Time().UTC()}, nil
}

// groups returns the groups in the claims that a policy could name, at most maxGroups.
func (p *provider) groups(c claims) []string {
	if p.GroupsClaim == "" {
		return nil
	}
	var names []any
	switch said := c.at(p.GroupsClaim).(type) {
	case []any:
		names = said
	case string:
		names = []any{said}
	}
	var out []string
	for _, n := range names {
		name, ok := n.(string)
		if id := authz.GroupID(p.Prefix + name); ok && name != "" && authz.IsValidName(id) && !slices.Contains(out, id) &&
			len(out) < maxGroups {
			out = append(out, id)
		}
	}
	return out
}

func (c claims) text(name string) (string, bool) {
	s, ok := c.at(name).(string)
	return s, ok && s != ""
}

// at returns a claim by its name, or by a path with dots such as realm_access.roles; nil if it is absent.
func (c claims) at(name string) any {
	if v, ok := c.all[name]; ok {
		return v
	}
	var v any = c.all
	for part := range strings.SplitSeq(name, ".") {
		object, ok := v.(map[string]any)
		if !ok {
			return nil
		}
		v = object[part]
	}
	return v
}
