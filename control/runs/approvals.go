package runs

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// Approval reads the approval of a run with its decisions. It returns nil when the run never needed one. Error:
// NOT_FOUND.
func (s *Approver) Approval(ctx context.Context, p authz.Principal, runID string) (*store.Approval, error) {
	if _, err := s.rights.GetVisible(ctx, p, authz.Read, runID); err != nil {
		return nil, err
	}
	at, err := s.views.approvalOf(ctx, runID)
	return at, control.Translate(err)
}

// Approvals reads a page of the runs that p may see and that wait for approval, oldest first. Errors: CURSOR_INVALID,
// BAD_USER_INPUT.
func (s *Approver) Approvals(ctx context.Context, p authz.Principal, first int, after string) (control.RunsPage,
	error) {
	n, err := control.PageSize(first, 50)
	if err != nil {
		return control.RunsPage{}, err
	}
	at, err := control.DecodeCursor(after)
	if err != nil {
		return control.RunsPage{}, err
	}
	scope, ok := s.rights.Narrow(p, control.RunFilter{})
	if !ok {
		return control.RunsPage{}, nil
	}
	waiting, more, err := s.OpenApprovals(ctx, scope, at, n)
	if err != nil {
		return control.RunsPage{}, control.Translate(err)
	}
	out := control.RunsPage{HasNext: more, HasPrev: after != ""}
	for _, a := range waiting {
		r, err := s.store.Get(ctx, a.RunID)
		if err != nil {
			return control.RunsPage{}, control.Translate(err)
		}
		v, _, err := s.views.Load(ctx, r)
		if err != nil {
			return control.RunsPage{}, err
		}
		v.Approval = &a // a run that waits for approval has no row in the queue
		out.Runs = append(out.Runs, v)
		out.Cursors = append(out.Cursors, control.EncodeCursor(store.RunPos{CreatedAt: a.CreatedAt, RunID: a.RunID}))
	}
	return out, nil
}

// MyDecisions reads the approvals about which p has decided and whose runs p may still read, the newest decision first.
// limit is clamped to 1 to 50.
func (s *Approver) MyDecisions(ctx context.Context, p authz.Principal, limit int) ([]Approval, error) {
	found, err := s.store.DecidedApprovals(ctx, p.TenantID, p.ID, min(max(limit, 1), 50))
	if err != nil {
		return nil, control.Translate(err)
	}
	return slices.DeleteFunc(found, func(a Approval) bool {
		return !s.rights.MayRead(p, a.ProjectID, a.EnvironmentID)
	}), nil
}

// OpenApprovals reads the first n open approvals of a scope after a position, oldest first. It returns true when there
// are more.
func (s *Approver) OpenApprovals(ctx context.Context, scope control.RunFilter, after *store.RunPos,
	n int) ([]store.Approval,
	bool, error) {
	f := store.ApprovalFilter{TenantID: scope.TenantID, ProjectIDs: scope.ProjectIDs, After: after}
	return control.ReadOn(n, func(last *store.Approval, limit int) ([]store.Approval, error) {
		if f.Limit = limit; last != nil {
			f.After = &store.RunPos{CreatedAt: last.CreatedAt, RunID: last.RunID}
		}
		return s.store.OpenApprovals(ctx, f)
	}, func(a store.Approval) (bool, error) {
		ok := scope.EnvironmentID == "" || a.EnvironmentID == scope.EnvironmentID
		return ok && scope.Scopes.Contains(a.ProjectID, a.EnvironmentID), nil
	})
}

// HasApproved reports whether p has approved.
func HasApproved(at store.Approval, p authz.Principal) bool {
	return slices.ContainsFunc(at.Decisions, func(d store.ApprovalDecision) bool {
		return d.Approved &&
			d.Principal == p.ID
	})
}

// nobodyElse ends the reason of an approval that nobody can complete.
const nobodyElse = " Nobody else can decide about it, so it cannot start unless the policy changes."

// mayApprove returns whether p may decide about the run, and otherwise why not.
func (s *Approver) mayApprove(p authz.Principal, o authz.Object, v control.RunView) ActionAvailability {
	a := ActionAvailability{Action: authz.Approve, Outcome: "REFUSED", Strength: "NORMAL"}
	d, err := s.rights.Authz.Decide(p, authz.Approve, o)
	a.Rule, a.RequiredRole = d.Rule, d.RequiredRole
	switch {
	case err != nil:
		a.Code, a.Reason = run.CodeUnavailable, "The access policy cannot be read now. Try again."
	case !d.Allowed:
		a.Code = run.CodeForbidden
		a.Reason = s.rights.DenialError(p, authz.Approve, o, d).Message
	default:
		s.judgeApproval(&a, p, o, v.State.TriggeredBy, *v.Approval)
	}
	switch a.Code {
	case run.CodeForbidden, run.CodeSOD, run.CodeAlreadyInState:
		if a.WhoCould = s.OthersWhoCould(o, v.State.TriggeredBy, *v.Approval); len(a.WhoCould) == 0 && v.Approval.Open {
			a.Reason += nobodyElse
		}
	}
	return a
}

// OthersWhoCould names principals that may decide about a run, without those that have and those whom separation of
// duties excludes.
func (s *Approver) OthersWhoCould(o authz.Object, triggeredBy string, at store.Approval) []string {
	return s.rights.OthersWhoCould(authz.Approve, o, func(id string) bool {
		by := authz.Principal{ID: id, TenantID: o.TenantID}
		if HasDecided(at, by) {
			return true
		}
		e := s.CheckMayDecide(by, triggeredBy, at, true)
		return e != nil && e.Code == run.CodeSOD
	})
}

// judgeApproval sets the outcome that an approval by p would have now.
func (s *Approver) judgeApproval(a *ActionAvailability, p authz.Principal, o authz.Object, triggeredBy string,
	at store.Approval) {
	if HasDecided(at, p) {
		a.Outcome, a.Code, a.Reason = "NOOP", run.CodeAlreadyInState, "You have decided already; your decision stands."
		return
	}
	if e := s.CheckMayDecide(p, triggeredBy, at, false); e != nil {
		a.Outcome, a.Code, a.Reason = "REFUSED", e.Code, e.Message
		if a.MayReject = s.CheckMayDecide(p, triggeredBy, at, true) == nil; a.MayReject {
			a.Reason = strings.TrimSuffix(a.Reason, ".") +
				". You can reject the run now. The time to approve it goes on and ends at " +
				control.TimeWords(at.ExpiresAt) + "."
		}
		return
	}
	a.Outcome, a.Reason = "APPLY", "It is the last approval that is needed: the run may start."
	a.MayReject = true
	if left := at.Required - countApprovals(at) - 1; left > 0 {
		a.Reason = fmt.Sprintf("It is approval %d of %d; after it %s must approve.", countApprovals(at)+1, at.Required,
			control.Plural(left, "more person", "more people"))
		a.WhoCould = slices.DeleteFunc(s.OthersWhoCould(o, triggeredBy, at), func(id string) bool { return id == p.ID })
		// People should know before the decision that the run cannot start after it.
		cut := len(s.rights.Authz.WhoCould(authz.Approve, o)) == authz.MaxWhoCould
		switch could := len(a.WhoCould); {
		case could == 0:
			a.Reason += nobodyElse
		case could < left && !cut:
			a.Reason += " Too few others can decide about it, so it cannot start unless the policy changes."
		}
	}
}

// judgeRejection sets the outcome that a rejection by p would have now.
func (s *Approver) judgeRejection(a *ActionAvailability, p authz.Principal, triggeredBy string, at store.Approval) {
	if HasDecided(at, p) {
		a.Outcome, a.Code, a.Reason = "NOOP", run.CodeAlreadyInState, "You have decided already; your decision stands."
		return
	}
	if e := s.CheckMayDecide(p, triggeredBy, at, true); e != nil {
		a.Outcome, a.Code, a.Reason = "REFUSED", e.Code, e.Message
		return
	}
	a.Outcome, a.Reason = "APPLY", "The run is cancelled and never starts."
}

// addApproval changes the preview of a new run that needs approvals, and reports whether it does: the run would stay
// PENDING. It warns when fewer people can approve the run of that requester than must.
func (v *previewing) addApproval(s *Approver, o authz.Object, requester string) bool {
	n := s.rights.Authz.Approval(o.TenantID, o.ProjectID, o.EnvironmentID)
	if n == 0 {
		return false
	}
	v.out.Status, v.out.Reason = run.Pending, "A new run is created."
	v.warn("The run waits for %s. Nothing starts before.", control.Plural(n, "approval", "approvals"))
	if could, cut := s.rights.WhoCouldApprove(o, requester); len(could) < n && !cut {
		who := "Nobody"
		if len(could) > 0 {
			who = fmt.Sprintf("Only %s (%s)", control.Plural(len(could), "person", "people"), strings.Join(could, ", "))
		}
		v.warn("%s can approve it, so it cannot start unless the policy changes.", who)
	}
	return true
}

// Approval is the approval of a run with the decisions of people.
type Approval = store.Approval

// ApprovalDecision is the decision of one person.
type ApprovalDecision = store.ApprovalDecision
