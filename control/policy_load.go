package control

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"log/slog"
	"time"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/store"
)

const (
	// policyEvery is how often a process asks whether policies or tokens have changed, so
	// that a change is in force everywhere within 2 s.
	policyEvery   = time.Second
	policyTimeout = 5 * time.Second
	// expiredKept is how long an expired token is told that it expired, not that it is unknown.
	expiredKept = 7 * 24 * time.Hour
)

// LoadPolicy puts what the store has of policies, tokens and settings in force here.
func (s *Service) LoadPolicy(ctx context.Context) error {
	s.authority.Lock() // one at a time, so that no older read comes after a newer one
	defer s.authority.Unlock()
	stored, err := s.cfg.Store.Authority(ctx, s.cfg.Now().Add(-expiredKept))
	if err != nil {
		return translate(err)
	}
	in := authz.Stored{Version: stored.Version}
	for _, p := range stored.Policies {
		doc := &authz.Document{}
		if err := json.Unmarshal(p.Doc, doc); err != nil {
			s.cfg.Logger.ErrorContext(ctx, "the policy of a tenant cannot be read; nothing is decided for it",
				slog.String("tenant", p.TenantID), slog.Int64("version", p.Version), slog.Any("error", err))
			doc = nil
		}
		in.Policies = append(in.Policies, authz.StoredPolicy{TenantID: p.TenantID, Version: p.Version, Document: doc})
	}
	for _, t := range stored.Tokens {
		token, err := tokenOf(t)
		if err != nil {
			s.cfg.Logger.ErrorContext(ctx, "an API token cannot be read; it is not known here", slog.String("id", t.ID),
				slog.Any("error", err))
			continue
		}
		in.Tokens = append(in.Tokens, token)
	}
	s.rule(stored.Settings)
	s.loadQuotas(ctx, stored.Settings)
	return translate(s.cfg.Authz.Load(in))
}

// tokenOf reads a stored token.
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

// FollowPolicy keeps this process at the store's policies and tokens until ctx ends. A
// store that does not answer leaves the last good ones in force for 5 minutes (T202).
func (s *Service) FollowPolicy(ctx context.Context) error {
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
			return nil // it was told to end
		}
		if (err != nil) != failing {
			failing = err != nil
			if failing {
				s.cfg.Logger.WarnContext(ctx, "policies cannot be read; the last ones hold for some minutes",
					slog.Any("error", err))
			} else {
				s.cfg.Logger.InfoContext(ctx, "policies can be read again")
			}
		}
	}
}

func (s *Service) followPolicy(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, policyTimeout)
	defer cancel()
	version, err := s.cfg.Store.AuthorityVersion(ctx)
	if err != nil {
		return err
	}
	if version == s.cfg.Authz.Source() {
		s.cfg.Authz.Confirm()
	} else if err := s.LoadPolicy(ctx); err != nil {
		return err
	}
	if used := s.cfg.Authz.TakeUsed(); len(used) > 0 {
		return s.cfg.Store.TokensUsed(ctx, s.cfg.Now(), used...)
	}
	return nil
}
