package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	log "github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
)

func TestRunRetry_WithoutStepTakesTheOneThatFailed(t *testing.T) {
	t.Parallel()
	address, s := serveStarted(t)
	retry := func(args ...string) (string, int) {
		t.Helper()
		out, status, err := dvt(t, address, "dev-engineer", append([]string{"run", "retry", "r1"}, args...)...)
		return out + text(err), status
	}
	if out, status := retry("--preview"); status != 2 || !strings.Contains(out, "no step of run r1 has failed") {
		t.Errorf("nothing failed: status %d, want 2 and the reason\n%s", status, out)
	}
	append1(t, s, runtest.Draft(log.StepStartedEvent, "s1", 1))
	append1(t, s, runtest.Draft(log.StepFailedEvent, "s1", 1))
	if out, status := retry("--preview"); status != 0 || !strings.Contains(out, `Step "s1" runs again`) ||
		!strings.Contains(out, "step s1\n") {
		t.Errorf("one failed: status %d, want a preview of s1\n%s", status, out)
	}
	append1(t, s, runtest.Draft(log.StepStartedEvent, "s2", 1))
	append1(t, s, runtest.Draft(log.StepFailedEvent, "s2", 1))
	if out, status := retry(); status != 2 || !strings.Contains(out,
		"2 steps of run r1 have failed; choose one:\n  dvt run retry r1 s1\n  dvt run retry r1 s2") {
		t.Errorf("two failed: status %d, want 2 and both commands\n%s", status, out)
	}
	append1(t, s, runtest.Draft(log.RunFailed, "", 1))
	if out, status := retry(); status != 3 || !strings.Contains(out, "RUN_TERMINAL: run r1 has failed") ||
		!strings.Contains(out, "\n  run it again: dvt run rerun r1") {
		t.Errorf("the run has ended: status %d, want 3 and the rerun\n%s", status, out)
	}
}

func TestRunRerun_SaysHowManyStepsRunAgainAndHowManyAreKept(t *testing.T) {
	t.Parallel()
	changes := make([]string, 8)
	for i := range changes {
		changes[i] = fmt.Sprintf(`{"stepId":"s%d","kind":"REUSE","from":"SUCCESS","to":"SUCCESS","why":""}`, i)
	}
	changes[2] = `{"stepId":"s2","kind":"RERUN","from":"FAILED","to":"RUNNING","why":""}`
	address := serveAnswer(t, 200, `{"data":{"rerun":{"run":{"runId":"r2"}},"preview":{"outcome":"APPLY","reason":`+
		`"A new run of the same plan starts.","status":"RUNNING","changes":[`+strings.Join(changes, ",")+`]}}}`)
	for args, want := range map[string]string{
		"run rerun r1 --preview": "1 step runs again, 7 results are kept.\n  run again  s2\n" +
			"  kept       s0, s1, s3, s4, s5 and 2 more\nResult: a new run starts.\n",
		"run rerun r1": "r2\n1 step runs again, 7 results are kept.\n",
	} {
		out, said, status := runSplit(t, address, "t", strings.Fields(args)...)
		if got := out + said; status != 0 || !strings.Contains(got, want) {
			t.Errorf("dvt %s: status %d, want %q in\n%s", args, status, want, got)
		}
	}
}

func TestRunListAttention_GroupsTheRunsThatFailedInTheLastDay(t *testing.T) {
	t.Parallel()
	failed := func(id, step string, ago time.Duration) string {
		return fmt.Sprintf(`{"node":{"runId":%q,"projectId":"shop","environmentId":"prod","status":"FAILED",`+
			`"completedAt":%q,"plan":{"planId":"nightly","planVersion":"1"},"rootCause":{"stepId":%q,"code":"EXIT_STATUS","message":"boom"}}}`,
			id, time.Now().Add(-ago).UTC().Format(time.RFC3339), step)
	}
	const waiting = `{"node":{"kind":"FAILED_WAITING","runId":"w1","projectId":"shop","environmentId":"prod",` +
		`"planId":"load","planVersion":"1","stepId":"a","since":"2026-11-21T00:00:00Z","actions":["RETRY_STEP"]}}`
	data := `{"data":{"attention":{"edges":[` + waiting + `],"pageInfo":{}},"runs":{"edges":[` + strings.Join([]string{
		failed("r3", "build", time.Hour), failed("r2", "test", 2*time.Hour), failed("r1", "build", 3*time.Hour),
		failed("r5", "build", 4*time.Hour), failed("r4", "load", 5*time.Hour),
		failed("r0", "build", 25*time.Hour)}, ",") + `],"pageInfo":{}}}}`
	// r5 and r4 have newer reruns, so a bulk leaves them out.
	serveFailures := func(outcome string) string {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			var asked struct {
				Variables struct {
					In struct{ Runs struct{ IDs []string } }
				}
			}
			_ = json.NewDecoder(r.Body).Decode(&asked)
			ids := slices.DeleteFunc(asked.Variables.In.Runs.IDs, func(id string) bool { return id == "r5" || id == "r4" })
			switch {
			case len(asked.Variables.In.Runs.IDs) == 0:
				fmt.Fprint(w, data)
			case len(ids) == 0:
				fmt.Fprintf(w, `{"data":{"preview":{"outcome":"REFUSED","bulk":{"count":0}}}}`)
			default:
				fmt.Fprintf(w, `{"data":{"preview":{"outcome":%q,"bulk":{"count":%d,"samples":[{"runId":%q}]}}}}`, outcome,
					len(ids), ids[0])
			}
		}))
		t.Cleanup(s.Close)
		return s.URL
	}
	may, not := serveFailures("APPLY"), serveFailures("REFUSED")
	for _, c := range []struct {
		address, args string
		want          []string
	}{
		{may, "run list --attention", []string{"dvt run retry w1 a ", "dvt run rerun r3 ",
			"  2 runs failed (1 left out: already rerun); build: EXIT_STATUS: boom",
			"  1 run failed; test: EXIT_STATUS: boom",
			"To rerun all of a plan: dvt bulk rerun --plan nightly --project shop --environment prod --status failed"}},
		{not, "run list --attention", []string{"dvt run show r3 "}},
		{may, "run list --attention -o json", []string{`"kind": "FAILED"`, `"runs": 2`, `"leftOut": 1`,
			`"next": "dvt run rerun r3"`}},
	} {
		out, said, status := runSplit(t, c.address, "t", strings.Fields(c.args)...)
		for _, text := range c.want {
			if status != 0 || !strings.Contains(out+said, text) || strings.Contains(out, "r0") ||
				strings.Contains(out, "load: ") || strings.Contains(said, "dvt bulk") && c.address == not {
				t.Errorf("dvt %s: status %d, want %q, no r0, no load, and a hint only for those who may rerun in\n%s%s", c.args, status, text, out, said)
			}
		}
	}
}
