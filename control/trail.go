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
	MaxAuditedReason   = 500 // bytes of a reason in an audit row
)

// RefusalAuditTime limits how long a slow store can delay a refusal while the audit row is written.
const RefusalAuditTime = time.Second

// TrailStore writes audit rows.
type TrailStore interface {
	Audit(ctx context.Context, rows ...store.AuditRow) error
}

// Trail writes the audit rows of refused requests and completes the rows of accepted ones. It is safe for concurrent
// use.
type Trail struct {
	authz   *authz.Authorizer
	Store   TrailStore
	limiter *PerMinuteLimiter // limits the rows of denials
	denials *denialCounter
	Log     *slog.Logger
}

// denialCounter is the metric dvt_denials_total.
type denialCounter struct{ byAction *prometheus.CounterVec }

func newDenialCounter(r prometheus.Registerer) *denialCounter {
	c := &denialCounter{promauto.With(r).NewCounterVec(prometheus.CounterOpts{
		Name: "dvt_denials_total", Help: "Actions that were denied, by action. One audit row may stand for several.",
	}, []string{"action"})}
	for action := range deniableActions() {
		c.byAction.WithLabelValues(action)
	}
	return c
}

// add counts a denial. Only the actions of deniableActions become labels, so that callers cannot create series.
func (c *denialCounter) add(action string) {
	for known := range deniableActions() {
		if known == action {
			c.byAction.WithLabelValues(action).Inc()
			return
		}
	}
	c.byAction.WithLabelValues(otherAction).Inc()
}

// otherAction is the label of an action that deniableActions does not list.
const otherAction = "OTHER"

// deniableActions yields each action that may be denied, as dvt_denials_total names it.
func deniableActions() iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, a := range authz.Actions() {
			if !yield(string(a)) {
				return
			}
		}
		for _, a := range []string{ActionSignIn, ActionRevokeToken, string(ActionBreakGlass), string(ActionEndBreakGlass),
			otherAction} {
			if !yield(a) {
				return
			}
		}
	}
}

// AuditDenied records a denial in the caller's tenant. It writes at most one row a minute for each principal, action
// and code; the next row says how many denials it stands for (contract T208). When the store fails, the denial stands
// and the failure is logged.
func (s *Trail) AuditDenied(ctx context.Context, p authz.Principal, row store.AuditRow) {
	s.denials.add(row.Action)
	s.auditLimited(ctx, p, row, "DENIED")
}

// AuditRejected records, with the limit of AuditDenied, a refusal for another reason than a right. It returns err. An
// err that is no *Error is not recorded.
func (s *Trail) AuditRejected(ctx context.Context, p authz.Principal, row store.AuditRow, err error) error {
	if own := (*Error)(nil); errors.As(err, &own) {
		row.Code = own.Code
		s.auditLimited(ctx, p, row, "REJECTED")
	}
	return err
}

// auditLimited writes a row for an event that can come in floods, at most once a minute for each key.
func (s *Trail) auditLimited(ctx context.Context, p authz.Principal, row store.AuditRow, outcome string) {
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
		row.RunID = "" // the caller's text is not a valid id
	}
	if !IdPattern.MatchString(row.RequestID) {
		row.RequestID = ""
	}
	row.ID, row.Outcome = uuid.NewString(), outcome
	NameActor(p, &row)
	if err := s.Store.Audit(ctx, row); err != nil {
		s.limiter.undo(key) // so that the next refusal of this minute writes its row
		s.Log.WarnContext(ctx, "an audit row was not written; the audit may lack it", slog.Any("error", err))
	}
}

// ActionBreakGlass is the name of break-glass access in the audit and in denials. No role grants it: the policy names
// the principals.
const ActionBreakGlass authz.Action = "BREAK_GLASS"

// ActionEndBreakGlass gives up a role that was taken by break-glass. It needs no right.
const ActionEndBreakGlass authz.Action = "END_BREAK_GLASS"

// Stamp completes an audit row of p with a new id, the actor, the outcome and the detail, which is JSON.
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

// AuditRefused records, without a limit, a request that was refused for another reason than a right. It returns e, or
// the error of the store when the row cannot be written.
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

// Names of actions and actors in audit rows.
const (
	ActionSignIn  = "SIGN_IN"
	ActionSignOut = "SIGN_OUT"
	// ActionRevokeToken ends a token. The owner of a token needs no right for it.
	ActionRevokeToken = "REVOKE_TOKEN"
	// Anonymous is the actor of a sign-in that failed before the user was known.
	Anonymous = "anonymous"
)
