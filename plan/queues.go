package plan

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Plane is a set of planes. Workers of the control plane hold the credentials of the store, so they run no program and
// call no address of a plan. Workers of the data plane do both and hold no such credentials.
type Plane uint8

// The planes. Isolation queues belong to the data plane.
const (
	ControlPlane Plane = 1 << iota
	DataPlane
)

// ControlPrefix is the prefix of the names of all control queues, and of no other queue.
const ControlPrefix = "tq-control-"

// logSuffix is the suffix of the queue that carries the appends of a control queue.
const logSuffix = "-log"

// maxIsolationTenants bounds IsolationTenants, because Check compares the names of their queues pairwise.
const maxIsolationTenants = 1000

// Planes returns the planes on which steps and hooks of a type may run, or 0 for an unknown type.
func (t StepType) Planes() Plane {
	switch t {
	case Command, DBTCompile, DBTRun, DBTTest, HTTPNotify:
		return DataPlane
	case Noop, Sleep, Manual:
		return ControlPlane | DataPlane
	}
	return 0
}

// NeedsWorker reports whether a step of a type waits for a worker of its queue. A SLEEP is a timer of the workflow, a
// MANUAL step waits for a person.
func (t StepType) NeedsWorker() bool { return t != Sleep && t != Manual }

// Queues are the task queues of the configuration (contract T218). In a name {env} stands for the environment of a run
// and {tenant} for its tenant; a name without placeholders is the same for all. Parse and Skeleton expand the names
// with the scope of the plan; other callers use For.
type Queues struct {
	Control string // workflows, and the steps that run on either plane
	Data    string // steps of the data plane
	// Isolation is the data queue of each of IsolationTenants. These tenants use no other queue of the data plane,
	// except for queues of Known with {tenant} in their name.
	Isolation        string
	IsolationTenants []string
	Known            []string // further queues that a plan may name; Control and Data may be repeated
}

// DefaultQueues returns the queues of an installation whose settings name none.
func DefaultQueues() Queues {
	return Queues{Control: ControlPrefix + "{env}", Data: "tq-data-{env}", Isolation: "tq-isolation-{tenant}-{env}"}
}

// For returns the queues of one tenant's runs in one environment, without placeholders. Both ids must be valid in a
// plan.
func (q Queues) For(tenantID, environmentID string) Queues {
	expand := strings.NewReplacer("{tenant}", tenantID, "{env}", environmentID).Replace
	isolated := slices.Contains(q.IsolationTenants, tenantID)
	out := Queues{Control: expand(q.Control), Data: expand(q.Data)}
	if isolated {
		out.Data = expand(q.Isolation)
	}
	for _, name := range q.Known {
		shared := !strings.Contains(name, "{tenant}") && q.planeOf(name) == DataPlane
		if name != q.Control && name != q.Data && (!isolated || !shared) {
			out.Known = append(out.Known, expand(name))
		}
	}
	return out
}

// Names lists every queue once.
func (q Queues) Names() []string {
	var out []string
	for _, name := range append([]string{q.Control, q.Data}, q.Known...) {
		if !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return out
}

func (q Queues) planeOf(name string) Plane {
	if strings.HasPrefix(name, ControlPrefix) || name != "" && name == q.Control {
		return ControlPlane
	}
	return DataPlane
}

// allows reports whether steps of a type may run on a queue.
func (q Queues) allows(t StepType, name string) bool { return t.Planes()&q.planeOf(name) != 0 }

// namesFor lists the queues that a step of a type may name; every queue for an unknown type.
func (q Queues) namesFor(t StepType) []string {
	names := q.Names()
	if t.Planes() == 0 {
		return names
	}
	return slices.DeleteFunc(names, func(name string) bool { return !q.allows(t, name) })
}

// of returns the queue that the step names, else the queue of its type.
func (q Queues) of(s Step) string {
	if s.Dispatch.TaskQueue != "" {
		return s.Dispatch.TaskQueue
	}
	return q.ofType(s.Type)
}

func (q Queues) ofType(t StepType) string {
	if t.Planes()&ControlPlane == 0 {
		return q.Data
	}
	return q.Control
}

// Check returns every problem of the queues of a configuration, under the names of the settings. Problems are a name on
// the wrong plane, an unknown placeholder, and names by which a run of one tenant or environment could reach the queue
// of another. Do not call it on the result of For.
func (q Queues) Check() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	all := []setting{{"control-queue", q.Control}, {"data-queue", q.Data}}
	if len(q.IsolationTenants) > 0 {
		all = append(all, setting{"isolation-queue", q.Isolation})
		if !strings.Contains(q.Isolation, "{tenant}") {
			bad("isolation-queue must have {tenant} in its name, such as tq-isolation-{tenant}-{env}: it belongs to one tenant")
		}
	}
	for _, name := range q.Known {
		if !slices.ContainsFunc(all, func(s setting) bool { return s.name == name }) {
			all = append(all, setting{"known-queues", name})
		}
	}
	for _, s := range all {
		rest := strings.NewReplacer("{tenant}", "", "{env}", "").Replace(s.name)
		control := strings.HasPrefix(s.name, ControlPrefix)
		switch {
		case s.name == "" || strings.TrimSpace(s.name) != s.name:
			bad("%s must be the name of a queue, not %q", s.key, s.name)
		case strings.ContainsAny(rest, "{}"):
			bad("%s: %s has a placeholder that dvt does not know; use {env} and {tenant}", s.key, s.name)
		case s.key == "control-queue" && !control:
			bad("control-queue must begin with %s, such as %s{env}: workers recognise control queues by this prefix",
				ControlPrefix, ControlPrefix)
		case (s.key == "data-queue" || s.key == "isolation-queue") && control:
			bad("%s must not begin with %s: workers of control queues run no steps of the data plane", s.key, ControlPrefix)
		case control && strings.HasSuffix(s.name, logSuffix):
			bad("%s must not end with %s: dvt makes such a queue for each control queue", s.key, logSuffix)
		case s.key != "isolation-queue" && isAmbiguous(s.name):
			bad("%s: %s does not tell tenants from environments: acme-x in prod has the same queue as acme in x-prod; "+
				"put a character between them that ids do not have, as in {tenant}:{env}", s.key, s.name)
		}
	}
	if len(q.IsolationTenants) > maxIsolationTenants {
		bad("isolation-tenants: at most %d tenants", maxIsolationTenants)
	}
	for _, tenant := range q.IsolationTenants {
		if !idPattern.MatchString(tenant) {
			bad("isolation-tenants: %s is not an id: %s", quote(tenant), idAdvice)
		}
	}
	if len(errs) == 0 {
		errs = q.collisions(all)
	}
	return errors.Join(errs...)
}

// setting is the key of a setting with its value: the name of a queue or a template of names.
type setting struct{ key, name string }

// collisions finds pairs of settings that can give the same name.
func (q Queues) collisions(all []setting) (errs []error) {
	var templates []setting
	for _, s := range all {
		if s.key != "isolation-queue" {
			templates = append(templates, s)
			continue
		}
		for _, tenant := range q.IsolationTenants { // these ids are known, so they need no placeholder
			templates = append(
				templates, setting{"isolation-queue of " + tenant, strings.ReplaceAll(s.name, "{tenant}", tenant)})
		}
	}
	for i, a := range templates {
		for _, b := range templates[:i] {
			if overlap(a.name, b.name) {
				errs = append(errs, fmt.Errorf(
					"%s (%s) and %s (%s) can give queues of the same name to different tenants or environments: "+
						"begin them differently, or put a character that ids do not have before the placeholder", b.key, b.name, a.key,
					a.name))
			}
		}
	}
	return append(errs, workloadCollisions(templates)...)
}

// isAmbiguous reports whether a template can give two scopes the same name. That is the case when only characters of
// ids stand between the placeholders.
func isAmbiguous(template string) bool {
	tenant, env := strings.Index(template, "{tenant}"), strings.Index(template, "{env}")
	if tenant < 0 || env < 0 {
		return false
	}
	from, to := tenant+len("{tenant}"), env
	if env < tenant {
		from, to = env+len("{env}"), tenant
	}
	return !strings.ContainsFunc(template[from:to], func(c rune) bool { return c > 0x7f || !isIDChar(byte(c)) })
}

func isIDChar(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '.' || c == '-'
}

// overlap reports whether two templates can give the same name for some ids. It treats an empty id as possible, so it
// may report an overlap that cannot occur.
func overlap(x, y string) bool {
	const id = 0 // stands for a placeholder, because no name contains NUL
	tokens := strings.NewReplacer("{tenant}", "\x00", "{env}", "\x00").Replace
	a, b := tokens(x), tokens(y)
	// reach[j] says whether a[:i] and b[:j] can be the same text.
	reach := make([]bool, len(b)+1)
	for i := range len(a) + 1 {
		next := make([]bool, len(b)+1)
		for j := range next {
			switch {
			case i == 0 && j == 0:
				next[j] = true
				continue
			case i > 0 && a[i-1] == id && (reach[j] || j > 0 && next[j-1] && (b[j-1] == id || isIDChar(b[j-1]))):
				next[j] = true
			case j > 0 && b[j-1] == id && (next[j-1] || i > 0 && reach[j] && (a[i-1] == id || isIDChar(a[i-1]))):
				next[j] = true
			case i > 0 && j > 0 && a[i-1] == b[j-1] && a[i-1] != id:
				next[j] = reach[j-1]
			}
		}
		reach = next
	}
	return reach[len(b)]
}

// checkReserved reports an environment whose control queue would have the name of another environment's log queue.
func (r *reader) checkReserved(p *at, q, expanded Queues) {
	for _, name := range expanded.Names() {
		if expanded.planeOf(name) == ControlPlane && strings.HasSuffix(name, logSuffix) && !slices.Contains(q.Names(), name) {
			r.report(p, CodeReserved, "choose another id: the queue %s is reserved for the log of another environment", quote(name))
			return
		}
	}
}

// queue reads the name of the queue of a step of type t.
func (r *reader) queue(v value, p *at, t StepType, s Scope, q Queues) string {
	name, ok := r.text(v, p)
	if !ok || s.TenantID == "" || s.EnvironmentID == "" { // without both ids the queues are unknown
		return name
	}
	right := q.namesFor(t)
	switch {
	case slices.Contains(right, name):
	case slices.Contains(q.Names(), name):
		r.report(p, CodeInvalid, "a %s step never runs on %s: the workers of control queues hold the credentials of the "+
			"store; use one of %s",
			t, quote(name), strings.Join(right, ", "))
	default:
		r.report(p, CodeUnknown, "%s is not a queue of tenant %s in environment %s; use one of %s",
			quote(name), s.TenantID, s.EnvironmentID, strings.Join(right, ", "))
	}
	return name
}

// checkPlane reports a type whose default queue is on a plane that the type must not use. Only a wrong configuration
// causes it.
func (r *reader) checkPlane(p *at, t StepType, q Queues) {
	if t.Planes() != 0 && !q.allows(t, q.ofType(t)) {
		r.report(p, CodeInvalid, "%s never runs on a control queue, and this installation's data queue %s is one; its "+
			"operators must correct data-queue",
			t, quote(q.ofType(t)))
	}
}
