package runs

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

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
	Params           json.RawMessage // of the new run; nil for those of the earlier run
	Reason           string
	// AlreadyRerun is for a bulk: it reruns also runs that have a newer rerun.
	AlreadyRerun bool
}

// maxReason bounds the reason of a rerun, in bytes.
const maxReason = 4096

// Rerun creates a new run with the plan digest of a run that has ended, with its params or with others, without its
// overlays, and with the current policy. It takes over the results and artifacts of the steps that need not run again
// (contract O2, T209), but not files that steps left in the workspace of the run. The new run is durable before the
// answer, and a repetition is as safe as that of StartRun.
//
// Errors: INVALID_RUN_STATE when the run has not ended, or when Failed is set and every step succeeded; STEP_NOT_FOUND
// with a violation for each unknown step; REQUEST_ID_CONFLICT when the request id created another run; and those of
// StartRun.
func (s *Starter) Rerun(ctx context.Context, p authz.Principal, in Rerun) (StartedRun, error) {
	return s.rerun(ctx, p, in, nil)
}

// RerunOfBulk is Rerun for a row of a bulk, whose request id clients cannot use. The run is created under the fence of
// the bulk: the error matches store.ErrConflict when the caller no longer holds the bulk. Unless in.AlreadyRerun is
// set, the error matches store.ErrAlreadyRerun when the run was rerun in the meantime.
func (s *Starter) RerunOfBulk(ctx context.Context, p authz.Principal, in Rerun, b store.Bulk) (StartedRun, error) {
	return s.rerun(ctx, p, in, &b)
}

func (s *Starter) rerun(ctx context.Context, p authz.Principal, in Rerun, b *store.Bulk) (StartedRun, error) {
	parent, err := s.rights.GetVisible(ctx, p, authz.Rerun, in.RunID)
	if err != nil {
		return StartedRun{}, err
	}
	from, err := s.checkRerun(in, b != nil)
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
	return s.createRerun(ctx, p, parent, in, run.Rerun{RunID: in.RunID, From: from, Reuse: reuse}, b)
}

func (s *Starter) createRerun(ctx context.Context, p authz.Principal, parent store.Run, in Rerun,
	pin run.Rerun, b *store.Bulk) (StartedRun, error) {
	params := parent.Params
	described := map[string]any{"parentRunId": parent.RunID, "from": pin.From, "reused": len(pin.Reuse)}
	if in.Params != nil {
		params = in.Params
		described["changedParams"] = changedMembers(parent.Params, in.Params)
	}
	detail, err := json.Marshal(described)
	if err != nil {
		return StartedRun{}, control.Translate(err)
	}
	r, created, err := s.approve(ctx, p, store.NewRun{Bulk: b, UnlessRerun: b != nil && !in.AlreadyRerun, Run: store.Run{
		Identity: parent.Identity, RequestID: in.RequestID, PlanRef: parent.PlanRef, TriggerSource: "rerun",
		ParentRunID: parent.RunID,
		Params:      params, Policy: s.rules.Policy,
	}}, DefaultPriority, store.AuditRow{Action: string(authz.Rerun), Reason: in.Reason, RequestID: in.RequestID,
		Detail: detail}, &pin, nil)
	if err != nil {
		return StartedRun{}, err
	}
	if !created {
		if err := s.sameRerun(ctx, r, params, pin); err != nil {
			return StartedRun{}, err
		}
	}
	return s.answerStart(ctx, r, created)
}

// maxNamedParams bounds the names in the audit row of a rerun with other params.
const maxNamedParams = 50

// changedMembers returns the names of the members that differ between two JSON objects, sorted, at most maxNamedParams.
// The audit has the names only, because a value may be a secret. It returns an empty list for anything but objects.
func changedMembers(before, after json.RawMessage) []string {
	var was, is map[string]json.RawMessage
	if json.Unmarshal([]byte(cmp.Or(string(before), "{}")), &was) != nil || json.Unmarshal(after, &is) != nil {
		return []string{}
	}
	out := []string{}
	for name := range is {
		if old, ok := was[name]; !ok || !sameJSON(old, is[name]) {
			out = append(out, name)
		}
	}
	for name := range was {
		if _, ok := is[name]; !ok {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out[:min(len(out), maxNamedParams)]
}

// sameJSON reports whether two documents have the same value.
func sameJSON(a, b json.RawMessage) bool {
	var x, y any
	return bytes.Equal(a, b) || json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil && reflect.DeepEqual(x, y)
}

// sameRerun returns REQUEST_ID_CONFLICT when the request id created a run that is not this rerun.
func (s *Starter) sameRerun(ctx context.Context, r store.Run, params json.RawMessage, pin run.Rerun) error {
	was, err := RerunOf(ctx, s.store, r)
	if err != nil {
		return control.Translate(err)
	}
	if was == nil || was.RunID != pin.RunID || !reflect.DeepEqual(was.From, pin.From) || !sameJSON(r.Params, params) {
		return control.Refuse(run.CodeRequestConflict,
			"The request id %s already started another run of this plan. Use a new id.",
			r.RequestID)
	}
	return nil
}

// CheckBulkRerun checks the input of a rerun of many runs: all but the ids.
func (s *Starter) CheckBulkRerun(in Rerun) error {
	if _, vs := s.rerunProblems(in); len(vs) > 0 {
		return control.BadInput(vs)
	}
	return nil
}

// checkRerun checks the input and returns every violation, or the steps that are to run again. Only a bulk may use its
// reserved request ids.
func (s *Starter) checkRerun(in Rerun, ofBulk bool) (run.RerunFrom, error) {
	vs := control.CheckID(nil, "runRequestId", in.RequestID)
	if !ofBulk {
		vs = checkRequestNotReserved(vs, in.RequestID)
	}
	from, problems := s.rerunProblems(in)
	if vs = append(vs, problems...); len(vs) > 0 {
		return run.RerunFrom{}, control.BadInput(vs)
	}
	return from, nil
}

// checkRequestNotReserved adds a violation for a client's request id that could be the id of a bulk's rerun.
func checkRequestNotReserved(vs []plan.Violation, id string) []plan.Violation {
	if !strings.HasPrefix(id, store.BulkSignalPrefix) {
		return vs
	}
	return append(vs, plan.Violation{Path: "runRequestId", Code: "INVALID", Message: "must not begin with " +
		store.BulkSignalPrefix + ", which the reruns of bulks have"})
}

func (s *Starter) rerunProblems(in Rerun) (run.RerunFrom, []plan.Violation) {
	var vs []plan.Violation
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
	if len(in.Params) > s.rules.MaxParamsBytes {
		bad("params", "RANGE", "must be at most %d bytes", s.rules.MaxParamsBytes)
	}
	vs = checkNotHidden(vs, in.Params, "give the value, or leave params out to keep those of the earlier run")
	if len(in.Reason) > maxReason {
		bad("reason", "RANGE", "must be at most %d bytes", maxReason)
	}
	return run.RerunFrom{Start: in.Start, Failed: in.Failed,
		Steps: slices.Compact(slices.Sorted(slices.Values(in.Steps)))}, control.CheckText(vs, "reason", in.Reason)
}

// Why a run cannot be rerun.
const (
	StillActive         = "The run has not ended, and only a run that has ended can be rerun."
	EverythingSucceeded = "Every step succeeded. Rerun it from the start, or choose the steps to run again."
)

// maxNamedSteps bounds the steps that a message names. The violations have all of them.
const maxNamedSteps = 5

// rerunPlan returns the steps whose results a rerun takes over, in canonical order: those that succeeded and depend on
// no step that runs again. A step that an operator skipped did not succeed. It returns a *Error when the rerun is not
// possible.
func rerunPlan(st run.State, from run.RerunFrom) ([]string, *control.Error) {
	if !st.RunStatus().Terminal() {
		return nil, control.Refuse(
			run.CodeInvalidRunState, "%s Cancel it or wait for its end.", StillActive)
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
			run.CodeInvalidRunState, EverythingSucceeded)
	}
	var vs []plan.Violation
	var unknown []string
	for i, id := range from.Steps {
		if !known[id] {
			unknown = append(unknown, strconv.Quote(id))
			vs = append(vs, plan.Violation{Path: fmt.Sprintf("from.steps[%d]", i), Code: "UNKNOWN",
				Message: fmt.Sprintf("the run has no step %q", id)})
		}
		todo = append(todo, id)
	}
	if len(vs) > 0 {
		e := control.Refuse(run.CodeStepNotFound, "The run has no step %s. Look at its list of steps.",
			strings.Join(unknown[:min(len(unknown), maxNamedSteps)], ", "))
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
