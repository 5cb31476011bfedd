package control

import (
	"context"
	"errors"
	"time"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// guard holds a stream to its viewer's rights: before every frame, when the
// policy changes, when the token expires, and at least every Recheck (T178).
type guard struct {
	s *Rights
	p authz.Principal
	// what the policy says now: nil, a *Error, or errLook when the viewer may see something else than before
	may func() error
}

// guardBy guards a stream by may, which returns nil, a *Error, or errLook when the viewer may see other things than
// before.
func (s *Rights) guardBy(p authz.Principal, may func() error) guard {
	return guard{s: s, p: p, may: may}
}

// guardRun guards a stream of one run.
func (s *Rights) guardRun(p authz.Principal, id run.Identity) guard {
	o := objectOf(id)
	return guard{s: s, p: p, may: func() error {
		d, err := s.authz.Decide(p, authz.Read, o)
		if err != nil {
			return translate(err)
		}
		if !d.Allowed {
			return s.denialError(p, authz.Read, o, d)
		}
		return nil
	}}
}

var errLook = errors.New("control: look at the rights again")

// check returns a *Error that ends the stream, errLook, or nil.
func (g *guard) check() error {
	if !g.p.ExpiresAt.IsZero() && !g.s.now().Before(g.p.ExpiresAt) {
		return refuse(run.CodeTokenExpired, "The token has expired. Sign in again and resume.")
	}
	return g.may()
}

// wait calls next until it returns, looking at the rights in between. What next
// returned is given out only if they still hold.
func (g *guard) wait(ctx context.Context, next func(context.Context) error) error {
	for {
		changed := g.s.authz.Changed()
		err := g.check()
		if err == nil {
			if err = g.until(ctx, changed, next); err == nil {
				err = g.check()
			}
		}
		if !errors.Is(err, errLook) {
			return g.endError(ctx, err)
		}
	}
}

// endError is what the viewer is told when err ends the stream; a lost right is audited.
func (g *guard) endError(ctx context.Context, err error) error {
	var own *Error
	if errors.As(err, &own) && own.Code == run.CodeForbidden {
		g.s.auditDenied(ctx, g.p, store.AuditRow{Action: string(authz.Read), Code: own.Code})
	}
	return translate(err)
}

// due is when the rights are to be looked at again at the latest.
func (g *guard) due() time.Time {
	due := g.s.now().Add(g.s.recheck)
	if ends := g.s.authz.Until(g.p); !ends.IsZero() && ends.Before(due) {
		return ends
	}
	return due
}

// until runs next under a context that ends with errLook when rights may have changed.
func (g *guard) until(ctx context.Context, changed <-chan struct{}, next func(context.Context) error) error {
	wait := g.due().Sub(g.s.now())
	inner, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	timer := time.AfterFunc(wait, func() { cancel(errLook) })
	defer timer.Stop()
	go func() {
		select {
		case <-changed:
			cancel(errLook)
		case <-inner.Done():
		}
	}()
	err := next(inner)
	if err != nil && ctx.Err() == nil && errors.Is(context.Cause(inner), errLook) {
		return errLook
	}
	return err
}

// guardTenant guards a stream about the tenant of p.
func (s *Rights) guardTenant(p authz.Principal) guard {
	return guard{s: s, p: p, may: func() error {
		if _, ok := s.narrow(p, store.RunFilter{}); !ok {
			return s.nothingToReadError(p)
		}
		return nil
	}}
}
