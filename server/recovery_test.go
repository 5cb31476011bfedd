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
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/client"
	"github.com/dvt-engine/dvt/internal/testserver"
	"github.com/dvt-engine/dvt/internal/testtime"
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
	units map[string]unit // what systemctl stands for
	table *gameTable
}

// unit is what systemctl starts and stops.
type unit struct{ start, stop func() }

// processes is the unit of processes of dvt.
func processes(all ...*process) unit {
	return unit{
		start: func() {
			for _, p := range all {
				select {
				case <-p.exited:
					p.start()
				default: // it runs
				}
			}
		},
		stop: func() {
			for _, p := range all {
				p.kill()
			}
		},
	}
}

// gameTable has one row for each fault: the times to find and to mend it.
type gameTable struct {
	mu   sync.Mutex
	rows []string
}

// opsToken is the token of the person on call, who is Admin and SRE.
const opsToken = "ops-has-a-token-for-nights"

// onCall are lines of the settings file: they follow the accounts.
func onCall(more ...string) string {
	return `  - {id: ops, tenant: acme, tokenSha256: ` + tokenHash(opsToken) + `,
     grants: [{role: ADMIN, project: "*", environment: "*"}, {role: SRE, project: "*", environment: "*"}]}
operators-tenant: acme
` + strings.Join(more, "\n")
}

func newGameDay(t *testing.T, table *gameTable, p *deployment) *gameDay {
	return &gameDay{deployment: p, t: t, table: table, units: map[string]unit{
		"dvt-server": processes(p.serverA, p.serverB), "dvt-worker-data": processes(p.data),
		"dvt-worker-control": processes(p.control),
		"temporal":           {func() { p.temporal.Restart(t) }, func() { p.temporal.Kill(t) }},
		"redis":              {p.bus.Start, p.bus.Stop},
	}}
}

// numberedStep matches the beginning of a step of a runbook.
var numberedStep = regexp.MustCompile(`(?m)^(\d+)\. `)

// stepOf returns the commands of one step under "Do" of a runbook.
func (g *gameDay) stepOf(runbook string, number int) (commands []string) {
	g.t.Helper()
	_, part, _ := strings.Cut(g.read(runbook), "\n## Do\n")
	part, _, _ = strings.Cut(part, "\n## Verify")
	starts := numberedStep.FindAllStringSubmatchIndex(part, -1)
	for i, at := range starts {
		end := len(part)
		if i+1 < len(starts) {
			end = starts[i+1][0]
		}
		if part[at[2]:at[3]] == strconv.Itoa(number) {
			commands = commandsOf(part[at[0]:end])
		}
	}
	if len(commands) == 0 {
		g.t.Fatalf("%s has no step %d with commands", runbook, number)
	}
	return commands
}

func (g *gameDay) read(runbook string) string {
	g.t.Helper()
	page, err := os.ReadFile(filepath.Join(root(g.t), "docs/runbooks", runbook+".md"))
	must(g.t, err)
	return string(page)
}

// commandsOf returns the commands of the first block of a text.
func commandsOf(text string) (commands []string) {
	_, block, _ := strings.Cut(text, "```sh\n")
	block, _, _ = strings.Cut(block, "```")
	for line := range strings.Lines(block) {
		if command := strings.TrimSpace(line); command != "" {
			commands = append(commands, command)
		}
	}
	return commands
}

// mend carries out those commands of a step of a runbook that contain one of the words, or all of them without words.
// fill has the values of words that the runbook leaves open.
func (g *gameDay) mend(runbook string, number int, fill map[string]string, words ...string) {
	g.t.Helper()
	for _, command := range g.stepOf(runbook, number) {
		wanted := func(w string) bool { return strings.Contains(command, w) }
		if len(words) == 0 || slices.ContainsFunc(words, wanted) {
			g.execute(runbook, command, fill)
		}
	}
}

// verify carries out the commands under "Verify" of a runbook.
func (g *gameDay) verify(runbook string, fill map[string]string) {
	g.t.Helper()
	_, part, _ := strings.Cut(g.read(runbook), "\n## Verify\n")
	for _, command := range commandsOf(part) {
		g.execute(runbook, command, fill)
	}
}

func (g *gameDay) execute(runbook, command string, fill map[string]string) {
	g.t.Helper()
	args := shellWords(command)
	for i, a := range args {
		if v, ok := fill[a]; ok {
			args[i] = v
		}
	}
	var out string
	var err error
	switch args[0] {
	case "systemctl":
		u, known := g.units[args[2]]
		if !known {
			g.t.Fatalf("%s: %q names no unit of the game day", runbook, command)
		}
		if args[1] != "start" {
			u.stop()
		}
		if args[1] != "stop" {
			u.start()
		}
	case "cp":
		var b []byte
		b, err = exec.CommandContext(g.t.Context(), args[0], args[1:]...).CombinedOutput()
		out = string(b)
	case "dvt":
		out, err = g.dvt(opsToken, args[1:]...)
	default:
		g.t.Fatalf("%s: the game day does not know the command %q", runbook, command)
	}
	if err != nil {
		g.t.Errorf("%s: %s: %v\n%s", runbook, command, err, out)
	}
}

// dvt runs a command against server A.
func (g *gameDay) dvt(token string, args ...string) (string, error) {
	c := exec.CommandContext(g.t.Context(), testserver.Binary(g.t), args...)
	c.Env = append(environmentWithoutDVT(), "DVT_SERVER="+g.urlA, "DVT_TOKEN="+token)
	if args[0] == "store" {
		c.Env = append(c.Env, "DVT_TICKET_KEYS="+ticketKey)
	}
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

// injected is a fault that was injected.
type injected struct {
	g     *gameDay
	name  string
	since time.Time
	found chan time.Time // gets the time at which its alert was seen
}

// inject injects a fault and looks for its alert from then on. isFound is called in another goroutine.
func (g *gameDay) inject(name string, inject func(), isFound func() bool) *injected {
	g.t.Helper()
	inject()
	f := &injected{g: g, name: name, since: time.Now(), found: make(chan time.Time, 1)}
	go func() {
		for ctx := g.t.Context(); ctx.Err() == nil; time.Sleep(100 * time.Millisecond) {
			if isFound() {
				f.found <- time.Now()
				return
			}
		}
	}()
	return f
}

// mend waits until the fault is found, mends it and waits until it is over.
func (f *injected) mend(mend func(), isOver func() bool) {
	f.g.t.Helper()
	var found time.Time
	select {
	case found = <-f.found:
	case <-time.After(testtime.Of(4 * time.Minute)):
		f.g.t.Fatalf("no alert came within 4 minutes: %s", f.name)
	}
	began := time.Now()
	mend()
	waitUntil(f.g.t, f.name+" is mended", 3*time.Minute, isOver)
	f.g.table.mu.Lock()
	defer f.g.table.mu.Unlock()
	f.g.table.rows = append(f.g.table.rows, fmt.Sprintf("%-44s found after %4s   mended after %4s", f.name,
		found.Sub(f.since).Round(time.Second), time.Since(began).Round(time.Second)))
}

// alert returns a function that reports whether an alert is open. Empty runID and subject stand for any.
func (g *gameDay) alert(code run.Code, runID, subject string) func() bool {
	return func() bool {
		all, err := g.store.ListAlerts(g.t.Context(), store.AlertFilter{TenantID: "acme", Installation: true,
			States: []store.AlertStage{store.AlertOpen}, Limit: store.MaxPage})
		return err == nil && slices.ContainsFunc(all, func(a store.AlertState) bool {
			return a.Code == code && (runID == "" || a.RunID == runID) && (subject == "" || a.Subject == subject)
		})
	}
}

// isOver returns a function that reports whether the runs have completed and an alert is not open.
func (g *gameDay) isOver(isFound func() bool, runs ...string) func() bool {
	return func() bool {
		for _, id := range runs {
			l, err := g.store.Load(g.t.Context(), id)
			if err != nil || l.State.Status != run.Completed {
				return false
			}
		}
		return isFound == nil || !isFound()
	}
}

// startNap starts a run whose step sleeps, and waits until the step runs.
func (g *gameDay) startNap(name, seconds string) string {
	g.t.Helper()
	doc := stepsPlan(name, `{"stepId":"nap","type":"COMMAND","inputs":{"argv":["sleep","`+seconds+`"]},"timeout":"20m",
		"retry":{"maxAttempts":1}}`)
	// Only a run whose retry window is open can be retried.
	id := start(g.t, client.New(g.urlA, opsToken), name, bytes.Replace(doc, []byte(`"retryWindowSeconds":0`),
		[]byte(`"retryWindowSeconds":900`), 1))
	waitUntil(g.t, "the step runs", time.Minute, func() bool {
		s, ok := g.stateOf(g.t, id).Step("nap")
		return ok && s.Status == run.StepRunning
	})
	return id
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
