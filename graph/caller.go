package graph

import (
	"context"
	"errors"
	"fmt"
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

// credential is what a request shows of its caller. Tokens in addresses are not
// looked at: they end up in logs.
type credential struct {
	token   string
	session bool // from a cookie, which a foreign page can make a browser send
	address string
}

func (h *Handler) credential(r *http.Request) credential {
	if token := bearer(r.Header.Get("Authorization")); token != "" {
		return credential{token: token, address: h.cfg.Address(r)}
	}
	token, ok := h.cfg.Session(r)
	return credential{token: token, session: ok, address: h.cfg.Address(r)}
}

func bearer(header string) string {
	scheme, token, _ := strings.Cut(header, " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimSpace(token)
}

// authenticate words a failure for the caller.
func (h *Handler) authenticate(c credential) (authz.Principal, error) {
	if c.token == "" {
		return authz.Principal{}, refuse(run.CodeUnauthenticated, "Send a token: Authorization: Bearer TOKEN.")
	}
	if wait := h.cfg.Throttle.Wait(c.address, c.token); wait > 0 {
		e := refuse(run.CodeAuthRate, "Too many wrong tokens came from your address. Try again later.")
		e.RetryAfter = wait
		return authz.Principal{}, e
	}
	p, err := h.cfg.Authenticate(c.token)
	if err == nil || errors.Is(err, authz.ErrUnauthenticated) {
		h.cfg.Throttle.Done(c.address, c.token, err == nil)
	}
	switch {
	case err == nil:
		return p, nil
	case errors.Is(err, authz.ErrExpired):
		return p, refuse(run.CodeTokenExpired, "This token has expired. Get a new one.")
	case errors.Is(err, authz.ErrUnavailable):
		e := refuse(run.CodeUnavailable, "Tokens cannot be checked just now. Try again.")
		e.RetryAfter = 2 * time.Second
		return p, e
	}
	return p, refuse(run.CodeUnauthenticated, "This token is not known here.")
}

// connect identifies who opened a socket: by the payload of connection_init, the
// Authorization header of the upgrade, or a session whose page is one of ours.
func (h *Handler) connect(r *http.Request, init map[string]any) (ws.Peer, error) {
	c := h.credential(r)
	for key, value := range init {
		if s, ok := value.(string); ok && strings.EqualFold(key, "Authorization") {
			c = credential{token: bearer(s), address: c.address}
		}
	}
	if c.session && !h.ownOrigin(r) {
		return ws.Peer{}, fmt.Errorf("%w: a session from a foreign origin", ws.ErrUnauthenticated)
	}
	p, err := h.authenticate(c)
	if e, ok := errors.AsType[*control.Error](err); ok && e.Code != run.CodeUnavailable && e.Code != run.CodeAuthRate {
		return ws.Peer{}, fmt.Errorf("%w: %w", ws.ErrUnauthenticated, err)
	}
	if err != nil {
		return ws.Peer{}, err
	}
	return ws.Peer{Key: peerKey(p), Attach: func(ctx context.Context) (context.Context, error) {
		now, err := h.authenticate(c)
		if err != nil {
			return nil, err
		}
		return withPrincipal(ctx, now), nil
	}}, nil
}

func peerKey(p authz.Principal) string { return p.TenantID + "/" + p.ID }

// ownOrigin reports whether a page of ours sent the request.
func (h *Handler) ownOrigin(r *http.Request) bool {
	origin := r.Header.Get("Origin")
	if slices.Contains(h.cfg.AllowedOrigins, origin) {
		return origin != ""
	}
	u, err := url.Parse(origin)
	return err == nil && u.Host != "" && strings.EqualFold(u.Host, r.Host)
}

func refuse(code run.Code, message string) *control.Error {
	return &control.Error{Code: code, Message: message}
}
