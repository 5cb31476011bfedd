package testserver

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/dvt-engine/dvt/internal/checkout"
)

const (
	startTimeout  = 60 * time.Second
	startAttempts = 5
	portAttempts  = 100
	leastPort     = 10_000
	pollEvery     = 10 * time.Millisecond
	stopTimeout   = 5 * time.Second
	outputBytes   = 4 << 10
)

// watchdogScript reads process ids, one per line, until its input ends. It then stops the last of these processes with
// the signal $2 and removes the directory $1. The id 0 means no process.
const watchdogScript = `pid=0
while read -r p; do pid=$p; done
alive() { kill -0 "$pid" 2>/dev/null && ! grep -q '^State:.*Z' "/proc/$pid/status" 2>/dev/null; }
if [ "$pid" != 0 ]; then
  kill -"$2" "$pid" 2>/dev/null
  n=0
  while alive && [ $n -lt 50 ]; do sleep 0.05; n=$((n+1)); done
  kill -KILL "$pid" 2>/dev/null
fi
rm -rf "$1"`

// sandbox is the directory of one server, with the watchdog that outlives this process and cleans up.
type sandbox struct {
	dir      string
	stopWith syscall.Signal
	watchdog *exec.Cmd
	pipe     io.WriteCloser
}

// newSandbox creates a sandbox. stopWith is the signal that stops its server immediately without leaving resources
// behind.
func newSandbox(name string, stopWith syscall.Signal) (*sandbox, error) {
	dir, err := os.MkdirTemp("", "dvt-"+name+"-")
	if err != nil {
		return nil, fmt.Errorf("make a directory under TMPDIR: %w", err)
	}
	s := &sandbox{dir: dir, stopWith: stopWith}
	s.watchdog = exec.Command("/bin/sh", "-c", watchdogScript, "dvt-test-watchdog", dir, fmt.Sprint(int(stopWith)))
	// A process group of its own, so that Ctrl-C ends the tests but not the watchdog, which then cleans up.
	s.watchdog.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if s.pipe, err = s.watchdog.StdinPipe(); err == nil {
		err = s.watchdog.Start()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start the watchdog: %w", err), os.RemoveAll(dir))
	}
	return s, nil
}

// guard makes the watchdog stop this process instead of the previous one when the test process ends.
func (s *sandbox) guard(pid int) error {
	_, err := fmt.Fprintln(s.pipe, pid)
	return err
}

// close stops the guarded server, removes the directory, and waits until the watchdog has done both.
func (s *sandbox) close() error {
	return errors.Join(s.pipe.Close(), s.watchdog.Wait())
}

// process is one running server.
type process struct {
	cmd    *exec.Cmd
	log    string
	exited chan struct{}
}

// run starts cmd in the sandbox, guarded by the watchdog, and returns when it is ready. It kills a server that does not
// become ready.
func (s *sandbox) run(cmd *exec.Cmd, ready func(*process) bool) (*process, error) {
	p, err := s.start(cmd)
	if err != nil {
		return nil, err
	}
	if err := p.await(ready); err != nil {
		return nil, errors.Join(err, s.stop(p, syscall.SIGKILL))
	}
	return p, nil
}

// start runs cmd with its output in a file of the sandbox.
func (s *sandbox) start(cmd *exec.Cmd) (*process, error) {
	log, err := os.OpenFile(filepath.Join(s.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	defer log.Close() // the child has its own descriptor
	cmd.Stdout, cmd.Stderr = log, log
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setpgid = true
	dieWithParent(cmd.SysProcAttr, s.stopWith)

	p := &process{cmd: cmd, log: log.Name(), exited: make(chan struct{})}
	started := make(chan error)
	go func() {
		// Linux sends the parent-death signal when the thread that started the child ends. The lock keeps that thread alive.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer close(p.exited)
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // the output says how it ended, and exited says that it did
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", filepath.Base(cmd.Path), err)
	}
	return p, s.guard(cmd.Process.Pid)
}

// outputSize returns the number of bytes that the servers of this sandbox have written so far.
func (s *sandbox) outputSize() int64 {
	info, err := os.Stat(filepath.Join(s.dir, "log"))
	if err != nil {
		return 0
	}
	return info.Size()
}

// outputFrom returns the output after the first offset bytes.
func (p *process) outputFrom(offset int64) string {
	b, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(string(b[min(offset, int64(len(b))):]))
}

// output returns the last outputBytes of the output.
func (p *process) output() string {
	all := p.outputFrom(0)
	return all[max(0, len(all)-outputBytes):]
}

// stop sends the signal and waits for the process to end. It kills the process after stopTimeout.
func (s *sandbox) stop(p *process, sig syscall.Signal) error {
	if err := p.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("signal %s: %w", filepath.Base(p.cmd.Path), err)
	}
	select {
	case <-p.exited:
	case <-time.After(stopTimeout):
		_ = p.cmd.Process.Kill() // fails only when the process has already ended
		<-p.exited
	}
	return s.guard(0)
}

// await polls ready until it returns true. It returns an error with the end of the output when the process ends or
// startTimeout passes before.
func (p *process) await(ready func(*process) bool) error {
	deadline := time.NewTimer(startTimeout)
	defer deadline.Stop()
	poll := time.NewTicker(pollEvery)
	defer poll.Stop()
	for {
		select {
		case <-p.exited:
			return fmt.Errorf("%s ended before it was ready: %s", filepath.Base(p.cmd.Path), p.output())
		case <-deadline.C:
			return fmt.Errorf("%s was not ready within %s: %s", filepath.Base(p.cmd.Path), startTimeout, p.output())
		case <-poll.C:
			if ready(p) {
				return nil
			}
		}
	}
}

// retry calls start, which chooses a port, until it succeeds or startAttempts calls failed: another process may take a
// free port before the server listens on it.
func retry(start func() error) error {
	var err error
	for range startAttempts {
		if err = start(); err == nil {
			return nil
		}
	}
	return err
}

// FreeAddress returns a loopback address on which no process listens, for a server that may stop and start there again.
func FreeAddress(t testing.TB) string {
	t.Helper()
	port, err := freePort()
	if err != nil {
		t.Fatalf("testserver: %v", err)
	}
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
}

// freePort returns a port on which no process listens. It avoids the ephemeral ports, because the system could give
// such a port to a connection before the server listens or while the server restarts.
func freePort() (int, error) {
	var l net.Listener
	var err error
	for range portAttempts {
		port := 0
		if most := firstEphemeral(); most > 2*leastPort {
			port = leastPort + rand.IntN(most-leastPort)
		}
		if l, err = net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port))); err == nil {
			return l.Addr().(*net.TCPAddr).Port, l.Close()
		}
	}
	return 0, fmt.Errorf("find a free port: %w", err)
}

// firstEphemeral returns the lowest ephemeral port, or 0 when the system does not report it.
func firstEphemeral() (port int) {
	if text, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range"); err == nil {
		_, _ = fmt.Sscan(string(text), &port)
	}
	return port
}

func accepts(addr string) bool {
	c, err := net.DialTimeout("tcp", addr, time.Second)
	if err != nil {
		return false
	}
	return c.Close() == nil
}

// program returns the path of an executable: in the repository's .tools or else on PATH. The error wraps
// exec.ErrNotFound when there is none.
func program(inTools string, onPath ...string) (string, error) {
	root, err := checkout.Root()
	if err != nil {
		return "", err
	}
	own := filepath.Join(root, ".tools", inTools)
	if _, err := os.Stat(own); err == nil {
		return own, nil
	}
	for _, name := range onPath {
		if found, err := exec.LookPath(name); err == nil {
			return found, nil
		}
	}
	return "", fmt.Errorf("%s is missing: %w", strings.Join(onPath, " or "), exec.ErrNotFound)
}
