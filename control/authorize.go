package control

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// visible reads a run that p may read. Another tenant's run is audited in the
// caller's tenant and answers like none (T101).
func (s *Service) visible(ctx context.Context, p authz.Principal, runID string) (store.Run, error) {
	r, err := s.cfg.Store.Get(ctx, runID)
	if err != nil {
		return store.Run{}, translate(err)
	}
	if r.TenantID != p.TenantID {
		s.audit(ctx, store.AuditRow{TenantID: p.TenantID, Actor: p.ID, Action: "READ", Outcome: "DENIED", Code: run.CodeNotFound})
		return store.Run{}, runNotFound()
	}
	if d, err := s.cfg.Authz.Decide(p, authz.Read, objectOf(r.Identity)); err != nil {
		return store.Run{}, translate(err)
	} else if !d.Allowed {
		return store.Run{}, runNotFound()
	}
	return r, nil
}

// denied explains a FORBIDDEN.
func (s *Service) denied(a authz.Action, o authz.Object, d authz.Decision) *Error {
	return &Error{
		Code:    run.CodeForbidden,
		Message: fmt.Sprintf("%s needs the role %s on %s/%s.", a, d.RequiredRole, o.ProjectID, o.EnvironmentID),
		Denial:  &Denial{Action: a, Rule: d.Rule, WhoCould: s.cfg.Authz.WhoCould(a, o)},
	}
}

// audit writes rows beside a decision that changed nothing else. A store that
// refuses them does not change the answer; it is logged.
func (s *Service) audit(ctx context.Context, rows ...store.AuditRow) {
	for i := range rows {
		rows[i].ID = uuid.NewString()
	}
	if err := s.cfg.Store.Audit(ctx, rows...); err != nil {
		s.cfg.Logger.WarnContext(ctx, "audit row not written", "error", err)
	}
}

// denialLimiter says how many denials of a principal may reach a run's log: each
// one wakes every viewer of the run (T102). It remembers at most maxDenied
// principals; a stranger past that is limited at once.
type denialLimiter struct {
	perMinute int
	now       func() time.Time
	mu        sync.Mutex
	windows   map[string]denialWindow
}

type denialWindow struct {
	began time.Time
	n     int
}

const maxDenied = 4096

func newDenialLimiter(perMinute int, now func() time.Time) *denialLimiter {
	return &denialLimiter{perMinute: perMinute, now: now, windows: map[string]denialWindow{}}
}

func (l *denialLimiter) allow(principal string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	w, known := l.windows[principal]
	if !known && len(l.windows) >= maxDenied {
		for p, w := range l.windows {
			if now.Sub(w.began) >= time.Minute {
				delete(l.windows, p)
			}
		}
		if len(l.windows) >= maxDenied {
			return false
		}
	}
	if now.Sub(w.began) >= time.Minute {
		w = denialWindow{began: now}
	}
	w.n++
	l.windows[principal] = w
	return w.n <= l.perMinute
}
