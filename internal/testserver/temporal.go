package testserver

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// TemporalNamespace is the namespace of every TemporalServer.
const TemporalNamespace = "dvt"

// temporalAttributes are the search attributes of runs. All have the type Keyword.
var temporalAttributes = []string{"DvtRunId", "DvtTenantId", "DvtProjectId", "DvtEnvironmentId", "DvtPlanId",
	"DvtPlanVersion"}

// TemporalServer is a Temporal dev server on a database file, so that its data survives Kill.
type TemporalServer struct {
	// Addr is host:port of the gRPC frontend. Namespace is the namespace to use.
	Addr      string
	Namespace string

	mu   sync.Mutex
	bin  string
	port int
	box  *sandbox
	proc *process
}

var sharedTemporal = sync.OnceValues(StartTemporal)

// Temporal returns the server that the tests of this process share. Tests must use different task queues and workflow
// ids. A test that kills its server must use TemporalAlone.
func Temporal(t testing.TB) *TemporalServer {
	t.Helper()
	s, err := sharedTemporal()
	if err != nil {
		t.Fatalf("testserver: no Temporal server: %v", err)
	}
	return s
}

// TemporalAlone starts a server that only t uses and stops it when t ends.
func TemporalAlone(t testing.TB) *TemporalServer {
	t.Helper()
	s, err := StartTemporal()
	if err != nil {
		t.Fatalf("testserver: no Temporal server: %v", err)
	}
	t.Cleanup(func() {
		if err := s.box.close(); err != nil {
			t.Errorf("testserver: clean up after Temporal: %v", err)
		}
	})
	return s
}

// Kill kills the server, like a crash. It does nothing when the server is dead.
func (s *TemporalServer) Kill(t testing.TB) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.proc == nil {
		return
	}
	if err := s.box.stop(s.proc, syscall.SIGKILL); err != nil {
		t.Fatalf("testserver: kill Temporal: %v", err)
	}
	s.proc = nil
}

// Restart starts a killed server on the same data and address, and returns when it accepts connections.
func (s *TemporalServer) Restart(t testing.TB) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.proc != nil {
		return
	}
	if err := retry(s.start); err != nil {
		t.Fatalf("testserver: restart Temporal: %v", err)
	}
}

// TemporalCLI returns the path of the Temporal CLI.
func TemporalCLI(t testing.TB) string {
	t.Helper()
	bin, err := program("bin/temporal", "temporal")
	if err != nil {
		t.Fatalf("testserver: no Temporal CLI: %v", err)
	}
	return bin
}

// StartTemporal starts a server for a process that is not a test. It ends with the process, or with Close.
func StartTemporal() (*TemporalServer, error) {
	bin, err := program("bin/temporal", "temporal")
	if errors.Is(err, exec.ErrNotFound) {
		return nil, errors.New("the Temporal CLI is not on this machine: run `make tools/temporal`")
	}
	if err != nil {
		return nil, err
	}
	box, err := newSandbox("temporal", syscall.SIGKILL)
	if err != nil {
		return nil, err
	}
	s := &TemporalServer{Namespace: TemporalNamespace, bin: bin, box: box}
	err = retry(func() error {
		if s.port, err = freePort(); err != nil {
			return err
		}
		s.Addr = net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port))
		return s.start()
	})
	if err != nil {
		return nil, errors.Join(err, box.close())
	}
	return s, nil
}

// PID returns the process id of the server, or 0 after Kill.
func (s *TemporalServer) PID() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.proc == nil {
		return 0
	}
	return s.proc.cmd.Process.Pid
}

// ReadDatabase returns the content of the server's database files, so that a test can check which bytes Temporal
// stores.
func (s *TemporalServer) ReadDatabase(t testing.TB) []byte {
	t.Helper()
	var all []byte
	for _, name := range []string{"temporal.db", "temporal.db-wal"} {
		b, err := os.ReadFile(filepath.Join(s.box.dir, name))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatalf("testserver: read Temporal's database: %v", err)
		}
		all = append(all, b...)
	}
	return all
}

// Close stops the server and removes its files.
func (s *TemporalServer) Close() error { return s.box.close() }

func (s *TemporalServer) start() error {
	args := []string{
		"server", "start-dev", "--headless", "--ip", "127.0.0.1",
		"--port", strconv.Itoa(s.port), "--log-level", "error",
		"--db-filename", filepath.Join(s.box.dir, "temporal.db"), "--namespace", s.Namespace,
		"--sqlite-pragma", "synchronous=OFF", // tests kill the process, not the machine
		"--dynamic-config-value", "matching.enableFairness=true", // tenants take turns in a queue
		"--dynamic-config-value", "system.enableActivityEagerExecution=true",
	}
	for _, name := range temporalAttributes {
		args = append(args, "--search-attribute", name+"=Keyword")
	}
	cmd := exec.Command(s.bin, args...)
	// The CLI has a settings file in the home directory. Tests must not use the file of the user.
	cmd.Env = append(cmd.Environ(), "HOME="+s.box.dir, "XDG_CONFIG_HOME="+s.box.dir)
	before := s.box.outputSize()
	// The server prints its address when the namespace and the search attributes exist.
	var err error
	s.proc, err = s.box.run(cmd, func(p *process) bool {
		return strings.Contains(p.outputFrom(before), fmt.Sprintf(":%d", s.port)) && accepts(s.Addr)
	})
	return err
}
