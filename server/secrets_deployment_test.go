package server_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/openbao/openbao/api/v2"
	"github.com/redis/go-redis/v9"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/workflowservice/v1"
	sdk "go.temporal.io/sdk/client"

	"github.com/dvt-engine/dvt/client"
	"github.com/dvt-engine/dvt/internal/testserver"
	"github.com/dvt-engine/dvt/internal/testtime"
)

// withSecrets restarts the data worker with a file of providers. Its files are in the directory data.
func (p *deployment) withSecrets(t *testing.T, providers string) {
	t.Helper()
	file := filepath.Join(p.dir, "providers.yaml")
	must(t, os.WriteFile(file, []byte(providers), 0o600))
	p.data.terminate()
	env := append(slices.Clone(p.data.env), "DVT_DATA="+filepath.Join(p.dir, "data-files"))
	p.data = spawn(t, "data worker", env, p.data.argsWith("--secrets", file)...)
}

// recorder collects what streams send.
type recorder struct {
	mu   sync.Mutex
	body bytes.Buffer
	all  sync.WaitGroup
}

func (r *recorder) Write(b []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.body.Write(b)
}

func (r *recorder) bytes() []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	return bytes.Clone(r.body.Bytes())
}

// stream records the frames of a subscription until ctx ends.
func (r *recorder) stream(ctx context.Context, t *testing.T, base, token, query string) {
	t.Helper()
	body, err := json.Marshal(map[string]string{"query": query})
	must(t, err)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, base+"/graphql", bytes.NewReader(body))
	must(t, err)
	for name, value := range map[string]string{"Authorization": "Bearer " + token, "Accept": "text/event-stream",
		"Content-Type": "application/json"} {
		req.Header.Set(name, value)
	}
	r.all.Go(func() {
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			return // the run has ended
		}
		defer res.Body.Close()
		buffer := make([]byte, 32<<10)
		for {
			n, err := res.Body.Read(buffer)
			_, _ = r.Write(buffer[:n])
			if err != nil {
				return
			}
		}
	})
}

// messages records all messages of a Redis until ctx ends.
func (r *recorder) messages(ctx context.Context, t *testing.T, c *redis.Client) {
	t.Helper()
	sub := c.PSubscribe(ctx, "*")
	_, err := sub.Receive(ctx)
	must(t, err)
	context.AfterFunc(ctx, func() { _ = sub.Close() }) // the client waits without a look at ctx
	r.all.Go(func() {
		for {
			m, err := sub.ReceiveMessage(ctx)
			if err != nil {
				return
			}
			_, _ = r.Write([]byte(m.Channel + " " + m.Payload + "\n"))
		}
	})
}

// redisKeys returns the content of all keys of a Redis.
func redisKeys(ctx context.Context, t *testing.T, c *redis.Client) []byte {
	t.Helper()
	var out bytes.Buffer
	keys, err := c.Keys(ctx, "*").Result()
	must(t, err)
	for _, key := range keys {
		kind, err := c.Type(ctx, key).Result()
		must(t, err)
		var content any
		switch kind {
		case "string":
			content, err = c.Get(ctx, key).Result()
		case "hash":
			content, err = c.HGetAll(ctx, key).Result()
		case "stream":
			content, err = c.XRange(ctx, key, "-", "+").Result()
		case "list":
			content, err = c.LRange(ctx, key, 0, -1).Result()
		case "set":
			content, err = c.SMembers(ctx, key).Result()
		case "zset":
			content, err = c.ZRange(ctx, key, 0, -1).Result()
		case "none": // it has expired
		default:
			t.Fatalf("the key %s has the unknown type %s", key, kind)
		}
		if err != nil && !errors.Is(err, redis.Nil) {
			t.Fatal(err)
		}
		fmt.Fprintf(&out, "%s %v\n", key, content)
	}
	return out.Bytes()
}

// histories returns the histories of all executions of the namespace.
func (p *deployment) histories(t *testing.T) []byte {
	t.Helper()
	c, err := sdk.Dial(sdk.Options{HostPort: p.temporal.Addr, Namespace: p.temporal.Namespace})
	must(t, err)
	defer c.Close()
	var out bytes.Buffer
	list, err := c.ListWorkflow(t.Context(), &workflowservice.ListWorkflowExecutionsRequest{
		Namespace: p.temporal.Namespace, PageSize: 1000})
	must(t, err)
	for _, x := range list.Executions {
		it := c.GetWorkflowHistory(t.Context(), x.Execution.WorkflowId, x.Execution.RunId, false,
			enums.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
		for it.HasNext() {
			event, err := it.Next()
			must(t, err)
			raw, err := event.Marshal()
			must(t, err)
			out.Write(raw)
		}
	}
	return out.Bytes()
}

// traces counts the places and bytes that were searched for secrets.
type traces struct {
	t        *testing.T
	canaries []string
	places   map[string][]byte
}

// files adds all regular files below a directory but the one with the secrets.
func (x *traces) files(dir, except string) {
	x.t.Helper()
	must(x.t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || path == except {
			return err
		}
		body, err := os.ReadFile(path)
		x.places[path] = unpacked(body)
		return err
	}))
}

// search reports each form of each canary in each place.
func (x *traces) search() {
	x.t.Helper()
	size := 0
	for place, body := range x.places {
		size += len(body)
		for _, canary := range x.canaries {
			for _, form := range []string{canary, hex.EncodeToString([]byte(canary)),
				base64.RawStdEncoding.EncodeToString([]byte(canary))[:12]} {
				if bytes.Contains(body, []byte(form)) {
					x.t.Errorf("%s contains %q", place, form)
				}
			}
		}
	}
	x.t.Logf("%d runs, %d places, %d bytes scanned", len(x.canaries), len(x.places), size)
}

// With a process for each component, runs whose steps print and send their secrets leave no form of them in PostgreSQL,
// Redis, Temporal, buckets, workspaces, metrics, frames of streams, answers, spans, messages to other systems, and logs
// of processes. Each read is recorded.
// contract: X01, R085
func TestSecrets_LeaveNoTraceInADeployment(t *testing.T) {
	t.Parallel()
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprintf(w, "you sent %s", r.Header.Get("Authorization"))
	}))
	t.Cleanup(receiver.Close)
	dsn := testserver.Postgres(t)
	sent := newSinks(t)
	p := startDeploymentOn(t, dsn, sent.settings(t)...)
	p.traced(t, sent)
	x := &traces{t: t, canaries: make([]string, *secretRuns), places: map[string][]byte{}}
	secrets := ""
	for i := range x.canaries {
		x.canaries[i] = fmt.Sprintf("canary-%d-%x", i, time.Now().UnixNano())
		secrets += fmt.Sprintf("acme/dev/token-%d: %s\n", i, x.canaries[i])
	}
	file := filepath.Join(p.dir, "secrets.yaml")
	must(t, os.WriteFile(file, []byte(secrets), 0o600))
	p.withSecrets(t, "providers:\n  - {name: file, kind: file, file: "+file+", cacheTTL: 1m}\n")

	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	bus := redis.NewClient(&redis.Options{Addr: p.redis})
	defer bus.Close()
	var frames, messages recorder
	messages.messages(ctx, t, bus)
	frames.stream(ctx, t, p.urlA, adaToken, `subscription { runListUpdates(first: 50) { sync runs { runId status
		rootCause { message } } } }`)
	ada, sam := client.New(p.urlA, adaToken), client.New(p.urlA, samToken)
	ids := make([]string, len(x.canaries))
	for i := range x.canaries {
		ids[i] = start(t, ada, fmt.Sprintf("secret-%d", i), secretPlan(i, receiver.URL))
		frames.stream(ctx, t, p.urlB, adaToken, fmt.Sprintf(`subscription { runUpdates(runId: %q) { sync snapshot {
			rootCause { message } steps { stepId error { message } result } } delta { steps { stepId error { message }
			result } } } }`, ids[i]))
		frames.stream(ctx, t, p.urlA, adaToken, fmt.Sprintf(`subscription { stepLogUpdates(runId: %q, stepId: "print") {
			lines { text } } }`, ids[i]))
	}
	var answers bytes.Buffer
	for _, id := range ids {
		r := waitForEnd(t, ada, id, 3*time.Minute)
		if r.Status != client.RunStatusFailed {
			t.Errorf("run %s ended %s, want FAILED", id, r.StatusRaw)
		}
		must(t, json.NewEncoder(&answers).Encode(r))
		step, err := client.StepSecretsOf(t.Context(), ada, id, "call", nil)
		must(t, err)
		must(t, json.NewEncoder(&answers).Encode(step))
		if list := step.Run.Step.Secrets; len(list) != 2 || !list[0].Resolved || list[0].As != "env:TOKEN" {
			t.Errorf("the secrets of the step are %+v, want two that it got", list)
		}
	}
	rows, after, size := 0, (*string)(nil), 200
	for {
		page, err := client.WhoReadSecrets(t.Context(), sam, &client.SecretAccessFilter{}, &size, after)
		must(t, err)
		must(t, json.NewEncoder(&answers).Encode(page))
		rows += len(page.SecretAccess.Edges)
		if after = page.SecretAccess.PageInfo.EndCursor; !page.SecretAccess.PageInfo.HasNextPage {
			break
		}
	}
	if want := 4 * len(ids); rows != want {
		t.Errorf("%d reads are recorded, want %d: two secrets of two steps of each run", rows, want)
	}
	for _, id := range ids { // the root of a trace and the last event come at the end of the run
		waitUntil(t, "the end of "+id+" reaches the other systems", time.Minute, func() bool {
			return bytes.Contains(sent.spans.bytes(), []byte(id)) &&
				bytes.Contains(sent.deliveries.bytes(), []byte(id)) && bytes.Contains(sent.deliveries.bytes(), []byte("RunFailed"))
		})
	}
	stop()
	frames.all.Wait()
	messages.all.Wait()
	dump, err := testserver.PostgresProgram("pg_dump")
	must(t, err)
	dumped, err := exec.CommandContext(t.Context(), dump, "--dbname", dsn).Output()
	must(t, err)
	x.places["dump of PostgreSQL"], x.places["keys of Redis"] = dumped, redisKeys(t.Context(), t, bus)
	x.places["messages of Redis"], x.places["frames"] = messages.bytes(), frames.bytes()
	x.places["histories of Temporal"], x.places["answers of the API"] = p.histories(t), answers.Bytes()
	x.places["metrics"] = []byte(get(t, p.urlA+"/metrics", "Authorization: Bearer "+samToken).body)
	x.places["spans"], x.places["messages to other systems"] = sent.spans.bytes(), sent.deliveries.bytes()
	for _, place := range []string{"spans", "messages to other systems", "dump of PostgreSQL", "messages of Redis",
		"frames", "histories of Temporal", "metrics"} {
		if len(x.places[place]) < 1000 {
			t.Errorf("%s has %d bytes: the test does not see it", place, len(x.places[place]))
		}
	}
	for _, of := range []*process{p.serverA, p.serverB, p.control, p.data} {
		of.terminate()
		x.places["log of "+of.name] = []byte(of.output())
	}
	x.files(p.dir, file)
	x.search()
}

// rolesOf returns the names of the roles that OpenBao made in a PostgreSQL.
func rolesOf(t *testing.T, dsn string) (names []string) {
	t.Helper()
	c, err := pgx.Connect(t.Context(), dsn)
	must(t, err)
	defer func() { _ = c.Close(t.Context()) }()
	rows, err := c.Query(t.Context(), `SELECT rolname FROM pg_roles WHERE rolname LIKE 'v-%'`)
	must(t, err)
	names, err = pgx.CollectRows(rows, pgx.RowTo[string])
	must(t, err)
	return names
}

// A step has a role of PostgreSQL for itself. The role is gone within 15 s after its worker was killed and another one
// began, and within 5 s after somebody revoked the secrets of the tenant.
// contract: R331, R465
func TestSecrets_ADynamicRoleEndsWithItsWorker(t *testing.T) {
	t.Parallel()
	bao, _ := testserver.OpenBao(t)
	warehouse := testserver.Postgres(t)
	write := func(path string, data map[string]any) *api.Secret {
		t.Helper()
		out, err := bao.Logical().Write(path, data)
		must(t, err)
		return out
	}
	must(t, bao.Sys().EnableAuthWithOptions("approle", &api.EnableAuthOptions{Type: "approle"}))
	must(t, bao.Sys().PutPolicy("worker", `path "database/+/+/creds/*" { capabilities = ["read"] }
path "sys/leases/revoke" { capabilities = ["update"] }`))
	write("auth/approle/role/worker", map[string]any{"token_policies": "worker", "token_period": "15m"})
	role, err := bao.Logical().Read("auth/approle/role/worker/role-id")
	must(t, err)
	must(t, bao.Sys().Mount("database/acme/dev", &api.MountInput{Type: "database"}))
	write("database/acme/dev/config/warehouse", map[string]any{"plugin_name": "postgresql-database-plugin",
		"connection_url": warehouse, "allowed_roles": "reader"})
	write("database/acme/dev/roles/reader", map[string]any{"db_name": "warehouse", "default_ttl": "1h",
		"creation_statements": `CREATE ROLE "{{name}}" LOGIN PASSWORD '{{password}}' VALID UNTIL '{{expiration}}'`})
	p := startDeployment(t)
	secretID := filepath.Join(p.dir, "secret-id")
	must(t, os.WriteFile(secretID, []byte(write("auth/approle/role/worker/secret-id", nil).Data["secret_id"].(string)),
		0o600))
	p.withSecrets(t, fmt.Sprintf(`providers:
  - name: db
    kind: vault
    engine: dynamic
    address: %s
    auth: {method: approle, role: %v, file: %s}
`, bao.Address(), role.Data["role_id"], secretID))

	ada, sam := client.New(p.urlA, adaToken), client.New(p.urlA, samToken)
	doc := stepsPlan("dynamic", `{"stepId":"nap","type":"COMMAND","timeout":"5m","dependsOn":[],
		"retry":{"maxAttempts":1},"inputs":{"argv":["sleep","240"]},"secretRefs":[
		{"provider":"db","key":"reader#username","as":{"env":"DB_USER"}},
		{"provider":"db","key":"reader#password","as":{"env":"DB_PASSWORD"}}]}`)
	tries := 0
	waitUntil(t, "the worker says that it can read both secrets", time.Minute, func() bool {
		tries++
		checked, err := client.CheckSecrets(t.Context(), ada, client.CheckSecretsInput{
			RequestId: fmt.Sprint("check-", tries), Plan: doc})
		must(t, err)
		list := checked.CheckSecrets.Secrets
		return len(list) == 2 && list[0].Ok && list[1].Ok
	})
	gone := func(what string, within time.Duration) {
		t.Helper()
		began := time.Now()
		for len(rolesOf(t, warehouse)) > 0 {
			if time.Since(began) > testtime.Of(within) {
				t.Fatalf("%s: the roles %v are still there after %s", what, rolesOf(t, warehouse), time.Since(began))
			}
			time.Sleep(50 * time.Millisecond)
		}
		t.Logf("%s: the role is gone after %s", what, time.Since(began).Round(10*time.Millisecond))
	}
	gone("the check has ended", 5*time.Second)
	recorded := func() []client.WhoReadSecretsSecretAccessSecretAccessConnectionEdgesSecretAccessEdge {
		t.Helper()
		reads, err := client.WhoReadSecrets(t.Context(), sam, &client.SecretAccessFilter{}, nil, nil)
		must(t, err)
		return reads.SecretAccess.Edges
	}
	made := func(records int) { // the role is made first, then the read is recorded
		t.Helper()
		waitUntil(t, "the step has its role", time.Minute, func() bool {
			return len(rolesOf(t, warehouse)) == 1 && len(recorded()) == records
		})
	}

	first := start(t, ada, "killed", doc)
	made(2)
	p.data.kill()
	if len(rolesOf(t, warehouse)) != 1 {
		t.Fatal("the role ended with the process itself, so the test does not see who ends it")
	}
	p.data.start()
	gone("the worker was killed", 15*time.Second)
	waitForEnd(t, ada, first, 3*time.Minute)

	start(t, ada, "revoked", doc)
	made(4)
	began := time.Now()
	out, err := client.RevokeSecrets(t.Context(), sam, client.RevokeSecretsInput{RequestId: "revoke",
		Reason: "the password leaked"})
	must(t, err)
	if r := out.RevokeSecrets; r.Done < 1 || r.LeasesEnded != 1 {
		t.Errorf("the revocation says %+v, want one worker that ended one lease", r)
	}
	t.Logf("the revocation was answered after %s", time.Since(began).Round(10*time.Millisecond))
	gone("the secrets were revoked", 5*time.Second)
	if reads := recorded(); !strings.HasPrefix(reads[0].Node.Key, "reader#") {
		t.Errorf("the last read is of %s, want one of the role", reads[0].Node.Key)
	}
}
