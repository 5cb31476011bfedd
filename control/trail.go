package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"log/slog"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// TrailStore keeps audit rows.
type TrailStore interface {
	Audit(ctx context.Context, rows ...store.AuditRow) error
}

// Trail writes the audit rows of requests that were refused, and completes those of requests that were carried out.
// It is safe for concurrent use.
type Trail struct {
	authz   *authz.Authorizer
	store   TrailStore
	limiter *perMinuteLimiter // of rows of denials
	denials *denialCounter
	log     *slog.Logger
}

// denialCounter is dvt_denials_total.
type denialCounter struct{ byAction *prometheus.CounterVec }

func newDenialCounter(r prometheus.Registerer) *denialCounter {
	c := &denialCounter{promauto.With(r).NewCounterVec(prometheus.CounterOpts{
		Name: "dvt_denials_total", Help: "Actions that were denied, by action. Rows of the audit stand for several.",
	}, []string{"action"})}
	for action := range deniable() {
		c.byAction.WithLabelValues(action)
	}
	return c
}

// add counts a denial. The actions of deniable are the labels, so that callers choose none of them.
func (c *denialCounter) add(action string) {
	for known := range deniable() {
		if known == action {
			c.byAction.WithLabelValues(action).Inc()
			return
		}
	}
	c.byAction.WithLabelValues(otherAction).Inc()
}

// otherAction is the label of an action that is in no table.
const otherAction = "OTHER"

// deniable yields each action that may be denied, as dvt_denials_total names it.
func deniable() iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, a := range authz.Actions() {
			if !yield(string(a)) {
				return
			}
		}
		for _, a := range []string{actionSignIn, actionRevokeToken, string(actionBreakGlass), otherAction} {
			if !yield(a) {
				return
			}
		}
	}
}

// auditDenied records a denial that changed nothing else, in the caller's tenant:
// at most one row a minute for each action of a principal and its code; the next
// row says how many it stands for (T208). A store that refuses the row does not
// change the answer; that is logged.
func (s *Trail) auditDenied(ctx context.Context, p authz.Principal, row store.AuditRow) {
	s.denials.add(row.Action)
	s.auditOften(ctx, p, row, "DENIED")
}

// auditRejected records as auditDenied does that something was refused for another reason
// than a right, and returns the refusal.
func (s *Trail) auditRejected(ctx context.Context, p authz.Principal, row store.AuditRow, err error) error {
	if own := (*Error)(nil); errors.As(err, &own) {
		row.Code = own.Code
		s.auditOften(ctx, p, row, "REJECTED")
	}
	return err
}

// auditOften writes a row of something that may come in floods.
func (s *Trail) auditOften(ctx context.Context, p authz.Principal, row store.AuditRow, outcome string) {
	key := p.TenantID + "/" + p.ID + "/" + row.Action + "/" + string(row.Code)
	w, known := s.limiter.add(key)
	if known && w.n > 1 {
		return
	}
	repeated, version := max(w.before-1, 0), s.authz.PolicyVersion(p.TenantID)
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
	if err := s.store.Audit(ctx, row); err != nil {
		s.limiter.takeBack(key) // the next refusal of this minute tries to leave its row
		s.log.WarnContext(ctx, "audit row not written", slog.Any("error", err))
	}
}

// actionBreakGlass is what the audit and denials call it. No role has it: the policy
// names principals.
const actionBreakGlass authz.Action = "BREAK_GLASS"

// stamp completes an audit row of p.
func (s *Trail) stamp(p authz.Principal, row *store.AuditRow, outcome, detail string) {
	row.ID, row.Outcome = uuid.NewString(), outcome
	nameActor(p, row)
	row.Detail = json.RawMessage(detail)
}

// nameActor writes into an audit row who acts, with which credential and from where.
func nameActor(p authz.Principal, row *store.AuditRow) {
	row.TenantID, row.Actor = p.TenantID, p.ID
	row.Credential, row.Address, row.Via = run.Text(p.Credential(), maxActorText), run.Text(p.Address,
		maxActorText), p.Via
}

// maxActorText bounds the credential and the address in an audit row, in bytes.
const maxActorText = 256

// auditRefused records a change of the authority that was refused for another reason than
// a right, and returns the refusal.
func (s *Trail) auditRefused(ctx context.Context, p authz.Principal, row store.AuditRow, e *Error) error {
	version := s.authz.PolicyVersion(p.TenantID)
	s.stamp(p, &row, "REJECTED", fmt.Sprintf(`{"policyVersion":%d}`, version))
	row.Code = e.Code
	if !idPattern.MatchString(row.RequestID) {
		row.RequestID = ""
	}
	if err := s.store.Audit(ctx, row); err != nil {
		return translate(err)
	}
	return e
}

// Names of what stands in the audit.
const (
	actionSignIn  = "SIGN_IN"
	actionSignOut = "SIGN_OUT"
	// actionRevokeToken ends a token; the owner of a token needs no right for it.
	actionRevokeToken = "REVOKE_TOKEN"
	// anonymous is the actor of a sign-in that never said who it was.
	anonymous = "anonymous"
)
