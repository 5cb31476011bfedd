package control

import (
	"context"
	"errors"
	"time"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// Guard ends a stream when its viewer loses the right to it. It checks the rights before every frame, when the policy
// changes, when the token expires, and at least every RightsConfig.CheckInterval (contract T178). One goroutine may use
// it.
type Guard struct {
	s *Rights
	P authz.Principal
	// May checks the current policy. It returns nil, a *Error, or ErrLook when the viewer may see other things than
	// before.
	May func() error
}

// GuardBy guards a stream by may, which returns nil, a *Error, or ErrLook when the viewer may see other things than
// before.
func (s *Rights) GuardBy(p authz.Principal, may func() error) Guard {
	return Guard{s: s, P: p, May: may}
}

// GuardRun guards a stream of one run.
func (s *Rights) GuardRun(p authz.Principal, id run.Identity) Guard {
	o := ObjectOf(id)
	return Guard{s: s, P: p, May: func() error {
		d, err := s.Authz.Decide(p, authz.Read, o)
		if err != nil {
			return Translate(err)
		}
		if !d.Allowed {
			return s.DenialError(p, authz.Read, o, d)
		}
		return nil
	}}
}

// ErrLook means that rights may have changed, so that the stream must check them again.
var ErrLook = errors.New("control: the rights must be checked again")

// Check returns the *Error that ends the stream, ErrLook, or nil.
func (g *Guard) Check() error {
	if !g.P.ExpiresAt.IsZero() && !g.s.Now().Before(g.P.ExpiresAt) {
		return Refuse(run.CodeTokenExpired, "The token has expired. Sign in again and resume.")
	}
	return g.May()
}

// Wait calls next until it returns, and checks the rights in between. It returns the success of next only if the viewer
// still has the rights afterwards, so that nothing is sent under a right that is gone.
func (g *Guard) Wait(ctx context.Context, next func(context.Context) error) error {
	for {
		changed := g.s.Authz.Changed()
		err := g.Check()
		if err == nil {
			if err = g.until(ctx, changed, next); err == nil {
				err = g.Check()
			}
		}
		if !errors.Is(err, ErrLook) {
			return g.EndError(ctx, err)
		}
	}
}

// EndError returns the error that the viewer gets when err ends the stream. It audits the loss of a right.
func (g *Guard) EndError(ctx context.Context, err error) error {
	var own *Error
	if errors.As(err, &own) && own.Code == run.CodeForbidden {
		g.s.AuditDenied(ctx, g.P, store.AuditRow{Action: string(authz.Read), Code: own.Code})
	}
	return Translate(err)
}

// Due returns the latest time of the next check of the rights.
func (g *Guard) Due() time.Time {
	due := g.s.Now().Add(g.s.checkInterval)
	if ends := g.s.Authz.Until(g.P); !ends.IsZero() && ends.Before(due) {
		return ends
	}
	return due
}

// until runs next under a context that is cancelled with ErrLook when rights may have changed.
func (g *Guard) until(ctx context.Context, changed <-chan struct{}, next func(context.Context) error) error {
	wait := g.Due().Sub(g.s.Now())
	inner, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	timer := time.AfterFunc(wait, func() { cancel(ErrLook) })
	defer timer.Stop()
	go func() {
		select {
		case <-changed:
			cancel(ErrLook)
		case <-inner.Done():
		}
	}()
	err := next(inner)
	if err != nil && ctx.Err() == nil && errors.Is(context.Cause(inner), ErrLook) {
		return ErrLook
	}
	return err
}

// GuardTenant guards a stream about the tenant of p. The stream ends with FORBIDDEN when p may read no run of the
// tenant.
func (s *Rights) GuardTenant(p authz.Principal) Guard {
	return Guard{s: s, P: p, May: func() error {
		if _, ok := s.Narrow(p, store.RunFilter{}); !ok {
			return s.NothingToReadError(p)
		}
		return nil
	}}
}
