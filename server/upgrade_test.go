package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dvt-engine/dvt/client"
	"github.com/dvt-engine/dvt/internal/testserver"
	"github.com/dvt-engine/dvt/internal/testtime"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store/postgres"
)

// nextVersion is the version of the synthetic next program.
const nextVersion = "v99.0.0"

const operatorToken = "olga-may-pause-runs"

// nextBinary builds the synthetic next version of dvt: these sources with another version and one migration more. A
// build overlay makes it, so the product contains nothing for it. DVT_TEST_NEXT_BINARY names one that exists.
func nextBinary(t *testing.T) string {
	t.Helper()
	if path := os.Getenv("DVT_TEST_NEXT_BINARY"); path != "" {
		return path
	}
	source := filepath.Join(root(t), "store", "postgres", "migrate.go")
	text, err := os.ReadFile(source)
	must(t, err)
	declared := regexp.MustCompile(`(?m)^const schema = (\d+)$`)
	match := declared.FindSubmatch(text)
	if match == nil {
		t.Fatalf("%s declares no schema", source)
	}
	schema, err := strconv.Atoi(string(match[1]))
	must(t, err)
	dir := t.TempDir()
	replace := map[string]string{}
	overlay := func(path, content string) {
		to := filepath.Join(dir, filepath.Base(path))
		must(t, os.WriteFile(to, []byte(content), 0o600))
		replace[path] = to
	}
	overlay(source, declared.ReplaceAllString(string(text), fmt.Sprintf("const schema = %d", schema+1)))
	overlay(filepath.Join(filepath.Dir(source), "migrations", fmt.Sprintf("%04d_next.sql", schema+1)),
		`-- +goose Up
SET LOCAL lock_timeout = '3s';
LOCK TABLE run, run_status IN SHARE MODE;
ALTER TABLE run_status ADD COLUMN next_note text NOT NULL DEFAULT '';
CREATE INDEX run_status_next ON run_status (next_note, run_id);
UPDATE meta SET value = 20 WHERE name = 'compatible_from';
`)
	file, err := json.Marshal(map[string]any{"Replace": replace})
	must(t, err)
	must(t, os.WriteFile(filepath.Join(dir, "overlay.json"), file, 0o600))
	out := filepath.Join(dir, "dvt-next")
	build := exec.CommandContext(t.Context(), "go", "build", "-overlay", filepath.Join(dir, "overlay.json"), "-tags",
		"disable_grpc_modules", "-ldflags", "-s -w -X main.version="+nextVersion, "-o", out, "./cmd/dvt")
	build.Dir = root(t)
	if said, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the next version: %v: %s", err, said)
	}
	return out
}

// upgradeSize is the load of an upgrade.
type upgradeSize struct {
	runs, viewers int           // runs in progress at a time, and viewers of each
	nap           time.Duration // of each of the six sleeping steps of a run
	long          int           // runs whose step takes longer than the rollout of its worker
}

// upgradeWorld is an installation in Kubernetes as the chart makes it, with a load.
type upgradeWorld struct {
	*deployment
	front                 *frontend
	server, control, data *rollout
	size                  upgradeSize
	over                  chan struct{} // closed when no further run is to start
	load                  sync.WaitGroup
	ids                   atomic.Int64

	mu       sync.Mutex
	signals  int
	streams  int
	longest  time.Duration // without a stream
	finished []string
	faults   map[string]int
}

// A release N is upgraded to N+1 and rolled back to N while runs are in progress, people send signals and viewers
// watch. The probes, surge, grace and delays are those of the chart, the pods are processes, and the migration of N+1
// is real. Nobody notices: no run fails, no signal is lost, no attempt is spent, no viewer sees an older frame,
// reconnects more often than servers end, or is without a stream for longer than 2 s. With TEST_LONG there are 500 runs
// and 1,000 viewers.
func TestUpgrade_NobodyNotices(t *testing.T) {
	t.Parallel()
	size := upgradeSize{runs: 4, viewers: 3, nap: 1500 * time.Millisecond, long: 1}
	if os.Getenv("TEST_LONG") != "" {
		size = upgradeSize{runs: 490, viewers: 2, nap: 40 * time.Second, long: 10}
	}
	next, this := nextBinary(t), testserver.Binary(t)
	w := startUpgradeWorld(t, this, size)
	for range size.runs {
		w.goLoad(t, size.viewers)
	}
	for range size.long {
		w.load.Go(func() { w.oneRun(t, longPlan, size.viewers) })
	}
	time.Sleep(5 * time.Second)

	w.migrate(t, next)
	w.rollAll(t, next)
	w.checkVersions(t, nextVersion)
	w.migrate(t, this) // the older program leaves the newer schema alone
	w.rollAll(t, this)
	time.Sleep(2 * time.Second)
	close(w.over)
	w.load.Wait()
	for _, r := range []*rollout{w.server, w.control, w.data} {
		r.waitForEnds()
	}
	w.checkLogs(t)
	w.front.mu.Lock()
	defer w.front.mu.Unlock()
	for _, refused := range w.front.refused {
		t.Errorf("the Service sent a connection to a pod that took none: %s", refused)
	}
	if limit := testtime.Of(2 * time.Second); w.longest > limit {
		t.Errorf("a viewer was without a stream for %s, want %s or less", w.longest, limit)
	}
	t.Logf("%d runs, %d signals, %d streams, longest gap %s, tried again: %v", len(w.finished), w.signals, w.streams,
		w.longest.Round(time.Millisecond), w.faults)
}

func startUpgradeWorld(t *testing.T, binary string, size upgradeSize) *upgradeWorld {
	t.Helper()
	chart := readManifests(t)
	dsn, redis, engine := testserver.Postgres(t), testserver.Redis(t), testserver.TemporalAlone(t)
	dir := t.TempDir()
	w := &upgradeWorld{front: newFrontend(t), size: size, over: make(chan struct{}), faults: map[string]int{},
		deployment: &deployment{temporal: engine, bus: redis, redis: redis.Addr, dir: dir,
			artifacts: filepath.Join(dir, "artifacts"), config: filepath.Join(dir, "dvt.yaml")}}
	var accounts []string
	for i := range viewerAccounts {
		accounts = append(accounts, fmt.Sprintf("  - {id: viewer-%d, tenant: acme, tokenSha256: %s, grants: [{role: VIEWER, "+
			"project: \"*\", environment: \"*\"}]}", i, tokenHash(viewerToken(i))))
	}
	accounts = append(accounts, fmt.Sprintf("  - {id: olga, tenant: acme, tokenSha256: %s, grants: [{role: OPERATOR, "+
		"project: \"*\", environment: \"*\"}]}", tokenHash(operatorToken)), "operators-tenant: acme")
	must(t, os.WriteFile(w.config, w.settings(dsn, engine.Namespace, accounts), 0o600))
	migrate := spawnProgram(t, binary, "dvt migrate", nil, "migrate", "--store", dsn)
	<-migrate.exited
	var err error
	w.store, err = postgres.Open(t.Context(), dsn, postgres.Options{})
	must(t, err)
	t.Cleanup(func() { must(t, w.store.Close()) })

	delay := chart["ConfigMap dvt-config"].setting(t, "dvt.yaml", "shutdown-delay")
	grace := chart["ConfigMap dvt-data-prod-config"].setting(t, "worker.yaml", "step-grace")
	w.server = newRollout(t, chart["Deployment dvt"], w.front, nil, func(api, metrics string) []string {
		return []string{"server", "--config", w.config, "--listen", api, "--metrics-listen", metrics,
			"--shutdown-delay", delay}
	})
	w.control = newRollout(t, chart["Deployment dvt-control-prod"], nil, nil, func(_, metrics string) []string {
		return []string{"worker", "--config", w.config, "--queues", "tq-control-dev", "--metrics-listen", metrics,
			"--workspace", filepath.Join(dir, "control-"+metrics)}
	})
	w.data = newRollout(t, chart["Deployment dvt-data-prod"], nil, []string{"DVT_WORKER_TOKEN=" + workerToken},
		func(_, metrics string) []string {
			return []string{"worker", "--queues", "tq-data-dev", "--temporal", engine.Addr, "--temporal-namespace",
				engine.Namespace, "--server", w.front.url, "--workspace", filepath.Join(dir, "data-"+metrics), "--project-root",
				root(t), "--metrics-listen", metrics, "--step-grace", grace, "--concurrency", "64"}
		})
	w.server.roll(binary)
	waitUntilReady(t, w.front.url)
	w.front.forget()
	t.Cleanup(w.load.Wait)
	var rest sync.WaitGroup
	rest.Go(func() { w.control.roll(binary) })
	rest.Go(func() { w.data.roll(binary) })
	rest.Wait()
	return w
}

// migrate runs dvt migrate of a program, as the hook of the chart does.
func (w *upgradeWorld) migrate(t *testing.T, binary string) {
	t.Helper()
	settings, err := os.ReadFile(w.config)
	must(t, err)
	dsn := regexp.MustCompile(`(?m)^store: (.+)$`).FindStringSubmatch(string(settings))[1]
	m := spawnProgram(t, binary, "dvt migrate", nil, "migrate", "--store", dsn)
	if <-m.exited; !m.cmd.ProcessState.Success() {
		t.Fatalf("dvt migrate beside running servers: %s", m.output())
	}
}

// rollAll replaces the pods of all Deployments at once, as `helm upgrade` does.
func (w *upgradeWorld) rollAll(t *testing.T, binary string) {
	t.Helper()
	began := time.Now()
	var all sync.WaitGroup
	for _, r := range []*rollout{w.server, w.control, w.data} {
		all.Go(func() { r.roll(binary) })
	}
	all.Wait()
	t.Logf("rolled to %s in %s", filepath.Base(binary), time.Since(began).Round(100*time.Millisecond))
}

// checkVersions checks that workers report the version of their program.
func (w *upgradeWorld) checkVersions(t *testing.T, want string) {
	t.Helper()
	waitUntil(t, "two data workers report the version "+want, 30*time.Second, func() bool {
		out, err := client.ShowWorkers(t.Context(), client.New(w.front.url, samToken))
		if err != nil {
			return false
		}
		n := 0
		for _, worker := range out.Workers {
			if worker.Version != nil && *worker.Version == want && !worker.Drained {
				n++
			}
		}
		return n == w.data.spec.Spec.Replicas
	})
}

// upgradePlan has steps on both kinds of queue, so that one always runs while its worker is replaced.
func upgradePlan(n int64, nap time.Duration) []byte {
	var steps []string
	add := func(typ, inputs string) {
		id, after := fmt.Sprintf("s%d", len(steps)), ""
		if len(steps) > 0 {
			after = fmt.Sprintf(`"s%d"`, len(steps)-1)
		}
		steps = append(steps, fmt.Sprintf(`{"stepId":%q,"type":%q,"inputs":%s,"dependsOn":[%s],"timeout":"5m",
			"retry":{"maxAttempts":5,"initialBackoffMs":100,"backoffMultiplier":1,"maxBackoffMs":200}}`, id, typ, inputs, after))
	}
	for range 3 {
		add("COMMAND", fmt.Sprintf(`{"argv":["sleep","%.1f"]}`, 2*min(nap, 5*time.Second).Seconds()))
		add("SLEEP", fmt.Sprintf(`{"ms":%d}`, nap.Milliseconds()))
		add("NOOP", `{}`)
		add("SLEEP", fmt.Sprintf(`{"ms":%d}`, nap.Milliseconds()))
	}
	return stepsPlan(fmt.Sprintf("upgrade-%d", n), steps...)
}

// longPlan has a step that takes longer than the rollout of the data workers, and less than their grace.
func longPlan(n int64, _ time.Duration) []byte {
	return stepsPlan(fmt.Sprintf("long-%d", n), `{"stepId":"s","type":"COMMAND","inputs":{"argv":["sleep","45"]},
		"dependsOn":[],"timeout":"5m","retry":{"maxAttempts":5,"initialBackoffMs":100,"backoffMultiplier":1,
		"maxBackoffMs":200}}`)
}

// goLoad starts runs one after the other until the load is over, each with viewers and signals.
func (w *upgradeWorld) goLoad(t *testing.T, viewers int) {
	w.load.Go(func() {
		for t.Context().Err() == nil {
			select {
			case <-w.over:
				return
			default:
			}
			w.oneRun(t, upgradePlan, viewers)
		}
	})
}

func (w *upgradeWorld) oneRun(t *testing.T, plan func(int64, time.Duration) []byte, viewers int) {
	n := w.ids.Add(1)
	people, operators := client.New(w.front.url, adaToken), client.New(w.front.url, operatorToken)
	raw := json.RawMessage(plan(n, w.size.nap))
	var id string
	w.call(t, "startRun", func(ctx context.Context) error {
		out, err := client.StartRun(ctx, people, client.StartRunInput{Plan: client.PlanInput{Inline: &raw},
			RunRequestId: fmt.Sprintf("upgrade-%d", n), ProjectId: "shop", EnvironmentId: "dev"})
		if err == nil {
			id = out.StartRun.Run.RunId
		}
		return err
	})
	if id == "" {
		return
	}
	var all []*upgradeViewer
	for i := range viewers {
		all = append(all, w.watch(t, id, int(n)*viewers+i))
	}
	first := all[0]
	waitFor := func(status string) bool {
		for {
			us, changed := first.received()
			if len(us) > 0 && strings.HasPrefix(us[len(us)-1].shows, status) {
				return true
			}
			select {
			case <-changed:
			case <-t.Context().Done():
				return false
			case <-time.After(testtime.Of(5 * time.Minute)):
				t.Errorf("run %s was not %s within 5 minutes: %s", id, status, formatUpdates(us))
				return false
			}
		}
	}
	if !waitFor("RUNNING") {
		return
	}
	why := "an upgrade"
	for i, in := range []client.SignalInput{{Pause: &client.PauseInput{Reason: &why}},
		{Resume: &client.ResumeInput{Reason: &why}}} {
		time.Sleep(2 * time.Second)
		signal := fmt.Sprintf("upgrade-%d-%d", n, i)
		w.call(t, "signalRun", func(ctx context.Context) error {
			out, err := client.SignalRun(ctx, operators, client.SignalRunInput{RunId: id, SignalId: signal, Signal: in})
			if err == nil && out.SignalRun.Signal.Decision != client.SignalDecisionAccepted {
				t.Errorf("the signal %s is %s", signal, out.SignalRun.Signal.Decision)
			}
			return err
		})
	}
	if !waitFor("COMPLETED") {
		return
	}
	for _, v := range all {
		v.leave()
		<-v.done
	}
	w.judge(t, id, all)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.finished, w.signals = append(w.finished, id), w.signals+2
}

// call repeats a request as a client does, with the same id, and counts the tries that failed.
func (w *upgradeWorld) call(t *testing.T, what string, f func(context.Context) error) {
	var err error
	for range 20 {
		if err = f(t.Context()); err == nil || t.Context().Err() != nil {
			return
		}
		w.mu.Lock()
		w.faults[fmt.Sprintf("%s: %v", what, client.AsAPIError(err))]++
		w.mu.Unlock()
		time.Sleep(200 * time.Millisecond)
	}
	t.Errorf("%s failed 20 times: %v", what, err)
}

// upgradeViewer watches a run through the Service. It connects again, from its position, when its stream ends.
type upgradeViewer struct {
	*frameWatcher
	done    chan struct{}
	joined  time.Time
	left    time.Time
	streams int
	longest time.Duration
	ends    []string
}

func (w *upgradeWorld) watch(t *testing.T, id string, n int) *upgradeViewer {
	ctx, leave := context.WithCancel(t.Context())
	v := &upgradeViewer{done: make(chan struct{}), joined: time.Now(), frameWatcher: &frameWatcher{t: t,
		name: fmt.Sprintf("viewer %d", n), leave: leave, changed: make(chan struct{})}}
	o := watchOptions{url: w.front.url, runID: id, token: viewerToken(n), mode: []string{"SNAPSHOT", "DELTA"}[n%2],
		events: n%4 == 3}
	go func() {
		defer close(v.done)
		lost := time.Now()
		for ctx.Err() == nil {
			if us, _ := v.received(); len(us) > 0 {
				last := us[len(us)-1]
				o.after, o.epoch = &last.RunSeq, last.StoreEpoch
			}
			fresh := true
			err := o.stream(ctx, func(u update) error {
				if u.joined, fresh = fresh, false; u.joined {
					if v.streams++; v.streams > 1 {
						v.longest = max(v.longest, u.at.Sub(lost))
					}
				}
				v.addUpdate(u)
				return nil
			})
			if lost = time.Now(); ctx.Err() == nil {
				v.ends = append(v.ends, fmt.Sprintf("%s %v", lost.Format(time.StampMilli), err))
				if fresh {
					time.Sleep(100 * time.Millisecond) // refused
				}
			}
		}
		v.left = time.Now()
	}()
	return v
}

func (v *upgradeViewer) received() ([]update, <-chan struct{}) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.updates[:len(v.updates):len(v.updates)], v.changed
}

// judge checks the frames of the viewers of a run.
func (w *upgradeWorld) judge(t *testing.T, id string, all []*upgradeViewer) {
	for _, v := range all {
		us, _ := v.received()
		for i, u := range us {
			at := formatUpdates(us[max(0, i-3) : i+1])
			switch {
			case u.Reset:
				t.Errorf("%s of %s got a reset: %s", v.name, id, at)
			case i > 0 && u.RunSeq < us[i-1].RunSeq:
				t.Errorf("%s of %s got a frame older than the one before: %s", v.name, id, at)
			case isLive(u) && u.HeadSeq != nil && *u.HeadSeq > u.RunSeq:
				t.Errorf("%s of %s got a LIVE frame below its head: %s", v.name, id, at)
			}
		}
		servers := w.server.endedBetween(v.joined, v.left)
		if v.streams-1 > servers {
			t.Errorf("%s of %s connected again %d times while %d servers ended: %v", v.name, id, v.streams-1, servers, v.ends)
		}
		w.mu.Lock()
		w.streams += v.streams
		w.longest = max(w.longest, v.longest)
		w.mu.Unlock()
	}
}

// checkLogs checks that every run completed with valid events, that each signal is in its log, and that every step
// succeeded by its first execution.
func (w *upgradeWorld) checkLogs(t *testing.T) {
	t.Helper()
	spent := 0
	for _, id := range w.finished {
		counts := map[run.EventType]int{}
		for _, e := range checkLog(t, w.store, id) {
			counts[e.Type]++
			if e.StepID != "" && (e.EngineAttempt != 1 || e.LogicalAttempt != 1) {
				if spent++; spent < 4 {
					t.Errorf("the log of run %s has %s of the step %s by attempt %d.%d, want 1.1", id, e.Type, e.StepID,
						e.LogicalAttempt, e.EngineAttempt)
				}
			}
		}
		for _, want := range []run.EventType{run.SignalAccepted, run.RunPaused, run.RunResumed, run.RunCompleted} {
			n := 1
			if want == run.SignalAccepted {
				n = 2
			}
			if counts[want] != n {
				t.Errorf("the log of run %s has %d events %s, want %d: %v", id, counts[want], want, n, counts)
			}
		}
	}
	if spent > 0 {
		t.Errorf("the upgrade spent %d attempts, want none", spent)
	}
}
