package main

import (
	"strings"
	"testing"

	log "github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
	"github.com/dvt-engine/dvt/store"
)

func TestDoctor_NamesTheCauseAndTheNextCommand(t *testing.T) {
	t.Parallel()
	address, s := serveStarted(t)
	for _, c := range []struct {
		args   string
		status int
		says   []string
		not    string
	}{
		{"doctor r1", 0, []string{"Nothing is wrong with run r1: it is running."}, "next"},
		{"doctor nine", 4, []string{"NOT_FOUND", "There is no such run, or it is not yours"}, ""},
		{"doctor r1 r1", 2, []string{"usage: dvt doctor"}, ""},
		{"doctor", 0, []string{"artifactStore: ", "No run needs anybody."}, "FIRST CAUSE"},
	} {
		checkDvt(t, address, c.args, c.status, c.says, c.not)
	}
	append1(t, s, runtest.Draft(log.StepStartedEvent, "s1", 1))
	append1(t, s, runtest.Draft(log.StepFailedEvent, "s1", 1,
		runtest.M{"errorMessage": "psql: connection refused", "errorLine": 7}))
	checkDvt(t, address, "doctor r1", 0, []string{
		"Something that the step needs does not answer. (likely, DEPENDENCY_UNREACHABLE)\n", "  steps: s1\n",
		"  seen:  seq 4, s1: EXIT_STATUS: psql: connection refused\n", "  seen:  line 7 of s1, psql: connection refused\n",
		"         " + address + "/runs/r1?seq=4&view=events\n",
		"         " + address + "/runs/r1?attempt=1&line=7&step=s1&tab=log\n",
		"  next:  After that, retry the step.\n         dvt run retry r1 s1   (safe)\n",
	}, "")
	checkDvt(t, address, "doctor r1 -o json", 0, []string{`"code": "DEPENDENCY_UNREACHABLE"`, `"safe": true`,
		`"force": false`, `"page": "/runs/r1?seq=4&view=events"`, `"metric": null`}, "seen:")
}

func TestDoctor_ARunThatMissedItsDeadlineIsNotInOrder(t *testing.T) {
	t.Parallel()
	address, r := serve(t)
	s, ok := r.Outbox.(store.Store)
	if !ok {
		t.Fatal("no store")
	}
	append1(t, s, runtest.Draft(log.RunStarted, "", 1, runtest.M{"steps": []runtest.M{{"stepId": "s1", "type": "NOOP"}},
		"policy": runtest.M{"dueAt": "2026-02-17T06:00:00Z", "retryWindowMs": 0, "drainTimeoutMs": 0, "maxParallelSteps": 1,
			"maxLogicalAttemptsManual": 1}}))
	checkDvt(t, address, "doctor r1", 0, []string{
		"Run r1 is late: it should have ended by 2026-02-17 06:00:00 UTC. Nothing else is wrong: it is running.\n",
		"         dvt run show r1\n"}, "Nothing is wrong")
}

func TestDoctor_ARetryThatNeedsForceIsPrintedWithIt(t *testing.T) {
	t.Parallel()
	address, s := serveStarted(t)
	append1(t, s, runtest.Draft(log.StepStartedEvent, "s1", 1))
	append1(t, s, runtest.Draft(log.StepFailedEvent, "s1", 1,
		runtest.M{"errorCode": "PROGRAM_NOT_FOUND", "errorMessage": "x: not found", "retryable": false}))
	checkDvt(t, address, "doctor r1", 0,
		[]string{"         dvt run retry r1 s1 --force --reason \"…\"\n"}, "(safe)")
	checkDvt(t, address, "doctor r1 -o json", 0, []string{`"force": true`}, `"safe": true`)
}

// checkDvt runs dvt as a viewer and checks its status and what it prints, also as an error.
func checkDvt(t *testing.T, address, args string, status int, says []string, not string) {
	t.Helper()
	out, got, err := dvt(t, address, "dev-viewer", strings.Fields(args)...)
	if err != nil {
		out += err.Error()
	}
	if got != status || not != "" && strings.Contains(out, not) {
		t.Errorf("dvt %s: status %d, want %d and no %q\n%s", args, got, status, not, out)
	}
	for _, text := range says {
		if !strings.Contains(out, text) {
			t.Errorf("dvt %s does not say %q:\n%s", args, text, out)
		}
	}
}

// All parts work while a freeze keeps every run back, so "everything answers" alone would mislead.
func TestHealthAndDoctor_NameTheFreeze(t *testing.T) {
	t.Parallel()
	address, _ := serveStarted(t)
	checkDvt(t, address, "health", 0, []string{"HEALTHY"}, "FROZEN")
	if out, status, err := dvt(t, address, "dev-admin", "tenant", "freeze", "--reason", "night"); status != 0 {
		t.Fatalf("tenant freeze: status %d, %v\n%s", status, err, out)
	}
	for _, command := range []string{"health", "doctor"} {
		checkDvt(t, address, command, 0, []string{"FROZEN: nothing new starts in this tenant", "night"}, "")
	}
}
