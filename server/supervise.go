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
	"syscall"
	"time"

	"github.com/dvt-engine/dvt/engine/temporal"
)

// temporalServer supervises the Temporal CLI's dev server on a SQLite file: the
// engine of `dvt dev`. It starts it again when it dies, on the same address and data.
type temporalServer struct {
	bin, dir  string
	port      int
	uiPort    int
	namespace string
	log       *slog.Logger
}

// processID names a process for certain: a pid is used again, a start time is not.
type processID struct {
	PID   int    `json:"pid"`
	Start string `json:"start"`
	Port  int    `json:"port"`
}

func newTemporalServer(ctx context.Context, cfg Config, log *slog.Logger) (*temporalServer, error) {
	bin, err := findTemporal(cfg.TemporalBinary)
	if err != nil {
		return nil, err
	}
	t := &temporalServer{bin: bin, dir: filepath.Join(cfg.Data, "temporal"), namespace: cfg.TemporalNamespace, log: log}
	if err := os.MkdirAll(t.dir, 0o700); err != nil {
		return nil, err
	}
	t.endOrphan()
	if t.port, err = freePort(ctx); err != nil {
		return nil, err
	}
	t.uiPort, err = freePort(ctx)
	return t, err
}

// findTemporal looks at the setting, on PATH, and where `make` puts it.
func findTemporal(named string) (string, error) {
	self, _ := os.Executable()
	for _, name := range []string{named, "temporal", filepath.Join(filepath.Dir(self), "../.tools/bin/temporal"), ".tools/bin/temporal"} {
		if name == "" {
			continue
		}
		if bin, err := exec.LookPath(name); err == nil {
			return filepath.Abs(bin)
		}
		if name == named {
			return "", fmt.Errorf("there is no Temporal CLI at %s", named)
		}
	}
	return "", errors.New("the Temporal CLI is missing: run `make tools/temporal`, or give a server with --temporal HOST:PORT")
}

func (t *temporalServer) address() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(t.port)) }

// run keeps the server running until ctx ends, then ends it and waits for it.
func (t *temporalServer) run(ctx context.Context) error {
	for {
		err := t.once(ctx)
		if ctx.Err() != nil {
			return nil //nolint:nilerr // it ended because it was told to
		}
		t.log.Warn("the Temporal server ended and is started again", slog.Any("error", err))
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(300 * time.Millisecond):
		}
	}
}

func (t *temporalServer) once(ctx context.Context) error {
	out, err := os.OpenFile(filepath.Join(t.dir, "server.log"), os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	defer out.Close()
	args := []string{
		"server", "start-dev", "--ip", "127.0.0.1", "--port", strconv.Itoa(t.port), "--ui-ip", "127.0.0.1", "--ui-port", strconv.Itoa(t.uiPort),
		"--db-filename", filepath.Join(t.dir, "temporal.db"), "--namespace", t.namespace, "--log-level", "error",
	}
	for _, a := range []string{temporal.AttributeRun, temporal.AttributeTenant, temporal.AttributeProject} {
		args = append(args, "--search-attribute", a+"=Keyword")
	}
	cmd := exec.Command(t.bin, args...) //nolint:noctx // it is ended in order below, not by a context
	cmd.Env = append(os.Environ(), "HOME="+t.dir, "XDG_CONFIG_HOME="+t.dir)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // a Ctrl-C in the terminal reaches dvt, which ends it in order
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("the Temporal CLI cannot be started: %w", err)
	}
	t.remember(cmd.Process.Pid)
	exited := make(chan error, 1)
	go func() { exited <- cmd.Wait() }()
	select {
	case err := <-exited:
		return err
	case <-ctx.Done():
	}
	_ = cmd.Process.Signal(syscall.SIGTERM)
	select {
	case err = <-exited:
	case <-time.After(3 * time.Second):
		_ = cmd.Process.Kill()
		err = <-exited
	}
	_ = os.Remove(t.pidFile())
	return err
}

func (t *temporalServer) pidFile() string { return filepath.Join(t.dir, "server.pid") }

func (t *temporalServer) remember(pid int) {
	b, err := json.Marshal(processID{PID: pid, Start: startOf(pid), Port: t.port})
	if err == nil {
		err = os.WriteFile(t.pidFile()+".new", b, 0o600)
	}
	if err == nil {
		err = os.Rename(t.pidFile()+".new", t.pidFile())
	}
	if err != nil {
		t.log.Warn("the Temporal server's pid was not recorded", slog.Any("error", err))
	}
}

// endOrphan ends the server that a killed dvt left behind (T226).
func (t *temporalServer) endOrphan() {
	b, err := os.ReadFile(t.pidFile())
	var id processID
	if err != nil || json.Unmarshal(b, &id) != nil || id.PID <= 1 || id.Start == "" || startOf(id.PID) != id.Start {
		return
	}
	_ = syscall.Kill(id.PID, syscall.SIGKILL)
	for range 100 {
		if startOf(id.PID) != id.Start {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// ready waits until the frontend and the namespace answer.
func (t *temporalServer) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		err := temporal.Ping(ctx, t.address(), t.namespace)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the Temporal server did not come up within a minute; its words are in %s", filepath.Join(t.dir, "server.log"))
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func freePort(ctx context.Context) (int, error) {
	ln, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer ln.Close()
	return ln.Addr().(*net.TCPAddr).Port, nil
}
