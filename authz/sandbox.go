package authz

import (
	"fmt"
	"slices"

	"github.com/dvt-engine/dvt/plan"
)

// Sandbox is a policy row that limits the programs of one project and environment; "*" stands for all of them. A zero
// number and a nil Connect set no limit.
type Sandbox struct {
	ProjectID     string  `json:"projectId"`
	EnvironmentID string  `json:"environmentId"`
	Memory        int64   `json:"memory,omitempty"` // bytes
	CPU           float64 `json:"cpu,omitempty"`    // cores
	PIDs          int     `json:"pids,omitempty"`
	Disk          int64   `json:"disk,omitempty"` // bytes, for each file
	// Connect lists the permitted TCP destinations in the format of plan.Sandbox; an empty list permits none.
	Connect []string `json:"connect,omitzero"`
	// Require names the sandbox parts that every program must have.
	Require []plan.SandboxPart `json:"require,omitempty"`
}

func (b Sandbox) ceiling() plan.SandboxCeiling {
	return plan.SandboxCeiling{
		Limits:  plan.SandboxLimits{Memory: b.Memory, CPU: b.CPU, PIDs: b.PIDs, Disk: b.Disk},
		Connect: b.Connect, Require: b.Require,
	}
}

// Sandbox returns the ceiling for the programs of a project and environment. The tenant's most specific row that covers
// both applies. When one row names the project and another names the environment, the stricter of each value applies. A
// tenant without a policy has no ceiling. ErrUnavailable means that the tenant's policy cannot be read; no program may
// start then. A call costs a few map look-ups.
func (a *Authorizer) Sandbox(tenantID, project, environment string) (plan.SandboxCeiling, error) {
	t := a.state.Load().tenants[tenantID]
	if t == nil {
		return plan.SandboxCeiling{}, nil
	}
	if t.rules == nil {
		return plan.SandboxCeiling{}, ErrUnavailable
	}
	if c, ok := t.sandboxes[scope{project, environment}]; ok {
		return c, nil
	}
	ofProject, ok := t.sandboxes[scope{project, "*"}]
	ofEnvironment, ok2 := t.sandboxes[scope{"*", environment}]
	if ok || ok2 {
		return ofProject.Strictest(ofEnvironment), nil
	}
	return t.sandboxes[scope{"*", "*"}], nil
}

// sandboxesOf returns the ceilings of rows by project and environment.
func sandboxesOf(rows []Sandbox) map[scope]plan.SandboxCeiling {
	out := make(map[scope]plan.SandboxCeiling, len(rows))
	for _, r := range rows {
		out[scopeOf(r.ProjectID, r.EnvironmentID)] = r.ceiling()
	}
	return out
}

// sandboxes checks the ceilings of a document against the same ranges that apply to plans.
func (c *checker) sandboxes(rows []Sandbox) {
	for i, r := range rows {
		path := fmt.Sprintf("sandbox[%d]", i)
		c.scope(path, r.ProjectID, r.EnvironmentID)
		c.once(path, "sandbox", r.ProjectID, r.EnvironmentID)
		number := func(field string, n, low, high float64) {
			if n != 0 && (n < low || n > high) {
				c.bad(path+"."+field, "RANGE", "must be from %v to %v, or 0 for no ceiling", low, high)
			}
		}
		number("memory", float64(r.Memory), plan.MinSandboxMemory, plan.MaxSandboxMemory)
		number("cpu", r.CPU, plan.MinSandboxCPU, plan.MaxSandboxCPU)
		number("pids", float64(r.PIDs), 1, plan.MaxSandboxPIDs)
		number("disk", float64(r.Disk), plan.MinSandboxDisk, plan.MaxSandboxDisk)
		if len(r.Connect) > plan.MaxSandboxEntries {
			c.bad(path+".connect", "RANGE", "must have at most %d entries", plan.MaxSandboxEntries)
			continue
		}
		for n, entry := range r.Connect {
			d, err := plan.ParseDestination(entry)
			if err != nil {
				c.bad(fmt.Sprintf("%s.connect[%d]", path, n), "INVALID", "%s", err)
				continue
			}
			c.once(fmt.Sprintf("%s.connect[%d]", path, n), "destination", path, d.String())
		}
		for n, part := range r.Require {
			at := fmt.Sprintf("%s.require[%d]", path, n)
			if !slices.Contains(plan.SandboxParts(), part) {
				c.bad(at, "UNKNOWN", "there is no part %q of a sandbox", part)
				continue
			}
			c.once(at, "part", path, string(part))
		}
	}
}
