package control_test

import (
	"context"
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
	"github.com/dvt-engine/dvt/control/runs"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
	"github.com/dvt-engine/dvt/store"
)

// asking makes a world whose project shop needs approvals.
func asking(t *testing.T, required int, change ...func(*authz.Document)) *world {
	t.Helper()
	w := newWorld(t)
	w.policy(func(d *authz.Document) {
		d.Approvals = []authz.Approval{{ProjectID: "shop", EnvironmentID: "*", Required: required}}
		for _, id := range []string{"dev-admin", "dev-engineer", "dev-operator"} { // more people who may approve
			d.Grants = append(d.Grants, authz.PrincipalGrant{Principal: id, Role: authz.Planner, ProjectID: "*",
				EnvironmentID: "*"})
		}
		for _, f := range change {
			f(d)
		}
	})
	return w
}

// policy changes the policy of acme.
func (w *world) policy(change func(*authz.Document)) {
	w.t.Helper()
	admin := w.who("dev-admin")
	now := must[access.Policy](w.t)(w.Policy(w.t.Context(), admin))
	_, err := w.SetPolicy(w.t.Context(), admin, access.SetPolicy{
		RequestID: "p" + time.Now().Format("150405.000000000"), ExpectedVersion: now.Version, Document: w.document(change),
		Reason: "test",
	})
	if err != nil {
		w.t.Fatal(err)
	}
}

func approval(runID, requestID string) runs.ApproveRun {
	return runs.ApproveRun{RunID: runID, RequestID: requestID, Reason: "looks good"}
}

func rejection(runID, requestID string) runs.ApproveRun {
	return runs.ApproveRun{RunID: runID, RequestID: requestID, Reject: true, Reason: "not on a Friday"}
}

// reconciling runs a dispatcher that starts queued runs.
func (w *world) reconciling() {
	w.spawn(func(ctx context.Context) error { return w.Dispatch(ctx, "r1") })
}

// contract: W-20
func TestApproveRun_TheLogBeginsWithTheApproval(t *testing.T) {
	t.Parallel()
	w := asking(t, 1)
	ctx := t.Context()
	w.reconciling()
	s := must[runs.StartedRun](t)(w.StartRun(ctx, w.who("dev-operator"), startOf("r1", document(nil, "s1"))))
	id := s.View.Run.RunID
	if s.View.State.Status != run.Pending || s.View.State.Seq != 0 || s.View.Queue != nil || s.View.Approval == nil ||
		s.View.Approval.Required != 1 {
		t.Fatalf("the new run is %+v, want PENDING with one required approval", s.View)
	}
	if again := must[runs.StartedRun](t)(
		w.StartRun(ctx, w.who("dev-operator"), startOf("r1", document(nil, "s1")))); !again.Deduplicated ||
		again.View.Run.RunID != id {
		t.Errorf("the repeated request is answered %+v, want the same run", again)
	}
	if _, err := w.store.QueueRow(ctx, id); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("the queue row of a run that waits for approval returned %v, want ErrNotFound", err)
	}
	_, err := w.ApproveRun(ctx, w.who("dev-operator"), approval(id, "a0"))
	refusal(t, err, run.CodeSOD)
	_, err = w.ApproveRun(ctx, w.who("dev-viewer"), approval(id, "a0"))
	if e := refusal(t, err, run.CodeForbidden); e.Denial == nil || !slices.Contains(e.Denial.WhoCould, "dev-planner") {
		t.Errorf("the denial is %+v, want one that names dev-planner", e.Denial)
	}
	_, err = w.ApproveRun(ctx, w.who("dev-mallory"), approval(id, "a0"))
	refusal(t, err, run.CodeNotFound)
	if w.engine.starts(id) != 0 || len(w.log(id)) != 0 {
		t.Fatalf("the run began before its last approval: %v", w.log(id))
	}
	v := must[control.RunView](t)(w.ApproveRun(ctx, w.who("dev-planner"), approval(id, "a1")))
	if v.State.Status != run.Approved || v.State.Seq != 1 || v.Approval != nil {
		t.Errorf("the approved run is %+v, want APPROVED at seq 1 without an approval", v)
	}
	eventually(t, "the engine has it", func() bool { return w.engine.starts(id) == 1 })
	if diff := cmp.Diff([]string{"1 RunApproved"}, w.log(id)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	ev := must[[]run.Event](t)(w.raw.Events(ctx, id, 0, 1))[0]
	says := must[run.RunApprovedPayload](t)(run.PayloadOf[run.RunApprovedPayload](ev.Payload))
	if ev.EmittedBy != run.ByPlanner || says.Actor != "dev-planner" || says.Reason != "looks good" ||
		len(says.Approvers) != 1 {
		t.Errorf("RunApproved is by %s and says %+v, want the planner and one approver", ev.EmittedBy, says)
	}
	_, err = w.ApproveRun(ctx, w.who("dev-admin"), approval(id, "a2"))
	refusal(t, err, run.CodeInvalidRunState)
	if _, err := w.ApproveRun(ctx, w.who("dev-planner"), approval(id, "a1")); err != nil || len(w.log(id)) != 1 {
		t.Errorf("the repeated approval returned %v and the log is %v, want no change", err, w.log(id))
	}
	for _, row := range []string{
		"dev-operator APPROVE REJECTED SOD_VIOLATION " + id, "dev-viewer APPROVE DENIED FORBIDDEN " + id,
		"dev-planner APPROVE ACCEPTED  " + id, "dev-admin APPROVE REJECTED INVALID_RUN_STATE " + id,
	} {
		if !w.audited("acme", row) {
			t.Errorf("there is no row %q in the audit %q", row, w.audit("acme"))
		}
	}
}

// contract: O4
func TestApproveRun_ThePolicyMayLetRequestersApprove(t *testing.T) {
	t.Parallel()
	w := asking(t, 1, func(d *authz.Document) { d.SOD.Approve = false })
	id := w.queued("r1", "s1")
	if _, err := w.ApproveRun(t.Context(), w.eng(), approval(id, "a1")); err != nil {
		t.Error(err)
	}
}

// contract: W-20
func TestApproveRun_TheRunStartsAfterTheRequiredNumberOfApprovals(t *testing.T) {
	t.Parallel()
	w := asking(t, 2)
	ctx := t.Context()
	id := w.queued("r1", "s1")
	first := must[control.RunView](t)(w.ApproveRun(ctx, w.who("dev-planner"), approval(id, "a1")))
	if first.State.Status != run.Pending || len(first.Approval.Decisions) != 1 {
		t.Fatalf("after the first decision the approval is %+v, want it open with one decision", first.Approval)
	}
	// The first decision of a person stands, whatever that person decides later.
	if _, err := w.ApproveRun(ctx, w.who("dev-planner"), rejection(id, "a2")); err != nil ||
		w.state(id).Status != run.Pending {
		t.Errorf("the second decision returned %v and the run is %s, want the first to stand", err, w.state(id).Status)
	}
	// The number of approvals was fixed when the run was requested.
	w.policy(func(d *authz.Document) { d.Approvals[0].Required = 1 })
	if w.state(id).Status != run.Pending {
		t.Error("the changed policy approved the waiting run")
	}
	if next := w.queued("r2", "s1"); must[*store.Approval](t)(w.Approval(ctx, w.eng(), next)).Required != 1 {
		t.Error("a new run does not follow the changed policy")
	}
	seq := run.Seq(0)
	in := approval(id, "a3")
	in.ExpectedRunSeq = &seq
	w.send(w.who("dev-admin"), signal(id, "p1", run.UpdateParams)) // the run changes between the read and the decision
	_, err := w.ApproveRun(ctx, w.who("dev-operator"), in)
	if e := refusal(t, err, run.CodeRunMoved); e.RunSeq != 1 {
		t.Errorf("the refusal is %+v, want one with the seq 1", e)
	}
	in.ExpectedRunSeq = nil
	if v := must[control.RunView](t)(w.ApproveRun(ctx, w.who("dev-operator"), in)); v.State.Status != run.Approved ||
		v.Queue == nil {
		t.Errorf("after the last decision the run is %+v, want APPROVED with a queue entry", v)
	}
	evs := must[[]run.Event](t)(w.raw.Events(ctx, id, 1, 1))
	says := must[run.RunApprovedPayload](t)(run.PayloadOf[run.RunApprovedPayload](evs[0].Payload))
	want := []run.Approver{{Principal: "dev-planner", Reason: "looks good"}, {Principal: "dev-operator",
		Reason: "looks good"}}
	if diff := cmp.Diff(want, says.Approvers); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestApproveRun_ARejectionOrTheDeadlineCancelsTheRun(t *testing.T) {
	t.Parallel()
	w := asking(t, 1)
	ctx := t.Context()
	no, late := w.queued("r1", "s1"), w.queued("r2", "s1")
	bad := rejection(no, "a1")
	bad.Reason = ""
	_, err := w.ApproveRun(ctx, w.who("dev-planner"), bad)
	refusal(t, err, run.CodeBadInput)
	if v := must[control.RunView](t)(
		w.ApproveRun(ctx, w.who("dev-planner"), rejection(no, "a1"))); v.State.Status != run.Cancelled {
		t.Errorf("the rejected run is %s, want CANCELLED", v.State.Status)
	}
	ended := func(id string) run.RunCancelledPayload {
		ev := must[[]run.Event](t)(w.raw.Events(ctx, id, 0, 10))
		if len(ev) != 1 || ev[0].Type != run.RunCancelled || ev[0].EmittedBy != run.ByControl {
			t.Fatalf("the run ended with %+v, want one RunCancelled by control", ev)
		}
		return must[run.RunCancelledPayload](t)(run.PayloadOf[run.RunCancelledPayload](ev[0].Payload))
	}
	if p := ended(no); p.Code != run.CodeApprovalRejected || p.Actor != "dev-planner" || p.Reason != "not on a Friday" {
		t.Errorf("RunCancelled of the rejection says %+v, want APPROVAL_REJECTED with actor and reason", p)
	}
	w.clock.advance(24*time.Hour + time.Second)
	if err := w.LoadPolicy(ctx); err != nil {
		t.Fatal(err)
	}
	_, err = w.ApproveRun(ctx, w.who("dev-planner"), approval(late, "a2"))
	refusal(t, err, run.CodeInvalidRunState)
	w.spawn(w.ExpireApprovals)
	eventually(t, "it expires", func() bool { return w.state(late).Status == run.Cancelled })
	if p := ended(late); p.Code != run.CodeApprovalExpired || !strings.Contains(p.Reason, "0 of 1") {
		t.Errorf("RunCancelled of the expiry says %+v, want APPROVAL_EXPIRED with 0 of 1 approvals", p)
	}
	if !w.audited("acme", "dvt APPROVE REJECTED APPROVAL_EXPIRED "+late) {
		t.Errorf("the audit %q has no row of the expiry", w.audit("acme"))
	}
	if page := must[control.RunsPage](t)(w.Approvals(ctx, w.eng(), 0, "")); len(page.Runs) != 0 {
		t.Errorf("the page has %+v, want no open approval", page)
	}
}

// contract: W-20
func TestCancelRun_OfARunThatWaitsForApprovalNeverReachesTheEngine(t *testing.T) {
	t.Parallel()
	w := asking(t, 1)
	ctx := t.Context()
	for _, stop := range []run.SignalType{run.Cancel, run.EmergencyStop} {
		id := w.queued("r-"+string(stop), "s1")
		rc := w.send(w.who("dev-admin"), signal(id, "c1", stop))
		if rc.Application != run.SignalApplied || w.state(id).Status != run.Cancelled {
			t.Errorf("%s is answered %+v and the run is %s, want APPLIED and CANCELLED", stop, rc, w.state(id).Status)
		}
		if at := must[*store.Approval](t)(w.Approval(ctx, w.eng(), id)); at.Open {
			t.Error("the approval is still open, want it closed")
		}
		_, err := w.ApproveRun(ctx, w.who("dev-planner"), approval(id, "a1"))
		refusal(t, err, run.CodeInvalidRunState)
		rows := must[[]store.Delivery](t)(w.raw.LeaseDeliveries(ctx, "t", time.Minute, 10))
		if len(rows) != 0 || len(w.engine.delivered(id)) != 0 {
			t.Errorf("there are signals to deliver, want none: %v", rows)
		}
	}
}

func TestApproveRun_RacingDecisionsHaveOneOutcome(t *testing.T) {
	t.Parallel()
	w := asking(t, 2)
	ctx := t.Context()
	for i, others := range [][]func(id string) error{
		{}, // only the two approvers
		{func(id string) error {
			_, err := w.SignalRun(ctx, w.who("dev-admin"), signal(id, "c", run.Cancel))
			return err
		}},
		{func(id string) error { _, err := w.ApproveRun(ctx, w.who("dev-admin"), rejection(id, "x")); return err }},
	} {
		for range 5 {
			id := w.queued("race"+time.Now().Format("150405.000000000"), "s1")
			var all sync.WaitGroup
			for _, who := range []string{"dev-planner", "dev-operator"} {
				all.Go(func() {
					if _, err := w.ApproveRun(ctx, w.who(who), approval(id, "a-"+who)); err != nil &&
						coded(err) != run.CodeInvalidRunState {
						t.Errorf("%s: the decision returned %v, want nil or INVALID_RUN_STATE", who, err)
					}
				})
			}
			for _, f := range others {
				all.Go(func() {
					if err := f(id); err != nil && coded(err) != run.CodeInvalidRunState {
						t.Errorf("the other call returned %v, want nil or INVALID_RUN_STATE", err)
					}
				})
			}
			all.Wait()
			st, at := w.state(id), must[*store.Approval](t)(w.Approval(ctx, w.eng(), id))
			if at.Open || st.Status == run.Pending {
				t.Fatalf("round %d: the approval is undecided: %+v", i, at)
			}
			if w.count(id, run.RunApproved) > 1 || w.count(id, run.RunCancelled) > 1 || len(others) == 0 &&
				st.Status != run.Approved {
				t.Errorf("round %d: the log %v does not agree with the status", i, w.log(id))
			}
			_, err := w.store.QueueRow(ctx, id)
			if queued := err == nil; queued != (w.count(id, run.RunApproved) == 1) {
				t.Errorf("round %d: queued is %t, want it equal to RunApproved in the log %v", i, queued, w.log(id))
			}
		}
	}
}

func TestApprovals_OnlyScopesThatTheViewerMayRead(t *testing.T) {
	t.Parallel()
	w := asking(t, 1, func(d *authz.Document) {
		d.Approvals = append(d.Approvals, authz.Approval{ProjectID: "store", EnvironmentID: "*", Required: 1})
	})
	ctx := t.Context()
	var want []string
	for _, id := range []string{"r1", "r2", "r3"} {
		want = append(want, w.queued(id, "s1"))
	}
	other := must[runs.StartedRun](t)(
		w.StartRun(ctx, w.eng(), startOf("r4", document(M{"scope.projectId": "store"}, "s1")))).View.Run.RunID
	elsewhere := must[runs.StartedRun](t)(
		w.StartRun(ctx, w.eng(), startOf("r5", document(M{"scope.environmentId": "prod"}, "s1")))).View.Run.RunID
	ids := func(p authz.Principal, first int, after string) (out []string, page control.RunsPage) {
		page = must[control.RunsPage](t)(w.Approvals(ctx, p, first, after))
		for _, v := range page.Runs {
			out = append(out, v.Run.RunID)
		}
		return out, page
	}
	one, page := ids(w.who("shop-viewer"), 2, "")
	two, last := ids(w.who("shop-viewer"), 2, page.Cursors[1])
	if diff := cmp.Diff(append(want, elsewhere), append(one, two...)); diff != "" || !page.HasNext || last.HasNext {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if all, _ := ids(w.who("dev-planner"), 0, ""); !slices.Contains(all, other) || len(all) != 5 {
		t.Errorf("the viewer of all sees %v, want all five runs", all)
	}
	if env, _ := ids(w.who("env-viewer"), 0, ""); len(env) != 4 || slices.Contains(env, elsewhere) {
		t.Errorf("the filter by environment returned %v", env)
	}
	if none, _ := ids(w.who("dev-mallory"), 0, ""); len(none) != 0 {
		t.Errorf("another tenant sees %v", none)
	}
	_, err := w.Approvals(ctx, w.eng(), 0, "!")
	refusal(t, err, run.CodeCursorInvalid)
}

func TestActionsAndPreview_SayWhatAnApprovalWouldDo(t *testing.T) {
	t.Parallel()
	w := asking(t, 2)
	ctx := t.Context()
	id := w.queued("r1", "s1")
	say := func(who string) string {
		p := w.who(who)
		v := must[control.RunView](t)(w.Run(ctx, p, id, nil))
		pre := must[runs.ActionPreview](t)(
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
	if names, err := w.WhoCould(ctx, w.who("dev-admin"), access.WhoCould{Action: authz.Approve,
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
	must[control.RunView](t)(w.ApproveRun(ctx, w.who("dev-planner"), approval(id, "a1")))
	if got := say("dev-planner"); got != "NOOP ALREADY_IN_STATE PENDING" {
		t.Errorf("the action of a person who decided is %q, want NOOP", got)
	}
	if got := say("dev-admin"); got != "APPLY  APPROVED" {
		t.Errorf("the action before the last approval is %q, want APPLY", got)
	}
	start := startOf("r2", document(nil, "s1"))
	pre := must[runs.ActionPreview](t)(w.PreviewAction(ctx, w.eng(), runs.PreviewAction{Start: &start}))
	if pre.Status != run.Pending || len(pre.Warnings) != 1 || !strings.Contains(pre.Warnings[0], "2 approvals") {
		t.Errorf("the preview is %+v, want PENDING with a warning about 2 approvals", pre)
	}
	w.policy(func(d *authz.Document) { d.Approvals = nil })
	auto := w.queued("r3", "s1")
	if v := must[control.RunView](t)(w.Run(ctx, w.eng(), auto, nil)); v.Approval != nil {
		t.Error("a run that needs no approval has one")
	}
	pre = must[runs.ActionPreview](t)(w.PreviewAction(ctx, w.who("dev-planner"),
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
	parent := w.running("r1", "s1", "b<s1")
	w.finish(parent, "s1", 1, run.StepCompletedEvent)
	w.append(parent, run.Draft{Type: run.RunCancelled, LogicalAttempt: 1, EngineAttempt: 1, EmittedBy: run.ByControl,
		Payload: json.RawMessage(`{}`)})
	w.policy(func(d *authz.Document) {
		d.Approvals = []authz.Approval{{ProjectID: "*", EnvironmentID: "*", Required: 1}}
		d.Grants = append(d.Grants, authz.PrincipalGrant{Principal: "dev-engineer", Role: authz.Planner, ProjectID: "*",
			EnvironmentID: "*"})
	})
	in := runs.Rerun{RunID: parent, RequestID: "rr", Failed: true, Reason: "again"}
	s := must[runs.StartedRun](t)(w.Rerun(ctx, w.eng(), in))
	id := s.View.Run.RunID
	if s.View.State.Status != run.Pending || len(w.log(id)) != 0 {
		t.Fatalf("the rerun is %+v, want PENDING without events", s.View)
	}
	if again := must[runs.StartedRun](t)(w.Rerun(ctx, w.eng(), in)); !again.Deduplicated ||
		again.View.Run.RunID != id {
		t.Errorf("the repeated rerun is answered %+v, want the same run", again)
	}
	other := in
	other.Failed, other.Start = false, true
	_, err := w.Rerun(ctx, w.eng(), other)
	refusal(t, err, run.CodeRequestConflict)
	_, err = w.ApproveRun(ctx, w.eng(), approval(id, "a1"))
	refusal(t, err, run.CodeSOD) // the requester of the rerun
	w.send(w.who("dev-admin"), signal(id, "p1", run.UpdateParams))
	must[control.RunView](t)(w.ApproveRun(ctx, w.who("dev-planner"), approval(id, "a1")))
	ev := must[[]run.Event](t)(w.raw.Events(ctx, id, 1, 1))[0]
	says := must[run.RunApprovedPayload](t)(run.PayloadOf[run.RunApprovedPayload](ev.Payload))
	if diff := cmp.Diff(&run.Rerun{RunID: parent, From: run.RerunFrom{Failed: true}, Reuse: []string{"s1"}},
		says.Rerun); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if again := must[runs.StartedRun](t)(w.Rerun(ctx, w.eng(), in)); !again.Deduplicated {
		t.Errorf("the rerun repeated after the approval is answered %+v, want a duplicate", again)
	}
}

// contract: T87
func TestCompleteManual_AnApproverMayNotComplete(t *testing.T) {
	t.Parallel()
	w := newWorld(t, manualKeys(t, "k1:"+secret("s")))
	ctx, admin, other := t.Context(), w.who("dev-admin"), w.who("dev-operator")
	w.policy(func(d *authz.Document) {
		d.Approvals = []authz.Approval{{ProjectID: "*", EnvironmentID: "*", Required: 1}}
		d.Grants = append(d.Grants, authz.PrincipalGrant{Principal: admin.ID, Role: authz.Planner, ProjectID: "*",
			EnvironmentID: "*"},
			authz.PrincipalGrant{Principal: other.ID, Role: authz.Engineer, ProjectID: "*", EnvironmentID: "*"})
	})
	id := must[runs.StartedRun](t)(
		w.StartRun(ctx, w.eng(), startOf("r1", manualPlan("look", "look-any")))).View.Run.RunID
	must[control.RunView](t)(w.ApproveRun(ctx, admin, approval(id, "a1")))
	w.append(id, runtest.Start("look", "look-any"))
	for _, step := range []string{"look", "look-any"} {
		w.wait(id, step, 1)
	}
	if task := w.task(admin, id, "look", 1); task.Action.Code != run.CodeSOD || task.Token != "" {
		t.Errorf("the task of an approver has the action %+v, want SOD_VIOLATION without a token", task.Action)
	}
	if task := w.task(admin, id, "look-any", 1); task.Action.Outcome != "APPLY" {
		t.Errorf("the task without sod has the action %+v, want APPLY", task.Action)
	}
	task := w.task(other, id, "look", 1)
	_, err := w.complete(admin, task, run.ManualSucceeded)
	refusal(t, err, run.CodeSOD)
	in := runs.CompleteManualStep{RunID: id, StepID: "look", Token: task.Token, Outcome: run.ManualSucceeded}
	if pre := must[runs.ActionPreview](t)(
		w.PreviewAction(ctx, admin, runs.PreviewAction{CompleteManual: &in})); pre.Code != run.CodeSOD {
		t.Errorf("the preview is %+v, want SOD_VIOLATION", pre)
	}
	service := other
	service.ID = authz.ServiceID("bot")
	w.policy(func(d *authz.Document) {
		d.Grants = append(d.Grants, authz.PrincipalGrant{Principal: service.ID, Role: authz.Admin, ProjectID: "*",
			EnvironmentID: "*"})
	})
	_, err = w.complete(service, task, run.ManualSucceeded)
	refusal(t, err, run.CodeSOD)
	must[runs.SignalReceipt](t)(w.complete(other, task, run.ManualSucceeded))
	w.policy(func(d *authz.Document) { d.SOD.CompleteManualInEveryPlan = true })
	if task := w.task(admin, id, "look-any", 1); task.Action.Code != run.CodeSOD || task.Token != "" {
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
		w := asking(t, 1, planner, func(d *authz.Document) { d.SOD.Approve = separated })
		service := w.who("dev-admin")
		service.ID = authz.ServiceID("bot")
		id := must[runs.StartedRun](t)(w.StartRun(t.Context(), w.eng(),
			startOf("r1", document(nil, "s1")))).View.Run.RunID
		_, err := w.ApproveRun(t.Context(), service, approval(id, "a1"))
		if code != "" {
			refusal(t, err, code)
		} else if err != nil {
			t.Errorf("a service approves where the policy does not separate duties: %v", err)
		}
	}
}
