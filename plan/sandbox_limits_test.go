package plan_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dvt-engine/dvt/plan"
)

func TestSandboxCeiling_AppliesToAStep(t *testing.T) {
	t.Parallel()
	ceiling := plan.SandboxCeiling{
		Limits: plan.SandboxLimits{Memory: 100, CPU: 2, PIDs: 10, Disk: 50}, Connect: []string{"443", "db:5432"},
		Require: []plan.SandboxPart{plan.SandboxMemory},
	}
	for name, c := range map[string]struct {
		ceiling     plan.SandboxCeiling
		asked, want *plan.Sandbox
	}{
		"a policy without ceilings changes nothing": {plan.SandboxCeiling{}, &plan.Sandbox{PIDs: 5},
			&plan.Sandbox{PIDs: 5}},
		"a step without a sandbox under limits only": {plan.SandboxCeiling{Limits: ceiling.Limits}, nil, nil},
		"a step without a sandbox": {ceiling, nil, &plan.Sandbox{Connect: ceiling.Connect,
			Require: ceiling.Require}},
		"limits above the ceiling are lowered to it": {plan.SandboxCeiling{Limits: ceiling.Limits},
			&plan.Sandbox{Memory: 101, CPU: 3, PIDs: 11, Disk: 51}, &plan.Sandbox{Memory: 100, CPU: 2, PIDs: 10, Disk: 50}},
		"limits below the ceiling do not change": {plan.SandboxCeiling{Limits: ceiling.Limits},
			&plan.Sandbox{Memory: 99, CPU: 1, PIDs: 9, Disk: 49}, &plan.Sandbox{Memory: 99, CPU: 1, PIDs: 9, Disk: 49}},
		"destinations are those that both permit": {ceiling, &plan.Sandbox{Connect: []string{"web:443", "5432", "80"}},
			&plan.Sandbox{Connect: []string{"web:443", "db:5432"}, Require: ceiling.Require}},
		"a step without connections gets none": {ceiling, &plan.Sandbox{Connect: []string{}},
			&plan.Sandbox{Connect: []string{}, Require: ceiling.Require}},
		"required parts are those of both": {ceiling, &plan.Sandbox{Connect: []string{},
			Require: []plan.SandboxPart{plan.SandboxPIDs, plan.SandboxFiles}},
			&plan.Sandbox{Connect: []string{}, Require: []plan.SandboxPart{plan.SandboxFiles, plan.SandboxMemory,
				plan.SandboxPIDs}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before := c.asked.Clone()
			if diff := cmp.Diff(c.want, c.ceiling.Apply(c.asked)); diff != "" {
				t.Errorf("effective sandbox (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(before, c.asked); diff != "" {
				t.Errorf("Apply changed its argument (-before +after):\n%s", diff)
			}
		})
	}
}

func TestSandboxCeiling_ListsEverythingAboveIt(t *testing.T) {
	t.Parallel()
	ceiling := plan.SandboxCeiling{Limits: plan.SandboxLimits{Memory: 100, CPU: 2, PIDs: 10, Disk: 50},
		Connect: []string{"db:5432"}}
	var got []string
	for _, v := range ceiling.Exceeds(&plan.Sandbox{Memory: 101, CPU: 2.5, PIDs: 11, Disk: 51,
		Connect: []string{"db:5432", "5432"}}, "at") {
		got = append(got, v.Code+" "+v.Path)
	}
	want := []string{"RANGE at.memory", "RANGE at.cpu", "RANGE at.pids", "RANGE at.disk", "RANGE at.connect[1]"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("violations (-want +got):\n%s", diff)
	}
	for _, s := range []*plan.Sandbox{nil, {}, {Memory: 100, CPU: 2, PIDs: 10, Disk: 50, Connect: []string{"DB:5432"}},
		{Connect: []string{}}} {
		if vs := ceiling.Exceeds(s, "at"); len(vs) > 0 {
			t.Errorf("Exceeds(%+v) = %v, want nothing", s, vs)
		}
	}
	if vs := (plan.SandboxCeiling{}).Exceeds(&plan.Sandbox{Memory: 1 << 40, Connect: []string{"1"}}, "at"); len(vs) > 0 {
		t.Errorf("Exceeds() without a ceiling = %v, want nothing", vs)
	}
}

func TestSandboxLimits_CombineStepDefaultsAndCeiling(t *testing.T) {
	t.Parallel()
	defaults, ceiling := plan.SandboxLimits{Memory: 200, CPU: 4}, plan.SandboxLimits{Memory: 100, PIDs: 7}
	for name, c := range map[string]struct{ asked, want plan.SandboxLimits }{
		"a step without limits": {plan.SandboxLimits{}, plan.SandboxLimits{Memory: 100, CPU: 4, PIDs: 7}},
		"a step with limits below the defaults": {plan.SandboxLimits{Memory: 50, CPU: 1, PIDs: 3, Disk: 9},
			plan.SandboxLimits{Memory: 50, CPU: 1, PIDs: 3, Disk: 9}},
		"a step with limits above the defaults": {plan.SandboxLimits{Memory: 500, CPU: 8}, plan.SandboxLimits{Memory: 100,
			CPU:  8,
			PIDs: 7}},
	} {
		if diff := cmp.Diff(c.want, c.asked.Or(defaults).Within(ceiling)); diff != "" {
			t.Errorf("%s: limits (-want +got):\n%s", name, diff)
		}
	}
}
