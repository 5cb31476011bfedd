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

// Callers knows who sends requests. It is safe for concurrent use.
type Callers struct{ settings Config }

// NewCallers takes what concerns callers out of cfg.
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

// Kinds of failed authentication, as the metric dvt_auth_failures_total names them.
const (
	FailedMissing     = "missing"     // no credential came
	FailedToken       = "token"       // an unknown token, or a JWT that is not good
	FailedSession     = "session"     // a session that has ended or never was
	FailedExpired     = "expired"     // a token or session after its time
	FailedThrottled   = "throttled"   // too many wrong ones came from the address
	FailedUnavailable = "unavailable" // nobody could check it
	FailedWorker      = "worker"      // of a worker
	FailedSignIn      = "sign_in"     // a provider refused it, or it has no rights here
)

// FailedKinds lists every kind.
func FailedKinds() []string {
	return []string{FailedMissing, FailedToken, FailedSession, FailedExpired, FailedThrottled, FailedUnavailable,
		FailedWorker, FailedSignIn}
}

// credential is what a request shows of its caller. Tokens in addresses are not
// looked at: they end up in logs.
type credential struct {
	token   string
	session bool // from a cookie, which a foreign page can make a browser send
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

// authenticate words a failure for the caller.
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
		c.settings.Throttle.Done(shown.address, shown.token, err == nil)
	}
	switch {
	case err == nil:
		p.Address, p.Via = shown.address, shown.via
		return p, nil
	case errors.Is(err, authz.ErrExpired):
		c.settings.Failed(FailedExpired)
		return p, refuse(run.CodeTokenExpired, expired(shown.session))
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

func expired(session bool) string {
	if session {
		return "This session has expired. Sign in again."
	}
	return "This token has expired. Get a new one."
}

// Caller is who sends a request that is not for the API, with the same limits and the same words: an
// error is a *control.Error.
func (c *Callers) Caller(r *http.Request) (authz.Principal, error) {
	return c.authenticate(r.Context(), c.credential(r))
}

const connectTimeout = 10 * time.Second

// connect identifies who opened a socket: by the payload of connection_init, the
// Authorization header of the upgrade, or a session whose page is one of ours.
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
	// the request has ended with the upgrade
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

// OwnOrigin reports whether a page of ours sent the request.
func (c *Callers) OwnOrigin(r *http.Request) bool {
	origin := r.Header.Get("Origin")
	if slices.Contains(c.settings.AllowedOrigins, origin) {
		return origin != ""
	}
	u, err := url.Parse(origin)
	if err != nil || u.Host == "" || !strings.EqualFold(u.Host, r.Host) {
		return false
	}
	// The page of a host that came by http may have been written by anybody on the way, so it is not ours where we are
	// reached by https.
	if c.settings.Secure {
		return u.Scheme == "https"
	}
	return u.Scheme == "http" || u.Scheme == "https" && r.TLS != nil
}

func refuse(code run.Code, message string) *control.Error {
	return &control.Error{Code: code, Message: message}
}
