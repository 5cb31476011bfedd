package server_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dvt-engine/dvt/client"
	"github.com/dvt-engine/dvt/internal/testserver"
	"github.com/dvt-engine/dvt/internal/testtime"
	"github.com/dvt-engine/dvt/live/redisbus"
	"github.com/dvt-engine/dvt/projector"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
	"github.com/dvt-engine/dvt/store/postgres"
)

// proxiedServer is a server behind proxies that can cut its services off, and a control worker with direct connections.
type proxiedServer struct {
	base   string
	api    string // of a server without duties, with direct connections
	store  store.Store
	dsn    string
	redis  string // host:port without the proxy
	db     *testserver.PostgresProxy
	bus    *testserver.Proxy
	engine *testserver.Proxy
}

// clientOf returns a client of an account: ada and eve are engineers of acme, ana is its admin, pia a planner, sid an
// SRE of the operators. gus is an SRE of globex.
func (o *proxiedServer) clientOf(name string) *client.Client {
	return client.New(o.base, accountToken(name))
}

func accountToken(name string) string { return name + "-has-a-long-token" }

func startProxiedServer(t *testing.T) *proxiedServer {
	t.Helper()
	dsn, redis, temporal := testserver.Postgres(t), testserver.Redis(t), testserver.TemporalAlone(t)
	o := &proxiedServer{dsn: dsn, redis: redis.Addr, db: testserver.NewPostgresProxy(t, dsn),
		bus: testserver.NewProxy(t, redis.Addr), engine: testserver.NewProxy(t, temporal.Addr)}
	dir := t.TempDir()
	var accounts strings.Builder
	for name, role := range map[string]string{"ada": "ENGINEER", "eve": "ENGINEER", "ana": "ADMIN", "pia": "PLANNER",
		"sid": "SRE"} {
		fmt.Fprintf(&accounts, "  - {id: %s, tenant: acme, tokenSha256: %s, grants: [{role: %s, project: \"*\", "+
			"environment: \"*\"}]}\n", name, tokenHash(accountToken(name)), role)
	}
	fmt.Fprintf(&accounts, "  - {id: gus, tenant: globex, tokenSha256: %s, grants: [{role: SRE, project: \"*\", "+
		"environment: \"*\"}]}\n", tokenHash(accountToken("gus")))
	config := func(name, dsn, redis, temporalAddr string) string {
		path := filepath.Join(dir, name)
		must(t, os.WriteFile(
			path, fmt.Appendf(
				nil, "store: %s\nredis: redis://%s/0\ntemporal: %s\ntemporal-namespace: %s\nartifacts: "+
					"file://%s/artifacts?create_dir=true&no_tmp_dir=true\noperators-tenant: acme\nhealth-interval: 1s\nquotas: "+
					"{tiers: {default: {startRunPerMinute: 6000, heavyStepsPerMinute: 600, signalOpsPerMinute: 6000}}}\naccounts:\n%s",
				dsn, redis, temporalAddr, temporal.Namespace, dir, accounts.String()), 0o600))
		return path
	}
	migrate := spawn(t, "dvt migrate", nil, "migrate", "--store", dsn)
	<-migrate.exited
	var err error
	o.store, err = postgres.Open(t.Context(), dsn, postgres.Options{})
	must(t, err)
	t.Cleanup(func() { must(t, o.store.Close()) })
	address := testserver.FreeAddress(t)
	o.base = "http://" + address
	spawn(t, "server", nil, "server", "--config", config("server.yaml", o.db.DSN, o.bus.Addr, o.engine.Addr), "--listen",
		address)
	spawn(t, "control worker", nil, "worker", "--config", config("worker.yaml", dsn, redis.Addr, temporal.Addr),
		"--queues", "tq-control-dev", "--workspace", filepath.Join(dir, "control"))
	api := testserver.FreeAddress(t)
	o.api = "http://" + api
	spawn(t, "API server", nil, "server", "--config", config("api.yaml", dsn, redis.Addr, temporal.Addr), "--listen", api,
		"--duties", "api")
	waitUntilReady(t, o.base)
	waitUntilReady(t, o.api)
	return o
}

func TestEngineMode_RefusesStartsAndLetsRunsGoOn(t *testing.T) {
	t.Parallel()
	o := startProxiedServer(t)
	t.Run("an address below /engine that does not exist is a JSON 404", o.testUnknownAddress)
	// contract: H01
	t.Run("health names the service that is away", o.testHealth)
	// contract: H01
	t.Run("the health history counts frames", o.testHealthHistory)
	// contract: H03
	t.Run("read-only mode refuses starts and runs go on", o.testReadOnly)
	// contract: H03
	t.Run("a frozen tenant starts no run", o.testFrozenTenant)
	// contract: H02
	t.Run("a slow engine refuses starts until it recovers", o.testSlowEngine)
	// contract: H02, R411, R546
	t.Run("an engine that is away refuses starts on every server, and callers back off", o.testEngineAway)
	// contract: W-20
	t.Run("a run waits for its approval", o.testApproval)
}

// The page of the UI would look like a success to a program.
func (o *proxiedServer) testUnknownAddress(t *testing.T) {
	for _, path := range []string{"/engine/", "/engine/nonsense", "/engine/runs/x/steps/y/nonsense"} {
		for token, want := range map[string]int{"": http.StatusUnauthorized, accountToken("sid"): http.StatusNotFound} {
			a := get(t, o.base+path, "Authorization: Bearer "+token)
			var body struct{ Code, Message string }
			err := json.Unmarshal([]byte(a.body), &body)
			if a.StatusCode != want || a.Header.Get("Content-Type") != "application/json" || err != nil || body.Code == "" {
				t.Errorf("%s with the token %q: %d %q %q, want %d and a JSON object with a code", path, token, a.StatusCode,
					a.Header.Get("Content-Type"), a.body, want)
			}
		}
	}
}

func (o *proxiedServer) testHealth(t *testing.T) {
	at := o.base + "/engine/health"
	readHealth := func() (int, string, []string) {
		a := get(t, at)
		var h struct {
			Status string
			Checks map[string]struct{ Status string }
		}
		must(t, json.Unmarshal([]byte(a.body), &h))
		var bad []string
		for name, c := range h.Checks {
			if c.Status != "healthy" {
				bad = append(bad, name)
			}
		}
		slices.Sort(bad)
		want := []string{"artifactStore", "eventBus", "secretsProvider", "stateStore", "temporal"}
		if got := slices.Sorted(maps.Keys(h.Checks)); !slices.Equal(got, want) {
			t.Errorf("/engine/health has the checks %v, want %v: %s", got, want, a.body)
		}
		return a.StatusCode, h.Status, bad
	}
	until := func(status int, word string, bad ...string) {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
			s, w, b := readHealth()
			if s == status && w == word && slices.Equal(b, bad) {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("/engine/health answers %d %s with the bad checks %v, want %d %s %v", s, w, b, status, word, bad)
			}
		}
	}
	until(http.StatusOK, "healthy")
	detailed := at + "/detailed"
	for token, status := range map[string]int{"": 401, "nobody": 401, accountToken("ada"): 403, accountToken("ana"): 403,
		accountToken("gus"): 403, accountToken("sid"): 200} {
		if a := get(t, detailed, "Authorization: Bearer "+token); a.StatusCode != status {
			t.Errorf("the detailed health for the token %q: %d %s, want %d", token, a.StatusCode, a.body, status)
		}
	}
	a := get(t, detailed, "Authorization: Bearer "+accountToken("sid"))
	for _, has := range []string{`"mode":"NORMAL"`, `"startBreaker":"CLOSED"`, `"connections":`, `"backlogDepth":`,
		`"namespace":`, `"secretsProvider":{"status":"healthy"`} {
		if !strings.Contains(a.body, has) {
			t.Errorf("the detailed health lacks %s: %s", has, a.body)
		}
	}
	o.bus.Stop()
	until(http.StatusOK, "degraded", "eventBus")
	o.bus.Pass()
	until(http.StatusOK, "healthy")
	o.engine.Stop()
	until(http.StatusOK, "degraded", "temporal")
	o.engine.Pass()
	until(http.StatusOK, "healthy")
	o.db.Stop()
	until(http.StatusServiceUnavailable, "unhealthy", "stateStore")
	o.db.Pass()
	until(http.StatusOK, "healthy")
}

// tryStart starts a run of ada and returns the answer.
func (o *proxiedServer) tryStart(t *testing.T, id string) answer {
	t.Helper()
	return tryStartAt(t, o.base, id)
}

func tryStartAt(t *testing.T, base, id string) answer {
	t.Helper()
	return ask(t, base, `mutation($input: StartRunInput!) { startRun(input: $input) { run { runId } } }`,
		map[string]any{"input": map[string]any{
			"plan": map[string]any{"inline": json.RawMessage(sleepPlan(id, 1))}, "runRequestId": id, "projectId": "shop",
			"environmentId": "dev",
		}}, "Authorization: Bearer "+accountToken("ada"))
}

func sleepPlan(id string, ms int) []byte {
	return stepsPlan(id, fmt.Sprintf(`{"stepId":"wait","type":"SLEEP","inputs":{"ms":%d},"dependsOn":[],"timeout":"11m"}`,
		ms),
		`{"stepId":"end","type":"NOOP","inputs":{},"dependsOn":["wait"],"timeout":"1m"}`)
}

func (o *proxiedServer) setMode(t *testing.T, mode client.EngineMode) client.ServiceRow {
	t.Helper()
	out, err := client.SetEngineMode(t.Context(), o.clientOf("sid"),
		client.SetEngineModeInput{RequestId: fmt.Sprintf("mode-%d", time.Now().UnixNano()), Mode: mode,
			Reason: "maintenance"})
	must(t, err)
	return out.SetEngineMode.Service
}

// testReadOnly checks that a run goes on to its end, that no server publishes, and that viewers stay LIVE from the
// store (contract T169).
func (o *proxiedServer) testReadOnly(t *testing.T) {
	delay := testtime.Of(policyDelay) // until the mode holds on all servers
	id := start(t, o.clientOf("ada"), "read-only", sleepPlan("read-only", int((10*time.Second+delay).Milliseconds())))
	v := watch(t, o.clientOf("ada"), id)
	v.waitForLive(2, 20*time.Second)
	list := openStream(t, o.base, accountToken("ada"), `subscription { serviceUpdates { mode modeReason activeRuns } }`)
	list.waitFor(`"NORMAL"`)
	bus, err := redisbus.Open(redisbus.Config{URL: "redis://" + o.redis + "/0"})
	must(t, err)
	defer func() { must(t, bus.Close()) }()
	sub := bus.Subscribe(id)
	defer sub.Close()
	if d := <-sub.C(); !d.Confirmed {
		t.Fatalf("the first delivery is %+v, want the confirmation of the subscription", d)
	}
	if s := o.setMode(t, client.EngineModeReadOnly); s.Mode != client.EngineModeReadOnly || s.ActiveRuns == nil ||
		*s.ActiveRuns < 1 {
		active, _ := json.Marshal(s)
		t.Errorf("the service is %s, want READ_ONLY with one active run or more", active)
	}
	list.waitFor(`"READ_ONLY"`)
	if a := o.tryStart(t, "not-now"); a.code() != "ENGINE_READ_ONLY" || a.StatusCode != http.StatusOK ||
		!strings.Contains(a.body, `"httpStatus":503`) {
		t.Errorf("a start in read-only mode: %d %s, want ENGINE_READ_ONLY", a.StatusCode, a.body)
	}
	time.Sleep(delay + projector.SettleDelay)
	for len(sub.C()) > 0 {
		<-sub.C()
	}
	before := len(v.receivedFrames())
	if r := waitForEnd(t, o.clientOf("ada"), id, 30*time.Second); r.Status != client.RunStatusCompleted {
		t.Errorf("the run ended %s in read-only mode, want COMPLETED", r.StatusRaw)
	}
	head, err := o.store.Heads(t.Context(), []string{id})
	must(t, err)
	if took := v.waitForLive(head.ByRun[id].LastSeq, 5*time.Second); took > testtime.Of(2*time.Second) {
		t.Errorf("the viewer saw the end after %v, want 2 s or less", took)
	}
	v.checkFrames()
	for _, f := range v.receivedFrames()[before:] {
		if f.Sync != client.SyncStateLive || f.Reason == nil || *f.Reason != client.SyncReasonBusDegraded {
			t.Errorf("a frame in read-only mode is %s, want LIVE(BUS_DEGRADED)", formatFrames([]frame{f}))
		}
	}
	if n := len(sub.C()); n > 0 {
		t.Errorf("%d messages were published in read-only mode, want none", n)
	}
	for _, f := range v.receivedFrames() {
		if f.Sync != client.SyncStateLive {
			t.Errorf("a frame is %s, want LIVE", formatFrames([]frame{f}))
		}
	}
	o.setMode(t, client.EngineModeDrained)
	if a := o.tryStart(t, "not-now"); a.code() != "ENGINE_DRAINING" {
		t.Errorf("a start in drained mode: %s, want ENGINE_DRAINING", a.body)
	}
	if s := o.setMode(t, client.EngineModeNormal); s.Mode != client.EngineModeNormal {
		t.Errorf("the mode is %s, want NORMAL", s.Mode)
	}
	for deadline := time.After(time.Minute); len(sub.C()) == 0; {
		select {
		case <-deadline:
			t.Fatal("the messages held back in read-only mode were not published within a minute")
		case <-time.After(50 * time.Millisecond):
		}
	}
	id = start(t, o.clientOf("ada"), "not-now", sleepPlan("not-now", 1))
	if r := waitForEnd(t, o.clientOf("ada"), id, 30*time.Second); r.Status != client.RunStatusCompleted {
		t.Errorf("the run ended %s, want COMPLETED", r.StatusRaw)
	}
	var refused *client.Error
	_, err = client.SetEngineMode(t.Context(), o.clientOf("gus"), client.SetEngineModeInput{RequestId: "m",
		Mode: client.EngineModeDrained, Reason: "x"})
	if !errors.As(client.AsAPIError(err), &refused) || refused.Code != "FORBIDDEN" {
		t.Errorf("an SRE of another tenant who sets the mode gets %v, want FORBIDDEN", err)
	}
}

func (o *proxiedServer) testFrozenTenant(t *testing.T) {
	freeze := func(frozen bool) {
		_, err := client.FreezeTenant(t.Context(), o.clientOf("ana"),
			client.FreezeTenantInput{RequestId: fmt.Sprintf("f-%t", frozen), Frozen: frozen, Reason: "secrets leaked"})
		must(t, err)
	}
	freeze(true)
	if a := o.tryStart(t, "frozen"); a.code() != "TENANT_FROZEN" || !strings.Contains(a.body, "secrets leaked") {
		t.Errorf("a start in a frozen tenant: %s, want TENANT_FROZEN with the reason", a.body)
	}
	freeze(false)
	if a := o.tryStart(t, "frozen"); a.code() != "" {
		t.Errorf("a start after the freeze: %s, want no error", a.body)
	}
}

// testSlowEngine checks that after five starts of 6 s each the server refuses further ones, until a probe succeeds.
func (o *proxiedServer) testSlowEngine(t *testing.T) {
	o.engine.Hold()
	first := start(t, o.clientOf("ada"), "slow-0", sleepPlan("slow-0", 1))
	for i := range 4 {
		start(t, o.clientOf("ada"), fmt.Sprintf("slow-%d", i+1), sleepPlan(fmt.Sprintf("slow-%d", i+1), 1))
	}
	waitUntil(t, "the first run is being started in the engine", time.Minute, func() bool {
		q, err := o.store.QueueRow(t.Context(), first)
		return err == nil && q.Status == store.QueueLocked
	})
	time.Sleep(6 * time.Second)
	o.engine.Pass()
	var a answer
	for deadline := time.Now().Add(time.Minute); a.code() != "ENGINE_DEGRADED"; time.Sleep(50 * time.Millisecond) {
		if a = o.tryStart(t, fmt.Sprintf("degraded-%d", time.Now().UnixNano())); time.Now().After(deadline) {
			t.Fatalf("a minute after the slow starts a start gets %s, want ENGINE_DEGRADED", a.body)
		}
	}
	if !strings.Contains(a.body, `"retryAfterMs":`) || !strings.Contains(a.body, `"httpStatus":503`) {
		t.Errorf("a start while the engine is slow: %s, want 503 with a time to retry", a.body)
	}
	if s, err := client.ShowService(t.Context(), o.clientOf("ada")); err != nil || !s.Service.Degraded ||
		s.Service.RetryAfterMs == nil {
		t.Errorf("the service is %+v (%v), want degraded with a time to retry", s, err)
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
		if a = o.tryStart(t, "recovered"); a.code() == "" {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("a minute after the engine answers again a start gets %s, want no error", a.body)
		}
	}
}

// testEngineAway checks that a server that starts nothing itself refuses with the one that does, with the same reason,
// that the time to wait grows, and that both accept when the engine is back.
func (o *proxiedServer) testEngineAway(t *testing.T) {
	servers := []string{o.base, o.api}
	try := func(base string) answer { return tryStartAt(t, base, fmt.Sprintf("away-%d", time.Now().UnixNano())) }
	o.engine.Stop()
	var accepted []string
	for i := range 5 {
		id := fmt.Sprintf("away-%d", i)
		accepted = append(accepted, start(t, o.clientOf("ada"), id, sleepPlan(id, 1)))
	}
	seconds := func(a answer) int {
		n, err := strconv.Atoi(a.Header.Get("Retry-After"))
		if err != nil || !strings.Contains(a.body, `"httpStatus":503`) || !strings.Contains(a.body, "does not answer") {
			t.Errorf("a start while the engine is away: %d %s with Retry-After %q, want 503, the reason and a time to retry",
				a.StatusCode, a.body, a.Header.Get("Retry-After"))
		}
		return n
	}
	for _, base := range servers { // the API server may first follow the slow engine of the test before
		waitUntil(t, base+" says that the engine does not answer", time.Minute, func() bool {
			a := try(base)
			return a.code() == "ENGINE_DEGRADED" && strings.Contains(a.body, "does not answer")
		})
	}
	var first []int
	for _, base := range servers {
		first = append(first, seconds(try(base)))
	}
	time.Sleep(15 * time.Second)
	for i, base := range servers {
		if n := seconds(try(base)); n < first[i]+8 || n > 60 {
			t.Errorf("%s asks for %d s at first and for %d s after another 15 s, want a longer time, and a minute at most", base,
				first[i], n)
		}
	}
	o.engine.Pass()
	for _, base := range servers {
		waitUntil(t, base+" accepts starts again", time.Minute, func() bool { return try(base).code() == "" })
	}
	for _, id := range accepted { // they waited in the queue, and nobody repeated them
		if st := waitForEnd(t, o.clientOf("ada"), id, time.Minute); st.Status != client.RunStatusCompleted {
			t.Errorf("a run that was accepted before the engine was known to be away ended %s, want COMPLETED", st.Status)
		}
	}
}

func (o *proxiedServer) testApproval(t *testing.T) {
	before, err := client.ShowPolicy(t.Context(), o.clientOf("ana"))
	must(t, err)
	grants := []client.PolicyGrantInput{}
	for _, g := range before.Policy.Grants {
		grants = append(grants, client.PolicyGrantInput{Principal: g.Principal, Role: g.Role, ProjectId: g.ProjectId,
			EnvironmentId: g.EnvironmentId})
	}
	grants = append(grants, client.PolicyGrantInput{Principal: "ada", Role: "PLANNER", ProjectId: "*", EnvironmentId: "*"})
	_, err = client.SetPolicy(t.Context(), o.clientOf("ana"), client.SetPolicyInput{
		RequestId: "approval", ExpectedVersion: before.Policy.Version, Reason: "production", Document: client.PolicyInput{
			Sod: client.PolicySodInput{Approve: true, CompleteManual: true}, Grants: grants,
			BreakGlass: []client.PolicyBreakGlassInput{},
			Approvals:  []client.PolicyApprovalInput{{ProjectId: "shop", EnvironmentId: "*", Required: 1}},
		},
	})
	must(t, err)
	id := start(t, o.clientOf("ada"), "w20", sleepPlan("w20", 1))
	shown, err := client.ShowRun(t.Context(), o.clientOf("eve"), id, nil)
	must(t, err)
	if r := shown.Run; r.Status != client.RunStatusPending || r.RunSeq != 0 || r.Message == nil ||
		!strings.Contains(*r.Message, "approval") {
		t.Errorf("the run is %+v, want PENDING at 0 with a message about its approval", r)
	}
	if _, err := o.store.QueueRow(t.Context(), id); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("the queue row of the run that waits for approval: %v, want ErrNotFound", err)
	}
	waiting, err := client.ListApprovals(t.Context(), o.clientOf("pia"), nil, nil)
	must(t, err)
	if e := waiting.Approvals.Edges; len(e) != 1 || e[0].Node.RunId != id || e[0].Node.Approval.Required != 1 {
		t.Errorf("the approvals are %+v, want the run with one required approval", e)
	}
	approve := func(name string) error {
		_, err := client.ApproveRun(t.Context(), o.clientOf(name), client.ApproveRunInput{RunId: id, RequestId: "a-" + name,
			Decision: client.DecisionApprove})
		return client.AsAPIError(err)
	}
	var refused *client.Error
	if err := approve("ada"); !errors.As(err, &refused) || refused.Code != "SOD_VIOLATION" {
		t.Errorf("the requester who approves gets %v, want SOD_VIOLATION", err)
	}
	must(t, approve("pia"))
	if r := waitForEnd(t, o.clientOf("ada"), id, 30*time.Second); r.Status != client.RunStatusCompleted {
		t.Errorf("the run ended %s, want COMPLETED", r.StatusRaw)
	}
	evs, err := o.store.Events(t.Context(), id, 0, 2)
	must(t, err)
	if diff := cmp.Diff([]run.EventType{run.RunApproved, run.RunStarted}, []run.EventType{evs[0].Type,
		evs[1].Type}); diff != "" {
		t.Errorf("the first events (-want +got):\n%s", diff)
	}
}

// openStream opens a subscription as an event stream. It ends with the test.
func openStream(t *testing.T, base, token, query string) *eventLines {
	t.Helper()
	body, err := json.Marshal(map[string]string{"query": query})
	must(t, err)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, base+"/graphql", strings.NewReader(string(body)))
	must(t, err)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "text/event-stream")
	req.Header.Set("Authorization", "Bearer "+token)
	res, err := http.DefaultClient.Do(req)
	must(t, err)
	t.Cleanup(func() { _ = res.Body.Close() })
	e := &eventLines{t: t, lines: make(chan string, 100)}
	go func() {
		for in := bufio.NewScanner(res.Body); in.Scan(); {
			if data, ok := strings.CutPrefix(in.Text(), "data: "); ok {
				e.lines <- data
			}
		}
	}()
	return e
}

// eventLines has the payloads of an event stream.
type eventLines struct {
	t     *testing.T
	lines chan string
}

// waitFor waits for a payload with word, for twice the time that a change of the service may take.
func (e *eventLines) waitFor(word string) {
	e.t.Helper()
	for timeout := time.After(testtime.Of(2 * policyDelay)); ; {
		select {
		case line := <-e.lines:
			if strings.Contains(line, word) {
				return
			}
		case <-timeout:
			e.t.Fatalf("no payload with %s within %s", word, 2*policyDelay)
		}
	}
}
