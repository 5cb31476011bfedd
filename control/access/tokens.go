package access

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// TokenStore reads and writes tokens and sessions.
type TokenStore interface {
	Tokens(ctx context.Context, f store.TokenFilter) ([]store.StoredToken, error)
	PutToken(ctx context.Context, t store.StoredToken, audit store.AuditRow) (store.StoredToken, bool, error)
	RevokeToken(ctx context.Context, tenantID string, id string, by string, audit store.AuditRow) (store.StoredToken,
		bool, error)
}

// TokenIssuer makes, lists and revokes API tokens. It is safe for concurrent use.
type TokenIssuer struct {
	rights *control.Rights
	store  TokenStore
	loader *Loader
}

// NewTokenIssuer makes a TokenIssuer.
func NewTokenIssuer(rights *control.Rights, store TokenStore, loader *Loader) *TokenIssuer {
	return &TokenIssuer{rights: rights, store: store, loader: loader}
}

// Token is an API token without its secret, which is not stored.
type Token struct {
	store.StoredToken
	Grants []authz.Grant
}

// CreateToken asks for an API token. Without a Service its principal is the caller.
type CreateToken struct {
	RequestID string
	Name      string
	Service   string // makes service/NAME the principal; the policy gives it rights
	Grants    []authz.Grant
	ExpiresAt time.Time // zero means in 90 days
}

// CreatedToken is a token with its secret, which only the first answer contains.
type CreatedToken struct {
	Token  Token
	Secret string // "" when this answer repeats an earlier one
}

// RevokeToken asks to end a token permanently.
type RevokeToken struct{ RequestID, ID, Reason string }

// TokensQuery asks for a page of tokens of the caller's tenant, newest first.
type TokensQuery struct {
	All   bool // tokens of all principals, not only the caller's own
	Live  bool // only tokens that can be used
	First int
	After string // id of the token before the page
}

// TokensPage is a page of tokens, newest first.
type TokensPage struct {
	Tokens  []Token
	HasNext bool
}

// Limits of tokens (contract O6).
const (
	tokenLife      = 90 * 24 * time.Hour
	maxTokenLife   = 366 * 24 * time.Hour
	maxTokenName   = 100
	maxTokenGrants = 20
	maxTokens      = 50 // usable tokens of one principal
)

// CreateToken makes an API token. Its grants give at most the caller's rights now, and never more than its principal
// has when the token is used. The token works in this process at once and everywhere within 2 s. Only this answer
// contains the secret; a repeated request returns the token without it. A token cannot make a token. Errors: FORBIDDEN,
// BAD_USER_INPUT, REQUEST_ID_CONFLICT.
func (s *TokenIssuer) CreateToken(ctx context.Context, p authz.Principal, in CreateToken) (CreatedToken, error) {
	row := store.AuditRow{Action: string(authz.CreateToken), RequestID: in.RequestID, Reason: "token " +
		control.Clip(in.Name)}
	if in.ExpiresAt.IsZero() {
		in.ExpiresAt = s.rights.Now().Add(tokenLife)
	}
	if vs := s.checkToken(in); len(vs) > 0 {
		return CreatedToken{}, s.rights.AuditRefused(ctx, p, row, control.BadInput(vs))
	}
	if err := s.mayCreate(ctx, p, in, row); err != nil {
		return CreatedToken{}, err
	}
	t := store.StoredToken{
		TenantID: p.TenantID, Name: in.Name, Principal: p.ID, Provider: p.Provider, Groups: p.Groups, CreatedBy: p.ID,
		ExpiresAt: in.ExpiresAt.UTC(),
	}
	if in.Service != "" {
		t.Principal, t.Provider, t.Groups = authz.ServiceID(in.Service), "", nil
	}
	own, err := s.store.Tokens(ctx, store.TokenFilter{TenantID: p.TenantID, Principal: t.Principal,
		Kind: store.TokenAPI, Live: true, Limit: maxTokens})
	if err != nil {
		return CreatedToken{}, control.Translate(err)
	}
	t.ID = uuid.NewSHA1(uuid.NameSpaceURL, fmt.Appendf(nil, "dvt:token/%q/%q/%q", p.TenantID, p.ID,
		in.RequestID)).String()
	if len(own) == maxTokens && !hasToken(own, t.ID) {
		e := control.BadInput([]plan.Violation{
			{Path: "name", Code: "RANGE", Message: fmt.Sprintf("%s has %d tokens already: revoke one", t.Principal,
				maxTokens)}})
		return CreatedToken{}, s.rights.AuditRefused(ctx, p, row, e)
	}
	return s.putToken(ctx, p, t, in.Grants, row)
}

func hasToken(list []store.StoredToken, id string) bool {
	for _, t := range list {
		if t.ID == id {
			return true
		}
	}
	return false
}

func (s *TokenIssuer) putToken(ctx context.Context, p authz.Principal, t store.StoredToken, grants []authz.Grant,
	row store.AuditRow) (CreatedToken, error) {
	var secret string
	secret, t.SHA256 = authz.NewSecret()
	t.Prefix = authz.SecretPrefix(secret)
	var err error
	if t.Grants, err = json.Marshal(grants); err != nil {
		return CreatedToken{}, control.Translate(err)
	}
	version := s.rights.Authz.PolicyVersion(p.TenantID)
	detail, err := json.Marshal(map[string]any{"policyVersion": version, "tokenId": t.ID, "principal": t.Principal,
		"grants": grants, "expiresAt": t.ExpiresAt})
	if err != nil {
		return CreatedToken{}, control.Translate(err)
	}
	s.rights.Stamp(p, &row, "ACCEPTED", string(detail))
	stored, made, err := s.store.PutToken(ctx, t, row)
	if err != nil {
		return CreatedToken{}, control.Translate(err)
	}
	if !made && (stored.Name != t.Name || stored.Principal != t.Principal) {
		return CreatedToken{}, control.Refuse(run.CodeRequestConflict, "This requestId was used for the token %q.",
			stored.Name)
	}
	if !made {
		secret = ""
	}
	out, err := tokenView(stored)
	if err != nil {
		return CreatedToken{}, err
	}
	if err := s.loader.LoadPolicy(ctx); err != nil && made {
		s.rights.Log.WarnContext(ctx, "a token was made but is not in force here yet", slog.Any("error", err))
	}
	return CreatedToken{Token: out, Secret: secret}, nil // the secret must reach its owner whatever else fails
}

func (s *TokenIssuer) checkToken(in CreateToken) []plan.Violation {
	vs := control.CheckID(nil, "requestId", in.RequestID)
	bad := func(path, code, format string, args ...any) {
		vs = append(vs, plan.Violation{Path: path, Code: code, Message: fmt.Sprintf(format, args...)})
	}
	if in.Name == "" || len(in.Name) > maxTokenName {
		bad("name", "INVALID", "must have 1 to %d bytes", maxTokenName)
	}
	if !run.IsText(in.Name) || strings.ContainsAny(in.Name, "\t\n") {
		bad("name", "INVALID", "must be one line of UTF-8 without control characters")
	}
	if in.Service != "" {
		vs = control.CheckID(vs, "service", in.Service)
	}
	if n := len(in.Grants); n < 1 || n > maxTokenGrants {
		bad("grants", "RANGE", "must be 1 to %d", maxTokenGrants)
		return vs
	}
	for i, g := range in.Grants {
		if g.ProjectID == "" || g.EnvironmentID == "" {
			bad(fmt.Sprintf("grants[%d]", i), "INVALID", "projectId and environmentId must not be empty; use * for all")
		}
	}
	if life := in.ExpiresAt.Sub(s.rights.Now()); life <= 0 || life > maxTokenLife {
		bad("expiresAt", "RANGE", "must be in the future, at most a year away")
	}
	return vs
}

// mayCreate checks the policy, and that the grants do not exceed the caller's own rights.
func (s *TokenIssuer) mayCreate(ctx context.Context, p authz.Principal, in CreateToken, row store.AuditRow) error {
	action, at := authz.CreateToken, make([]authz.Object, 0, len(in.Grants))
	for _, g := range in.Grants {
		at = append(at, authz.Object{TenantID: p.TenantID, ProjectID: g.ProjectID, EnvironmentID: g.EnvironmentID})
	}
	if in.Service != "" {
		action, at = authz.ManageTokens, []authz.Object{{TenantID: p.TenantID, ProjectID: "*", EnvironmentID: "*"}}
	}
	row.Code = run.CodeForbidden
	if p.TokenID != "" {
		s.rights.AuditDenied(ctx, p, row)
		e := control.Refuse(run.CodeForbidden, "A token cannot make a token. Sign in as yourself.")
		e.Denial = &control.Denial{Action: action}
		return e
	}
	for _, o := range at {
		d, err := s.rights.Authz.Decide(p, action, o)
		if err != nil {
			return control.Translate(err)
		}
		if !d.Allowed {
			s.rights.AuditDenied(ctx, p, row)
			return s.rights.DenialError(p, action, o, d)
		}
	}
	may, err := s.rights.Authz.MayGive(p, in.Grants)
	if err != nil {
		return control.Translate(err)
	}
	if !may {
		s.rights.AuditDenied(ctx, p, row)
		e := control.Refuse(run.CodeForbidden,
			"A token can have at most the rights of its creator; some of these grants give more "+
				"rights than yours.")
		e.Denial = &control.Denial{Action: action}
		return e
	}
	return nil
}

// RevokedToken is a token that was revoked. First is false when it was revoked before, so that nothing changed.
type RevokedToken struct {
	Token
	First bool
}

// RevokeToken ends a token with its streams: in this process before it returns, everywhere within 2 s. Callers may
// revoke their own tokens, and those of others with MANAGE_TOKENS. It is safe to repeat. Errors: BAD_USER_INPUT,
// NOT_FOUND for every other token.
func (s *TokenIssuer) RevokeToken(ctx context.Context, p authz.Principal, in RevokeToken) (RevokedToken, error) {
	if vs := control.CheckReason(control.CheckID(nil, "requestId", in.RequestID), in.Reason); len(vs) > 0 {
		return RevokedToken{}, control.BadInput(vs)
	}
	row := store.AuditRow{Action: control.ActionRevokeToken, RequestID: in.RequestID, Reason: in.Reason}
	found, err := s.store.Tokens(ctx, store.TokenFilter{TenantID: p.TenantID, ID: in.ID, Limit: 1})
	if err != nil {
		return RevokedToken{}, control.Translate(err)
	}
	tenant := authz.Object{TenantID: p.TenantID, ProjectID: "*", EnvironmentID: "*"}
	d, err := s.rights.Authz.Decide(p, authz.ManageTokens, tenant)
	if err != nil {
		return RevokedToken{}, control.Translate(err)
	}
	if in.ID == "" || len(found) == 0 || found[0].Principal != p.ID && !d.Allowed {
		row.Code = run.CodeNotFound
		s.rights.AuditDenied(ctx, p, row)
		return RevokedToken{}, control.Refuse(run.CodeNotFound, "There is no such token, or it is not yours.")
	}
	version := s.rights.Authz.PolicyVersion(p.TenantID)
	detail, err := json.Marshal(map[string]any{"policyVersion": version, "tokenId": found[0].ID, "name": found[0].Name})
	if err != nil {
		return RevokedToken{}, control.Translate(err)
	}
	s.rights.Stamp(p, &row, "ACCEPTED", string(detail))
	gone, first, err := s.store.RevokeToken(ctx, p.TenantID, in.ID, p.ID, row)
	if err != nil {
		return RevokedToken{}, control.Translate(err)
	}
	out, err := tokenView(gone)
	if err != nil {
		return RevokedToken{}, err
	}
	return RevokedToken{Token: out, First: first}, s.loader.InForce(ctx)
}

// Tokens lists the caller's own tokens, or with MANAGE_TOKENS and All those of everybody, newest first. Errors:
// FORBIDDEN, BAD_USER_INPUT, CURSOR_INVALID.
func (s *TokenIssuer) Tokens(ctx context.Context, p authz.Principal, q TokensQuery) (TokensPage, error) {
	n, err := control.PageSize(q.First, 50)
	if err != nil {
		return TokensPage{}, err
	}
	f := store.TokenFilter{TenantID: p.TenantID, Principal: p.ID, Live: q.Live, Before: q.After, Limit: n + 1}
	if q.All {
		if err := s.rights.MayOperate(ctx, p, store.AuditRow{Action: string(authz.ManageTokens)}); err != nil {
			return TokensPage{}, err
		}
		f.Principal = ""
	}
	if q.After != "" { // the cursor must be a token of this list
		at, err := s.store.Tokens(ctx, store.TokenFilter{TenantID: f.TenantID, Principal: f.Principal, Kind: f.Kind,
			ID: q.After, Limit: 1})
		switch {
		case err != nil:
			return TokensPage{}, control.Translate(err)
		case len(at) == 0:
			return TokensPage{}, control.CursorInvalid()
		}
	}
	rows, err := s.store.Tokens(ctx, f)
	if err != nil {
		return TokensPage{}, control.Translate(err)
	}
	list, more, err := control.PageOf(rows, n, tokenView)
	return TokensPage{Tokens: list, HasNext: more}, err
}

func tokenView(t store.StoredToken) (Token, error) {
	out := Token{StoredToken: t}
	out.SHA256 = ""
	if err := json.Unmarshal(t.Grants, &out.Grants); err != nil {
		return out, control.Translate(fmt.Errorf("control: grants of token %s: %w", t.ID, err))
	}
	return out, nil
}
