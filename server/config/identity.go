package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/authz/oidc"
)

// Issuer is an OIDC provider that this server trusts: an entry of the setting oidc.
type Issuer struct {
	Name             string   `json:"name"` // part of sign-in URLs, audit records and policy input
	Label            string   `json:"label"`
	Issuer           string   `json:"issuer"`
	ClientID         string   `json:"clientId"`
	ClientSecret     Secret   `json:"clientSecret"`
	ClientSecretFile string   `json:"clientSecretFile"`
	Audience         string   `json:"audience"` // clientId when empty
	Scopes           []string `json:"scopes"`
	PrincipalClaim   string   `json:"principalClaim"` // sub when empty
	Prefix           string   `json:"prefix"`
	Tenant           string   `json:"tenant"`
	TenantClaim      string   `json:"tenantClaim"`
	Tenants          []string `json:"tenants"`
	GroupsClaim      string   `json:"groupsClaim"`
}

// issuers decodes the setting oidc. An unknown key is an error.
func issuers(list any) (out []Issuer, err error) {
	if list == nil {
		return nil, nil
	}
	doc, err := json.Marshal(list)
	if err != nil {
		return nil, fmt.Errorf("oidc: %w", err)
	}
	d := json.NewDecoder(bytes.NewReader(doc))
	d.DisallowUnknownFields()
	if err := d.Decode(&out); err != nil {
		return nil, fmt.Errorf("oidc: %w", err)
	}
	return out, nil
}

var issuerName = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,31}$`)

// verify returns all errors in an issuer and sets the defaults of missing fields.
func (i *Issuer) verify() (errs []error) {
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf("oidc %q: "+format, append([]any{i.Name}, args...)...))
		}
	}
	check(issuerName.MatchString(i.Name), "name must be 1 to 32 of a-z 0-9 -")
	check(httpsOrLoopback(i.Issuer), "issuer must be an https address; http is for loopback")
	if i.Audience == "" {
		i.Audience = i.ClientID
	}
	check(i.Audience != "", "audience is missing, and clientId, which would replace it: set one of them, so that tokens "+
		"for other applications are refused")
	check(i.ClientSecret == "" || i.ClientSecretFile == "", "clientSecret and clientSecretFile are both given")
	check(i.ClientSecret == "" && i.ClientSecretFile == "" || i.ClientID != "",
		"a client secret is given and clientId is not")
	if i.PrincipalClaim == "" {
		i.PrincipalClaim = "sub"
	}
	if i.Label == "" {
		i.Label = i.Name
	}
	check((i.Tenant == "") != (i.TenantClaim == ""), "give either tenant or tenantClaim")
	check(i.TenantClaim != "" || len(i.Tenants) == 0, "tenants narrow tenantClaim, which is not given")
	check(i.Prefix == "" || authz.IsValidName(i.Prefix), "prefix must be printable, without spaces")
	return errs
}

// mayNameSame reports whether two issuers could name the same principal. A person of one issuer would then have the
// rights of a person of the other.
func (i *Issuer) mayNameSame(other Issuer) bool {
	if !strings.HasPrefix(i.Prefix, other.Prefix) && !strings.HasPrefix(other.Prefix, i.Prefix) {
		return false
	}
	mine, theirs := i.mayServe(), other.mayServe()
	return mine == nil || theirs == nil || slices.ContainsFunc(mine,
		func(tenant string) bool { return slices.Contains(theirs, tenant) })
}

// mayServe returns the tenants to which an issuer may assign principals; nil means any.
func (i *Issuer) mayServe() []string {
	if i.Tenant != "" {
		return []string{i.Tenant}
	}
	return i.Tenants
}

// httpsOrLoopback reports whether address is an https URL, or an http URL of loopback, so that a network cannot read
// the data that is sent to it. URLs with a user, a query or a fragment are refused.
func httpsOrLoopback(address string) bool {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return false
	}
	return u.Scheme == "https" || u.Scheme == "http" && IsLoopback(u.Host)
}

// IsLoopback reports whether host, with or without a port, is localhost or a loopback address.
func IsLoopback(host string) bool {
	name := (&url.URL{Host: host}).Hostname()
	ip := net.ParseIP(name)
	return strings.EqualFold(name, "localhost") || ip != nil && ip.IsLoopback()
}

// minSignInKey is the minimum length of sign-in-key, in bytes.
const minSignInKey = 32

// verifyIdentity returns all errors in the settings of authentication. It also sets the default of public-url.
func (c *Config) verifyIdentity() (errs []error) {
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if c.Dev && len(c.Issuers) > 0 {
		bad("oidc is for `dvt server`: dvt dev has principals of its own")
	}
	names, addresses := map[string]bool{}, map[string]bool{}
	for i := range c.Issuers {
		issuer := &c.Issuers[i]
		errs = append(errs, issuer.verify()...)
		if names[issuer.Name] || addresses[issuer.Issuer] {
			bad("oidc %q: another provider has the same name or issuer", issuer.Name)
		}
		names[issuer.Name], addresses[issuer.Issuer] = true, true
		for _, other := range c.Issuers[:i] {
			if issuer.mayNameSame(other) {
				bad("oidc %q and %q may speak for one tenant: give each a prefix, and let neither begin with the other",
					other.Name,
					issuer.Name)
			}
		}
	}
	if _, err := authz.NewDirectory(c.Accounts, time.Now); err != nil {
		errs = append(errs, err)
	}
	for _, a := range c.Accounts {
		if a.OIDC && len(c.Issuers) == 0 {
			bad("the account %q signs in by OIDC, and no oidc is set", a.ID)
		}
	}
	if c.PublicURL == "" && IsLoopback(c.Listen) {
		c.PublicURL = "http://" + c.Listen
	}
	c.PublicURL = strings.TrimSuffix(c.PublicURL, "/")
	if u, err := url.Parse(c.PublicURL); c.PublicURL != "" && (err != nil || u.Path != "" ||
		!httpsOrLoopback(c.PublicURL)) {
		bad("public-url must look like https://dvt.example; http is for loopback")
	}
	if c.SignInKey != "" && len(c.SignInKey) < minSignInKey {
		bad("sign-in-key must have %d bytes or more", minSignInKey)
	}
	if c.SessionLife < 0 || c.SessionIdle < 0 || c.ClockSkew < 0 || c.ClockSkew > maxSkew {
		bad("session-life and session-idle must not be below 0, clock-skew must be 0s to %s", maxSkew)
	}
	if _, err := c.Proxies(); err != nil {
		bad("trusted-proxies: %w", err)
	}
	return errs
}

// SignsIn reports whether browsers can sign in by a provider.
func (c *Config) SignsIn() bool {
	for _, i := range c.Issuers {
		if i.ClientID != "" {
			return true
		}
	}
	return false
}

// ErrNoAuthentication is the error of a server that other machines could reach but that has neither accounts nor oidc.
// Such a server could authenticate nobody, so it does not start.
var ErrNoAuthentication = errors.New(
	"this server can authenticate nobody: set accounts or oidc; without them it may listen on loopback only")

// VerifyForServer returns all errors in settings that only a server needs, and reads client secrets from their files.
// The error wraps ErrNoAuthentication when a server without authentication would listen on another address than
// loopback.
func (c *Config) VerifyForServer() error {
	var errs []error
	if len(c.Accounts) == 0 && len(c.Issuers) == 0 && !IsLoopback(c.Listen) {
		errs = append(errs, ErrNoAuthentication)
	}
	if c.SignsIn() && c.SignInKey == "" && !IsLoopback(c.Listen) {
		errs = append(errs, errors.New("sign-in-key is missing: it encrypts the cookies of sign-ins; set the same secret of "+
			"32 bytes or more on all servers"))
	}
	if c.SignsIn() && c.PublicURL == "" {
		errs = append(errs, errors.New("public-url is missing: set the URL to which providers send browsers back, such as "+
			"https://dvt.example"))
	}
	for i := range c.Issuers {
		if issuer := &c.Issuers[i]; issuer.ClientSecretFile != "" {
			secret, err := os.ReadFile(issuer.ClientSecretFile)
			if err != nil {
				errs = append(errs, fmt.Errorf("oidc %q: clientSecretFile cannot be read: %w", issuer.Name, err))
			}
			issuer.ClientSecret = Secret(strings.TrimSpace(string(secret)))
		}
	}
	return errors.Join(errs...)
}

// Proxies parses trusted-proxies. An address is a network of one address.
func (c *Config) Proxies() (out []netip.Prefix, err error) {
	for _, s := range c.TrustedProxies {
		p, err := netip.ParsePrefix(s)
		if err != nil {
			ip, err := netip.ParseAddr(s)
			if err != nil {
				return nil, fmt.Errorf("%q is neither an address nor a network such as 10.0.0.0/8", s)
			}
			p = netip.PrefixFrom(ip, ip.BitLen())
		}
		out = append(out, p.Masked())
	}
	return out, nil
}

// Providers returns the issuers in the form that package oidc takes.
func (c *Config) Providers() []oidc.Issuer {
	var out []oidc.Issuer
	for _, i := range c.Issuers {
		if i.PrincipalClaim == "email" && len(i.Scopes) == 0 {
			i.Scopes = []string{"email"}
		}
		out = append(out, oidc.Issuer{
			Name: i.Name, Label: i.Label, URL: i.Issuer, ClientID: i.ClientID, ClientSecret: string(i.ClientSecret),
			Audience: i.Audience, Scopes: i.Scopes,
			PrincipalClaim: i.PrincipalClaim, Prefix: i.Prefix, TenantID: i.Tenant, TenantClaim: i.TenantClaim,
			Tenants: i.Tenants, GroupsClaim: i.GroupsClaim,
		})
	}
	return out
}
