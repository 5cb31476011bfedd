package runs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/control/admission"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// ApprovalStore reads and writes the approvals of runs.
type ApprovalStore interface {
	Get(ctx context.Context, runID string) (store.Run, error)
	OpenApprovals(ctx context.Context, f store.ApprovalFilter) ([]store.Approval, error)
	DecidedApprovals(ctx context.Context, tenantID, principal string, limit int) ([]store.Approval, error)
	ExpiredApprovals(ctx context.Context, limit int) ([]store.Approval, error)
	InRun(ctx context.Context, runID string, f func(tx store.RunTx) error) error
}

// Approver records the decisions of people about runs that wait for approval. It is safe for concurrent use.
type Approver struct {
	rights     *control.Rights
	store      ApprovalStore
	views      *Views
	admission  *admission.Admission
	background *control.Background
}

// NewApprover makes an Approver.
func NewApprover(rights *control.Rights, store ApprovalStore, views *Views, admission *admission.Admission,
	background *control.Background) *Approver {
	return &Approver{rights: rights, store: store, views: views, admission: admission, background: background}
}

// ApproveRun asks to approve, or with Reject to reject, a run that waits for approval.
type ApproveRun struct {
	RunID, RequestID string
	Reject           bool
	Reason           string
	ExpectedRunSeq   *run.Seq
}

const maxApprovalReason = 1024 // characters

// ApproveRun records the decision of p about a run that waits for approval (contract O3, O4, W-20). The last approval
// that is needed writes RunApproved by the planner and the queue row in one transaction, and RunQueued after it when
// the run has to wait in the queue (contract T213). A rejection ends the run as CANCELLED. The number of approvals was
// fixed when the run was requested.
//
// Checks in this order: visibility (NOT_FOUND), input (BAD_USER_INPUT), authorisation (FORBIDDEN), an earlier decision
// of p (it stands; the call succeeds and changes nothing), the state of the approval (INVALID_RUN_STATE), separation of
// duties (SOD_VIOLATION), for an approval the mode of the engine, RUN_MOVED. When the queue does not take the run in,
// the error is QUOTA_EXCEEDED or QUEUE_FULL and the approval is not kept. Every decision and refusal is audited.
func (s *Approver) ApproveRun(ctx context.Context, p authz.Principal, in ApproveRun) (control.RunView, error) {
	r, err := s.rights.GetVisible(ctx, p, authz.Approve, in.RunID)
	if err != nil {
		return control.RunView{}, err
	}
	if err := checkApproval(in); err != nil {
		return control.RunView{}, err
	}
	row := store.AuditRow{Action: string(authz.Approve), RunID: in.RunID, RequestID: in.RequestID, Reason: in.Reason}
	object := control.ObjectOf(r.Identity)
	d, err := s.rights.Authz.Decide(p, authz.Approve, object)
	if err != nil {
		return control.RunView{}, control.Translate(err)
	}
	if !d.Allowed {
		row.Code = run.CodeForbidden
		s.rights.AuditDenied(ctx, p, row)
		return control.RunView{}, s.rights.DenialError(p, authz.Approve, object, d)
	}
	a := &approving{s: s, p: p, in: in, run: r, row: row}
	err = s.store.InRun(ctx, in.RunID, func(tx store.RunTx) error { return a.decide(ctx, tx) })
	switch {
	case errors.Is(err, errQueueRefused):
		return control.RunView{}, s.rights.AuditRefused(ctx, p, row, a.refusal)
	case err != nil:
		return control.RunView{}, control.Translate(err)
	case a.refusal != nil:
		return control.RunView{}, a.refusal
	}
	s.admission.Waker.WakeDispatchers()
	return s.views.View(ctx, r)
}

func checkApproval(in ApproveRun) error {
	vs := control.CheckID(nil, "requestId", in.RequestID)
	switch {
	case utf8.RuneCountInString(in.Reason) > maxApprovalReason:
		vs = append(vs, plan.Violation{Path: "reason", Code: "RANGE",
			Message: fmt.Sprintf("must have at most %d characters",
				maxApprovalReason)})
	case in.Reject && in.Reason == "":
		vs = append(vs, plan.Violation{Path: "reason", Code: "REQUIRED", Message: "say why the run is rejected"})
	}
	if vs = control.CheckText(vs, "reason", in.Reason); len(vs) > 0 {
		return control.BadInput(vs)
	}
	return nil
}

// errQueueRefused rolls back an approval when the queue refuses the run.
var errQueueRefused = errors.New("control: the queue refused the run")

// approving is the decision of one principal, while it is made.
type approving struct {
	s   *Approver
	p   authz.Principal
	in  ApproveRun
	run store.Run
	row store.AuditRow

	refusal *control.Error
}

func (a *approving) decide(ctx context.Context, tx store.RunTx) error {
	a.refusal = nil
	at, err := tx.Approval(ctx)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return err
	}
	if HasDecided(at, a.p) {
		return nil
	}
	st, err := tx.State(ctx)
	if err != nil {
		return err
	}
	if a.refusal = a.s.CheckMayDecide(a.p, a.run.TriggeredBy, at, a.in.Reject); a.refusal == nil &&
		a.in.ExpectedRunSeq != nil && st.Seq > *a.in.ExpectedRunSeq {
		a.refusal = control.Refuse(run.CodeRunMoved,
			"The run is at seq %d, after the state you saw. Look again and decide again.",
			st.Seq)
		a.refusal.RunSeq = st.Seq
	}
	if a.refusal != nil {
		return a.audit(ctx, tx, "REJECTED", a.refusal.Code)
	}
	decision := store.ApprovalDecision{Principal: a.p.ID, Approved: !a.in.Reject, Reason: a.in.Reason,
		RequestID: a.in.RequestID}
	if err := tx.Decide(ctx, decision); err != nil {
		return err
	}
	a.row = store.AuditRowOfDecision(a.row, a.run.RunID, decision)
	if err := a.audit(ctx, tx, "ACCEPTED", ""); err != nil {
		return err
	}
	switch {
	case a.in.Reject:
		return a.s.endUnapproved(ctx, tx, a.run.RunID, run.RunCancelledPayload{Actor: a.p.ID, Reason: a.in.Reason,
			Code: run.CodeApprovalRejected})
	case countApprovals(at)+1 < at.Required:
		return nil
	}
	return a.completeApproval(ctx, tx, at)
}

// CheckMayDecide returns why p may not decide about a run, nil if p may. at is zero for a run that never needed
// approval. It does no I/O.
func (s *Approver) CheckMayDecide(p authz.Principal, triggeredBy string, at store.Approval,
	reject bool) *control.Error {
	switch {
	case at.RunID == "":
		return control.Refuse(run.CodeInvalidRunState, "The run needs no approval.")
	case !at.Open:
		return control.Refuse(run.CodeInvalidRunState, "The run does not wait for approval any more.")
	case !s.rights.Now().Before(at.ExpiresAt):
		return control.Refuse(run.CodeInvalidRunState, "The time to approve the run is over.")
	case triggeredBy == p.ID && s.rights.Authz.SOD(p.TenantID).Approve:
		return control.Refuse(run.CodeSOD,
			"The principal that requested the run may not decide about it; another person must.")
	case authz.IsService(p.ID) && s.rights.Authz.SOD(p.TenantID).Approve:
		return control.Refuse(run.CodeSOD,
			"A service may not decide about a run while the policy separates duties (sod.approve); "+
				"a person must.")
	case reject:
		return nil
	}
	return s.admission.Modes.CheckAdmits(p.TenantID)
}

// HasDecided reports whether p has decided about an approval.
func HasDecided(at store.Approval, p authz.Principal) bool {
	for _, d := range at.Decisions {
		if d.Principal == p.ID {
			return true
		}
	}
	return false
}

// countApprovals returns the number of approvals.
func countApprovals(at store.Approval) (n int) {
	for _, d := range at.Decisions {
		if d.Approved {
			n++
		}
	}
	return n
}

// completeApproval writes RunApproved and the queue row after the last approval that was needed.
func (a *approving) completeApproval(ctx context.Context, tx store.RunTx, at store.Approval) error {
	if err := tx.CloseApproval(ctx); err != nil {
		return err
	}
	says := run.RunApprovedPayload{Actor: a.p.ID, Reason: a.in.Reason, Rerun: at.Rerun}
	for _, d := range at.Decisions {
		says.Approvers = append(says.Approvers, run.Approver{Principal: d.Principal, Reason: d.Reason})
	}
	says.Approvers = append(says.Approvers, run.Approver{Principal: a.p.ID, Reason: a.in.Reason})
	if err := a.append(ctx, tx, run.RunApproved, run.ByPlanner, says); err != nil {
		return err
	}
	admission, err := tx.Enqueue(ctx, store.Enqueue{Terms: a.s.admission.Allowances.Terms(a.run.TenantID,
		a.run.ProjectID),
		Priority: at.Priority})
	var full *store.RefusedError
	switch {
	case errors.As(err, &full):
		a.refusal = control.Refuse(full.Code,
			"The queue accepts no more runs now. Your approval was not stored; approve again later.")
		a.refusal.RetryAfter = full.RetryAfter
		return errQueueRefused
	case err != nil || !admission.Waiting:
		return err
	}
	return a.append(ctx, tx, run.RunQueued, run.ByAdmission, run.RunQueuedPayload{QueuePosition: admission.Position,
		EstimatedWaitMS: admission.Estimate.Milliseconds()})
}

func (a *approving) append(ctx context.Context, tx store.RunTx, t run.EventType, by run.Producer, says any) error {
	payload, err := json.Marshal(says)
	if err != nil {
		return err
	}
	out, err := tx.Append(ctx, store.Append{RunID: a.run.RunID, Events: []run.Draft{{
		Type: t, LogicalAttempt: 1, EngineAttempt: 1, EmittedAt: a.s.rights.Now(), EmittedBy: by, Payload: payload,
	}}})
	if err == nil && out.Outcomes[0].Refused != "" {
		err = fmt.Errorf("control: %s was refused: %s", t, out.Outcomes[0].Refused)
	}
	return err
}

func (a *approving) audit(ctx context.Context, tx store.RunTx, outcome string, code run.Code) error {
	decision := "APPROVE"
	if a.in.Reject {
		decision = "REJECT"
	}
	a.s.rights.Stamp(a.p, &a.row, outcome, fmt.Sprintf(`{"decision":%q,"policyVersion":%d}`, decision,
		a.s.rights.Authz.PolicyVersion(a.p.TenantID)))
	a.row.Code = code
	return tx.Audit(ctx, a.row)
}

// endUnapproved cancels a run that waits for approval and closes its approval.
func (s *Approver) endUnapproved(ctx context.Context, tx store.RunTx, runID string,
	says run.RunCancelledPayload) error {
	if err := tx.CloseApproval(ctx); err != nil {
		return err
	}
	payload, err := json.Marshal(says)
	if err != nil {
		return err
	}
	return EndRun(ctx, tx, runID, []run.Draft{{
		Type: run.RunCancelled, LogicalAttempt: 1, EngineAttempt: 1, EmittedAt: s.rights.Now(), EmittedBy: run.ByControl,
		Payload: payload,
	}})
}

// isAwaitingApproval reports whether the locked run waits for approval.
func isAwaitingApproval(ctx context.Context, tx store.RunTx) (bool, error) {
	at, err := tx.Approval(ctx)
	if errors.Is(err, store.ErrNotFound) {
		return false, nil
	}
	return at.Open, err
}

const (
	expireEvery = 5 * time.Second
	expireBatch = 100
)

// ExpireApprovals ends runs that were not approved in time, as CANCELLED with the code APPROVAL_EXPIRED, until ctx
// ends. Any number of servers may do it.
func (s *Approver) ExpireApprovals(ctx context.Context) error {
	tick := time.NewTicker(expireEvery)
	defer tick.Stop()
	for {
		if err := s.expireApprovals(ctx); err != nil && ctx.Err() == nil && !errors.Is(err, control.ErrSetAside) &&
			!errors.Is(err, store.ErrUnavailable) {
			s.rights.Log.WarnContext(ctx, "approvals were not ended", slog.Any("error", err))
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

func (s *Approver) expireApprovals(ctx context.Context) error {
	for {
		late, err := s.store.ExpiredApprovals(ctx, expireBatch)
		if err != nil {
			return err
		}
		err = control.ForEach(ctx, late, func(at store.Approval) error {
			return s.background.DoForRun(ctx, control.DutyApprovals, at.RunID, func() error {
				return s.store.InRun(ctx, at.RunID, func(tx store.RunTx) error { return s.expire(ctx, tx, at) })
			})
		})
		if err != nil || len(late) < expireBatch {
			return err
		}
	}
}

func (s *Approver) expire(ctx context.Context, tx store.RunTx, at store.Approval) error {
	if open, err := isAwaitingApproval(ctx, tx); err != nil || !open {
		return err
	}
	why := fmt.Sprintf("%d of %d approved until %s.", countApprovals(at), at.Required,
		at.ExpiresAt.UTC().Format(time.RFC3339))
	if err := s.endUnapproved(ctx, tx, at.RunID, run.RunCancelledPayload{Actor: control.EngineActor, Reason: why,
		Code: run.CodeApprovalExpired}); err != nil {
		return err
	}
	return tx.Audit(ctx, store.AuditRow{
		ID: uuid.NewString(), TenantID: at.TenantID, Actor: control.EngineActor, Action: string(authz.Approve),
		RunID:   at.RunID,
		Outcome: "REJECTED", Code: run.CodeApprovalExpired, Reason: why,
	})
}
