package server_test

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/client"
	"github.com/dvt-engine/dvt/internal/testserver"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// recoveryAct are lines of the settings file: they follow the accounts, let the recovery act and permit it for acme.
const recoveryAct = `  - {id: "` + authz.Recovery + `", tenant: acme, grants: [{role: ENGINEER, project: "*", environment: "*"}]}
recovery: act`

// A worker hangs with a step, and so does the worker that gets the retry. One retry was sent, and the run is ended.
//
// contract: H06, T57
func TestRecovery_AWorkerThatHangsTwiceEndsTheRunAfterOneRetry(t *testing.T) {
	t.Parallel()
	p := startDeployment(t, recoveryAct)
	c := client.New(p.urlA, adaToken)
	doc := stepsPlan("hangs",
		`{"stepId":"nap","type":"COMMAND","inputs":{"argv":["sleep","600"]},"timeout":"20m","retry":{"maxAttempts":1}}`)
	// Only a run whose retry window is open can be retried.
	id := start(t, c, "hangs", bytes.Replace(doc, []byte(`"retryWindowSeconds":0`), []byte(`"retryWindowSeconds":600`), 1))
	began := func(attempt int) func() bool {
		return func() bool {
			st := p.stateOf(t, id)
			s, ok := st.Step("nap")
			return ok && s.LogicalAttempt == attempt && s.Status == run.StepRunning
		}
	}
	waitUntil(t, "the step runs", time.Minute, began(1))
	hung := p.data
	stop := func(one *process) {
		must(t, one.cmd.Process.Signal(syscall.SIGSTOP))
		t.Cleanup(func() { _ = one.cmd.Process.Signal(syscall.SIGCONT) })
	}
	stop(hung)
	other := spawn(t, "second data worker", hung.env, hung.args...)
	stopped := time.Now()
	waitUntil(t, "the retry runs on the other worker", 3*time.Minute, began(2))
	t.Logf("the step was retried %s after its worker hung", time.Since(stopped).Round(time.Second))
	stop(other)
	waitUntil(t, "the run is ended", 3*time.Minute, func() bool { return p.stateOf(t, id).Status.Terminal() })
	st := p.stateOf(t, id)
	if st.Status != run.Failed || st.Failure == nil || st.Failure.Code != string(run.CodeEngineTerminated) {
		t.Errorf("the run ended %s with %+v, want FAILED with ENGINE_TERMINATED", st.Status, st.Failure)
	}
	log, err := p.store.Events(t.Context(), id, 0, store.MaxPage)
	must(t, err)
	accepted := 0
	for _, e := range log {
		if e.Type == run.SignalAccepted && strings.Contains(string(e.Payload), authz.Recovery) {
			accepted++
		}
	}
	if accepted != 1 {
		t.Errorf("the recovery sent %d signals, want one retry", accepted)
	}
	waitUntil(t, "people are told", time.Minute, func() bool {
		return slices.ContainsFunc(p.listAlerts(t), func(a store.AlertState) bool {
			return a.Code == run.CodeRecoveryFailed && a.Level == store.AlertHigh && a.RunID == id
		})
	})
}

func (p *deployment) stateOf(t *testing.T, runID string) run.State {
	t.Helper()
	l, err := p.store.Load(t.Context(), runID)
	must(t, err)
	return l.State
}

// gameDay is an installation whose faults are found by alerts and mended by the steps of the runbooks.
type gameDay struct {
	*deployment
	t     *testing.T
	units map[string]*process // what systemctl stands for
	rows  []string
}

// numberedStep matches the beginning of a step of a runbook.
var numberedStep = regexp.MustCompile(`(?m)^(\d+)\. `)

// stepOf returns the commands of one step under "Do" of a runbook.
func (g *gameDay) stepOf(runbook string, number int) (commands []string) {
	g.t.Helper()
	page, err := os.ReadFile(filepath.Join(root(g.t), "docs/runbooks", runbook+".md"))
	must(g.t, err)
	_, part, _ := strings.Cut(string(page), "\n## Do\n")
	part, _, _ = strings.Cut(part, "\n## Verify")
	starts := numberedStep.FindAllStringSubmatchIndex(part, -1)
	for i, at := range starts {
		end := len(part)
		if i+1 < len(starts) {
			end = starts[i+1][0]
		}
		if part[at[2]:at[3]] != strconv.Itoa(number) {
			continue
		}
		_, block, _ := strings.Cut(part[at[0]:end], "```sh\n")
		block, _, _ = strings.Cut(block, "```")
		for line := range strings.Lines(block) {
			if command := strings.TrimSpace(line); command != "" {
				commands = append(commands, command)
			}
		}
	}
	if len(commands) == 0 {
		g.t.Fatalf("%s has no step %d with commands", runbook, number)
	}
	return commands
}

// mend carries out those commands of a step of a runbook that contain one of the words, or all of them without words.
// fill has the values of words in capitals.
func (g *gameDay) mend(runbook string, number int, fill map[string]string, words ...string) {
	g.t.Helper()
	for _, command := range g.stepOf(runbook, number) {
		wanted := func(w string) bool { return strings.Contains(command, w) }
		if len(words) > 0 && !slices.ContainsFunc(words, wanted) {
			continue
		}
		args := strings.Fields(command)
		if args[0] == "systemctl" {
			unit := g.units[args[len(args)-1]]
			if unit == nil {
				g.t.Fatalf("%s: %q names no unit of the game day", runbook, command)
			}
			unit.kill()
			unit.start()
			continue
		}
		args = shellWords(command)[1:]
		for i, a := range args {
			if v, ok := fill[a]; ok {
				args[i] = v
			}
		}
		out, err := g.dvt(adaToken, args...)
		if err != nil {
			g.t.Errorf("%s: %s: %v\n%s", runbook, command, err, out)
		}
	}
}

// dvt runs a command against server A.
func (g *gameDay) dvt(token string, args ...string) (string, error) {
	c := exec.CommandContext(g.t.Context(), testserver.Binary(g.t), args...)
	c.Env = append(environmentWithoutDVT(), "DVT_SERVER="+g.urlA, "DVT_TOKEN="+token)
	out, err := c.CombinedOutput()
	return string(out), err
}

// shellWords splits a command at spaces outside of double quotes.
func shellWords(command string) (words []string) {
	for i, part := range strings.Split(command, `"`) {
		if i%2 == 1 {
			words = append(words, part)
		} else {
			words = append(words, strings.Fields(part)...)
		}
	}
	return words
}

// fault injects a fault, waits until it is found, mends it and waits until it is over.
func (g *gameDay) fault(name string, inject func(), found func() bool, mend func(), over func() bool) {
	g.t.Helper()
	inject()
	began := time.Now()
	waitUntil(g.t, name+" is found", 3*time.Minute, found)
	seen := time.Now()
	mend()
	waitUntil(g.t, name+" is mended", 3*time.Minute, over)
	g.rows = append(g.rows, fmt.Sprintf("%-44s found after %4s   mended after %4s", name,
		seen.Sub(began).Round(time.Second), time.Since(seen).Round(time.Second)))
}

func (g *gameDay) hasAlert(code run.Code, runID string) bool {
	all, err := g.store.ListAlerts(g.t.Context(), store.AlertFilter{TenantID: "acme", Installation: true,
		States: []store.AlertStage{store.AlertOpen}, Limit: store.MaxPage})
	must(g.t, err)
	return slices.ContainsFunc(all, func(a store.AlertState) bool {
		return a.Code == code && (runID == "" || a.RunID == runID)
	})
}

// isServed reports whether a process answers its scrape, which is what `up` says to Prometheus.
func isServed(base string) bool {
	client := http.Client{Timeout: 2 * time.Second}
	res, err := client.Get(base + "/readyz")
	if err != nil {
		return false
	}
	_ = res.Body.Close()
	return res.StatusCode == http.StatusOK
}

// Faults of an installation are found by the alerts that the runbooks name, and the steps of the runbooks mend them.
// The table that it logs has the time to find and the time to repair.
func TestGameDay_RunbooksMendWhatTheirAlertsFind(t *testing.T) {
	if os.Getenv("TEST_LONG") == "" {
		t.Skip("the game day takes minutes: set TEST_LONG")
	}
	p := startDeployment(t, "pause-drain-timeout: 10s")
	g := &gameDay{deployment: p, t: t, units: map[string]*process{"dvt-server": p.serverB,
		"dvt-worker-data": p.data, "dvt-worker-control": p.control}}
	c := client.New(p.urlA, adaToken)
	startNap := func(name, command string) string {
		doc := stepsPlan(name, `{"stepId":"nap","type":"COMMAND","inputs":{"argv":`+command+`},"timeout":"20m",
			"retry":{"maxAttempts":1}}`)
		window := []byte(`"retryWindowSeconds":900`)
		return start(t, c, name, bytes.Replace(doc, []byte(`"retryWindowSeconds":0`), window, 1))
	}
	runs := func(id string) func() bool {
		return func() bool {
			s, ok := p.stateOf(t, id).Step("nap")
			return ok && s.Status == run.StepRunning
		}
	}
	ended := func(id string) func() bool { return func() bool { return p.stateOf(t, id).Status.Terminal() } }

	hangs := startNap("hangs", `["sleep","15"]`)
	waitUntil(t, "the step runs", time.Minute, runs(hangs))
	g.fault("a data worker hangs with a step", func() { must(t, p.data.cmd.Process.Signal(syscall.SIGSTOP)) },
		func() bool { return g.hasAlert(run.CodeStepStuck, hangs) },
		func() { g.mend("stuck-run", 2, map[string]string{"RUN": hangs, "STEP": "nap"}) }, ended(hangs))
	if st := p.stateOf(t, hangs); st.Status != run.Completed {
		t.Errorf("after the runbook the run that hung is %s, want COMPLETED", st.Status)
	}

	drains := startNap("drains", `["sleep","600"]`)
	waitUntil(t, "the step runs", time.Minute, runs(drains))
	g.fault("a paused run does not drain", func() {
		if out, err := g.dvt(adaToken, "run", "pause", drains, "--reason", "game day", "--no-wait"); err != nil {
			t.Fatalf("pause: %v\n%s", err, out)
		}
	}, func() bool { return g.hasAlert(run.CodePauseDrain, drains) },
		func() { g.mend("stuck-run", 3, map[string]string{"RUN": drains}, "cancel") }, ended(drains))

	open := startNap("open", `["sleep","5"]`)
	g.fault("the control worker is killed", p.control.kill,
		func() bool { return g.hasAlert(run.CodeWorkerAbsent, "") },
		func() { g.mend("sev-1-outage", 5, nil) },
		func() bool { return !g.hasAlert(run.CodeWorkerAbsent, "") && ended(open)() })

	g.fault("a server is killed", p.serverB.kill, func() bool { return !isServed(p.urlB) },
		func() { g.mend("sev-2-partial", 1, nil, "dvt-server") }, func() bool { return isServed(p.urlB) })

	g.fault("a server is frozen", func() { must(t, p.serverB.cmd.Process.Signal(syscall.SIGSTOP)) },
		func() bool { return !isServed(p.urlB) },
		func() { g.mend("sev-1-outage", 1, nil) }, func() bool { return isServed(p.urlB) })

	made, err := client.CreateToken(t.Context(), c, client.CreateTokenInput{RequestId: "leaks", Name: "leaks",
		Grants: []client.TokenGrantInput{{Role: client.RoleEngineer, ProjectId: "shop", EnvironmentId: "dev"}}})
	must(t, err)
	leaked := *made.CreateToken.Secret
	answers := func() bool { _, err := g.dvt(leaked, "whoami"); return err == nil }
	g.fault("an API token leaks", func() {}, answers,
		func() { g.mend("secret-leak", 2, map[string]string{"TOKEN": made.CreateToken.Token.TokenId}) },
		func() bool { return !answers() })

	incidents, err := p.store.ListIncidents(t.Context(), store.IncidentFilter{TenantID: "acme", Installation: true,
		Limit: store.MaxPage})
	must(t, err)
	var opened []string
	for _, i := range incidents {
		opened = append(opened, fmt.Sprintf("%s %s", i.Severity, i.Code))
	}
	for _, want := range []string{"SEV_2 STEP_STUCK", "SEV_2 PAUSE_DRAIN_TIMEOUT", "SEV_1 WORKER_ABSENT"} {
		if !slices.Contains(opened, want) {
			t.Errorf("the incidents %v lack %s", opened, want)
		}
	}
	t.Logf("game day:\n%s", strings.Join(g.rows, "\n"))
}
