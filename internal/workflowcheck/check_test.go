package workflowcheck

import (
	"os/exec"
	"strings"
	"sync"
	"testing"
)

const (
	root = "../.."
	// clock is a workflow that is not deterministic.
	clock = "./internal/workflowcheck/testdata/clock"
)

// check runs workflowcheck with the settings of this repository over the workflows of dvt and over clock. Most of its
// time goes into the packages that both import, so one process reads all.
var check = sync.OnceValues(func() (report string, err error) {
	cmd := exec.Command("./.tools/bin/workflowcheck", "-config", "tools/workflowcheck/config.yaml",
		"./engine/temporal/...", "./engine/interp/...", clock)
	cmd.Dir = root
	out, err := cmd.CombinedOutput()
	return string(out), err
})

// findings returns what workflowcheck says of clock, and everything else that it says.
func findings(t *testing.T) (ofClock, ofOthers string) {
	t.Helper()
	program := root + "/.tools/bin/workflowcheck"
	if _, err := exec.LookPath(program); err != nil {
		t.Fatalf("workflowcheck is missing: make tools/workflowcheck (%v)", err)
	}
	report, err := check()
	if err == nil {
		t.Fatalf("the check ended without a finding, want one of %s:\n%s", clock, report)
	}
	return divide(report)
}

// divide divides a report by what its findings are about. The lines below a finding that are indented give its reasons.
func divide(report string) (ofClock, ofOthers string) {
	about := false
	for line := range strings.Lines(report) {
		if !strings.HasPrefix(line, " ") {
			about = strings.Contains(line, strings.TrimPrefix(clock, ".")+"/clock.go:")
		}
		if about {
			ofClock += line
		} else {
			ofOthers += line
		}
	}
	return ofClock, ofOthers
}

// contract: E-14
func TestWorkflows_AreDeterministic(t *testing.T) {
	t.Parallel()
	if _, report := findings(t); report != "" {
		t.Errorf("a replay could decide otherwise, or the check failed:\n%s", report)
	}
}

// contract: E-14
func TestWorkflows_TheClockOfTheWorkerFailsTheCheck(t *testing.T) {
	t.Parallel()
	report, _ := findings(t)
	if !strings.Contains(report, "clock.Run is non-deterministic") || !strings.Contains(report, "time.Now") {
		t.Errorf("the check of a workflow that calls time.Now says of it %q, want a failure that names both", report)
	}
}

// A finding in a workflow of dvt is not taken for one of clock, wherever it stands in the report.
func TestDivide_FindingsOfOthersAreKeptApart(t *testing.T) {
	const clocks = "/src/internal/workflowcheck/testdata/clock/clock.go:11:6: clock.Run is non-deterministic\n  time.Now\n"
	const ours = "/src/engine/temporal/run.go:1:2: Run is non-deterministic\n  calls rand.Int\n"
	for _, report := range []string{clocks + ours, ours + clocks} {
		if ofClock, ofOthers := divide(report); ofClock != clocks || ofOthers != ours {
			t.Errorf("the report %q has the findings %q of clock and %q of others", report, ofClock, ofOthers)
		}
	}
	if _, got := divide(clocks + "no packages loaded\n"); got != "no packages loaded\n" {
		t.Errorf("of an error behind the finding of clock remains %q", got)
	}
}
