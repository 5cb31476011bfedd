package admission

import (
	"context"
	"reflect"
	"time"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control"
)

// ServiceState is the state of dvt for one tenant, as the banner of the UI shows it.
type ServiceState struct {
	Mode         EngineMode
	ModeReason   string
	ModeSince    time.Time // zero when nobody set the mode
	Frozen       bool
	FrozenReason string
	FrozenSince  time.Time
	// Degraded means that this server refuses new runs because the engine starts them too slowly.
	Degraded   bool
	RetryAfter time.Duration // while Degraded
	ActiveRuns *int64        // of the whole installation, for its operators; nil for others
	// ShareHours is the life of a link that shows a status without sign-in; 0 when the tenant does not permit them.
	ShareHours int
	// Recovery is what dvt does about runs of the tenant that hang.
	Recovery RecoveryMode
}

// ServiceState reads the state for the tenant of p. Error: FORBIDDEN when p may read no run of its tenant.
func (s *ModeEditor) ServiceState(ctx context.Context, p authz.Principal) (ServiceState, error) {
	g := s.rights.GuardTenant(p)
	if err := g.Check(); err != nil {
		return ServiceState{}, g.EndError(ctx, err)
	}
	return s.serviceState(ctx, p)
}

// serviceState returns the state. It does I/O only for operators.
func (s *ModeEditor) serviceState(ctx context.Context, p authz.Principal) (ServiceState, error) {
	now := s.modes.State.Current()
	out := ServiceState{Mode: now.Mode, ModeReason: now.reason, ModeSince: now.since,
		ShareHours: now.share[p.TenantID].Hours, Recovery: s.modes.Recovery(p.TenantID)}
	if why, frozen := now.Frozen[p.TenantID]; frozen {
		out.Frozen, out.FrozenReason, out.FrozenSince = true, why.reason, why.since
	}
	out.RetryAfter, out.Degraded = s.modes.Breaker.refuses()
	if ok, err := s.rights.CanSetMode(p); err != nil || !ok {
		return out, control.Translate(err)
	}
	if n, err := s.store.ActiveRuns(ctx); err == nil { // without the number the rest is still useful
		out.ActiveRuns = &n
	}
	return out, nil
}

// activeEvery is the interval at which the active runs are counted for an operator who watches a drain.
const activeEvery = 2 * time.Second

// WatchService returns a stream of the current state and then of each change. Error: FORBIDDEN as for ServiceState.
func (s *ModeEditor) WatchService(ctx context.Context, p authz.Principal) (control.Stream[ServiceState], error) {
	w := &serviceStream{s: s, guard: s.rights.GuardTenant(p)}
	if err := w.guard.Check(); err != nil {
		return nil, w.guard.EndError(ctx, err)
	}
	return w, nil
}

type serviceStream struct {
	s     *ModeEditor
	guard control.Guard
	shown *ServiceState
}

func (w *serviceStream) Next(ctx context.Context) (out ServiceState, err error) {
	err = w.guard.Wait(ctx, func(ctx context.Context) (err error) {
		out, err = w.next(ctx)
		return err
	})
	if err == nil {
		w.shown = &out
	}
	return out, err
}

func (w *serviceStream) next(ctx context.Context) (ServiceState, error) {
	s := w.s
	for {
		moved := s.modes.State.moved()
		now, err := s.serviceState(ctx, w.guard.P)
		if ctx.Err() != nil {
			return ServiceState{}, ctx.Err()
		}
		if err != nil {
			return ServiceState{}, err
		}
		if now.ActiveRuns == nil && w.shown != nil {
			now.ActiveRuns = w.shown.ActiveRuns // keep the last number while counting fails
		}
		if w.shown == nil || !sameState(now, *w.shown) {
			return now, nil
		}
		if err := w.pause(ctx, moved, now); err != nil {
			return ServiceState{}, err
		}
	}
}

// sameState compares two states without RetryAfter, which changes with the clock.
func sameState(a, b ServiceState) bool {
	a.RetryAfter, b.RetryAfter = 0, 0
	return reflect.DeepEqual(a, b)
}

// pause waits until the state may have changed.
func (w *serviceStream) pause(ctx context.Context, moved <-chan struct{}, now ServiceState) error {
	var count <-chan time.Time
	if now.Mode != ModeNormal && now.ActiveRuns != nil {
		timer := time.NewTimer(activeEvery)
		defer timer.Stop()
		count = timer.C
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-moved:
	case <-count:
	}
	return nil
}

// Close implements control.Stream.
func (w *serviceStream) Close() {}
