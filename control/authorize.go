package control

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// visible reads a run that p may read. One that does not exist, one of another
// tenant and one without a grant answer alike and leave the same trace in the
// caller's tenant, so that neither words nor audit nor time tell them apart (T101).
func (s *Service) visible(ctx context.Context, p authz.Principal, action authz.Action, runID string) (store.Run,
	error) {
	r, err := s.cfg.Store.Get(ctx, runID)
	if err := s.seenBy(ctx, p, action, r.Identity, runID, err); err != nil {
		return store.Run{}, err
	}
	return r, nil
}

// seenBy judges what came of reading whose a run is.
func (s *Service) seenBy(ctx context.Context, p authz.Principal, action authz.Action, id run.Identity, runID string,
	err error) error {
	if err == nil {
		var d authz.Decision
		if d, err = s.cfg.Authz.Decide(p, authz.Read, objectOf(id)); d.Allowed {
			return nil
		}
	}
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return translate(err)
	}
	s.auditDenied(ctx, p, store.AuditRow{Action: string(action), RunID: runID, Code: run.CodeNotFound})
	return runNotFound()
}

// denied explains a FORBIDDEN to p. Of a place that p may not read it says no more than that: which
// role it takes there, and who has it, is as hidden as what is in it.
func (s *Service) denied(p authz.Principal, a authz.Action, o authz.Object, d authz.Decision) *Error {
	e := refuse(run.CodeForbidden, "%s needs the role %s on %s/%s.", a, d.RequiredRole, o.ProjectID, o.EnvironmentID)
	e.Denial = &Denial{Action: a, PolicyVersion: d.Policy}
	if p.TokenID+p.SessionID != "" && len(s.cfg.Authz.Grants(p)) == 0 {
		e.Message = "What you came with gives no rights any more: the token or the session has ended or was revoked, or " +
			"its rights were taken away."
		return e
	}
	switch whole := o.ProjectID == "*" && o.EnvironmentID == "*"; {
	case !whole && !s.mayRead(p, o.ProjectID, o.EnvironmentID):
		e.Message = fmt.Sprintf("You may not %s on %s/%s.", a, o.ProjectID, o.EnvironmentID)
		return e
	case d.RequiredRole == "":
		e.Message = fmt.Sprintf("No role may %s on %s/%s.", a, o.ProjectID, o.EnvironmentID)
	}
	e.Denial.Rule, e.Denial.WhoCould = d.Rule, s.cfg.Authz.WhoCould(a, o)
	return e
}

// auditDenied records a denial that changed nothing else, in the caller's tenant:
// at most one row a minute for each action of a principal and its code; the next
// row says how many it stands for (T208). A store that refuses the row does not
// change the answer; that is logged.
func (s *Service) auditDenied(ctx context.Context, p authz.Principal, row store.AuditRow) {
	s.auditing.denied(row.Action)
	s.auditOften(ctx, p, row, "DENIED")
}

// auditRejected records as auditDenied does that something was refused for another reason
// than a right, and returns the refusal.
func (s *Service) auditRejected(ctx context.Context, p authz.Principal, row store.AuditRow, err error) error {
	if own := (*Error)(nil); errors.As(err, &own) {
		row.Code = own.Code
		s.auditOften(ctx, p, row, "REJECTED")
	}
	return err
}

// auditOften writes a row of something that may come in floods.
func (s *Service) auditOften(ctx context.Context, p authz.Principal, row store.AuditRow, outcome string) {
	key := p.TenantID + "/" + p.ID + "/" + row.Action + "/" + string(row.Code)
	w, known := s.trails.add(key)
	if known && w.n > 1 {
		return
	}
	repeated, version := max(w.before-1, 0), s.cfg.Authz.PolicyVersion(p.TenantID)
	switch {
	case version > 0:
		row.Detail = fmt.Appendf(nil, `{"policyVersion":%d,"repeatedBefore":%d}`, version, repeated)
	case repeated > 0:
		row.Detail = fmt.Appendf(nil, `{"repeatedBefore":%d}`, repeated)
	}
	if !idPattern.MatchString(row.RunID) {
		row.RunID = "" // whatever the caller wrote is no id
	}
	if !idPattern.MatchString(row.RequestID) {
		row.RequestID = ""
	}
	row.ID, row.Outcome = uuid.NewString(), outcome
	nameActor(p, &row)
	if err := s.cfg.Store.Audit(ctx, row); err != nil {
		s.trails.takeBack(key) // the next refusal of this minute tries to leave its row
		s.cfg.Logger.WarnContext(ctx, "audit row not written", slog.Any("error", err))
	}
}

// minutes counts what principals do, by key, within a minute from the first time.
// It remembers at most maxKeys.
type minutes struct {
	now   func() time.Time
	mu    sync.Mutex
	byKey map[string]minute
}

type minute struct {
	began  time.Time
	n      int // in this minute
	before int // in the minute before it, as far as it is remembered
}

const maxKeys = 16384

func newMinutes(now func() time.Time) *minutes { return &minutes{now: now, byKey: map[string]minute{}} }

// add counts one more. False: there is no room to remember the key.
func (m *minutes) add(key string) (minute, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.now()
	w, known := m.byKey[key]
	if !known && len(m.byKey) >= maxKeys {
		maps.DeleteFunc(m.byKey, func(_ string, w minute) bool { return now.Sub(w.began) >= time.Minute })
		if len(m.byKey) >= maxKeys {
			return w, false
		}
	}
	if now.Sub(w.began) >= time.Minute {
		w = minute{began: now, before: w.n}
	}
	w.n++
	m.byKey[key] = w
	return w, true
}

// takeBack uncounts one of a key: what it was counted for did not happen.
func (m *minutes) takeBack(key string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if w, known := m.byKey[key]; known && w.n > 0 {
		w.n--
		m.byKey[key] = w
	}
}

// refusalInLog reports whether one more denial of a principal may reach a run's
// log, as each one wakes every viewer of the run (T102), and if not how long to wait.
func (s *Service) refusalInLog(p authz.Principal) (bool, time.Duration) {
	w, known := s.denials.add(p.TenantID + "/" + p.ID)
	if known && w.n <= s.cfg.Limits.DenialsPerMinute {
		return true, 0
	}
	if !known {
		return false, time.Minute
	}
	return false, w.began.Add(time.Minute).Sub(s.cfg.Now())
}

// sameOne reports whether p must not complete a step because it wants another person than those who asked for the run
// and approved it. wanted is what the plan says of the step (O4, T87).
func (s *Service) sameOne(ctx context.Context, wanted bool, runID, triggeredBy string, p authz.Principal) (bool,
	error) {
	if triggeredBy == p.ID || !s.involved(wanted, true, p) {
		return s.involved(wanted, true, p), nil
	}
	at, err := s.approvalOf(ctx, runID)
	return s.involved(wanted, at != nil && approvedBy(*at, p), p), err
}

// involved is sameOne for a caller of whom it is known whether p asked for the run or approved it. A service counts as
// involved in every run: people would otherwise decide about their own runs by a token that they made.
func (s *Service) involved(wanted, did bool, p authz.Principal) bool {
	sod := s.cfg.Authz.SOD(p.TenantID)
	return sod.CompleteManual && (wanted || sod.CompleteManualInEveryPlan) && (did || authz.IsService(p.ID))
}
