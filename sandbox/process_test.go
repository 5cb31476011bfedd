//go:build linux

package sandbox_test

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/sandbox"
)

func TestProcess_ShellWorks(t *testing.T) {
	f := newFixture(t)
	f.shell("echo hello | tr a-z A-Z; exec 2>&1; echo error >&2").wantOutput(t, "HELLO\nerror")
}

func TestProcess_EnvironmentIsTheGivenOne(t *testing.T) {
	t.Setenv("WORKER_SECRET", "secret")
	f := newFixture(t)
	p := f.program("/usr/bin/env")
	p.Env = []string{"A=1"}
	f.run(p).wantOutput(t, "A=1")
}

func TestProcess_ExitStatusIsTheProgram(t *testing.T) {
	f := newFixture(t)
	for script, want := range map[string]sandbox.Exit{"exit 0": {}, "exit 7": {Status: 7},
		"kill -9 $$": {Status: -1, Signal: "SIGKILL"}, "kill -TERM $$": {Status: -1, Signal: "SIGTERM"}} {
		if got := f.shell(script).exit; got != want {
			t.Errorf("%q ended with %+v, want %+v", script, got, want)
		}
	}
}

func TestProcess_AnOlderFullFileIsNotTheCause(t *testing.T) {
	f := newFixture(t)
	full := filepath.Join(f.workspace, "full")
	if err := errors.Join(os.WriteFile(full, make([]byte, 16*mebibyte), 0o600),
		os.Chtimes(full, time.Time{}, time.Now().Add(-time.Hour))); err != nil {
		t.Fatal(err)
	}
	if r := f.shell("exit 1"); r.exit.Cause != "" || len(r.violations) > 0 {
		t.Errorf("the program ended with %+v and %v, want neither a cause nor a line", r.exit, r.violations)
	}
}

func TestProcess_WorksOnFilesOfTheWorkspace(t *testing.T) {
	f := newFixture(t)
	if err := os.WriteFile(filepath.Join(f.project, "model.sql"), []byte("select 1"), 0o600); err != nil {
		t.Fatal(err)
	}
	hidden := fmt.Sprintf("/tmp/dvt-sandbox-%d", os.Getpid())
	script := fmt.Sprintf(`set -e
mkdir -p a/b; cp %s/model.sql a/b/; mv a/b/model.sql a/c; ln -s a/c link; ln a/c hard; chmod 700 a/c; cat link; rm -r a
mktemp >/dev/null; echo x > %[2]s; cat %[2]s; ls /dev/shm; : > /dev/null; head -c 1 /dev/urandom | wc -c`, f.project, hidden)
	f.shell(script).wantOutput(t, "select 1x\n1")
	if _, err := os.Stat(hidden); err == nil {
		t.Error("a file of the step's /tmp appeared in the host's /tmp")
	}
	info, err := os.Stat(filepath.Join(f.workspace, "hard"))
	if err != nil || info.Size() != 8 {
		t.Errorf("the worker cannot read the file that the program wrote into the workspace: %v", err)
	}
}

func TestProcess_GitWorks(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Fatal("install git for this test")
	}
	f := newFixture(t)
	f.shell(`set -e; git init -q repo; cd repo; echo 1 > f; git add f
git -c user.name=a -c user.email=a@example.com commit -qm one; git log --oneline | wc -l`).wantOutput(t, "1")
}

func TestProcess_PythonWorks(t *testing.T) {
	f := newFixture(t)
	python, prefix := findPython(t)
	p := f.program(python, "-c", `
import threading, subprocess, tempfile, multiprocessing, ssl, sqlite3, socket
threads = [threading.Thread(target=lambda: None) for _ in range(8)]
[t.start() for t in threads]; [t.join() for t in threads]
print(subprocess.check_output(["echo", "child"]).decode().strip())
sqlite3.connect("db").execute("create table t (a)")
l = multiprocessing.Lock(); l.acquire(); l.release()
print(open(tempfile.mkstemp()[1]).read() == "")`)
	p.Read = append(p.Read, prefix)
	f.run(p).wantOutput(t, "child\nTrue")

	p = f.program(python, "-m", "venv", "--without-pip", f.workspace+"/venv")
	p.Read = append(p.Read, prefix)
	f.run(p).wantOutput(t, "")
	p = f.program(f.workspace+"/venv/bin/python", "-c", "import sys; print(sys.prefix != sys.base_prefix)")
	p.Read = append(p.Read, prefix)
	f.run(p).wantOutput(t, "True")
}

// findPython returns the interpreter behind links and the directory of its library.
func findPython(t *testing.T) (file, prefix string) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "python3", "-c",
		"import os, sys; print(os.path.realpath(sys.executable)); print(os.path.realpath(sys.base_prefix))").Output()
	if err != nil {
		t.Fatal("install python3 for this test: ", err)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	return lines[0], lines[1]
}

func TestProcess_OutputIsComplete(t *testing.T) {
	f := newFixture(t)
	r := f.shell("head -c 20000000 /dev/zero")
	if r.exit.Status != 0 || len(r.output) != 20_000_000 {
		t.Errorf("the program ended with %+v after %d bytes, want 20,000,000", r.exit, len(r.output))
	}
}

func TestTerminate_TheProgramMayFinish(t *testing.T) {
	f := newFixture(t)
	running, wait := f.start(
		f.program("/bin/sh", "-c", "trap 'echo finished; exit 5' TERM; echo ready > ready; while :; do sleep 0.01; done"))
	f.waitForFile("ready")
	running.Terminate()
	r := wait()
	if !strings.HasSuffix(r.output, "finished\n") || r.exit.Status != 5 {
		t.Errorf("the program ended with %+v and %q, want its own end with the status 5", r.exit, r.output)
	}
}

func TestKill_EndsAllThatIgnoreSignals(t *testing.T) {
	f := newFixture(t)
	marker := fmt.Sprintf("dvt-kill-%d", os.Getpid())
	running, wait := f.start(f.program("/bin/sh", "-c",
		`trap '' TERM INT HUP; setsid sh -c 'trap "" TERM HUP; while :; do sleep 1; done' "$0" & echo ready > ready
while :; do sleep 1; done`, marker))
	f.waitForFile("ready")
	begin := time.Now()
	running.Kill()
	r := wait()
	if r.exit.Status != -1 || time.Since(begin) > 5*time.Second {
		t.Errorf("the program ended with %+v after %s, want the status -1 at once", r.exit, time.Since(begin))
	}
	if left := markedProcesses(marker); len(left) > 0 {
		t.Errorf("the processes %v outlived the program", left)
	}
}

func (f *fixture) waitForFile(name string) {
	f.t.Helper()
	for deadline := time.Now().Add(20 * time.Second); ; {
		if _, err := os.Stat(filepath.Join(f.workspace, name)); err == nil {
			return
		}
		if time.Now().After(deadline) {
			f.t.Fatalf("the file %s of the program never appeared", name)
		}
		<-time.After(5 * time.Millisecond)
	}
}

func TestStart_RefusesWhatItCannotGive(t *testing.T) {
	f := newFixture(t)
	link := filepath.Join(f.project, "link")
	if err := os.Symlink("/etc", link); err != nil {
		t.Fatal(err)
	}
	cases := map[string]struct {
		change func(*sandbox.Program)
		want   error
	}{
		"a program that does not exist": {func(p *sandbox.Program) { p.Path = "/usr/bin/dvt-absent" }, sandbox.ErrProgram},
		"a program that is a directory": {func(p *sandbox.Program) { p.Path = "/usr" }, sandbox.ErrProgram},
		"a program that is no program":  {func(p *sandbox.Program) { p.Path = "/etc/passwd" }, sandbox.ErrProgram},
		"a program of another place":    {func(p *sandbox.Program) { p.Path = f.denied }, sandbox.ErrProgram},
		"a path that does not exist":    {func(p *sandbox.Program) { p.Read = []string{"/dvt/absent"} }, sandbox.ErrPath},
		"a path through a link":         {func(p *sandbox.Program) { p.Write = []string{link} }, sandbox.ErrPath},
		"a path below a link":           {func(p *sandbox.Program) { p.Read = []string{link + "/ssl"} }, sandbox.ErrPath},
		"a relative path":               {func(p *sandbox.Program) { p.Read = []string{"project"} }, sandbox.ErrPath},
		"the root":                      {func(p *sandbox.Program) { p.Write = []string{"/"} }, sandbox.ErrPath},
		"a port of zero":                {func(p *sandbox.Program) { p.Connect = []string{"db:0"} }, sandbox.ErrConnect},
	}
	for name, c := range cases {
		p := f.program("/bin/true")
		p.Stdout, p.Stderr = os.Stdout, os.Stderr
		c.change(&p)
		if _, err := f.runtime.Start(t.Context(), p); !errors.Is(err, c.want) {
			t.Errorf("%s: the error is %v, want %v", name, err, c.want)
		}
	}
	p := f.program("/bin/true")
	p.Stdout, p.Stderr = os.Stdout, os.Stderr
	p.Require = []plan.SandboxPart{"teleport"}
	var unavailable *sandbox.Unavailable
	if _, err := f.runtime.Start(t.Context(), p); !errors.As(err, &unavailable) {
		t.Errorf("the error is %v, want that the part is unavailable", err)
	}
}

func TestConnect_ReachesWhatIsListed(t *testing.T) {
	f := newFixture(t)
	python, prefix := findPython(t)
	server := serve(t, "tcp", "127.0.0.1:0", "permitted")
	other := serve(t, "tcp", "127.0.0.1:0", "store")
	script := `
import socket, select, sys
def blocking(host, port):
    with socket.create_connection((host, port), timeout=None) as s: return s.recv(100).decode().strip()
def timed(host, port):
    with socket.create_connection((host, port), timeout=5) as s: return s.recv(100).decode().strip()
def nonblocking(host, port):
    s = socket.socket(); s.setblocking(False)
    code = s.connect_ex((host, port)); assert code in (0, 115), code
    select.select([], [s], [], 5); assert s.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == 0
    select.select([s], [], [], 5); assert not s.getblocking()
    return s.recv(100).decode().strip()
for f in (blocking, timed, nonblocking):
    try: print(f(sys.argv[1], int(sys.argv[2])))
    except OSError as e: print(e.strerror)
`
	run := func(host, to string, connect ...string) result {
		p := f.program(python, "-c", script, host, port(to))
		p.Read, p.Connect = append(p.Read, prefix), append([]string{}, connect...)
		p.Judge = noLoopbackBut(server)
		return f.run(p)
	}
	run("127.0.0.1", server, server).wantOutput(t, "permitted\npermitted\npermitted")
	if r := run("db.example", server, "db.example:"+port(server)); strings.Count(r.output, "permitted") < 2 {
		t.Errorf("by its name the server answered %q, want permitted", r.output)
	}
	if r := run("127.0.0.1", other, "127.0.0.1:"+port(other)); strings.Contains(r.output, "store") ||
		len(r.violations) == 0 {
		t.Errorf("the judge's refusal gave %q and %v, want a refusal with its name", r.output, r.violations)
	}
	if r := run("127.0.0.1", server); strings.Contains(r.output, "permitted") {
		t.Errorf("with an empty list the server answered %q", r.output)
	}
}

func TestConnect_WithoutAListTheJudgeDecides(t *testing.T) {
	f := newFixture(t)
	python, prefix := findPython(t)
	server, store := serve(t, "tcp", "127.0.0.1:0", "permitted"), serve(t, "tcp", "127.0.0.1:0", "store")
	p := f.program(python, "-c", `
import socket, sys
for port in sys.argv[1:]:
    try: print(socket.create_connection(("localhost", int(port))).recv(20).decode().strip())
    except OSError as e: print(e.strerror)`, port(server), port(store))
	p.Read, p.Connect, p.Judge = append(p.Read, prefix), nil, noLoopbackBut(server)
	f.run(p).wantOutput(t, "permitted\nConnection refused")
}

func TestNew_EndsWhatADeadWorkerLeft(t *testing.T) {
	f := newFixture(t)
	if reason, missing := f.runtime.Capabilities().Missing[plan.SandboxPIDs]; missing {
		t.Fatalf("this machine cannot test it: %s", reason)
	}
	ended := exec.CommandContext(t.Context(), "/bin/true")
	if err := ended.Run(); err != nil {
		t.Fatal(err)
	}
	parent := sandbox.CgroupOf(f.runtime, plan.SandboxPIDs)
	left := filepath.Join(parent, fmt.Sprintf("dvt-sandbox-test-%d-1", ended.Process.Pid))
	other := filepath.Join(parent, fmt.Sprintf("dvt-sandbox-test-%d-b-%d-1", ended.Process.Pid, os.Getpid()))
	for _, dir := range []string{left, other} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		defer os.Remove(dir)
	}
	victim := exec.CommandContext(t.Context(), "/bin/sleep", "600")
	if err := victim.Start(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(left, "cgroup.procs"), []byte(strconv.Itoa(victim.Process.Pid)), 0); err != nil {
		t.Fatal(err)
	}
	r, err := sandbox.New(sandbox.Config{Worker: "test"})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if err := victim.Wait(); err == nil {
		t.Error("the program of the dead worker ended with success, want that New kills it")
	}
	for deadline := time.Now().Add(5 * time.Second); time.Now().Before(deadline); <-time.After(5 * time.Millisecond) {
		if _, err := os.Stat(left); err != nil {
			break
		}
	}
	if _, err := os.Stat(left); err == nil {
		t.Error("the cgroup of the dead worker is still there")
	}
	if _, err := os.Stat(other); err != nil {
		t.Error("the cgroup of another worker is gone")
	}
}

func TestConnect_LoopbackOfTheStepIsItsOwn(t *testing.T) {
	f := newFixture(t)
	python, prefix := findPython(t)
	p := f.program(python, "-c", `
import socket, threading
l = socket.create_server(("127.0.0.1", 18999))
def answer():
    c, _ = l.accept(); c.sendall(b"own"); c.close()
threading.Thread(target=answer).start()
print(socket.create_connection(("localhost", 18999)).recv(10).decode())`)
	p.Read = append(p.Read, prefix)
	f.run(p).wantOutput(t, "own")
	l, err := net.Listen("tcp", "127.0.0.1:18999")
	if err != nil {
		t.Errorf("the port of the step is taken on the host: %s", err)
		return
	}
	l.Close()
}

func TestNames_OnlyListedOnesLeaveTheStep(t *testing.T) {
	f := newFixture(t)
	p := f.program("/usr/bin/getent", "ahostsv4", "db.example")
	p.Connect = []string{"db.example:5432"}
	if r := f.run(p); !strings.Contains(r.output, "127.0.0.1") {
		t.Errorf("the listed name led to %q", r.output)
	}
	p = f.program("/usr/bin/getent", "ahostsv4", "secret.attacker.example")
	p.Connect = []string{"db.example:5432"}
	if r := f.run(p); r.exit.Status == 0 || len(r.violations) == 0 {
		t.Errorf("another name ended with %+v and %v, want a refusal with its name", r.exit, r.violations)
	}
	for _, name := range f.resolvedNames() {
		if name != "db.example." {
			t.Errorf("the name %q reached the worker's resolver", name)
		}
	}
}

func TestViolations_AreBounded(t *testing.T) {
	f := newFixture(t)
	python, prefix := findPython(t)
	p := f.program(python, "-c", `
import socket
for i in range(200):
    try: socket.create_connection(("192.0.2.9", 1000 + i))
    except OSError: pass`)
	p.Read = append(p.Read, prefix)
	if r := f.run(p); len(r.violations) != sandbox.MaxViolations {
		t.Errorf("200 refusals gave %d violations, want %d", len(r.violations), sandbox.MaxViolations)
	}
}

func TestClose_LeavesNoCgroup(t *testing.T) {
	f := newFixture(t)
	f.shell("true").wantOutput(t, "")
	if err := f.runtime.Close(); err != nil {
		t.Fatal(err)
	}
	for _, pattern := range []string{"/sys/fs/cgroup/*/dvt-sandbox-test-*", "/sys/fs/cgroup/*/*/*/dvt-sandbox-test-*",
		"/sys/fs/cgroup/dvt-sandbox-test-*"} {
		if left, _ := filepath.Glob(pattern); len(left) > 0 {
			t.Errorf("cgroups were left: %v", left)
		}
	}
}

func BenchmarkStart(b *testing.B) {
	r, err := sandbox.New(sandbox.Config{Worker: "bench"})
	if err != nil {
		b.Fatal(err)
	}
	defer r.Close()
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		b.Fatal(err)
	}
	defer null.Close()
	for b.Loop() {
		p, err := r.Start(b.Context(), sandbox.Program{Path: "/bin/true", Argv: []string{"true"}, Dir: "/tmp", Stdout: null,
			Stderr: null})
		if err != nil {
			b.Fatal(err)
		}
		if _, err := p.Wait(); err != nil {
			b.Fatal(err)
		}
	}
}
