package runs

import (
	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/run"
)

// ActionReader reports which actions principals may take on runs. It does no I/O. It is safe for concurrent use.
type ActionReader struct {
	rights   *control.Rights
	approver *Approver
}

// NewActionReader makes an ActionReader.
func NewActionReader(rights *control.Rights, approver *Approver) *ActionReader {
	return &ActionReader{rights: rights, approver: approver}
}

// runSignals and stepSignals are the signals that people send to a run and to a step, in the order of display.
var (
	//nolint:gochecknoglobals // a table
	runSignals = []run.SignalType{run.Pause, run.Resume, run.UpdateParams, run.EscalateAlert, run.Cancel,
		run.EmergencyStop}
	//nolint:gochecknoglobals // a table
	stepSignals = []run.SignalType{run.RetryStep, run.SkipStep, run.UpdateParams, run.InjectOverride, run.UpdateTarget}
)

// Actions reports what p may do to the run and its steps now, and otherwise why not. It checks the policy first and
// then the state, with the functions that decide about the real request (contract T193), so that the answers agree. It
// does no I/O.
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
				a = s.judgeStep(a, v, step, stepSignals[i])
			}
			list[i] = a
		}
		out.Steps[step.StepID] = list
	}
	return out
}

// checkAllowed returns the decision of the policy about signals of a type. When the policy allows them, Outcome is ""
// and the state still has to decide.
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
		a.Reason = authz.NeedsRole(d.RequiredRole, a.Action, o)
	}
	return a
}

// judgeStep completes a with the decision that the type and the state of the step give.
func (s *ActionReader) judgeStep(a ActionAvailability, v control.RunView, step *run.Step,
	t run.SignalType) ActionAvailability {
	if t == run.UpdateTarget && !hasTarget(step.Type) {
		a.Outcome, a.Code, a.Reason = "REFUSED", run.CodeBadInput, noTargetMessage(step.StepID, step.Type)+"."
		return a
	}
	return s.judgeAction(a, v, run.Signal{Type: t, StepID: step.StepID})
}

// judgeAction completes a with the decision that the state of the run gives.
func (s *ActionReader) judgeAction(a ActionAvailability, v control.RunView, sig run.Signal) ActionAvailability {
	d := run.Judge(viewWithRetries{v.State, v.PendingRetry}, sig)
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

// viewWithRetries is a State with the accepted retries that have not begun. The interpreter knows them, but the log
// does not show them in the steps (contract T59).
type viewWithRetries struct {
	run.State
	retries map[string]bool
}

// FindStep implements run.View.
func (l viewWithRetries) FindStep(stepID string) (run.StepView, bool) {
	step, ok := l.State.FindStep(stepID)
	step.RetryPending = l.retries[stepID]
	return step, ok
}

// strength returns how much a person should think before an action (contract T193).
func strength(t run.SignalType) string {
	switch t {
	case run.Pause, run.Resume:
		return "REVERSIBLE"
	case run.Cancel, run.EmergencyStop, run.UpdateParams, run.InjectOverride, run.UpdateTarget:
		return "STRONG"
	}
	return "NORMAL"
}

// reasonRequired reports whether a signal of the type needs a reason; without one it is BAD_USER_INPUT.
func reasonRequired(t run.SignalType) bool {
	return t == run.EmergencyStop || t == run.InjectOverride || t == run.UpdateTarget
}

// Availability lists the actions on a run and its steps with their outcomes.
type Availability struct {
	Run   []ActionAvailability
	Steps map[string][]ActionAvailability // by stepId
}

// ActionAvailability is the outcome that one action would have now.
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
	// MayReject means that the viewer may reject the run now, even while the mode of dvt or a freeze forbids an approval;
	// only for APPROVE.
	MayReject bool
}
