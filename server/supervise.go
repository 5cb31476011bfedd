package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/server/config"
	"github.com/dvt-engine/dvt/server/internal/machine"

	"github.com/dvt-engine/dvt/engine/temporal"
	"github.com/dvt-engine/dvt/internal/privatenet"
)

// temporalServer supervises the engine of `dvt dev`: the dev server of the Temporal CLI on a SQLite file. It restarts
// the server on the same address and data when the server ends or does not answer.
type temporalServer struct {
	bin, dir  string
	port      int
	uiPort    int // 0: the server has no UI
	namespace string
	log       *slog.Logger
	health    *supervisedHealth
	ping      func(ctx context.Context, to temporal.Connection) error // temporal.Connection.Ping

	private  *privatenet.Network // nil: the server listens on the loopback of the machine
	current  atomic.Pointer[privatenet.Process]
	forwards []*portForward
}

// processID identifies a process. It contains the start time, because the kernel reuses pids.
type processID struct {
	PID   int    `json:"pid"`
	Start string `json:"start"`
	Port  int    `json:"port,omitempty"`
	// Starter is the parent of a server in a private network.
	Starter *processID `json:"starter,omitempty"`
}

func newTemporalServer(ctx context.Context, cfg config.Config, log *slog.Logger) (*temporalServer, error) {
	bin, err := findTemporal(cfg.TemporalBinary)
	if err != nil {
		return nil, err
	}
	t := &temporalServer{
		bin: bin, dir: filepath.Join(cfg.Data, "temporal"), uiPort: cfg.TemporalUIPort, namespace: cfg.TemporalNamespace,
		log:  log,
		ping: func(ctx context.Context, to temporal.Connection) error { return to.Ping(ctx) },
	}
	t.health = newSupervisedHealth(supervisionTimes, t.logFile(), log)
	if err := os.MkdirAll(t.dir, 0o700); err != nil {
		return nil, err
	}
	t.endOrphan()
	if t.port = cfg.TemporalPort; t.port == 0 {
		if t.port, err = freePort(ctx); err != nil {
			return nil, err
		}
	}
	return t, t.openNetwork(ctx, cfg.TemporalPort)
}

// findTemporal returns the absolute path of the Temporal CLI: that of the setting, or else the one on PATH or the one
// that `make` installed. A setting that names no program is an error.
func findTemporal(named string) (string, error) {
	self, _ := os.Executable()
	for _, name := range []string{named, "temporal", filepath.Join(filepath.Dir(self), "../.tools/bin/temporal"),
		".tools/bin/temporal"} {
		if name == "" {
			continue
		}
		if bin, err := exec.LookPath(name); err == nil {
			return filepath.Abs(bin)
		}
		if name == named {
			return "", fmt.Errorf("there is no Temporal CLI at %s: correct the setting temporal-binary", named)
		}
	}
	return "", errors.New(
		"the Temporal CLI is missing: run `make tools/temporal`, or give a server with --temporal HOST:PORT")
}

func (t *temporalServer) address() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(t.port)) }

// run keeps the server running until ctx ends, then ends it and waits for it.
func (t *temporalServer) run(ctx context.Context) {
	stop := t.serveForwards(ctx)
	defer stop()
	for {
		cause := t.runOnce(ctx)
		if ctx.Err() != nil {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(t.health.noteEnd(cause)):
		}
	}
}

// runOnce starts the server and returns why it ended or was killed, as the predicate of a sentence about it.
func (t *temporalServer) runOnce(ctx context.Context) (cause string) {
	t.health.noteStart()
	child, err := t.start(ctx)
	if err != nil {
		return fmt.Sprintf("cannot be started: %v", err)
	}
	watched, stop := context.WithCancel(ctx)
	silent := make(chan string, 1)
	var watch sync.WaitGroup
	watch.Go(func() {
		if cause := t.watch(watched); cause != "" {
			silent <- cause
		}
	})
	defer func() { stop(); watch.Wait() }()
	select {
	case <-child.exited:
		return exitCause(child.err, t.logSize() > child.logged)
	case cause := <-silent:
		child.kill()
		return cause
	case <-ctx.Done():
	}
	_ = child.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-child.exited:
	case <-time.After(3 * time.Second):
		child.kill()
	}
	_ = os.Remove(t.pidFile())
	return ""
}

// exitCause returns why a process ended. Without output the log does not say more.
func exitCause(err error, output bool) string {
	text := "ended"
	if !output {
		text = "ended without output"
	}
	if err == nil {
		return text + ": exit status 0"
	}
	return fmt.Sprintf("%s: %v", text, err)
}

// child is one process of the server, or the starter of one in a private network. err is set when exited is closed.
type child struct {
	cmd     *exec.Cmd
	private *privatenet.Process // nil: the server is in the network of the machine
	logged  int64               // size of the log when the process started
	exited  chan struct{}
	err     error
}

func (t *temporalServer) start(ctx context.Context) (*child, error) {
	out, err := t.openLog()
	if err != nil {
		return nil, err
	}
	defer out.Close() // the process has its own descriptor
	args := []string{
		"server", "start-dev", "--dynamic-config-value", "matching.enableFairness=true", "--dynamic-config-value",
		"system.enableActivityEagerExecution=true",
		// Temporal also serves its API by HTTP without a password, so a web page could send it requests.
		"--dynamic-config-value", `frontend.httpAllowedHosts=["nobody.invalid"]`,
		"--ip", "127.0.0.1", "--port", strconv.Itoa(t.port),
		"--db-filename", filepath.Join(t.dir, "temporal.db"), "--namespace", t.namespace, "--log-level", "error",
	}
	if t.uiPort == 0 {
		args = append(args, "--headless")
	} else {
		args = append(args, "--ui-ip", "127.0.0.1", "--ui-port", strconv.Itoa(t.uiPort))
	}
	for _, a := range temporal.Attributes() {
		args = append(args, "--search-attribute", a+"=Keyword")
	}
	cmd := exec.Command(t.bin, args...) //nolint:noctx // the supervisor stops it with SIGTERM, not by a context
	cmd.Env = append(os.Environ(), "HOME="+t.dir, "XDG_CONFIG_HOME="+t.dir)
	cmd.Stdout, cmd.Stderr = out, out
	logged := t.logSize()
	if t.private != nil {
		return t.startPrivate(ctx, cmd, logged)
	}
	// Ctrl-C in a terminal must reach only dvt, which stops the server in order.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	t.remember(processID{PID: cmd.Process.Pid})
	c := &child{cmd: cmd, logged: logged, exited: make(chan struct{})}
	go func() { defer close(c.exited); c.err = cmd.Wait() }()
	return c, nil
}

// kill kills the process and its children, even if they are suspended, and waits for the process.
func (c *child) kill() {
	if c.private != nil {
		c.private.Kill()
		<-c.exited
		return
	}
	_ = syscall.Kill(-c.cmd.Process.Pid, syscall.SIGKILL) // it leads its own group
	<-c.exited
}

// watch probes the server until it has failed for too long, and returns the cause. It returns "" when ctx ends.
//
// The server has failed for too long when three probes in a row failed and the first of them began long enough ago. The
// count protects a healthy server after dvt itself was suspended: a suspension makes one probe late, not three.
func (t *temporalServer) watch(ctx context.Context) (cause string) {
	times := t.health.times
	patience, every := times.start, times.startEvery
	var failing time.Time // start of the first probe in the current row of failures
	failed := 0
	for {
		began := time.Now()
		err := t.probe(ctx, times.probe)
		switch {
		case ctx.Err() != nil:
			return ""
		case err == nil:
			failed, patience, every = 0, times.silence, times.probeEvery
			t.health.noteAnswer()
		default:
			if failed++; failed == 1 {
				failing = began
			}
			took := time.Since(failing)
			cause := t.probeCause(err, took)
			if failed >= 3 && took >= patience {
				return cause
			}
			t.health.noteFailedProbe(cause)
		}
		select {
		case <-ctx.Done():
			return ""
		case <-time.After(every - min(every, time.Since(began))):
		}
	}
}

func (t *temporalServer) probe(ctx context.Context, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return t.ping(ctx, temporal.Connection{HostPort: t.address(), Namespace: t.namespace, Dial: t.dialer()})
}

func (t *temporalServer) probeCause(err error, took time.Duration) string {
	lasted := plan.DurationWords(took)
	switch {
	case errors.Is(err, temporal.ErrNoNamespace):
		return fmt.Sprintf("has answered for %s that its namespace %s is not found", lasted, t.namespace)
	case errors.Is(err, context.DeadlineExceeded):
		return "has not answered for " + lasted
	default:
		return fmt.Sprintf("has failed for %s: %v", lasted, err)
	}
}

func (t *temporalServer) pidFile() string { return filepath.Join(t.dir, "server.pid") }

// remember records the server's process in a file, so that the next dvt can end the server when this one is killed.
func (t *temporalServer) remember(id processID) {
	id.Start, id.Port = machine.StartOf(id.PID), t.port
	b, err := json.Marshal(id)
	if err == nil {
		err = os.WriteFile(t.pidFile()+".new", b, 0o600)
	}
	if err == nil {
		err = os.Rename(t.pidFile()+".new", t.pidFile())
	}
	if err != nil {
		t.log.Warn("the pid of the Temporal server was not recorded: if dvt is killed, the next dvt cannot end this server", slog.Any("error", err))
	}
}

// endOrphan kills the server that a killed dvt left behind, because two servers must not use the same database file
// (contract T226).
func (t *temporalServer) endOrphan() {
	b, err := os.ReadFile(t.pidFile())
	var id processID
	if err != nil || json.Unmarshal(b, &id) != nil {
		return
	}
	id.end()
	if id.Starter != nil {
		id.Starter.end()
	}
}

// end kills the process if the pid still belongs to it, and waits at most two seconds until it has ended.
func (id processID) end() {
	if id.PID <= 1 || id.Start == "" || machine.StartOf(id.PID) != id.Start {
		return
	}
	_ = syscall.Kill(id.PID, syscall.SIGKILL)
	for range 100 {
		if machine.StartOf(id.PID) != id.Start {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// ready waits until the server has answered once, for at most a minute.
func (t *temporalServer) ready(ctx context.Context) error {
	select {
	case <-t.health.first:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(t.health.times.start):
	}
	why := t.health.lastCause()
	if why != "" {
		why = ": it " + why
	}
	return fmt.Errorf("the Temporal server did not come up within %s%s; read its log %s",
		plan.DurationWords(t.health.times.start), why, t.logFile())
}

func (t *temporalServer) logFile() string { return filepath.Join(t.dir, "server.log") }

func (t *temporalServer) logSize() int64 {
	info, err := os.Stat(t.logFile())
	if err != nil {
		return 0
	}
	return info.Size()
}

// logLimit is the size in bytes above which openLog rotates the server's log.
const logLimit = 1 << 20

// openLog opens the server's log for a new process. The process appends to it, because its last lines say why the
// previous process ended. A log larger than logLimit is first renamed to server.log.1, which replaces the older one.
func (t *temporalServer) openLog() (*os.File, error) {
	if info, err := os.Stat(t.logFile()); err == nil && info.Size() > logLimit {
		if err := os.Rename(t.logFile(), t.logFile()+".1"); err != nil {
			return nil, err
		}
	}
	out, err := os.OpenFile(t.logFile(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	_, err = fmt.Fprintf(out, "%s dvt starts the Temporal server on port %d\n", time.Now().UTC().Format(time.RFC3339),
		t.port)
	if err != nil {
		return nil, errors.Join(err, out.Close())
	}
	return out, nil
}

func freePort(ctx context.Context) (int, error) {
	ln, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer ln.Close()
	return ln.Addr().(*net.TCPAddr).Port, nil
}
