package server_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dvt-engine/dvt/client"
	"github.com/dvt-engine/dvt/internal/testserver"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
	"github.com/dvt-engine/dvt/store/postgres"
)

// clinic is an installation into which faults are injected, one beside the other: each class has a run of its own, and
// an environment or a tenant of its own where it needs one. The server reaches its parts through proxies. Nothing here
// knows the doctor: a class is known by what was broken.
type clinic struct {
	t         *testing.T
	url       string
	dir       string // the project root of the worker; also of plans
	artifacts string
	frontend  *testserver.TemporalServer
	db        *testserver.PostgresProxy
	bus       *testserver.Proxy
	store     store.Store
	lost      *process          // the only data worker of the environment lost
	cut       *testserver.Proxy // between the only data worker of the environment cut and the server
	peer      string            // URL of a service that steps call
	tlsPeer   string            // URL of a service whose certificate only the control worker trusts
	trust     string            // file with that certificate
	rows      []string
	right     int
}

// tokenOf returns the token of a principal.
func tokenOf(name string) string { return name + "-has-a-long-token" }

func newClinic(t *testing.T) *clinic {
	t.Helper()
	dsn, redis := testserver.Postgres(t), testserver.Redis(t)
	c := &clinic{t: t, dir: t.TempDir(), frontend: testserver.TemporalAlone(t), db: testserver.NewPostgresProxy(t, dsn),
		bus: testserver.NewProxy(t, redis.Addr)}
	c.artifacts = filepath.Join(c.dir, "artifacts")
	settings := func(name, dsn, redis string) string {
		return testserver.WriteFile(t, c.dir, name, fmt.Appendf(nil, `
store: %s
redis: redis://%s/0
temporal: %s
temporal-namespace: %s
artifacts: file://%s?create_dir=true&no_tmp_dir=true
heartbeat: 10s
pause-drain-timeout: 10s
max-manual-attempts: 2
operators-tenant: acme
manual-keys: [%q]
plan-roots: [%s]
known-queues: [misspelt-data]
egress: {"*": {allow: [127.0.0.0/8]}}
quotas:
  tiers:
    default: {startRunPerMinute: 60000, heavyStepsPerMinute: 60000, signalOpsPerMinute: 60000, maxActive: 9000, maxQueueDepth: 9000}
    slots: {startRunPerMinute: 60000, maxActive: 1}
    starts: {startRunPerMinute: 1, maxActive: 9000}
    heavy: {startRunPerMinute: 60000, heavyStepsPerMinute: 1, maxActive: 9000}
  tenants: {globex: slots, umbrella: slots, initech: starts, hooli: heavy}
accounts:
  - {id: ada, tenant: acme, tokenSha256: %s, grants: [{role: ADMIN, project: "*", environment: "*"}]}
  - {id: bea, tenant: acme, tokenSha256: %s, grants: [{role: ADMIN, project: "*", environment: "*"}]}
  - {id: globex, tenant: globex, tokenSha256: %s, grants: [{role: ADMIN, project: "*", environment: "*"}]}
  - {id: umbrella, tenant: umbrella, tokenSha256: %s, grants: [{role: ADMIN, project: "*", environment: "*"}]}
  - {id: initech, tenant: initech, tokenSha256: %s, grants: [{role: ADMIN, project: "*", environment: "*"}]}
  - {id: hooli, tenant: hooli, tokenSha256: %s, grants: [{role: ADMIN, project: "*", environment: "*"}]}
  - {id: steps, worker: true, serves: [acme, hooli], tokenSha256: %s}
`, dsn, redis, c.frontend.Addr, c.frontend.Namespace, c.artifacts, ticketKey, c.dir, tokenHash(tokenOf("ada")),
			tokenHash(tokenOf("bea")), tokenHash(tokenOf("globex")), tokenHash(tokenOf("umbrella")),
			tokenHash(tokenOf("initech")), tokenHash(tokenOf("hooli")), tokenHash(workerToken)))
	}
	migrate := spawn(t, "dvt migrate", nil, "migrate", "--store", dsn)
	<-migrate.exited
	var err error
	c.store, err = postgres.Open(t.Context(), dsn, postgres.Options{})
	must(t, err)
	t.Cleanup(func() { must(t, c.store.Close()) })
	address := testserver.FreeAddress(t)
	c.url = "http://" + address
	spawn(t, "server", nil, "server", "--config", settings("server.yaml", c.db.DSN, c.bus.Addr), "--listen", address)
	c.startPeers()
	spawn(t, "control worker", []string{"SSL_CERT_FILE=" + c.trust}, "worker", "--config",
		settings("worker.yaml", dsn, redis.Addr), "--queues", "tq-control-dev,tq-control-empty,tq-control-lost,"+
			"tq-control-busy,tq-control-wrong,tq-control-cut,tq-control-gated", "--workspace",
		filepath.Join(c.dir, "control"))
	c.cut = testserver.NewProxy(t, address)
	data := func(environment, token string, more ...string) *process {
		return spawn(t, "data worker of "+environment, []string{"DVT_WORKER_TOKEN=" + token}, append([]string{"worker",
			"--queues", "tq-data-" + environment, "--temporal", c.frontend.Addr, "--temporal-namespace", c.frontend.Namespace,
			"--server", "http://" + c.cut.Addr, "--workspace", filepath.Join(c.dir, "data-"+environment),
			"--project-root", c.dir, "--dbt", findDBT(t), "--allow-private"}, more...)...)
	}
	data("cut", workerToken)
	data("dev", workerToken, "--server", c.url, "--sandbox-disk", "1Mi", "--concurrency", "20",
		"--slots-by-type", "DBT=1")
	data("busy", workerToken, "--server", c.url, "--concurrency", "1")
	data("wrong", workerToken+"x", "--server", c.url)
	c.lost = data("lost", workerToken, "--server", c.url)
	waitUntilReady(t, c.url)
	grant := func(who string) client.PolicyGrantInput {
		return client.PolicyGrantInput{Principal: who, Role: "ADMIN", ProjectId: "*", EnvironmentId: "*"}
	}
	_, err = client.SetPolicy(t.Context(), client.New(c.url, tokenOf("ada")), client.SetPolicyInput{RequestId: "gate",
		Reason: "runs in gated need an approval", Document: client.PolicyInput{
			Grants: []client.PolicyGrantInput{grant("ada"), grant("bea")}, Sod: client.PolicySodInput{Approve: true},
			BreakGlass: []client.PolicyBreakGlassInput{},
			Approvals:  []client.PolicyApprovalInput{{ProjectId: "*", EnvironmentId: "gated", Required: 1}}}})
	must(t, err)
	return c
}

// dvt runs a command as a principal.
func (c *clinic) dvt(who string, args ...string) (string, error) {
	command := exec.CommandContext(c.t.Context(), testserver.Binary(c.t), args...)
	command.Env = append(environmentWithoutDVT(), "DVT_SERVER="+c.url, "DVT_TOKEN="+tokenOf(who))
	out, err := command.CombinedOutput()
	return string(out), err
}

func (c *clinic) mustDvt(who string, args ...string) {
	c.t.Helper()
	if out, err := c.dvt(who, args...); err != nil {
		c.t.Fatalf("dvt %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// readState reads the state of a run past the server.
func (c *clinic) readState(runID string) run.State {
	c.t.Helper()
	l, err := c.store.Load(c.t.Context(), runID)
	must(c.t, err)
	return l.State
}

// start starts a run of the class.
func (c *clinic) start(x *class) {
	c.t.Helper()
	doc := stepsPlan(strings.ReplaceAll(x.name, " ", "-"), x.steps...)
	doc = []byte(strings.NewReplacer(`"retryWindowSeconds":0`, `"retryWindowSeconds":900`, `"tenantId":"acme"`,
		`"tenantId":"`+x.tenant+`"`, `"environmentId":"dev"`, `"environmentId":"`+x.env+`"`).Replace(string(doc)))
	raw := json.RawMessage(doc)
	in := client.StartRunInput{Plan: client.PlanInput{Inline: &raw}, ProjectId: "shop", EnvironmentId: x.env,
		RunRequestId: fmt.Sprintf("%s-%d", strings.ReplaceAll(x.name, " ", "-"), x.runs)}
	x.runs, x.injected = x.runs+1, time.Time{}
	if x.ready == nil && x.inject == nil {
		x.injected = time.Now()
	}
	if x.ref != nil {
		ref := x.ref(c, doc)
		in.Plan = client.PlanInput{Ref: &ref}
	}
	var out *client.StartRunResponse
	// On a busy machine the engine starts runs too slowly for a while, and dvt refuses new ones.
	waitUntil(c.t, x.name+" is accepted", time.Minute, func() bool {
		var err error
		out, err = client.StartRun(c.t.Context(), client.New(c.url, tokenOf(x.who())), in)
		var refused *client.Error
		if err != nil && (!errors.As(client.AsAPIError(err), &refused) || refused.Code != string(run.CodeEngineDegraded)) {
			c.t.Fatalf("%s: %v", x.name, client.AsAPIError(err))
		}
		return err == nil
	})
	x.runID = out.StartRun.Run.RunId
}

// advance brings a class one step further: its fault is injected when it can be, and the doctor is asked once when the
// fault shows. It reports whether the class is over.
func (c *clinic) advance(x *class) (over bool) {
	c.t.Helper()
	st := c.readState(x.runID)
	if x.injected.IsZero() {
		if x.ready != nil && !x.ready(st) {
			return false
		}
		if x.inject != nil {
			x.inject(c, x.runID)
		}
		x.injected = time.Now()
		return false
	}
	if x.lasts > 0 && time.Since(x.injected) > x.lasts {
		c.start(x)
		return false
	}
	if time.Since(x.injected) < x.after || !x.shown(st) {
		return false
	}
	c.judge(x)
	return true
}

// judge asks the doctor about the run of a class, notes the row of the table, and carries out each offered command.
func (c *clinic) judge(x *class) {
	c.t.Helper()
	out, err := client.DiagnoseRun(c.t.Context(), client.New(c.url, tokenOf(x.who())), x.runID)
	if err != nil || out.Run == nil {
		c.note(x.name, x.want, fmt.Sprint(client.AsAPIError(err)), "", false)
		return
	}
	got, title := "nothing", ""
	var offered []string
	signals := 0
	for i, cause := range out.Run.Diagnosis {
		if i == 0 {
			got, title = cause.Code, cause.Title
		}
		for _, e := range cause.Evidence {
			if !strings.HasPrefix(e.Page, "/") {
				c.t.Errorf("%s: the evidence %q has the page %q", x.name, e.Text, e.Page)
			}
		}
		for _, n := range cause.Next {
			if n.SignalType == nil {
				continue
			}
			signals++
			word := string(*n.SignalType)
			if n.Force {
				word += " by force"
			}
			if n.Safe {
				word += " (safe)"
			}
			offered = append(offered, word)
			if n.Safe && (x.harms || n.Force || *n.SignalType == client.SignalTypeResume) {
				c.t.Errorf("%s: %s calls %s safe", x.name, cause.Code, *n.SignalType)
			}
		}
	}
	if x.want == "" { // it only makes others wait
		if got != "nothing" {
			c.t.Errorf("%s: the doctor finds %s: %s", x.name, got, title)
		}
		return
	}
	c.note(x.name, x.want, got, strings.Join(offered, ", "), got == x.want && strings.Contains(title, x.about))
	if got != x.want || !strings.Contains(title, x.about) {
		text, _ := json.Marshal(out.Run.Diagnosis)
		c.t.Logf("%s is %+v: %s", x.name, c.readState(x.runID).Counts, text)
	}
	c.followAdvice(x, signals)
}

// followAdvice carries out the commands that the CLI prints, as they are printed, in the state for which they are
// printed.
func (c *clinic) followAdvice(x *class, signals int) {
	c.t.Helper()
	if signals == 0 {
		return
	}
	text, err := c.dvt(x.who(), "doctor", x.runID)
	if err != nil {
		c.t.Errorf("%s: dvt doctor: %v\n%s", x.name, err, text)
	}
	for line := range strings.Lines(text) {
		command, _ := strings.CutSuffix(strings.TrimSpace(line), "   (safe)")
		if !strings.HasPrefix(command, "dvt ") {
			continue
		}
		signals--
		if out, err := c.dvt(x.who(), append(shellWords(command)[1:], "--no-wait")...); err != nil {
			c.t.Errorf("%s: %s: %v\n%s", x.name, command, err, out)
		}
	}
	if signals != 0 {
		c.t.Errorf("%s: the CLI prints %d commands fewer than the API offers signals:\n%s", x.name, signals, text)
	}
}

// note adds a row to the confusion table.
func (c *clinic) note(name, want, got, offered string, right bool) {
	word := "WRONG"
	if right {
		c.right++
		word = "right"
	}
	c.rows = append(c.rows, fmt.Sprintf("%-46s %-24s %-24s %s   %s", name, want, got, word, offered))
}

// Of 40 and more classes of faults in real processes the doctor names at least 95 of 100 first, calls no harmful signal
// safe, offers only commands that the server accepts, and flags none of 1,000 healthy runs. Without TEST_LONG the
// classes that take minutes, and most healthy runs, are left out.
func TestDoctor_NamesTheInjectedFault(t *testing.T) {
	t.Parallel()
	long := os.Getenv("TEST_LONG") != ""
	c := newClinic(t)
	classes := slices.DeleteFunc(c.classes(), func(x *class) bool { return x.long && !long })
	for _, x := range classes {
		c.start(x)
	}
	healthy := 20
	if long {
		healthy = 1000
	}
	var beside sync.WaitGroup
	open, quiet := slices.Clone(classes), false
	for deadline := time.Now().Add(4 * time.Minute); len(open) > 0; time.Sleep(50 * time.Millisecond) {
		open = slices.DeleteFunc(open, c.advance)
		if !quiet && !slices.ContainsFunc(open, func(x *class) bool { return !x.idle }) {
			// The other classes only wait. Before, a machine of two cores would be overloaded, which is a fault too.
			quiet = true
			beside.Go(func() { c.checkHealthyRuns(healthy) })
		}
		if time.Now().After(deadline) {
			for _, x := range open {
				st := c.readState(x.runID)
				c.note(x.name, x.want, fmt.Sprintf("does not show: %s %+v", st.Status, st.Counts), "", false)
			}
			break
		}
	}
	if beside.Wait(); !quiet {
		t.Error("no healthy run was diagnosed, because a class took too long")
	}
	c.breakParts(long)
	t.Logf("%-46s %-24s %-24s\n%s\n%d of %d right", "injected", "first cause", "said", strings.Join(c.rows, "\n"),
		c.right, len(c.rows))
	if long && len(c.rows) < 40 {
		t.Errorf("%d classes, want 40 or more", len(c.rows))
	}
	if 100*c.right < 95*len(c.rows) {
		t.Errorf("the first cause is right in %d of %d classes, want 95 %%", c.right, len(c.rows))
	}
}

// checkHealthyRuns starts runs and asks the doctor about each at once, and again when all are under way. The runs are
// done, in progress, in the queue, or wait for a person, which is no fault.
func (c *clinic) checkHealthyRuns(n int) {
	c.t.Helper()
	kinds := []string{
		asked("s", "NOOP", `{}`), asked("s", "SLEEP", `{"ms":60000}`), asked("s", "COMMAND", `{"argv":["true"]}`),
		asked("s", "MANUAL", `{}`), asked("s", "SLEEP", `{"ms":500}`),
	}
	ids, states := make([]string, n), map[string]int{}
	var next, flagged atomic.Int64
	var mu sync.Mutex
	look := func(runID string) {
		out, err := client.DiagnoseRun(c.t.Context(), client.New(c.url, tokenOf("ada")), runID)
		if err != nil {
			c.t.Errorf("a healthy run is not diagnosed: %v", client.AsAPIError(err))
			return
		}
		mu.Lock()
		states[string(out.Run.Status)]++
		mu.Unlock()
		for _, cause := range out.Run.Diagnosis {
			if cause.Kind == client.CauseKindFault {
				flagged.Add(1)
				c.t.Errorf("a healthy run that is %s has the fault %s: %s %s", out.Run.StatusRaw, cause.Code, cause.Title,
					cause.Evidence[0].Text)
			}
		}
	}
	each := func(work func(i int)) {
		var all sync.WaitGroup
		next.Store(-1)
		for range 4 {
			all.Go(func() {
				for i := int(next.Add(1)); i < n; i = int(next.Add(1)) {
					work(i)
				}
			})
		}
		all.Wait()
	}
	began := time.Now()
	each(func(i int) {
		environment := "dev"
		if i%10 == 9 {
			environment = "gated"
		}
		name := fmt.Sprintf("healthy-%d", i%len(kinds)) // earlier runs of a plan say how long its steps take
		doc := json.RawMessage(strings.Replace(string(stepsPlan(name, kinds[i%len(kinds)])), `"environmentId":"dev"`,
			`"environmentId":"`+environment+`"`, 1))
		out, err := client.StartRun(c.t.Context(), client.New(c.url, tokenOf("ada")), client.StartRunInput{
			Plan: client.PlanInput{Inline: &doc}, RunRequestId: fmt.Sprintf("healthy-%d", i), ProjectId: "shop",
			EnvironmentId: environment})
		if err != nil {
			c.t.Errorf("a healthy run is not started: %v", client.AsAPIError(err))
			return
		}
		ids[i] = out.StartRun.Run.RunId
		look(ids[i])
	})
	each(func(i int) { look(ids[i]) })
	c.t.Logf("%d of %d healthy runs are flagged; each was asked about twice, and was %v, within %s", flagged.Load(), n,
		states, time.Since(began).Round(time.Second))
}
