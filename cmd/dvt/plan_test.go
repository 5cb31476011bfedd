package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dvt-engine/dvt/cmd/dvt/internal/cmdline"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/plancmd"
)

// local runs a command that calls no server and returns its output on both streams, its exit status and its error.
func local(t *testing.T, stdin string, args ...string) (out string, status int, err error) {
	t.Helper()
	c := root()
	var b bytes.Buffer
	c.SetOut(&b)
	c.SetErr(&b)
	c.SetIn(strings.NewReader(stdin))
	c.SetArgs(args)
	if err = c.ExecuteContext(t.Context()); err != nil {
		status = 1
		if e, ok := errors.AsType[*cmdline.Error](err); ok {
			status = e.Status
		}
	}
	return b.String(), status, err
}

const twoSteps = `
schemaVersion: v1.2
metadata: {planId: nightly, planVersion: "1.0", createdAt: "2026-01-01T00:00:00Z", createdBy: me, schemaVersion: v1.2}
scope: {tenantId: acme, projectId: shop, environmentId: dev, repoSha: "0000000000000000000000000000000000000000"}
steps:
  - {stepId: load, type: COMMAND, inputs: {argv: ["true"]}, timeout: 1m, retry: {maxAttempts: 1}}
  - {stepId: report, type: COMMAND, dependsOn: [load], inputs: {argv: ["true"]}, timeout: 1m, retry: {maxAttempts: 1}}
`

func script(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "script.yaml")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func TestPlanTest_PrintsTheLog(t *testing.T) {
	t.Parallel()
	file := script(t, `
steps:
  load: [{takes: 30s, fails: DB_DOWN, message: no route}, {takes: 10s}]
signals:
  - {after: "StepFailed(load,1)", at: 5m, signal: RETRY_STEP, step: load}
`)
	out, status, err := local(t, twoSteps, "plan", "test", "-", "--script", file)
	if status != 0 || err != nil {
		t.Fatalf("exit %d: %v\n%s", status, err, out)
	}
	for _, line := range []string{
		"4   30s    StepFailed(load,1)       DB_DOWN: no route", "5   5m30s  SignalAccepted           RETRY_STEP load",
		"COMPLETED after 5 min 40 s: 2 steps, 2 succeeded, 0 failed, 0 skipped.",
	} {
		if !strings.Contains(out, line) {
			t.Errorf("want the line %q in\n%s", line, out)
		}
	}
}

func TestPlanTest_ExitStatusTellsTheOutcome(t *testing.T) {
	t.Parallel()
	fails := "steps: {load: [{fails: DB_DOWN}]}\n"
	for _, c := range []struct {
		name, plan, script string
		want               int
		says               string
	}{
		{"not as expected", twoSteps, fails, 1, "the run ended as FAILED, not as COMPLETED"},
		{"as expected", twoSteps, fails + "expect: FAILED\n", 0, ""},
		{"stuck", twoSteps, "steps: {load: [{takes: 9s}]}\nsignals: [{at: 1s, signal: PAUSE}]\n", 1,
			"waits for a signal that the script does not send (the run is PAUSED)"},
		{"a step that is not there", twoSteps, "steps: {lode: []}\n", 2, "steps.lode: the plan has no such step"},
		{"a wrong plan", strings.ReplaceAll(twoSteps, "[load]", "[lode]"), "", 2,
			"DANGLING steps[1].dependsOn[0]: no step has the id"},
	} {
		_, status, err := local(t, c.plan, "plan", "test", "-", "--script", script(t, "{}"[:2*empty(c.script)]+c.script))
		if status != c.want || c.says != "" && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: status %d, %v, want %d and %q", c.name, status, err, c.want, c.says)
		}
	}
}

func empty(s string) int {
	if s == "" {
		return 1
	}
	return 0
}

func TestPlanTest_PrintsStatusAndEventsAsJSON(t *testing.T) {
	t.Parallel()
	out, status, err := local(t, twoSteps, "plan", "test", "-", "-o", "json")
	var doc struct {
		Status string
		Events []struct{ EventType string }
	}
	if status != 0 || json.Unmarshal([]byte(out), &doc) != nil || doc.Status != "COMPLETED" || len(doc.Events) != 7 {
		t.Fatalf("status %d, %v, want 0, COMPLETED and 7 events: %s", status, err, out)
	}
}

// contract: L01
func TestPlanValidate_ReportsEveryViolation(t *testing.T) {
	t.Parallel()
	_, status, err := local(t, strings.ReplaceAll(twoSteps, "timeout: 1m, ", ""), "plan", "validate", "-")
	if status != 2 || strings.Count(err.Error(), "MISSING") != 2 {
		t.Fatalf("status %d, want 2 and two missing values: %v", status, err)
	}
	out, status, _ := local(t, twoSteps, "plan", "validate", "-")
	if status != 0 || out != "nightly 1.0 is a valid plan of 2 steps.\n" {
		t.Fatalf("a valid plan: status %d, want 0: %s", status, out)
	}
}

// The timeout that every step needs does not end a wait for a person, although it looks so.
// contract: T83
func TestPlanValidate_WarnsOfAWaitWithoutALimit(t *testing.T) {
	t.Parallel()
	waits := strings.Replace(twoSteps, `type: COMMAND, inputs: {argv: ["true"]}`, "type: MANUAL, inputs: {}", 1)
	out, status, _ := local(t, waits, "plan", "validate", "-", "-o", "json")
	var doc struct {
		Warnings []struct{ Path, Message string }
	}
	if err := json.Unmarshal([]byte(out), &doc); status != 0 || err != nil || len(doc.Warnings) != 1 {
		t.Fatalf("status %d, %v, want 0 and one warning: %s", status, err, out)
	}
	if w := doc.Warnings[0]; w.Path != "steps[0].timeout" || !strings.Contains(w.Message, "without a limit") {
		t.Errorf("the warning is %+v, want one at steps[0].timeout", w)
	}
	limited := strings.Replace(waits, "type: MANUAL", "type: MANUAL, manual: {timeout: 1h}", 1)
	if out, _, _ := local(t, limited, "plan", "validate", "-", "-o", "json"); strings.Contains(out, "without a limit") {
		t.Errorf("a wait with a limit is warned of: %s", out)
	}
}

// The message counts all violations and lists the first ones, because nobody reads hundreds of lines. -o json has all
// of them.
func TestPlanValidate_CountsViolationsAndListsTheFirst(t *testing.T) {
	t.Parallel()
	var many strings.Builder
	many.WriteString(strings.Split(twoSteps, "steps:")[0] + "steps:\n")
	for i := range 120 {
		fmt.Fprintf(&many, "  - {stepId: s%d, type: NOOP, inputs: {}}\n", i)
	}
	for _, c := range []struct {
		doc, says string
		lines     int
	}{
		{many.String(), "standard input has 120 problems:", plancmd.MaxProblems + 2},
		{many.String(), "\n  and 70 more, which -o json lists", plancmd.MaxProblems + 2},
		{"[]", "standard input has 1 problem:\n  standard input:1:1: INVALID the document: write an object", 2},
		{" \n", "standard input is empty", 1},
	} {
		_, status, err := local(t, c.doc, "plan", "validate", "-")
		if status != 2 || !strings.Contains(err.Error(), c.says) || strings.Count(err.Error(), "\n") != c.lines-1 {
			t.Errorf("status %d, want %q and %d lines in\n%v", status, c.says, c.lines, err)
		}
	}
	if out, _, _ := local(t, many.String(), "plan", "validate", "-", "-o", "json"); strings.Count(out, "MISSING") != 120 {
		t.Errorf("-o json must list all 120 violations: %.300s", out)
	}
}
