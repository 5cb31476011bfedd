package runs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/control/nodes"
	"github.com/dvt-engine/dvt/internal/secretvalue"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// SignalChecker checks the content of signals. It is safe for concurrent use.
type SignalChecker struct {
	plans  *PlanReader
	Limits Limits
	nodes  NodeSource
	sets   *nodes.Sets
}

// NewSignalChecker makes a SignalChecker.
func NewSignalChecker(plans *PlanReader, limits Limits) *SignalChecker {
	return &SignalChecker{plans: plans, Limits: limits}
}

// CheckSignal checks the content of a signal without the state of its run. Errors: NOT_SUPPORTED, SIGNAL_TOO_LARGE, or
// BAD_USER_INPUT with every violation. It reads the plan only with whole set, because only a caller who may send the
// signal may learn about the plan. It does not check the signalId.
func (s *SignalChecker) CheckSignal(ctx context.Context, r store.Run, in SignalRun, whole bool) error {
	c := &content{sig: in.Signal, path: "signal"}
	if whole {
		c.step = func() (plan.Step, bool, error) { return s.stepOf(ctx, r, in.Signal.StepID) }
	}
	switch in.Signal.Type {
	case run.Pause, run.Resume, run.Cancel:
	case run.RetryStep, run.SkipStep, run.UpdateParams, run.InjectOverride, run.EscalateAlert, run.UpdateTarget,
		run.EmergencyStop:
		c.path += "." + member[in.Signal.Type]
	default:
		return control.Refuse(run.CodeNotSupported, "%q is not a signal that this version knows.", in.Signal.Type)
	}
	if err := s.checkSize(in); err != nil {
		return err
	}
	c.found = control.CheckText(nil, c.path+".reason", in.Reason)
	switch in.Signal.Type {
	case run.RetryStep, run.SkipStep:
		c.stepID()
		c.nodes(in)
	case run.UpdateParams:
		if in.Signal.StepID != "" {
			c.stepID()
		}
		p, err := run.PayloadOf[updateParams](in.Payload)
		c.changes("newParams", p.NewParams, err)
	case run.InjectOverride:
		c.stepID()
		c.reason(in.Reason)
		p, err := run.PayloadOf[injectOverride](in.Payload)
		if err := c.inputs(p.Override, err); err != nil {
			return err
		}
	case run.UpdateTarget:
		c.stepID()
		c.reason(in.Reason)
		p, err := run.PayloadOf[updateTarget](in.Payload)
		if err := c.target(p, err); err != nil {
			return err
		}
	case run.EscalateAlert:
		p, err := run.PayloadOf[escalateAlert](in.Payload)
		if err != nil || !slices.Contains(store.AlertLevels(), p.Level) {
			c.add("level", plan.CodeInvalid, "use LOW, MEDIUM or HIGH")
		}
		c.found = control.CheckText(c.found, c.path+".note", p.Note)
	case run.EmergencyStop:
		c.reason(in.Reason)
	}
	if len(c.found) > 0 {
		return control.BadInput(c.found)
	}
	return nil
}

// checkSize bounds a signal by the bytes of its payload and of its reason (contract T96, W-12).
func (s *SignalChecker) checkSize(in SignalRun) error {
	most := s.Limits.MaxSignalBytes
	size := len(in.Payload)
	if t := in.Signal.Type; t == run.UpdateParams || t == run.InjectOverride {
		most = s.Limits.MaxOverlayBytes
	}
	if len(in.Reason) > s.Limits.MaxSignalBytes {
		size, most = len(in.Reason), s.Limits.MaxSignalBytes
	}
	if size <= most {
		return nil
	}
	e := control.Refuse(run.CodeSignalTooLarge, "The signal has %d bytes; at most %d are allowed.", size, most)
	e.Limit = int64(most)
	return e
}

// member maps each signal type to the name of its member of the @oneOf.
var member = map[run.SignalType]string{ //nolint:gochecknoglobals // a table
	run.RetryStep: "retryStep", run.SkipStep: "skipStep", run.UpdateParams: "updateParams",
	run.InjectOverride: "injectOverride",
	run.EscalateAlert:  "escalateAlert", run.UpdateTarget: "updateTarget", run.EmergencyStop: "emergencyStop",
}

// content collects the violations of one signal.
type content struct {
	sig   run.Signal
	path  string
	step  func() (plan.Step, bool, error) // reads the step from the plan; nil when the plan must not be read
	found []plan.Violation
}

func (c *content) add(field, code, format string, args ...any) {
	c.found = append(c.found, plan.Violation{Path: c.path + "." + field, Code: code,
		Message: fmt.Sprintf(format, args...)})
}

func (c *content) stepID() { c.found = control.CheckID(c.found, c.path+".stepId", c.sig.StepID) }

func (c *content) reason(reason string) {
	if strings.TrimSpace(reason) == "" {
		c.add("reason", plan.CodeMissing, "say why; it is kept in the audit")
	}
}

// changes checks a merge patch. It reports whether the patch can be applied.
func (c *content) changes(field string, patch json.RawMessage, err error) bool {
	var members map[string]json.RawMessage
	if err != nil || json.Unmarshal(patch, &members) != nil || members == nil {
		c.add(field, plan.CodeInvalid, "must be an object of what to change, such as {\"name\": \"value\"}")
		return false
	}
	if len(members) == 0 {
		c.add(field, plan.CodeMissing, "name at least one member to change")
	}
	secretvalue.EachSecret(patch, c.path+"."+field, func(path string) {
		c.found = append(c.found, plan.Violation{
			Path: path, Code: plan.CodeLiteral, Message: "remove it: a signal must not contain a secret; the plan " +
				"names secrets by provider and key in secretRefs",
		})
	})
	return true
}

// inputs checks that the type of the step accepts its inputs with the override. The check uses the inputs of the plan
// alone: overlays that are valid one by one are valid together.
func (c *content) inputs(override json.RawMessage, err error) error {
	if !c.changes("override", override, err) || c.step == nil {
		return nil
	}
	step, found, err := c.step()
	if err != nil || !found {
		return err // run.Judge reports a missing step
	}
	var invalid *plan.InvalidError
	if errors.As(plan.CheckInputs(step.Type, plan.MergePatch(step.Inputs, override)), &invalid) {
		for _, v := range invalid.Violations {
			c.add("override"+strings.TrimPrefix(v.Path, "inputs"), v.Code, "%s", v.Message)
		}
	}
	return nil
}

// target checks the payload of an UPDATE_TARGET.
func (c *content) target(p updateTarget, err error) error {
	t := p.NewTarget
	if err != nil || t.DestinationDB == nil && t.Schema == nil {
		c.add("newTarget", plan.CodeMissing, "name the destinationDb, the schema, or both")
	}
	for _, f := range []struct {
		name  string
		value *string
	}{{"destinationDb", t.DestinationDB}, {"schema", t.Schema}} {
		if f.value != nil && (strings.TrimSpace(*f.value) == "" || strings.ContainsFunc(*f.value, unicode.IsControl)) {
			c.add("newTarget."+f.name, plan.CodeInvalid, "give a name, or leave it out")
		}
	}
	if c.step == nil {
		return nil
	}
	step, found, err := c.step()
	if err == nil && found && !hasTarget(string(step.Type)) {
		c.add("stepId", plan.CodeInvalid, "%s", noTargetMessage(step.StepID, string(step.Type)))
	}
	return err
}

// hasTarget reports whether steps of a type have a target (contract T197).
func hasTarget(stepType string) bool {
	switch plan.StepType(stepType) {
	case plan.DBTCompile, plan.DBTRun, plan.DBTTest:
		return true
	}
	return false
}

func noTargetMessage(stepID, stepType string) string {
	return fmt.Sprintf("step %q is a %s step; only dbt steps have a target. Override its inputs instead",
		stepID, stepType)
}

// stepOf reads a step of the run's plan. It returns false when the plan has no such step, or when the run has not
// started and its plan is therefore not stored.
func (s *SignalChecker) stepOf(ctx context.Context, r store.Run, stepID string) (plan.Step, bool, error) {
	pl, known, err := s.plans.planOfRun(ctx, r)
	if err != nil || !known {
		return plan.Step{}, false, control.Translate(err)
	}
	i := slices.IndexFunc(pl.Steps, func(s plan.Step) bool { return s.StepID == stepID })
	if i < 0 {
		return plan.Step{}, false, nil
	}
	return pl.Steps[i], true, nil
}
