package attacks_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dvt-engine/dvt/engine/ticket"
)

// mintTicket returns the ticket that this installation would create for the first dispatch of an attempt. The tests
// have its keys, so they can test the Journal's checks beyond the ticket. For the old binary it returns "".
func (w *world) mintTicket(runID, stepID string, logicalAttempt int, expires time.Duration) string {
	return w.keys.Ticket(ticket.Dispatch{
		RunID: runID, StepID: stepID, LogicalAttempt: logicalAttempt, N: 1, Queue: queueNobody,
		Expires: time.Now().Add(expires),
	})
}

// secretStep returns a step with a secret header that no worker may see before the step's turn.
func secretStep(id string, dependsOn ...string) step {
	return step{
		"stepId": id, "type": "HTTP_NOTIFY", "dependsOn": dependsOn, "timeout": "1m",
		"retry":  map[string]any{"maxAttempts": 1},
		"inputs": map[string]any{"url": "http://127.0.0.1:9/", "headers": map[string]any{"X-Key": "webhook-secret-123"}},
	}
}

// contract: T185, T203
func TestWorkerToken_BeginsNothingWithoutTheTicketOfTheDispatch(t *testing.T) {
	t.Parallel()
	w := installation(t)
	steps := []step{command("a", queueNobody, "true"), secretStep("b", "a")}
	runID, other := w.startRun(t, operator, "shop", steps...), w.startRun(t, operator, "shop", steps...)
	own, others := w.stranger.waitForTicket(t, "acme", runID, "a"), w.stranger.waitForTicket(t, "acme", other, "a")
	tampered := strings.Replace(own, ".", ".A", 1)
	w.expectRefused(t, "a step of another queue, without a ticket", w.sendBegin(t, acmeWorker, attempt(runID, "b", "")))
	w.expectRefused(t, "a step, with a ticket of another step", w.sendBegin(t, acmeWorker, attempt(runID, "b", own)))
	w.expectRefused(t, "a step, with a ticket of another run", w.sendBegin(t, acmeWorker, attempt(runID, "a", others)))
	w.expectRefused(t, "a step, with a tampered ticket", w.sendBegin(t, acmeWorker, attempt(runID, "a", tampered)))
	w.expectRefused(t, "a step, with an expired ticket",
		w.sendBegin(t, acmeWorker, attempt(runID, "a", w.mintTicket(runID, "a", 1, -time.Minute))))
	w.expectRefused(t, "another tenant's step, with its ticket", w.sendBegin(t, globexWorker, attempt(runID, "a", own)))
	w.expectRefused(t, "a step of a queue that the token is not for, with its ticket",
		w.sendBegin(t, narrowWorker, attempt(runID, "a", own)))
	for _, id := range []string{runID, other} {
		r, err := w.readRun(t.Context(), operator, id)
		must(t, err)
		if n := r.countEvents("StepStarted", "a") + r.countEvents("StepStarted", "b"); n > 0 {
			t.Errorf("%d attempts began, want none: %s", n, r)
		}
	}
	w.expectAudit(t, admin, runID, "ticket")
	w.cancel(t, admin, runID)
	w.expectEnd(t, operator, runID, "CANCELLED", 30*time.Second)
	w.cancel(t, admin, other)
	w.expectEnd(t, operator, other, "CANCELLED", 30*time.Second)
}

// contract: T185, T200
func TestWorkerToken_CannotWedgeARunByAnAttemptOutOfTurn(t *testing.T) {
	t.Parallel()
	w := installation(t)
	future := time.Date(2099, 1, 1, 0, 0, 0, 0, time.UTC)
	for what, forge := range map[string]func(runID, ticket string) (_ beginCall, audited string){
		"attempt seven in 2099": func(runID, ticket string) (beginCall, string) {
			return beginCall{runID: runID, stepID: "a", logicalAttempt: 7, n: 1, engineAttempt: 1, at: future, ticket: ticket},
				"another dispatch"
		},
		"attempt seven by a ticket for it": func(runID, _ string) (beginCall, string) {
			return beginCall{runID: runID, stepID: "a", logicalAttempt: 7, n: 1, engineAttempt: 1, at: time.Now().UTC(),
				ticket: w.mintTicket(runID, "a", 7, time.Hour)}, "not next"
		},
		"a step with an open dependency": func(runID, _ string) (beginCall, string) {
			return attempt(runID, "b", w.mintTicket(runID, "b", 1, time.Hour)), "depends on"
		},
		"its own attempt in 2099": func(runID, ticket string) (beginCall, string) {
			return beginCall{runID: runID, stepID: "a", logicalAttempt: 1, n: 1, engineAttempt: 1, at: future, ticket: ticket},
				"clock"
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			runID := w.startRun(t, operator, "shop", command("a", queueNobody, "true"), command("b", queueNobody,
				"true").after("a"))
			call, audited := forge(runID, w.stranger.waitForTicket(t, "acme", runID, "a"))
			w.expectRefused(t, what, w.sendBegin(t, acmeWorker, call))
			w.cancel(t, admin, runID)
			last := w.expectEnd(t, operator, runID, "CANCELLED", 30*time.Second)
			if n := last.countEvents("StepStarted", "a") + last.countEvents("StepStarted", "b"); n > 0 {
				t.Errorf("%d attempts began, want none: %s", n, last)
			}
			w.expectAudit(t, admin, runID, audited)
		})
	}
}

// A run with an attempt that began with a valid token and ticket, but that no worker executes, still ends by a cancel.
//
// contract: T200
func TestCancel_EndsARunWhoseAttemptNobodyExecutes(t *testing.T) {
	t.Parallel()
	w := installation(t)
	runID := w.startRun(t, operator, "shop", command("a", queueNobody, "true"))
	a := w.sendBegin(t, acmeWorker, attempt(runID, "a", w.stranger.waitForTicket(t, "acme", runID, "a")))
	if a.status != http.StatusOK {
		t.Fatalf("the begin was answered %d %s, want 200", a.status, a.body)
	}
	w.waitForStart(t, operator, runID, "a")
	w.cancel(t, admin, runID)
	w.expectEnd(t, operator, runID, "CANCELLED", 30*time.Second)
}

// contract: T10, T229
func TestWorkerToken_WritesNothingAfterTheEnd(t *testing.T) {
	t.Parallel()
	w := installation(t)
	runID := w.startRun(t, operator, "shop", command("a", queuePlayed, "true"))
	own := attempt(runID, "a", w.stranger.waitForTicket(t, "acme", runID, "a"))
	a := w.sendBegin(t, acmeWorker, own)
	if a.status != http.StatusOK {
		t.Fatalf("the begin was answered %d %s, want 200", a.status, a.body)
	}
	g := a.decodeGrant(t)
	another := g
	another.key += "x"
	if !oldBinary {
		w.expectRefused(t, "evidence with a key that is not the attempt's", w.sendEvidence(t, acmeWorker, own, another,
			"forged: not the key"))
		second := own
		second.engineAttempt = 2
		w.expectRefused(t, "evidence of another execution with this one's key", w.sendEvidence(t, acmeWorker, second, g,
			"forged: not this execution"))
		w.expectRefused(t, "an end with a key that is not the attempt's", w.sendEnd(t, acmeWorker, own, another, "forged"))
		w.expectRefused(t, "an end by another worker's token", w.sendEnd(t, globexWorker, own, g, "forged"))
	}
	if a := w.sendEvidence(t, acmeWorker, own, g, "a true line"); a.status != http.StatusOK {
		t.Fatalf("the evidence was answered %d %s, want 200", a.status, a.body)
	}
	if oldBinary {
		w.stranger.complete(t, "acme", runID, "a/1.1", map[string]any{"stepId": "a", "la": 1, "n": 1, "ea": 1,
			"kind": "COMPLETED", "completed": map[string]any{"result": map[string]any{"said": "first"}}})
	} else {
		for _, result := range []string{"first", "forged: second"} { // the second end must not replace the first
			if a := w.sendEnd(t, acmeWorker, own, g, result); a.status != http.StatusOK || !strings.Contains(a.body,
				"StepCompleted") {
				t.Fatalf("the end was answered %d %s, want StepCompleted", a.status, a.body)
			}
		}
		if again := w.sendBegin(t, acmeWorker, own); again.decodeGrant(t).verdict == "RUN" {
			t.Errorf("the attempt began again after its end: %s", again.body)
		}
		w.expectRefused(t, "evidence after the attempt's end", w.sendEvidence(t, acmeWorker, own, g, "forged: after the end"))
		w.spawnFor(t, "late data worker", acmeWorker, queuePlayed, w.url)
	}
	last := w.expectEnd(t, operator, runID, "COMPLETED", time.Minute)
	own.at = time.Now().UTC()
	w.expectRefused(t, "evidence after the run's end",
		w.sendEvidence(t, acmeWorker, beginCall{runID: runID, stepID: "a", logicalAttempt: 1, n: 1, engineAttempt: 2,
			at: own.at}, g,
			"forged: all tests passed, signed: the CI"))
	if !oldBinary {
		w.expectRefused(t, "evidence after the run's end, with the key", w.sendEvidence(t, acmeWorker, own, g,
			"forged: after the run"))
		w.expectAudit(t, admin, runID, "key")
	}
	if n := last.countEvents("StepCompleted", "a"); n != 1 || strings.Contains(last.String(), "forged") ||
		!strings.Contains(last.String(), "first") {
		t.Errorf("the log has %d ends of the step, want one with the first result: %s", n, last)
	}
	if text := w.readStepLog(t, runID, "a"); strings.Contains(text, "forged") || !strings.Contains(text, "a true line") {
		t.Errorf("the log of the step is %s, want only the true line", text)
	}
}

func (w *world) readStepLog(t *testing.T, runID, stepID string) string {
	t.Helper()
	var out struct {
		StepLog *struct{ Lines []struct{ Text string } }
	}
	must(t, w.graphql(t.Context(), operator, `query($r: String!, $s: String!) { stepLog(runId: $r, stepId: $s) { lines { text } } }`,
		map[string]any{"r": runID, "s": stepID}, &out))
	raw, err := json.Marshal(out.StepLog)
	must(t, err)
	return string(raw)
}

// contract: T203
func TestWorkerToken_OpensNothingElse(t *testing.T) {
	t.Parallel()
	w := installation(t)
	runID := w.startRun(t, operator, "shop", noop("n"))
	for _, query := range []string{
		`{ viewer { principal } }`, `{ runs(first: 1) { edges { node { runId } } } }`,
		`mutation { cancelRun(input: {runId: "` + runID + `", signalId: "x"}) { signal { signalId } } }`,
	} {
		a, err := w.post(t.Context(), "/graphql", acmeWorker, map[string]any{"query": query})
		must(t, err)
		if a.status != http.StatusUnauthorized || strings.Contains(a.body, runID) {
			t.Errorf("a token of a worker at the API: %d %s, want 401", a.status, a.body)
		}
	}
	for _, path := range []string{"/engine/runs/" + runID + "/debug", "/engine/health/detailed"} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, w.url+path, nil)
		must(t, err)
		req.Header.Set("Authorization", "Bearer "+acmeWorker)
		res, err := http.DefaultClient.Do(req)
		must(t, err)
		must(t, res.Body.Close())
		if res.StatusCode != http.StatusUnauthorized && res.StatusCode != http.StatusForbidden &&
			res.StatusCode != http.StatusNotFound {
			t.Errorf("a token of a worker at %s: %d, want a refusal", path, res.StatusCode)
		}
	}
	for _, call := range []string{"append", "appendUnlessPaused", "tail", "signals", "skeleton", ""} {
		a := w.postJournal(t, strings.TrimSuffix("/engine/journal/"+call, "/"), acmeWorker, map[string]any{
			call: map[string]any{"runId": runID}, "runId": runID,
			"events": []any{map[string]any{"type": "RunCompleted", "logicalAttempt": 1, "engineAttempt": 1}},
		})
		if a.status == http.StatusOK && !strings.Contains(a.body, "<html") {
			t.Errorf("the Journal offers %q to workers: %s", call, a.body)
		}
	}
	for _, token := range []string{operator, admin, "", hash(acmeWorker)} {
		if a := w.sendBegin(t, token, attempt(runID, "n", "")); a.status != http.StatusUnauthorized {
			t.Errorf("the Journal answers the token %q with %d %s, want 401", token, a.status, a.body)
		}
	}
	w.expectEnd(t, operator, runID, "COMPLETED", time.Minute)
}

// contract: T203
func TestWorkers_ListenOnNothing(t *testing.T) {
	t.Parallel()
	w := installation(t)
	listening := map[string]string{}
	for _, file := range []string{"tcp", "tcp6"} {
		text, err := os.ReadFile("/proc/net/" + file)
		must(t, err)
		for line := range strings.Lines(string(text)) {
			if f := strings.Fields(line); len(f) > 9 && f[3] == "0A" {
				listening["socket:["+f[9]+"]"] = f[1]
			}
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range w.processes {
		ports := 0
		files, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", p.cmd.Process.Pid))
		must(t, err)
		if len(files) == 0 && os.Getuid() != 0 {
			t.Skipf("processes of dvt close their open files to their own user: run this test as root to see the ports of %s",
				p.name)
		}
		for _, f := range files {
			target, err := os.Readlink(f)
			if at, ok := listening[target]; err == nil && ok {
				if ports++; p.name != "server" {
					t.Errorf("%s listens on %s", p.name, at)
				}
			}
		}
		if p.name == "server" && ports != 1 {
			t.Errorf("the server listens on %d ports, want 1; otherwise this test does not see the ports of processes", ports)
		}
	}
}
