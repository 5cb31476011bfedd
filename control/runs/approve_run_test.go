package runs_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/control/access"
	"github.com/dvt-engine/dvt/control/admission"
	"github.com/dvt-engine/dvt/control/controltest"
	"github.com/dvt-engine/dvt/control/runs"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
	"github.com/dvt-engine/dvt/store"
)

// contract: W-20
func TestApproveRun_TheLogBeginsWithTheApproval(t *testing.T) {
	t.Parallel()
	w := newWithApprovals(t, 1)
	ctx := t.Context()
	w.SpawnDispatcher()
	s := controltest.Must[runs.StartedRun](t)(w.StartRun(ctx, w.Principal("dev-operator"), controltest.StartOf("r1",
		controltest.Document(nil, "s1"))))
	id := s.View.Run.RunID
	if s.View.State.Status != run.Pending || s.View.State.Seq != 0 || s.View.Queue != nil || s.View.Approval == nil ||
		s.View.Approval.Required != 1 {
		t.Fatalf("the new run is %+v, want PENDING with one required approval", s.View)
	}
	if again := controltest.Must[runs.StartedRun](t)(
		w.StartRun(ctx, w.Principal("dev-operator"), controltest.StartOf("r1", controltest.Document(nil,
			"s1")))); !again.Deduplicated ||
		again.View.Run.RunID != id {
		t.Errorf("the repeated request is answered %+v, want the same run", again)
	}
	if _, err := w.Store.QueueRow(ctx, id); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("the queue row of a run that waits for approval returned %v, want ErrNotFound", err)
	}
	_, err := w.ApproveRun(ctx, w.Principal("dev-operator"), controltest.ApprovalOf(id, "a0"))
	controltest.Refusal(t, err, run.CodeSOD)
	_, err = w.ApproveRun(ctx, w.Principal("dev-viewer"), controltest.ApprovalOf(id, "a0"))
	if e := controltest.Refusal(t, err, run.CodeForbidden); e.Denial == nil || !slices.Contains(e.Denial.WhoCould,
		"dev-planner") {
		t.Errorf("the denial is %+v, want one that names dev-planner", e.Denial)
	}
	_, err = w.ApproveRun(ctx, w.Principal("dev-mallory"), controltest.ApprovalOf(id, "a0"))
	controltest.Refusal(t, err, run.CodeNotFound)
	if w.Engine.StartsOf(id) != 0 || len(w.EventLog(id)) != 0 {
		t.Fatalf("the run began before its last approval: %v", w.EventLog(id))
	}
	v := controltest.Must[control.RunView](t)(w.ApproveRun(ctx, w.Principal("dev-planner"), controltest.ApprovalOf(id,
		"a1")))
	if v.State.Status != run.Approved || v.State.Seq != 1 || v.Approval != nil {
		t.Errorf("the approved run is %+v, want APPROVED at seq 1 without an approval", v)
	}
	controltest.Eventually(t, "the engine has it", func() bool { return w.Engine.StartsOf(id) == 1 })
	if diff := cmp.Diff([]string{"1 RunApproved"}, w.EventLog(id)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	ev := controltest.Must[[]run.Event](t)(w.Raw.Events(ctx, id, 0, 1))[0]
	says := controltest.Must[run.RunApprovedPayload](t)(run.PayloadOf[run.RunApprovedPayload](ev.Payload))
	if ev.EmittedBy != run.ByPlanner || says.Actor != "dev-planner" || says.Reason != "looks good" ||
		len(says.Approvers) != 1 {
		t.Errorf("RunApproved is by %s and says %+v, want the planner and one approver", ev.EmittedBy, says)
	}
	_, err = w.ApproveRun(ctx, w.Principal("dev-admin"), controltest.ApprovalOf(id, "a2"))
	controltest.Refusal(t, err, run.CodeInvalidRunState)
	if _, err := w.ApproveRun(ctx, w.Principal("dev-planner"), controltest.ApprovalOf(id, "a1")); err != nil ||
		len(w.EventLog(id)) != 1 {
		t.Errorf("the repeated approval returned %v and the log is %v, want no change", err, w.EventLog(id))
	}
	for _, row := range []string{
		"dev-operator APPROVE REJECTED SOD_VIOLATION " + id, "dev-viewer APPROVE DENIED FORBIDDEN " + id,
		"dev-planner APPROVE ACCEPTED  " + id, "dev-admin APPROVE REJECTED INVALID_RUN_STATE " + id,
	} {
		if !w.HasAuditRow("acme", row) {
			t.Errorf("there is no row %q in the audit %q", row, w.AuditRows("acme"))
		}
	}
}

// contract: O4
func TestApproveRun_ThePolicyMayLetRequestersApprove(t *testing.T) {
	t.Parallel()
	w := newWithApprovals(t, 1, func(d *authz.Document) { d.SOD.Approve = false })
	id := w.CreateQueued("r1", "s1")
	if _, err := w.ApproveRun(t.Context(), w.Engineer(), controltest.ApprovalOf(id, "a1")); err != nil {
		t.Error(err)
	}
}

// contract: W-20
func TestApproveRun_TheRunStartsAfterTheRequiredNumberOfApprovals(t *testing.T) {
	t.Parallel()
	w := newWithApprovals(t, 2)
	ctx := t.Context()
	id := w.CreateQueued("r1", "s1")
	first := controltest.Must[control.RunView](t)(w.ApproveRun(ctx, w.Principal("dev-planner"), controltest.ApprovalOf(id,
		"a1")))
	if first.State.Status != run.Pending || len(first.Approval.Decisions) != 1 {
		t.Fatalf("after the first decision the approval is %+v, want it open with one decision", first.Approval)
	}
	page := controltest.Must[control.RunsPage](t)(w.Runs(ctx, w.Engineer(), control.RunsQuery{}))
	if at := page.Runs[0].Approval; at == nil || at.Required != 2 || len(at.Decisions) != 1 {
		t.Errorf("in the list the run waits for %+v, want 2 approvals with one decision", at)
	}
	// The first decision of a person stands, whatever that person decides later.
	if _, err := w.ApproveRun(ctx, w.Principal("dev-planner"), controltest.RejectionOf(id, "a2")); err != nil ||
		w.StateOf(id).Status != run.Pending {
		t.Errorf("the second decision returned %v and the run is %s, want the first to stand", err, w.StateOf(id).Status)
	}
	// The number of approvals was fixed when the run was requested.
	w.ChangePolicy(func(d *authz.Document) { d.Approvals[0].Required = 1 })
	if w.StateOf(id).Status != run.Pending {
		t.Error("the changed policy approved the waiting run")
	}
	if next := w.CreateQueued("r2", "s1"); controltest.Must[*store.Approval](t)(w.Approval(ctx, w.Engineer(),
		next)).Required != 1 {
		t.Error("a new run does not follow the changed policy")
	}
	seq := run.Seq(0)
	in := controltest.ApprovalOf(id, "a3")
	in.ExpectedRunSeq = &seq
	// the run changes between the read and the decision
	w.Send(w.Principal("dev-admin"), controltest.SignalOf(id, "p1", run.UpdateParams))
	_, err := w.ApproveRun(ctx, w.Principal("dev-operator"), in)
	if e := controltest.Refusal(t, err, run.CodeRunMoved); e.RunSeq != 1 {
		t.Errorf("the refusal is %+v, want one with the seq 1", e)
	}
	in.ExpectedRunSeq = nil
	if v := controltest.Must[control.RunView](t)(w.ApproveRun(ctx, w.Principal("dev-operator"),
		in)); v.State.Status != run.Approved ||
		v.Queue == nil {
		t.Errorf("after the last decision the run is %+v, want APPROVED with a queue entry", v)
	}
	evs := controltest.Must[[]run.Event](t)(w.Raw.Events(ctx, id, 1, 1))
	says := controltest.Must[run.RunApprovedPayload](t)(run.PayloadOf[run.RunApprovedPayload](evs[0].Payload))
	want := []run.Approver{{Principal: "dev-planner", Reason: "looks good"}, {Principal: "dev-operator",
		Reason: "looks good"}}
	if diff := cmp.Diff(want, says.Approvers); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestApproveRun_ARejectionOrTheDeadlineCancelsTheRun(t *testing.T) {
	t.Parallel()
	w := newWithApprovals(t, 1)
	ctx := t.Context()
	no, late := w.CreateQueued("r1", "s1"), w.CreateQueued("r2", "s1")
	bad := controltest.RejectionOf(no, "a1")
	bad.Reason = ""
	_, err := w.ApproveRun(ctx, w.Principal("dev-planner"), bad)
	controltest.Refusal(t, err, run.CodeBadInput)
	if v := controltest.Must[control.RunView](t)(
		w.ApproveRun(ctx, w.Principal("dev-planner"), controltest.RejectionOf(no, "a1"))); v.State.Status != run.Cancelled {
		t.Errorf("the rejected run is %s, want CANCELLED", v.State.Status)
	}
	ended := func(id string) run.RunCancelledPayload {
		ev := controltest.Must[[]run.Event](t)(w.Raw.Events(ctx, id, 0, 10))
		if len(ev) != 1 || ev[0].Type != run.RunCancelled || ev[0].EmittedBy != run.ByControl {
			t.Fatalf("the run ended with %+v, want one RunCancelled by control", ev)
		}
		return controltest.Must[run.RunCancelledPayload](t)(run.PayloadOf[run.RunCancelledPayload](ev[0].Payload))
	}
	if p := ended(no); p.Code != run.CodeApprovalRejected || p.Actor != "dev-planner" || p.Reason != "not on a Friday" {
		t.Errorf("RunCancelled of the rejection says %+v, want APPROVAL_REJECTED with actor and reason", p)
	}
	w.Clock.Advance(24*time.Hour + time.Second)
	if err := w.LoadPolicy(ctx); err != nil {
		t.Fatal(err)
	}
	_, err = w.ApproveRun(ctx, w.Principal("dev-planner"), controltest.ApprovalOf(late, "a2"))
	controltest.Refusal(t, err, run.CodeInvalidRunState)
	w.Spawn(w.ExpireApprovals)
	controltest.Eventually(t, "it expires", func() bool { return w.StateOf(late).Status == run.Cancelled })
	if p := ended(late); p.Code != run.CodeApprovalExpired || !strings.Contains(p.Reason, "0 of 1") {
		t.Errorf("RunCancelled of the expiry says %+v, want APPROVAL_EXPIRED with 0 of 1 approvals", p)
	}
	if !w.HasAuditRow("acme", "dvt APPROVE REJECTED APPROVAL_EXPIRED "+late) {
		t.Errorf("the audit %q has no row of the expiry", w.AuditRows("acme"))
	}
	if page := controltest.Must[control.RunsPage](t)(w.Approvals(ctx, w.Engineer(), 0, "")); len(page.Runs) != 0 {
		t.Errorf("the page has %+v, want no open approval", page)
	}
}

// contract: W-20
func TestCancelRun_OfARunThatWaitsForApprovalNeverReachesTheEngine(t *testing.T) {
	t.Parallel()
	w := newWithApprovals(t, 1)
	ctx := t.Context()
	for _, stop := range []run.SignalType{run.Cancel, run.EmergencyStop} {
		id := w.CreateQueued("r-"+string(stop), "s1")
		rc := w.Send(w.Principal("dev-admin"), controltest.SignalOf(id, "c1", stop))
		if rc.Application != run.SignalApplied || w.StateOf(id).Status != run.Cancelled {
			t.Errorf("%s is answered %+v and the run is %s, want APPLIED and CANCELLED", stop, rc, w.StateOf(id).Status)
		}
		if at := controltest.Must[*store.Approval](t)(w.Approval(ctx, w.Engineer(), id)); at.Open {
			t.Error("the approval is still open, want it closed")
		}
		_, err := w.ApproveRun(ctx, w.Principal("dev-planner"), controltest.ApprovalOf(id, "a1"))
		controltest.Refusal(t, err, run.CodeInvalidRunState)
		rows := controltest.Must[[]store.Delivery](t)(w.Raw.LeaseDeliveries(ctx, "t", time.Minute, 10))
		if len(rows) != 0 || len(w.Engine.SignalsTo(id)) != 0 {
			t.Errorf("there are signals to deliver, want none: %v", rows)
		}
	}
}

func TestApproveRun_RacingDecisionsHaveOneOutcome(t *testing.T) {
	t.Parallel()
	w := newWithApprovals(t, 2)
	ctx := t.Context()
	for i, others := range [][]func(id string) error{
		{}, // only the two approvers
		{func(id string) error {
			_, err := w.SignalRun(ctx, w.Principal("dev-admin"), controltest.SignalOf(id, "c", run.Cancel))
			return err
		}},
		{func(id string) error {
			_, err := w.ApproveRun(ctx, w.Principal("dev-admin"), controltest.RejectionOf(id, "x"))
			return err
		}},
	} {
		for range 5 {
			id := w.CreateQueued("race"+time.Now().Format("150405.000000000"), "s1")
			var all sync.WaitGroup
			for _, who := range []string{"dev-planner", "dev-operator"} {
				all.Go(func() {
					if _, err := w.ApproveRun(ctx, w.Principal(who), controltest.ApprovalOf(id, "a-"+who)); err != nil &&
						controltest.CodeOf(err) != run.CodeInvalidRunState {
						t.Errorf("%s: the decision returned %v, want nil or INVALID_RUN_STATE", who, err)
					}
				})
			}
			for _, f := range others {
				all.Go(func() {
					if err := f(id); err != nil && controltest.CodeOf(err) != run.CodeInvalidRunState {
						t.Errorf("the other call returned %v, want nil or INVALID_RUN_STATE", err)
					}
				})
			}
			all.Wait()
			st, at := w.StateOf(id), controltest.Must[*store.Approval](t)(w.Approval(ctx, w.Engineer(), id))
			if at.Open || st.Status == run.Pending {
				t.Fatalf("round %d: the approval is undecided: %+v", i, at)
			}
			if w.CountEvents(id, run.RunApproved) > 1 || w.CountEvents(id, run.RunCancelled) > 1 || len(others) == 0 &&
				st.Status != run.Approved {
				t.Errorf("round %d: the log %v does not agree with the status", i, w.EventLog(id))
			}
			_, err := w.Store.QueueRow(ctx, id)
			if queued := err == nil; queued != (w.CountEvents(id, run.RunApproved) == 1) {
				t.Errorf("round %d: queued is %t, want it equal to RunApproved in the log %v", i, queued, w.EventLog(id))
			}
		}
	}
}

func TestApprovals_OnlyScopesThatTheViewerMayRead(t *testing.T) {
	t.Parallel()
	w := newWithApprovals(t, 1, func(d *authz.Document) {
		d.Approvals = append(d.Approvals, authz.Approval{ProjectID: "store", EnvironmentID: "*", Required: 1})
	})
	ctx := t.Context()
	var want []string
	for _, id := range []string{"r1", "r2", "r3"} {
		want = append(want, w.CreateQueued(id, "s1"))
	}
	other := controltest.Must[runs.StartedRun](t)(
		w.StartRun(ctx, w.Engineer(), controltest.StartOf("r4",
			controltest.Document(controltest.M{"scope.projectId": "store"}, "s1")))).View.Run.RunID
	elsewhere := controltest.Must[runs.StartedRun](t)(
		w.StartRun(ctx, w.Engineer(), controltest.StartOf("r5",
			controltest.Document(controltest.M{"scope.environmentId": "prod"}, "s1")))).View.Run.RunID
	ids := func(p authz.Principal, first int, after string) (out []string, page control.RunsPage) {
		page = controltest.Must[control.RunsPage](t)(w.Approvals(ctx, p, first, after))
		for _, v := range page.Runs {
			out = append(out, v.Run.RunID)
		}
		return out, page
	}
	one, page := ids(w.Principal("shop-viewer"), 2, "")
	two, last := ids(w.Principal("shop-viewer"), 2, page.Cursors[1])
	if diff := cmp.Diff(append(want, elsewhere), append(one, two...)); diff != "" || !page.HasNext || last.HasNext {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if all, _ := ids(w.Principal("dev-planner"), 0, ""); !slices.Contains(all, other) || len(all) != 5 {
		t.Errorf("the viewer of all sees %v, want all five runs", all)
	}
	if env, _ := ids(w.Principal("env-viewer"), 0, ""); len(env) != 4 || slices.Contains(env, elsewhere) {
		t.Errorf("the filter by environment returned %v", env)
	}
	if none, _ := ids(w.Principal("dev-mallory"), 0, ""); len(none) != 0 {
		t.Errorf("another tenant sees %v", none)
	}
	_, err := w.Approvals(ctx, w.Engineer(), 0, "!")
	controltest.Refusal(t, err, run.CodeCursorInvalid)
}

// Two people must approve and only one may: when he has, everybody is told that nobody is left.
func TestActions_SayThatNobodyIsLeftToApprove(t *testing.T) {
	t.Parallel()
	w := newWithApprovals(t, 2, func(d *authz.Document) {
		d.Grants = slices.DeleteFunc(d.Grants, func(g authz.PrincipalGrant) bool {
			return g.Role == authz.Planner && g.Principal != "dev-planner"
		})
	})
	id := w.CreateQueued("r1", "s1")
	told := func(who string) string {
		p := w.Principal(who)
		v := controltest.Must[control.RunView](t)(w.Run(t.Context(), p, id, nil))
		for _, a := range w.Actions(p, v).Run {
			if a.Action == authz.Approve {
				return a.Reason
			}
		}
		return ""
	}
	const nobody = "Nobody else can decide about it, so it cannot start unless the policy changes."
	if before := told("dev-engineer"); strings.Contains(before, nobody) {
		t.Errorf("before the approval dev-engineer is told %q, want that somebody can", before)
	}
	if before := told("dev-planner"); !strings.HasSuffix(before, nobody) {
		t.Errorf("the only approver is told %q before the approval, want that nobody else can", before)
	}
	controltest.Must[control.RunView](t)(w.ApproveRun(t.Context(), w.Principal("dev-planner"),
		controltest.ApprovalOf(id, "a1")))
	for _, who := range []string{"dev-planner", "dev-engineer", "dev-viewer"} {
		if reason := told(who); !strings.HasSuffix(reason, nobody) {
			t.Errorf("%s is told %q, want that nobody is left", who, reason)
		}
	}
}

func TestActionsAndPreview_SayWhatAnApprovalWouldDo(t *testing.T) {
	t.Parallel()
	w := newWithApprovals(t, 2)
	ctx := t.Context()
	id := w.CreateQueued("r1", "s1")
	say := func(who string) string {
		p := w.Principal(who)
		v := controltest.Must[control.RunView](t)(w.Run(ctx, p, id, nil))
		pre := controltest.Must[runs.ActionPreview](t)(
			w.PreviewAction(ctx, p, runs.PreviewAction{Approve: &runs.ApproveRun{RunID: id}}))
		for _, a := range w.Actions(p, v).Run {
			if a.Action == authz.Approve {
				if a.Outcome != pre.Outcome || a.Code != pre.Code || a.Reason != pre.Reason {
					t.Errorf("%s: Actions says %+v, the preview %+v; want the same outcome, code and reason",
						who, a, pre)
				}
				if a.Outcome == "REFUSED" && (slices.Contains(a.WhoCould, "dev-engineer") ||
					!slices.Contains(a.WhoCould, "dev-planner")) {
					t.Errorf("%s is told that %v could approve, want dev-planner and not the requester", who, a.WhoCould)
				}
				return a.Outcome + " " + string(a.Code) + " " + string(pre.Status)
			}
		}
		return "none"
	}
	if names, err := w.WhoCould(ctx, w.Principal("dev-admin"), access.WhoCould{Action: authz.Approve,
		RunID: id}); err != nil ||
		slices.Contains(names, "dev-engineer") || !slices.Contains(names, "dev-planner") {
		t.Errorf("those who could approve a run of dev-engineer are %v with the error %v", names, err)
	}
	for who, want := range map[string]string{
		"dev-engineer": "REFUSED SOD_VIOLATION ", "dev-viewer": "REFUSED FORBIDDEN ", "dev-planner": "APPLY  PENDING",
	} {
		if got := say(who); got != want {
			t.Errorf("%s: %q, want %q", who, got, want)
		}
	}
	controltest.Must[control.RunView](t)(w.ApproveRun(ctx, w.Principal("dev-planner"), controltest.ApprovalOf(id, "a1")))
	if got := say("dev-planner"); got != "NOOP ALREADY_IN_STATE PENDING" {
		t.Errorf("the action of a person who decided is %q, want NOOP", got)
	}
	if got := say("dev-admin"); got != "APPLY  APPROVED" {
		t.Errorf("the action before the last approval is %q, want APPLY", got)
	}
	start := controltest.StartOf("r2", controltest.Document(nil, "s1"))
	pre := controltest.Must[runs.ActionPreview](t)(w.PreviewAction(ctx, w.Engineer(), runs.PreviewAction{Start: &start}))
	if pre.Status != run.Pending || len(pre.Warnings) != 1 || !strings.Contains(pre.Warnings[0], "2 approvals") {
		t.Errorf("the preview is %+v, want PENDING with a warning about 2 approvals", pre)
	}
	w.ChangePolicy(func(d *authz.Document) { d.Approvals[0].Required = 4 })
	pre = controltest.Must[runs.ActionPreview](t)(w.PreviewAction(ctx, w.Engineer(), runs.PreviewAction{Start: &start}))
	const alone = "Only 3 people (dev-admin, dev-operator, dev-planner) can approve it, so it cannot start unless the policy " +
		"changes."
	if !slices.Contains(pre.Warnings, alone) {
		t.Errorf("the warnings of a run that needs four approvals are %q, want %q", pre.Warnings, alone)
	}
	w.ChangePolicy(func(d *authz.Document) { d.Approvals = nil })
	auto := w.CreateQueued("r3", "s1")
	if v := controltest.Must[control.RunView](t)(w.Run(ctx, w.Engineer(), auto, nil)); v.Approval != nil {
		t.Error("a run that needs no approval has one")
	}
	pre = controltest.Must[runs.ActionPreview](t)(w.PreviewAction(ctx, w.Principal("dev-planner"),
		runs.PreviewAction{Approve: &runs.ApproveRun{RunID: auto}}))
	if pre.Outcome != "REFUSED" || pre.Code != run.CodeInvalidRunState {
		t.Errorf("the preview is %+v, want REFUSED with INVALID_RUN_STATE", pre)
	}
}

// contract: W-20
func TestRerun_KeepsItsReusedStepsWhileItWaitsForApproval(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := t.Context()
	parent := w.CreateRunning("r1", "s1", "b<s1")
	w.FinishStep(parent, "s1", 1, run.StepCompletedEvent)
	w.AppendEvents(parent, run.Draft{Type: run.RunCancelled, LogicalAttempt: 1, EngineAttempt: 1, EmittedBy: run.ByControl,
		Payload: json.RawMessage(`{}`)})
	w.ChangePolicy(func(d *authz.Document) {
		d.Approvals = []authz.Approval{{ProjectID: "*", EnvironmentID: "*", Required: 1}}
		d.Grants = append(d.Grants, authz.PrincipalGrant{Principal: "dev-engineer", Role: authz.Planner, ProjectID: "*",
			EnvironmentID: "*"})
	})
	in := runs.Rerun{RunID: parent, RequestID: "rr", Failed: true, Reason: "again"}
	s := controltest.Must[runs.StartedRun](t)(w.Rerun(ctx, w.Engineer(), in))
	id := s.View.Run.RunID
	if s.View.State.Status != run.Pending || len(w.EventLog(id)) != 0 {
		t.Fatalf("the rerun is %+v, want PENDING without events", s.View)
	}
	if again := controltest.Must[runs.StartedRun](t)(w.Rerun(ctx, w.Engineer(), in)); !again.Deduplicated ||
		again.View.Run.RunID != id {
		t.Errorf("the repeated rerun is answered %+v, want the same run", again)
	}
	other := in
	other.Failed, other.Start = false, true
	_, err := w.Rerun(ctx, w.Engineer(), other)
	controltest.Refusal(t, err, run.CodeRequestConflict)
	_, err = w.ApproveRun(ctx, w.Engineer(), controltest.ApprovalOf(id, "a1"))
	controltest.Refusal(t, err, run.CodeSOD) // the requester of the rerun
	w.Send(w.Principal("dev-admin"), controltest.SignalOf(id, "p1", run.UpdateParams))
	controltest.Must[control.RunView](t)(w.ApproveRun(ctx, w.Principal("dev-planner"), controltest.ApprovalOf(id, "a1")))
	ev := controltest.Must[[]run.Event](t)(w.Raw.Events(ctx, id, 1, 1))[0]
	says := controltest.Must[run.RunApprovedPayload](t)(run.PayloadOf[run.RunApprovedPayload](ev.Payload))
	if diff := cmp.Diff(&run.Rerun{RunID: parent, From: run.RerunFrom{Failed: true}, Reuse: []string{"s1"}},
		says.Rerun); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if again := controltest.Must[runs.StartedRun](t)(w.Rerun(ctx, w.Engineer(), in)); !again.Deduplicated {
		t.Errorf("the rerun repeated after the approval is answered %+v, want a duplicate", again)
	}
}

// contract: T87
func TestCompleteManual_AnApproverMayNotComplete(t *testing.T) {
	t.Parallel()
	w := newWorld(t, controltest.ManualKeys(t, "k1:"+controltest.SecretOf("s")))
	ctx, admin, other := t.Context(), w.Principal("dev-admin"), w.Principal("dev-operator")
	w.ChangePolicy(func(d *authz.Document) {
		d.Approvals = []authz.Approval{{ProjectID: "*", EnvironmentID: "*", Required: 1}}
		d.Grants = append(d.Grants, authz.PrincipalGrant{Principal: admin.ID, Role: authz.Planner, ProjectID: "*",
			EnvironmentID: "*"},
			authz.PrincipalGrant{Principal: other.ID, Role: authz.Engineer, ProjectID: "*", EnvironmentID: "*"})
	})
	id := controltest.Must[runs.StartedRun](t)(
		w.StartRun(ctx, w.Engineer(), controltest.StartOf("r1", controltest.ManualPlan("look", "look-any")))).View.Run.RunID
	controltest.Must[control.RunView](t)(w.ApproveRun(ctx, admin, controltest.ApprovalOf(id, "a1")))
	w.AppendEvents(id, runtest.Start("look", "look-any"))
	for _, step := range []string{"look", "look-any"} {
		w.WaitForPerson(id, step, 1)
	}
	if task := w.TaskOf(admin, id, "look", 1); task.Action.Code != run.CodeSOD || task.Token != "" {
		t.Errorf("the task of an approver has the action %+v, want SOD_VIOLATION without a token", task.Action)
	}
	if task := w.TaskOf(admin, id, "look-any", 1); task.Action.Outcome != "APPLY" {
		t.Errorf("the task without sod has the action %+v, want APPLY", task.Action)
	}
	task := w.TaskOf(other, id, "look", 1)
	_, err := w.CompleteTask(admin, task, run.ManualSucceeded)
	controltest.Refusal(t, err, run.CodeSOD)
	in := runs.CompleteManualStep{RunID: id, StepID: "look", Token: task.Token, Outcome: run.ManualSucceeded}
	if pre := controltest.Must[runs.ActionPreview](t)(
		w.PreviewAction(ctx, admin, runs.PreviewAction{CompleteManual: &in})); pre.Code != run.CodeSOD {
		t.Errorf("the preview is %+v, want SOD_VIOLATION", pre)
	}
	service := other
	service.ID = authz.ServiceID("bot")
	w.ChangePolicy(func(d *authz.Document) {
		d.Grants = append(d.Grants, authz.PrincipalGrant{Principal: service.ID, Role: authz.Admin, ProjectID: "*",
			EnvironmentID: "*"})
	})
	_, err = w.CompleteTask(service, task, run.ManualSucceeded)
	controltest.Refusal(t, err, run.CodeSOD)
	controltest.Must[runs.SignalReceipt](t)(w.CompleteTask(other, task, run.ManualSucceeded))
	w.ChangePolicy(func(d *authz.Document) { d.SOD.CompleteManualInEveryPlan = true })
	if task := w.TaskOf(admin, id, "look-any", 1); task.Action.Code != run.CodeSOD || task.Token != "" {
		t.Errorf("the task under completeManualInEveryPlan has the action %+v, want SOD_VIOLATION without a token",
			task.Action)
	}
}

// Otherwise an Admin could approve his own run with a token that he made for a service.
func TestApproveRun_AServiceDoesNotDecideWhileDutiesAreSeparated(t *testing.T) {
	t.Parallel()
	planner := func(d *authz.Document) {
		d.Grants = append(d.Grants, authz.PrincipalGrant{Principal: authz.ServiceID("bot"), Role: authz.Planner,
			ProjectID: "*", EnvironmentID: "*"})
	}
	for separated, code := range map[bool]run.Code{true: run.CodeSOD, false: ""} {
		w := newWithApprovals(t, 1, planner, func(d *authz.Document) { d.SOD.Approve = separated })
		service := w.Principal("dev-admin")
		service.ID = authz.ServiceID("bot")
		id := controltest.Must[runs.StartedRun](t)(w.StartRun(t.Context(), w.Engineer(),
			controltest.StartOf("r1", controltest.Document(nil, "s1")))).View.Run.RunID
		_, err := w.ApproveRun(t.Context(), service, controltest.ApprovalOf(id, "a1"))
		if code != "" {
			controltest.Refusal(t, err, code)
		} else if err != nil {
			t.Errorf("a service approves where the policy does not separate duties: %v", err)
		}
	}
}

// A freeze forbids approvals, which would start runs, but no rejection.
func TestActions_ARunOfAFrozenTenantCanOnlyBeRejected(t *testing.T) {
	t.Parallel()
	w := newWithApprovals(t, 1)
	ctx, planner := t.Context(), w.Principal("dev-planner")
	id := controltest.Must[runs.StartedRun](t)(w.StartRun(ctx, w.Engineer(),
		controltest.StartOf("r1", controltest.Document(nil, "s1")))).View.Run.RunID
	approve := func(p authz.Principal) runs.ActionAvailability {
		t.Helper()
		v := controltest.Must[control.RunView](t)(w.Run(ctx, p, id, nil))
		list := w.Actions(p, v).Run
		return list[slices.IndexFunc(list, func(a runs.ActionAvailability) bool { return a.Action == authz.Approve })]
	}
	if a := approve(planner); a.Outcome != "APPLY" || !a.MayReject {
		t.Errorf("before the freeze it is %+v, want an approval that applies", a)
	}
	controltest.Must[admission.ModeChange](t)(w.FreezeTenant(ctx, w.Principal("dev-admin"),
		admission.FreezeTenant{RequestID: "f", Frozen: true, Reason: "release"}))
	a := approve(planner)
	if a.Outcome != "REFUSED" || a.Code != run.CodeTenantFrozen || !a.MayReject ||
		!strings.Contains(a.Reason, "The time to approve it goes on and ends at ") {
		t.Errorf("in the freeze it is %+v, want a refusal that permits a rejection and says when the time is over", a)
	}
	if a := approve(w.Principal("dev-viewer")); a.MayReject {
		t.Errorf("for a viewer it is %+v, want no rejection", a)
	}
	for reject, want := range map[bool]runs.ActionPreview{
		true:  {Outcome: "APPLY", Reason: "The run is cancelled and never starts.", Status: run.Cancelled},
		false: {Outcome: "REFUSED", Code: run.CodeTenantFrozen, Reason: a.Reason},
	} {
		in := runs.ApproveRun{RunID: id, RequestID: "p", Reject: reject, Reason: "late"}
		got := controltest.Must[runs.ActionPreview](t)(w.PreviewAction(ctx, planner, runs.PreviewAction{Approve: &in}))
		if got.Outcome != want.Outcome || got.Code != want.Code || got.Reason != want.Reason || got.Status != want.Status {
			t.Errorf("the preview with reject=%v is %+v, want %+v", reject, got, want)
		}
	}
	_, err := w.ApproveRun(ctx, planner, controltest.ApprovalOf(id, "a"))
	controltest.Refusal(t, err, run.CodeTenantFrozen)
	controltest.Must[control.RunView](t)(w.ApproveRun(ctx, planner, controltest.RejectionOf(id, "a2")))
}
