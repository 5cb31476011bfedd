package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/dvt-engine/dvt/client"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/cmdline"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/document"
	log "github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
)

func TestRunCancel_PreviewCountsTheStepsThatEnd(t *testing.T) {
	address, s := serveStarted(t)
	append1(t, s, runtest.Draft(log.StepStartedEvent, "s1", 1))
	out, status, err := dvt(t, address, "dev-engineer", "run", "cancel", "r1", "--preview")
	want := "Running steps that stop: 1. Steps that never start: 1. Steps that have succeeded: 0 of 2."
	if status != 0 || !strings.Contains(out, want) {
		t.Errorf("status %d, %v, want 0 and %q in\n%s", status, err, want, out)
	}
}

func TestRunRetry_PreviewCountsTheStepsThatWait(t *testing.T) {
	address, s := serveStarted(t)
	append1(t, s, runtest.Draft(log.StepStartedEvent, "s1", 1))
	append1(t, s, runtest.Draft(log.StepFailedEvent, "s1", 1))
	out, status, err := dvt(t, address, "dev-admin", "run", "retry", "r1", "s1", "--force", "--preview")
	if want := "Steps that wait for s1: 1."; status != 0 || !strings.Contains(out, want) {
		t.Errorf("status %d, %v, want 0 and %q in\n%s", status, err, want, out)
	}
}

// A resume of a run whose steps still run is applied when they have ended, so waiting for it is no error.
func TestRunResume_WaitsForRunningStepsWithoutAnError(t *testing.T) {
	address, s := serveStarted(t)
	append1(t, s, runtest.Draft(log.StepStartedEvent, "s1", 1))
	append1(t, s, runtest.Draft(log.RunPaused, "", 1))
	out, status, err := dvt(t, address, "dev-engineer", "run", "resume", "r1", "--timeout", "300ms")
	want := "resume: accepted; the run continues when the running steps have ended: 1 left"
	if status != 0 || !strings.Contains(out, want) {
		t.Errorf("status %d, %v, want 0 and %q in\n%s", status, err, want, out)
	}
}

// A usage error has a code, and a hint apart from its message. Keys of violations are lower case.
func TestFailureDocument_UsageErrorHasCodeAndHint(t *testing.T) {
	t.Parallel()
	_, _, err := local(t, "", "run", "list", "--limit", "x", "-o", "json")
	e := cmdline.DescribeFailure(err).Error
	if e.Code != "USAGE" || strings.Contains(e.Message, "\n") || e.Hint != "see dvt run list --help" {
		t.Errorf("the document is %+v, want the code USAGE, one line and the hint", e)
	}
	// A program reads of a refused plan what people read: the lines of the file, and nothing that it does not have.
	refused := withLines(cmdline.Failure(&client.Error{Code: "BAD_USER_INPUT", Message: "The request has problems.",
		Violations: []client.Violation{{Path: "projectId", Code: "INVALID", Message: "must be an id"}}}), "p.yaml",
		[]byte("schemaVersion: v1.2\nmetadata: {planId: x y}\nsteps: []\n"))
	wrong := cmdline.DescribeFailure(refused).Error
	if wrong.Code != "PLAN_INVALID" || wrong.Hint != "" || strings.Contains(wrong.Message, "\n") || wrong.ExitStatus != 2 {
		t.Errorf("the document of a refused plan is %+v, want PLAN_INVALID, one line, no hint and the status 2", wrong)
	}
	want := cmdline.Violation{Path: "metadata.planId", Code: "INVALID", File: "p.yaml", Line: 2, Column: 12}
	if i := slices.IndexFunc(wrong.Violations, func(v cmdline.Violation) bool { return v.Path == want.Path }); i < 0 {
		t.Errorf("the violations are %+v, want one of %s", wrong.Violations, want.Path)
	} else if got := wrong.Violations[i]; got.Line != want.Line || got.Column != want.Column || got.File != want.File {
		t.Errorf("the violation is %+v, want it at %s:%d:%d", got, want.File, want.Line, want.Column)
	}
	if slices.ContainsFunc(wrong.Violations, func(v cmdline.Violation) bool { return v.Path == "projectId" }) {
		t.Errorf("the violations are %+v, want none of the request", wrong.Violations)
	}
	var out strings.Builder
	doc := cmdline.DescribeFailure(cmdline.Failure(&client.Error{Code: "PLAN_INVALID", Message: "m",
		Violations: []client.Violation{{Path: "steps[0]", Code: "MISSING", Message: "a"}}}))
	format := document.JSON
	if err := format.Write(&out, doc); err != nil {
		t.Fatal(err)
	}
	if want := `"path": "steps[0]"`; !strings.Contains(out.String(), want) {
		t.Errorf("the document has no %s:\n%s", want, out.String())
	}
}
