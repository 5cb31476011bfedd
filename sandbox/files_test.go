//go:build linux

package sandbox_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/sandbox"
)

// python runs a script; args are its arguments.
func (f *fixture) python(script string, args ...string) result {
	f.t.Helper()
	file, prefix := findPython(f.t)
	p := f.program(append([]string{file, "-c", script}, args...)...)
	p.Read = append(p.Read, prefix)
	return f.run(p)
}

// actions returns the lines of refused files.
func (r result) actions() (lines []string) {
	for _, v := range r.violations {
		if v.Part == plan.SandboxFiles || v.Part == plan.SandboxProcesses {
			lines = append(lines, v.Action)
		}
	}
	return lines
}

func TestFiles_EachKindOfAccessIsNamed(t *testing.T) {
	f := newFixture(t)
	if err := os.WriteFile(filepath.Join(f.project, "model"), []byte("select 1"), 0o700); err != nil {
		t.Fatal(err)
	}
	const readOnly, outside = "the step may only read it", "it is outside of the sandbox of the step"
	for name, c := range map[string]struct{ script, kind, path, why string }{
		"read":                   {`open("/srv/dvt/x")`, "read of", "/srv/dvt/x", outside},
		"read a relative path":   {`os.chdir("/"); open("srv/dvt/x")`, "read of", "/srv/dvt/x", outside},
		"read below a directory": {`os.open("dvt/x", 0, dir_fd=os.open("/", 0))`, "read of", "/dvt/x", outside},
		"list a directory":       {`os.listdir("/srv/dvt")`, "read of", "/srv/dvt", outside},
		"read a link":            {`os.readlink("/srv/dvt/l")`, "read of", "/srv/dvt/l", outside},
		"enter a directory":      {`os.chdir("/srv/dvt")`, "look-up of", "/srv/dvt", outside},
		"execute":                {`os.execv("/srv/dvt/x", ["x"])`, "execution of", "/srv/dvt/x", outside},
		"write":                  {`open(P + "/model", "r+")`, "write to", "P/model", readOnly},
		"write and cut":          {`open(P + "/model", "w")`, "write to", "P/model", readOnly},
		"create by open":         {`open(P + "/new", "w")`, "creation of", "P/new", readOnly},
		"create exclusively":     {`open(P + "/new", "x")`, "creation of", "P/new", readOnly},
		"create outside":         {`open("/srv/dvt/new", "w")`, "creation of", "/srv/dvt/new", outside},
		"create a nameless file": {`os.open(P, os.O_TMPFILE | os.O_WRONLY)`, "creation of a file in", "P", readOnly},
		"create a directory":     {`os.mkdir(P + "/new")`, "creation of", "P/new", readOnly},
		"create a link":          {`os.symlink("model", P + "/new")`, "creation of", "P/new", readOnly},
		"create a pipe":          {`os.mkfifo(P + "/new")`, "creation of", "P/new", readOnly},
		"create a socket": {`import socket; socket.socket(socket.AF_UNIX).bind(P + "/new")`, "creation of", "P/new",
			readOnly},
		"link":             {`os.link("/srv/dvt/x", "x")`, "link to", "/srv/dvt/x", outside},
		"link elsewhere":   {`os.link(P + "/model", P + "/new")`, "creation of", "P/new", readOnly},
		"rename":           {`os.rename(P + "/model", P + "/new")`, "rename of", "P/model", readOnly},
		"rename to it":     {`open("x", "w"); os.rename("x", P + "/new")`, "rename of", "P/new", readOnly},
		"remove":           {`os.remove(P + "/model")`, "removal of", "P/model", readOnly},
		"truncate":         {`os.truncate(P + "/model", 0)`, "truncation of", "P/model", readOnly},
		"grow":             {`open("x", "w"); os.truncate("x", 1 << 40)`, "truncation of", "W/x", "limit of 16777216 bytes"},
		"change the mode":  {`os.chmod(P + "/model", 0o600)`, "change of the mode of", "P/model", readOnly},
		"change the owner": {`os.chown(P + "/model", -1, -1)`, "change of the owner of", "P/model", readOnly},
		"give away":        {`open("x", "w"); os.chown("x", 12345, -1)`, "change of the owner of", "W/x", "another user"},
		"change the times": {`os.utime(P + "/model")`, "change of the times of", "P/model", readOnly},
		"change an attribute": {`os.setxattr(P + "/model", "user.a", b"1")`, "change of the attributes of", "P/model",
			readOnly},
		"change an open file": {`os.fchmod(os.open(P + "/model", 0), 0o600)`, "change of the mode of", "P/model",
			readOnly},
		"connect": {`import socket; socket.socket(socket.AF_UNIX).connect("/srv/dvt/s")`, "connection to", "/srv/dvt/s",
			outside},
		"a hidden file":     {`open(P + "/token")`, "read of", "P/token", "the worker hides this path from every step"},
		"a link outside":    {`os.symlink("/srv/dvt/x", "l"); open("l")`, "read of", "W/l", `which leads to "/srv/dvt/x"`},
		"another process":   {`open("/proc/4000000/environ")`, "read of", "/proc/4000000/environ", "its own processes"},
		"the first process": {`os.readlink("/proc/1/root")`, "read of", "/proc/1/root", "its own processes"},
		"the kernel": {`open("/proc/self/oom_score_adj", "w")`, "write to", "/proc/self/oom_score_adj",
			"read-only /proc"},
		"a device": {`open("/dev/sda")`, "read of", "/dev/sda", "the sandbox has only the devices"},
	} {
		t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
			script := fmt.Sprintf(`
import os
P = %q
for name in os.listdir("."): os.remove(name)
try:
    %s
    print("succeeded")
except OSError as e: print(e)`, f.project, strings.ReplaceAll(c.script, "; ", "\n    "))
			r := f.python(script)
			if r.exit.Status != 0 || strings.Contains(r.output, "succeeded") {
				t.Fatalf("the program ended with %+v and %q, want a refusal", r.exit, r.output)
			}
			path := strings.NewReplacer("P", f.project, "W", f.workspace).Replace(c.path)
			lines := r.actions()
			if len(lines) != 1 || !strings.HasPrefix(lines[0], fmt.Sprintf("%s %q", c.kind, path)) ||
				!strings.Contains(lines[0], c.why) {
				t.Errorf("the log says %q, want one line about the %s %q with %q", lines, c.kind, path, c.why)
			}
		})
	}
}

func TestFiles_PermittedAccessesHaveNoLine(t *testing.T) {
	f := newFixture(t)
	scripts := map[string]string{
		"files that do not exist": `
cat absent project/absent /usr/absent /usr/absent/below /etc/absent.conf /tmp/absent /dev/shm/absent /proc/self/absent
rm -f absent /tmp/absent; mkdir / /usr /etc /proc /tmp "$HOME"; (: > /usr/absent/below); mkdir /etc/absent/below
test -e /srv/.profile; true`,
		"files of the step": `
mkdir -p a/b /tmp/c "$PWD/a/b"; echo x > a/b/f; mv a/b/f /tmp/c/; cp /tmp/c/f g; ln g h; ln -s g l; cat l
chmod 700 g; touch g; rm -rf a /tmp/c g h l; mkfifo p
ls -l / /dev /proc /tmp /usr; cat /proc/self/status /proc/mounts`,
		"the system": `getent passwd root; ls -l /etc /dev; id; date; echo x > /dev/null; head -c 1 /dev/zero`,
	}
	for name, script := range scripts {
		if r := f.shell(script + " > /dev/null 2>&1; true"); r.exit.Status != 0 || len(r.violations) > 0 {
			t.Errorf("%s: the program ended with %+v and the lines %q, want none", name, r.exit, r.actions())
		}
	}
	r := f.python(`
import json, ssl, sqlite3, asyncio, decimal, http.client, multiprocessing, subprocess, tempfile, os, shutil
sqlite3.connect("db").execute("create table t (a)")
os.makedirs("/tmp/a/b", exist_ok=True); os.makedirs("/tmp/a/b", exist_ok=True); shutil.rmtree("/tmp/a")
subprocess.check_output(["echo", "child"]); tempfile.NamedTemporaryFile().close(); os.cpu_count()`)
	if r.exit.Status != 0 || len(r.violations) > 0 {
		t.Errorf("Python ended with %+v, %q and the lines %q, want none", r.exit, r.output, r.actions())
	}
}

// The worker looks for a full file in the directories that a failed program may write. That is no access of the
// program, even where a path below is hidden from it.
func TestFiles_TheSearchAfterAFailureHasNoLine(t *testing.T) {
	f := newFixture(t)
	hidden := filepath.Join(f.workspace, "hidden")
	if err := os.MkdirAll(filepath.Join(hidden, "below"), 0o700); err != nil {
		t.Fatal(err)
	}
	runtime, err := sandbox.New(sandbox.Config{Worker: "test", DeniedPaths: []string{hidden}, Resolve: f.resolve})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := runtime.Close(); err != nil {
			t.Error(err)
		}
	})
	f.runtime = runtime
	if r := f.shell("exit 3"); r.exit.Status != 3 || len(r.violations) > 0 {
		t.Errorf("the program ended with %+v and the lines %q, want the status 3 and none", r.exit, r.actions())
	}
	if r := f.shell("ls " + hidden); len(r.violations) != 1 {
		t.Errorf("the program that read the hidden directory has the lines %q, want one", r.actions())
	}
}

// A step must not learn from its log whether a path outside exists.
func TestFiles_LinesDoNotSayWhetherAPathExists(t *testing.T) {
	f := newFixture(t)
	other := t.TempDir()
	if err := os.WriteFile(filepath.Join(other, "there"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	line := func(name string) string {
		r := f.shell("cat " + filepath.Join(other, name))
		if len(r.actions()) != 1 {
			t.Fatalf("the log says %q, want one line", r.actions())
		}
		return strings.ReplaceAll(r.actions()[0], name, "NAME")
	}
	if there, gone := line("there"), line("gone"); there != gone {
		t.Errorf("the log says %q of a file that exists and %q of one that does not", there, gone)
	}
}

func TestFiles_LinesAreBounded(t *testing.T) {
	f := newFixture(t)
	file, prefix := findPython(t)
	p := f.program(file, "-c", `
import socket
for name in ["/srv/dvt/same"] * 5 + [f"/srv/dvt/{i}" for i in range(200)]:
    try: open(name)
    except OSError: pass
try: socket.create_connection(("192.0.2.9", 80))
except OSError: pass`)
	p.Read = append(p.Read, prefix)
	r := f.run(p)
	lines := r.actions()
	if len(lines) != 40 || strings.Count(strings.Join(lines, "\n"), "same") != 1 ||
		!strings.HasPrefix(lines[39], "more files were refused") {
		t.Errorf("201 refused files have %d lines, the last %q; want 40, each path once, and a last line about the others",
			len(lines), lines[max(0, len(lines)-1):])
	}
	if last := r.violations[len(r.violations)-1]; last.Part != plan.SandboxConnect {
		t.Errorf("the last line is %+v, want the refused connection", last)
	}
}

func TestFiles_PathsAreMadeSafe(t *testing.T) {
	f := newFixture(t)
	r := f.python(`
for name in (b"/srv/a\x1b[31m\n\rb\x00"[:-1], b"/srv/\xff\xfe", "/srv/\u202egnp.exe".encode(),
        b"/srv" + b"/long" * 700):
    try: open(name)
    except OSError: pass`)
	lines := r.actions()
	if r.exit.Status != 0 || len(lines) != 4 {
		t.Fatalf("the program ended with %+v, %q and the lines %q, want four", r.exit, r.output, lines)
	}
	for _, line := range lines {
		unsafe := func(c rune) bool { return !unicode.IsPrint(c) }
		if !utf8.ValidString(line) || strings.ContainsFunc(line, unsafe) || len(line) > 3000 {
			t.Errorf("the line %q is not safe to show", line)
		}
	}
	if !strings.Contains(lines[0], `"/srv/a\x1b[31m\n\rb"`) {
		t.Errorf("the log says %q, want the path with escapes", lines[0])
	}
}

// A signal can reach a program while the worker reads its path.
func TestFiles_SignalsDoNotHang(t *testing.T) {
	f := newFixture(t)
	begin := time.Now()
	r := f.python(`
import os, signal, threading
count = 0
def handle(*_):
    global count
    count += 1
signal.signal(signal.SIGALRM, handle)
signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)
def work():
    for i in range(2000):
        try: os.close(os.open("/srv/dvt/%d" % (i % 10), os.O_RDONLY))
        except FileNotFoundError: pass
        os.close(os.open("/etc/passwd", os.O_RDONLY))
threads = [threading.Thread(target=work) for _ in range(3)]
[t.start() for t in threads]; work(); [t.join() for t in threads]
signal.setitimer(signal.ITIMER_REAL, 0)
print("done", count > 10)`)
	r.wantOutput(t, "done True")
	if took := time.Since(begin); took > 30*time.Second {
		t.Errorf("16,000 accesses with signals took %s", took)
	}
	if len(r.actions()) != 10 {
		t.Errorf("the log says %q, want a line for each of 10 paths", r.actions())
	}
}

func TestFiles_TenThousandAreOpenedInTime(t *testing.T) {
	f := newFixture(t)
	script := `
import os, sys, time
for i in range(10000): os.close(os.open(f"f{i}", os.O_CREAT | os.O_WRONLY, 0o600))
begin = time.perf_counter()
for i in range(10000): os.close(os.open(f"f{i}", os.O_RDONLY))
print(f"{(time.perf_counter() - begin) * 1000:.0f}")`
	r := f.python(script)
	took, err := time.ParseDuration(strings.TrimSpace(r.output) + "ms")
	if err != nil || r.exit.Status != 0 || len(r.violations) > 0 {
		t.Fatalf("the program ended with %+v, %q and %v", r.exit, r.output, r.violations)
	}
	t.Logf("10,000 files were opened in %s", took)
	if took > 10*time.Second { // about 0.2 s on a machine that does nothing else
		t.Errorf("10,000 files took %s to open, want less than 10 s", took)
	}
}

// A program can hide the paths of its calls from tracers.
func TestFiles_AreNamedWhenTheMemoryIsClosed(t *testing.T) {
	f := newFixture(t)
	r := f.python(`
import ctypes
assert ctypes.CDLL(None).prctl(4, 0, 0, 0, 0) == 0
try: open("/srv/dvt/x")
except OSError: print("refused")`)
	r.wantOutput(t, "refused")
	if lines := r.actions(); len(lines) != 1 || os.Geteuid() == 0 && !strings.Contains(lines[0], "/srv/dvt/x") {
		t.Errorf("the log says %q, want the path, or that the memory was closed", lines)
	}
}

func TestWithoutNamespaces_RefusedFilesAreNamed(t *testing.T) {
	f := newFixture(t)
	sandbox.WithoutNamespaces(f.runtime)
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	victim := fmt.Sprintf("/proc/%d/environ", os.Getpid())
	r := f.python(`
import os, sys
open("own", "w").close(); os.rename("own", "other"); os.remove("other"); open("/proc/self/maps").close()
secret, victim, project = sys.argv[1:]
for access in (lambda: open(secret), lambda: open(secret, "w"), lambda: open(victim), lambda: os.listdir("/srv"),
        lambda: os.mkdir(project + "/new"), lambda: open("/srv/dvt-absent", "x")):
    try:
        access()
        print("succeeded")
    except OSError: pass`, secret, victim, f.project)
	r.wantOutput(t, "")
	log := strings.Join(r.actions(), "\n")
	for _, want := range []string{
		fmt.Sprintf("read of %q", secret), fmt.Sprintf("write to %q", secret), fmt.Sprintf("read of %q", victim),
		`read of "/srv"`, fmt.Sprintf("creation of %q", filepath.Join(f.project, "new")), `creation of "/srv/dvt-absent"`,
	} {
		if !strings.Contains(log, want) {
			t.Errorf("the log does not say %q:\n%s", want, log)
		}
	}
	if len(r.actions()) != 6 {
		t.Errorf("the log has %d lines, want 6:\n%s", len(r.actions()), log)
	}
}

// rewritePath opens a path of the workspace while other threads write another path into the same memory.
func rewritePath(own, foreign string) error {
	if err := os.WriteFile(own, []byte("own"), 0o600); err != nil {
		return err
	}
	good, bad := append([]byte(own), 0), append([]byte(foreign), 0)
	shared := make([]byte, max(len(good), len(bad)))
	copy(shared, good)
	stop := make(chan struct{})
	defer close(stop)
	for range 2 {
		go func() {
			for {
				select {
				case <-stop:
					return
				default:
					copy(shared, bad)
					copy(shared, good)
				}
			}
		}()
	}
	at := int64(unix.AT_FDCWD)
	opened := 0
	for deadline := time.Now().Add(time.Second); time.Now().Before(deadline); {
		fd, _, errno := unix.Syscall6(unix.SYS_OPENAT, uintptr(at), uintptrOf(shared), unix.O_RDONLY, 0, 0, 0)
		if errno != 0 {
			continue
		}
		opened++
		text := make([]byte, 16)
		n, err := unix.Read(int(fd), text)
		_ = unix.Close(int(fd))
		if err == nil && strings.HasPrefix(string(text[:n]), "secret") {
			return nil
		}
	}
	return fmt.Errorf("of %d opened files none was the secret", opened)
}
