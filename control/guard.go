package control

import (
	"context"
	"errors"
	"time"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/run"
)

// guard holds a stream to its viewer's rights: before every frame, when the
// policy changes, when the token expires, and at least every Recheck (T178).
type guard struct {
	s      *Service
	p      authz.Principal
	object authz.Object
}

var errLook = errors.New("control: look at the rights again")

// check returns a *Error that ends the stream, or nil.
func (g *guard) check() error {
	if !g.p.ExpiresAt.IsZero() && !g.s.cfg.Now().Before(g.p.ExpiresAt) {
		return refuse(run.CodeTokenExpired, "The token has expired. Sign in again and resume.")
	}
	d, err := g.s.cfg.Authz.Decide(g.p, authz.Read, g.object)
	if err != nil {
		return translate(err)
	}
	if !d.Allowed {
		return g.s.denied(authz.Read, g.object, d)
	}
	return nil
}

// wait calls next until it returns, looking at the rights in between. What next
// returned is given out only if they still hold.
func (g *guard) wait(ctx context.Context, next func(context.Context) error) error {
	for {
		changed := g.s.cfg.Authz.Changed()
		if err := g.check(); err != nil {
			return err
		}
		err := g.until(ctx, changed, next)
		if errors.Is(err, errLook) {
			continue
		}
		if err != nil {
			return translate(err)
		}
		return g.check()
	}
}

// until runs next under a context that ends with errLook when rights may have changed.
func (g *guard) until(ctx context.Context, changed <-chan struct{}, next func(context.Context) error) error {
	wait := g.s.cfg.Recheck
	if !g.p.ExpiresAt.IsZero() {
		wait = max(0, min(wait, g.p.ExpiresAt.Sub(g.s.cfg.Now())))
	}
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
