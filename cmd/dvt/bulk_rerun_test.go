package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dvt-engine/dvt/cmd/dvt/internal/cmdline"
	"github.com/dvt-engine/dvt/internal/testtime"
	log "github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
	"github.com/dvt-engine/dvt/store"
)

// serveFailed serves a database with the run r1, which failed: s1 failed, s2 succeeded, and s3, which needs s1, did not
// run.
func serveFailed(t *testing.T) (address, file string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "dvt.db")
	address, r := serveFile(t, file)
	s, ok := r.Outbox.(store.Store)
	if !ok {
		t.Fatal("no store")
	}
	for _, d := range []log.Draft{runtest.Start("s1", "s2", "s3<s1"), runtest.Draft(log.StepStartedEvent, "s1", 1),
		runtest.Draft(log.StepStartedEvent, "s2", 1), runtest.Draft(log.StepCompletedEvent, "s2", 1),
		runtest.Draft(log.StepFailedEvent, "s1", 1),
		runtest.Draft(log.StepSkippedEvent, "s3", 1, runtest.M{"reasonCode": "DEPENDENCY_FAILED"}),
		runtest.Draft(log.RunFailed, "", 1)} {
		append1(t, s, d)
	}
	return address, file
}

func TestBulkRerun_PreviewsConfirmsAndCreatesRuns(t *testing.T) {
	t.Parallel()
	address, file := serveFailed(t)
	params := filepath.Join(t.TempDir(), "params.yaml")
	if err := os.WriteFile(params, []byte("day: monday\nrows: 3\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		token, args string
		status      int
		says        string
	}{
		{"dev-engineer", "--from failed --reason x --yes", 2, "give one of --status, --project"},
		{"dev-engineer", "--from failed --text r1 --yes", 2, "give a --reason"},
		{"dev-engineer", "--from failed --text r1 --reason x", 2, "dvt bulk rerun needs --yes without a terminal"},
		{"dev-engineer", "--from failed --text r1 --param =1 --reason x --yes", 2, "--param must be NAME=VALUE"},
		{"dev-engineer", "--from failed --since soon --reason x --yes", 2, "--since must be a time"},
		{"dev-engineer", "--from failed --text r1 --preview", 0, "1 run\n  r1 (failed): It would be applied."},
		{"dev-engineer", "--from failed --text r1 --param day=2 --param api_token=x1 --preview", 0, "All new runs get " +
			"the same parameters (api_token, day). Those of the earlier runs are left out."},
		{"dev-engineer", "--from failed --text r1 --preview -o json", 0, `"outcome": "APPLY"`},
		{"dev-engineer", "--from nope --text r1 --preview", 0, `It would be refused. The run has no step "nope".`},
		{"dev-engineer", "--from failed --since 1h --until 0h --tag no-such --reason x --yes", 4, "no run is selected"},
		{"dev-viewer", "--from failed --text r1 --reason x --yes", 3, "1 would refuse: "},
	} {
		out, status, err := dvt(t, address, c.token, append([]string{"bulk", "rerun"}, strings.Fields(c.args)...)...)
		if says := out + text(err); status != c.status || !strings.Contains(says, c.says) {
			t.Errorf("%s %s: status %d, want %d and %q in\n%s", c.token, c.args, status, c.status, c.says, says)
		}
	}
	out, status, err := dvt(t, address, "dev-engineer", "bulk", "rerun", "--from", "failed", "--text", "r1",
		"--params", params, "--param", "rows=4", "--reason", "the source is back", "--yes", "-o", "json")
	var made struct{ Bulk struct{ ID, TypeRaw string } }
	if !strings.Contains(out, "{") {
		t.Fatalf("status %d, %v\n%s", status, err, out)
	}
	if jerr := json.Unmarshal([]byte(out[strings.Index(out, "{"):]), &made); jerr != nil || status != 0 ||
		made.Bulk.TypeRaw != rerunAction {
		t.Fatalf("status %d, %v, %v\n%s", status, err, jerr, out)
	}
	sendBulks(t, file)
	var shown struct {
		Counts struct{ Accepted int }
		Rows   []struct{ NewRunID, RunStatus string }
	}
	for end := time.Now().Add(testtime.Of(10 * time.Second)); shown.Counts.Accepted != 1; {
		if time.Sleep(20 * time.Millisecond); time.Now().After(end) {
			t.Fatalf("the bulk has not run:\n%s", out)
		}
		out, _, _ = dvt(t, address, "dev-engineer", "bulk", "show", made.Bulk.ID, "-o", "json")
		_ = json.Unmarshal([]byte(out[strings.Index(out, "{"):]), &shown) // the end of the loop reports what it cannot read
	}
	if len(shown.Rows) != 1 || shown.Rows[0].NewRunID == "" || shown.Rows[0].RunStatus != "APPROVED" {
		t.Fatalf("the rows are %+v, want one with a new run that is APPROVED", shown.Rows)
	}
	again := shown.Rows[0].NewRunID
	if out, _, _ = dvt(t, address, "dev-engineer", "bulk", "show", made.Bulk.ID); !strings.Contains(out,
		"rerun done: 1 of 1 sent, 1 accepted, 0 rejected, 0 refused; new runs: 1 waiting") || !strings.Contains(out, again) {
		t.Errorf("show: want the summary and the new run %s in\n%s", again, out)
	}
	out, _, _ = dvt(t, address, "dev-engineer", "run", "show", again, "-o", "json")
	if flat := strings.Join(strings.Fields(out), ""); !strings.Contains(flat, `"params":{"day":"monday","rows":4}`) {
		t.Errorf("the parameters of the new run are not those that were given:\n%s", out)
	}
}

func TestBulkRerun_AsksForTheNumberOfRuns(t *testing.T) {
	address, _ := serveFailed(t)
	for _, c := range []struct {
		typed  string
		status int
		says   string
	}{{"2", 2, "nothing was sent"}, {"1", 0, "accepted for 1 run: dvt bulk watch "}} {
		out, answer, end := runTyping(t, t.Context(), address, "bulk", "rerun", "--from", "start", "--text", "r1",
			"--reason", "again")
		out.await(t, `To rerun 1 run, type 1: `)
		answer(c.typed)
		err := end()
		if status := cmdline.ExitStatus(err); status != c.status || !strings.Contains(out.String()+text(err), c.says) {
			t.Errorf("typed %s: status %d, want %d and %q in\n%s%v", c.typed, status, c.status, c.says, out, err)
		}
	}
}

// The advice after the table is another command than the one that was typed.
func TestBulkShow_NamesANewRunThatFailed(t *testing.T) {
	t.Parallel()
	address := serveAnswer(t, 200, `{"data":{"bulk":{"id":"b1","state":"DONE","typeRaw":"RERUN","leftOut":12,`+
		`"createdAt":"2026-11-22T00:00:00Z","finishedAt":"2026-11-22T00:00:01Z","counts":{"total":1,"accepted":1},`+
		`"runs":{"failed":1},"rows":{"edges":[{"node":{"no":1,"runId":"old","outcomeRaw":"ACCEPTED","newRunId":"new",`+
		`"runStatus":"FAILED"}}],"pageInfo":{}}}}}`)
	out, status, err := dvt(t, address, "t", "bulk", "show", "b1")
	const want = "1 of 1 new runs did not succeed: dvt run show new"
	if all := out + text(err); status != 1 || !strings.Contains(all, want) ||
		!strings.Contains(all, "12 left out: already rerun") {
		t.Errorf("status %d, want 1, %q and the runs that were left out in\n%s", status, want, all)
	}
}

// A bulk that reruns is done for the server when the new runs exist. Its watch waits until they have ended.
func TestBulkWatch_OfARerunEndsWithTheNewRuns(t *testing.T) {
	t.Parallel()
	frame := func(runs string) string {
		return `{"data":{"bulkUpdates":{"sync":"LIVE","asOf":"2026-11-22T00:00:00Z","bulk":{"id":"b1","state":"DONE",` +
			`"finishedAt":"2026-11-22T00:00:01Z","typeRaw":"RERUN","createdAt":"2026-11-22T00:00:00Z",` +
			`"counts":{"total":2,"accepted":2},"runs":{` + runs + `}},"rows":[]}}}`
	}
	for _, c := range []struct {
		end    string
		status int
		says   string
	}{{`"completed":2`, 0, "new runs: 2 completed"}, {`"completed":1,"failed":1`, 1, "1 of 2 new runs did not succeed"}} {
		var sent atomic.Bool
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			for _, runs := range []string{`"running":1,"waiting":1`, `"running":1,"completed":1`, c.end} {
				_, _ = w.Write([]byte("event: next\ndata: " + frame(runs) + "\n\n"))
			}
			sent.Store(true)
		}))
		t.Cleanup(s.Close)
		out, status, err := dvt(t, s.URL, "t", "bulk", "watch", "b1")
		if says := out + text(err); status != c.status || !strings.Contains(says, "new runs: 1 running, 1 completed") ||
			!strings.Contains(says, c.says) {
			t.Errorf("status %d, want %d, each frame and %q in\n%s", status, c.status, c.says, says)
		}
	}
}

// newRun returns the id with which the output of a rerun ends. Remarks on standard error come before it.
func newRun(out string) string {
	lines := strings.Split(strings.TrimSpace(out), "\n")
	return strings.Fields(lines[len(lines)-1] + " -")[0]
}

func TestRunRerun_TakesOtherParameters(t *testing.T) {
	t.Parallel()
	address, _ := serveFailed(t)
	out, status, err := dvt(t, address, "dev-engineer", "run", "rerun", "r1", "--from", "failed", "--param",
		"day=tuesday")
	if status != 0 {
		t.Fatalf("status %d, %v\n%s", status, err, out)
	}
	again := newRun(out)
	out, _, _ = dvt(t, address, "dev-engineer", "run", "show", again, "-o", "json")
	if flat := strings.Join(strings.Fields(out), ""); !strings.Contains(flat, `"params":{"day":"tuesday"}`) {
		t.Errorf("the parameters of the new run are not those that were given:\n%s", out)
	}
}

// A parameter that is not given again is kept. A hidden one cannot be copied, so the server asks for it.
func TestRunRerun_KeepsTheOtherParameters(t *testing.T) {
	t.Parallel()
	address, _ := serveFailed(t)
	rerun := func(of string, more ...string) (string, int, error) {
		return dvt(t, address, "dev-engineer", append([]string{"run", "rerun", of, "--from", "start"}, more...)...)
	}
	first, status, err := rerun("r1", "--param", "day=monday", "--param", "threads=4", "--param", "api_token=x1234")
	if status != 0 {
		t.Fatalf("status %d, %v\n%s", status, err, first)
	}
	first = newRun(first)
	if out, status, err := dvt(t, address, "dev-engineer", "run", "cancel", first, "--reason", "r", "--yes"); status != 0 {
		t.Fatalf("cancel: status %d, %v\n%s", status, err, out)
	}
	if out, status, err := rerun(first, "--param", "day=tuesday"); status == 0 ||
		!strings.Contains(out+text(err), "params.api_token") {
		t.Errorf("status %d, %v, want a refusal that names params.api_token:\n%s", status, err, out)
	}
	again, status, err := rerun(first, "--param", "day=tuesday", "--param", "api_token=y1234")
	if status != 0 {
		t.Fatalf("status %d, %v\n%s", status, err, again)
	}
	out, _, _ := dvt(t, address, "dev-engineer", "run", "show", newRun(again), "-o", "json")
	const want = `"params":{"api_token":"***","day":"tuesday","threads":4}`
	if flat := strings.Join(strings.Fields(out), ""); !strings.Contains(flat, want) {
		t.Errorf("the new run does not keep the number of threads:\n%s", out)
	}
}
