package access

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/google/uuid"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// SessionStore reads and ends sessions.
type SessionStore interface {
	Tokens(ctx context.Context, f store.TokenFilter) ([]store.StoredToken, error)
	RevokeToken(ctx context.Context, tenantID string, id string, by string, audit store.AuditRow) (store.StoredToken,
		bool, error)
	AuthorityVersion(ctx context.Context) (int64, error)
}

// SignIns makes, finds and ends the sessions of browsers. It is safe for concurrent use.
type SignIns struct {
	rights   *control.Rights
	store    SessionStore
	tokens   *TokenIssuer
	loader   *Loader
	settings Sessions
	lookups  sessionLookups
}

// NewSignIns makes SignIns.
func NewSignIns(rights *control.Rights, store SessionStore, tokens *TokenIssuer, loader *Loader,
	settings Sessions) *SignIns {
	return &SignIns{rights: rights, store: store, tokens: tokens, loader: loader, settings: settings,
		lookups: sessionLookups{slots: make(chan struct{}, maxSessionReads)}}
}

// Sessions sets how long browsers stay signed in.
type Sessions struct {
	Life time.Duration // from the sign-in; 0 means 12 h
	Idle time.Duration // maximum time without a request, to a tenth of it; 0 sets no limit. Open streams go on.
}

// sessionLookups bounds the reads of the store for sessions.
type sessionLookups struct {
	slots   chan struct{} // limits concurrent reads of the last use of sessions
	catchUp control.Flight
}

const (
	sessionLife = 12 * time.Hour
	// maxSessions bounds the sessions of one principal. Another sign-in ends the oldest.
	maxSessions = 20
	// maxSessionReads bounds the concurrent reads of the last use of sessions.
	maxSessionReads = 4
)

// SignIn makes a session for a principal that a provider has just authenticated. Only the answer contains its secret,
// for the browser's cookie. Every server accepts the session at once. Error: FORBIDDEN for a principal without any
// grant. Sign-ins and refusals are audited.
func (s *SignIns) SignIn(ctx context.Context, p authz.Principal) (CreatedToken, error) {
	row := store.AuditRow{Action: control.ActionSignIn, Reason: "by " + p.Provider}
	if len(s.rights.Authz.Grants(p)) == 0 {
		row.Code = run.CodeForbidden
		s.rights.AuditDenied(ctx, p, row)
		return CreatedToken{}, control.Refuse(run.CodeForbidden, "%s has no rights here.", p.ID)
	}
	if err := s.endOldest(ctx, p); err != nil {
		return CreatedToken{}, err
	}
	life := s.settings.Life
	if life == 0 {
		life = sessionLife
	}
	t := store.StoredToken{
		ID: uuid.NewString(), Kind: store.TokenSession, TenantID: p.TenantID, Name: "browser", Principal: p.ID,
		Provider: p.Provider, Groups: p.Groups,
		CreatedBy: p.ID, ExpiresAt: s.rights.Now().Add(life).UTC(),
	}
	return s.tokens.putToken(ctx, p, t, []authz.Grant{}, row)
}

// endOldest ends the oldest sessions of p, so that there is room for one more.
func (s *SignIns) endOldest(ctx context.Context, p authz.Principal) error {
	open, err := s.store.Tokens(ctx, store.TokenFilter{TenantID: p.TenantID, Principal: p.ID, Kind: store.TokenSession,
		Live: true, Limit: store.MaxPage})
	if err != nil {
		return control.Translate(err)
	}
	for _, t := range open[min(len(open), maxSessions-1):] {
		if err := s.endSession(ctx, p, t.ID, "the oldest session above the limit"); err != nil {
			return err
		}
	}
	return nil
}

func (s *SignIns) endSession(ctx context.Context, p authz.Principal, id, reason string) error {
	row := store.AuditRow{Action: control.ActionSignOut, Reason: reason}
	s.rights.Stamp(p, &row, "ACCEPTED", fmt.Sprintf(`{"policyVersion":%d,"tokenId":%q}`,
		s.rights.Authz.PolicyVersion(p.TenantID),
		id))
	_, _, err := s.store.RevokeToken(ctx, p.TenantID, id, p.ID, row)
	return control.Translate(err)
}

// SignOut ends the session that p used, with its streams: in this process before it returns, everywhere within 2 s. It
// does nothing without a session. It is safe to repeat.
func (s *SignIns) SignOut(ctx context.Context, p authz.Principal) error {
	if p.SessionID == "" {
		return nil
	}
	if err := s.endSession(ctx, p, p.SessionID, ""); err != nil {
		return err
	}
	return s.loader.InForce(ctx)
}

// AuditRefusedSignIn audits a failed sign-in at a provider of one tenant, of a user that is not known. Failures within
// a minute share one row; the next row says how many it stands for.
func (s *SignIns) AuditRefusedSignIn(ctx context.Context, tenantID, provider, address, reason string) {
	s.rights.AuditDenied(ctx, authz.Principal{ID: control.Anonymous, TenantID: tenantID, Provider: provider,
		Address: address,
		Via:     authz.ViaSignIn}, store.AuditRow{
		Action: control.ActionSignIn, Code: run.CodeUnauthenticated, Reason: control.Clip("by " + provider + ": " + reason),
	})
}

// Session returns the principal of a browser's session by the secret in its cookie. Errors: authz.ErrUnauthenticated,
// authz.ErrExpired, authz.ErrUnavailable. It reads the store for a session that this process does not know, or that may
// have been used on another server. Callers with unknown sessions share one read, so that a flood of invented sessions
// costs one read at a time and new sessions still get in.
func (s *SignIns) Session(ctx context.Context, secret string) (authz.Principal, error) {
	if !authz.LooksLikeSecret(secret) {
		return authz.Principal{}, authz.ErrUnauthenticated
	}
	p, err := s.rights.Authz.Session(secret, s.settings.Idle)
	if errors.Is(err, authz.ErrUnauthenticated) {
		if err := s.catchUpForSession(ctx); err != nil {
			return authz.Principal{}, err
		}
		p, err = s.rights.Authz.Session(secret, s.settings.Idle)
	}
	if !errors.Is(err, authz.ErrIdle) {
		return p, err
	}
	if err := s.forSession(ctx, func(ctx context.Context) error { return s.lastUse(ctx, p) }); err != nil {
		return authz.Principal{}, err
	}
	if p, err = s.rights.Authz.Session(secret, s.settings.Idle); errors.Is(err, authz.ErrIdle) {
		return authz.Principal{}, authz.ErrExpired
	}
	return p, err
}

// forSession calls read when one of maxSessionReads slots is free. It returns authz.ErrUnavailable when the store or a
// slot is not available in time.
func (s *SignIns) forSession(ctx context.Context, read func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, policyTimeout)
	defer cancel()
	select {
	case s.lookups.slots <- struct{}{}:
		defer func() { <-s.lookups.slots }()
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", authz.ErrUnavailable, ctx.Err())
	}
	err := read(ctx)
	if err != nil && !errors.Is(err, authz.ErrUnauthenticated) {
		s.rights.Log.WarnContext(ctx, "the lookup of a session failed", slog.Any("error", err))
		return fmt.Errorf("%w: %w", authz.ErrUnavailable, err)
	}
	return err
}

// catchUpForSession puts the current contents of the store in force. Concurrent callers share a read. It returns
// authz.ErrUnavailable when the store does not answer.
func (s *SignIns) catchUpForSession(ctx context.Context) error {
	err := s.lookups.catchUp.Do(ctx, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, policyTimeout)
		defer cancel()
		err := s.catchUp(ctx)
		if err != nil {
			s.rights.Log.WarnContext(ctx, "the lookup of a session failed", slog.Any("error", err))
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("%w: %w", authz.ErrUnavailable, err)
	}
	return nil
}

// catchUp puts the current policies and tokens of the store in force.
func (s *SignIns) catchUp(ctx context.Context) error {
	version, err := s.store.AuthorityVersion(ctx)
	if err != nil || version == s.rights.Authz.Source() {
		return err
	}
	return s.loader.LoadPolicy(ctx)
}

// lastUse reads the time of the last use of a session on any server.
func (s *SignIns) lastUse(ctx context.Context, p authz.Principal) error {
	found, err := s.store.Tokens(ctx, store.TokenFilter{TenantID: p.TenantID, ID: p.SessionID, Live: true, Limit: 1})
	if err != nil {
		return err
	}
	if len(found) == 0 {
		return authz.ErrUnauthenticated
	}
	if at := found[0].LastUsedAt; at != nil {
		s.rights.Authz.RecordUse(p.SessionID, *at)
	}
	return nil
}
