package plan

import (
	"encoding/json"
	"slices"
	"time"
)

// Limits and defaults of a step (contract T66, T142).
const (
	MaxTimeout = 7 * 24 * time.Hour // of one attempt

	DefaultMaxAttempts       = 3
	DefaultInitialBackoffMS  = 1_000
	DefaultBackoffMultiplier = 2.0
	DefaultMaxBackoffMS      = 30_000

	maxAttempts           = 10
	minBackoffMS          = 100
	maxBackoffMS          = 24 * 60 * 60 * 1000
	maxMultiplier         = 10
	maxRetryWindowSeconds = int(MaxTimeout / time.Second)
)

// The error classes that retryableErrors may name (contract T67). Errors of the first four classes may be retried.
// Errors of the others are never retried, even if a plan names their class. Errors of all other classes are unknown and
// are retried up to the maximum number of attempts.
const (
	ClassTimeout          = "timeout"
	ClassRateLimit        = "rate_limit"
	ClassTransient        = "transient" // a 5xx of a service
	ClassTransport        = "transport"
	ClassValidation       = "validation"
	ClassPolicyDeny       = "policy_deny"
	ClassAuthDeny         = "auth_deny"
	ClassBusinessConflict = "business_conflict"
)

func errorClasses() []string {
	return []string{
		ClassTimeout, ClassRateLimit, ClassTransient, ClassTransport,
		ClassValidation, ClassPolicyDeny, ClassAuthDeny, ClassBusinessConflict,
	}
}

// The resource classes of a step. The default is Light.
const (
	Light = "light"
	Heavy = "heavy"
)

// reservedStepID stands for the run itself in event keys (contract T13).
const reservedStepID = "RUN"

// minWait is the shortest timeout of a wait for a person.
const minWait = time.Second

// MarshalJSON writes the timeout as a Go duration, so that Parse reads the result as the same step.
func (s Step) MarshalJSON() ([]byte, error) {
	type fields Step
	return json.Marshal(struct {
		fields
		Timeout string `json:"timeout"`
	}{fields(s), s.Timeout.String()})
}

// UnmarshalJSON reads the output of MarshalJSON. It validates nothing; documents of planners must go through Parse.
func (s *Step) UnmarshalJSON(b []byte) error {
	type fields Step
	in := struct {
		*fields
		Timeout string `json:"timeout"`
	}{fields: (*fields)(s)}
	if err := json.Unmarshal(b, &in); err != nil {
		return err
	}
	timeout, err := time.ParseDuration(in.Timeout)
	s.Timeout = timeout
	return err
}

// steps reads the list of steps into canonical order. Violations of the graph as a whole come before those of single
// steps.
func (r *reader) steps(v value, p *at, scope Scope, q Queues) []Step {
	if !v.isArray() {
		r.array(v, p, nil)
		return nil
	}
	var docs []value
	v.each(func(_, val value) bool {
		docs = append(docs, val)
		return len(docs) <= MaxSteps
	})
	switch {
	case len(docs) == 0:
		r.report(p, CodeRange, "add at least one step")
		return nil
	case len(docs) > MaxSteps:
		r.report(p, CodeRange, "split the plan: at most %d steps", MaxSteps)
		return nil
	}
	g := newGraph(docs)
	of := &reader{}
	steps := make([]Step, len(docs))
	for i, doc := range docs {
		steps[i] = of.step(doc, p.item(i), i, g, scope, q)
	}
	g.judge(r, p, steps)
	r.merge(of)
	return g.arrange(steps)
}

func (r *reader) step(v value, p *at, i int, g *graph, scope Scope, q Queues) Step {
	s := Step{Retry: defaultRetry()}
	o, ok := r.object(v, p)
	if !ok {
		return s
	}
	if v, vp, ok := o.need("stepId", "an id that no other step has"); ok {
		if s.StepID, ok = r.id(v, vp); ok && s.StepID == reservedStepID {
			r.report(vp, CodeReserved, "choose another id: RUN stands for the run itself")
		}
	}
	if v, vp, ok := o.need("type", "the type of the step, such as COMMAND"); ok {
		var known []string
		for _, t := range StepTypes() {
			known = append(known, string(t))
		}
		kind, _ := r.oneOf(v, vp, known...)
		s.Type = StepType(kind)
		r.checkPlane(vp, s.Type, q)
	}
	if v, vp, ok := o.take("name"); ok {
		s.Name = r.label(v, vp)
	}
	if v, vp, ok := o.take("group"); ok {
		s.Group = r.label(v, vp)
	}
	if v, vp, ok := o.take("order"); ok {
		g.ordered++
		s.Order, _ = r.integer(v, vp, 1, MaxSteps)
	}
	if v, vp, ok := o.take("dependsOn"); ok {
		g.declared = true
		s.DependsOn = r.dependsOn(v, vp, i, g)
	}
	if v, vp, ok := o.need("inputs", "an object with the inputs of the step's type, or {}"); ok {
		s.Inputs = r.inputs(v, vp, s.Type)
	}
	if v, vp, ok := o.need("timeout", durationHint); ok {
		s.Timeout = r.duration(v, vp)
	}
	if v, vp, ok := o.take("retry"); ok {
		s.Retry = r.retry(v, vp)
	}
	if v, vp, ok := o.take("dispatch"); ok {
		s.Dispatch = r.dispatch(v, vp, s.Type, scope, q)
	}
	if v, vp, ok := o.take("secretRefs"); ok {
		s.SecretRefs = r.secretRefs(v, vp)
	}
	if v, vp, ok := o.take("sandbox"); ok {
		s.Sandbox = r.sandbox(v, vp, s.Type, "step")
	}
	s.Wait = o.wait(s.Type)
	if v, vp, ok := o.take("compensation"); ok {
		s.Compensation = r.compensation(v, vp, s, q)
	}
	o.end()
	return s
}

func (r *reader) dependsOn(v value, p *at, i int, g *graph) []string {
	deps := []string{}
	r.array(v, p, func(v value, p *at) {
		id, ok := r.text(v, p)
		if !ok {
			return
		}
		switch g.link(i, id) {
		case linkSelf:
			r.report(p, CodeSelf, "a step cannot wait for itself; remove this")
		case linkTwice:
			r.report(p, CodeDuplicate, "%s is listed twice; keep one", quote(id))
		case linkNowhere:
			r.report(p, CodeDangling, "no step has the id %s; correct the name or remove it", quote(id))
		}
		deps = append(deps, id)
	})
	return deps
}

func defaultRetry() Retry {
	return Retry{
		MaxAttempts: DefaultMaxAttempts, InitialBackoffMS: DefaultInitialBackoffMS,
		BackoffMultiplier: DefaultBackoffMultiplier, MaxBackoffMS: DefaultMaxBackoffMS,
	}
}

// retry reads a retry policy. A number out of range is a violation and is not clamped, because a clamped policy would
// surprise at run time (contract T66).
func (r *reader) retry(v value, p *at) Retry {
	y := defaultRetry()
	o, ok := r.object(v, p)
	if !ok {
		return y
	}
	if v, vp, ok := o.take("maxAttempts"); ok {
		y.MaxAttempts, _ = r.integer(v, vp, 1, maxAttempts)
	}
	if v, vp, ok := o.take("initialBackoffMs"); ok {
		y.InitialBackoffMS, _ = r.integer(v, vp, minBackoffMS, maxBackoffMS)
	}
	if v, vp, ok := o.take("backoffMultiplier"); ok {
		y.BackoffMultiplier, _ = r.number(v, vp, 1, maxMultiplier)
	}
	y.MaxBackoffMS = max(y.MaxBackoffMS, y.InitialBackoffMS)
	if v, vp, ok := o.take("maxBackoffMs"); ok {
		y.MaxBackoffMS, ok = r.integer(v, vp, minBackoffMS, maxBackoffMS)
		if ok && y.MaxBackoffMS < y.InitialBackoffMS {
			r.report(vp, CodeRange, "write at least %d, the initialBackoffMs", y.InitialBackoffMS)
		}
	}
	if v, vp, ok := o.take("retryableErrors"); ok {
		r.array(v, vp, func(v value, p *at) {
			class, ok := r.oneOf(v, p, errorClasses()...)
			if !ok {
				return
			}
			if slices.Contains(y.RetryableErrors, class) {
				r.report(p, CodeDuplicate, "%s is listed twice; keep one", class)
				return
			}
			y.RetryableErrors = append(y.RetryableErrors, class)
		})
	}
	o.end()
	return y
}

func (r *reader) dispatch(v value, p *at, t StepType, scope Scope, q Queues) Dispatch {
	var d Dispatch
	o, ok := r.object(v, p)
	if !ok {
		return d
	}
	if v, vp, ok := o.take("taskQueue"); ok {
		d.TaskQueue = r.queue(v, vp, t, scope, q)
	}
	if v, vp, ok := o.take("resourceClass"); ok {
		d.ResourceClass, _ = r.oneOf(v, vp, Light, Heavy)
	}
	if v, vp, ok := o.take("cancellable"); ok {
		d.Cancellable = r.boolean(v, vp)
	}
	if v, vp, ok := o.take("allowCancelOnPause"); ok {
		d.AllowCancelOnPause = r.boolean(v, vp)
	}
	o.end()
	return d
}
