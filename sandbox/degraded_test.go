//go:build linux

package sandbox_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/sandbox"
)

func TestWithoutNamespaces_FilesAreClosed(t *testing.T) {
	f := newFixture(t)
	sandbox.WithoutNamespaces(f.runtime)
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	script := fmt.Sprintf("echo x > own; cat own; cat %[1]s; echo x > %[1]s; cat /proc/%[2]d/environ; ls /root; true",
		secret, os.Getpid())
	r := f.shell(script)
	if r.exit.Status != 0 || strings.Contains(r.output, "secret\n") || strings.Contains(r.output, "WORKER") ||
		strings.Count(r.output, "ermission denied") != 4 {
		t.Errorf("the program ended with %+v and %q, want its own file and four refusals", r.exit, r.output)
	}
}

func TestWithoutNamespaces_ConnectionsAreJudged(t *testing.T) {
	f := newFixture(t)
	sandbox.WithoutNamespaces(f.runtime)
	python, prefix := findPython(t)
	permitted, store := serve(t, "tcp", "127.0.0.1:0", "permitted"), serve(t, "tcp", "127.0.0.1:0", "store")
	abstract := fmt.Sprintf("@dvt-sandbox-degraded-%d", os.Getpid())
	serve(t, "unix", abstract, "store")
	datagrams := echo(t, "127.0.0.1:0")
	p := f.program(python, "-c", `
import socket, sys
for port in sys.argv[1:3]:
    try: print(socket.create_connection(("127.0.0.1", int(port))).recv(20).decode().strip())
    except OSError as e: print(e.strerror)
for family, kind, to in ((socket.AF_UNIX, socket.SOCK_STREAM, "\0" + sys.argv[3][1:]),
        (socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", int(sys.argv[4])))):
    try:
        s = socket.socket(family, kind); s.connect(to); print("reached")
    except OSError as e: print(e.strerror)`, port(permitted), port(store), abstract, port(datagrams))
	p.Read, p.Connect, p.Judge = append(p.Read, prefix), []string{permitted}, noLoopbackBut(permitted)
	f.run(p).wantOutput(t, "permitted\nPermission denied\nPermission denied\nPermission denied")
}

func TestWithoutNamespaces_NothingOutlivesTheProgram(t *testing.T) {
	f := newFixture(t)
	sandbox.WithoutNamespaces(f.runtime)
	marker := fmt.Sprintf("dvt-degraded-%d", os.Getpid())
	daemon := `(setsid sh -c 'trap "" TERM HUP; while :; do sleep 1; done' "$0" >/dev/null 2>&1 &); `
	f.run(f.program("/bin/sh", "-c", daemon+"sleep 0.1", marker)).wantOutput(t, "")
	if left := markedProcesses(marker); len(left) > 0 {
		t.Errorf("the processes %v outlived the program", left)
	}
	running, wait := f.start(f.program("/bin/sh", "-c", daemon+"trap '' TERM; echo > ready; while :; do sleep 1; done",
		marker))
	f.waitForFile("ready")
	running.Terminate()
	<-time.After(50 * time.Millisecond)
	running.Kill()
	if r := wait(); r.exit.Status != -1 {
		t.Errorf("the program ended with %+v, want the status -1", r.exit)
	}
	if left := markedProcesses(marker); len(left) > 0 {
		t.Errorf("the processes %v outlived the kill", left)
	}
}

func TestWithoutCgroups_ProcessesAndMemoryAreBounded(t *testing.T) {
	f := newFixture(t)
	sandbox.WithoutCgroups(f.runtime)
	python, prefix := findPython(t)
	p := f.program(python, "-c", "x = bytearray(600 << 20)")
	p.Read = append(p.Read, prefix)
	if r := f.run(p); !strings.Contains(r.output, "MemoryError") {
		t.Errorf("the use of 600 MiB ended with %+v and %q, want a MemoryError", r.exit, r.output)
	}
	if os.Geteuid() == 0 {
		return // the kernel does not limit the processes of root, and Capabilities reports the part as missing
	}
	if r := f.shell("i=0; while [ $i -lt 200 ]; do sleep 1 & i=$((i+1)); done"); r.exit.Status == 0 {
		t.Errorf("200 processes ended with %+v and %q, want a refusal", r.exit, r.output)
	}
}

func TestRequire_AMissingPartIsNamedWithItsReason(t *testing.T) {
	err := error(&sandbox.Unavailable{Missing: map[plan.SandboxPart]string{plan.SandboxMemory: "no cgroup",
		plan.SandboxCPU: "no cgroup"}})
	var unavailable *sandbox.Unavailable
	if !errors.As(err, &unavailable) || err.Error() != "this worker cannot apply parts of the sandbox: cpu (no "+
		"cgroup), memory (no cgroup)" {
		t.Errorf("the message is %q", err)
	}
}
