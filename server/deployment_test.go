package server_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/dvt-engine/dvt/artifact"
	"github.com/dvt-engine/dvt/client"
	"github.com/dvt-engine/dvt/engine/remote"
	"github.com/dvt-engine/dvt/examples"
	"github.com/dvt-engine/dvt/internal/testserver"
	"github.com/dvt-engine/dvt/internal/testtime"
	"github.com/dvt-engine/dvt/live"
	"github.com/dvt-engine/dvt/live/redisbus"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
	"github.com/dvt-engine/dvt/store/postgres"
)

// Tokens of the accounts in the configuration that all processes of a deployment share.
const (
	adaToken     = "ada-has-a-long-token"     // Engineer in acme
	samToken     = "sam-has-a-long-token"     // SRE in acme
	malloryToken = "mallory-has-one-too"      // Admin in globex
	workerToken  = "a-worker-that-serves-one" // data worker of acme
)

// deployment is a dvt installation with one process per component, on a real PostgreSQL, Redis and Temporal.
type deployment struct {
	serverA, serverB *process // servers
	control, data    *process // workers
	urlA, urlB       string
	temporal         *testserver.TemporalServer
	bus              *testserver.RedisServer
	redis            string // host:port
	dir, config      string // directory of the files, and the settings file
	artifacts        string // directory of the bucket
	shop             string // directory of the sample's databases, which steps may change
	receiver         *receiver
	store            store.Store // the same database
}

// receiver is an HTTP server for HTTP_NOTIFY steps. It records the idempotency key of each call.
type receiver struct {
	*httptest.Server
	mu   sync.Mutex
	keys []string
}

func newReceiver(t *testing.T) *receiver {
	t.Helper()
	r := &receiver{}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		_, _ = io.Copy(io.Discard, q.Body)
		r.mu.Lock()
		defer r.mu.Unlock()
		r.keys = append(r.keys, q.Header.Get("Idempotency-Key"))
	}))
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) receivedKeys() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.keys)
}

func tokenHash(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}

// startDeployment migrates a database and starts two servers, a control worker and a data worker. The data worker gets
// no address of the store or of Redis. more are further lines of the settings file of the other three.
func startDeployment(t *testing.T, more ...string) *deployment {
	t.Helper()
	return startDeploymentOn(t, testserver.Postgres(t), more...)
}

// startDeploymentOn is startDeployment on the empty database dsn.
func startDeploymentOn(t *testing.T, dsn string, more ...string) *deployment {
	t.Helper()
	redis, engine := testserver.Redis(t), testserver.TemporalAlone(t)
	dir := t.TempDir()
	p := &deployment{temporal: engine, bus: redis, redis: redis.Addr, dir: dir,
		artifacts: filepath.Join(dir, "artifacts"), shop: filepath.Join(dir, "shop"), receiver: newReceiver(t)}
	must(t, os.Mkdir(p.shop, 0o700))
	config := filepath.Join(dir, "dvt.yaml")
	p.config = config
	must(t, os.WriteFile(config, p.settings(dsn, engine.Namespace, more), 0o600))
	if out := expectFailure(t, "server", "--config", config, "--listen",
		testserver.FreeAddress(t)); !strings.Contains(out,
		"dvt migrate") {
		t.Errorf("a server without a schema printed %q, want a hint to dvt migrate", out)
	}
	migrate := spawn(t, "dvt migrate", nil, "migrate", "--store", dsn)
	<-migrate.exited
	if !migrate.cmd.ProcessState.Success() {
		t.Fatalf("dvt migrate: %s", migrate.output())
	}
	var err error
	p.store, err = postgres.Open(t.Context(), dsn, postgres.Options{})
	must(t, err)
	t.Cleanup(func() { must(t, p.store.Close()) })

	addressA, addressB := testserver.FreeAddress(t), testserver.FreeAddress(t)
	p.urlA, p.urlB = "http://"+addressA, "http://"+addressB
	p.serverA = spawn(t, "server A", nil, "server", "--config", config, "--listen", addressA)
	p.serverB = spawn(t, "server B", nil, "server", "--config", config, "--listen", addressB)
	p.control = spawn(t, "control worker", nil, "worker", "--config", config, "--queues", "tq-control-dev",
		"--workspace", filepath.Join(dir, "control"))
	p.data = spawn(t, "data worker", []string{"DVT_WORKER_TOKEN=" + workerToken}, "worker", "--queues", "tq-data-dev",
		"--temporal", engine.Addr,
		"--temporal-namespace", engine.Namespace, "--server", p.urlA, "--workspace", filepath.Join(dir, "data"),
		"--project-root", root(t), "--dbt", findDBT(t), "--allow-private",
		"--sandbox-write", p.shop)
	p.checkDataWorkerKnowsNoStore(t, dsn)
	waitUntilReady(t, p.urlA)
	waitUntilReady(t, p.urlB)
	return p
}

// settings returns the settings file of servers and control workers, with further lines.
func (p *deployment) settings(dsn, namespace string, more []string) []byte {
	return fmt.Appendf(nil, `
store: %s
redis: redis://%s/0
temporal: %s
temporal-namespace: %s
artifacts: file://%s?create_dir=true&no_tmp_dir=true
heartbeat: 5s
quotas: {tiers: {default: {startRunPerMinute: 6000, heavyStepsPerMinute: 600, signalOpsPerMinute: 6000}}}
accounts:
  - id: ada
    tenant: acme
    tokenSha256: %s
    grants: [{role: ENGINEER, project: shop, environment: dev}]
  - id: sam
    tenant: acme
    tokenSha256: %s
    grants: [{role: SRE, project: "*", environment: "*"}]
  - id: mallory
    tenant: globex
    tokenSha256: %s
    grants: [{role: ADMIN, project: "*", environment: "*"}]
    expiresAt: 2100-01-01T00:00:00Z
  - id: steps-1
    worker: true
    serves: [acme]
    tokenSha256: %s
%s
`, dsn, p.redis, p.temporal.Addr, namespace, p.artifacts, tokenHash(adaToken), tokenHash(samToken),
		tokenHash(malloryToken), tokenHash(workerToken), strings.Join(more, "\n"))
}

// findDBT returns the path of the dbt program that `make tools/dbt` installs, and fails the test when it is missing.
func findDBT(t *testing.T) string {
	t.Helper()
	bin := filepath.Join(root(t), ".tools", "dbt", "bin", "dbt")
	if _, err := os.Stat(bin); err != nil {
		t.Fatalf("dbt is not on this machine: run `make tools/dbt`")
	}
	return bin
}

// checkDataWorkerKnowsNoStore looks for credentials of the store and of Redis in the environment and the command line
// of the data worker, because programs of steps run beside it.
func (p *deployment) checkDataWorkerKnowsNoStore(t *testing.T, dsn string) {
	t.Helper()
	if runtime.GOOS != "linux" {
		return
	}
	for _, name := range []string{"environ", "cmdline"} {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", p.data.cmd.Process.Pid, name))
		if errors.Is(err, fs.ErrPermission) {
			continue // the worker denies access to it, and this test does not run as root
		}
		must(t, err)
		for _, secret := range []string{dsn, p.redis, "DVT_STORE", "DVT_REDIS", "DVT_CONFIG", "--store", "--redis",
			"--config", "postgres://"} {
			if strings.Contains(string(text), secret) {
				t.Errorf("the %s of the data worker contains %s, want no credentials of the store or of Redis", name, secret)
			}
		}
	}
}

// waitUntilReady waits until /readyz of a server answers 200.
func waitUntilReady(t *testing.T, base string) {
	t.Helper()
	for deadline := time.Now().Add(testtime.Of(30 * time.Second)); time.Now().Before(deadline); time.Sleep(
		100 * time.Millisecond) {
		if res, err := http.Get(base + "/readyz"); err == nil {
			_ = res.Body.Close()
			if res.StatusCode == http.StatusOK {
				return
			}
		}
	}
	t.Fatalf("%s was not ready within 30 s", base)
}

type frame = client.WatchRunRunUpdatesRunUpdate

// viewer watches one run until the test ends or its server does.
type viewer struct {
	t       *testing.T
	mu      sync.Mutex
	frames  []frame
	changed chan struct{}
	done    chan error
}

func watch(t *testing.T, c *client.Client, runID string) *viewer {
	t.Helper()
	v := &viewer{t: t, changed: make(chan struct{}, 1), done: make(chan error, 1)}
	go func() {
		v.done <- c.Watch(t.Context(), runID, client.Position{}, func(f frame) error {
			v.mu.Lock()
			v.frames = append(v.frames, f)
			v.mu.Unlock()
			select {
			case v.changed <- struct{}{}:
			default:
			}
			return nil
		})
	}()
	return v
}

func (v *viewer) receivedFrames() []frame {
	v.mu.Lock()
	defer v.mu.Unlock()
	return slices.Clone(v.frames)
}

// waitForLive waits for a LIVE frame at seq or later and returns the time that this took.
func (v *viewer) waitForLive(seq run.Seq, patience time.Duration) time.Duration {
	v.t.Helper()
	began := time.Now()
	timeout := time.After(testtime.Of(patience))
	for {
		frames := v.receivedFrames()
		if n := len(frames); n > 0 && frames[n-1].Sync == client.SyncStateLive && frames[n-1].RunSeq >= int64(seq) {
			return time.Since(began)
		}
		select {
		case <-v.changed:
		case err := <-v.done:
			v.t.Fatalf("the stream ended before it was LIVE at %d: %v", seq, err)
		case <-timeout:
			v.t.Fatalf("no LIVE frame at %d within %s: %s", seq, patience, formatFrames(frames))
		}
	}
}

// checkFrames checks that frames never go back and that no LIVE frame is behind the head that it names (contract O9).
func (v *viewer) checkFrames() {
	v.t.Helper()
	frames := v.receivedFrames()
	for i, f := range frames {
		if i > 0 && f.RunSeq < frames[i-1].RunSeq {
			v.t.Errorf("frames went back from %d to %d", frames[i-1].RunSeq, f.RunSeq)
		}
		if f.Sync == client.SyncStateLive && f.HeadSeq != nil && *f.HeadSeq > f.RunSeq {
			v.t.Errorf("a frame is LIVE at %d, and its head is %d", f.RunSeq, *f.HeadSeq)
		}
	}
}

func formatFrames(frames []frame) string {
	var b strings.Builder
	for _, f := range frames {
		reason := ""
		if f.Reason != nil {
			reason = "(" + string(*f.Reason) + ")"
		}
		fmt.Fprintf(&b, "[%s%s %d] ", f.Sync, reason, f.RunSeq)
	}
	return b.String()
}

func (p *deployment) head(t *testing.T, runID string) run.Seq {
	t.Helper()
	h, err := p.store.Heads(t.Context(), []string{runID})
	must(t, err)
	return h.ByRun[runID].LastSeq
}

// Every component of dvt is a process of its own on PostgreSQL, Redis and Temporal. The sample completes, and a viewer
// of one server sees changes that other processes write. After a kill -9 of each process all runs complete with valid
// logs. Without TEST_LONG dbt compiles the sample and builds no models; in make test, those are built by dvt dev before
// the browser.
// contract: T203
func TestDeployment_KillsLoseNothing(t *testing.T) {
	t.Parallel()
	p := startDeployment(t)
	a, b := client.New(p.urlA, adaToken), client.New(p.urlB, adaToken)
	t.Run("the sample completes", func(t *testing.T) { p.testSample(t, a, b) })
	t.Run("people and workers authenticate separately", func(t *testing.T) { p.testAuthentication(t) })
	// contract: W-1, W-2
	t.Run("repeated and lost messages mislead no viewer", func(t *testing.T) { p.testMessages(t, a, b) })
	t.Run("runs survive a kill of each process", func(t *testing.T) { p.testKills(t, a, b) })
	for _, one := range []*process{p.data, p.control, p.serverB} {
		if took := one.terminate(); took > testtime.Of(15*time.Second) || !one.cmd.ProcessState.Success() {
			t.Errorf("%s ended %s after SIGTERM: %s; want success within 15 s", one.name, took, one.cmd.ProcessState)
		}
	}
	p.testStopBehindAProxy(t)
}

// testStopBehindAProxy asks server A to stop. It says so at /readyz, and serves new connections until proxies have seen
// that.
func (p *deployment) testStopBehindAProxy(t *testing.T) {
	t.Helper()
	get := func(path string) (status int) {
		r, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Get(p.urlA + path)
		if err != nil {
			return 0
		}
		must(t, r.Body.Close())
		return r.StatusCode
	}
	if got := get("/readyz"); got != http.StatusOK {
		t.Errorf("/readyz answers %d before the server is asked to stop, want 200", got)
	}
	began := time.Now()
	must(t, p.serverA.cmd.Process.Signal(syscall.SIGTERM))
	waitUntil(t, "/readyz answers 503", 4*time.Second, func() bool {
		return get("/readyz") == http.StatusServiceUnavailable
	})
	r, err := (&http.Client{Transport: &http.Transport{}}).Get(p.urlA + "/livez")
	must(t, err)
	must(t, r.Body.Close())
	if !r.Close {
		t.Error("a stopping server keeps the connection of a client open, want it closed so that the next request goes elsewhere")
	}
	if got := get("/livez"); got != http.StatusOK {
		t.Errorf("/livez answers %d while proxies may still send requests, want 200", got)
	}
	<-p.serverA.exited
	if took := time.Since(began); took < 5*time.Second || took > testtime.Of(15*time.Second) ||
		!p.serverA.cmd.ProcessState.Success() {
		t.Errorf("server A ended %s after SIGTERM: %s; want success after shutdown-delay and within 15 s", took,
			p.serverA.cmd.ProcessState)
	}
}

// testSample starts the shop sample through server A and watches it through server B.
func (p *deployment) testSample(t *testing.T, a, b *client.Client) {
	data := p.shop
	doc, err := examples.Plan(examples.Shop, examples.Values{NotifyURL: p.receiver.URL + "/dev/notify", Data: data})
	must(t, err)
	if os.Getenv("TEST_LONG") == "" {
		doc = withoutModels(t, doc)
	}
	id := start(t, a, "apart-sample", doc)
	v := watch(t, b, id)
	done := waitForEnd(t, b, id, 4*time.Minute)
	if done.Status != client.RunStatusCompleted {
		t.Fatalf("the sample ended %s: %+v", done.StatusRaw, done.RootCause)
	}
	v.waitForLive(p.head(t, id), 5*time.Second)
	v.checkFrames()
	if n := len(v.receivedFrames()); n < 5 {
		t.Errorf("the viewer of B got %d frames, want 5 or more: %s", n, formatFrames(v.receivedFrames()))
	}
	if keys := p.receiver.receivedKeys(); len(keys) != 1 || keys[0] == "" {
		t.Errorf("the receiver was called with the idempotency keys %q, want one call with a key", keys)
	}
	for step, want := range map[string]string{"compile": "dbt", "check-orders": "orders"} { // both ran in the data worker
		out, err := client.ReadStepLog(t.Context(), b, id, step, nil, nil, nil)
		must(t, err)
		text, _ := json.Marshal(out.StepLog)
		if out.StepLog == nil || out.StepLog.TotalLines == 0 || !strings.Contains(string(text), want) {
			t.Errorf("the log of step %s is %s, want lines with %q", step, text, want)
		}
	}
	p.checkArtifacts(t, id, checkLog(t, p.store, id))
	if foreign, err := client.ShowRun(t.Context(), client.New(p.urlB, malloryToken), id, nil); err != nil ||
		foreign.Run != nil {
		t.Errorf("another tenant reads the run %+v (%v), want no run", foreign.Run, err)
	}
}

// withoutModels returns the sample without its steps that build and test models. Of dbt, only its first step remains.
func withoutModels(t *testing.T, doc []byte) []byte {
	t.Helper()
	var sample map[string]any
	must(t, json.Unmarshal(doc, &sample))
	steps, _ := sample["steps"].([]any)
	sample["steps"] = slices.DeleteFunc(steps, func(one any) bool {
		step, _ := one.(map[string]any)
		if step["stepId"] == "notify" {
			step["dependsOn"] = []string{"sources-ready"}
		}
		return step["stepId"] == "staging" || step["stepId"] == "marts" || step["stepId"] == "test"
	})
	doc, err := json.Marshal(sample)
	must(t, err)
	return doc
}

// checkArtifacts checks that the bucket has each artifact of the log with its size and SHA-256, and that there is one.
func (p *deployment) checkArtifacts(t *testing.T, runID string, evs []run.Event) {
	t.Helper()
	bucket, err := artifact.Open(t.Context(), "file://"+p.artifacts)
	must(t, err)
	defer func() { must(t, bucket.Close()) }()
	refs := 0
	for _, e := range evs {
		if e.Type != run.StepCompletedEvent {
			continue
		}
		done, err := run.PayloadOf[run.StepCompletedPayload](e.Payload)
		must(t, err)
		for _, ref := range done.ArtifactRefs {
			refs++
			stored, err := bucket.Open(t.Context(), ref.URI)
			must(t, err)
			body, err := io.ReadAll(stored)
			must(t, errors.Join(err, stored.Close()))
			sum := sha256.Sum256(body)
			if int64(len(body)) != ref.SizeBytes || hex.EncodeToString(sum[:]) != ref.SHA256 {
				t.Errorf("artifact %s of %s: the bucket has %d bytes, the log says %d bytes or another SHA-256", ref.URI,
					e.StepID, len(body), ref.SizeBytes)
			}
		}
	}
	if refs == 0 {
		t.Errorf("the log of run %s names no artifacts, want one or more", runID)
	}
}

// testAuthentication checks that the API accepts only people, that the Journal accepts only workers, and that a worker
// reaches only runs of its tenants.
func (p *deployment) testAuthentication(t *testing.T) {
	mallory := client.New(p.urlA, malloryToken)
	doc := bytes.ReplaceAll(stepsPlan("foreign", `{"stepId":"s","type":"NOOP","inputs":{},"dependsOn":[],"timeout":"1m"}`),
		[]byte("acme"), []byte("globex"))
	foreign := start(t, mallory, "apart-foreign", doc)
	begin := func(base, token, runID string) answer {
		return send(t, http.MethodPost, base+remote.Path+"/begin",
			fmt.Sprintf(`{"runId":%q,"stepId":"s","logicalAttempt":9,"engineAttempt":1}`, runID), "Authorization: Bearer "+token)
	}
	for _, base := range []string{p.urlA, p.urlB} {
		for _, token := range []string{adaToken, malloryToken, "", workerToken + "x", tokenHash(workerToken)} {
			if a := begin(base, token, foreign); a.StatusCode != http.StatusUnauthorized {
				t.Errorf("the Journal answers the token %q with %d %s, want 401", token, a.StatusCode, a.body)
			}
		}
		theirs, missing := begin(base, workerToken, foreign), begin(base, workerToken, "no-such-run")
		if theirs.StatusCode != http.StatusNotFound || theirs.body != missing.body {
			t.Errorf("the Journal answers for a run of another tenant %d %s, and for a missing run %d %s; want 404 for both",
				theirs.StatusCode, theirs.body, missing.StatusCode, missing.body)
		}
		if a := ask(t, base, whoAmI, nil, "Authorization: Bearer "+workerToken); a.StatusCode != http.StatusUnauthorized {
			t.Errorf("the API answers a worker's token with %d %s, want 401", a.StatusCode, a.body)
		}
		if a := get(t, base+"/", "Cookie: dvt_session="+adaToken); a.cookie() != nil {
			t.Errorf("a server set the session cookie %+v, want none, because only dvt dev has such sessions", a.cookie())
		}
		if a := ask(t, base, whoAmI, nil, "Cookie: dvt_session="+adaToken); a.StatusCode != http.StatusUnauthorized {
			t.Errorf("a server answers a session of dvt dev with %d %s, want 401", a.StatusCode, a.body)
		}
		for _, path := range []string{"/dev/session", "/dev/notify", "/dev/plans/shop"} {
			if a := send(t, http.MethodPost, base+path, `{"principal":"ada"}`); a.StatusCode < 400 || a.cookie() != nil {
				t.Errorf("a server answers %s with %d, want an error, because only dvt dev has this path", path, a.StatusCode)
			}
		}
	}
	if r := waitForEnd(t, mallory, foreign, time.Minute); r.Status != client.RunStatusCompleted {
		t.Errorf("the run of the other tenant ended %s, want COMPLETED", r.StatusRaw)
	}
	checkLog(t, p.store, foreign)
}

// stepsPlan returns a plan of the project shop of acme. steps are JSON objects.
func stepsPlan(id string, steps ...string) []byte {
	return fmt.Appendf(
		nil, `{"schemaVersion":"v1.2","metadata":{"planId":%q,"planVersion":"1.0","createdAt":"2026-01-01T00:00:00Z",
		"createdBy":"test","schemaVersion":"v1.2","failurePolicy":{"retryWindowSeconds":0}},
		"scope":{"tenantId":"acme","projectId":"shop","environmentId":"dev","repoSha":"%s"},"steps":[%s]}`,
		id, strings.Repeat("0", 40), strings.Join(steps, ","))
}

// testMessages commits events like a process that dies before it publishes them, and repeats messages of the bus.
func (p *deployment) testMessages(t *testing.T, a, b *client.Client) {
	id := start(t, a, "apart-messages", stepsPlan("messages",
		`{"stepId":"wait","type":"SLEEP","inputs":{"ms":600000},"dependsOn":[],"timeout":"11m"}`))
	v := watch(t, b, id)
	at := p.waitForStepStart(t, id)
	v.waitForLive(at, 5*time.Second)

	commit := func() run.Seq {
		t.Helper()
		signal := fmt.Sprintf("unheard-%d", p.head(t, id))
		payload, err := json.Marshal(run.SignalPayload{SignalID: signal, SignalType: run.Resume, Actor: "ada",
			Code: run.CodeInvalidRunState})
		must(t, err)
		out, err := p.store.Append(t.Context(), store.Append{RunID: id, Events: []run.Draft{{
			Type: run.SignalRejected, SignalID: signal, LogicalAttempt: 1, EngineAttempt: 1, EmittedAt: time.Now().UTC(),
			EmittedBy: run.ByAuthz, Payload: payload,
		}}})
		must(t, err)
		if len(out.Outcomes) != 1 || out.Outcomes[0].Refused != "" {
			t.Fatalf("the store answers the append with %+v, want one accepted event", out.Outcomes)
		}
		return out.Head.LastSeq
	}
	bus, err := redisbus.Open(redisbus.Config{URL: "redis://" + p.redis + "/0"})
	must(t, err)
	defer func() { must(t, bus.Close()) }()
	subscription := bus.Subscribe(id)
	defer subscription.Close()
	if d := <-subscription.C(); !d.Confirmed {
		t.Fatalf("the first delivery is %+v, want the confirmation of the subscription", d)
	}

	first := commit() // this process publishes nothing, so the servers must find the commit (contract W-1)
	if took := v.waitForLive(first, 3*time.Second); took > testtime.Of(2500*time.Millisecond) {
		t.Errorf("the viewer saw the commit of the dead process after %s, want 2.5 s or less", took)
	}
	repeated := waitForMessage(t, subscription, first)
	for range 3 { // servers must ignore repeated messages (contract W-2)
		must(t, bus.Publish(t.Context(), repeated))
	}
	second := commit()
	v.waitForLive(second, 3*time.Second)
	frames := v.receivedFrames()
	for _, seq := range []run.Seq{first, second} {
		n := 0
		for _, f := range frames {
			if f.RunSeq == int64(seq) && f.Sync == client.SyncStateLive {
				n++
			}
		}
		if n != 1 {
			t.Errorf("%d LIVE frames at %d, want 1: %s", n, seq, formatFrames(frames))
		}
	}
	for _, f := range frames[slices.IndexFunc(frames, func(f frame) bool { return f.RunSeq >= int64(first) }):] {
		// A slow machine may report that the second commit is not published yet, but a repetition is never a gap.
		if f.Reason != nil && *f.Reason == client.SyncReasonGap {
			t.Errorf("a repeated message made the stream %s: %s", f.Sync, formatFrames(frames))
		}
	}
	reason := "enough"
	_, err = client.CancelRun(t.Context(), b, client.CancelRunInput{RunId: id, SignalId: "cancel", Reason: &reason})
	must(t, err)
	if done := waitForEnd(t, a, id, 30*time.Second); done.Status != client.RunStatusCancelled {
		t.Errorf("the run ended %s after its cancel, want CANCELLED", done.StatusRaw)
	}
	v.waitForLive(p.head(t, id), 5*time.Second)
	v.checkFrames()
	checkLog(t, p.store, id)
}

// waitForStepStart waits until the only step of a run has started, and returns the head. The run appends no event after
// it, because the step sleeps.
func (p *deployment) waitForStepStart(t *testing.T, runID string) run.Seq {
	t.Helper()
	waitUntil(t, "the step has started", 30*time.Second, func() bool {
		l, err := p.store.Load(t.Context(), runID)
		return err == nil && l.State.Counts.Running > 0
	})
	return p.head(t, runID)
}

// waitForMessage returns the message of the bus that leads to seq.
func waitForMessage(t *testing.T, s live.Subscription, seq run.Seq) live.Message {
	t.Helper()
	timeout := time.After(time.Minute)
	for {
		select {
		case d := <-s.C():
			if d.Message != nil && d.Message.To == seq {
				return *d.Message
			}
		case <-timeout:
			t.Fatalf("no message leads to %d within a minute", seq)
		}
	}
}

// testKills kills each process once with runs in flight. A viewer of server B sees its run end, except when the test
// kills B itself.
func (p *deployment) testKills(t *testing.T, a, b *client.Client) {
	const inFlight = 4
	var all []string
	for k, victim := range []*process{p.serverA, p.data, p.control, p.serverB} {
		var viewed *viewer
		var watched string
		for i := range inFlight {
			id := start(t, b, fmt.Sprintf("apart-%d-%d", k, i), killPlan(100+k*inFlight+i))
			if all = append(all, id); i == 0 && victim != p.serverB {
				viewed, watched = watch(t, b, id), id
			}
		}
		time.Sleep(700 * time.Millisecond)
		victim.kill()
		time.Sleep(500 * time.Millisecond)
		victim.start()
		t.Logf("killed %s", victim.name)
		if viewed != nil {
			waitForEnd(t, b, watched, time.Minute)
			viewed.waitForLive(p.head(t, watched), 5*time.Second)
			viewed.checkFrames()
		}
	}
	events := 0
	for _, id := range all {
		if r := waitForEnd(t, a, id, 2*time.Minute); r.Status != client.RunStatusCompleted {
			t.Errorf("run %s ended %s: %+v", id, r.StatusRaw, r.RootCause)
		}
		events += len(checkLog(t, p.store, id))
	}
	waitUntilReady(t, p.urlA) // a server that is not ready would not shut down in order
	waitUntilReady(t, p.urlB)
	t.Logf("4 kills, %d runs, %d events, every log valid", len(all), events)
}
