package workflowcheck

import (
	"os/exec"
	"strings"
	"testing"
)

const root = "../.."

// check runs workflowcheck with the settings of this repository.
func check(t *testing.T, packages ...string) (report string, err error) {
	t.Helper()
	program := root + "/.tools/bin/workflowcheck"
	if _, err := exec.LookPath(program); err != nil {
		t.Fatalf("workflowcheck is missing: make tools/workflowcheck (%v)", err)
	}
	cmd := exec.CommandContext(t.Context(), "./.tools/bin/workflowcheck",
		append([]string{"-config", "tools/workflowcheck/config.yaml"}, packages...)...)
	cmd.Dir = root
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// contract: E-14
func TestWorkflows_AreDeterministic(t *testing.T) {
	t.Parallel()
	if report, err := check(t, "./engine/temporal/...", "./engine/interp/..."); err != nil {
		t.Errorf("a replay could decide otherwise (%v):\n%s", err, report)
	}
}

// contract: E-14
func TestWorkflows_TheClockOfTheWorkerFailsTheCheck(t *testing.T) {
	t.Parallel()
	report, err := check(t, "./internal/workflowcheck/testdata/clock")
	if err == nil || !strings.Contains(report, "clock.Run is non-deterministic") || !strings.Contains(report, "time.Now") {
		t.Errorf("the check of a workflow that calls time.Now returned %v, want a failure that names both:\n%s", err, report)
	}
}
