package server_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/dvt-engine/dvt/client"
	"github.com/dvt-engine/dvt/internal/testserver"
	"github.com/dvt-engine/dvt/internal/testtime"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
	"github.com/dvt-engine/dvt/store/postgres"
)

// queueServers is two servers and a control worker with quotas. Server A reaches the engine through a proxy.
type queueServers struct {
	a      *process
	urlA   string
	urlB   string
	engine *testserver.Proxy
	store  store.Store
	startB func()
	worker *process // of the control queue
	// startWatcher starts a server with only the API and returns its address.
	startWatcher func() string
}

func startQueueServers(t *testing.T, quotas string) *queueServers {
	t.Helper()
	dsn, redis, temporal := testserver.Postgres(t), testserver.Redis(t), testserver.TemporalAlone(t)
	dir := t.TempDir()
	d := &queueServers{engine: testserver.NewProxy(t, temporal.Addr)}
	config := func(name, engine, duties string) string {
		path := filepath.Join(dir, name)
		must(t, os.WriteFile(path, fmt.Appendf(nil, `
store: %s
redis: redis://%s/0
temporal: %s
temporal-namespace: %s
duties: [%s]
artifacts: file://%s/artifacts?create_dir=true&no_tmp_dir=true
quotas: %s
accounts:
  - {id: ada, tenant: acme, tokenSha256: %s, grants: [{role: ADMIN, project: "*", environment: "*"}]}
  - {id: mallory, tenant: globex, tokenSha256: %s, grants: [{role: ADMIN, project: "*", environment: "*"}]}
  - {id: sam, tenant: acme, tokenSha256: %s, grants: [{role: SRE, project: "*", environment: "*"}]}
`, dsn, redis.Addr, engine, temporal.Namespace, duties, dir, quotas, tokenHash(adaToken), tokenHash(malloryToken),
			tokenHash(samToken)), 0o600))
		return path
	}
	migrate := spawn(t, "dvt migrate", nil, "migrate", "--store", dsn)
	<-migrate.exited
	var err error
	d.store, err = postgres.Open(t.Context(), dsn, postgres.Options{})
	must(t, err)
	t.Cleanup(func() { must(t, d.store.Close()) })
	addressA, addressB := testserver.FreeAddress(t), testserver.FreeAddress(t)
	d.urlA, d.urlB = "http://"+addressA, "http://"+addressB
	d.worker = spawn(t, "control worker", nil, "worker", "--config", config("worker.yaml", temporal.Addr, "api"),
		"--queues",
		"tq-control-dev", "--workspace", filepath.Join(dir, "control"))
	d.a = spawn(t, "server A", nil, "server", "--config", config("a.yaml", d.engine.Addr, "api, dispatch"), "--listen",
		addressA)
	d.startB = func() {
		spawn(t, "server B", nil, "server", "--config", config("b.yaml", temporal.Addr,
			"api, project, dispatch, deliver, reconcile"), "--listen", addressB)
		waitUntilReady(t, d.urlB)
	}
	d.startWatcher = func() string {
		address := testserver.FreeAddress(t)
		spawn(t, "watcher", nil, "server", "--config", config("watcher.yaml", temporal.Addr, "api"), "--listen", address)
		waitUntilReady(t, "http://"+address)
		return "http://" + address
	}
	waitUntilReady(t, d.urlA)
	return d
}

// startRun starts a run of one step and returns the payload, with its place in the queue.
func (d *queueServers) startRun(
	t *testing.T, base, token, tenant, request, step string,
) client.StartRunStartRunStartRunPayload {
	t.Helper()
	doc := json.RawMessage(strings.Replace(string(stepsPlan("queue", step)), `"tenantId":"acme"`, `"tenantId":"`+tenant+
		`"`, 1))
	out, err := client.StartRun(t.Context(), client.New(base, token), client.StartRunInput{
		Plan: client.PlanInput{Inline: &doc}, RunRequestId: request, ProjectId: "shop", EnvironmentId: "dev", Priority: 5,
	})
	if err != nil {
		t.Fatal(client.AsAPIError(err))
	}
	return out.StartRun
}

const (
	noopStep = `{"stepId":"s1","type":"NOOP","inputs":{},"timeout":"1m"}`
	napStep  = `{"stepId":"s1","type":"SLEEP","inputs":{"ms":6000},"timeout":"1m"}`
)

// readEvents reads the log of a run: the time of the first event and the number of events by type, and all types in
// order.
func (d *queueServers) readEvents(t *testing.T, runID string) (at map[run.EventType]time.Time, n map[run.EventType]int,
	order []string) {
	t.Helper()
	evs, err := d.store.Events(t.Context(), runID, 0, store.MaxPage)
	must(t, err)
	at, n = map[run.EventType]time.Time{}, map[run.EventType]int{}
	for _, e := range evs {
		if n[e.Type]++; n[e.Type] == 1 {
			at[e.Type] = e.PersistedAt
		}
		order = append(order, string(e.Type))
	}
	return at, n, order
}

// waitUntil polls until ok returns true. It fails the test after patience, which a busy machine extends. what describes
// the condition.
func waitUntil(t *testing.T, what string, patience time.Duration, ok func() bool) {
	t.Helper()
	for began := time.Now(); !ok(); testtime.Pause(began, 20*time.Millisecond) {
		if time.Since(began) > testtime.Of(patience) {
			t.Fatalf("condition not met within %s: %s", patience, what)
		}
	}
}

// contract: W-7, Q05, Q06
func TestQueue_AnotherServerTakesOverTheStartOfAStoppedServer(t *testing.T) {
	t.Parallel()
	d := startQueueServers(t, `{tiers: {default: {startRunPerMinute: 1000, maxActive: 1}}}`)
	first := d.startRun(t, d.urlA, adaToken, "acme", "first", napStep).Run.RunId
	id := d.startRun(t, d.urlA, adaToken, "acme", "second", noopStep).Run.RunId
	waitUntil(t, "the first run is started in the engine", time.Minute, func() bool {
		q, err := d.store.QueueRow(t.Context(), first)
		return err == nil && q.Status == store.QueueStarted
	})
	d.engine.Hold()
	waitUntil(t, "server A leases the second run", time.Minute, func() bool {
		q, err := d.store.QueueRow(t.Context(), id)
		return err == nil && q.Status == store.QueueLocked
	})
	must(t, d.a.cmd.Process.Signal(syscall.SIGSTOP))
	stopped := time.Now()
	t.Cleanup(func() { _ = d.a.cmd.Process.Signal(syscall.SIGCONT) })
	d.startB()
	waitUntil(t, "server B starts the second run", 90*time.Second,
		func() bool { _, n, _ := d.readEvents(t, id); return n[run.RunStarted] == 1 })
	t.Logf("taken over %s after server A stopped", time.Since(stopped).Round(time.Second))
	must(t, d.a.cmd.Process.Signal(syscall.SIGCONT))
	d.engine.Pass()
	time.Sleep(8 * time.Second) // time in which A could repeat the start
	waitUntil(t, "the second run completes", time.Minute,
		func() bool { _, n, _ := d.readEvents(t, id); return n[run.RunCompleted] > 0 })
	_, n, order := d.readEvents(t, id)
	if !slices.Equal(order[:3], []string{"RunQueued", "RunApproved", "RunStarted"}) || n[run.RunStarted] != 1 ||
		n[run.RunApproved] != 1 || n[run.RunCompleted] != 1 {
		t.Errorf("the log is %q, want one start and one end of the run", order)
	}
	q, err := d.store.QueueRow(t.Context(), id)
	if err != nil || q.Status != store.QueueStarted || q.Generation != 2 {
		t.Errorf("the queue row is %+v (%v), want STARTED in generation 2", q, err)
	}
	if a := get(t, d.urlB+"/metrics", "Authorization: Bearer "+samToken); a.StatusCode != http.StatusOK ||
		!strings.Contains(a.body, "run_queue_leases_expired_total 1") {
		t.Errorf("/metrics of server B: %d, want 200 with one expired lease", a.StatusCode)
	}
}

// contract: Q02, Q12, T137
func TestQueue_TwoServersShareABacklog(t *testing.T) {
	t.Parallel()
	backlog := 60
	if os.Getenv("TEST_LONG") != "" {
		backlog = 200
	}
	d := startQueueServers(t, `{maxActive: 4, tiers: {default: {startRunPerMinute: 100000, maxQueueDepth: 1000}}}`)
	d.startB()
	type queued struct {
		id       string
		estimate time.Duration
		at       time.Time
	}
	var runs []queued
	for i := range backlog {
		began := time.Now()
		base := d.urlA
		if i%2 == 1 {
			base = d.urlB
		}
		p := d.startRun(t, base, adaToken, "acme", fmt.Sprint("a", i), noopStep)
		a := queued{id: p.Run.RunId, at: began}
		if p.Queue != nil && p.Queue.EstimatedWaitMs != nil {
			a.estimate = time.Duration(*p.Queue.EstimatedWaitMs * float64(time.Millisecond))
		}
		runs = append(runs, a)
	}
	countWaiting := func() int64 {
		u, err := d.store.Usage(t.Context(), "acme")
		must(t, err)
		return u.Tenant.Waiting
	}
	waited := countWaiting()
	other := d.startRun(t, d.urlB, malloryToken, "globex", "b", noopStep).Run.RunId
	waitUntil(t, "the run of globex starts", time.Minute,
		func() bool { _, n, _ := d.readEvents(t, other); return n[run.RunStarted] == 1 })
	waitUntil(t, "no run is active or waiting", 5*time.Minute, func() bool {
		n, err := d.store.ActiveRuns(t.Context())
		return err == nil &&
			n == 0 && countWaiting() == 0
	})
	its, _, _ := d.readEvents(t, other)
	queuedAt, approvedAt := its[run.RunQueued], its[run.RunApproved]
	if queuedAt.IsZero() { // a slot was free at once
		queuedAt = approvedAt
	}
	ahead := 0
	var ends, approvals []time.Time
	var estimateErrors []time.Duration
	for _, a := range runs {
		at, n, order := d.readEvents(t, a.id)
		if n[run.RunStarted] != 1 || n[run.RunApproved] != 1 || n[run.RunCompleted] != 1 {
			t.Errorf("the log of %s is %q, want one start and one end of the run", a.id, order)
		}
		ends = append(ends, at[run.RunCompleted])
		if order[0] == "RunQueued" {
			approvals = append(approvals, at[run.RunApproved])
			if at := at[run.RunApproved]; at.After(queuedAt) && at.Before(approvedAt) {
				ahead++
			}
			if a.estimate > 0 {
				estimateErrors = append(estimateErrors, (at[run.RunApproved].Sub(a.at) - a.estimate).Abs())
			}
		}
	}
	t.Logf("%d runs of acme waited when globex started one, %d of them were approved before it", waited, ahead)
	if most := 3 * backlog / 10; ahead > most {
		t.Errorf("%d runs of acme were approved before the one of globex, want %d or fewer", ahead, most)
	}
	if len(approvals) < backlog/2 {
		t.Errorf("%d of %d runs had to wait, want half or more", len(approvals), backlog)
	}
	var gaps []time.Duration // from the end that freed a slot to the approval that took it
	slices.SortFunc(ends, time.Time.Compare)
	slices.SortFunc(approvals, time.Time.Compare)
	for _, approved := range approvals {
		if i, _ := slices.BinarySearchFunc(ends, approved, time.Time.Compare); i > 0 {
			gaps = append(gaps, approved.Sub(ends[i-1]))
		}
	}
	slices.Sort(gaps)
	slices.Sort(estimateErrors)
	at := func(d []time.Duration, part float64) time.Duration {
		if len(d) == 0 {
			return 0
		}
		return d[int(part*float64(len(d)-1))].Round(time.Millisecond)
	}
	t.Logf("from the last end before it to an approval: p50 %s p95 %s max %s", at(gaps, .5), at(gaps, .95), at(gaps, 1))
	t.Logf("error of the estimated wait of %d runs: p50 %s p95 %s max %s", len(estimateErrors),
		at(estimateErrors, .5), at(estimateErrors, .95), at(estimateErrors, 1))
	if at(gaps, .5) > testtime.Of(time.Second) { // without the notification a server polls after 5 s
		t.Errorf("half of the free slots waited %s or longer for the next run, want a second or less", at(gaps, .5))
	}
}
