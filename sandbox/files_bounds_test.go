//go:build linux

package sandbox_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/sandbox"
)

// The kernel answers an open of such a path at its first missing component. The worker must not follow the others.
func TestFiles_MissingPathsAreNotFollowedToTheirEnd(t *testing.T) {
	f := newFixture(t)
	r := f.python(`
import os, time
os.chdir("/tmp")
for i in range(39): os.symlink((f"l{i + 1}" + "/a" * 2048)[:4095], f"l{i}")
os.symlink(("none" + "/a" * 2048)[:4095], "l39")
begin = time.perf_counter()
for i in range(5):
    try: open("l0")
    except OSError: pass
print(f"{(time.perf_counter() - begin) * 1000:.1f}")`)
	if len(r.violations) != 1 || !strings.Contains(r.violations[0].Action, "more than 512 components") {
		t.Errorf("the program ended with %+v, %q and the lines %q, want one line about long paths", r.exit, r.output,
			r.actions())
	}
	took, err := time.ParseDuration(strings.TrimSpace(r.output) + "ms")
	t.Logf("five opens took %s", took)
	if err != nil || took > 2*time.Second { // about 5 ms
		t.Errorf("five opens of a path with 80,000 missing components took %s (%v), want less than 2 s", took, err)
	}
}

// The kernel resolves /proc/PID without a look at the ancestors of the process.
func TestWithoutNamespaces_AncestorsOfProcessesAreReadOnce(t *testing.T) {
	f := newFixture(t)
	sandbox.WithoutNamespaces(f.runtime)
	r := f.python(`
import os, time
for i in range(40): # a chain of processes; the last one opens the path
    if pid := os.fork():
        os.waitpid(pid, 0)
        os._exit(0)
begin = time.perf_counter()
for i in range(5): open("/proc/" + f"{os.getpid()}/../" * 250 + "self/stat").close()
print(f"{(time.perf_counter() - begin) * 1000:.0f}", flush=True)`)
	took, err := time.ParseDuration(strings.TrimSpace(r.output) + "ms")
	t.Logf("five opens took %s", took)
	if err != nil || len(r.violations) > 0 || took > time.Second { // about 30 ms
		t.Errorf("five opens by a process with 40 ancestors took %s (%v) with the lines %q, want less than 1 s and none",
			took, err, r.actions())
	}
}

// One thread of the worker explains all calls. Run with -race, this test fails when another one does.
func TestFiles_ConnectsAndOpensAtOnceHaveALine(t *testing.T) {
	f := newFixture(t)
	r := f.python(`
import socket, threading
def work():
    for i in range(50):
        try: socket.socket(socket.AF_UNIX).connect("/srv/dvt/s")
        except OSError: pass
        try: open("/srv/dvt/x")
        except OSError: pass
threads = [threading.Thread(target=work) for _ in range(8)]
[t.start() for t in threads]; [t.join() for t in threads]
print("done")`)
	r.wantOutput(t, "done")
	lines := r.actions()
	slices.Sort(lines)
	if len(lines) != 2 || !strings.HasPrefix(lines[0], `connection to "/srv/dvt/s"`) ||
		!strings.HasPrefix(lines[1], `read of "/srv/dvt/x"`) {
		t.Errorf("the log says %q, want a line for the socket and one for the file", lines)
	}
}

// An operator counts refusals. These lines only say that the log is incomplete.
func TestFiles_LinesAboutMissingLinesAreNotices(t *testing.T) {
	f := newFixture(t)
	got := f.python(`
try: open("/srv/" + "a/" * 600)
except OSError: pass`).violations
	sandbox.ReportUnexplained(func(v sandbox.Violation) { got = append(got, v) })
	if len(got) != 3 {
		t.Fatalf("a long path, a program without time and one with closed memory have the lines %+v, want three", got)
	}
	for _, v := range got {
		if !v.Notice {
			t.Errorf("the line %q counts as a refusal, want a notice", v.Action)
		}
	}
}

func TestViolations_TheLastSaysThatMoreWereRefused(t *testing.T) {
	f := newFixture(t)
	r := f.python(`
import socket
for i in range(70):
    try: socket.create_connection(("192.0.2.9", 1000 + i))
    except OSError: pass
for i in range(60):
    try: open(f"/srv/dvt/{i}")
    except OSError: pass`)
	if len(r.violations) != sandbox.MaxViolations {
		t.Fatalf("130 refusals gave %d lines, want %d", len(r.violations), sandbox.MaxViolations)
	}
	last := r.violations[sandbox.MaxViolations-1]
	if !strings.HasPrefix(last.Action, "more actions were refused") || last.Notice {
		t.Errorf("the last line is %+v, want one that more actions were refused", last)
	}
}

func TestFiles_RemovalsOfDevicesHaveALine(t *testing.T) {
	f := newFixture(t)
	r := f.python(`
import os
for access in (lambda: os.remove("/dev/null"), lambda: os.rename("/dev/zero", "/dev/x")):
    try: access(); print("succeeded")
    except OSError: pass
open("/dev/null", "w").write("x")`)
	r.wantOutput(t, "")
	if lines := r.actions(); len(lines) != 2 || !strings.HasPrefix(lines[0], `removal of "/dev/null" was refused`) ||
		!strings.HasPrefix(lines[1], `rename of "/dev/zero" was refused`) {
		t.Errorf("the log says %q, want a removal and a rename", lines)
	}
}

func TestFiles_EachKindOfAccessToAFileHasALine(t *testing.T) {
	f := newFixture(t)
	r := f.python(`
import os
open("x", "w").close()
for i in range(3):
    for access in (lambda: os.chown("x", 12345, -1), lambda: os.truncate("x", 1 << 40)):
        try: access(); print("succeeded")
        except OSError: pass`)
	r.wantOutput(t, "")
	name := filepath.Join(f.workspace, "x")
	if lines := r.actions(); len(lines) != 2 ||
		!strings.HasPrefix(lines[0], fmt.Sprintf("change of the owner of %q", name)) ||
		!strings.HasPrefix(lines[1], fmt.Sprintf("truncation of %q", name)) || r.violations[0].Part != plan.SandboxFiles {
		t.Errorf("the log says %q, want a change of the owner and a truncation", lines)
	}
}

// A worker that is root may read every directory, a program of a step may not. The log must not tell the program more.
func TestFiles_ALinkInAForeignDirectoryIsNotFollowed(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can make a directory of another user")
	}
	f := newFixture(t)
	dir := filepath.Join(f.workspace, "private")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Symlink("/srv/dvt/target", filepath.Join(dir, "link")), os.Chown(dir, 65534,
		65534)); err != nil {
		t.Fatal(err)
	}
	r := f.shell("cat private/link; mkdir private/link/x; true")
	for _, line := range r.actions() {
		if strings.Contains(line, "/srv/dvt/target") {
			t.Errorf("the log says %q, which names the target of a link that the program cannot read", line)
		}
	}
	if !strings.Contains(r.output, "Permission denied") {
		t.Errorf("the program printed %q, want Permission denied", r.output)
	}
}
