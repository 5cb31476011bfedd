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

	args []string // additional arguments of the server
	t    testing.TB
	bin  string
	box  *sandbox
	proc *process
}

// Redis starts a server that only t uses and stops it when t ends.
func Redis(t testing.TB) *RedisServer {
	t.Helper()
	s, err := StartRedis()
	if err != nil {
		t.Fatalf("testserver: no Redis: %v", err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("testserver: clean up after Redis: %v", err)
		}
	})
	s.t = t
	return s
}

// RedisTLS starts a server that only t uses. It serves TLS at secureAddr in addition to its plain port, and requires
// client certificates of the authority clients. args are additional arguments of the server.
func RedisTLS(t testing.TB, server Pair, clients *Authority, args ...string) (secureAddr string) {
	t.Helper()
	dir := t.TempDir()
	cert, key := server.Write(t, dir, "server")
	port, err := freePort()
	if err != nil {
		t.Fatalf("testserver: no Redis: %v", err)
	}
	s, err := startRedis(append(args, "--tls-port", strconv.Itoa(port), "--tls-cert-file", cert, "--tls-key-file", key,
		"--tls-ca-cert-file", WriteFile(t, dir, "clients.pem", clients.PEM), "--tls-auth-clients", "yes"))
	if err != nil {
		t.Fatalf("testserver: no Redis with TLS: %v", err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("testserver: clean up after Redis: %v", err)
		}
	})
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
}

// StartRedis starts a server for a process that is not a test. Only Close and Version may be called. The server ends
// with the process, or with Close.
func StartRedis() (*RedisServer, error) { return startRedis(nil) }

func startRedis(args []string) (*RedisServer, error) {
	bin, err := program("valkey/bin/valkey-server", "redis-server", "valkey-server")
	if errors.Is(err, exec.ErrNotFound) {
		return nil, errors.New("there is no Redis server on this machine: run `make tools/redis`")
	}
	if err != nil {
		return nil, err
	}
	box, err := newSandbox("redis", syscall.SIGKILL)
	if err != nil {
		return nil, err
	}
	s := &RedisServer{bin: bin, box: box, args: args}
	err = retry(func() error {
		port, err := freePort()
		if err != nil {
			return err
		}
		s.Addr = net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
		return s.start()
	})
	if err != nil {
		return nil, errors.Join(err, box.close())
	}
	return s, nil
}

// Version returns the name and version of the server, such as "Redis 7.0.15".
func (s *RedisServer) Version() (string, error) {
	out, err := exec.Command(s.bin, "--version").Output() // Redis server v=7.0.15 sha=…
	if err != nil {
		return "", fmt.Errorf("%s --version: %w", s.bin, err)
	}
	name, _, _ := strings.Cut(string(out), " ")
	_, rest, _ := strings.Cut(string(out), "v=")
	version, _, _ := strings.Cut(rest, " ")
	return name + " " + version, nil
}

// Close stops the server and removes its files.
func (s *RedisServer) Close() error { return s.box.close() }

// Stop kills the server. Its connections break and its data is lost. It does nothing when the server is stopped.
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

// Start starts a stopped server, without data, on the same address, and returns when it answers.
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
	s.proc, err = s.box.run(exec.Command(s.bin, append([]string{"--bind", "127.0.0.1", "--port", port, "--dir", s.box.dir,
		"--save", "", "--appendonly", "no"}, s.args...)...), func(*process) bool { return pong(s.Addr) })
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
	return err == nil && (strings.HasPrefix(line, "+PONG") || strings.HasPrefix(line, "-NOAUTH"))
}
