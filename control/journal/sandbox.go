package journal

import (
	"context"
	"fmt"

	"github.com/dvt-engine/dvt/control/admission"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// sandboxCeiling returns the ceiling that the policy sets now for the programs of a run. It returns
// store.ErrUnavailable when the policy cannot be read: no program starts without its ceiling, and the worker retries
// the call.
func (j *Journal) sandboxCeiling(id run.Identity) (plan.SandboxCeiling, error) {
	if j.cfg.Sandbox == nil {
		return plan.SandboxCeiling{}, nil
	}
	ceiling, err := j.cfg.Sandbox(id.TenantID, id.ProjectID, id.EnvironmentID)
	if err != nil {
		return plan.SandboxCeiling{}, fmt.Errorf("%w: the ceilings of sandboxes: %w", store.ErrUnavailable, err)
	}
	return ceiling, nil
}

// applyCeiling restricts the sandbox of a step to the ceiling, and returns the limits for the defaults of the worker. A
// policy that changed after the run was admitted applies to the steps that begin afterwards.
func applyCeiling(s *plan.Step, ceiling plan.SandboxCeiling) plan.SandboxLimits {
	if !s.Type.RunsProgram() {
		return plan.SandboxLimits{}
	}
	s.Sandbox = ceiling.Apply(s.Sandbox)
	return ceiling.Limits
}

// sandboxFailure returns the failure that ends a run before its first step when its programs must not or cannot run in
// the requested sandboxes; nil otherwise. It repeats the check of StartRun for plans by reference and for runs that
// waited. A queue without reports is no failure here, because the accepted run waits for a worker. Runs that have
// started are not failed.
func (j *Journal) sandboxFailure(ctx context.Context, f *RunFacts) (*run.FailurePayload, error) {
	ceiling, err := j.sandboxCeiling(f.run.Identity)
	if err != nil {
		return nil, err
	}
	refusal, err := admission.SandboxRule{Workers: j.cfg.Store.Workers, Queues: j.cfg.Queues, Ceiling: ceiling}.Check(ctx,
		f.plan,
		true)
	if err != nil || refusal == nil {
		return nil, err
	}
	l, err := j.cfg.Store.Runs.Load(ctx, f.run.RunID)
	if err != nil || l.State.StartedAt != nil {
		return nil, err
	}
	message := refusal.Message
	if refusal.Code == run.CodeSandboxDenied {
		message = fmt.Sprintf("%s: %s: %s", message, refusal.Violations[0].Path, refusal.Violations[0].Message)
	}
	return &run.FailurePayload{
		ErrorCode: string(refusal.Code), ErrorMessage: message, FailureCategory: run.CategoryUser, FailureSource: "planner",
	}, nil
}
