package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// Limits on the cost of refusals.
const (
	// AuditRowsPerMinute is the maximum number of audit rows for one run in a minute.
	AuditRowsPerMinute = 10
	MaxAuditedReason   = 500 // bytes
)

// RefusalAuditTime limits how long a slow store can delay a refusal while the audit row is written.
const RefusalAuditTime = time.Second

// TrailStore keeps audit rows.
type TrailStore interface {
	Audit(ctx context.Context, rows ...store.AuditRow) error
}

// Trail writes the audit rows of requests that were refused, and completes those of requests that were carried out.
// It is safe for concurrent use.
type Trail struct {
	authz   *authz.Authorizer
	Store   TrailStore
	limiter *PerMinuteLimiter // of rows of denials
	denials *denialCounter
	Log     *slog.Logger
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
		for _, a := range []string{ActionSignIn, ActionRevokeToken, string(ActionBreakGlass), otherAction} {
			if !yield(a) {
				return
			}
		}
	}
}

// AuditDenied records a denial that changed nothing else, in the caller's tenant:
// at most one row a minute for each action of a principal and its code; the next
// row says how many it stands for (T208). A store that refuses the row does not
// change the answer; that is logged.
func (s *Trail) AuditDenied(ctx context.Context, p authz.Principal, row store.AuditRow) {
	s.denials.add(row.Action)
	s.auditOften(ctx, p, row, "DENIED")
}

// AuditRejected records as auditDenied does that something was refused for another reason
// than a right, and returns the refusal.
func (s *Trail) AuditRejected(ctx context.Context, p authz.Principal, row store.AuditRow, err error) error {
	if own := (*Error)(nil); errors.As(err, &own) {
		row.Code = own.Code
		s.auditOften(ctx, p, row, "REJECTED")
	}
	return err
}

// auditOften writes a row of something that may come in floods.
func (s *Trail) auditOften(ctx context.Context, p authz.Principal, row store.AuditRow, outcome string) {
	key := p.TenantID + "/" + p.ID + "/" + row.Action + "/" + string(row.Code)
	w, known := s.limiter.Add(key)
	if known && w.N > 1 {
		return
	}
	repeated, version := max(w.Before-1, 0), s.authz.PolicyVersion(p.TenantID)
	switch {
	case version > 0:
		row.Detail = fmt.Appendf(nil, `{"policyVersion":%d,"repeatedBefore":%d}`, version, repeated)
	case repeated > 0:
		row.Detail = fmt.Appendf(nil, `{"repeatedBefore":%d}`, repeated)
	}
	if !IdPattern.MatchString(row.RunID) {
		row.RunID = "" // whatever the caller wrote is no id
	}
	if !IdPattern.MatchString(row.RequestID) {
		row.RequestID = ""
	}
	row.ID, row.Outcome = uuid.NewString(), outcome
	NameActor(p, &row)
	if err := s.Store.Audit(ctx, row); err != nil {
		s.limiter.takeBack(key) // the next refusal of this minute tries to leave its row
		s.Log.WarnContext(ctx, "audit row not written", slog.Any("error", err))
	}
}

// ActionBreakGlass is what the audit and denials call it. No role has it: the policy
// names principals.
const ActionBreakGlass authz.Action = "BREAK_GLASS"

// Stamp completes an audit row of p.
func (s *Trail) Stamp(p authz.Principal, row *store.AuditRow, outcome, detail string) {
	row.ID, row.Outcome = uuid.NewString(), outcome
	NameActor(p, row)
	row.Detail = json.RawMessage(detail)
}

// NameActor writes into an audit row who acts, with which credential and from where.
func NameActor(p authz.Principal, row *store.AuditRow) {
	row.TenantID, row.Actor = p.TenantID, p.ID
	row.Credential, row.Address, row.Via = run.Text(p.Credential(), maxActorText), run.Text(p.Address,
		maxActorText), p.Via
}

// maxActorText bounds the credential and the address in an audit row, in bytes.
const maxActorText = 256

// AuditRefused records a change of the authority that was refused for another reason than
// a right, and returns the refusal.
func (s *Trail) AuditRefused(ctx context.Context, p authz.Principal, row store.AuditRow, e *Error) error {
	version := s.authz.PolicyVersion(p.TenantID)
	s.Stamp(p, &row, "REJECTED", fmt.Sprintf(`{"policyVersion":%d}`, version))
	row.Code = e.Code
	if !IdPattern.MatchString(row.RequestID) {
		row.RequestID = ""
	}
	if err := s.Store.Audit(ctx, row); err != nil {
		return Translate(err)
	}
	return e
}

// Names of what stands in the audit.
const (
	ActionSignIn  = "SIGN_IN"
	ActionSignOut = "SIGN_OUT"
	// ActionRevokeToken ends a token; the owner of a token needs no right for it.
	ActionRevokeToken = "REVOKE_TOKEN"
	// Anonymous is the actor of a sign-in that never said who it was.
	Anonymous = "anonymous"
)
