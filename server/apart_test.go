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
	"testing"
	"time"

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

// Tokens of the accounts in the configuration that the parts share.
const (
	adaToken     = "ada-has-a-long-token"     // Engineer in acme
	samToken     = "sam-has-a-long-token"     // SRE in acme
	malloryToken = "mallory-has-one-too"      // Admin in globex
	workerToken  = "a-worker-that-serves-one" // data worker of acme
)

// parts are dvt's processes, each by itself, on real servers.
type parts struct {
	a, b          *process // servers
	control, data *process // workers
	urlA, urlB    string
	redis         string // host:port
	artifacts     string // directory of the bucket
	shop          string // directory of the sample's databases, which steps may change
	notes         *receiver
	store         store.Store // the same database
}

// receiver is what HTTP_NOTIFY calls.
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

func (r *receiver) heard() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.keys)
}

func tokenHash(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}

// startParts migrates a database and starts two servers, a control worker and a
// data worker. Only the first three know the store and Redis. more are lines of their settings.
func startParts(t *testing.T, more ...string) *parts {
	t.Helper()
	dsn, redis, engine := testserver.Postgres(t), testserver.Redis(t), testserver.TemporalAlone(t)
	dir := t.TempDir()
	p := &parts{redis: redis.Addr, artifacts: filepath.Join(dir, "artifacts"), shop: filepath.Join(dir, "shop"),
		notes: newReceiver(t)}
	must(t, os.Mkdir(p.shop, 0o700))
	config := filepath.Join(dir, "dvt.yaml")
	must(t, os.WriteFile(config, fmt.Appendf(nil, `
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
`, dsn, redis.Addr, engine.Addr, engine.Namespace, p.artifacts, tokenHash(adaToken), tokenHash(samToken),
		tokenHash(malloryToken), tokenHash(workerToken), strings.Join(more, "\n")), 0o600))
	if said := fails(t, "server", "--config", config, "--listen", testserver.FreeAddress(t)); !strings.Contains(said,
		"dvt migrate") {
		t.Errorf("a server without a schema said %q", said)
	}
	migrate := spawn(t, "dvt migrate", nil, "migrate", "--store", dsn)
	<-migrate.exited
	if !migrate.cmd.ProcessState.Success() {
		t.Fatalf("dvt migrate: %s", migrate.said())
	}
	var err error
	p.store, err = postgres.Open(t.Context(), dsn, postgres.Options{})
	must(t, err)
	t.Cleanup(func() { must(t, p.store.Close()) })

	addressA, addressB := testserver.FreeAddress(t), testserver.FreeAddress(t)
	p.urlA, p.urlB = "http://"+addressA, "http://"+addressB
	p.a = spawn(t, "server A", nil, "server", "--config", config, "--listen", addressA)
	p.b = spawn(t, "server B", nil, "server", "--config", config, "--listen", addressB)
	p.control = spawn(t, "control worker", nil, "worker", "--config", config, "--queues", "tq-control-dev",
		"--workspace", filepath.Join(dir, "control"))
	p.data = spawn(t, "data worker", []string{"DVT_WORKER_TOKEN=" + workerToken}, "worker", "--queues", "tq-data-dev",
		"--temporal", engine.Addr,
		"--temporal-namespace", engine.Namespace, "--server", p.urlA, "--workspace", filepath.Join(dir, "data"),
		"--project-root", root(t), "--dbt", dbt(t), "--allow-private",
		"--sandbox-write", p.shop)
	p.knowsNoStore(t, dsn)
	answers(t, p.urlA)
	answers(t, p.urlB)
	return p
}

// dbt is the program that `make` prepared.
func dbt(t *testing.T) string {
	t.Helper()
	bin := filepath.Join(root(t), ".tools", "dbt", "bin", "dbt")
	if _, err := os.Stat(bin); err != nil {
		t.Fatalf("dbt is not on this machine: run `make tools/dbt`")
	}
	return bin
}

// knowsNoStore looks at everything that the data worker was told.
func (p *parts) knowsNoStore(t *testing.T, dsn string) {
	t.Helper()
	if runtime.GOOS != "linux" {
		return
	}
	for _, name := range []string{"environ", "cmdline"} {
		told, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", p.data.cmd.Process.Pid, name))
		if errors.Is(err, fs.ErrPermission) {
			continue // the worker closed it, and this test has no privileges
		}
		must(t, err)
		for _, secret := range []string{dsn, p.redis, "DVT_STORE", "DVT_REDIS", "DVT_CONFIG", "--store", "--redis",
			"--config", "postgres://"} {
			if strings.Contains(string(told), secret) {
				t.Errorf("the data worker's %s holds %s (T203)", name, secret)
			}
		}
	}
}

// answers waits until a server may get requests.
func answers(t *testing.T, base string) {
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
	t      *testing.T
	mu     sync.Mutex
	frames []frame
	moved  chan struct{}
	done   chan error
}

func watch(t *testing.T, c *client.Client, runID string) *viewer {
	t.Helper()
	v := &viewer{t: t, moved: make(chan struct{}, 1), done: make(chan error, 1)}
	go func() {
		v.done <- c.Watch(t.Context(), runID, client.Position{}, func(f frame) error {
			v.mu.Lock()
			v.frames = append(v.frames, f)
			v.mu.Unlock()
			select {
			case v.moved <- struct{}{}:
			default:
			}
			return nil
		})
	}()
	return v
}

func (v *viewer) seen() []frame {
	v.mu.Lock()
	defer v.mu.Unlock()
	return slices.Clone(v.frames)
}

// until waits for a LIVE frame at seq or later and returns how long that took.
func (v *viewer) until(seq run.Seq, patience time.Duration) time.Duration {
	v.t.Helper()
	began := time.Now()
	timeout := time.After(testtime.Of(patience))
	for {
		frames := v.seen()
		if n := len(frames); n > 0 && frames[n-1].Sync == client.SyncStateLive && frames[n-1].RunSeq >= int64(seq) {
			return time.Since(began)
		}
		select {
		case <-v.moved:
		case err := <-v.done:
			v.t.Fatalf("the stream ended before it was LIVE at %d: %v", seq, err)
		case <-timeout:
			v.t.Fatalf("not LIVE at %d within %s: %s", seq, patience, shown(frames))
		}
	}
}

// honest checks what O9 and api.md §5 promise of every stream.
func (v *viewer) honest() {
	v.t.Helper()
	frames := v.seen()
	for i, f := range frames {
		if i > 0 && f.RunSeq < frames[i-1].RunSeq {
			v.t.Errorf("frames went back from %d to %d", frames[i-1].RunSeq, f.RunSeq)
		}
		if f.Sync == client.SyncStateLive && f.HeadSeq != nil && *f.HeadSeq > f.RunSeq {
			v.t.Errorf("LIVE at %d while the head is %d", f.RunSeq, *f.HeadSeq)
		}
	}
}

func shown(frames []frame) string {
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

func (p *parts) head(t *testing.T, runID string) run.Seq {
	t.Helper()
	h, err := p.store.Heads(t.Context(), []string{runID})
	must(t, err)
	return h.ByRun[runID].LastSeq
}

// TestApart_KillsLoseNothing runs every process of dvt by itself on
// PostgreSQL, Redis and Temporal: the sample completes, a viewer of one server
// sees what others write, and after a kill -9 of each process every run ended and
// every log is valid (T203, T220, T227, T229).
// contract: T203
func TestApart_KillsLoseNothing(t *testing.T) {
	p := startParts(t)
	a, b := client.New(p.urlA, adaToken), client.New(p.urlB, adaToken)
	t.Run("the sample", func(t *testing.T) { p.sample(t, a, b) })
	t.Run("doors", func(t *testing.T) { p.doors(t) })
	// contract: W-1, W-2
	t.Run("messages that come twice and out of order", func(t *testing.T) { p.messages(t, a, b) })
	t.Run("kills", func(t *testing.T) { p.kills(t, a, b) })
	for _, one := range []*process{p.data, p.control, p.a, p.b} {
		if took := one.terminate(); took > testtime.Of(15*time.Second) || !one.cmd.ProcessState.Success() {
			t.Errorf("%s ended after %s: %s", one.name, took, one.cmd.ProcessState)
		}
	}
}

// sample runs the shop, started through A and watched through B.
func (p *parts) sample(t *testing.T, a, b *client.Client) {
	data := p.shop
	doc, err := examples.Plan(examples.Shop, examples.Values{NotifyURL: p.notes.URL + "/dev/notify", Data: data})
	must(t, err)
	id := start(t, a, "apart-sample", doc)
	v := watch(t, b, id)
	done := ended(t, b, id, 4*time.Minute)
	if done.Status != client.RunStatusCompleted {
		t.Fatalf("the sample ended %s: %+v", done.StatusRaw, done.RootCause)
	}
	v.until(p.head(t, id), 5*time.Second)
	v.honest()
	if n := len(v.seen()); n < 5 {
		t.Errorf("the viewer of B saw %d frames only: %s", n, shown(v.seen()))
	}
	if keys := p.notes.heard(); len(keys) != 1 || keys[0] == "" {
		t.Errorf("the receiver heard %q", keys)
	}
	for step, want := range map[string]string{"compile": "dbt", "check-orders": "orders"} { // both ran in the data worker
		out, err := client.ReadStepLog(t.Context(), b, id, step, nil, nil, nil)
		must(t, err)
		text, _ := json.Marshal(out.StepLog)
		if out.StepLog == nil || out.StepLog.TotalLines == 0 || !strings.Contains(string(text), want) {
			t.Errorf("log of %s: %s", step, text)
		}
	}
	p.keptArtifacts(t, id, checkLog(t, p.store, id))
	if foreign, err := client.ShowRun(t.Context(), client.New(p.urlB, malloryToken), id, nil); err != nil ||
		foreign.Run != nil {
		t.Errorf("another tenant saw the run: %+v, %v", foreign.Run, err)
	}
}

// keptArtifacts finds what the log refers to in the bucket, byte for byte.
func (p *parts) keptArtifacts(t *testing.T, runID string, evs []run.Event) {
	t.Helper()
	refs := 0
	for _, e := range evs {
		if e.Type != run.StepCompletedEvent {
			continue
		}
		done, err := run.PayloadOf[run.StepCompletedPayload](e.Payload)
		must(t, err)
		for _, ref := range done.ArtifactRefs {
			refs++
			name := strings.TrimPrefix(ref.URI, "artifact:")
			body, err := os.ReadFile(filepath.Join(p.artifacts, "artifacts", filepath.FromSlash(name)))
			sum := sha256.Sum256(body)
			if err != nil || int64(len(body)) != ref.SizeBytes || hex.EncodeToString(sum[:]) != ref.SHA256 {
				t.Errorf("%s of %s: %d bytes kept, %d referred to: %v", ref.URI, e.StepID, len(body), ref.SizeBytes, err)
			}
		}
	}
	if refs == 0 {
		t.Errorf("run %s refers to no artifacts", runID)
	}
}

// doors: people and workers each have their own, and a worker that of its tenants only.
func (p *parts) doors(t *testing.T) {
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
				t.Errorf("the journal let %q in: %d %s", token, a.StatusCode, a.body)
			}
		}
		theirs, missing := begin(base, workerToken, foreign), begin(base, workerToken, "no-such-run")
		if theirs.StatusCode != http.StatusNotFound || theirs.body != missing.body {
			t.Errorf("the journal about a tenant that the worker does not serve: %d %s, about nothing: %d %s", theirs.StatusCode,
				theirs.body, missing.StatusCode, missing.body)
		}
		if a := ask(t, base, whoAmI, nil, "Authorization: Bearer "+workerToken); a.StatusCode != http.StatusUnauthorized {
			t.Errorf("the API let a worker in: %d %s", a.StatusCode, a.body)
		}
		if a := get(t, base+"/", "Cookie: dvt_session="+adaToken); a.cookie() != nil {
			t.Errorf("a server signed somebody in: %+v", a.cookie())
		}
		if a := ask(t, base, whoAmI, nil, "Cookie: dvt_session="+adaToken); a.StatusCode != http.StatusUnauthorized {
			t.Errorf("a server took the session of dvt dev: %d %s", a.StatusCode, a.body)
		}
		for _, path := range []string{"/dev/session", "/dev/notify", "/dev/plans/shop"} {
			if a := send(t, http.MethodPost, base+path, `{"principal":"ada"}`); a.StatusCode < 400 || a.cookie() != nil {
				t.Errorf("a server has %s: %d", path, a.StatusCode)
			}
		}
	}
	if r := ended(t, mallory, foreign, time.Minute); r.Status != client.RunStatusCompleted {
		t.Errorf("the other tenant's run ended %s", r.StatusRaw)
	}
	checkLog(t, p.store, foreign)
}

// stepsPlan is a plan of steps given as JSON objects.
func stepsPlan(id string, steps ...string) []byte {
	return fmt.Appendf(
		nil, `{"schemaVersion":"v1.2","metadata":{"planId":%q,"planVersion":"1.0","createdAt":"2026-01-01T00:00:00Z",
		"createdBy":"test","schemaVersion":"v1.2","failurePolicy":{"retryWindowSeconds":0}},
		"scope":{"tenantId":"acme","projectId":"shop","environmentId":"dev","repoSha":"%s"},"steps":[%s]}`,
		id, strings.Repeat("0", 40), strings.Join(steps, ","))
}

// messages commits events as a process does that dies before it publishes, and
// repeats messages of the bus.
func (p *parts) messages(t *testing.T, a, b *client.Client) {
	id := start(t, a, "apart-messages", stepsPlan("messages",
		`{"stepId":"wait","type":"SLEEP","inputs":{"ms":600000},"dependsOn":[],"timeout":"11m"}`))
	v := watch(t, b, id)
	at := p.settled(t, id)
	v.until(at, 5*time.Second)

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
			t.Fatalf("append: %+v", out.Outcomes)
		}
		return out.Head.LastSeq
	}
	bus, err := redisbus.Open(redisbus.Config{URL: "redis://" + p.redis + "/0"})
	must(t, err)
	defer func() { must(t, bus.Close()) }()
	heard := bus.Subscribe(id)
	defer heard.Close()
	if d := <-heard.C(); !d.Confirmed {
		t.Fatalf("%+v", d)
	}

	first := commit() // W-1: nobody in this process publishes
	if took := v.until(first, 3*time.Second); took > testtime.Of(2500*time.Millisecond) {
		t.Errorf("what a dead process had committed was shown after %s", took)
	}
	repeated := message(t, heard, first)
	for range 3 { // W-2
		must(t, bus.Publish(t.Context(), repeated))
	}
	second := commit()
	v.until(second, 3*time.Second)
	frames := v.seen()
	for _, seq := range []run.Seq{first, second} {
		n := 0
		for _, f := range frames {
			if f.RunSeq == int64(seq) && f.Sync == client.SyncStateLive {
				n++
			}
		}
		if n != 1 {
			t.Errorf("%d LIVE frames at %d, want 1: %s", n, seq, shown(frames))
		}
	}
	for _, f := range frames[slices.IndexFunc(frames, func(f frame) bool { return f.RunSeq >= int64(first) }):] {
		// On a slow machine the view may say that nobody has published the second commit yet; a repetition is no gap.
		if f.Reason != nil && *f.Reason == client.SyncReasonGap {
			t.Errorf("a repeated message made the stream %s: %s", f.Sync, shown(frames))
		}
	}
	reason := "enough"
	_, err = client.CancelRun(t.Context(), b, client.CancelRunInput{RunId: id, SignalId: "cancel", Reason: &reason})
	must(t, err)
	if done := ended(t, a, id, 30*time.Second); done.Status != client.RunStatusCancelled {
		t.Errorf("the run ended %s", done.StatusRaw)
	}
	v.until(p.head(t, id), 5*time.Second)
	v.honest()
	checkLog(t, p.store, id)
}

// settled waits until a run whose only step waits appends nothing more.
func (p *parts) settled(t *testing.T, runID string) run.Seq {
	t.Helper()
	until(t, "the step begins", 30*time.Second, func() bool {
		l, err := p.store.Load(t.Context(), runID)
		return err == nil && l.State.Counts.Running > 0
	})
	return p.head(t, runID)
}

// message is the one on the bus that leads to seq.
func message(t *testing.T, s live.Subscription, seq run.Seq) live.Message {
	t.Helper()
	timeout := time.After(time.Minute)
	for {
		select {
		case d := <-s.C():
			if d.Message != nil && d.Message.To == seq {
				return *d.Message
			}
		case <-timeout:
			t.Fatalf("no message for %d", seq)
		}
	}
}

// kills kills each process once with runs in flight. The viewer of B sees its
// run's end through every kill but B's own.
func (p *parts) kills(t *testing.T, a, b *client.Client) {
	const inFlight = 4
	var all []string
	for k, victim := range []*process{p.a, p.data, p.control, p.b} {
		var viewed *viewer
		var watched string
		for i := range inFlight {
			id := start(t, b, fmt.Sprintf("apart-%d-%d", k, i), killPlan(100+k*inFlight+i))
			if all = append(all, id); i == 0 && victim != p.b {
				viewed, watched = watch(t, b, id), id
			}
		}
		time.Sleep(700 * time.Millisecond)
		victim.kill()
		time.Sleep(500 * time.Millisecond)
		victim.start()
		t.Logf("killed %s", victim.name)
		if viewed != nil {
			ended(t, b, watched, time.Minute)
			viewed.until(p.head(t, watched), 5*time.Second)
			viewed.honest()
		}
	}
	events := 0
	for _, id := range all {
		if r := ended(t, a, id, 2*time.Minute); r.Status != client.RunStatusCompleted {
			t.Errorf("run %s ended %s: %+v", id, r.StatusRaw, r.RootCause)
		}
		events += len(checkLog(t, p.store, id))
	}
	answers(t, p.urlA) // and will end in order when asked to
	answers(t, p.urlB)
	t.Logf("4 kills, %d runs, %d events, every log valid", len(all), events)
}
