package control

import (
	"fmt"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/run"
)

// Actions says what p may do to the run and its steps if it were done now, and
// why not: the policy first, then the state, by the same functions that decide
// when it is really asked (T193). It does no I/O.
func (s *Service) Actions(p authz.Principal, v RunView) Availability {
	o := objectOf(v.State.Identity)
	out := Availability{Steps: map[string][]ActionAvailability{}}
	for _, t := range []run.SignalType{run.Pause, run.Resume, run.Cancel} {
		out.Run = append(out.Run, s.availability(p, o, v, run.Signal{Type: t}))
	}
	retry := s.availability(p, o, v, run.Signal{Type: run.RetryStep})
	for _, step := range v.State.Steps {
		a := retry
		if a.Code != run.CodeForbidden && a.Code != run.CodeUnavailable {
			a = s.judged(a, v, run.Signal{Type: run.RetryStep, StepID: step.StepID})
		}
		out.Steps[step.StepID] = []ActionAvailability{a}
	}
	return out
}

// availability decides by the policy, then, for an action on the whole run, by its state.
func (s *Service) availability(p authz.Principal, o authz.Object, v RunView, sig run.Signal) ActionAvailability {
	a := ActionAvailability{Action: authz.Action(sig.Type), Strength: strength(sig.Type)}
	d, err := s.cfg.Authz.Decide(p, a.Action, o)
	a.Rule, a.RequiredRole = d.Rule, d.RequiredRole
	switch {
	case err != nil:
		a.Outcome, a.Code, a.Reason = "REFUSED", run.CodeUnavailable, "The access policy cannot be read now. Try again."
	case !d.Allowed:
		a.Outcome, a.Code = "REFUSED", run.CodeForbidden
		a.WhoCould = s.cfg.Authz.WhoCould(a.Action, o)
		a.Reason = fmt.Sprintf("Needs the role %s on %s/%s.", d.RequiredRole, o.ProjectID, o.EnvironmentID)
	case sig.Type != run.RetryStep:
		return s.judged(a, v, sig)
	}
	return a
}

// judged adds what the state says.
func (s *Service) judged(a ActionAvailability, v RunView, sig run.Signal) ActionAvailability {
	d := run.Judge(v.State, sig)
	a.Code, a.Reason = d.Code, d.Message
	switch d.Outcome {
	case run.Accept:
		a.Outcome = "APPLY"
		if sig.StepID != "" && v.PendingRetry[sig.StepID] {
			a.Outcome, a.Code, a.Reason = "NOOP", run.CodeSuperseded, "A retry of this step is already on its way."
		}
	case run.Noop:
		a.Outcome = "NOOP"
	default:
		a.Outcome = "REFUSED"
	}
	return a
}

func strength(t run.SignalType) string {
	switch t {
	case run.Pause, run.Resume:
		return "REVERSIBLE"
	case run.Cancel, run.EmergencyStop:
		return "STRONG"
	}
	return "NORMAL"
}
