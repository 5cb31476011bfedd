//go:build linux

package privatenet_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/dvt-engine/dvt/internal/privatenet"
	"github.com/dvt-engine/dvt/internal/testtime"
)

// programName is argv[0] of the test binary when it is the program in a private network.
const programName = "private-program"

// program listens on a port of its loopback, prints the port, and answers each connection with a line. An argument
// makes it end with that status instead.
func program() int {
	if len(os.Args) > 1 && os.Args[1] == "limit" {
		return openAtLimit()
	}
	if len(os.Args) > 1 {
		status, _ := strconv.Atoi(os.Args[1])
		return status
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Println(ln.Addr().(*net.TCPAddr).Port)
	for {
		c, err := ln.Accept()
		if err != nil {
			return 1
		}
		_, _ = io.WriteString(c, "hello\n")
		c.Close()
	}
}

// openAtLimit forbids further namespaces in the user namespace of this process, and prints the error of Open.
func openAtLimit() int {
	for _, kind := range []string{"user", "net"} {
		if err := os.WriteFile("/proc/sys/user/max_"+kind+"_namespaces", []byte("0"), 0); err != nil {
			fmt.Println(err)
			return 1
		}
	}
	_, err := privatenet.Open(context.Background())
	fmt.Println(err)
	return 0
}

// The kernel says "no space left on device", which would send an operator to the disk.
func TestOpen_TheLimitOfNamespacesIsNamed(t *testing.T) {
	t.Parallel()
	cmd := exec.Command("/proc/self/exe", "limit")
	cmd.Args[0] = programName
	ids := []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}}
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER, UidMappings: ids}
	out, err := cmd.CombinedOutput()
	if err != nil || strings.Contains(string(out), "no space left") ||
		!strings.Contains(string(out), "user.max_user_namespaces") {
		t.Errorf("Open at the limit says %q (%v), want the name of the limit", out, err)
	}
}

func openNetwork(t *testing.T) *privatenet.Network {
	t.Helper()
	n, err := privatenet.Open(t.Context())
	if err != nil {
		t.Fatalf("this test needs user and network namespaces: %v", err)
	}
	return n
}

// running is a program in a private network, with the port on which it listens and the result of Wait.
type running struct {
	*privatenet.Process
	port   int
	exited chan error
}

func startProgram(t *testing.T, n *privatenet.Network) *running {
	t.Helper()
	out, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	p, err := n.Start(t.Context(), &exec.Cmd{Path: "/proc/self/exe", Args: []string{programName}, Stdout: in,
		Stderr: os.Stderr})
	in.Close()
	if err != nil {
		t.Fatal(err)
	}
	r := &running{Process: p, exited: make(chan error, 1)}
	go func() { r.exited <- p.Wait() }()
	t.Cleanup(r.Kill)
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	if r.port, err = strconv.Atoi(strings.TrimSpace(line)); err != nil {
		t.Fatalf("the program said %q, want its port", line)
	}
	return r
}

func (r *running) waitForEnd(t *testing.T) error {
	t.Helper()
	select {
	case err := <-r.exited:
		return err
	case <-time.After(testtime.Of(10 * time.Second)):
		t.Fatal("the starter did not end within 10s")
		return nil
	}
}

// waitForState waits until a process has a state, for all of its threads, or has ended.
func waitForState(t *testing.T, pid int, state string) {
	t.Helper()
	for deadline := time.Now().Add(testtime.Of(5 * time.Second)); time.Now().Before(deadline); time.Sleep(
		10 * time.Millisecond) {
		all := true
		threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
		for _, file := range threads {
			stat, err := os.ReadFile(file)
			all = all && (err != nil || strings.Contains(string(stat), ") "+state+" "))
		}
		if all {
			return
		}
	}
	t.Fatalf("process %d did not get the state %s within 5s", pid, state)
}

func exists(pid int) bool { return syscall.Kill(pid, 0) == nil }

func TestProcess_OnlyDialReachesItsPort(t *testing.T) {
	t.Parallel()
	p := startProgram(t, openNetwork(t))
	if c, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", p.port)); err == nil {
		if line, _ := bufio.NewReader(c).ReadString('\n'); line == "hello\n" {
			t.Errorf("port %d answers on the loopback of the machine", p.port)
		}
		c.Close()
	}
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			c, err := p.Dial(t.Context(), p.port)
			if err != nil {
				t.Errorf("dial: %v", err)
				return
			}
			defer c.Close()
			if line, err := bufio.NewReader(c).ReadString('\n'); line != "hello\n" {
				t.Errorf("the program answered %q (%v), want hello", line, err)
			}
		})
	}
	all.Wait()
	if _, err := p.Dial(t.Context(), 1); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("dial of a port without a listener: %v, want connection refused", err)
	}
}

func TestProcess_KillEndsAStoppedProgram(t *testing.T) {
	t.Parallel()
	p := startProgram(t, openNetwork(t))
	if err := syscall.Kill(p.PID, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	p.Kill()
	if err := p.waitForEnd(t); err == nil || err.Error() != "signal: killed" {
		t.Errorf("the starter ended with %v, want signal: killed, like the program", err)
	}
	if exists(p.PID) {
		t.Errorf("program %d was left behind, or not collected", p.PID)
	}
}

// A dial must not wait forever for a starter that is stopped, and the starter must serve the next one when it goes on.
func TestProcess_DialGivesUpWhenTheStarterIsStopped(t *testing.T) {
	t.Parallel()
	p := startProgram(t, openNetwork(t))
	starter := p.Cmd.Process
	if err := starter.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	waitForState(t, starter.Pid, "T")
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, err := p.Dial(ctx, p.port); !errors.Is(err, privatenet.ErrStarter) {
		t.Errorf("dial: %v, want ErrStarter", err)
	}
	if err := starter.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	c, err := p.Dial(t.Context(), p.port)
	if err != nil {
		t.Fatalf("dial after the starter goes on: %v", err)
	}
	c.Close()
}

func TestProcess_ProgramEndsWithItsStarter(t *testing.T) {
	t.Parallel()
	p := startProgram(t, openNetwork(t))
	if err := p.Cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = p.waitForEnd(t)
	waitForState(t, p.PID, "Z")
}

func TestProcess_EndsLikeItsProgram(t *testing.T) {
	t.Parallel()
	n := openNetwork(t)
	p, err := n.Start(t.Context(), &exec.Cmd{Path: "/proc/self/exe", Args: []string{programName, "7"}})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Wait(); err == nil || err.Error() != "exit status 7" {
		t.Errorf("a program with the exit status 7 ended with %v", err)
	}
	term := startProgram(t, n)
	if err := term.Cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := term.waitForEnd(t); err == nil || err.Error() != "signal: terminated" {
		t.Errorf("after SIGTERM it ended with %v, want signal: terminated", err)
	}
	if _, err := n.Start(t.Context(), &exec.Cmd{Path: "/nowhere", Args: []string{"nowhere"}}); err == nil ||
		!strings.Contains(err.Error(), "/nowhere") {
		t.Errorf("start of a missing program: %v, want an error with its path", err)
	}
}
