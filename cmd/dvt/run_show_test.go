package main

import (
	"encoding/json"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"

	log "github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
)

// The log of r1 is: 1 approved, 2 started, 3 s1 started, 4 s1 failed, 5 PAUSE accepted, 6 paused.
func TestRunShowAndDiff_AnyMoment(t *testing.T) {
	t.Parallel()
	address, s := started(t)
	append1(t, s, runtest.Draft(log.StepStartedEvent, "s1", 1))
	append1(t, s, runtest.Draft(log.StepFailedEvent, "s1", 1))
	append1(t, s, runtest.Draft(log.SignalAccepted, "p1", 1, runtest.M{"signalType": "PAUSE", "actor": "ben", "reason": "lunch"}))
	append1(t, s, runtest.Draft(log.RunPaused, "p1", 1, runtest.M{"pauseRequestedBy": "ben"}))
	for _, c := range []struct {
		args   string
		status int
		says   []string
		not    string
	}{
		{"run show r1", 0, []string{"PAUSED", "at seq 6", "FAILED"}, "as it was"},
		{"run show r1 --at 3", 0, []string{"RUNNING as it was at seq 3", "s1"}, "FAILED"},
		{"run show r1 --at 0", 0, []string{"as it was at seq 0"}, "s1"},
		{"run show r1 --at 7", 2, []string{"ends at seq 6"}, ""},
		{"run show r1 --at=-1", 2, nil, ""},
		{"run diff r1 3 4", 0, []string{"from seq 3 to seq 4 the run ", "s1    RUNNING  FAILED  1"}, "DECIDED"},
		{"run diff r1 4 3", 0, []string{"from seq 3 to seq 4"}, ""},
		{"run diff r1 1", 0, []string{"from seq 1 to seq 6", "to PAUSED", "s1    PENDING  FAILED", "SignalAccepted PAUSE by ben: lunch", "RunPaused"}, ""},
		{"run diff r1 6", 0, []string{"stayed PAUSED", "no step changed"}, "STEP"},
		{"run diff r1 7", 2, []string{"ends at seq 6, before seq 7"}, ""},
		{"run diff r1 3 9", 2, []string{"BAD_USER_INPUT"}, ""},
		{"run diff r1 x", 2, []string{"a seq is a number"}, ""},
		{"run diff r1", 2, []string{"usage: dvt run diff RUN SEQ [SEQ]"}, ""},
		{"run diff r2 1", 4, []string{"NOT_FOUND"}, ""},
		{"run diff r2 1 2", 4, []string{"NOT_FOUND"}, ""},
	} {
		out, status, err := dvt(t, address, "dev-viewer", strings.Fields(c.args)...)
		if err != nil {
			out += err.Error()
		}
		if status != c.status || c.not != "" && strings.Contains(out, c.not) {
			t.Errorf("dvt %s: %d, want %d and no %q\n%s", c.args, status, c.status, c.not, out)
		}
		for _, want := range c.says {
			if !strings.Contains(out, want) {
				t.Errorf("dvt %s: no %q in\n%s", c.args, want, out)
			}
		}
	}
}

// What a run runs is printed as a document that is the same plan again, in its own order.
func TestRunPlan_IsAPlanAgain(t *testing.T) {
	t.Parallel()
	const doc = `{"schemaVersion":"v1.2","metadata":{"planId":"nightly","planVersion":"1.0","createdAt":"2026-01-01T00:00:00Z","createdBy":"me","schemaVersion":"v1.2"},` +
		`"scope":{"tenantId":"acme","projectId":"yes","environmentId":"1e3","repoSha":"0000000000000000000000000000000000000000"},` +
		`"steps":[{"stepId":"on","type":"COMMAND","timeout":"1m","inputs":{"argv":["sh","-c","a\nb: #"],"env":{"TOKEN":"***"}}}]}`
	answer := func(runs string) string { return answering(t, 200, `{"data":{"run":`+runs+`}}`) }
	address := answer(`{"planDocument":` + doc + `}`)
	out, said, status := apart(t, address, "t", "run", "plan", "r1")
	if status != 0 || !strings.HasPrefix(out, "schemaVersion: v1.2\nmetadata:\n  planId: nightly\n") || !strings.Contains(said, "look secret") {
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
	if out, _, status := apart(t, address, "t", "run", "plan", "r1", "-o", "json"); status != 0 || !json.Valid([]byte(out)) {
		t.Errorf("%d\n%s", status, out)
	}
	if _, _, status := apart(t, answer(`{"planDocument":null}`), "t", "run", "plan", "r1"); status != 4 {
		t.Errorf("a plan that nobody has: %d", status)
	}
	if _, _, status := apart(t, answer(`null`), "t", "run", "plan", "r1"); status != 4 {
		t.Errorf("no such run: %d", status)
	}
}

func TestPolicyWho_NamesWhoMay(t *testing.T) {
	t.Parallel()
	address, _ := started(t)
	for _, c := range []struct {
		token, args string
		status      int
		says        string
	}{
		{"dev-admin", "policy who cancel r1", 0, "dev-admin\n"},
		{"dev-admin", "policy who retry-step r1", 0, "dev-engineer\n"},
		{"dev-admin", "policy who start --project shop --environment prod", 0, "dev-engineer\n"},
		{"dev-admin", "policy who start", 2, "runId: give either a run, or a project and an environment"},
		{"dev-admin", "policy who dance r1", 2, "ACTION is one of READ, START"},
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
