//go:build linux

package sandbox_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dvt-engine/dvt/sandbox"
)

// hide replaces the runtime by one that hides paths from every step.
func (f *fixture) hide(paths ...string) {
	f.t.Helper()
	runtime, err := sandbox.New(sandbox.Config{Worker: "test", DeniedPaths: paths, Resolve: f.resolve})
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() {
		if err := runtime.Close(); err != nil {
			f.t.Error(err)
		}
	})
	f.runtime = runtime
}

// The workspaces of dvt dev lie below its hidden data. Where no mount shows the data, the directories above a workspace
// exist in the private /tmp, and the kernel refuses nothing in them.
func TestFiles_DirectoriesAboveAWorkspaceInTmpHaveNoLine(t *testing.T) {
	f := newFixture(t)
	data := filepath.Join(filepath.Dir(f.workspace), "data")
	f.workspace = filepath.Join(data, "workspace", "run")
	if err := os.MkdirAll(f.workspace, 0o700); err != nil {
		t.Fatal(err)
	}
	f.hide(data, filepath.Join(data, "tokens"))
	script := fmt.Sprintf("cd %[1]s && ls . workspace && echo x > new && cat new && mkdir -p workspace/b && rm new", data)
	if r := f.shell(script); r.exit.Status != 0 || len(r.actions()) > 0 {
		t.Errorf("the program ended with %+v, %q and the lines %q, want success and none", r.exit, r.output, r.actions())
	}
	if r := f.shell("exit 3"); r.exit.Status != 3 || len(r.actions()) > 0 {
		t.Errorf("the program ended with %+v and the lines %q, want the status 3 and none", r.exit, r.actions())
	}
	r := f.shell(fmt.Sprintf("cat %[1]s/tokens %[1]s/dvt.db; true", data))
	if lines := r.actions(); len(lines) != 2 || !strings.Contains(lines[0], "the worker hides this path") ||
		!strings.Contains(lines[1], "the worker hides this path") {
		t.Errorf("two hidden files have the lines %q, want one each", lines)
	}
}

func TestFiles_OnePathHasOneLineInEachSpelling(t *testing.T) {
	f := newFixture(t)
	r := f.python(`
import os
for i in range(60):
    os.symlink("/srv/dvt/same", f"l{i}")
    for name in ("/srv" + "/" * i + "/dvt/" + "./" * i + "same", f"l{i}"):
        try: open(name)
        except OSError: pass
for name in ("/srv/dvt/same", "/srv/dvt/other"):
    try: open(name, "w")
    except OSError: pass
try: open("/srv/dvt/other")
except OSError: pass`)
	if lines := r.actions(); len(lines) != 4 {
		t.Errorf("two paths that are read and written have the lines %q, want four", lines)
	}
}

// Shells, ssh, git and psql open the terminal on their own, also for writing.
func TestFiles_ATerminalIsLookedForWithoutALine(t *testing.T) {
	script := "(exec 3<>/dev/tty); (: > /dev/tty); (: >> /dev/tty); cat /dev/tty; true"
	for _, without := range []bool{false, true} {
		f := newFixture(t)
		if without {
			sandbox.WithoutNamespaces(f.runtime)
		}
		if r := f.shell(script); r.exit.Status != 0 || len(r.actions()) > 0 {
			t.Errorf("the program ended with %+v, %q and the lines %q, want none", r.exit, r.output, r.actions())
		}
	}
}

func TestFiles_ParentsOfQuietPathsHaveALine(t *testing.T) {
	f := newFixture(t)
	r := f.python(`
import os
for name in ("/sys", "/sys/kernel", "/sys/fs/cgroup", "/sys/devices/system/cpu"):
    try: os.listdir(name)
    except OSError: pass`)
	if lines := r.actions(); len(lines) != 2 || !strings.HasPrefix(lines[0], `read of "/sys"`) ||
		!strings.HasPrefix(lines[1], `read of "/sys/kernel"`) {
		t.Errorf("the log says %q, want a line for /sys and one for /sys/kernel", lines)
	}
}

// The kernel gives no name to a removed directory, nor to one whose path is longer than 4,095 bytes.
func TestFiles_AreNamedFromDirectoriesWithoutAName(t *testing.T) {
	const up = `"../" * 30 + "srv/dvt/x"`
	for name, script := range map[string]string{
		"a long path":               "for i in range(20): os.mkdir('d' * 250); os.chdir('d' * 250)\nopen(" + up + ")",
		"a name that looks removed": "os.mkdir('q (deleted)'); os.chdir('q (deleted)')\nopen(" + up + ")",
		"a removed directory":       "os.mkdir('w'); os.chdir('w'); os.rmdir('/tmp/w')\nopen(" + up + ")",
		"a descriptor": "os.mkdir('w'); d = os.open('w', 0); os.rmdir('w')\nos.open(" + up +
			", 0, dir_fd=d)",
		"a link of the kernel": "os.mkdir('w'); os.chdir('w'); os.rmdir('/tmp/w')\nopen('/proc/self/cwd/' + " +
			up + ")",
		"a link that looks removed": "os.symlink('/srv/dvt/x', 'q (deleted)')\nopen('q (deleted)')",
		"a long path and an open of /proc": "for i in range(20): os.mkdir('d' * 250); os.chdir('d' * 250)\nopen(" +
			"'/proc/self/cwd/' + " + up + ")",
	} {
		t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
			f := newFixture(t)
			r := f.python("import os\nos.chdir('/tmp')\ndef attack():\n    " + strings.ReplaceAll(script, "\n", "\n    ") +
				"\ntry: attack()\nexcept OSError: print('refused')")
			r.wantOutput(t, "refused")
			if lines := r.actions(); len(lines) != 1 || !strings.Contains(lines[0], `"/srv/dvt/x"`) {
				t.Errorf("the log says %q, want one line about /srv/dvt/x", lines)
			}
		})
	}
}

// A removed directory and one with a long path are no refusals themselves.
func TestFiles_DirectoriesWithoutANameHaveNoLine(t *testing.T) {
	f := newFixture(t)
	r := f.python(`
import os
os.chdir("/tmp"); os.mkdir("w"); os.chdir("w"); os.rmdir("/tmp/w")
try: open("x", "w")
except OSError: pass
os.chdir("/tmp")
for i in range(20): os.mkdir("d" * 250); os.chdir("d" * 250)
open("x", "w").close(); os.rename("x", "y"); open("../" + "d" * 250 + "/y").close(); os.remove("y")
f = open("/tmp/z", "w"); os.remove("/tmp/z"); os.fchmod(f.fileno(), 0o600); open(f"/proc/self/fd/{f.fileno()}").close()
try: open("absent")
except OSError: print("done")`)
	r.wantOutput(t, "done")
	if lines := r.actions(); len(lines) > 0 {
		t.Errorf("the log says %q, want nothing", lines)
	}
}

// The kernel follows a link before "..".
func TestFiles_PathsAreNamedAsTheProgramWroteThem(t *testing.T) {
	f := newFixture(t)
	r := f.python(`
import os
os.symlink("/usr/lib", "/tmp/l")
for name in ("/tmp/l/../bin/zz", "/usr/lib/../bin/zy"):
    try: open(name, "w")
    except OSError: pass
try: open("/proc/-1/x")
except OSError: pass`)
	lines := r.actions()
	if len(lines) != 2 || !strings.HasPrefix(lines[0], `creation of "/tmp/l/../bin/zz", which leads to "/usr/bin/zz", `) ||
		!strings.HasPrefix(lines[1], `creation of "/usr/bin/zy" `) {
		t.Errorf("the log says %q, want /tmp/l/../bin/zz and /usr/bin/zy", lines)
	}
}

// The worker follows a path on its own processor, so a program must not choose how long that takes.
func TestFiles_LongPathsAreNotFollowedToTheirEnd(t *testing.T) {
	f := newFixture(t)
	r := f.python(`
import os, sys, time
os.chdir("/tmp")
for i in range(1000): os.mkdir("a"); os.chdir("a")
os.mkdir("b")
for i in range(41): os.symlink("b/../" * 800 + f"l{i + 1}", f"l{i}")
begin = time.perf_counter()
for i in range(5):
    try: open("l2")
    except OSError: print("refused")
print(f"{(time.perf_counter() - begin) * 1000:.0f}", file=sys.stderr)`)
	text, ok := strings.CutSuffix(r.output, "\n"+strings.Repeat("refused\n", 5)) // stdout follows at the end
	if lines := r.actions(); !ok || len(lines) != 1 || !strings.Contains(lines[0], "more than 512 components") {
		t.Errorf("the program ended with %+v, %q and the lines %q, want one line about long paths", r.exit, r.output, lines)
	}
	took, err := time.ParseDuration(text + "ms")
	if err != nil || took > 3*time.Second { // about 0.1 s
		t.Errorf("five paths through 38 links took %s (%v), want less than 3 s", took, err)
	}
}

// Nothing is refused, but sudo and su do not work as the author of the plan expects.
func TestFiles_ASetuidProgramHasANotice(t *testing.T) {
	f := newFixture(t)
	r := f.shell("for name in su passwd mount; do $(command -v $name) --help; done > /dev/null 2>&1; true")
	if len(r.violations) == 0 {
		t.Fatal("the log names no set-user-id program, and this system should have su, passwd or mount")
	}
	for _, v := range r.violations {
		if !v.Notice || !strings.Contains(v.Action, "runs without privileges") {
			t.Errorf("the log says %+v, want notices about set-user-id programs", v)
		}
	}
}

func TestFiles_ExplanationsHaveAnAllowance(t *testing.T) {
	begin, end := sandbox.NewAllowance()
	at, used := time.Now(), time.Duration(0)
	explain := func(wait, took time.Duration) bool {
		at = at.Add(wait)
		used += wait // the thread also works while nothing is explained
		if !begin(at, used) {
			return false
		}
		at, used = at.Add(took), used+took
		end(used)
		return true
	}
	if !explain(0, 0) || !explain(time.Hour, 9*time.Second) || !explain(0, 30*time.Second) {
		t.Error("a program that has used 9 s of 10 has no time left")
	}
	if explain(0, 0) || explain(100*time.Second, 0) { // the explanation pays 6 s of the debt of 21.2 s
		t.Error("a program that has used 39 s within 139 s has time left")
	}
	if !explain(10*time.Second, 0) {
		t.Error("a program that has used 39 s within 149 s has no time left")
	}
	total, began := time.Duration(0), at
	for at.Sub(began) < time.Hour {
		if explain(10*time.Millisecond, 300*time.Millisecond) {
			total += 300 * time.Millisecond
		}
	}
	if total < 11*time.Minute || total > 12*time.Minute+10*time.Second {
		t.Errorf("a program that goes on for an hour has used %s, want a fifth", total)
	}
}

func TestFiles_LinesSayWhoCanHelp(t *testing.T) {
	f := newFixture(t)
	const advice = "if the step needs it, list it in sandbox.read, or ask the operator for sandbox-read"
	if lines := f.shell("cat /srv/dvt/.ssh/id").actions(); len(lines) != 1 || !strings.HasSuffix(lines[0], advice) {
		t.Errorf("the log says %q, want the advice %q", lines, advice)
	}
	const write = "list it in sandbox.write, or ask the operator for sandbox-write"
	if lines := f.shell("echo > /srv/dvt/x").actions(); len(lines) != 1 || !strings.HasSuffix(lines[0], write) {
		t.Errorf("the log says %q, want the advice %q", lines, write)
	}
}

// No plan can permit a path that the worker hides, so the line must not advise to list it.
func TestWithoutNamespaces_HiddenPathsHaveNoAdvice(t *testing.T) {
	f := newFixture(t)
	tokens := filepath.Join(t.TempDir(), "tokens")
	if err := os.WriteFile(tokens, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	f.hide(tokens)
	sandbox.WithoutNamespaces(f.runtime)
	r := f.shell("cat " + tokens)
	if lines := r.actions(); r.exit.Status == 0 || len(lines) != 1 || !strings.Contains(lines[0],
		"the worker hides this path") {
		t.Errorf("the program ended with %+v and the lines %q, want one that the worker hides the path", r.exit, lines)
	}
}
