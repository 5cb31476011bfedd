package server_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/dvt-engine/dvt/client"
	"github.com/dvt-engine/dvt/internal/testserver"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// Faults of an installation are found by the alerts that the runbooks name, and the steps of the runbooks mend them.
// The table that it logs has the time to find and the time to repair. Each group of faults has its own installation,
// because the groups take turns at nothing and so wait for their alerts side by side.
func TestGameDay_RunbooksMendWhatTheirAlertsFind(t *testing.T) {
	if os.Getenv("TEST_LONG") == "" {
		t.Skip("the game day takes minutes: set TEST_LONG")
	}
	table, want := &gameTable{}, 0
	t.Run("faults", func(t *testing.T) {
		for _, group := range []struct {
			name   string
			faults int
			inject func(*testing.T, *gameTable)
		}{
			{"duties", 4, injectIntoDuties}, {"dependencies", 6, injectIntoDependencies},
			{"runs and processes", 6, injectIntoProcesses},
		} {
			t.Run(group.name, func(t *testing.T) {
				want += group.faults
				t.Parallel()
				group.inject(t, table)
			})
		}
	})
	if len(table.rows) != want {
		t.Errorf("the game day mended %d faults, want %d", len(table.rows), want)
	}
	t.Logf("game day:\n%s", strings.Join(table.rows, "\n"))
}

func injectIntoProcesses(t *testing.T, table *gameTable) {
	p := startDeployment(t, onCall("pause-drain-timeout: 10s"))
	g := newGameDay(t, table, p)
	g.units["dvt-server"] = processes(p.serverB)
	ended := func(id string) func() bool { return func() bool { return p.stateOf(t, id).Status.Terminal() } }

	hangs := g.startNap("hangs", "15")
	g.inject("a data worker hangs with a step", func() { must(t, p.data.cmd.Process.Signal(syscall.SIGSTOP)) },
		g.alert(run.CodeStepStuck, hangs, "")).
		mend(func() { g.mend("stuck-run", 2, map[string]string{"RUN": hangs, "STEP": "nap"}) }, ended(hangs))
	if st := p.stateOf(t, hangs); st.Status != run.Completed {
		t.Errorf("after the runbook the run that hung is %s, want COMPLETED", st.Status)
	}

	drains := g.startNap("drains", "600")
	g.inject("a paused run does not drain", func() {
		if out, err := g.dvt(opsToken, "run", "pause", drains, "--reason", "game day", "--no-wait"); err != nil {
			t.Fatalf("pause: %v\n%s", err, out)
		}
	}, g.alert(run.CodePauseDrain, drains, "")).
		mend(func() { g.mend("stuck-run", 3, map[string]string{"RUN": drains}, "cancel") }, ended(drains))

	open := g.startNap("open", "5")
	absent := g.alert(run.CodeWorkerAbsent, "", "")
	g.inject("the control worker is killed", p.control.kill, absent).
		mend(func() { g.mend("sev-1-outage", 5, nil) }, g.isOver(absent, open))

	isDown := func() bool { return !isServed(p.urlB) }
	g.inject("a server is killed", p.serverB.kill, isDown).
		mend(func() { g.mend("sev-2-partial", 1, nil, "dvt-server") }, g.isOver(isDown))

	g.inject("a server is frozen", func() { must(t, p.serverB.cmd.Process.Signal(syscall.SIGSTOP)) }, isDown).
		mend(func() { g.mend("sev-1-outage", 1, nil) }, g.isOver(isDown))

	made, err := client.CreateToken(t.Context(), client.New(p.urlA, adaToken), client.CreateTokenInput{
		RequestId: "leaks", Name: "leaks",
		Grants: []client.TokenGrantInput{{Role: client.RoleEngineer, ProjectId: "shop", EnvironmentId: "dev"}}})
	must(t, err)
	answers := func() bool { _, err := g.dvt(*made.CreateToken.Secret, "whoami"); return err == nil }
	g.inject("an API token leaks", func() {}, answers).
		mend(func() { g.mend("secret-leak", 2, map[string]string{"TOKEN": made.CreateToken.Token.TokenId}) },
			g.isOver(answers))

	g.wantIncidents("SEV_2 STEP_STUCK", "SEV_2 PAUSE_DRAIN_TIMEOUT", "SEV_1 WORKER_ABSENT")
}

// wantIncidents checks that incidents of these severities and codes were opened.
func (g *gameDay) wantIncidents(want ...string) {
	g.t.Helper()
	incidents, err := g.store.ListIncidents(g.t.Context(), store.IncidentFilter{TenantID: "acme", Installation: true,
		Limit: store.MaxPage})
	must(g.t, err)
	var opened []string
	for _, i := range incidents {
		opened = append(opened, fmt.Sprintf("%s %s", i.Severity, i.Code))
	}
	for _, w := range want {
		if !slices.Contains(opened, w) {
			g.t.Errorf("the incidents %v lack %s", opened, w)
		}
	}
}

// isBroken returns a function that reports whether server A measures that a part does not work.
func (g *gameDay) isBroken(check string) func() bool {
	return func() bool {
		req, err := http.NewRequestWithContext(g.t.Context(), http.MethodGet, g.urlA+"/metrics", http.NoBody)
		if err != nil {
			return false
		}
		req.Header.Set("Authorization", "Bearer "+opsToken)
		res, err := noRedirects.Do(req)
		if err != nil {
			return false
		}
		defer res.Body.Close()
		page, err := io.ReadAll(res.Body)
		return err == nil && strings.Contains(string(page), fmt.Sprintf("dvt_dependency_up{check=%q} 0\n", check))
	}
}

// injectIntoDependencies stops the parts that dvt needs one after the other, and puts an older store in place at last.
func injectIntoDependencies(t *testing.T, table *gameTable) {
	pg, err := testserver.StartPostgres(testserver.PostgresOptions{Settings: []string{"fsync=off",
		"full_page_writes=off", "shared_buffers=64MB"}})
	must(t, err)
	t.Cleanup(func() { must(t, pg.Close()) })
	p := startDeploymentOn(t, pg.DSN, onCall("health-interval: 5s"))
	g := newGameDay(t, table, p)
	g.units["postgresql"] = unit{func() { pg.Start(t) }, func() { pg.Stop(t) }}
	away := p.artifacts + ".away"
	g.units["artifacts.mount"] = unit{func() {
		must(t, errors.Join(os.Remove(p.artifacts), os.Rename(away, p.artifacts)))
	}, func() {}}
	var all []string
	nap := func(name, seconds string) string {
		id := g.startNap(name, seconds)
		all = append(all, id)
		return id
	}

	for _, one := range []struct {
		name, check, runbook string
		step                 int
		inject               func()
	}{
		{"Redis is stopped", "eventBus", "outbox-backlog", 1, p.bus.Stop},
		{"Temporal is stopped", "temporal", "sev-1-outage", 3, func() { p.temporal.Kill(t) }},
		// Root may write everywhere, so a directory without rights would stop nothing.
		{"the artifacts cannot be written", "artifactStore", "sev-2-partial", 4, func() {
			must(t, errors.Join(os.Rename(p.artifacts, away), os.WriteFile(p.artifacts, nil, 0o400)))
		}},
	} {
		open := nap("during-"+one.check, "2")
		down := g.alert(run.CodeDependencyDown, "", one.check)
		g.inject(one.name, one.inject, down).
			mend(func() { g.mend(one.runbook, one.step, nil) }, g.isOver(down, open))
	}
	g.wantIncidents("SEV_1 DEPENDENCY_DOWN", "SEV_2 DEPENDENCY_DOWN", "SEV_3 DEPENDENCY_DOWN")

	quota := func(name, doc string) string {
		file := filepath.Join(p.dir, name)
		must(t, os.WriteFile(file, []byte(doc), 0o600))
		return file
	}
	small := quota("small.yaml", "tenant: {maxActive: 1, maxQueueDepth: 2}\n")
	if out, err := g.dvt(opsToken, "quota", "set", small, "--expected-version", "0", "--reason", "game day"); err != nil {
		t.Fatalf("quota set: %v\n%s", err, out)
	}
	full := g.alert(run.CodeQueueFull, "", "")
	waiting := []string{nap("active", "14")}
	fault := g.inject("the queue of a tenant is full", func() {
		for _, name := range []string{"waits-1", "waits-2"} {
			waiting = append(waiting, start(t, client.New(p.urlA, opsToken), name, stepsPlan(name, noopStep)))
		}
	}, full)
	fault.mend(func() {
		file := quota("larger.yaml", "tenant: {maxActive: 5, maxQueueDepth: 100}\n")
		g.mend("sev-3-performance", 1, map[string]string{"quota.yaml": file, "3": "1"})
	}, g.isOver(full, waiting...))
	all = append(all, waiting[1:]...)

	open := nap("during-stateStore", "2")
	down := g.isBroken("stateStore")
	g.inject("PostgreSQL is stopped", func() { pg.Stop(t) }, down).
		mend(func() { g.mend("sev-1-outage", 2, nil) }, g.isOver(down, open))

	restored := nap("restored", "8")
	pg.Stop(t)
	putBack := pg.CopyData(t)
	pg.Start(t)
	waitUntil(t, "the run completes", time.Minute, g.isOver(nil, restored))
	epoch, err := p.store.Epoch(t.Context())
	must(t, err)
	regressed := g.alert(run.CodeStoreRegressed, restored, "")
	g.inject("the store came back from an older state", func() {
		pg.Stop(t)
		putBack()
		pg.Start(t)
	}, regressed).mend(func() {
		g.mend("data-corruption", 1, nil)
		g.mend("data-corruption", 2, map[string]string{"dvt.yaml": p.config})
	}, g.isOver(regressed, restored))
	g.wantIncidents("SEV_1 STORE_REGRESSED")
	if after, err := p.store.Epoch(t.Context()); err != nil || after == epoch {
		t.Errorf("after the repair the epoch is %s (%v), want another one than before, so that viewers start over", after, err)
	}
	waitUntilReady(t, p.urlA)
	g.verify("data-corruption", map[string]string{"dvt.yaml": p.config})
	for _, id := range all {
		checkLog(t, p.store, id)
	}
}

// injectIntoDuties leaves work without somebody who does it. The alert about the queue takes longest, so the other
// faults happen meanwhile.
func injectIntoDuties(t *testing.T, table *gameTable) {
	host := newPlanHost(t)
	p := startDeployment(t, onCall("no-worker-after: 2m", "health-interval: 5s",
		"egress: {acme: {allow: [127.0.0.1/32]}}"))
	g := newGameDay(t, table, p)
	g.units["dvt-server"] = processes(p.serverB)
	g.units["plans"] = unit{func() { host.hangs.Store(false) }, func() {}}
	restart := func(one *process, env ...string) {
		one.kill()
		one.env = env
		one.start()
	}
	// Only server B and the control worker project.
	restart(p.serverA, "DVT_DUTIES=api,dispatch,deliver,reconcile")
	restart(p.control, "SSL_CERT_FILE="+host.authority)
	waitUntilReady(t, p.urlA)
	right := testserver.WriteFile(t, p.dir, "right-token", []byte(workerToken))
	token := testserver.WriteFile(t, p.dir, "token", []byte(workerToken))
	p.data.env = []string{"DVT_WORKER_TOKEN_FILE=" + token}
	c := client.New(p.urlA, opsToken)

	noWorker := g.alert(run.CodeNoWorker, "", "tq-data-dev")
	unserved := ""
	queue := g.inject("a queue has no worker", func() {
		p.data.kill()
		unserved = start(t, c, "unserved", stepsPlan("unserved",
			`{"stepId":"s","type":"COMMAND","inputs":{"argv":["true"]},"timeout":"1m"}`))
	}, noWorker)

	projector := g.alert(run.CodeProjectorAbsent, "", "")
	late := ""
	g.inject("the processes that project are frozen", func() {
		for _, one := range []*process{p.serverB, p.control} {
			must(t, one.cmd.Process.Signal(syscall.SIGSTOP))
		}
		late = start(t, c, "late", stepsPlan("late", noopStep))
	}, projector).mend(func() { g.mend("outbox-backlog", 2, nil) }, func() bool { return g.isOver(projector, late)() })

	host.hangs.Store(true)
	failed := g.startAt(host)
	hangs := g.alert(run.CodePlanFetchFailed, failed, "")
	g.inject("the host of a plan hangs", func() {}, hangs).mend(func() {
		g.mend("sev-2-partial", 5, map[string]string{"RUN": failed})
	}, func() bool { return !hangs() && g.hasCompleted("by-reference") })

	queue.mend(func() { g.mend("stuck-run", 1, nil) }, func() bool { return g.isOver(noWorker, unserved)() })

	denied := g.alert(run.CodeWorkerDenied, "", "")
	g.inject("a data worker has a wrong token", func() {
		testserver.WriteFile(t, p.dir, "token", []byte("a-token-that-nobody-has-ever-made"))
		p.data.kill()
		p.data.start()
	}, denied).mend(func() {
		g.mend("sev-2-partial", 6, map[string]string{"TOKEN_FILE": right, "WORKER_TOKEN_FILE": token})
		g.startNap("mended", "1")
	}, func() bool { return g.hasCompleted("mended") })
	g.wantIncidents("SEV_2 NO_WORKER_FOR_QUEUE", "SEV_2 PROJECTOR_ABSENT")
}

// hasCompleted reports whether a run of a plan has completed.
func (g *gameDay) hasCompleted(planID string) bool {
	rows, err := g.store.ListPlans(g.t.Context(), store.PlanFilter{TenantID: "acme", PlanID: planID, Runs: 5, Limit: 1})
	return err == nil && len(rows) == 1 && slices.ContainsFunc(rows[0].Runs, func(r store.RunRow) bool {
		return r.Header.Status == run.Completed
	})
}

// planHost is a host of plans. While it hangs it accepts requests and answers none.
type planHost struct {
	*httptest.Server
	doc       []byte
	authority string // file of the certificate to trust
	hangs     atomic.Bool
}

func newPlanHost(t *testing.T) *planHost {
	t.Helper()
	h := &planHost{doc: stepsPlan("by-reference", noopStep)}
	over := make(chan struct{})
	h.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if h.hangs.Load() {
			select {
			case <-r.Context().Done():
			case <-over:
			}
			return
		}
		_, _ = w.Write(h.doc)
	}))
	t.Cleanup(sync.OnceFunc(func() { close(over); h.Close() }))
	h.authority = testserver.WriteFile(t, t.TempDir(), "plans.pem", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE",
		Bytes: h.Certificate().Raw}))
	return h
}

// startAt starts a run of the plan of a host.
func (g *gameDay) startAt(host *planHost) string {
	g.t.Helper()
	sum := sha256.Sum256(host.doc)
	out, err := client.StartRun(g.t.Context(), client.New(g.urlA, opsToken), client.StartRunInput{
		Plan: client.PlanInput{Ref: &client.PlanRefInput{Uri: host.URL + "/plan.json", Sha256: hex.EncodeToString(sum[:]),
			SchemaVersion: "v1.2", PlanId: "by-reference", PlanVersion: "1.0"}},
		RunRequestId: "by-reference", ProjectId: "shop", EnvironmentId: "dev"})
	if err != nil {
		g.t.Fatal(client.AsAPIError(err))
	}
	return out.StartRun.Run.RunId
}
