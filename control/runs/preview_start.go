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
	if pinned.plan == nil {
		v.warn("The plan is fetched and checked when the run starts: its steps are not known yet.")
		return v.out, nil
	}
	v.sk = pinned.plan.Skeleton(s.checker.plans.Queues)
	v.warnOfWaits(*pinned.plan)
	v.found = interp.PreviewStart(v.sk, interp.Config{Policy: pinned.policy}, s.rights.Now())
	if v.changes(); approvals {
		v.holdChanges()
	}
	return v.out, nil
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

// holdChanges corrects the changes of a new run that waits for approval: nothing starts before.
func (v *previewing) holdChanges() {
	for i, c := range v.out.Changes {
		if c.To == run.StepRunning {
			v.out.Changes[i].To, v.out.Changes[i].Why = run.StepPending, "Starts when the run is approved."
		}
	}
}

// PreviewRerun makes the checks of Rerun, except that it does not look for an earlier run of the same request id.
func (s *Previewer) PreviewRerun(ctx context.Context, p authz.Principal, in Rerun) (ActionPreview, error) {
	r, err := s.rights.GetVisible(ctx, p, authz.Rerun, in.RunID)
	if err != nil {
		return ActionPreview{}, err
	}
	from, err := s.starter.checkRerun(in, false)
	if err != nil {
		return ActionPreview{}, err
	}
	allowed, denial, err := s.previewRights(p, authz.Rerun, control.ObjectOf(r.Identity))
	if err != nil || !allowed {
		return denial, err
	}
	l, err := s.store.Load(ctx, in.RunID)
	if err != nil {
		return ActionPreview{}, err
	}
	reuse, refusal := rerunPlan(l.State, from)
	if refusal != nil {
		//nolint:nilerr // a refusal is what a preview answers
		return RefusedPreview(l.State, refusal.Code, refusal.Message), nil
	}
	if e := s.starter.admission.Modes.CheckAdmits(p.TenantID); e != nil {
		return RefusedPreview(l.State, e.Code, e.Message), nil //nolint:nilerr // a refusal is what a preview answers
	}
	e, err := s.starter.admission.Sandboxes.SandboxRefusal(ctx, r.Identity, r.PlanRef, nil)
	if err != nil {
		return ActionPreview{}, control.Translate(err)
	}
	if e != nil {
		return RefusedPreview(l.State, e.Code, e.Message), nil //nolint:nilerr // a refusal is what a preview answers
	}
	pl, known, err := s.checker.plans.planOfRun(ctx, r)
	if err != nil {
		return ActionPreview{}, err
	}
	v := previewing{st: l.State, sk: pl.Skeleton(s.checker.plans.Queues), out: ActionPreview{
		BasedOnSeq: l.State.Seq, Outcome: "APPLY", Status: run.Running, Reason: "A new run of the same plan starts.",
	}}
	approvals := v.addApproval(s.approver, control.ObjectOf(r.Identity), p.ID)
	chains, _, err := ReadChains(ctx, s.store, r.TenantID, []string{in.RunID})
	if err != nil {
		return ActionPreview{}, err
	}
	if newest, ok := chains.Newest(in.RunID); ok {
		v.warn("%s", AlreadyRerunAs(newest))
	}
	if in.Params != nil && len(reuse) > 0 && !sameJSON(in.Params, r.Params) {
		v.warn("The kept results were computed with the earlier parameters.")
	}
	if !known {
		v.warn("The plan is fetched and checked when the run starts: its steps are not known yet.")
		return v.out, nil
	}
	reused := ordsOf(pl, reuse)
	v.found = interp.PreviewStart(v.sk, interp.Config{Policy: s.starter.rules.Policy.For(pl), Reused: reused},
		s.rights.Now())
	if v.rerun(reused); approvals {
		v.holdChanges()
	}
	return v.out, nil
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
