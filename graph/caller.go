package graph

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/graph/ws"
	"github.com/dvt-engine/dvt/run"
)

// Callers authenticates requests. It is safe for concurrent use.
type Callers struct{ settings Config }

// NewCallers uses the fields of cfg that concern callers: Authenticate or Identify, Throttle, Failed, Address, Session,
// AllowedOrigins and Secure. It fills in defaults for nil functions.
func NewCallers(cfg Config) *Callers {
	if cfg.Identify == nil {
		cfg.Identify = func(_ context.Context, token string, _ bool) (authz.Principal,
			error) {
			return cfg.Authenticate(token)
		}
	}
	if cfg.Session == nil {
		cfg.Session = func(*http.Request) (string, bool) { return "", false }
	}
	if cfg.Address == nil {
		cfg.Address = func(r *http.Request) string {
			host, _, _ := net.SplitHostPort(r.RemoteAddr)
			return host
		}
	}
	if cfg.Failed == nil {
		cfg.Failed = func(string) {}
	}
	return &Callers{cfg}
}

// The kinds of failed authentication are the values of the label of the metric dvt_auth_failures_total.
const (
	FailedMissing     = "missing"     // the request has no credential
	FailedToken       = "token"       // unknown token or invalid JWT
	FailedSession     = "session"     // unknown or ended session
	FailedExpired     = "expired"     // expired token or session
	FailedThrottled   = "throttled"   // too many wrong tokens from the address
	FailedUnavailable = "unavailable" // the issuer or the store could not be reached
	FailedWorker      = "worker"      // a worker's credential
	FailedSignIn      = "sign_in"     // the provider refused, or the account has no rights here
)

// FailureKinds returns every kind, so that a metric can start each at zero.
func FailureKinds() []string {
	return []string{FailedMissing, FailedToken, FailedSession, FailedExpired, FailedThrottled, FailedUnavailable,
		FailedWorker, FailedSignIn}
}

// credential is the token or session of a request. Tokens in the URL are ignored, because URLs end up in logs.
type credential struct {
	token   string
	session bool // from a cookie, so a foreign page can make a browser send it
	address string
	via     string
}

func (c *Callers) credential(r *http.Request) credential {
	if token := authz.Bearer(r.Header.Get("Authorization")); token != "" {
		return credential{token: token, address: c.settings.Address(r), via: authz.ViaHTTP}
	}
	token, ok := c.settings.Session(r)
	return credential{token: token, session: ok, address: c.settings.Address(r), via: authz.ViaHTTP}
}

// authenticate returns the principal of a credential. Its error is a *control.Error: UNAUTHENTICATED, TOKEN_EXPIRED,
// UNAVAILABLE, or AUTH_RATE_LIMITED for a throttled address. It counts each failure by its kind.
func (c *Callers) authenticate(ctx context.Context, shown credential) (authz.Principal, error) {
	if shown.token == "" {
		c.settings.Failed(FailedMissing)
		return authz.Principal{}, refuse(run.CodeUnauthenticated, "Send a token: Authorization: Bearer TOKEN.")
	}
	if wait := c.settings.Throttle.Wait(shown.address, shown.token); wait > 0 {
		c.settings.Failed(FailedThrottled)
		e := refuse(run.CodeAuthRate, "Too many wrong tokens came from your address. Try again later.")
		e.RetryAfter = wait
		return authz.Principal{}, e
	}
	p, err := c.settings.Identify(ctx, shown.token, shown.session)
	if err == nil || errors.Is(err, authz.ErrUnauthenticated) {
		c.settings.Throttle.RecordResult(shown.address, shown.token, err == nil)
	}
	switch {
	case err == nil:
		p.Address, p.Via = shown.address, shown.via
		return p, nil
	case errors.Is(err, authz.ErrExpired):
		c.settings.Failed(FailedExpired)
		return p, refuse(run.CodeTokenExpired, expiredMessage(shown.session))
	case errors.Is(err, authz.ErrUnavailable):
		c.settings.Failed(FailedUnavailable)
		e := refuse(run.CodeUnavailable, "Tokens cannot be checked just now. Try again.")
		e.RetryAfter = 2 * time.Second
		return p, e
	}
	if shown.session {
		c.settings.Failed(FailedSession)
		return p, refuse(run.CodeUnauthenticated, "This session has ended. Sign in again.")
	}
	c.settings.Failed(FailedToken)
	return p, refuse(run.CodeUnauthenticated, "This token is not known here.")
}

func expiredMessage(session bool) string {
	if session {
		return "This session has expired. Sign in again."
	}
	return "This token has expired. Get a new one."
}

// Caller authenticates a request to a path other than the API, with the same limits and messages as the API. The error
// is a *control.Error.
func (c *Callers) Caller(r *http.Request) (authz.Principal, error) {
	return c.authenticate(r.Context(), c.credential(r))
}

const connectTimeout = 10 * time.Second

// connect authenticates a new socket with the payload of connection_init, else with the Authorization header of the
// upgrade, else with a session if the page has our origin. The peer authenticates again for each operation, so that a
// revoked token loses an open socket.
func (h *Handler) connect(r *http.Request, init map[string]any) (ws.Peer, error) {
	c := h.credential(r)
	c.via = authz.ViaWebSocket
	for key, value := range init {
		if s, ok := value.(string); ok && strings.EqualFold(key, "Authorization") {
			c = credential{token: authz.Bearer(s), address: c.address, via: c.via}
		}
	}
	if c.session && !h.OwnOrigin(r) {
		return ws.Peer{}, fmt.Errorf("%w: a session from a foreign origin", ws.ErrUnauthenticated)
	}
	// The context of the request ends with the upgrade, but connection_init comes later.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), connectTimeout)
	defer cancel()
	p, err := h.authenticate(ctx, c)
	if e, ok := errors.AsType[*control.Error](err); ok && e.Code != run.CodeUnavailable && e.Code != run.CodeAuthRate {
		return ws.Peer{}, fmt.Errorf("%w: %w", ws.ErrUnauthenticated, err)
	}
	if err != nil {
		return ws.Peer{}, err
	}
	return ws.Peer{Key: peerKey(p), Attach: func(ctx context.Context) (context.Context, error) {
		now, err := h.authenticate(ctx, c)
		if err != nil {
			return nil, err
		}
		return withPrincipal(ctx, now), nil
	}}, nil
}

func peerKey(p authz.Principal) string { return p.TenantID + "/" + p.ID }

// OwnOrigin reports whether the Origin header names this server or one of AllowedOrigins.
func (c *Callers) OwnOrigin(r *http.Request) bool {
	origin := r.Header.Get("Origin")
	if slices.Contains(c.settings.AllowedOrigins, origin) {
		return origin != ""
	}
	u, err := url.Parse(origin)
	if err != nil || u.Host == "" || !strings.EqualFold(u.Host, r.Host) {
		return false
	}
	// Anybody on the network path can forge a page of our host that is loaded over http. So an http origin is foreign when
	// the server is reached over https.
	if c.settings.Secure {
		return u.Scheme == "https"
	}
	return u.Scheme == "http" || u.Scheme == "https" && r.TLS != nil
}

func refuse(code run.Code, message string) *control.Error {
	return &control.Error{Code: code, Message: message}
}

type principalKey struct{}

// withPrincipal passes the caller from the transport to the resolvers in the context, because gqlgen passes nothing
// else. Resolvers take it out and pass it on as a parameter.
func withPrincipal(ctx context.Context, p authz.Principal) context.Context {
	return context.WithValue(ctx, principalKey{}, p)
}

// principal returns the caller. The handler rejects requests without one. Without a principal in ctx it returns the
// zero Principal, which has no tenant and no rights.
func principal(ctx context.Context) authz.Principal {
	p, _ := ctx.Value(principalKey{}).(authz.Principal)
	return p
}
