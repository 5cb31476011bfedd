package testserver_test

import (
	"bufio"
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"github.com/dvt-engine/dvt/internal/testserver"
)

// childEnv makes TestChild start servers, print their addresses, and wait to be killed.
const childEnv = "DVT_TESTSERVER_CHILD"

func TestPostgres_EachTestHasADatabaseOfItsOwn(t *testing.T) {
	t.Parallel()
	one, two := connect(t, testserver.Postgres(t)), connect(t, testserver.Postgres(t))
	if _, err := one.Exec(t.Context(), "CREATE TABLE only_here (n int)"); err != nil {
		t.Fatal(err)
	}
	var found *string
	if err := two.QueryRow(t.Context(), "SELECT to_regclass('only_here')::text").Scan(&found); err != nil {
		t.Fatal(err)
	}
	if found != nil {
		t.Errorf("the second database contains the table %s of the first one", *found)
	}
}

func TestRedis_StopAndStartKeepTheAddress(t *testing.T) {
	t.Parallel()
	server := testserver.Redis(t)
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr, MaxRetries: -1})
	defer rdb.Close()
	if err := rdb.Set(t.Context(), "k", "v", 0).Err(); err != nil {
		t.Fatal(err)
	}
	server.Stop()
	if err := rdb.Ping(t.Context()).Err(); err == nil {
		t.Fatal("a stopped server answers")
	}
	server.Start()
	if n, err := rdb.DBSize(t.Context()).Result(); err != nil || n != 0 {
		t.Fatalf("the restarted server has %d keys (%v), want 0", n, err)
	}
}

func TestTemporal_KillAndRestartKeepTheData(t *testing.T) {
	t.Parallel()
	server := testserver.TemporalAlone(t)
	startWorkflow(t, server, "survivor")
	server.Kill(t)
	server.Restart(t)
	c := dial(t, server)
	if _, err := c.DescribeWorkflowExecution(t.Context(), "survivor", ""); err != nil {
		t.Errorf("the workflow is gone after a kill: %v", err)
	}
}

func TestTemporal_SharedServerKnowsTheSearchAttributes(t *testing.T) {
	t.Parallel()
	if first, second := testserver.Temporal(t), testserver.Temporal(t); first != second {
		t.Error("Temporal returned two servers, want one for the test process")
	}
	startWorkflow(t, testserver.Temporal(t), "shared")
}

// A killed process runs no cleanup. The watchdog must still end its servers and delete their files.
func TestCleanup_AKilledTestProcessLeavesNothing(t *testing.T) {
	t.Parallel()
	tmp := t.TempDir()
	for dir := tmp; dir != os.TempDir() && len(dir) > 1; dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil { // PostgreSQL runs as another user when the tests run as root
			t.Fatal(err)
		}
	}
	child := exec.Command(os.Args[0], "-test.run=^TestChild$", "-test.v")
	child.Env = append(os.Environ(), childEnv+"=1", "TMPDIR="+tmp)
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	var addrs []string
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if rest, ok := strings.CutPrefix(lines.Text(), "ready "); ok {
			addrs = strings.Fields(rest)
			break
		}
	}
	if len(addrs) != 3 {
		t.Fatalf("the child started %v, want three servers", addrs)
	}
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = child.Wait() // the error says that it was killed
	eventually(t, "the directory is empty", func() bool {
		left, err := os.ReadDir(tmp)
		return err == nil && len(left) == 0
	})
	for _, addr := range addrs {
		eventually(t, addr+" is closed", func() bool {
			c, err := net.Dial("tcp", addr)
			if err == nil {
				_ = c.Close()
			}
			return err != nil
		})
	}
}

// TestChild is not a test. It is the process that TestCleanup kills.
func TestChild(t *testing.T) {
	if os.Getenv(childEnv) == "" {
		return
	}
	dsn, err := pgx.ParseConfig(testserver.Postgres(t))
	if err != nil {
		t.Fatal(err)
	}
	pg := net.JoinHostPort(dsn.Host, strconv.Itoa(int(dsn.Port)))
	if _, err := os.Stdout.WriteString("ready " + pg + " " + testserver.Redis(t).Addr + " " + testserver.Temporal(t).Addr +
		"\n"); err != nil {
		t.Fatal(err)
	}
	<-t.Context().Done()
}

func TestMissingServer_SaysHowToGetIt(t *testing.T) {
	if os.Getenv(childEnv) == "missing" {
		testserver.Redis(t)
		return
	}
	if _, err := os.Stat("../../.tools/valkey"); err == nil {
		t.Log("Redis is installed in .tools, so this machine cannot check the message about a missing Redis")
		return
	}
	child := exec.Command(os.Args[0], "-test.run=^TestMissingServer")
	child.Env = append(os.Environ(), childEnv+"=missing", "PATH="+t.TempDir())
	out, err := child.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "make tools/redis") {
		t.Errorf("without Redis the test ended with %v and %s, want a failure that names make tools/redis", err, out)
	}
}

func connect(t *testing.T, dsn string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

func dial(t *testing.T, server *testserver.TemporalServer) client.Client {
	t.Helper()
	c, err := client.DialContext(t.Context(), client.Options{HostPort: server.Addr, Namespace: server.Namespace})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func startWorkflow(t *testing.T, server *testserver.TemporalServer, id string) {
	t.Helper()
	c := dial(t, server)
	_, err := c.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{
		ID: id, TaskQueue: t.Name(),
		TypedSearchAttributes: temporal.NewSearchAttributes(
			temporal.NewSearchAttributeKeyKeyword("DvtRunId").ValueSet(id),
			temporal.NewSearchAttributeKeyKeyword("DvtTenantId").ValueSet("t1"),
			temporal.NewSearchAttributeKeyKeyword("DvtProjectId").ValueSet("p1"),
		),
	}, "NobodyRunsThis")
	if err != nil {
		t.Fatalf("start a workflow with the search attributes: %v", err)
	}
	_, err = c.WorkflowService().CountWorkflowExecutions(t.Context(), &workflowservice.CountWorkflowExecutionsRequest{
		Namespace: server.Namespace, Query: "DvtRunId = '" + id + "'",
	})
	if err != nil {
		t.Errorf("query by a search attribute: %v", err)
	}
}

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for !holds() {
		if time.Now().After(deadline) {
			t.Errorf("not true within a minute: %s", what)
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
}
