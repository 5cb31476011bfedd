package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/dvt-engine/dvt/cmd/dvt/internal/consoletest"
	log "github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
	"github.com/dvt-engine/dvt/store"
)

// The log of r1 is: 1 approved, 2 started, 3 s1 started, 4 s1 failed, 5 PAUSE accepted, 6 paused.
func TestRunShowAndDiff_ShowEarlierMoments(t *testing.T) {
	t.Parallel()
	address, s := serveStarted(t)
	append1(t, s, runtest.Draft(log.StepStartedEvent, "s1", 1))
	append1(t, s, runtest.Draft(log.StepFailedEvent, "s1", 1))
	append1(t, s, runtest.Draft(log.SignalAccepted, "p1", 1, runtest.M{"signalType": "PAUSE", "actor": "ben",
		"reason": "lunch"}))
	append1(t, s, runtest.Draft(log.RunPaused, "p1", 1, runtest.M{"pauseRequestedBy": "ben"}))
	for _, c := range []struct {
		args   string
		status int
		says   []string
		not    string
	}{
		{"run show r1", 0, []string{"PAUSED", "at seq 6", "you cannot: You need the Engineer role",
			"\nlog: dvt run logs r1 s1\n", "FAILED", "blocked by a failed step, waits for s1\n"}, "as it was"},
		{"run show r1 --at 2", 0, []string{"  waits to be started\n", "  waits for s1\n"}, "blocked"},
		{"run show r1 --at 3", 0, []string{"as it was at seq 3", "s1", "  waits for s1\n"}, "FAILED"},
		{"run show r1 -o json", 0, []string{`"kind": "FAILED_STEP"`, `"pollerSeenAt": null`}, "blocked by"},
		{"run show r1 --at 2 -o yaml", 0, []string{"kind: WORKER", "kind: DEPENDENCIES", "taskQueue: null"}, ""},
		{"run show r1 --at 0", 0, []string{"as it was at seq 0"}, "s1"},
		{"run show r1 --at 7", 2, []string{"ends at seq 6"}, ""},
		{"run show r1 --at=-1", 2, nil, ""},
		{"run diff r1 3 4", 0, []string{"from seq 3 to seq 4 the run ", "s1    RUNNING  FAILED  1"}, "DECIDED"},
		{"run diff r1 4 3", 0, []string{"from seq 3 to seq 4"}, ""},
		{"run diff r1 1", 0, []string{"from seq 1 to seq 6", "to paused", "s1    PENDING  FAILED",
			"SignalAccepted PAUSE by ben: lunch", "RunPaused"}, ""},
		{"run diff r1 6", 0, []string{"stayed paused", "no step changed"}, "STEP"},
		{"run diff r1 7", 2, []string{"ends at seq 6, before seq 7"}, ""},
		{"run diff r1 3 9", 2, []string{"BAD_USER_INPUT"}, ""},
		{"run diff r1 x", 2, []string{"a seq must be a number"}, ""},
		{"run diff r1", 2, []string{"usage: dvt run diff RUN SEQ [SEQ]"}, ""},
		{"run diff r2 1", 4, []string{"NOT_FOUND"}, ""},
		{"run diff r2 1 2", 4, []string{"NOT_FOUND"}, ""},
	} {
		out, status, err := dvt(t, address, "dev-viewer", strings.Fields(c.args)...)
		if err != nil {
			out += err.Error()
		}
		if status != c.status || c.not != "" && strings.Contains(out, c.not) {
			t.Errorf("dvt %s: status %d, want %d and no %q\n%s", c.args, status, c.status, c.not, out)
		}
		for _, want := range c.says {
			if !strings.Contains(out, want) {
				t.Errorf("dvt %s: want %q in\n%s", c.args, want, out)
			}
		}
	}
}

func TestRunShow_NamesARunThatFailedAndWaitsAsThePagesDo(t *testing.T) {
	t.Parallel()
	const run = `{"data":{"run":{"runId":"r1","status":"RUNNING","statusRaw":"RUNNING","substatus":"AWAITING_OPERATOR"}}}`
	address := serveAnswer(t, 200, run)
	for args, want := range map[string]string{
		"run show r1":         "\nRUNNING (failed, waiting) at seq",
		"run show r1 -o json": `"substatus": "AWAITING_OPERATOR"`,
	} {
		out, said, status := runSplit(t, address, "t", strings.Fields(args)...)
		if status != 0 || !strings.Contains(out, want) {
			t.Errorf("dvt %s: status %d, want %q in\n%s%s", args, status, want, out, said)
		}
	}
}

// The cause and the command of a run of thousands of steps must not scroll away.
func TestRunShow_IsBriefAboutALargeRun(t *testing.T) {
	t.Parallel()
	steps := []string{`{"stepId":"bad","type":"NOOP","status":"FAILED","statusRaw":"FAILED","logicalAttemptId":1}`}
	for i := range 99 {
		steps = append(steps, fmt.Sprintf(`{"stepId":"s%d","type":"NOOP","status":"SUCCESS","statusRaw":"SUCCESS"}`, i))
	}
	for i := range 30 {
		steps = append(steps, fmt.Sprintf(`{"stepId":"b%d","type":"NOOP","status":"PENDING","statusRaw":"PENDING",
			"wait":{"kind":"FAILED_STEP","blockingSteps":["bad"]}}`, i))
	}
	address := serveAnswer(t, 200, `{"data":{"run":{"runId":"r1","status":"RUNNING","statusRaw":"RUNNING","steps":[`+
		strings.Join(steps, ",")+`]}}}`)
	out, said, status := runSplit(t, address, "t", "run", "show", "r1")
	for _, want := range []string{"\nbad ", "\nb19 ",
		"\n109 further steps: 99 success, 10 pending. All of them: dvt run show r1 --all\n"} {
		if status != 0 || !strings.Contains(out, want) {
			t.Errorf("status %d, want %q in\n%s%s", status, want, out, said)
		}
	}
	if all, _, _ := runSplit(t, address, "t", "run", "show", "r1", "--all"); strings.Count(all, "\n") < 130 ||
		strings.Contains(all, "further") {
		t.Errorf("with --all %d lines, want all steps", strings.Count(all, "\n"))
	}
}

func TestRunShow_PrintsTheParametersOfTheRun(t *testing.T) {
	t.Parallel()
	const run = `{"data":{"run":{"runId":"r1","status":"RUNNING","request":{"params":%s}}}}`
	address := serveAnswer(t, 200, fmt.Sprintf(run, `{"full":true,"day":"2026-11-26","token":"***"}`))
	for args, want := range map[string]string{
		"run show r1":         "\nparameters: day=2026-11-26, full=true, token=***\n",
		"run show r1 -o json": `"day": "2026-11-26"`,
	} {
		out, said, status := runSplit(t, address, "t", strings.Fields(args)...)
		if status != 0 || !strings.Contains(out, want) {
			t.Errorf("dvt %s: status %d, want %q in\n%s%s", args, status, want, out, said)
		}
	}
	out, _, _ := runSplit(t, serveAnswer(t, 200, fmt.Sprintf(run, "null")), "t", "run", "show", "r1")
	if strings.Contains(out, "parameters") {
		t.Errorf("a run without parameters: want no line of parameters in\n%s", out)
	}
}

func TestRunShow_PrintsWhatAStepWaitsFor(t *testing.T) {
	isolateEnvironment(t)
	const worker = `"kind":"WORKER","taskQueue":"tq-data-dev","pollerSeenAt":`
	ago := time.Now().Add(-3*time.Minute - 5*time.Second)
	for _, c := range []struct {
		name, status, wait, args string
		want, not                string
	}{
		{"worker seen", "PENDING", worker + `"2026-11-21T02:12:07.123Z"`, "",
			"waits for a worker on tq-data-dev, last seen 2026-11-21 02:12:07Z\n", ""},
		{"worker seen, on a terminal", "PENDING", worker + `"` + ago.Format(time.RFC3339Nano) + `"`, "terminal",
			"waits for a worker on tq-data-dev, last seen 3m ago", ""},
		{"worker seen by a clock ahead", "PENDING", worker + `"` + ago.Add(time.Hour).Format(time.RFC3339Nano) + `"`,
			"terminal", "last seen just now", " in "},
		{"no worker seen", "PENDING", worker + `null`, "", "waits for a worker on tq-data-dev, none seen recently\n", ""},
		{"worker in the past", "PENDING", worker + `"2026-11-21T02:12:07.123Z"`, "--at 3",
			"waits for a worker on tq-data-dev\n", "seen"},
		{"worker as data", "PENDING", worker + `"2026-11-21T02:12:07.123Z"`, "-o json",
			`"pollerSeenAt": "2026-11-21T02:12:07.123Z"`, ""},
		{"no queue", "PENDING", `"kind":"WORKER"`, "", "waits to be started\n", "worker"},
		{"dependencies", "PENDING", `"kind":"DEPENDENCIES","blockingSteps":["a","b","c","d","e"]`, "",
			"  waits for a, b, c and 2 more\n", ""},
		{"failed step", "PENDING", `"kind":"FAILED_STEP","blockingSteps":["a","b"]`, "",
			"blocked by a failed step, waits for a, b\n", ""},
		{"failed step that it does not need", "PENDING", `"kind":"FAIL_FAST","blockingSteps":["a"]`, "",
			"nothing new starts while a waits for an operator\n", ""},
		{"paused by somebody", "PENDING", `"kind":"PAUSED","who":"ben"`, "", "waits because ben paused the run\n", ""},
		{"paused", "PENDING", `"kind":"PAUSED"`, "", "waits because the run is paused\n", ""},
		{"manual step", "RUNNING", `"kind":"PERSON"`, "", "waits for a person to complete it\n", ""},
		{"failed, retry window open", "FAILED", `"kind":"PERSON"`, "",
			"EXIT_1: boom; waits for a person to retry or skip it\n", ""},
		{"failed, to be retried", "FAILED", `"kind":"RETRY"`, "", "EXIT_1: boom; waits to be retried\n", ""},
		{"between two tries", "RUNNING", `"kind":"RETRY","try":3,"tries":5,"until":"2026-11-21T02:12:07.123Z"`, "",
			"WAITING  -        -     waits to try again: try 3 of 5 in 1 s\n", "RUNNING  -"},
		{"a try without a worker", "RUNNING", `"kind":"RETRY","try":3,"tries":5`, "",
			"waits to try again: try 3 of 5 once a worker takes it\n", "RUNNING  -"},
		{"a run between two tries", "RUNNING", `"kind":"RETRY","try":3,"tries":5`, "",
			" (waits to try again) at seq", "waits for a worker"},
		{"a kind of a newer server", "PENDING", `"kind":"WEATHER"`, "", "waits: WEATHER\n", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			failed := "null"
			if c.status == "FAILED" {
				failed = `{"code":"EXIT_1","message":"boom"}`
			}
			address := serveAnswer(t, 200, fmt.Sprintf(
				`{"data":{"run":{"runId":"r1","status":"RUNNING","steps":[{"stepId":"s","type":"COMMAND","status":%q,"statusRaw":%q,"error":%s,"wait":{%s}}]}}}`,
				c.status, c.status, failed, c.wait))
			var out string
			if c.args == "terminal" {
				tty := consoletest.OpenTerminal(t, 140, 12)
				cmd := root()
				cmd.SetOut(tty.File)
				cmd.SetErr(tty.File)
				cmd.SetArgs([]string{"run", "show", "r1", "--server", address, "--token", "t"})
				if err := cmd.ExecuteContext(t.Context()); err != nil {
					t.Fatal(err)
				}
				out = tty.Await(`COMMAND.*`)
			} else {
				var status int
				if out, _, status = runSplit(t, address, "t", append([]string{"run", "show", "r1"},
					strings.Fields(c.args)...)...); status != 0 {
					t.Fatalf("exit status %d, want 0\n%s", status, out)
				}
			}
			if !strings.Contains(out, c.want) {
				t.Errorf("want %q in\n%s", c.want, out)
			}
			if c.not != "" && strings.Contains(out, c.not) {
				t.Errorf("want no %q in\n%s", c.not, out)
			}
		})
	}
}

// A run that completed because a person skipped its failure says so; the skip is no retry.
func TestRunShow_SaysThatAPersonSkippedAFailure(t *testing.T) {
	t.Parallel()
	const run = `{"data":{"run":{"runId":"r1","status":"COMPLETED","statusRaw":"COMPLETED","steps":[{"stepId":"load",
		"type":"COMMAND","status":"SKIPPED","statusRaw":"SKIPPED","logicalAttemptId":2,
		"skip":{"reasonCode":"OPERATOR_SKIP","reason":"late source"}}]}}}`
	out, said, status := runSplit(t, serveAnswer(t, 200, run), "t", "run", "show", "r1")
	for _, want := range []string{"COMPLETED (1 failed step skipped by a person) at seq",
		"skipped by a person after it failed: late source"} {
		if status != 0 || !strings.Contains(out, want) {
			t.Errorf("status %d, want %q in\n%s%s", status, want, out, said)
		}
	}
	if strings.Contains(out, "Retry #1") {
		t.Errorf("nobody retried the step, but the row says Retry #1:\n%s", out)
	}
}

// Steps without a start stand as people count, each with why it did not run.
func TestRunShow_SaysWhyStepsDidNotRun(t *testing.T) {
	t.Parallel()
	const run = `{"data":{"run":{"runId":"r1","status":"CANCELLED","statusRaw":"CANCELLED",
		"completedAt":"2026-11-21T02:12:07Z","steps":[
		{"stepId":"model_1","type":"NOOP","status":"SKIPPED","statusRaw":"SKIPPED","skip":{"reasonCode":"FAIL_FAST"}},
		{"stepId":"model_10","type":"NOOP","status":"PENDING","statusRaw":"PENDING"},
		{"stepId":"model_2","type":"NOOP","status":"PENDING","statusRaw":"PENDING"}]}},"runs":{"edges":[]}}`
	out, said, status := runSplit(t, serveAnswer(t, 200, run), "t", "run", "show", "r1")
	rows := strings.Split(strings.TrimSpace(out), "\n")
	for i, want := range []string{"model_10 never started, because the run ended",
		"model_2 never started, because the run ended", "model_1 not started, because another step failed"} {
		id, why, _ := strings.Cut(want, " ")
		if row := rows[max(0, len(rows)-1-i)]; status != 0 || !strings.HasPrefix(row, id+" ") ||
			!strings.HasSuffix(row, why) {
			t.Errorf("status %d, row %d from the end is %q, want %q in\n%s%s", status, i, row, want, out, said)
		}
	}
}

// A run that was rerun names its rerun, so that nobody loads the same day twice.
func TestRunShow_NamesTheReruns(t *testing.T) {
	t.Parallel()
	const answer = `{"data":{"run":{"runId":"r1","status":"FAILED","statusRaw":"FAILED","runSeq":9,"projectId":"shop",
		"environmentId":"dev","completedAt":"2026-11-21T02:12:07Z","plan":{"planId":"nightly"}},
		"runs":{"edges":[{"node":{"runId":"r2","parentRunId":"r1","status":"FAILED","statusRaw":"FAILED"}},
		{"node":{"runId":"r3","parentRunId":null,"status":"RUNNING","statusRaw":"RUNNING"}}]}}}`
	out, said, status := runSplit(t, serveAnswer(t, 200, answer), "t", "run", "show", "r1")
	if want := "\nrerun as r2, failed: dvt run show r2\n"; status != 0 || !strings.Contains(out, want) {
		t.Errorf("status %d, want %q in\n%s%s", status, want, out, said)
	}
	if strings.Contains(out, "r3") {
		t.Errorf("r3 is no rerun of r1:\n%s", out)
	}
}

// The printed document must be the same plan again, with its members in the same order.
func TestRunPlan_PrintsTheSamePlan(t *testing.T) {
	t.Parallel()
	const doc = `{"schemaVersion":"v1.2","metadata":{"planId":"nightly","planVersion":"1.0","createdAt":"2026-01-01T00:00:00Z","createdBy":"me","schemaVersion":"v1.2"},` +
		`"scope":{"tenantId":"acme","projectId":"yes","environmentId":"1e3","repoSha":"0000000000000000000000000000000000000000"},` +
		`"steps":[{"stepId":"on","type":"COMMAND","timeout":"1m","inputs":{"argv":["sh","-c","a\nb: #"],"env":{"TOKEN":"***"}}}]}`
	answer := func(runs string) string { return serveAnswer(t, 200, `{"data":{"run":`+runs+`}}`) }
	address := answer(`{"planDocument":` + doc + `}`)
	out, said, status := runSplit(t, address, "t", "run", "plan", "r1")
	if status != 0 || !strings.HasPrefix(out, "schemaVersion: v1.2\nmetadata:\n  planId: nightly\n") ||
		!strings.Contains(said, "look secret") {
		t.Errorf("%d, %s\n%s", status, said, out)
	}
	var got, want any
	if err := yaml.Unmarshal([]byte(out), &got); err != nil {
		t.Fatal(err)
	}
	again, _ := json.Marshal(got)
	if err := json.Unmarshal([]byte(doc), &want); err != nil {
		t.Fatal(err)
	}
	if wanted, _ := json.Marshal(want); string(again) != string(wanted) {
		t.Errorf("got  %s\nwant %s", again, wanted)
	}
	if out, status, err := local(t, out, "plan", "validate", "-"); status != 0 {
		t.Errorf("%v\n%s", err, out)
	}
	if out, _, status := runSplit(t, address, "t", "run", "plan", "r1", "-o", "json"); status != 0 ||
		!json.Valid([]byte(out)) {
		t.Errorf("%d\n%s", status, out)
	}
	if _, _, status := runSplit(t, answer(`{"planDocument":null}`), "t", "run", "plan", "r1"); status != 4 {
		t.Errorf("a plan that no worker has fetched: status %d, want 4", status)
	}
	if _, _, status := runSplit(t, answer(`null`), "t", "run", "plan", "r1"); status != 4 {
		t.Errorf("an unknown run: status %d, want 4", status)
	}
}

func TestPolicyWho_ListsPrincipals(t *testing.T) {
	t.Parallel()
	address, _ := serveStarted(t)
	for _, c := range []struct {
		token, args string
		status      int
		says        string
	}{
		{"dev-admin", "policy who cancel r1", 0, "dev-admin\n"},
		{"dev-admin", "policy who retry-step r1", 0, "dev-engineer\n"},
		{"dev-admin", "policy who start --project shop --environment prod", 0, "dev-engineer\n"},
		{"dev-admin", "policy who start", 2, "give a RUN, or --project and --environment"},
		{"dev-admin", "policy who dance r1", 2, `there is no action "dance"`},
		{"dev-admin", "policy who cancel r2", 4, "NOT_FOUND"},
		{"dev-viewer", "policy who cancel r1", 3, "FORBIDDEN"},
	} {
		out, status, err := dvt(t, address, c.token, strings.Fields(c.args)...)
		if err != nil {
			out += err.Error()
		}
		if status != c.status || !strings.Contains(out, c.says) {
			t.Errorf("dvt %s as %s: %d, want %d and %q\n%s", c.args, c.token, status, c.status, c.says, out)
		}
	}
}

func TestRunShow_KeptAndCancelledStepsAreNeitherDoneNowNorFailed(t *testing.T) {
	t.Parallel()
	address, r := serve(t)
	s := r.Outbox.(store.Store)
	append1(t, s, runtest.Draft(log.RunStarted, "", 1, runtest.M{"steps": []runtest.M{
		{"stepId": "old", "type": "NOOP"}, {"stepId": "slow", "type": "NOOP"},
	}}))
	append1(t, s, runtest.Draft(log.StepStartedEvent, "old", 1))
	append1(t, s, runtest.Draft(log.StepCompletedEvent, "old", 1,
		runtest.M{"reused": runtest.M{"runId": "c09db14f-1111-4222-8333-444455556666", "runSeq": 4}}))
	append1(t, s, runtest.Draft(log.StepStartedEvent, "slow", 1))
	append1(t, s, runtest.Draft(log.StepFailedEvent, "slow", 1, runtest.M{"errorCode": "CANCELLED", "errorMessage": nil}))
	out, status, err := dvt(t, address, "dev-viewer", "run", "show", "r1")
	for _, want := range []string{"KEPT", "kept from c09db14f\n", "CANCELLED"} {
		if status != 0 || !strings.Contains(out, want) {
			t.Errorf("status %d, %v, want %q\n%s", status, err, want, out)
		}
	}
	if strings.Contains(out, "FAILED") || strings.Contains(out, "SUCCESS") {
		t.Errorf("a step is shown as failed or as done now:\n%s", out)
	}
}

// contract: R188, R191
func TestRunStep_PrintsEachTryAndTheCompensation(t *testing.T) {
	isolateEnvironment(t)
	s := serveAnswer(t, 200, `{"data":{"run":{"step":{"stepId":"load","type":"COMMAND","statusRaw":"FAILED","evidence":{
		"logicalAttemptId":2,"engine":"temporal","tries":[
		{"engineAttemptId":1,"outcome":"FAILED","worker":"host/7","account":"data-1","startedAt":"2026-11-28T09:00:00Z",
		"endedAt":"2026-11-28T09:00:01Z","lastHeartbeatAt":"2026-11-28T09:00:01Z","errorCode":"EXIT_STATUS","exitStatus":3,
		"logLines":2,"logBytes":40,"stack":"goroutine 7"},
		{"engineAttemptId":2,"outcome":"LOST"},{"engineAttemptId":3,"outcome":"FAILED","signal":"SIGKILL"}],
		"compensation":{"compensated":false,"attempts":3,"endedAt":"2026-11-28T09:01:00Z","idempotencyKey":"k",
		"errorCode":"HTTP_STATUS","errorMessage":"503"}}}}}}`)
	out, status, err := dvt(t, s, "t", "run", "step", "4fec12ab-0000-4000-8000-000000000000", "load", "--attempt", "2")
	for _, want := range []string{"step load (COMMAND) is failed, attempt 2", "EXIT_STATUS", "host/7", "2 lines, 40 B",
		"lost", "SIGKILL", "not compensated", "tries: 3, HTTP_STATUS: 503", "stack of try 1:\ngoroutine 7"} {
		if !strings.Contains(out, want) {
			t.Errorf("the output lacks %q", want)
		}
	}
	if status != 0 || t.Failed() {
		t.Errorf("status %d, %v\n%s", status, err, out)
	}
	doc, status, err := dvt(t, s, "t", "run", "step", "4fec12ab-0000-4000-8000-000000000000", "load", "-o", "json")
	if status != 0 || !strings.Contains(doc, `"exitStatus": 3`) {
		t.Errorf("status %d, %v, want the answer as JSON:\n%s", status, err, doc)
	}
}
