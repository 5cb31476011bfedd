package runs

import (
	"cmp"
	"context"
	"fmt"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/engine/interp"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// previewStart makes the checks of StartRun.
func (s *Previewer) previewStart(ctx context.Context, p authz.Principal, in StartRun) (ActionPreview, error) {
	if err := s.starter.checkStart(in); err != nil {
		return ActionPreview{}, err
	}
	o := authz.Object{TenantID: p.TenantID, ProjectID: in.ProjectID, EnvironmentID: in.EnvironmentID}
	allowed, denial, err := s.previewRights(p, authz.Start, o)
	if err != nil || !allowed {
		return denial, err
	}
	pinned, err := s.starter.planOf(p, in)
	if err != nil {
		return ActionPreview{}, err
	}
	ref := pinned.ref
	if ref.Expired(s.rights.Now()) {
		return ActionPreview{}, control.BadInput(expiredRef())
	}
	if e := s.starter.admission.Modes.CheckAdmits(p.TenantID); e != nil {
		return RefusedPreview(run.State{}, e.Code, e.Message), nil //nolint:nilerr // a refusal is what a preview answers
	}
	e, err := s.starter.admission.Sandboxes.SandboxRefusal(ctx, run.Identity{TenantID: p.TenantID,
		ProjectID:     in.ProjectID,
		EnvironmentID: in.EnvironmentID}, ref, pinned.plan)
	if err != nil {
		return ActionPreview{}, control.Translate(err)
	}
	if e != nil {
		return RefusedPreview(run.State{}, e.Code, e.Message), nil //nolint:nilerr // a refusal is what a preview answers
	}
	v := previewing{out: ActionPreview{Outcome: "APPLY", Status: run.Running,
		Reason: fmt.Sprintf("A run of plan %s %s starts.", ref.PlanID, ref.PlanVersion)}}
	approvals := v.addApproval(s.approver, o, p.ID)
	if end := plan.SchemaEnd(ref.SchemaVersion); end != "" {
		v.warn("The schema version %s of the plan is deprecated: dvt reads it until %s.", ref.SchemaVersion, end)
	}
	if pinned.plan == nil {
		v.warn("The plan is fetched and checked when the run starts: its steps are not known yet.")
		err = s.holdStart(ctx, &v, o, approvals)
		return v.out, err
	}
	v.sk = pinned.plan.Skeleton(s.checker.plans.Queues)
	v.warnOfWaits(*pinned.plan)
	v.found = interp.PreviewStart(v.sk, interp.Config{Policy: pinned.policy}, s.rights.Now())
	v.changes()
	err = s.holdStart(ctx, &v, o, approvals)
	return v.out, err
}

// holdStart corrects the preview of a new run that does not start at once, because it waits for approval or in the
// queue: the queue would be a surprise otherwise, and a run that waits there too long fails.
func (s *Previewer) holdStart(ctx context.Context, v *previewing, o authz.Object, approvals bool) error {
	if approvals {
		v.holdChanges("Starts when the run is approved.")
		return nil
	}
	e, err := s.approver.views.queue.Foresee(ctx, o.TenantID, o.ProjectID)
	if err != nil || e == nil {
		return err
	}
	v.out.Status, v.out.Reason = run.Pending, "A new run is created, and waits in the queue."
	why := queueWhy[e.Why]
	if e.Slots != nil && e.Slots.Max > 0 {
		why = fmt.Sprintf("%d of %d run slots are in use", e.Slots.Active, e.Slots.Max)
	}
	waits := fmt.Sprintf("It waits as number %d in the queue of project %s", e.Position, o.ProjectID)
	if why != "" {
		waits += ": " + why
	}
	if !e.ExpiresAt.IsZero() {
		waits += ". It fails at " + e.ExpiresAt.UTC().Format("15:04:05") + " UTC if it still waits then"
	}
	v.warn("%s.", waits)
	v.holdChanges("Starts when the run leaves the queue.")
	return nil
}

// queueWhy says why a run waits in the queue. The number of slots says more than WaitSlot.
var queueWhy = map[store.WaitReason]string{ //nolint:gochecknoglobals // a table
	store.WaitQuota: "the quota of starts is used up for now", store.WaitSlot: "all run slots are in use",
	store.WaitTurn: "other runs of the project go first", store.WaitHold: "new runs are on hold",
}

// warnOfWaits warns of steps that wait for a person without a limit, because their timeout may look like one.
func (v *previewing) warnOfWaits(pl plan.Plan) {
	var names []string
	for _, s := range pl.Steps {
		if s.WaitsForever() {
			names = append(names, cmp.Or(s.Name, s.StepID))
		}
	}
	if len(names) > 0 {
		v.warn("Waits for a person without a limit: %s. The timeout of the step does not end the wait; manual.timeout does.",
			firstFew(names))
	}
}

// holdChanges corrects the changes of a new run that waits: nothing starts before.
func (v *previewing) holdChanges(why string) {
	for i, c := range v.out.Changes {
		if c.To == run.StepRunning {
			v.out.Changes[i].To, v.out.Changes[i].Why = run.StepPending, why
		}
	}
}

// PreviewRerun makes the checks of Rerun, except that it does not look for an earlier run of the same request id.
func (s *Previewer) PreviewRerun(ctx context.Context, p authz.Principal, in Rerun) (ActionPreview, error) {
	out, _, err := s.previewRerun(ctx, p, in)
	return out, err
}

// previewQueuedRerun is PreviewRerun that also says whether the new run would wait in the queue, which costs more
// reads.
func (s *Previewer) previewQueuedRerun(ctx context.Context, p authz.Principal, in Rerun) (ActionPreview, error) {
	out, o, err := s.previewRerun(ctx, p, in)
	if err != nil || out.Status != run.Running {
		return out, err
	}
	v := previewing{out: out}
	err = s.holdStart(ctx, &v, o, false)
	return v.out, err
}

// previewRerun returns the preview, and where the new run would be.
func (s *Previewer) previewRerun(ctx context.Context, p authz.Principal, in Rerun) (ActionPreview, authz.Object,
	error) {
	r, err := s.rights.GetVisible(ctx, p, authz.Rerun, in.RunID)
	if err != nil {
		return ActionPreview{}, authz.Object{}, err
	}
	from, err := s.starter.checkRerun(in, false)
	if err != nil {
		return ActionPreview{}, authz.Object{}, err
	}
	o := control.ObjectOf(r.Identity)
	allowed, denial, err := s.previewRights(p, authz.Rerun, o)
	if err != nil || !allowed {
		return denial, o, err
	}
	l, err := s.store.Load(ctx, in.RunID)
	if err != nil {
		return ActionPreview{}, authz.Object{}, err
	}
	reuse, refusal := rerunPlan(l.State, from)
	if refusal != nil {
		//nolint:nilerr // a refusal is what a preview answers
		return RefusedPreview(l.State, refusal.Code, refusal.Message), o, nil
	}
	if e := s.starter.admission.Modes.CheckAdmits(p.TenantID); e != nil {
		return RefusedPreview(l.State, e.Code, e.Message), o, nil //nolint:nilerr // a refusal is what a preview answers
	}
	e, err := s.starter.admission.Sandboxes.SandboxRefusal(ctx, r.Identity, r.PlanRef, nil)
	if err != nil {
		return ActionPreview{}, o, control.Translate(err)
	}
	if e != nil {
		return RefusedPreview(l.State, e.Code, e.Message), o, nil //nolint:nilerr // a refusal is what a preview answers
	}
	pl, known, err := s.checker.plans.planOfRun(ctx, r)
	if err != nil {
		return ActionPreview{}, authz.Object{}, err
	}
	v := previewing{st: l.State, sk: pl.Skeleton(s.checker.plans.Queues), out: ActionPreview{
		BasedOnSeq: l.State.Seq, Outcome: "APPLY", Status: run.Running, Reason: "A new run of the same plan starts.",
	}}
	approvals := v.addApproval(s.approver, o, p.ID)
	chains, _, err := ReadChains(ctx, s.store, r.TenantID, []string{in.RunID})
	if err != nil {
		return ActionPreview{}, authz.Object{}, err
	}
	if newest, ok := chains.Newest(in.RunID); ok {
		v.warn("%s", AlreadyRerunAs(newest))
	}
	if in.Params != nil && len(reuse) > 0 && !sameJSON(in.Params, r.Params) {
		v.warn("The kept results were computed with the earlier parameters.")
	}
	if !known {
		v.warn("The plan is fetched and checked when the run starts: its steps are not known yet.")
		return v.out, o, nil
	}
	reused := ordsOf(pl, reuse)
	v.found = interp.PreviewStart(v.sk, interp.Config{Policy: s.starter.rules.Policy.For(pl), Reused: reused},
		s.rights.Now())
	if v.rerun(reused); approvals {
		v.holdChanges("Starts when the run is approved.")
	}
	return v.out, o, nil
}

// rerun adds a change for each step: its result is taken over, or it runs again.
func (v *previewing) rerun(reused []run.Ord) {
	over, first := map[run.Ord]bool{}, map[run.Ord]bool{}
	for _, o := range reused {
		over[o] = true
	}
	for _, c := range v.found.Changes {
		first[c.Ord] = true
	}
	for i, s := range v.sk.Steps {
		o := run.Ord(i)
		c := StepChange{StepID: s.StepID, Kind: "RERUN", From: v.status(s.StepID), To: run.StepPending,
			Why: "Runs again after its dependencies finish."}
		switch {
		case over[o]:
			c.Kind, c.To, c.Why = "REUSE", run.StepSuccess, "Its result is kept."
		case first[o]:
			c.To, c.Why = run.StepRunning, "Runs again at once."
		}
		v.out.Changes = append(v.out.Changes, c)
	}
}
