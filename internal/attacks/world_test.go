package attacks_test

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	sdk "go.temporal.io/sdk/client"
	sdklog "go.temporal.io/sdk/log"

	"github.com/dvt-engine/dvt/engine/ticket"
	"github.com/dvt-engine/dvt/internal/testserver"
	"github.com/dvt-engine/dvt/internal/testtime"
)

// oldBinary means that the binary under test is older than the tickets.
var oldBinary = os.Getenv("DVT_ATTACKS_OLD") != ""

// Tokens of the accounts.
const (
	operator     = "olga-may-start-runs"        // OPERATOR of acme
	admin        = "anna-administers-acme"      // ADMIN of acme
	planner      = "paula-approves-runs"        // PLANNER of acme
	foreign      = "gita-starts-runs-of-globex" // OPERATOR of globex
	foreignAdmin = "gus-administers-globex"     // ADMIN of globex
	acmeWorker   = "a-data-worker-of-acme"
	globexWorker = "a-data-worker-of-globex"
	narrowWorker = "a-data-worker-of-one-queue" // of acme, for queueNarrow
)

// Queues of the tests. Each test with its own workers has its own queue, so that no test takes the steps of another.
const (
	queueData   = "tq-data-dev"
	queueNobody = "tq-nobody" // has no worker
	queueNarrow = "tq-narrow"
	queueShared = "tq-shared"
	queueLonely = "tq-lonely"
	queueFrozen = "tq-frozen"
	queuePlayed = "tq-played" // the test acts as its worker, and then starts a real one
	queueLate   = "tq-late"
)

const (
	heartbeat    = 5 * time.Second
	stopWithin   = 20 * time.Second
	controlQueue = "tq-control-dev"
)

// world is an installation: PostgreSQL, Redis, Temporal, a server, a control worker and a data worker of acme.
type world struct {
	dir, dsn, config, url, frontend, namespace string // dsn has the owner's credentials
	serverDSN                                  string // with the credentials of servers
	binary                                     string
	keys                                       ticket.Keys // of the installation; empty for the old binary
	temporal                                   sdk.Client
	engine                                     *testserver.TemporalServer
	control                                    *process // the control worker
	stranger                                   *stranger

	mu        sync.Mutex
	processes []*process
	closers   []func() error
}

var (
	theWorld     *world
	startOnce    sync.Once
	errStart     error
	ticketSecret = base64.StdEncoding.EncodeToString([]byte("a secret of thirty-two bytes or more"))
)

func TestMain(m *testing.M) {
	code := m.Run()
	if theWorld != nil {
		if err := theWorld.close(code != 0); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = max(code, 1)
		}
	}
	os.Exit(code)
}

// installation returns the installation that all tests share. The first test starts it.
func installation(t *testing.T) *world {
	t.Helper()
	startOnce.Do(func() {
		binary := os.Getenv("DVT_ATTACKS_BINARY")
		if binary == "" {
			binary = testserver.Binary(t)
		}
		theWorld = &world{binary: binary}
		errStart = theWorld.start()
	})
	if errStart != nil {
		t.Fatalf("the installation did not start: %v", errStart)
	}
	return theWorld
}

func (w *world) start() (err error) {
	if w.dir, err = os.MkdirTemp("", "dvt-attacks-"); err != nil {
		return err
	}
	w.closers = append(w.closers, func() error { return os.RemoveAll(w.dir) })
	postgres, err := testserver.StartPostgres(
		testserver.PostgresOptions{Settings: []string{"fsync=off", "synchronous_commit=off"}})
	if err != nil {
		return err
	}
	w.closers = append(w.closers, postgres.Close)
	redis, err := testserver.StartRedis()
	if err != nil {
		return err
	}
	w.closers = append(w.closers, redis.Close)
	temporal, err := testserver.StartTemporal()
	if err != nil {
		return err
	}
	w.closers, w.engine = append(w.closers, temporal.Close), temporal
	w.dsn, w.frontend, w.namespace = postgres.DSN, temporal.Addr, temporal.Namespace
	if err := w.configure(redis.Addr); err != nil {
		return err
	}
	if err := w.createServerRole(); err != nil {
		return err
	}
	migrate, err := w.spawn("migrate", nil, "migrate", "--store", w.dsn, "--app-role", serverRole)
	if err != nil {
		return err
	}
	if <-migrate.exited; !migrate.cmd.ProcessState.Success() {
		return fmt.Errorf("dvt migrate: %s", migrate.output())
	}
	address, err := freeAddress()
	if err != nil {
		return err
	}
	w.url = "http://" + address
	secrets := []string{"DVT_STORE=" + w.serverDSN}
	if !oldBinary {
		secrets = append(secrets, "DVT_TICKET_KEYS=k1:"+ticketSecret)
		if w.keys, err = ticket.ParseKeys([]string{"k1:" + ticketSecret}); err != nil {
			return err
		}
	}
	if _, err = w.spawn("server", secrets, "server", "--config", w.config, "--listen", address); err != nil {
		return err
	}
	if w.control, err = w.spawn("control worker", secrets, "worker", "--config", w.config, "--queues", controlQueue,
		"--workspace", filepath.Join(w.dir, "control")); err != nil {
		return err
	}
	if _, err := w.dataWorker("data worker", acmeWorker, queueData, w.url); err != nil {
		return err
	}
	w.temporal, err = sdk.Dial(sdk.Options{
		HostPort: w.frontend, Namespace: w.namespace, Logger: sdklog.NewStructuredLogger(slog.New(slog.DiscardHandler)),
	})
	if err != nil {
		return err
	}
	w.closers = append(w.closers, func() error { w.temporal.Close(); return nil })
	if err := w.waitUntilReady(); err != nil {
		return err
	}
	if w.stranger, err = newStranger(w.temporal); err != nil {
		return err
	}
	w.closers = append(w.closers, func() error { w.stranger.worker.Stop(); return nil })
	return w.requireApprovals()
}

// serverRole is the database role of servers and control workers.
const serverRole = "dvt_server"

func (w *world) createServerRole() error {
	u, err := url.Parse(w.dsn)
	if err != nil {
		return err
	}
	ctx := context.Background()
	c, err := pgx.Connect(ctx, w.dsn)
	if err != nil {
		return err
	}
	_, err = c.Exec(ctx, `CREATE ROLE `+serverRole+` LOGIN`)
	u.User = url.User(serverRole)
	w.serverDSN = u.String()
	return errors.Join(err, c.Close(ctx))
}

func (w *world) configure(redis string) error {
	narrow, bound := ", queues: ["+queueNarrow+"]", "stop-within: "+stopWithin.String()
	if oldBinary {
		narrow, bound = "", ""
	} else if err := w.makeHeadsKey(); err != nil {
		return err
	} else {
		bound += fmt.Sprintf("\naudit-heads: %s\naudit-heads-key: %s\naudit-heads-interval: 10s", w.headsDir(),
			filepath.Join(w.dir, "heads.key"))
	}
	plans := filepath.Join(w.dir, "plans")
	if err := os.Mkdir(plans, 0o755); err != nil {
		return err
	}
	w.config = filepath.Join(w.dir, "dvt.yaml")
	return os.WriteFile(w.config, fmt.Appendf(nil, `
redis: redis://%s/0
temporal: %s
temporal-namespace: %s
artifacts: file://%s/artifacts?create_dir=true&no_tmp_dir=true
plan-roots: [%s]
heartbeat: %s
%s
known-queues: [%s]
quotas: {tiers: {default: {startRunPerMinute: 6000, heavyStepsPerMinute: 6000, signalOpsPerMinute: 6000}}}
accounts:
  - {id: olga, tenant: acme, tokenSha256: %s, grants: [{role: OPERATOR, project: "*", environment: dev}]}
  - {id: anna, tenant: acme, tokenSha256: %s, grants: [{role: ADMIN, project: "*", environment: "*"}]}
  - {id: paula, tenant: acme, tokenSha256: %s, grants: [{role: PLANNER, project: "*", environment: dev}]}
  - {id: gita, tenant: globex, tokenSha256: %s, grants: [{role: OPERATOR, project: "*", environment: dev}]}
  - {id: gus, tenant: globex, tokenSha256: %s, grants: [{role: ADMIN, project: "*", environment: "*"}]}
  - {id: steps-acme, worker: true, serves: [acme], tokenSha256: %s}
  - {id: steps-file, worker: true, serves: [acme], tokenSha256: %s}
  - {id: steps-globex, worker: true, serves: [globex], tokenSha256: %s}
  - {id: steps-narrow, worker: true, serves: [acme], tokenSha256: %s%s}
`, redis, w.frontend, w.namespace, w.dir, plans, heartbeat, bound,
		strings.Join([]string{queueNobody, queueNarrow, queueShared, queueLonely, queueFrozen, queuePlayed, queueLate,
			queueSandbox}, ", "),
		hash(operator), hash(admin), hash(planner), hash(foreign), hash(foreignAdmin), hash(acmeWorker), hash(fileToken),
		hash(globexWorker), hash(narrowWorker), narrow), 0o600)
}

func hash(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}

// dataWorker starts a data worker of one queue. server is the URL of the Journal.
func (w *world) dataWorker(name, token, queue, server string) (*process, error) {
	workspace, err := os.MkdirTemp(w.dir, "workspace-")
	if err != nil {
		return nil, err
	}
	args := []string{
		"worker", "--queues", queue, "--temporal", w.frontend, "--temporal-namespace", w.namespace,
		"--server", server, "--workspace", workspace, "--project-root", w.dir, "--concurrency", "16",
	}
	if !oldBinary {
		// Programs of these tests leave marks in directories of the tests. A sandbox without these directories would
		// hide a successful attack.
		args = append(args, "--sandbox-write", os.TempDir())
		if dir := os.Getenv("GOTMPDIR"); dir != "" { // where t.TempDir is
			args = append(args, "--sandbox-write", dir)
		}
	}
	return w.spawn(name, []string{"DVT_WORKER_TOKEN=" + token}, args...)
}

// freeAddress returns a loopback address on which no process listens.
func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// waitUntilReady waits until the server answers and both kinds of worker poll.
func (w *world) waitUntilReady() error {
	for deadline := time.Now().Add(patient(time.Minute)); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		for _, p := range w.processes[1:] {
			select {
			case <-p.exited:
				return fmt.Errorf("%s ended: %s", p.name, p.output())
			default:
			}
		}
		res, err := http.Get(w.url + "/readyz")
		if err != nil {
			continue
		}
		_ = res.Body.Close()
		if res.StatusCode == http.StatusOK {
			return nil
		}
	}
	return errors.New("the server was not ready within a minute")
}

// close ends all processes, the newest first. With verbose it prints the output of the processes of dvt.
func (w *world) close(verbose bool) error {
	w.mu.Lock()
	processes := slices.Clone(w.processes)
	w.mu.Unlock()
	slices.Reverse(processes)
	for _, p := range processes {
		p.kill()
	}
	if verbose {
		for _, p := range processes {
			if out := p.output(); out != "" {
				fmt.Fprintf(os.Stderr, "--- %s printed:\n%s\n", p.name, out)
			}
		}
	}
	var errs []error
	for _, f := range slices.Backward(w.closers) {
		errs = append(errs, f())
	}
	return errors.Join(errs...)
}

// exec runs a statement on the store directly, without dvt.
func (w *world) exec(t *testing.T, sql string, args ...any) {
	t.Helper()
	c, err := pgx.Connect(t.Context(), w.dsn)
	must(t, err)
	defer func() { must(t, c.Close(context.WithoutCancel(t.Context()))) }()
	_, err = c.Exec(t.Context(), sql, args...)
	must(t, err)
}

// process is a process of dvt.
type process struct {
	name   string
	cmd    *exec.Cmd
	mu     sync.Mutex
	buffer strings.Builder
	exited chan struct{}
}

const maxOutput = 64 << 10 // bytes of output of one process that the tests keep

func (w *world) spawn(name string, env []string, args ...string) (*process, error) {
	return w.spawnAs(nil, name, env, args...)
}

// spawnAs starts a process as another user; nil means the user of the test.
func (w *world) spawnAs(user *syscall.Credential, name string, env []string, args ...string) (*process, error) {
	return w.spawnWith(&syscall.SysProcAttr{Setpgid: true, Credential: user}, name, env, args...)
}

// spawnWith starts a process with attributes of the system.
func (w *world) spawnWith(
	attributes *syscall.SysProcAttr, name string, env []string, args ...string,
) (*process, error) {
	p := &process{name: name, cmd: exec.Command(w.binary, args...), exited: make(chan struct{})}
	p.cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "DVT_") })
	p.cmd.Env = append(append(p.cmd.Env, "DVT_LOG_LEVEL=warn"), env...)
	p.cmd.Dir = w.dir
	p.cmd.SysProcAttr = attributes
	out, in := io.Pipe()
	p.cmd.Stdout, p.cmd.Stderr = in, in
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			p.mu.Lock()
			if p.buffer.Len() < maxOutput {
				p.buffer.WriteString(lines.Text() + "\n")
			}
			p.mu.Unlock()
		}
		_, _ = io.Copy(io.Discard, out) // a line that is too long ends the scanner
	}()
	go func() { _ = p.cmd.Wait(); _ = in.Close(); close(p.exited) }()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.processes = append(w.processes, p)
	return p, nil
}

// output returns the first 64 KiB of the output.
func (p *process) output() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.buffer.String()
}

// kill ends the process at once, even when it is stopped.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.exited
}

func (p *process) signal(t *testing.T, s syscall.Signal) {
	t.Helper()
	must(t, p.cmd.Process.Signal(s))
}

// spawnFor starts a data worker that ends with the test.
func (w *world) spawnFor(t *testing.T, name, token, queue, server string) *process {
	t.Helper()
	p, err := w.dataWorker(name, token, queue, server)
	must(t, err)
	t.Cleanup(p.kill)
	return p
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// patient returns the time that a test waits for an event that takes d on an idle machine. It is shorter for the old
// binary, where most waits are in vain.
func patient(d time.Duration) time.Duration {
	if oldBinary {
		return min(d, 20*time.Second)
	}
	return testtime.Of(d)
}

// waitUntil polls until ok returns true, and fails the test after patience. what describes the condition.
func waitUntil(t *testing.T, what string, patience time.Duration, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patient(patience)); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		if ok() {
			return
		}
	}
	t.Fatalf("condition not met within %s: %s", patience, what)
}
