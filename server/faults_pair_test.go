package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dvt-engine/dvt/server/config"

	"github.com/spf13/pflag"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/internal/testserver"
	"github.com/dvt-engine/dvt/live"
	"github.com/dvt-engine/dvt/live/redisbus"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/projector"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
	"github.com/dvt-engine/dvt/server"
	"github.com/dvt-engine/dvt/store"
	"github.com/dvt-engine/dvt/store/decorate"
	"github.com/dvt-engine/dvt/store/postgres"
)

// Tokens of the accounts of a pair, and the number of its viewers, see viewerToken.
const (
	viewerAccounts = 16
	vicToken       = "vic-may-look-for-now"
	malToken       = "mal-is-of-another-tenant"
)

func viewerToken(n int) string { return fmt.Sprintf("viewer-%02d-has-a-token", n%viewerAccounts) }

// pair is two servers on one PostgreSQL and one Redis. Each server has its own proxies to both, so that its faults are
// its own. Nothing executes steps: tests append to the log over direct connections without faults, like a remote
// worker.
type pair struct {
	a, b       *node
	dsn        string
	redis      *testserver.RedisServer
	store      store.Store   // wakes its own projector after a commit, like each process of dvt
	bus        *redisbus.Bus // of this projector
	skew       *atomic.Int64 // of B's clock, in ns
	directory  *authz.Directory
	authorizer *authz.Authorizer // of B, decides by directory
	runs       atomic.Int64
}

// node is one server with its proxies to Redis and PostgreSQL.
type node struct {
	name, url string
	bus       *testserver.BusProxy
	db        *testserver.PostgresProxy
	logText   func() string

	mu    sync.Mutex
	rules map[string]func(live.Message) testserver.Fate // by run
	// the last seq of a run whose message reached the proxy, also of dropped messages
	arrived map[string]run.Seq
	odds    func(testserver.BusMessage) testserver.Fate // for messages of runs without a rule

	outages     []outage // that have ended
	faultCounts map[string]int
}

func (p *pair) nodes() []*node { return []*node{p.a, p.b} }

// startPair starts A as a process of its own, and B in this process with a clock that is a minute ahead.
func startPair(t *testing.T) *pair {
	t.Helper()
	p := &pair{dsn: testserver.Postgres(t), redis: testserver.Redis(t), skew: &atomic.Int64{}}
	must(t, postgres.Migrate(t.Context(), p.dsn))
	raw, err := postgres.Open(t.Context(), p.dsn, postgres.Options{})
	must(t, err)
	t.Cleanup(func() { must(t, raw.Close()) })
	p.bus, err = redisbus.Open(redisbus.Config{URL: "redis://" + p.redis.Addr + "/0"})
	must(t, err)
	t.Cleanup(func() { must(t, p.bus.Close()) })
	pr := projector.New(raw, p.bus, projector.Config{})
	p.store = decorate.WakeOnCommit(raw, pr)
	runInBackground(t, func(ctx context.Context) error { return pr.Run(ctx) })

	p.a, p.b = p.newNode(t, "A"), p.newNode(t, "B")
	a := spawn(t, "server A", nil, "server", "--config", p.writeConfig(t, p.a))
	p.a.logText = a.output
	p.skew.Store(int64(time.Minute))
	p.runInProcess(t, p.b)
	waitUntilReady(t, p.a.url)
	waitUntilReady(t, p.b.url)
	return p
}

// runInBackground runs f until the test ends, and fails the test when f returns an error.
func runInBackground(t *testing.T, f func(ctx context.Context) error) {
	t.Helper()
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- f(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Errorf("a background function ended with %v, want no error", err)
		}
	})
}

func (p *pair) newNode(t *testing.T, name string) *node {
	n := &node{
		name: name, url: "http://" + testserver.FreeAddress(t), rules: map[string]func(live.Message) testserver.Fate{},
		arrived:     map[string]run.Seq{},
		faultCounts: map[string]int{}, bus: testserver.NewBusProxy(t, p.redis.Addr), db: testserver.NewPostgresProxy(t,
			p.dsn),
	}
	n.bus.SetFate(n.decide)
	return n
}

// writeConfig writes the settings of a server. Its address of Temporal leads nowhere, because its duties need no
// engine.
func (p *pair) writeConfig(t *testing.T, n *node) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "dvt.yaml")
	var b strings.Builder
	fmt.Fprintf(&b, "listen: %s\nstore: %s\nredis: redis://%s/0\ntemporal: %s\nduties: [api, project]\nartifacts: "+
		"file://%s?create_dir=true&no_tmp_dir=true\nticket-keys: [\"%s\"]\naccounts:\n",
		strings.TrimPrefix(n.url, "http://"), n.db.DSN, n.bus.Addr, testserver.FreeAddress(t),
		filepath.Join(t.TempDir(), "artifacts"), ticketKey)
	account := func(id, tenant, token, more string) {
		fmt.Fprintf(&b, "  - {id: %s, tenant: %s, tokenSha256: %s, grants: [{role: ENGINEER, project: \"*\", environment: "+
			"\"*\"}]%s}\n", id, tenant, tokenHash(token), more)
	}
	for i := range viewerAccounts {
		account(fmt.Sprintf("viewer-%d", i), "acme", viewerToken(i), "")
	}
	account("vic", "acme", vicToken, "")
	account("mal", "globex", malToken, "")
	must(t, os.WriteFile(path, []byte(b.String()), 0o600))
	return path
}

// runInProcess runs a server in this process. p.skew moves its clock.
func (p *pair) runInProcess(t *testing.T, n *node) {
	t.Helper()
	flags := pflag.NewFlagSet("server", pflag.ContinueOnError)
	flags.String("config", p.writeConfig(t, n), "")
	cfg, err := config.Load(flags, false)
	must(t, err)
	var logged lockedBuffer
	n.logText = logged.String
	log := slog.New(slog.NewTextHandler(&logged, &slog.HandlerOptions{Level: slog.LevelWarn}))
	runInBackground(t, func(ctx context.Context) error {
		return server.RunInside(ctx, cfg, log, func() time.Time { return time.Now().Add(time.Duration(p.skew.Load())) },
			func(d *authz.Directory, a *authz.Authorizer) { p.directory, p.authorizer = d, a })
	})
}

// lockedBuffer collects the log of a server in this process. Its methods may run concurrently.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(b)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// setRule sets the fate of the messages of one run on their way to this server. A nil rule lets them pass.
func (n *node) setRule(runID string, fate func(live.Message) testserver.Fate) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.rules[runID] = fate; fate == nil {
		delete(n.rules, runID)
	}
}

// setOdds sets the fate of messages of runs without a rule.
func (n *node) setOdds(odds func(testserver.BusMessage) testserver.Fate) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.odds = odds
}

func (n *node) decide(m testserver.BusMessage) testserver.Fate {
	n.mu.Lock()
	defer n.mu.Unlock()
	var body live.Message
	if json.Unmarshal([]byte(m.Payload), &body) == nil {
		n.arrived[body.RunID] = max(n.arrived[body.RunID], body.To)
		if rule := n.rules[body.RunID]; rule != nil {
			return rule(body)
		}
	}
	if n.odds != nil {
		return n.odds(m)
	}
	return testserver.Fate{}
}

// waitUntilSent waits until the message of the head has reached the proxies of both servers, so that the next commit is
// in another message.
func (h *history) waitUntilSent(p *pair) {
	h.t.Helper()
	for _, n := range p.nodes() {
		waitUntil(h.t, "the message reaches the proxy of "+n.name, 10*time.Second, func() bool {
			n.mu.Lock()
			defer n.mu.Unlock()
			return n.arrived[h.id.RunID] >= h.head()
		})
	}
}

// history is one run with its log and the times of its commits.
type history struct {
	t     *testing.T
	store store.Store
	id    run.Identity

	mu      sync.Mutex
	commits []commit
}

// commit is one event. It was committed between before and after.
type commit struct {
	run.Event
	before, after time.Time
}

// newRun creates a run with the steps s0, s1, …. Its head is 2.
func (p *pair) newRun(t *testing.T, steps int) *history {
	t.Helper()
	h := &history{t: t, store: p.store, id: run.Identity{
		RunID: fmt.Sprintf("faults-%d", p.runs.Add(1)), TenantID: "acme", ProjectID: "shop", EnvironmentID: "dev",
		PlanID: "plan-3", PlanVersion: "1.0",
	}}
	var outlines []string
	for i := range steps {
		outlines = append(outlines, fmt.Sprintf("s%d", i))
	}
	drafts := []run.Draft{runtest.Draft(run.RunApproved, "", 1), runtest.Start(outlines...)}
	h.commit(func(ctx context.Context) error {
		_, created, err := p.store.CreateRun(ctx, store.NewRun{
			Run: store.Run{
				Identity: h.id, RequestID: h.id.RunID, TriggeredBy: "ola", TriggerSource: "api", Params: []byte(`{}`),
				RequestKey: run.RequestKey(h.id.TenantID, h.id.ProjectID, h.id.EnvironmentID, h.id.PlanID, h.id.PlanVersion,
					h.id.RunID),
				PlanRef: plan.Ref{SHA256: strings.Repeat("ab", 32), SchemaVersion: "v1.2", PlanID: h.id.PlanID,
					PlanVersion: h.id.PlanVersion},
				Policy: run.Policy{RetryWindowMS: 60000, MaxParallelSteps: 100, MaxLogicalAttemptsManual: 10},
			},
			Plan: []byte(`{}`), Events: drafts,
		})
		if err == nil && !created {
			err = fmt.Errorf("run %s exists", h.id.RunID)
		}
		return err
	})
	return h
}

// add appends events in one batch and returns the head. It fails the test when the log refuses one of them.
func (h *history) add(drafts ...run.Draft) run.Seq {
	h.t.Helper()
	h.commit(func(ctx context.Context) error {
		out, err := h.store.Append(ctx, store.Append{RunID: h.id.RunID, Events: drafts})
		for i, o := range out.Outcomes {
			if o.Refused != "" || o.Deduplicated {
				return fmt.Errorf("%s of %s %s: %+v", drafts[i].Type, h.id.RunID, drafts[i].StepID, o)
			}
		}
		return err
	})
	return h.head()
}

// commit calls do and then reads the new events from the log.
func (h *history) commit(do func(ctx context.Context) error) {
	h.t.Helper()
	before := time.Now()
	must(h.t, do(context.WithoutCancel(h.t.Context())))
	after := time.Now()
	evs, err := h.store.Events(context.WithoutCancel(h.t.Context()), h.id.RunID, h.head(), store.MaxPage)
	must(h.t, err)
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, e := range evs {
		h.commits = append(h.commits, commit{e, before, after})
	}
}

// addNoise appends n events one by one that change only the seq of the run, and returns the head.
func (h *history) addNoise(n int) run.Seq {
	h.t.Helper()
	for range n {
		h.add(runtest.Draft(run.SignalRejected, fmt.Sprintf("noise-%d", h.head()), 1))
	}
	return h.head()
}

// addNoiseUpTo appends noise until the head is seq. Then it waits until the projector may publish the next message at
// once, because it paces the messages of a run (contract O8).
func (h *history) addNoiseUpTo(seq run.Seq) {
	h.t.Helper()
	h.addNoise(int(seq - h.head()))
	time.Sleep(1100 * time.Millisecond)
}

func (h *history) head() run.Seq {
	h.mu.Lock()
	defer h.mu.Unlock()
	return run.Seq(len(h.commits))
}

// commitTime returns the latest time at which seq can have been committed.
func (h *history) commitTime(seq run.Seq) time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.commits[seq-1].after
}

func (h *history) log() []commit {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.commits[:len(h.commits):len(h.commits)]
}

func step(kind run.EventType, n, attempt int) run.Draft {
	return runtest.Draft(kind, fmt.Sprintf("s%d", n), attempt)
}
