package server_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dvt-engine/dvt/client"
	"github.com/dvt-engine/dvt/internal/testserver"
	"github.com/dvt-engine/dvt/internal/testtime"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
	"github.com/dvt-engine/dvt/store/postgres"
)

// cutServer is a server that reaches its parts through proxies of its own.
type cutServer struct {
	*process
	url    string
	db     *testserver.PostgresProxy
	bus    *testserver.Proxy
	engine *testserver.Proxy
}

// cutInstallation is two servers that can be cut off, and a control worker that cannot.
type cutInstallation struct {
	store   store.Store
	servers []*cutServer
	runs    []string
}

func startCutInstallation(t *testing.T) *cutInstallation {
	t.Helper()
	dsn, redis, engine := testserver.Postgres(t), testserver.Redis(t), testserver.TemporalAlone(t)
	dir := t.TempDir()
	config := func(name, dsn, redis, engineAddr string) string {
		path := filepath.Join(dir, name+".yaml")
		must(t, os.WriteFile(path, fmt.Appendf(nil, `
store: %s
redis: redis://%s/0
temporal: %s
temporal-namespace: %s
artifacts: file://%s/artifacts?create_dir=true&no_tmp_dir=true
operators-tenant: acme
quotas: {tiers: {default: {startRunPerMinute: 6000}}}
accounts:
  - {id: ada, tenant: acme, tokenSha256: %s, grants: [{role: ENGINEER, project: "*", environment: "*"}]}
`, dsn, redis, engineAddr, engine.Namespace, dir, tokenHash(accountToken("ada"))), 0o600))
		return path
	}
	migrate := spawn(t, "dvt migrate", nil, "migrate", "--store", dsn)
	<-migrate.exited
	c := &cutInstallation{}
	var err error
	c.store, err = postgres.Open(t.Context(), dsn, postgres.Options{})
	must(t, err)
	t.Cleanup(func() { must(t, c.store.Close()) })
	for _, name := range []string{"A", "B"} {
		address := testserver.FreeAddress(t)
		s := &cutServer{url: "http://" + address, db: testserver.NewPostgresProxy(t, dsn),
			bus: testserver.NewProxy(t, redis.Addr), engine: testserver.NewProxy(t, engine.Addr)}
		s.process = spawn(t, "server "+name, []string{"DVT_LOG_LEVEL=info"}, "server", "--config",
			config(name, s.db.DSN, s.bus.Addr, s.engine.Addr), "--listen", address)
		c.servers = append(c.servers, s)
	}
	spawn(t, "control worker", nil, "worker", "--config", config("worker", dsn, redis.Addr, engine.Addr), "--queues",
		"tq-control-dev", "--workspace", filepath.Join(dir, "control"))
	for _, s := range c.servers {
		waitUntilReady(t, s.url)
	}
	return c
}

// failingChecks returns the names of the checks that a server says are not healthy.
func (s *cutServer) failingChecks(t *testing.T) []string {
	t.Helper()
	var h struct {
		Checks map[string]struct{ Status string }
	}
	must(t, json.Unmarshal([]byte(get(t, s.url+"/engine/health").body), &h))
	bad := []string{}
	for name, c := range h.Checks {
		if c.Status != "healthy" {
			bad = append(bad, name)
		}
	}
	slices.Sort(bad)
	return bad
}

// openAlerts returns the open alerts about the installation, as code and subject.
func (c *cutInstallation) openAlerts(t *testing.T) (out []string) {
	t.Helper()
	all, err := c.store.ListAlerts(t.Context(), store.AlertFilter{TenantID: "acme", Installation: true,
		States: []store.AlertStage{store.AlertOpen}, Limit: store.MaxPage})
	must(t, err)
	for _, a := range all {
		out = append(out, strings.TrimSpace(string(a.Code)+" "+a.Subject))
	}
	slices.Sort(out)
	return out
}

// start starts a run at a server.
func (c *cutInstallation) start(t *testing.T, s *cutServer, name string, ms int) {
	t.Helper()
	id := fmt.Sprintf("%s-%d", name, len(c.runs))
	c.runs = append(c.runs, start(t, client.New(s.url, accountToken("ada")), id, sleepPlan(id, ms)))
}

// cut is one way to cut both servers off.
type cut struct {
	name   string
	parts  func(*cutServer) []interface{ Stop() }
	checks []string // that fail on both servers
	lines  []string // that both servers log
	alerts []string // that are open within a minute
	starts bool     // a server still accepts runs
}

// While two servers are cut off from what they need, each says so within a minute in its health and in its log, and
// an alert tells people where one can be written: the servers themselves while they reach the store, and otherwise the
// control worker, which misses their heartbeats. When the connections are back everything resolves by itself, and all
// runs complete. Without TEST_LONG the servers lose everything at once.
func TestCutOff_TwoServersSayWhatTheyMissAndRecover(t *testing.T) {
	t.Parallel()
	stop := func(parts ...interface{ Stop() }) []interface{ Stop() } { return parts }
	const says = "a part that dvt needs does not work"
	cuts := []cut{{
		name:   "everything",
		parts:  func(s *cutServer) []interface{ Stop() } { return stop(s.db, s.bus, s.engine) },
		checks: []string{"eventBus", "stateStore", "temporal"},
		lines:  []string{says, `"check":"stateStore"`, `"check":"temporal"`, "Redis"},
		alerts: []string{string(run.CodeReconcilerAbsent) + " reconcile"},
	}}
	if os.Getenv("TEST_LONG") != "" {
		cuts = append(cuts, cut{
			name:   "PostgreSQL",
			parts:  func(s *cutServer) []interface{ Stop() } { return stop(s.db) },
			checks: []string{"stateStore"},
			lines:  []string{says, `"check":"stateStore"`},
			alerts: []string{string(run.CodeReconcilerAbsent) + " reconcile"},
		}, cut{
			name:   "Redis",
			parts:  func(s *cutServer) []interface{ Stop() } { return stop(s.bus) },
			checks: []string{"eventBus"},
			lines:  []string{"Redis"},
			alerts: []string{string(run.CodeDependencyDown) + " eventBus"},
			starts: true,
		}, cut{
			name:   "Temporal",
			parts:  func(s *cutServer) []interface{ Stop() } { return stop(s.engine) },
			checks: []string{"temporal"},
			lines:  []string{says, `"check":"temporal"`},
			alerts: []string{string(run.CodeDependencyDown) + " temporal"},
			starts: true,
		})
	}
	c := startCutInstallation(t)
	var table []string
	for _, one := range cuts {
		table = append(table, c.try(t, one)...)
	}
	t.Logf("said, by whom, after:\n%s", strings.Join(table, "\n"))
}

// try cuts both servers off, waits for what must be said, and for the end of all of it. It returns rows of the table.
func (c *cutInstallation) try(t *testing.T, one cut) (rows []string) {
	t.Helper()
	c.start(t, c.servers[0], "before", 3000)
	waitUntil(t, "nothing is wrong before the servers lose "+one.name, time.Minute, func() bool {
		return len(c.openAlerts(t)) == 0 && len(c.servers[0].failingChecks(t))+len(c.servers[1].failingChecks(t)) == 0
	})
	logged := []int{len(c.servers[0].output()), len(c.servers[1].output())}
	began := time.Now()
	for _, s := range c.servers {
		for _, p := range one.parts(s) {
			p.Stop()
		}
	}
	if one.starts { // an accepted run waits in the queue, and nobody has to repeat it
		c.start(t, c.servers[1], "during", 1)
	}
	within := func(who, what string, ok func() bool) {
		t.Helper()
		waitUntil(t, fmt.Sprintf("%s says %s without %s", who, what, one.name), 2*time.Minute, ok)
		took := time.Since(began)
		rows = append(rows, fmt.Sprintf("%-12s %-16s %-32s %s", one.name, who, what, took.Round(time.Second)))
		if took > testtime.Of(time.Minute) {
			t.Errorf("without %s %s says %s after %s, want a minute or less", one.name, who, what, took)
		}
	}
	for i, s := range c.servers {
		within(s.name, "health: "+strings.Join(one.checks, " "), func() bool {
			return slices.Equal(s.failingChecks(t), one.checks)
		})
		within(s.name, "log", func() bool {
			text := s.output()[logged[i]:]
			return !slices.ContainsFunc(one.lines, func(l string) bool { return !strings.Contains(text, l) })
		})
	}
	within("an alert", strings.Join(one.alerts, " "), func() bool {
		open := c.openAlerts(t)
		return !slices.ContainsFunc(one.alerts, func(a string) bool { return !slices.Contains(open, a) })
	})
	rows = append(rows, fmt.Sprintf("%-12s %-16s %s", one.name, "open alerts", strings.Join(c.openAlerts(t), ", ")))
	back := time.Now()
	for _, s := range c.servers {
		s.db.Pass()
		s.bus.Pass()
		s.engine.Pass()
	}
	for _, s := range c.servers {
		waitUntil(t, s.name+" is healthy again", time.Minute, func() bool { return len(s.failingChecks(t)) == 0 })
	}
	for _, s := range c.servers {
		waitUntil(t, s.name+" accepts a run again", time.Minute, func() bool {
			return tryStartAt(t, s.url, fmt.Sprintf("after-%d", time.Now().UnixNano())).code() == ""
		})
	}
	for _, id := range c.runs {
		if st := waitForEnd(t, client.New(c.servers[0].url, accountToken("ada")), id, time.Minute); st.Status !=
			client.RunStatusCompleted {
			t.Errorf("without %s a run ended %s, want COMPLETED", one.name, st.Status)
		}
		checkLog(t, c.store, id)
	}
	c.runs = nil
	waitUntil(t, "all alerts are resolved by themselves", 4*time.Minute, func() bool { return len(c.openAlerts(t)) == 0 })
	return append(rows, fmt.Sprintf("%-12s %-16s %-32s %s", one.name, "everybody", "all is well, no alert is open",
		time.Since(back).Round(time.Second)))
}
