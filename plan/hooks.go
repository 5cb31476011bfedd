package plan

import (
	"encoding/json"
	"slices"
	"strings"
	"time"
)

// wait reads the field "manual" of a step of type t. It returns nil for a step that is not MANUAL. The default of a
// MANUAL step is a wait without a timeout for a person who neither started nor approved the run (contract T83, T87,
// O4).
func (o *object) wait(t StepType) *Wait {
	v, p, ok := o.take("manual")
	if !ok {
		if t == Manual {
			return &Wait{SOD: true}
		}
		return nil
	}
	if t != Manual && t != "" { // an unknown type was reported already
		o.r.report(p, CodeInvalid, "remove this, or make the step %s: only such a step waits for a person", Manual)
		return nil
	}
	w := Wait{SOD: true}
	of, ok := o.r.object(v, p)
	if !ok {
		return nil
	}
	if v, vp, ok := of.take("sod"); ok {
		w.SOD = o.r.boolean(v, vp)
	}
	if v, vp, ok := of.take("timeout"); ok {
		if w.Timeout = o.r.duration(v, vp); w.Timeout > 0 && w.Timeout < minWait {
			o.r.report(vp, CodeRange, "write at least %s, or remove the field to wait without a limit",
				DurationText(minWait))
		}
	}
	of.end()
	return &w
}

// compensation reads the hook of step s. The timeout and sandbox of the step apply where the hook has none.
func (r *reader) compensation(v value, p *at, s Step, q Queues) *Compensation {
	c := Compensation{Timeout: s.Timeout}
	o, ok := r.object(v, p)
	if !ok {
		return nil
	}
	if v, vp, ok := o.need("operation", "the type of the operation that undoes the step, such as COMMAND"); ok {
		c.Operation = r.operation(v, vp)
		r.checkPlane(vp, c.Operation, q)
	}
	if v, vp, ok := o.need("input", "an object with the inputs of the operation, or {}"); ok {
		c.Input = r.inputs(v, vp, c.Operation)
	}
	if v, vp, ok := o.take("timeout"); ok {
		c.Timeout = r.duration(v, vp)
	}
	if v, vp, ok := o.take("sandbox"); ok {
		c.Sandbox = r.sandbox(v, vp, c.Operation, "hook")
	} else if c.Operation.RunsProgram() {
		c.Sandbox = s.Sandbox.Clone()
	}
	o.end()
	return &c
}

func (r *reader) operation(v value, p *at) StepType {
	s, ok := r.text(v, p)
	if !ok {
		return ""
	}
	var all []string
	for _, t := range StepTypes() {
		if t != Manual {
			all = append(all, string(t))
		}
	}
	switch {
	case slices.Contains(all, s):
		return StepType(s)
	case s == string(Manual):
		r.report(p, CodeInvalid, "a compensation cannot wait for a person; use one of %s", strings.Join(all, ", "))
	default:
		r.report(p, CodeUnknown, "%s is not known; use one of %s", quote(s), strings.Join(all, ", "))
	}
	return ""
}

// MarshalJSON writes the timeout as a Go duration, and omits it for a wait without a limit, so that Parse reads the
// result as the same Wait.
func (w Wait) MarshalJSON() ([]byte, error) {
	out := waitFields{SOD: w.SOD}
	if w.Timeout != 0 {
		out.Timeout = w.Timeout.String()
	}
	return json.Marshal(out)
}

// UnmarshalJSON reads the output of MarshalJSON and validates nothing; see Step.
func (w *Wait) UnmarshalJSON(b []byte) error {
	var in waitFields
	if err := json.Unmarshal(b, &in); err != nil {
		return err
	}
	*w = Wait{SOD: in.SOD}
	if in.Timeout == "" {
		return nil
	}
	timeout, err := time.ParseDuration(in.Timeout)
	w.Timeout = timeout
	return err
}

type waitFields struct {
	SOD     bool   `json:"sod"`
	Timeout string `json:"timeout,omitempty"`
}

// MarshalJSON writes the timeout as a Go duration, so that Parse reads the result as the same Compensation.
func (c Compensation) MarshalJSON() ([]byte, error) {
	type fields Compensation
	return json.Marshal(struct {
		fields
		Timeout string `json:"timeout"`
	}{fields(c), c.Timeout.String()})
}

// UnmarshalJSON reads the output of MarshalJSON and validates nothing; see Step.
func (c *Compensation) UnmarshalJSON(b []byte) error {
	type fields Compensation
	in := struct {
		*fields
		Timeout string `json:"timeout"`
	}{fields: (*fields)(c)}
	if err := json.Unmarshal(b, &in); err != nil {
		return err
	}
	timeout, err := time.ParseDuration(in.Timeout)
	c.Timeout = timeout
	return err
}
