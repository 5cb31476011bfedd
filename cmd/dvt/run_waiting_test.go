package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	log "github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
)

func TestRunShow_SaysWhatARunWaitsForAndWhoCanEndIt(t *testing.T) {
	t.Parallel()
	const pending = `"runId":"r1","projectId":"shop","status":"PENDING","statusRaw":"PENDING",`
	approval := func(action string) string {
		return `{"data":{"run":{` + pending + `"message":"The run waits for approval.","waitsForApprovals":{"given":1,` +
			`"required":2},"approval":{"required":2,` +
			`"expiresAt":"2026-11-28T02:00:00Z","decisions":[{"principal":"ana","decision":"APPROVE","at":` +
			`"2026-11-27T02:00:00Z"}]},"actions":[{"action":"APPROVE",` + action + `}]}}}`
	}
	for name, c := range map[string]struct {
		answer string
		want   []string
	}{
		"approval by the viewer": {approval(`"outcome":"APPLY"`), []string{
			"PENDING (waits for approval, 1 of 2) at seq", "not started\n",
			"1 of 2 approvals; without a decision the run is cancelled 2026-11-28", "\n  ana: approve, ", "\napprove: dvt run approve r1\n"}},
		"approval by others": {approval(`"outcome":"REFUSED","reason":"You need the Planner role.","whoCould":["ben"]`),
			[]string{"\nyou cannot: You need the Planner role. Who can: ben.\n"}},
		"queue": {`{"data":{"run":{` + pending + `"substatus":"QUEUED","queue":{"position":2,"waitsFor":"PLACE",` +
			`"expiresAt":"2026-11-28T02:00:00Z","slots":{"scope":"TENANT","active":3,"max":3}}},"runs":{"edges":[{"node":{` +
			`"runId":"h1","projectId":"shop","environmentId":"dev","status":"RUNNING","statusRaw":"RUNNING",` +
			`"plan":{"planId":"nightly","planVersion":"1"}}}],"pageInfo":{}}}}`, []string{
			"number 2 in the queue of project shop: all run slots are in use\n", "3 of 3 slots of the tenant are in use; ",
			"\n  h1  nightly@1  shop/dev  RUNNING", "the run fails 2026-11-28", "\ncancel: dvt run cancel r1\n"}},
		"manual step": {`{"data":{"run":{"runId":"r1","status":"RUNNING","steps":[{"stepId":"m","status":"RUNNING",` +
			`"wait":{"kind":"PERSON"}}]},"manualTasks":{"edges":[{"node":{"stepId":"m","action":{"outcome":"REFUSED",` +
			`"reason":"You requested the run.","whoCould":["ben"]}}}],"pageInfo":{}}}}`,
			[]string{"m waits for a person; you cannot: You requested the run. Who can: ben.\n"}},
		"failed step that the viewer may not retry": {`{"data":{"run":{"runId":"r1","status":"RUNNING","steps":[{"stepId":"s",` +
			`"status":"FAILED"}]},"preview":{"outcome":"REFUSED","reason":"You need the Engineer role.","whoCould":["eve"]}}}`,
			[]string{"\nyou cannot: You need the Engineer role. Who can: eve.\nlog: dvt run logs r1 s\n"}},
		"cancelled steps of a cancelled run": {`{"data":{"run":{"runId":"r1","status":"CANCELLED","steps":[{"stepId":"s",` +
			`"status":"FAILED","statusRaw":"FAILED","error":{"code":"CANCELLED"}}]}}}`, []string{"\ns           CANCELLED  "}},
		"rerun": {`{"data":{"run":{"runId":"r1","parentRunId":"r0"}}}`, []string{"\nrerun of r0\n"}},
	} {
		out, said, status := runSplit(t, serveAnswer(t, 200, c.answer), "t", "run", "show", "r1")
		for _, want := range c.want {
			if status != 0 || !strings.Contains(out, want) {
				t.Errorf("%s: status %d, want %q in\n%s%s", name, status, want, out, said)
			}
		}
	}
}

func TestRunList_CountsTheStepsThatACancellationStopped(t *testing.T) {
	t.Parallel()
	address := serveAnswer(t, 200, `{"data":{"runs":{"edges":[{"node":{"runId":"r1","status":"CANCELLED",`+
		`"stepCounts":{"total":3,"success":1,"failed":2,"stopped":2}}}],"pageInfo":{}}}}`)
	if out, _, _ := runSplit(t, address, "t", "run", "list"); !strings.Contains(out, "1/3, 2 cancelled") {
		t.Errorf("want 1/3, 2 cancelled in\n%s", out)
	}
}

func TestRunDiff_LeavesOutStepsThatDidNotChange(t *testing.T) {
	t.Parallel()
	address, _ := serveStarted(t)
	out, said, _ := runSplit(t, address, "dev-viewer", "run", "diff", "r1", "1", "2")
	if !strings.Contains(out, "2 more steps of the plan became known, all pending\nno step changed\n") {
		t.Errorf("want no row for a pending step in\n%s%s", out, said)
	}
}

func TestRunWatch_StampsThePastWithItsOwnTimes(t *testing.T) {
	t.Parallel()
	address, s := serveWatchedSteps(t, "s1")
	append1(t, s, runtest.Draft(log.StepStartedEvent, "s1", 1))
	append1(t, s, runtest.Draft(log.StepFailedEvent, "s1", 1))
	append1(t, s, runtest.Draft(log.RunFailed, "", 1))
	out, said, _ := runSplit(t, address, "dev-viewer", "run", "watch", "r1")
	for _, want := range []string{"12:00:00.000Z  s1 ", "12:00:00.000Z  end "} {
		if !strings.Contains(out, want) {
			t.Errorf("want %q, the time of the event, in\n%s%s", want, out, said)
		}
	}
}

func TestRunStart_NamesTheLinesOfAWrongPlan(t *testing.T) {
	t.Parallel()
	address, _ := serve(t)
	file := filepath.Join(t.TempDir(), "plan.yaml")
	if err := os.WriteFile(file, []byte("schemaVersion: v1.2\nsteps: []\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, status, err := dvt(t, address, "dev-engineer", "run", "start", file)
	if said := text(err); status != 2 || !strings.Contains(said, ":2:1: RANGE steps: add at least one step") ||
		strings.Contains(said, "projectId") {
		t.Errorf("status %d, want the line of steps and nothing that the file does not have\n%s", status, said)
	}
}

func TestRunLogs_OfAPlanNamesItsNewestRun(t *testing.T) {
	t.Parallel()
	address := serveRuns(t, 1)
	_, status, err := dvt(t, address, "dev-engineer", "run", "logs", runtest.ID.PlanID, "s1")
	said := text(err)
	want := runtest.ID.PlanID + " is a plan, not a run\n  its newest run: dvt run logs "
	if status != 4 || !strings.Contains(said, want) ||
		!strings.Contains(said, " s1\n  all its runs: dvt run list --plan ") {
		t.Errorf("status %d, want 4 and the newest run\n%s", status, said)
	}
}

func TestPolicyWho_TakesTheNamesOfCommands(t *testing.T) {
	t.Parallel()
	address, _ := serve(t)
	for args, want := range map[string]string{
		"policy who retry r1":                                "dev-engineer\n",
		"policy who RETRY_STEP r1":                           "dev-engineer\n",
		"policy who start --project shop --environment prod": "dev-",
		"policy who retyr r1":                                `there is no action "retyr"; did you mean retry?`,
		"policy who retry":                                   "give a RUN, or --project and --environment: dvt policy who retry",
	} {
		out, _, err := dvt(t, address, "dev-admin", strings.Fields(args)...)
		if said := out + text(err); !strings.Contains(said, want) {
			t.Errorf("dvt %s: want %q in\n%s", args, want, said)
		}
	}
}
