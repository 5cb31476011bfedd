// Package access has the use cases about rights: the policies of tenants, API tokens, sessions of browsers,
// break-glass, and the reads that tell principals about their own rights. Loader puts the stored policies and tokens in
// force in this process.
package access

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"log/slog"
	"sync"
	"time"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// AuthorityStore reads the policies, tokens and settings of all tenants.
type AuthorityStore interface {
	Authority(ctx context.Context, expiredAfter time.Time) (store.StoredAuthority, error)
	AuthorityVersion(ctx context.Context) (int64, error)
	MarkTokensUsed(ctx context.Context, at time.Time, ids ...string) error
}

// SettingsReader takes the settings of tenants and of the installation, the newest version of each.
type SettingsReader interface {
	LoadSettings(ctx context.Context, settings []store.StoredSetting)
}

// Loader puts the stored policies, tokens and settings in force in this process. It is safe for concurrent use.
type Loader struct {
	rights  *control.Rights
	store   AuthorityStore
	readers []SettingsReader
	mu      sync.Mutex
}

// NewLoader makes a Loader.
func NewLoader(rights *control.Rights, store AuthorityStore, readers ...SettingsReader) *Loader {
	return &Loader{rights: rights, store: store, readers: readers}
}

// InForce puts a change that was just written in force in this process. UNAVAILABLE means that the change is stored but
// not in force here yet.
func (s *Loader) InForce(ctx context.Context) error {
	if err := s.LoadPolicy(ctx); err != nil {
		e := control.Refuse(run.CodeUnavailable,
			"The change is stored, but this server could not put it in force yet. It does "+
				"within seconds of the store's answer; repeat the request to be sure.")
		e.RetryAfter, e.Cause = 2*time.Second, err
		return e
	}
	return nil
}

const (
	// policyEvery is the interval at which a process checks for changed policies and tokens, so that a change is in
	// force everywhere within 2 s.
	policyEvery   = time.Second
	policyTimeout = 5 * time.Second
	// expiredKept is how long the answer for an expired token is that it expired, rather than that it is unknown.
	expiredKept = 7 * 24 * time.Hour
)

// LoadPolicy reads all policies, tokens and settings from the store and puts them in force in this process.
func (s *Loader) LoadPolicy(ctx context.Context) error {
	s.mu.Lock() // one at a time, so that no older read comes after a newer one
	defer s.mu.Unlock()
	stored, err := s.store.Authority(ctx, s.rights.Now().Add(-expiredKept))
	if err != nil {
		return control.Translate(err)
	}
	in := authz.Stored{Version: stored.Version}
	for _, p := range stored.Policies {
		doc := &authz.Document{}
		if err := json.Unmarshal(p.Doc, doc); err != nil {
			s.rights.Log.ErrorContext(ctx, "the policy of a tenant cannot be read; nothing is decided for it",
				slog.String("tenantId", p.TenantID), slog.Int64("version", p.Version), slog.Any("error", err))
			doc = nil
		}
		in.Policies = append(in.Policies, authz.StoredPolicy{TenantID: p.TenantID, Version: p.Version, Document: doc})
	}
	for _, t := range stored.Tokens {
		token, err := tokenOf(t)
		if err != nil {
			s.rights.Log.ErrorContext(ctx, "an API token cannot be read; this server does not accept it",
				slog.String("id", t.ID), slog.Any("error", err))
			continue
		}
		in.Tokens = append(in.Tokens, token)
	}
	for _, r := range s.readers {
		r.LoadSettings(ctx, stored.Settings)
	}
	return control.Translate(s.rights.Authz.Load(in))
}

// tokenOf decodes a stored token.
func tokenOf(t store.StoredToken) (authz.Token, error) {
	out := authz.Token{
		ID: t.ID, TenantID: t.TenantID, Name: t.Name, Principal: t.Principal, CreatedAt: t.CreatedAt, ExpiresAt: t.ExpiresAt,
		Session: t.Kind == store.TokenSession, Provider: t.Provider, Groups: t.Groups,
	}
	if t.LastUsedAt != nil {
		out.LastUsedAt = *t.LastUsedAt
	}
	if err := json.Unmarshal(t.Grants, &out.Grants); err != nil {
		return out, err
	}
	_, err := hex.Decode(out.SHA256[:], []byte(t.SHA256))
	return out, err
}

// FollowPolicy keeps the policies and tokens of this process up to date until ctx ends. When the store does not answer,
// the last ones that were read stay in force for 5 minutes (contract T202).
func (s *Loader) FollowPolicy(ctx context.Context) error {
	tick := time.NewTicker(policyEvery)
	defer tick.Stop()
	failing := false
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		err := s.followPolicy(ctx)
		if ctx.Err() != nil {
			return nil // the process is shutting down
		}
		if (err != nil) != failing {
			failing = err != nil
			if failing {
				s.rights.Log.WarnContext(ctx, "policies cannot be read; the last ones hold for some minutes",
					slog.Any("error", err))
			} else {
				s.rights.Log.InfoContext(ctx, "policies can be read again")
			}
		}
	}
}

func (s *Loader) followPolicy(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, policyTimeout)
	defer cancel()
	version, err := s.store.AuthorityVersion(ctx)
	if err != nil {
		return err
	}
	if version == s.rights.Authz.Source() {
		s.rights.Authz.Confirm()
	} else if err := s.LoadPolicy(ctx); err != nil {
		return err
	}
	if used := s.rights.Authz.TakeUsed(); len(used) > 0 {
		return s.store.MarkTokensUsed(ctx, s.rights.Now(), used...)
	}
	return nil
}
