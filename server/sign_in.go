package server

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"path"
	"strings"
	"unicode"

	"github.com/dvt-engine/dvt/server/config"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/authz/oidc"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/graph"
	"github.com/dvt-engine/dvt/run"
)

// Paths of sign-in.
const (
	loginPath    = "/auth/login"
	callbackPath = "/auth/callback"
	logoutPath   = "/auth/logout"
	methodsPath  = "/auth/methods"
	// signInPage is the page of the UI that offers the ways to sign in.
	signInPage = "/signin"
)

// attemptCookie holds a sign-in that has begun. It is SameSite=Lax, because the provider sends the browser back from
// another site. The session cookie is Strict. The page after the callback loads without it, because its document is the
// same for everybody and its own requests come from this site.
const attemptCookie = "dvt_sign_in"

// attemptName returns the name of the attempt cookie. With https it has the prefix __Host-, so that no other host of
// the same domain can set it. Such a host could otherwise sign a person in to an account of its own.
func (p *parts) attemptName() string {
	if p.usesHTTPS() {
		return "__Host-" + attemptCookie
	}
	return attemptCookie
}

// attemptPath returns the path of the attempt cookie.
func (p *parts) attemptPath() string {
	if p.usesHTTPS() {
		return "/" // the prefix __Host- requires it
	}
	return callbackPath
}

// newProviders returns the OIDC providers of the settings.
func newProviders(cfg config.Config, log *slog.Logger) *oidc.Providers {
	c := oidc.Config{Issuers: cfg.Providers(), Skew: cfg.ClockSkew, Key: []byte(cfg.SignInKey), Now: cfg.Now, Logger: log}
	if cfg.SignsIn() {
		c.Callback = cfg.PublicURL + callbackPath
	}
	if len(c.Key) == 0 { // only on loopback, where the same server begins and completes each sign-in
		c.Key = []byte(rand.Text() + rand.Text())
	}
	return oidc.New(c)
}

// identify returns the principal of a token or, with session, of a browser session. A JWT may need a key that is
// fetched from its issuer, and a session that another server created is read from the store. The error wraps
// authz.ErrUnauthenticated, authz.ErrExpired or authz.ErrUnavailable.
func (p *parts) identify(ctx context.Context, token string, session bool) (authz.Principal, error) {
	who, err := p.identifyToken(ctx, token, session)
	if entry := accessOf(ctx); entry != nil && err == nil {
		entry.setPrincipal(who)
	}
	return who, err
}

func (p *parts) identifyToken(ctx context.Context, token string, session bool) (authz.Principal, error) {
	switch {
	case len(token) > oidc.MaxToken:
		return authz.Principal{}, authz.ErrUnauthenticated
	case session && p.dev != nil:
		name, err := p.dev.access.principalOf(token, p.cfg.Now())
		if err != nil {
			return authz.Principal{}, err
		}
		return p.devPrincipal(name)
	case session:
		return p.control.Session(ctx, token)
	}
	who, err := p.authz.Authenticate(token)
	if errors.Is(err, authz.ErrUnauthenticated) && oidc.Looks(token) {
		if who, err = p.providers.Authenticate(ctx, token); err == nil {
			who.Grants = p.authz.Grants(who)
		} else if !errors.Is(err, authz.ErrUnavailable) {
			p.log.DebugContext(ctx, "a JWT was refused", slog.Any("error", err))
		}
	}
	return who, err
}

// signInRoutes adds the routes under /auth. `dvt dev` has only the list of methods, because it signs in by links.
func (p *parts) signInRoutes(mux *http.ServeMux) {
	mux.HandleFunc("GET "+methodsPath, p.methods)
	if p.dev != nil {
		return
	}
	mux.HandleFunc("GET "+loginPath, p.login)
	mux.HandleFunc("GET "+callbackPath, p.callback)
	mux.HandleFunc("POST "+logoutPath, p.logout)
}

// methods serves the list of ways to sign in, without a token.
func (p *parts) methods(w http.ResponseWriter, _ *http.Request) {
	type method struct {
		Kind  string `json:"kind"`
		Name  string `json:"name"`
		Label string `json:"label"`
		URL   string `json:"url"`
	}
	out := struct {
		Methods []method `json:"methods"`
		DevLink bool     `json:"devLink,omitempty"` // a browser signs in by the link of `dvt dev link`
	}{Methods: []method{}, DevLink: p.dev != nil}
	for _, m := range p.providers.Methods() {
		out.Methods = append(out.Methods, method{"OIDC", m.Name, m.Label, loginPath + "?" +
			url.Values{"provider": {m.Name}}.Encode()})
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	_ = json.NewEncoder(w).Encode(out)
}

// login redirects the browser to a provider, or to the sign-in page with a reason when the provider is unavailable.
func (p *parts) login(w http.ResponseWriter, r *http.Request) {
	to := localPath(r.URL.Query().Get("to"))
	address, cookie, err := p.providers.Begin(r.Context(), r.URL.Query().Get("provider"), to)
	switch {
	case errors.Is(err, oidc.ErrUnknown):
		http.Error(w, "this server has no OIDC provider of this name", http.StatusNotFound)
		return
	case err != nil:
		p.log.WarnContext(r.Context(), "a sign-in could not begin: check that this server reaches the OIDC provider", slog.Any("error", err))
		leave(w, refusalPage("unavailable", to))
		return
	}
	http.SetCookie(w, p.cookie(p.attemptName(), cookie, p.attemptPath(), http.SameSiteLaxMode,
		int(oidc.AttemptLife.Seconds())))
	leave(w, address)
}

// callback completes a sign-in. It sets the session cookie, or redirects to the sign-in page with a reason.
func (p *parts) callback(w http.ResponseWriter, r *http.Request) {
	cookie := ""
	if c, err := r.Cookie(p.attemptName()); err == nil {
		cookie = c.Value
	}
	http.SetCookie(w, p.cookie(p.attemptName(), "", p.attemptPath(), http.SameSiteLaxMode, -1))
	who, provider, to, err := p.providers.Finish(r.Context(), cookie, r.URL.Query())
	if err != nil {
		p.log.InfoContext(r.Context(), "a sign-in was refused", slog.String("provider", provider), slog.Any("error", err))
		if errors.Is(err, authz.ErrUnavailable) {
			leave(w, refusalPage("unavailable", to))
			return
		}
		p.authFailed(graph.FailedSignIn)
		if tenant := p.tenantOf(provider); tenant != "" {
			p.control.AuditRefusedSignIn(r.Context(), tenant, provider, p.address(r), strings.TrimPrefix(err.Error(),
				authz.ErrUnauthenticated.Error()+": "))
		}
		leave(w, refusalPage("refused", to))
		return
	}
	who.Address, who.Via = p.address(r), authz.ViaSignIn
	made, err := p.control.SignIn(r.Context(), who)
	if e, ok := errors.AsType[*control.Error](err); ok && e.Code == run.CodeForbidden {
		p.authFailed(graph.FailedSignIn)
		leave(w, refusalPage("no-rights", to))
		return
	}
	if err != nil {
		p.log.WarnContext(r.Context(), "the session of a sign-in could not be created; the person must sign in again", slog.Any("error", err))
		leave(w, refusalPage("unavailable", to))
		return
	}
	life := made.Token.ExpiresAt.Sub(p.now())
	http.SetCookie(w, p.cookie(p.sessionName(), made.Secret, "/", http.SameSiteStrictMode, int(life.Seconds())))
	leave(w, localPath(to))
}

// tenantOf returns the tenant whose audit records a refused sign-in. It is "" when the tokens of the provider name
// the tenant, and when the provider is unknown and there are several.
func (p *parts) tenantOf(provider string) string {
	if provider == "" && len(p.cfg.Issuers) == 1 {
		return p.cfg.Issuers[0].Tenant
	}
	for _, i := range p.cfg.Issuers {
		if i.Name == provider {
			return i.Tenant
		}
	}
	return ""
}

// logout ends the browser's session and deletes its cookie. Without a session it only deletes the cookie.
func (p *parts) logout(w http.ResponseWriter, r *http.Request) {
	if !p.callers.OwnOrigin(r) {
		http.Error(w, "sign out from a page of this server: the Origin is missing or not allowed", http.StatusForbidden)
		return
	}
	if who, err := p.callers.Caller(r); err == nil {
		err = p.control.SignOut(r.Context(), who)
		if err != nil {
			p.log.WarnContext(r.Context(), "a session could not be ended at its sign-out", slog.Any("error", err))
			http.Error(w, "the session could not be ended: try again", http.StatusServiceUnavailable)
			return
		}
	}
	http.SetCookie(w, p.cookie(p.sessionName(), "", "/", http.SameSiteStrictMode, -1))
	w.WriteHeader(http.StatusNoContent)
}

// leave redirects the browser, without a Referer that would reveal parameters of this request.
func leave(w http.ResponseWriter, address string) {
	h := w.Header()
	h.Set("Location", address)
	h.Set("Cache-Control", "no-store")
	h.Set("Referrer-Policy", "no-referrer")
	w.WriteHeader(http.StatusSeeOther)
}

// refusalPage returns the address of the sign-in page that shows a reason and then leads to a page.
func refusalPage(reason, to string) string {
	return signInPage + "?" + url.Values{"reason": {reason}, "to": {localPath(to)}}.Encode()
}

const maxReturnPath = 2000 // bytes

// localPath returns to when it is a page of this server, and / otherwise, so that a sign-in cannot redirect to another
// site. Browsers read \ as / and ignore control characters.
func localPath(to string) string {
	u, err := url.Parse(to)
	if err != nil || len(to) > maxReturnPath || !strings.HasPrefix(to, "/") || u.Scheme != "" || u.Host != "" ||
		u.User != nil ||
		strings.HasPrefix(path.Clean(u.Path), "/auth/") || strings.HasPrefix(to, "//") ||
		strings.ContainsFunc(to, func(r rune) bool { return r == '\\' || unicode.IsControl(r) || unicode.IsSpace(r) }) {
		return "/"
	}
	return to
}
