package server_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dvt-engine/dvt/client"
	"github.com/dvt-engine/dvt/internal/testserver"
	"github.com/dvt-engine/dvt/internal/testtime"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// stepWait is the wait of a step in an answer of the API.
type stepWait struct {
	Kind         string
	TaskQueue    string
	PollerSeenAt *time.Time
}

// readWait reads the wait of the first step of a run from a server.
func (p *deployment) readWait(t *testing.T, base, runID string) (w stepWait) {
	t.Helper()
	got := ask(t, base, fmt.Sprintf(`{ run(runId: %q) { steps { wait { kind taskQueue pollerSeenAt } } } }`, runID), nil,
		"Authorization: Bearer "+adaToken)
	var out struct {
		Data struct {
			Run struct{ Steps []struct{ Wait *stepWait } }
		}
	}
	if err := json.Unmarshal([]byte(got.body), &out); err != nil || got.StatusCode != http.StatusOK {
		t.Fatalf("%s answered %d %s (%v), want a run", base, got.StatusCode, got.body, err)
	}
	if s := out.Data.Run.Steps; len(s) == 1 && s[0].Wait != nil { // a run has no steps before its start
		w = *s[0].Wait
	}
	return w
}

var openNoWorker = regexp.MustCompile(`(?m)^dvt_sweep_open\{kind="no_worker"\} (\d+)$`)

// readUnservedQueues returns the number of queues without a worker from the metrics of a server.
func readUnservedQueues(t *testing.T, base string) string {
	t.Helper()
	found := openNoWorker.FindStringSubmatch(get(t, base+"/metrics", "Authorization: Bearer "+samToken).body)
	if found == nil {
		t.Fatalf("the metrics of %s lack the gauge of queues without a worker", base)
	}
	return found[1]
}

func (p *deployment) listAlerts(t *testing.T) []store.AlertState {
	t.Helper()
	all, err := p.store.ListAlerts(t.Context(), store.AlertFilter{TenantID: "acme", Limit: store.MaxPage})
	must(t, err)
	return all
}

// blockingProxy is a proxy in front of a server that can block the paths under /engine/.
type blockingProxy struct {
	*httptest.Server
	blocks atomic.Bool
}

func newBlockingProxy(t *testing.T, base string) *blockingProxy {
	t.Helper()
	to, err := url.Parse(base)
	must(t, err)
	p, pass := &blockingProxy{}, httputil.NewSingleHostReverseProxy(to)
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if p.blocks.Load() && strings.HasPrefix(r.URL.Path, "/engine/") {
			http.Error(w, "<html>not for you</html>", http.StatusForbidden)
			return
		}
		pass.ServeHTTP(w, r)
	}))
	t.Cleanup(p.Close)
	return p
}

// A proxy blocks the pages under /engine/ because they are for operators, and with them the Journal. The run names the
// cause, and a worker says so in its last line.
// contract: R191
func TestJournal_AProxyThatBlocksItIsNamedOnTheRun(t *testing.T) {
	t.Parallel()
	p := startDeployment(t)
	c := client.New(p.urlA, adaToken)
	proxy := newBlockingProxy(t, p.urlA)
	p.data.terminate()
	behind := func(token string) []string {
		file := filepath.Join(t.TempDir(), "token")
		must(t, os.WriteFile(file, []byte(token), 0o600))
		return p.data.argsWith("--server", proxy.URL, "--worker-token-file", file)
	}
	worker := spawn(t, "data worker behind a proxy", nil, behind(workerToken)...)
	const step = `{"stepId":"held","type":"COMMAND","inputs":{"argv":["true"]},"timeout":"1m"}`
	passed := start(t, c, "passed", stepsPlan("passed", step))
	if st := waitForEnd(t, c, passed, time.Minute); st.Status != client.RunStatusCompleted {
		t.Fatalf("through the proxy the run ended %s, want COMPLETED", st.Status)
	}
	p.checkEvidence(t, passed)

	proxy.blocks.Store(true)
	id := start(t, c, "blocked", stepsPlan("blocked", step))
	type wait struct {
		Kind       string
		HTTPStatus int
		Message    string
		Help       string
		Steps      []string
	}
	var waits []wait
	waitUntil(t, "the run says that it waits for the Journal", time.Minute, func() bool {
		a := ask(t, p.urlB, fmt.Sprintf(`{ run(runId: %q) { waits { kind httpStatus message help steps } } }`, id), nil,
			"Authorization: Bearer "+adaToken)
		var out struct {
			Data struct{ Run struct{ Waits []wait } }
		}
		must(t, json.Unmarshal([]byte(a.body), &out))
		waits = out.Data.Run.Waits
		return len(waits) > 0 && waits[0].Kind == "JOURNAL"
	})
	if w := waits[0]; w.HTTPStatus != http.StatusForbidden || !strings.Contains(w.Message, "403") ||
		!strings.Contains(w.Help, "proxy") || fmt.Sprint(w.Steps) != "[held]" {
		t.Errorf("the run waits for %+v, want the step held, the status 403 and help that names the proxy", w)
	}
	select {
	case <-worker.exited:
	case <-time.After(testtime.Of(2 * time.Minute)):
		t.Error("the worker without a Journal has not ended after two minutes")
	}
	named := []string{"403", "/engine/journal/", strings.TrimPrefix(proxy.URL, "http://")}
	expectAll(t, "the worker that lost the Journal", worker.output(), named...)
	expectAll(t, "a worker that starts without the Journal", expectFailure(t, behind(workerToken)...), named...)

	proxy.blocks.Store(false)
	expectAll(t, "a worker with a wrong token", expectFailure(t, behind(workerToken+"x")...), "401", "worker-token",
		"accounts of the server")
	m := get(t, p.urlA+"/metrics", "Authorization: Bearer "+samToken).body
	if !regexp.MustCompile(`dvt_auth_failures_total\{kind="worker"\} [1-9]`).MatchString(m) {
		t.Error("dvt_auth_failures_total does not count calls with the wrong token")
	}
	p.data.start()
	if st := waitForEnd(t, c, id, 2*time.Minute); st.Status != client.RunStatusCompleted {
		t.Errorf("with a worker that reaches the Journal the run ended %s, want COMPLETED", st.Status)
	}
}

// checkEvidence checks the record that a worker kept of the only try of the step held, and who sees the worker.
func (p *deployment) checkEvidence(t *testing.T, runID string) {
	t.Helper()
	for token, sees := range map[string]bool{adaToken: false, samToken: true} {
		out, err := client.ShowStepEvidence(t.Context(), client.New(p.urlB, token), runID, "held", nil)
		must(t, err)
		e := out.Run.Step.Evidence
		if len(e.Tries) != 1 || e.Engine == nil || *e.Engine != "temporal" {
			t.Fatalf("the evidence is %+v, want one try on temporal", e)
		}
		if y := e.Tries[0]; y.Outcome != client.TryOutcomeSucceeded || y.ExitStatus == nil || *y.ExitStatus != 0 ||
			y.LogLines == nil || y.LastHeartbeatAt == nil || (y.Worker != nil) != sees || (y.Account != nil) != sees ||
			sees && *y.Account != "steps-1" {
			t.Errorf("the try is %+v, want it SUCCEEDED with the exit status 0, and its worker for an SRE only", y)
		}
	}
	expectCommand(t, 0, []string{"run", "step", runID, "held", "--server", p.urlB, "--token", samToken},
		"step held (COMMAND) is success, attempt 1", "OUTCOME", "succeeded", "0 lines, 0 B")
}

// expectAll checks that what somebody printed contains all texts.
func expectAll(t *testing.T, who, printed string, want ...string) {
	t.Helper()
	for _, w := range want {
		if !strings.Contains(printed, w) {
			t.Errorf("%s does not print %q:\n%s", who, w, printed)
		}
	}
}

// The only worker of a queue ends. Both servers notice it, together they raise one alert, and the alert ends when a
// worker comes back.
func TestQueues_AQueueWithoutAWorkerRaisesOneAlert(t *testing.T) {
	t.Parallel()
	p := startDeployment(t, "no-worker-after: 2m") // the minimum, because an idle worker polls once a minute
	c := client.New(p.urlA, adaToken)
	const step = `{"stepId":"stranded","type":"COMMAND","inputs":{"argv":["true"]},"timeout":"1m"}`
	served := start(t, c, "served", stepsPlan("served", step))
	if st := waitForEnd(t, c, served, time.Minute); st.Status != client.RunStatusCompleted {
		t.Fatalf("with a worker the run ended %s", st.Status)
	}
	p.data.terminate()
	gone := time.Now()
	id := start(t, c, "unserved", stepsPlan("unserved", step))
	for _, base := range []string{p.urlA, p.urlB} {
		var w stepWait
		waitUntil(t, "the step waits for a worker", time.Minute, func() bool {
			w = p.readWait(t, base, id)
			return w.Kind == "WORKER" && w.PollerSeenAt != nil
		})
		// The engine counts one more poll when it notices that the worker is gone.
		ago := gone.Sub(*w.PollerSeenAt)
		if w.TaskQueue != "tq-data-dev" || ago > 2*time.Minute || ago < -testtime.Of(30*time.Second) {
			t.Errorf("%s says that the step waits for %s, whose worker was seen %v before its end; want tq-data-dev and "+
				"2m or less", base, w.TaskQueue, ago)
		}
	}
	if open := readUnservedQueues(t, p.urlA); open != "0" || len(p.listAlerts(t)) > 0 {
		t.Errorf("before no-worker-after %s queues count as unserved, with the alerts %+v; want none", open, p.listAlerts(t))
	}
	waitUntil(t, "both servers count the queue as unserved", 5*time.Minute, func() bool {
		return readUnservedQueues(t, p.urlA) == "1" && readUnservedQueues(t, p.urlB) == "1"
	})
	all := p.listAlerts(t)
	if len(all) != 1 {
		t.Fatalf("%d alerts were raised, want one by both servers: %+v", len(all), all)
	}
	a := all[0]
	if a.Code != run.CodeNoWorker || a.RunID != id || a.StepID != "stranded" || a.Level != store.AlertHigh ||
		!strings.HasPrefix(a.Note, "No worker serves the queue tq-data-dev: the last one asked it for work at ") {
		t.Errorf("the alert is %+v, want one of level HIGH that names the run, the step and the queue", a)
	}
	if silent := a.At.Sub(*p.readWait(t, p.urlA, id).PollerSeenAt); silent < 2*time.Minute {
		t.Errorf("the alert was raised after %v of silence, want 2 minutes or more", silent)
	}
	raised := 0
	for _, base := range []string{p.urlA, p.urlB} {
		if strings.Contains(get(t, base+"/metrics", "Authorization: Bearer "+samToken).body,
			`dvt_alerts_total{level="HIGH"} 1`) {
			raised++
		}
	}
	if raised == 0 {
		t.Error("dvt_alerts_total of both servers is 0, want 1 on one of them")
	}

	p.data.start()
	if st := waitForEnd(t, c, id, 2*time.Minute); st.Status != client.RunStatusCompleted {
		t.Errorf("with a worker the run ended %s, want COMPLETED", st.Status)
	}
	waitUntil(t, "the alert is over on both servers", 2*time.Minute, func() bool {
		return readUnservedQueues(t, p.urlA) == "0" && readUnservedQueues(t, p.urlB) == "0"
	})
	if w := p.readWait(t, p.urlB, id); w.Kind != "" {
		t.Errorf("the step still waits: %+v", w)
	}
	if n := len(p.listAlerts(t)); n != 1 {
		t.Errorf("%d alerts were raised, want the one", n)
	}
}

// overdueAlerts returns the runs of a tenant with an open alert that they are overdue or that a step of theirs hangs.
func (p *deployment) overdueAlerts(t *testing.T, tenantID string) (runs []string) {
	t.Helper()
	all, err := p.store.ListAlerts(t.Context(), store.AlertFilter{TenantID: tenantID, Limit: store.MaxPage})
	must(t, err)
	for _, a := range all {
		if a.Code == run.CodeRunOverdue || a.Code == run.CodeStepStuck {
			runs = append(runs, fmt.Sprintf("%s %s %s", a.Level, a.Code, a.RunID))
		}
	}
	return runs
}

// A run that takes three times as long as 20 earlier ones of its plan, and a type of step that fails too often, are
// told to people, and nothing is done about them: the recovery acts on hung attempts alone. A run that is paused, waits
// in the queue, for a person or for an operator takes as long as people take.
//
// contract: H06
func TestRecovery_SaysWhatTakesTooLongOrFailsTooOftenAndLeavesItToPeople(t *testing.T) {
	t.Parallel()
	g := newGameDay(t, &gameTable{}, startDeployment(t, onCall("recovery: act")))
	ops, mallory := client.New(g.urlA, opsToken), client.New(g.urlA, malloryToken)
	if out, err := g.dvt(malloryToken, "tenant", "recovery", "observe", "--reason", "we retry ourselves"); err != nil {
		t.Fatalf("tenant recovery: %v\n%s", err, out)
	}
	globex := func(doc []byte) []byte { return bytes.ReplaceAll(doc, []byte("acme"), []byte("globex")) }
	sleep := func(ms string) []byte {
		return stepsPlan("usual", `{"stepId":"s","type":"SLEEP","inputs":{"ms":`+ms+`},"timeout":"30m"}`)
	}
	var quick []string
	quickBegan := time.Now()
	for i := range 20 {
		quick = append(quick, start(t, ops, fmt.Sprint("quick-", i), sleep("50")),
			start(t, mallory, fmt.Sprint("quick-", i), globex(sleep("50"))))
	}
	waitUntil(t, "20 runs of each tenant complete", 2*time.Minute, g.isOver(nil, quick...))
	usualAtMost := time.Since(quickBegan) // of each of these runs, so another one is overdue after three times as long

	var steps []string
	for i := range 20 {
		steps = append(steps, fmt.Sprintf(
			`{"stepId":"s%d","type":"COMMAND","inputs":{"argv":["true"]},"timeout":"1m","retry":{"maxAttempts":1}}`, i))
	}
	start(t, ops, "succeeds", stepsPlan("succeeds", steps...))
	fails := `{"stepId":"s","type":"COMMAND","inputs":{"argv":["false"]},"timeout":"1m","retry":{"maxAttempts":1}}`
	for i := range 4 {
		start(t, ops, fmt.Sprint("fails-", i), stepsPlan("fails", fails))
	}
	excluded := map[string]string{}
	excluded["paused"] = start(t, ops, "paused", sleep("600000"))
	g.waitForStepStart(t, excluded["paused"])
	if out, err := g.dvt(opsToken, "run", "pause", excluded["paused"], "--reason", "later", "--no-wait"); err != nil {
		t.Fatalf("pause: %v\n%s", err, out)
	}
	excluded["for a person"] = start(t, ops, "manual", stepsPlan("usual",
		`{"stepId":"s","type":"MANUAL","inputs":{"instructions":"look","evidence":["ticket"]},"timeout":"1h"}`))
	excluded["for an operator"] = start(t, ops, "operator", bytes.Replace(stepsPlan("usual", fails),
		[]byte(`"retryWindowSeconds":0`), []byte(`"retryWindowSeconds":900`), 1))
	waitUntil(t, "a step has failed and waits for an operator", time.Minute,
		func() bool { return g.stateOf(t, excluded["for an operator"]).Substatus() == run.AwaitingOperator })
	overdue := start(t, ops, "overdue", sleep("600000"))
	theirs := start(t, mallory, "overdue", globex(sleep("600000")))
	g.waitForStepStart(t, overdue)
	file := testserver.WriteFile(t, g.dir, "quota.yaml", []byte("tenant: {maxActive: 1, maxQueueDepth: 10}\n"))
	if out, err := g.dvt(opsToken, "quota", "set", file, "--expected-version", "0", "--reason", "game day"); err != nil {
		t.Fatalf("quota set: %v\n%s", err, out)
	}
	excluded["in the queue"] = start(t, ops, "queued", sleep("600000"))
	began := time.Now()
	for _, one := range []struct{ tenant, id string }{{"acme", overdue}, {"globex", theirs}} {
		want := []string{"MEDIUM RUN_OVERDUE " + one.id}
		waitUntil(t, "the overdue run of "+one.tenant+" is told, and no other", 3*usualAtMost+3*time.Minute, func() bool {
			return slices.Equal(g.overdueAlerts(t, one.tenant), want)
		})
	}
	waitUntil(t, "the failures are told", time.Minute, g.alert(run.CodeStepFailures, "", "COMMAND"))
	t.Logf("found after %s", time.Since(began).Round(time.Second))
	time.Sleep(10 * time.Second) // two more rounds
	if got := g.overdueAlerts(t, "acme"); len(got) != 1 {
		t.Errorf("the alerts are %v, want the one about the overdue run and none about %v", got, excluded)
	}
	for _, id := range []string{overdue, theirs} {
		log, err := g.store.Events(t.Context(), id, 0, store.MaxPage)
		must(t, err)
		if st := g.stateOf(t, id); st.Status != run.Running || slices.ContainsFunc(log, func(e run.Event) bool {
			return e.Type == run.SignalAccepted
		}) {
			t.Errorf("the overdue run is %s after %d events, want it RUNNING without a signal of dvt", st.Status, len(log))
		}
	}
}
