package testserver

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// RedisServer is a Redis (or Valkey) without persistence that a test may stop and start again on the same port.
type RedisServer struct {
	// Addr is host:port.
	Addr string

	t    testing.TB
	bin  string
	box  *sandbox
	proc *process
}

// Redis starts a server of t's own and ends it when t ends.
func Redis(t testing.TB) *RedisServer {
	t.Helper()
	bin, err := program("valkey/bin/valkey-server", "redis-server", "valkey-server")
	if errors.Is(err, exec.ErrNotFound) {
		t.Fatalf("testserver: no Redis server on this machine: run `make tools/redis`")
	}
	if err != nil {
		t.Fatalf("testserver: %v", err)
	}
	box, err := newSandbox("redis", syscall.SIGKILL)
	if err != nil {
		t.Fatalf("testserver: %v", err)
	}
	t.Cleanup(func() {
		if err := box.close(); err != nil {
			t.Errorf("testserver: clean up after Redis: %v", err)
		}
	})
	s := &RedisServer{t: t, bin: bin, box: box}
	err = retry(func() error {
		port, err := freePort()
		if err != nil {
			return err
		}
		s.Addr = net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
		return s.start()
	})
	if err != nil {
		t.Fatalf("testserver: no Redis: %v", err)
	}
	return s
}

// Stop kills the server; its connections break and what it held is gone. Stopping a stopped server does nothing.
func (s *RedisServer) Stop() {
	s.t.Helper()
	if s.proc == nil {
		return
	}
	if err := s.box.stop(s.proc, syscall.SIGKILL); err != nil {
		s.t.Fatalf("testserver: stop Redis: %v", err)
	}
	s.proc = nil
}

// Start starts a stopped server, empty, on the same address, and returns when it answers.
func (s *RedisServer) Start() {
	s.t.Helper()
	if s.proc != nil {
		return
	}
	if err := retry(s.start); err != nil {
		s.t.Fatalf("testserver: start Redis again: %v", err)
	}
}

func (s *RedisServer) start() error {
	_, port, err := net.SplitHostPort(s.Addr)
	if err != nil {
		return err
	}
	s.proc, err = s.box.run(exec.Command(s.bin, "--bind", "127.0.0.1", "--port", port, "--dir", s.box.dir,
		"--save", "", "--appendonly", "no"), func(*process) bool { return pong(s.Addr) })
	return err
}

func pong(addr string) bool {
	c, err := net.DialTimeout("tcp", addr, time.Second)
	if err != nil {
		return false
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(time.Second)); err != nil {
		return false
	}
	if _, err := fmt.Fprint(c, "PING\r\n"); err != nil {
		return false
	}
	line, err := bufio.NewReader(c).ReadString('\n')
	return err == nil && strings.HasPrefix(line, "+PONG")
}
