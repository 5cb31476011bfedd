package runs

import (
	"fmt"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/run"
)

// ActionReader says what principals may do to runs. It does no I/O. It is safe for concurrent use.
type ActionReader struct {
	rights   *control.Rights
	approver *Approver
}

// NewActionReader makes a ActionReader.
func NewActionReader(rights *control.Rights, approver *Approver) *ActionReader {
	return &ActionReader{rights: rights, approver: approver}
}

// The signals that people send to a run and to a step, in the order in which they
// see them.
var (
	//nolint:gochecknoglobals // a table
	runSignals = []run.SignalType{run.Pause, run.Resume, run.UpdateParams, run.EscalateAlert, run.Cancel,
		run.EmergencyStop}
	//nolint:gochecknoglobals // a table
	stepSignals = []run.SignalType{run.RetryStep, run.SkipStep, run.UpdateParams, run.InjectOverride, run.UpdateTarget}
)

// Actions says what p may do to the run and its steps if it were done now, and
// why not: the policy first, then the state, by the same functions that decide
// when it is really asked (T193). It does no I/O.
func (s *ActionReader) Actions(p authz.Principal, v control.RunView) Availability {
	o := control.ObjectOf(v.State.Identity)
	out := Availability{Steps: make(map[string][]ActionAvailability, len(v.State.Steps))}
	for _, t := range runSignals {
		a := s.checkAllowed(p, o, t)
		if a.Outcome == "" {
			a = s.judgeAction(a, v, run.Signal{Type: t})
		}
		out.Run = append(out.Run, a)
	}
	if v.Approval != nil {
		out.Run = append(out.Run, s.approver.mayApprove(p, o, v))
	}
	of := make([]ActionAvailability, len(stepSignals))
	for i, t := range stepSignals {
		of[i] = s.checkAllowed(p, o, t)
	}
	for _, step := range v.State.Steps {
		list := make([]ActionAvailability, len(of))
		for i, a := range of {
			if a.Outcome == "" {
				a = s.ofStep(a, v, step, stepSignals[i])
			}
			list[i] = a
		}
		out.Steps[step.StepID] = list
	}
	return out
}

// checkAllowed is what the policy says of signals of a type; an Outcome of "" leaves the
// rest to the state.
func (s *ActionReader) checkAllowed(p authz.Principal, o authz.Object, t run.SignalType) ActionAvailability {
	a := ActionAvailability{Action: authz.Action(t), Strength: strength(t), ReasonRequired: reasonRequired(t)}
	d, err := s.rights.Authz.Decide(p, a.Action, o)
	a.Rule, a.RequiredRole = d.Rule, d.RequiredRole
	switch {
	case err != nil:
		a.Outcome, a.Code, a.Reason = "REFUSED", run.CodeUnavailable, "The access policy cannot be read now. Try again."
	case !d.Allowed:
		a.Outcome, a.Code = "REFUSED", run.CodeForbidden
		a.WhoCould = s.rights.Authz.WhoCould(a.Action, o)
		a.Reason = fmt.Sprintf("Needs the role %s on %s/%s.", d.RequiredRole, o.ProjectID, o.EnvironmentID)
	}
	return a
}

// ofStep adds what the state and the kind of the step say.
func (s *ActionReader) ofStep(a ActionAvailability, v control.RunView, step *run.Step,
	t run.SignalType) ActionAvailability {
	if t == run.UpdateTarget && !hasTarget(step.Type) {
		a.Outcome, a.Code, a.Reason = "REFUSED", run.CodeBadInput, noTarget(step.StepID, step.Type)+"."
		return a
	}
	return s.judgeAction(a, v, run.Signal{Type: t, StepID: step.StepID})
}

// judgeAction adds what the state says.
func (s *ActionReader) judgeAction(a ActionAvailability, v control.RunView, sig run.Signal) ActionAvailability {
	d := run.Judge(latched{v.State, v.PendingRetry}, sig)
	a.Code, a.Reason = d.Code, d.Message
	switch d.Outcome {
	case run.Accept:
		a.Outcome = "APPLY"
	case run.Noop:
		a.Outcome = "NOOP"
	default:
		a.Outcome = "REFUSED"
	}
	return a
}

// latched is a State with the retries that are accepted and have not begun, which
// the interpreter knows of (T59).
type latched struct {
	run.State
	retries map[string]bool
}

// FindStep implements run.View.
func (l latched) FindStep(stepID string) (run.StepView, bool) {
	step, ok := l.State.FindStep(stepID)
	step.RetryPending = l.retries[stepID]
	return step, ok
}

// strength is how much a person should think before an action (T193).
func strength(t run.SignalType) string {
	switch t {
	case run.Pause, run.Resume:
		return "REVERSIBLE"
	case run.Cancel, run.EmergencyStop, run.UpdateParams, run.InjectOverride, run.UpdateTarget:
		return "STRONG"
	}
	return "NORMAL"
}

// reasonRequired reports whether a signal without a reason is BAD_USER_INPUT.
func reasonRequired(t run.SignalType) bool {
	return t == run.EmergencyStop || t == run.InjectOverride || t == run.UpdateTarget
}

// Availability says what may be done to a run and to its steps, and why not.
type Availability struct {
	Run   []ActionAvailability
	Steps map[string][]ActionAvailability // by stepId
}

// ActionAvailability is one action's outcome if it were done now.
type ActionAvailability struct {
	Action         authz.Action
	Outcome        string // APPLY, NOOP, REFUSED or UNSUPPORTED
	Code           run.Code
	Reason         string
	Rule           string
	RequiredRole   authz.Role
	WhoCould       []string
	ReasonRequired bool
	Strength       string // REVERSIBLE, NORMAL or STRONG
}
