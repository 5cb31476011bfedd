package runs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// Rerun asks for a new run of the plan of a run that has ended. Exactly one of Start, Failed and Steps is set.
type Rerun struct {
	RunID, RequestID string
	Start, Failed    bool
	Steps            []string
	Reason           string
}

// maxReason bounds the reason of a rerun, in bytes.
const maxReason = 4096

// Rerun creates a new run with the plan digest and the params of a run that has ended, without its overlays, and with
// the current policy. It takes over the results and artifacts of the steps that need not run again (contract O2, T209),
// but not files that steps left in the workspace of the run. The new run is durable before the answer, and a repetition
// is as safe as that of StartRun.
//
// Errors: INVALID_RUN_STATE when the run has not ended, or when Failed is set and every step succeeded; STEP_NOT_FOUND
// with a violation for each unknown step; REQUEST_ID_CONFLICT when the request id created another run; and those of
// StartRun.
func (s *Starter) Rerun(ctx context.Context, p authz.Principal, in Rerun) (StartedRun, error) {
	parent, err := s.rights.GetVisible(ctx, p, authz.Rerun, in.RunID)
	if err != nil {
		return StartedRun{}, err
	}
	from, err := checkRerun(in)
	if err != nil {
		return StartedRun{}, err
	}
	object := control.ObjectOf(parent.Identity)
	d, err := s.rights.Authz.Decide(p, authz.Rerun, object)
	if err != nil {
		return StartedRun{}, control.Translate(err)
	}
	if !d.Allowed {
		s.rights.AuditDenied(ctx, p, store.AuditRow{Action: string(authz.Rerun), RunID: in.RunID, Code: run.CodeForbidden,
			RequestID: in.RequestID})
		return StartedRun{}, s.rights.DenialError(p, authz.Rerun, object, d)
	}
	l, err := s.store.Load(ctx, in.RunID)
	if err != nil {
		return StartedRun{}, control.Translate(err)
	}
	reuse, refusal := rerunPlan(l.State, from)
	if refusal != nil {
		return StartedRun{}, refusal
	}
	return s.createRerun(ctx, p, parent, in, run.Rerun{RunID: in.RunID, From: from, Reuse: reuse})
}

func (s *Starter) createRerun(ctx context.Context, p authz.Principal, parent store.Run, in Rerun,
	pin run.Rerun) (StartedRun, error) {
	detail, err := json.Marshal(map[string]any{"parentRunId": parent.RunID, "from": pin.From, "reused": len(pin.Reuse)})
	if err != nil {
		return StartedRun{}, control.Translate(err)
	}
	r, created, err := s.approve(ctx, p, store.NewRun{Run: store.Run{
		Identity: parent.Identity, RequestID: in.RequestID, PlanRef: parent.PlanRef, TriggerSource: "rerun",
		ParentRunID: parent.RunID,
		Params:      parent.Params, Policy: s.rules.Policy,
	}}, DefaultPriority, store.AuditRow{Action: string(authz.Rerun), Reason: in.Reason, RequestID: in.RequestID,
		Detail: detail}, &pin, nil)
	if err != nil {
		return StartedRun{}, err
	}
	if !created {
		if err := s.sameRerun(ctx, r, in.RequestID, pin); err != nil {
			return StartedRun{}, err
		}
	}
	return s.answerStart(ctx, r, created)
}

// sameRerun returns REQUEST_ID_CONFLICT when the request id created a run that is not this rerun.
func (s *Starter) sameRerun(ctx context.Context, r store.Run, requestID string, pin run.Rerun) error {
	was, err := RerunOf(ctx, s.store, r)
	if err != nil {
		return control.Translate(err)
	}
	if was == nil || was.RunID != pin.RunID || !reflect.DeepEqual(was.From, pin.From) {
		return control.Refuse(run.CodeRequestConflict,
			"The request id %s already started another run of this plan. Use a new id.",
			requestID)
	}
	return nil
}

// checkRerun checks the input and returns every violation, or the steps that are to run again.
func checkRerun(in Rerun) (run.RerunFrom, error) {
	vs := control.CheckID(nil, "runRequestId", in.RequestID)
	bad := func(path, code, format string, args ...any) {
		vs = append(vs, plan.Violation{Path: path, Code: code, Message: fmt.Sprintf(format, args...)})
	}
	given := 0
	for _, set := range []bool{in.Start, in.Failed, len(in.Steps) > 0} {
		if set {
			given++
		}
	}
	if given != 1 {
		bad("from", "INVALID", "give exactly one of start: true, failed: true and steps with at least one step")
	}
	if len(in.Steps) > plan.MaxSteps {
		bad("from.steps", "RANGE", "must be at most %d", plan.MaxSteps)
	}
	if len(in.Reason) > maxReason {
		bad("reason", "RANGE", "must be at most %d bytes", maxReason)
	}
	if vs = control.CheckText(vs, "reason", in.Reason); len(vs) > 0 {
		return run.RerunFrom{}, control.BadInput(vs)
	}
	return run.RerunFrom{Start: in.Start, Failed: in.Failed,
		Steps: slices.Compact(slices.Sorted(slices.Values(in.Steps)))}, nil
}

// rerunPlan returns the steps whose results a rerun takes over, in canonical order: those that succeeded and depend on
// no step that runs again. A step that an operator skipped did not succeed. It returns a *Error when the rerun is not
// possible.
func rerunPlan(st run.State, from run.RerunFrom) ([]string, *control.Error) {
	if !st.RunStatus().Terminal() {
		return nil, control.Refuse(
			run.CodeInvalidRunState, "The run is %s. Only a run that has ended can be rerun; cancel it or wait for its end.",
			st.RunStatus())
	}
	known := make(map[string]bool, len(st.Steps))
	again := make(map[string]bool, len(st.Steps))
	next := map[string][]string{}
	var todo []string
	for _, step := range st.Steps {
		known[step.StepID] = true
		for _, dep := range step.DependsOn {
			next[dep] = append(next[dep], step.StepID)
		}
		if from.Start || step.Status != run.StepSuccess {
			todo = append(todo, step.StepID)
		}
	}
	if from.Failed && len(todo) == 0 && len(st.Steps) > 0 {
		return nil, control.Refuse(
			run.CodeInvalidRunState, "Every step of the run succeeded. Name the steps to run again, or rerun it from the start.")
	}
	var vs []plan.Violation
	for i, id := range from.Steps {
		if !known[id] {
			vs = append(vs, plan.Violation{Path: fmt.Sprintf("from.steps[%d]", i), Code: "UNKNOWN",
				Message: fmt.Sprintf("the run has no step %q", id)})
		}
		todo = append(todo, id)
	}
	if len(vs) > 0 {
		e := control.Refuse(run.CodeStepNotFound, "The run does not have these steps; each is listed.")
		e.Violations = vs
		return nil, e
	}
	for len(todo) > 0 {
		id := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if !again[id] {
			again[id] = true
			todo = append(todo, next[id]...)
		}
	}
	var reuse []string
	for _, step := range st.Steps {
		if !again[step.StepID] {
			reuse = append(reuse, step.StepID)
		}
	}
	return reuse, nil
}

// RerunOf reads which results a rerun takes over. They are recorded in the first events of its log, or in its approval
// while it waits for one. It returns nil for a run that is not a rerun.
func RerunOf(ctx context.Context, s approvedLog, r store.Run) (*run.Rerun, error) {
	if r.ParentRunID == "" {
		return nil, nil //nolint:nilnil // not every run is a rerun
	}
	for after := run.Seq(0); ; {
		page, err := s.Events(ctx, r.RunID, after, firstEvents)
		if err != nil {
			return nil, err
		}
		for _, e := range page {
			switch after = e.Seq; e.Type {
			case run.RunApproved:
				p, err := run.PayloadOf[run.RunApprovedPayload](e.Payload)
				return p.Rerun, err
			case run.RunQueued:
				if p, err := run.PayloadOf[run.RunQueuedPayload](e.Payload); err != nil || p.Rerun != nil {
					return p.Rerun, err
				}
			}
		}
		if len(page) < firstEvents {
			return pinnedRerun(ctx, s, r.RunID)
		}
	}
}

// firstEvents is the usual number of events up to the approval of a run.
const firstEvents = 4

// pinnedRerun returns the results that a rerun takes over while it waits for approval.
func pinnedRerun(ctx context.Context, s approvedLog, runID string) (*run.Rerun, error) {
	at, err := s.Approval(ctx, runID)
	if errors.Is(err, store.ErrNotFound) {
		return nil, errors.New("control: the log of a rerun has no approval")
	}
	return at.Rerun, err
}

// approvedLog reads the places that record the origin of a rerun.
type approvedLog interface {
	Events(ctx context.Context, runID string, after run.Seq, limit int) ([]run.Event, error)
	Approval(ctx context.Context, runID string) (store.Approval, error)
}
