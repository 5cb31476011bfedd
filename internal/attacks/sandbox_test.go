package attacks_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

// queueSandbox is served by a worker whose token is in a file and whose project is its own.
const queueSandbox = "tq-sandbox"

// fileToken is the token of that worker.
const fileToken = "a-data-worker-with-a-token-in-a-file"

// attackedWorker is a data worker whose steps attack it.
type attackedWorker struct {
	*world
	worker *process
	token  string // the file of the worker's token
}

// startAttackedWorker starts the worker. Its tests must not run in parallel, because they share its queue.
// DVT_ATTACKS_SANDBOX=none shows how the attacks end without a sandbox.
func startAttackedWorker(t *testing.T, settings ...string) *attackedWorker {
	return startAttackedWorkerAs(t, nil, settings...)
}

// startAttackedWorkerAs starts the worker as another user; nil means the user of the test.
func startAttackedWorkerAs(t *testing.T, user *syscall.Credential, settings ...string) *attackedWorker {
	t.Helper()
	w := installation(t)
	//nolint:usetesting // another user must reach it, which the modes of t.TempDir prevent
	dir, err := os.MkdirTemp("", "dvt-prison-")
	must(t, err)
	t.Cleanup(func() { must(t, os.RemoveAll(dir)) })
	p := &attackedWorker{world: w, token: filepath.Join(dir, "secrets", "token")}
	project := filepath.Join(dir, "project")
	for _, d := range []string{project, filepath.Dir(p.token), filepath.Join(project, "data", "workspace", "neighbour")} {
		must(t, os.MkdirAll(d, 0o700))
	}
	must(t, os.WriteFile(p.token, []byte(fileToken+"\n"), 0o600))
	must(t, os.WriteFile(filepath.Join(project, "data", "workspace", "neighbour", "result.txt"),
		[]byte("a-neighbours-secret"), 0o600))
	must(t, os.Chmod(filepath.Join(project, "data", "workspace"), 0o755))
	args := []string{
		"worker", "--queues", queueSandbox, "--temporal", w.frontend, "--temporal-namespace", w.namespace, "--server", w.url,
		"--workspace", filepath.Join(project, "data", "workspace"), "--project-root", project, "--worker-token-file", p.token,
		"--allow-private",
	}
	if kind := os.Getenv("DVT_ATTACKS_SANDBOX"); kind != "" {
		args = append(args, "--sandbox-runtime", kind)
	}
	if user != nil {
		must(t, os.Chmod(w.dir, 0o755)) // its working directory
		must(t, filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
			return errors.Join(err, os.Lchown(path, int(user.Uid), int(user.Gid)))
		}))
	}
	p.worker, err = w.spawnAs(user, "sandboxed worker", nil, append(args, settings...)...)
	must(t, err)
	t.Cleanup(p.worker.kill)
	return p
}

// attack runs a program as a step and returns its output.
func (p *attackedWorker) attack(t *testing.T, argv ...string) string {
	t.Helper()
	runID := p.startRun(t, operator, "shop", command("a", queueSandbox, argv...))
	p.expectEnd(t, operator, runID, "COMPLETED", time.Minute)
	return p.readStepLog(t, runID, "a")
}

// Each attack is a program that prints BROKEN-OUT when it reaches its target.
func TestSandbox_ProgramsOfStepsReachNothingOfTheWorker(t *testing.T) {
	p := startAttackedWorker(t)
	pid := fmt.Sprint(p.worker.cmd.Process.Pid)
	ptrace := map[string]string{"amd64": "101", "arm64": "117"}[runtime.GOARCH]
	api := strings.TrimPrefix(p.url, "http://")
	mark := fmt.Sprint(6_000_000 + os.Getpid())
	broken := `&& echo BROKEN-OUT; true`
	for name, argv := range map[string][]string{
		"the environments of all processes": {"sh", "-c",
			`cat /proc/*/environ 2>/dev/null | tr '\0' '\n' | grep -q -e "$1" -e DVT_WORKER ` + broken, "sh", fileToken},
		"the file of the token":        {"sh", "-c", `grep -qs "$2" "$1" ` + broken, "sh", p.token, fileToken},
		"the workspaces of other runs": {"sh", "-c", `grep -rqs a-neighbours-secret .. ` + broken},
		"the workspaces by their path": {"sh", "-c", `grep -rqs a-neighbours-secret "$1" ` + broken, "sh",
			filepath.Dir(filepath.Dir(p.token))},
		"the memory of the worker": {"sh", "-c", `head -c 1 /proc/$1/maps 2>/dev/null | grep -q . ` + broken, "sh",
			pid},
		"the open files of the parent": {"sh", "-c", `ls -l /proc/$PPID/fd/ 2>/dev/null | grep -q socket ` + broken},
		"tracing the worker": {"perl", "-e",
			`print "BROKEN-OUT\n" if syscall($ARGV[1], 0x4206, $ARGV[0] + 0, 0, 0) == 0`, pid, ptrace},
		"a signal to the worker": {"sh", "-c", `kill -0 "$1" 2>/dev/null ` + broken, "sh", pid},
		"Temporal and the Journal": {"perl", "-MIO::Socket::INET", "-e",
			`for (@ARGV) { print "BROKEN-OUT $_\n" if IO::Socket::INET->new(PeerAddr => $_, Timeout => 5) }`, p.frontend, api},
		"Temporal by the address 0.0.0.0": {"perl", "-MIO::Socket::INET", "-e",
			`for (@ARGV) { s/127\.0\.0\.1/0.0.0.0/; print "BROKEN-OUT $_\n" if IO::Socket::INET->new(PeerAddr => $_, Timeout => 5) }`, p.frontend, api},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if log := p.attack(t, argv...); strings.Contains(log, "BROKEN-OUT") {
				t.Errorf("the program reached its target: %s", log)
			}
		})
	}
	t.Run("a process that outlives its step", func(t *testing.T) {
		t.Parallel()
		p.attack(t, "sh", "-c", "setsid sleep "+mark+" >/dev/null 2>&1 & sleep 1")
		for _, survivor := range findProcesses("sleep\x00" + mark + "\x00") {
			t.Errorf("process %d outlived its step", survivor.Pid)
			_ = survivor.Kill()
		}
	})
}

// unprivilegedUser returns the user nobody when the test runs as root. Otherwise it returns nil, the user of the test.
func unprivilegedUser() *syscall.Credential {
	if os.Getuid() != 0 {
		return nil
	}
	return &syscall.Credential{Uid: 65534, Gid: 65534}
}

// A worker protects its memory from processes of its own user, even when it runs programs without a sandbox.
func TestWorker_ClosesItsMemoryToItsOwnUser(t *testing.T) {
	p := startAttackedWorkerAs(t, unprivilegedUser(), "--sandbox-runtime", "none")
	pid := fmt.Sprint(p.worker.cmd.Process.Pid)
	ptrace := map[string]string{"amd64": "101", "arm64": "117"}[runtime.GOARCH]
	for name, argv := range map[string][]string{
		"its environment": {"sh", "-c", `head -c 1 /proc/$1/environ 2>/dev/null | grep -q . && echo BROKEN-OUT; true`, "sh",
			pid},
		"its memory": {"sh", "-c", `head -c 1 /proc/$1/maps 2>/dev/null | grep -q . && echo BROKEN-OUT; true`, "sh",
			pid},
		"its open files": {"sh", "-c", `ls /proc/$1/fd/ 2>/dev/null | grep -q . && echo BROKEN-OUT; true`, "sh", pid},
		"tracing it": {"perl", "-e", `print "BROKEN-OUT\n" if syscall($ARGV[1], 0x4206, $ARGV[0] + 0, 0, 0) == 0`, pid,
			ptrace},
	} {
		t.Run(name, func(t *testing.T) {
			if log := p.attack(t, argv...); strings.Contains(log, "BROKEN-OUT") {
				t.Errorf("a process of the same user reached the target: %s", log)
			}
		})
	}
}

// The shim of a sandbox executes the worker's own file. It must start although the worker protects itself from its
// user.
func TestSandbox_WorksForAWorkerWithoutPrivileges(t *testing.T) {
	p := startAttackedWorkerAs(t, unprivilegedUser(), "--sandbox-allow-missing", "syscalls")
	if log := p.attack(
		t, "sh", "-c", `echo kept > file && cat file; grep -qs "$2" "$1" && echo BROKEN-OUT; ls /proc | grep -c '^[0-9]'`,
		"sh", p.token, fileToken); !strings.Contains(log, "kept") || strings.Contains(log, "BROKEN-OUT") {
		t.Errorf("the program printed %s, want its file and no token", log)
	}
}

// findProcesses returns the processes of this machine with this command line. Arguments end with NUL.
func findProcesses(cmdline string) (out []*os.Process) {
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, f := range files {
		line, err := os.ReadFile(f)
		if err != nil || string(line) != cmdline {
			continue
		}
		var pid int
		if _, err := fmt.Sscanf(filepath.Base(filepath.Dir(f)), "%d", &pid); err == nil {
			if found, err := os.FindProcess(pid); err == nil {
				out = append(out, found)
			}
		}
	}
	return out
}

func TestSandbox_ViolationsAreNamedInTheStepsLogAndTheWorkersLog(t *testing.T) {
	p := startAttackedWorker(t)
	log := p.attack(t, "perl", "-MIO::Socket::INET", "-e",
		`IO::Socket::INET->new(PeerAddr => "169.254.169.254:80", Timeout => 5); print "done\n"`)
	want := "connect to 169.254.169.254:80 was refused"
	if !strings.Contains(log, want) || !strings.Contains(log, "`egress`") {
		t.Errorf("the log of the step does not name the attempt: %s", log)
	}
	if out := p.worker.output(); !strings.Contains(out, want) || !strings.Contains(out, `"tenantId":"acme"`) {
		t.Errorf("the log of the worker does not name the attempt: %s", out)
	}
}

// A worker removes the access of other users from existing workspaces when it starts.
func TestSandbox_WorkspacesAreClosedToOthers(t *testing.T) {
	p := startAttackedWorker(t)
	p.attack(t, "true")
	root := filepath.Join(filepath.Dir(filepath.Dir(p.token)), "project", "data", "workspace")
	dirs, err := filepath.Glob(filepath.Join(root, "*"))
	must(t, err)
	if len(dirs) < 2 {
		t.Errorf("%d workspaces, want those of a neighbour and of the run", len(dirs))
	}
	for _, dir := range append(dirs, root) {
		info, err := os.Stat(dir)
		must(t, err)
		if info.Mode().Perm() != 0o700 {
			t.Errorf("%s has the mode %o, want 0700", dir, info.Mode().Perm())
		}
	}
}
