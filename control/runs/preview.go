package runs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/control/nodes"
	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/engine/interp"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// BulkPreview counts the runs that a bulk would target and says what would happen to them now.
type BulkPreview struct {
	Count    int
	Excluded []BulkReason // runs that were named but would not be targeted
	Refusals []BulkReason // runs that would be targeted and whose signal would be refused now
	Samples  []BulkSample
}

// BulkReason is a reason and the number of runs that it applies to.
type BulkReason struct {
	Code   run.Code
	Reason string
	Count  int
}

// BulkSample is the preview for one run.
type BulkSample struct {
	RunID   string
	Status  run.Status // before the action
	Preview ActionPreview
}

// PreviewAction asks what an action would do. Exactly one member is set. The ID of Signal is ignored.
type PreviewAction struct {
	Signal         *SignalRun
	CompleteManual *CompleteManualStep
	Rerun          *Rerun
	Start          *StartRun
	Approve        *ApproveRun
}

// ActionPreview is the effect that an action would have on the current state.
type ActionPreview struct {
	BasedOnSeq run.Seq
	Outcome    string // a value of ActionAvailability.Outcome
	Code       run.Code
	Reason     string
	WhoCould   []string   // at most ten others who may; set only for CodeForbidden
	Status     run.Status // of the run afterwards; "" when refused
	Changes    []StepChange
	Blocked    []string
	Warnings   []string
	Bulk       *BulkPreview // set for a bulk only
	Nodes      *nodes.Set   // set for a retry of nodes only
}

// StepChange is the change of one step.
type StepChange struct {
	StepID   string
	Kind     string // SCHEDULE, RERUN, CANCEL, SKIP, REUSE or CHANGE
	From, To run.StepStatus
	Why      string
}

// PreviewStore reads the state that a preview is computed from.
type PreviewStore interface {
	Load(ctx context.Context, runID string) (store.Loaded, error)
	Receipt(ctx context.Context, runID string, signalID string) (run.SignalReceipt, error)
	Events(ctx context.Context, runID string, after run.Seq, limit int) ([]run.Event, error)
	Approval(ctx context.Context, runID string) (store.Approval, error)
	ChainStore
}

// Previewer computes what actions would do now. It is safe for concurrent use.
type Previewer struct {
	rights    *control.Rights
	store     previewSources
	starter   *Starter
	completer *Completer
	approver  *Approver
	checker   *SignalChecker
}

// previewSources are the facts that previews read.
type previewSources struct {
	PreviewStore
	medians MedianReader
}

// MedianReader reads the usual durations of the steps of a run by stepId.
type MedianReader func(context.Context, authz.Principal, run.Header) (map[string]time.Duration, error)

// UseMedians lets the preview of a PAUSE say until about when steps run on. Call it before the first preview.
func (s *Previewer) UseMedians(read MedianReader) { s.store.medians = read }

// NewPreviewer makes a Previewer.
func NewPreviewer(rights *control.Rights, store PreviewStore, starter *Starter, completer *Completer,
	approver *Approver,
	checker *SignalChecker) *Previewer {
	return &Previewer{rights: rights, store: previewSources{PreviewStore: store}, starter: starter,
		completer: completer, approver: approver, checker: checker}
}

// previewApproval makes the checks of ApproveRun.
func (s *Previewer) previewApproval(ctx context.Context, p authz.Principal, in ApproveRun) (ActionPreview, error) {
	r, err := s.rights.GetVisible(ctx, p, authz.Approve, in.RunID)
	if err != nil {
		return ActionPreview{}, err
	}
	allowed, denial, err := s.previewRights(p, authz.Approve, control.ObjectOf(r.Identity))
	if err != nil || !allowed {
		return denial, err
	}
	v, err := s.approver.views.View(ctx, r)
	if err != nil {
		return ActionPreview{}, err
	}
	at, err := s.approver.views.approvalOf(ctx, in.RunID)
	if err != nil {
		return ActionPreview{}, err
	}
	if at == nil {
		at = &store.Approval{}
	}
	var a ActionAvailability
	if in.Reject {
		s.approver.judgeRejection(&a, p, r.TriggeredBy, *at)
	} else {
		s.approver.judgeApproval(&a, p, control.ObjectOf(r.Identity), r.TriggeredBy, *at)
	}
	out := ActionPreview{BasedOnSeq: v.State.Seq, Outcome: a.Outcome, Code: a.Code, Reason: a.Reason}
	switch {
	case a.Outcome == "APPLY" && in.Reject:
		out.Status = run.Cancelled
	case a.Outcome == "APPLY" && countApprovals(*at)+1 == at.Required:
		out.Status = run.Approved
	case a.Outcome != "REFUSED":
		out.Status = v.State.RunStatus()
	}
	return out, nil
}

// PreviewAction returns what an action would do now. It uses the checks, the policy, the judgement and the interpreter
// that the action itself uses, on the state at the head with all pending signals applied first (contract O10, T193). It
// writes no event, no receipt and no audit row, except the row for a run that the caller may not see. A denial, a state
// that does not allow the action, and RUN_MOVED are previews with the outcome REFUSED. Malformed input returns the
// error that the action would return.
func (s *Previewer) PreviewAction(ctx context.Context, p authz.Principal, in PreviewAction) (ActionPreview, error) {
	var out ActionPreview
	var err error
	switch {
	case in.Signal != nil:
		out, err = s.PreviewSignal(ctx, p, *in.Signal)
	case in.CompleteManual != nil:
		out, err = s.previewCompletion(ctx, p, *in.CompleteManual)
	case in.Rerun != nil:
		out, err = s.previewQueuedRerun(ctx, p, *in.Rerun)
	case in.Start != nil:
		out, err = s.previewStart(ctx, p, *in.Start)
	case in.Approve != nil:
		out, err = s.previewApproval(ctx, p, *in.Approve)
	default:
		err = control.BadInput([]plan.Violation{{Path: "action", Code: plan.CodeInvalid, Message: "choose an action"}})
	}
	return out, control.Translate(err)
}

// PreviewSignal makes the checks of SignalRun.
func (s *Previewer) PreviewSignal(ctx context.Context, p authz.Principal, in SignalRun) (ActionPreview, error) {
	action := authz.Action(in.Signal.Type)
	r, err := s.rights.GetVisible(ctx, p, action, in.RunID)
	if err != nil {
		return ActionPreview{}, err
	}
	allowed, denial, err := s.previewRights(p, action, control.ObjectOf(r.Identity))
	if err != nil {
		return ActionPreview{}, err
	}
	if err := s.checker.CheckSignal(ctx, r, in, allowed); err != nil || !allowed {
		return denial, err
	}
	l, err := s.store.Load(ctx, in.RunID)
	if err != nil {
		return ActionPreview{}, err
	}
	if moved := movedAt(l.State, in.Signal); in.ExpectedRunSeq != nil && moved > *in.ExpectedRunSeq {
		return RefusedPreview(l.State, run.CodeRunMoved, fmt.Sprintf(
			"The part of the run that this signal affects changed at seq %d, after the state you saw.", moved)), nil
	}
	var medians map[string]time.Duration
	if in.Signal.Type == run.Pause && l.State.RunningSteps() > 0 && s.store.medians != nil {
		if medians, err = s.store.medians(ctx, p, l.State.Header); err != nil {
			return ActionPreview{}, err
		}
	}
	chosen, err := s.checker.choose(ctx, r, in, false)
	if err != nil {
		return ActionPreview{}, err
	}
	out, err := s.previewOn(ctx, r, l.State, in.Signal, medians)
	switch {
	case err != nil || !chosen.asked || out.Outcome == "REFUSED":
	case chosen.err != nil && chosen.err.Code == run.CodeBadInput:
		return ActionPreview{}, chosen.err
	case chosen.err != nil:
		return RefusedPreview(l.State, chosen.err.Code, chosen.err.Message), nil //nolint:nilerr // it is the answer
	default:
		out.Nodes = &chosen.set
	}
	return out, err
}

// previewCompletion makes the checks of CompleteManualStep.
func (s *Previewer) previewCompletion(ctx context.Context, p authz.Principal, in CompleteManualStep) (ActionPreview,
	error) {
	r, err := s.rights.GetVisible(ctx, p, authz.CompleteManual, in.RunID)
	if err != nil {
		return ActionPreview{}, err
	}
	if err := s.completer.checkCompletion(in); err != nil {
		return ActionPreview{}, err
	}
	allowed, denial, err := s.previewRights(p, authz.CompleteManual, control.ObjectOf(r.Identity))
	if err != nil || !allowed {
		return denial, err
	}
	if len(s.completer.tasks.Keys) == 0 {
		return ActionPreview{Outcome: "UNSUPPORTED", Code: run.CodeNotSupported, Reason: noManualKeys}, nil
	}
	facts, err := s.completer.tasks.ManualFacts(ctx, r.PlanRef, in.StepID)
	if err != nil {
		return ActionPreview{}, err
	}
	sameOne, err := s.completer.isExcluded(ctx, facts.Sod, in.RunID, r.TriggeredBy, p)
	if err != nil {
		return ActionPreview{}, err
	}
	l, err := s.store.Load(ctx, in.RunID)
	if err != nil {
		return ActionPreview{}, err
	}
	st, sig := l.State, run.Signal{Type: run.CompleteManual, StepID: in.StepID, Outcome: in.Outcome}
	if step, ok := st.Step(in.StepID); ok && step.LogicalAttempt > 0 {
		sig.ExpectedAttempt = step.LogicalAttempt
		_, err := s.store.Receipt(ctx, in.RunID, manualSignalID(in.RunID, in.StepID, step.LogicalAttempt))
		switch {
		case err != nil && !errors.Is(err, store.ErrNotFound):
			return ActionPreview{}, err
		case in.Actor != "" && in.Actor != p.ID:
			return RefusedPreview(st, run.CodeForbidden,
				"You cannot complete a step for somebody else: leave actor out, or give "+
					"your own id."), nil
		case !tokenFits(s.completer.tasks.Keys, in.Token, in.RunID, in.StepID, step.LogicalAttempt):
			return RefusedPreview(st, run.CodeManualToken,
				"This is not the token of the step's latest attempt. Read the task again: "+
					"each retry has a new token."), nil
		case err == nil:
			out := RefusedPreview(st, run.CodeSuperseded, "This attempt was completed already; the first outcome stands.")
			out.Outcome, out.Status = "NOOP", st.RunStatus()
			return out, nil
		case sameOne:
			return RefusedPreview(st, run.CodeSOD, sodReason), nil
		case in.ExpectedRunSeq != nil && step.ChangedSeq > *in.ExpectedRunSeq:
			return RefusedPreview(st, run.CodeRunMoved, fmt.Sprintf("The step changed at seq %d, after the state you saw.",
				step.ChangedSeq)), nil
		}
	}
	return s.previewOn(ctx, r, st, sig, nil)
}

// previewRights checks the policy. When it returns false, the preview is the answer.
func (s *Previewer) previewRights(p authz.Principal, action authz.Action, o authz.Object) (bool, ActionPreview, error) {
	d, err := s.rights.Authz.Decide(p, action, o)
	if err != nil || d.Allowed {
		return d.Allowed, ActionPreview{}, err
	}
	e := s.rights.DenialError(p, action, o, d)
	return false, ActionPreview{Outcome: "REFUSED", Code: run.CodeForbidden, Reason: e.Message,
		WhoCould: e.Denial.WhoCould}, nil
}

// RefusedPreview returns the preview of an action that would be refused.
func RefusedPreview(st run.State, code run.Code, reason string) ActionPreview {
	return ActionPreview{BasedOnSeq: st.Seq, Outcome: "REFUSED", Code: code, Reason: reason}
}

// previewOn previews an admissible signal with the interpreter.
func (s *Previewer) previewOn(ctx context.Context, r store.Run, st run.State, sig run.Signal,
	medians map[string]time.Duration) (ActionPreview, error) {
	if step, ok := st.Step(sig.StepID); ok && sig.Type == run.RetryStep && sig.ExpectedAttempt == 0 {
		sig.ExpectedAttempt = step.LogicalAttempt // a retry without an attempt means the latest one (contract T58)
	}
	pl, known, err := s.checker.plans.planOfRun(ctx, r)
	if err != nil {
		return ActionPreview{}, err
	}
	who := interp.Config{Identity: r.Identity}
	if st.Policy != nil {
		who.Policy = *st.Policy
	}
	if who.Reused, err = s.reusedOf(ctx, r, pl); err != nil {
		return ActionPreview{}, err
	}
	in, err := s.inboxOf(ctx, st)
	if err != nil {
		return ActionPreview{}, err
	}
	sk := pl.Skeleton(s.checker.plans.Queues)
	if !known {
		sk = skeletonFromLog(st)
	}
	sent := engine.Signal{ID: "preview", Type: sig.Type, StepID: sig.StepID, LogicalAttempt: sig.ExpectedAttempt,
		Force:   sig.Force,
		Outcome: sig.Outcome}
	now := s.rights.Now()
	v := previewing{st: st, sk: sk, sig: sig, found: interp.PreviewSignal(sk, who, st, in, sent, now), now: now,
		medians: medians}
	if n := len(in.Pending); n > 0 {
		v.warn("%s on the way and counted in.", control.Plural(n, "signal is", "signals are"))
	}
	if !known {
		v.warn("The plan is not known here, so the preview cannot say which steps can be stopped.")
	}
	return v.answer(), nil
}

// inboxOf reads the signals without a final outcome, and the number of the signal that paused the run.
func (s *Previewer) inboxOf(ctx context.Context, st run.State) (interp.Inbox, error) {
	var in interp.Inbox
	for rc, err := range s.approver.views.receipts.SignalsOf(ctx, st.RunID) {
		if err != nil {
			return in, err
		}
		if !rc.Application.Final() {
			in.Pending = append(in.Pending, EngineSignal(rc))
		}
		if st.Pause != nil && st.Pause.SignalID == rc.Signal.ID {
			in.PauseNo = rc.No
		}
	}
	return in, nil
}

// skeletonFromLog builds a skeleton from the log alone, for a plan that is not known. It lacks what only the plan says.
func skeletonFromLog(st run.State) plan.Skeleton {
	ords := make(map[string]int, len(st.Steps))
	for i, step := range st.Steps {
		ords[step.StepID] = i
	}
	sk := plan.Skeleton{PlanID: st.PlanID, PlanVersion: st.PlanVersion, Steps: make([]plan.SkeletonStep, len(st.Steps))}
	for i, step := range st.Steps {
		s := plan.SkeletonStep{StepID: step.StepID, Type: plan.StepType(step.Type), TaskQueue: step.TaskQueue}
		for _, id := range step.DependsOn {
			if o, ok := ords[id]; ok {
				s.Deps = append(s.Deps, o)
			}
		}
		slices.Sort(s.Deps)
		sk.Steps[i] = s
	}
	return sk
}

// reusedOf returns the steps whose results a rerun takes over.
func (s *Previewer) reusedOf(ctx context.Context, r store.Run, pl plan.Plan) ([]run.Ord, error) {
	pin, err := RerunOf(ctx, s.store, r)
	if pin == nil || err != nil {
		return nil, err
	}
	return ordsOf(pl, pin.Reuse), nil
}

// ordsOf returns the ordinals of steps, ascending.
func ordsOf(pl plan.Plan, ids []string) []run.Ord {
	wanted := make(map[string]bool, len(ids))
	for _, id := range ids {
		wanted[id] = true
	}
	var out []run.Ord
	for i := range pl.Steps {
		if wanted[pl.Steps[i].StepID] {
			out = append(out, run.Ord(i))
		}
	}
	return out
}

// firstFew joins the first five ids and counts the rest.
func firstFew(ids []string) string {
	const most = 5
	if len(ids) <= most {
		return strings.Join(ids, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(ids[:most], ", "), len(ids)-most)
}
