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

// attemptCookie holds a sign-in under way. The provider sends the browser back from another
// site, so it is Lax; the session's is Strict, and the page that the callback leads to needs none:
// it is the same for everybody, and what it asks for itself comes from this site.
const attemptCookie = "dvt_sign_in"

// attemptName and attemptPath are those of the cookie. By https the name keeps other hosts of the same domain from
// setting one: they could else sign somebody in as themselves.
func (p *parts) attemptName() string {
	if p.secure() {
		return "__Host-" + attemptCookie
	}
	return attemptCookie
}

func (p *parts) attemptPath() string {
	if p.secure() {
		return "/" // the prefix of the name asks for it
	}
	return callbackPath
}

// newProviders are the OIDC providers of the settings.
func newProviders(cfg config.Config, log *slog.Logger) *oidc.Providers {
	c := oidc.Config{Issuers: cfg.Providers(), Skew: cfg.ClockSkew, Key: []byte(cfg.SignInKey), Now: cfg.Now, Logger: log}
	if cfg.SignsIn() {
		c.Callback = cfg.PublicURL + callbackPath
	}
	if len(c.Key) == 0 { // on loopback: a sign-in ends on the server that it began on
		c.Key = []byte(rand.Text() + rand.Text())
	}
	return oidc.New(c)
}

// identify is who shows a token or a session (O6). An account or an API token is looked up, a JWT
// may need a key of its issuer, a session of another server the store.
func (p *parts) identify(ctx context.Context, token string, session bool) (authz.Principal, error) {
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

// signInRoutes are the routes under /auth.
func (p *parts) signInRoutes(mux *http.ServeMux) {
	mux.HandleFunc("GET "+methodsPath, p.methods)
	if p.dev != nil {
		return
	}
	mux.HandleFunc("GET "+loginPath, p.login)
	mux.HandleFunc("GET "+callbackPath, p.callback)
	mux.HandleFunc("POST "+logoutPath, p.logout)
}

// methods says what ways there are to sign in; everybody may ask.
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

// login sends the browser to a provider.
func (p *parts) login(w http.ResponseWriter, r *http.Request) {
	to := localPath(r.URL.Query().Get("to"))
	address, cookie, err := p.providers.Begin(r.Context(), r.URL.Query().Get("provider"), to)
	switch {
	case errors.Is(err, oidc.ErrUnknown):
		http.Error(w, "there is no such way to sign in", http.StatusNotFound)
		return
	case err != nil:
		p.log.WarnContext(r.Context(), "a sign-in did not begin", slog.Any("error", err))
		leave(w, notSignedIn("unavailable", to))
		return
	}
	http.SetCookie(w, p.cookie(p.attemptName(), cookie, p.attemptPath(), http.SameSiteLaxMode,
		int(oidc.AttemptLife.Seconds())))
	leave(w, address)
}

// callback ends what login began, with a session or a reason.
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
			leave(w, notSignedIn("unavailable", to))
			return
		}
		p.authFailed(graph.FailedSignIn)
		if tenant := p.tenantOf(provider); tenant != "" {
			p.control.SignInRefused(r.Context(), tenant, provider, p.address(r), strings.TrimPrefix(err.Error(),
				authz.ErrUnauthenticated.Error()+": "))
		}
		leave(w, notSignedIn("refused", to))
		return
	}
	who.Address, who.Via = p.address(r), authz.ViaSignIn
	made, err := p.control.SignIn(r.Context(), who)
	if e, ok := errors.AsType[*control.Error](err); ok && e.Code == run.CodeForbidden {
		p.authFailed(graph.FailedSignIn)
		leave(w, notSignedIn("no-rights", to))
		return
	}
	if err != nil {
		p.log.WarnContext(r.Context(), "a session was not made", slog.Any("error", err))
		leave(w, notSignedIn("unavailable", to))
		return
	}
	life := made.Token.ExpiresAt.Sub(p.cfg.Now())
	http.SetCookie(w, p.cookie(p.sessionName(), made.Secret, "/", http.SameSiteStrictMode, int(life.Seconds())))
	leave(w, localPath(to))
}

// tenantOf is whose sign-in it is that a provider refuses: "" when its tokens say it, or when it is
// not known and there are several.
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

// logout ends the browser's session. Without one there is nothing to end.
func (p *parts) logout(w http.ResponseWriter, r *http.Request) {
	if !p.callers.OwnOrigin(r) {
		http.Error(w, "sign out from a page of this server: the Origin is missing or not allowed", http.StatusForbidden)
		return
	}
	if who, err := p.callers.Caller(r); err == nil {
		err = p.control.SignOut(r.Context(), who)
		if err != nil {
			p.log.WarnContext(r.Context(), "a session was not ended", slog.Any("error", err))
			http.Error(w, "the session could not be ended just now: try again", http.StatusServiceUnavailable)
			return
		}
	}
	http.SetCookie(w, p.cookie(p.sessionName(), "", "/", http.SameSiteStrictMode, -1))
	w.WriteHeader(http.StatusNoContent)
}

// leave sends the browser elsewhere, which learns nothing of where it was.
func leave(w http.ResponseWriter, address string) {
	h := w.Header()
	h.Set("Location", address)
	h.Set("Cache-Control", "no-store")
	h.Set("Referrer-Policy", "no-referrer")
	w.WriteHeader(http.StatusSeeOther)
}

// notSignedIn is the sign-in page with a reason.
func notSignedIn(reason, to string) string {
	return signInPage + "?" + url.Values{"reason": {reason}, "to": {localPath(to)}}.Encode()
}

const maxReturnPath = 2000 // bytes

// localPath is a page of this server, / for everything else: nobody is led elsewhere by signing in
// here. Browsers read \ as / and leave out control characters.
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
