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

// watchdogScript reads the process id to guard, one a line and the last one counts (0: none), until its input ends;
// then it ends that process with the signal $2 and removes the directory $1.
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

// sandbox is a directory for one server and the watchdog that outlives this process to clean up after it.
type sandbox struct {
	dir      string
	stopWith syscall.Signal
	watchdog *exec.Cmd
	pipe     io.WriteCloser
}

// newSandbox makes the directory. stopWith is the signal by which its server stops at once and leaves nothing behind.
func newSandbox(name string, stopWith syscall.Signal) (*sandbox, error) {
	dir, err := os.MkdirTemp("", "dvt-"+name+"-")
	if err != nil {
		return nil, fmt.Errorf("make a directory under TMPDIR: %w", err)
	}
	s := &sandbox{dir: dir, stopWith: stopWith}
	s.watchdog = exec.Command("/bin/sh", "-c", watchdogScript, "dvt-test-watchdog", dir, fmt.Sprint(int(stopWith)))
	// Its own group: Ctrl-C ends the tests, and then the watchdog has its work to do.
	s.watchdog.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if s.pipe, err = s.watchdog.StdinPipe(); err == nil {
		err = s.watchdog.Start()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start the watchdog: %w", err), os.RemoveAll(dir))
	}
	return s, nil
}

func (s *sandbox) guard(pid int) error {
	_, err := fmt.Fprintln(s.pipe, pid)
	return err
}

// close ends the guarded server, removes the directory and waits until both are done.
func (s *sandbox) close() error {
	return errors.Join(s.pipe.Close(), s.watchdog.Wait())
}

// process is one running server.
type process struct {
	cmd    *exec.Cmd
	log    string
	exited chan struct{}
}

// run starts cmd in the sandbox, guarded, and returns when it is ready; a server that does not get ready is killed.
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
	defer log.Close() // The child has its own descriptor.
	cmd.Stdout, cmd.Stderr = log, log
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setpgid = true
	dieWithParent(cmd.SysProcAttr, s.stopWith)

	p := &process{cmd: cmd, log: log.Name(), exited: make(chan struct{})}
	started := make(chan error)
	go func() {
		// Linux signals the child when the thread that started it ends, so this one stays until the child has ended.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer close(p.exited)
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // How it ended is told by its output; that it ended, by the channel.
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", filepath.Base(cmd.Path), err)
	}
	return p, s.guard(cmd.Process.Pid)
}

// outputSize tells how much the servers of this sandbox have written so far.
func (s *sandbox) outputSize() int64 {
	info, err := os.Stat(filepath.Join(s.dir, "log"))
	if err != nil {
		return 0
	}
	return info.Size()
}

// outputFrom is what was written after the first offset bytes.
func (p *process) outputFrom(offset int64) string {
	b, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(string(b[min(offset, int64(len(b))):]))
}

// output is the end of what the server has written.
func (p *process) output() string {
	all := p.outputFrom(0)
	return all[max(0, len(all)-outputBytes):]
}

// stop sends the signal and waits; a process that outlives stopTimeout is killed.
func (s *sandbox) stop(p *process, sig syscall.Signal) error {
	if err := p.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("signal %s: %w", filepath.Base(p.cmd.Path), err)
	}
	select {
	case <-p.exited:
	case <-time.After(stopTimeout):
		_ = p.cmd.Process.Kill() // Only fails when the process has ended, which is what is wanted.
		<-p.exited
	}
	return s.guard(0)
}

// await polls ready until it answers true, the process ends or startTimeout passes; the error carries the end of the
// output.
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

// retry runs start with fresh ports until it succeeds: between choosing a free port and using it another process may
// take it.
func retry(start func() error) error {
	var err error
	for range startAttempts {
		if err = start(); err == nil {
			return nil
		}
	}
	return err
}

// FreeAddress is a loopback address that nobody listens on, for a server that may end and start on it again.
func FreeAddress(t testing.TB) string {
	t.Helper()
	port, err := freePort()
	if err != nil {
		t.Fatalf("testserver: %v", err)
	}
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
}

// freePort finds a port that nobody listens on, among those that the system gives to no connection: it could take the
// port before its server listens, and while that starts again.
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

// firstEphemeral is the least port that the system gives to connections by itself; 0 where it does not say.
func firstEphemeral() (port int) {
	if said, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range"); err == nil {
		_, _ = fmt.Sscan(string(said), &port)
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

// repositoryRoot is found from where this file was compiled, so that tests of every package find the same .tools.
func repositoryRoot() (string, error) {
	_, file, _, ok := runtime.Caller(0)
	if !ok || !filepath.IsAbs(file) {
		return "", errors.New("the tests were built with -trimpath: build them without, so that they find the repository")
	}
	return filepath.Dir(filepath.Dir(filepath.Dir(file))), nil
}

// program finds an executable: in the repository's .tools first, then on PATH.
func program(inTools string, onPath ...string) (string, error) {
	root, err := repositoryRoot()
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
