package executor_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dvt-engine/dvt/engine/executor"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/sandbox"
)

// isolated returns the process runtime of this machine. The test fails when the runtime cannot isolate.
func isolated(t *testing.T, denied ...string) sandbox.Runtime {
	t.Helper()
	r, err := sandbox.New(sandbox.Config{
		Worker: fmt.Sprintf("test-%d-%d", os.Getpid(), time.Now().UnixNano()), DeniedPaths: denied,
	})
	if err != nil {
		t.Fatalf("the process runtime cannot be opened: %v", err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Errorf("close the runtime: %v", err)
		}
	})
	for _, part := range []plan.SandboxPart{plan.SandboxFiles, plan.SandboxNetwork, plan.SandboxConnect,
		plan.SandboxProcesses} {
		if !r.Capabilities().Has(part) {
			t.Fatalf("this machine cannot enforce %s: %s", part, r.Capabilities().Missing[part])
		}
	}
	return r
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestSandbox_StepSeesOnlyItsProjectAndItsWorkspace(t *testing.T) {
	t.Parallel()
	outside, root := t.TempDir(), t.TempDir()
	write(t, filepath.Join(outside, "token"), "outside-secret")
	write(t, filepath.Join(root, "model.sql"), "select-of-the-project")
	write(t, filepath.Join(root, "data", "workspace", "neighbour", "result"), "neighbour-secret")
	write(t, filepath.Join(root, "data", "tokens"), "token-secret")
	if err := os.Mkdir(filepath.Join(root, "out"), 0o700); err != nil {
		t.Fatal(err)
	}
	data := filepath.Join(root, "data")
	j := newJournal(t, plan.Command, sh(`
grep -rs -e -secret "$1" "$2" .. /proc/*/environ /root /home && echo FOUND
cat "$2/model.sql"; echo
echo kept > result && cat result
echo changed > "$2/model.sql" 2>/dev/null && echo PROJECT-CHANGED
echo named > "$2/out/file" && cat "$2/out/file"
exit 0`, outside, root))
	j.step.Sandbox = &plan.Sandbox{Write: []string{"out"}}
	r := worker(t, j, executor.Config{Sandbox: isolated(t, data), Hidden: []string{data}})
	r.ProjectRoot, r.WorkspaceRoot = root, filepath.Join(data, "workspace")
	if end := execute(t, t.Context(), r); end.Completed == nil {
		t.Fatalf("the step failed: %+v\n%s", end.Failed, j.log())
	}
	if diff := cmp.Diff("output: select-of-the-project\noutput: kept\noutput: named\n",
		strings.ReplaceAll(j.log(), "stderr: ", "")); diff != "" &&
		(strings.Contains(j.log(), "FOUND") || strings.Contains(j.log(), "CHANGED") ||
			!strings.Contains(j.log(), "output: named\n")) {
		t.Errorf("the step's output (-want +got):\n%s", diff)
	}
	if text, err := os.ReadFile(filepath.Join(data, "workspace", identity.RunID, "result")); err != nil ||
		string(text) != "kept\n" {
		t.Errorf("the workspace contains %q, error %v; want the file of the step", text, err)
	}
}

func TestSandbox_RefusesPathsThatAPlanMayNotName(t *testing.T) {
	t.Parallel()
	outside, root := t.TempDir(), t.TempDir()
	write(t, filepath.Join(root, "data", "tokens"), "secret")
	write(t, filepath.Join(root, "sub", "file"), "x")
	write(t, filepath.Join(outside, "shared", "file"), "x")
	if err := os.Symlink(outside, filepath.Join(root, "link")); err != nil {
		t.Fatal(err)
	}
	shared := filepath.Join(outside, "shared")
	for name, c := range map[string]struct {
		read, write string
		cfg         executor.Config
		code        string // empty: the step completes
	}{
		"read below the project":  {read: "sub"},
		"write below the project": {write: "sub"},
		"read elsewhere":          {read: outside, code: executor.CodeDirNotAllowed},
		"write elsewhere":         {write: outside, code: executor.CodeDirNotAllowed},
		"write through a link":    {write: "link", code: executor.CodeDirNotAllowed},
		"read by dots":            {read: "sub/../../", code: executor.CodeDirNotAllowed},
		"read a hidden path":      {read: "data/tokens", code: executor.CodeDirNotAllowed},
		"read a hidden path, any dir": {read: "data/tokens", cfg: executor.Config{AllowAnyDir: true},
			code: executor.CodeDirNotAllowed},
		"read elsewhere, any dir":     {read: outside, cfg: executor.Config{AllowAnyDir: true}},
		"write below an allowed root": {write: shared, cfg: executor.Config{AllowedRoots: []string{outside}}},
		"read a path of every step":   {read: shared, cfg: executor.Config{Read: []string{outside}}},
		"write a readable path": {write: shared, cfg: executor.Config{Read: []string{outside}},
			code: executor.CodeDirNotAllowed},
		"read a missing path":                   {read: "absent", code: executor.CodeDirNotFound},
		"read the system's root":                {read: "/", code: executor.CodeDirNotAllowed},
		"read the processes of the machine":     {read: "/proc", code: executor.CodeDirNotAllowed},
		"write the directory of all workspaces": {write: "..", code: executor.CodeDirNotAllowed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := newJournal(t, plan.Command, sh("exit 0"))
			j.step.Sandbox = &plan.Sandbox{}
			if c.read != "" {
				j.step.Sandbox.Read = []string{c.read}
			}
			if c.write != "" {
				j.step.Sandbox.Write = []string{c.write}
			}
			c.cfg.Hidden = []string{filepath.Join(root, "data")}
			r := worker(t, j, c.cfg)
			r.ProjectRoot = root
			end := execute(t, t.Context(), r)
			if c.code != "" {
				wantFailed(t, end, c.code, c.code == executor.CodeDirNotFound)
			} else if end.Completed == nil {
				t.Errorf("the step failed: %+v", end.Failed)
			}
		})
	}
}

func TestSandbox_LimitsBecomeFailuresWithCodes(t *testing.T) {
	t.Parallel()
	box := isolated(t)
	for name, c := range map[string]struct {
		asked     plan.Sandbox
		part      plan.SandboxPart
		script    string
		code      run.Code
		category  run.Category
		retryable bool
		says      []string
	}{
		"memory": {
			plan.Sandbox{Memory: 64 << 20}, plan.SandboxMemory, `exec perl -e '$x = "x" x 200_000_000; sleep 5; exit 3'`,
			run.CodeStepOOM, run.CategorySystem, true, []string{"64Mi", "sandbox.memory", "sandbox-memory"},
		},
		"processes": {
			plan.Sandbox{PIDs: 10}, plan.SandboxPIDs,
			`exec perl -e 'for (1..60) { my $p = fork; exit 7 unless defined $p; if (!$p) { sleep 5; exit } }'`,
			run.CodeStepProcessLimit, run.CategoryUser, false, []string{"10 processes", "sandbox.pids", "sandbox-pids"},
		},
		"disk": {
			plan.Sandbox{Disk: 1 << 20}, "", "exec dd if=/dev/zero of=big bs=65536 count=64",
			run.CodeStepDiskLimit, run.CategoryUser, false, []string{"1Mi", "sandbox.disk", "sandbox-disk"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if c.part != "" && !box.Capabilities().Has(c.part) {
				t.Fatalf("this machine cannot bound %s: %s", c.part, box.Capabilities().Missing[c.part])
			}
			j := newJournal(t, plan.Command, sh(c.script))
			j.step.Sandbox = &c.asked
			end := execute(t, t.Context(), worker(t, j, executor.Config{Sandbox: box}))
			wantFailed(t, end, string(c.code), c.retryable)
			if end.Failed == nil {
				return
			}
			if end.Failed.FailureCategory != c.category {
				t.Errorf("the category is %s, want %s", end.Failed.FailureCategory, c.category)
			}
			for _, want := range c.says {
				if !strings.Contains(end.Failed.ErrorMessage, want) {
					t.Errorf("the message %q lacks %q", end.Failed.ErrorMessage, want)
				}
			}
		})
	}
}

// The worker counts refused actions only, and each line says once that something was refused.
func TestSandbox_NoticesAreNotCounted(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var violations []executor.Violation
	j := newJournal(t, plan.Command, plan.CommandInputs{Argv: []string{"sh", "-c", "su --help; cat /srv/dvt/x; true"}})
	r := worker(t, j, executor.Config{Sandbox: isolated(t), Violation: func(v executor.Violation) {
		mu.Lock()
		defer mu.Unlock()
		violations = append(violations, v)
	}})
	if end := execute(t, t.Context(), r); end.Completed == nil {
		t.Fatalf("the step failed: %+v\n%s", end.Failed, j.log())
	}
	log := j.log()
	for _, want := range []string{"dvt: sandbox (syscalls): \"", "runs without privileges",
		`dvt: sandbox (files): read of "/srv/dvt/x" was refused: it is outside`} {
		if !strings.Contains(log, want) {
			t.Errorf("the log of the step does not say %q:\n%s", want, log)
		}
	}
	if len(violations) != 1 || violations[0].Part != plan.SandboxFiles {
		t.Errorf("the worker received %+v, want the refused file alone", violations)
	}
}

func TestSandbox_RefusedConnectionsNameTheSetting(t *testing.T) {
	t.Parallel()
	own := netip.MustParseAddrPort("203.0.113.7:7233")
	var mu sync.Mutex
	var violations []executor.Violation
	j := newJournal(t, plan.Command, plan.CommandInputs{Argv: []string{"perl", "-MIO::Socket::INET", "-e",
		`for (@ARGV) { print IO::Socket::INET->new(PeerAddr => $_, Timeout => 3) ? "reached $_\n" : "refused $_\n" }`,
		"10.255.255.1:5432", own.String(), "169.254.169.254:80"}})
	r := worker(t, j, executor.Config{
		Sandbox: isolated(t), Own: func(a netip.AddrPort) bool { return a == own },
		Violation: func(v executor.Violation) {
			mu.Lock()
			defer mu.Unlock()
			violations = append(violations, v)
		},
	})
	if end := execute(t, t.Context(), r); end.Completed == nil {
		t.Fatalf("the step failed: %+v\n%s", end.Failed, j.log())
	}
	log := j.log()
	if strings.Contains(log, "reached") {
		t.Errorf("a refused address was reached:\n%s", log)
	}
	for _, want := range []string{
		"dvt: sandbox (connect): connect to 10.255.255.1:5432 was refused",
		"the setting `egress` of the worker must allow it for the tenant \"t1\"",
		"connect to 203.0.113.7:7233 was refused", "it belongs to dvt itself", "connect to 169.254.169.254:80 was refused",
	} {
		if !strings.Contains(log, want) {
			t.Errorf("the log of the step does not say %q:\n%s", want, log)
		}
	}
	if len(violations) != 3 || violations[0].TenantID != "t1" || violations[0].StepID != "s1" {
		t.Errorf("the worker received %+v, want three violations of the step", violations)
	}
}

// A program that left its group and its session ends with its step.
func TestSandbox_NothingOutlivesTheStep(t *testing.T) {
	t.Parallel()
	mark := fmt.Sprint(4_000_000 + os.Getpid())
	j := newJournal(t, plan.Command, sh("setsid sleep "+mark+" >/dev/null 2>&1 & sleep 1"))
	if end := execute(t, t.Context(), worker(t, j, executor.Config{Sandbox: isolated(t)})); end.Completed == nil {
		t.Fatalf("the step failed: %+v", end.Failed)
	}
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if line, err := os.ReadFile(f); err == nil && string(line) == "sleep\x00"+mark+"\x00" {
			t.Errorf("%s outlived its step", filepath.Dir(f))
		}
	}
}

func TestSandbox_MissingPartsAreAFailureOfThePlatform(t *testing.T) {
	t.Parallel()
	j := newJournal(t, plan.Command, sh("touch ran"))
	j.step.Sandbox = &plan.Sandbox{Require: []plan.SandboxPart{plan.SandboxNetwork}}
	r := worker(t, j, executor.Config{})
	end := execute(t, t.Context(), r)
	wantFailed(t, end, string(run.CodeNoSandbox), true)
	if end.Failed != nil && (end.Failed.FailureCategory != run.CategoryPlatform ||
		!strings.Contains(end.Failed.ErrorMessage, "network (")) {
		t.Errorf("the failure is %+v, want one of the platform that names the part network", end.Failed)
	}
	if _, err := os.Stat(filepath.Join(r.WorkspaceRoot, identity.RunID, "ran")); err == nil {
		t.Error("the program ran")
	}
}

// recordingRuntime records the programs that it is asked to start, and starts none.
type recordingRuntime struct {
	sandbox.Runtime
	programs []sandbox.Program
}

func (r *recordingRuntime) Start(_ context.Context, p sandbox.Program) (sandbox.Process, error) {
	r.programs = append(r.programs, p)
	return nil, sandbox.ErrProgram
}

func TestSandbox_WorkerBoundsTheLimitsOfAStep(t *testing.T) {
	t.Parallel()
	box := &recordingRuntime{Runtime: executor.Plain()}
	j := newJournal(t, plan.Command, sh("exit 0"))
	j.step.Sandbox = &plan.Sandbox{Memory: 16 << 30, PIDs: 7, Connect: []string{"db.example.com:5432"}}
	r := worker(t, j, executor.Config{
		Sandbox: box, Limits: sandbox.Limits{Memory: 1 << 30, CPU: 2, PIDs: 256, Disk: 5},
		MaxLimits: sandbox.Limits{Memory: 8 << 30, CPU: 4, PIDs: 512},
	})
	execute(t, t.Context(), r)
	if len(box.programs) != 1 {
		t.Fatalf("%d programs were started, want 1", len(box.programs))
	}
	p := box.programs[0]
	if diff := cmp.Diff(sandbox.Limits{Memory: 8 << 30, CPU: 2, PIDs: 7, Disk: 5}, p.Limits); diff != "" {
		t.Errorf("limits (-want +got):\n%s", diff)
	}
	if want := "sandbox.memory: the step asks for 16Gi; this worker gives at most 8Gi"; !strings.Contains(j.log(), want) {
		t.Errorf("the log of the step does not say %q:\n%s", want, j.log())
	}
	if !slices.Equal(p.Connect, []string{"db.example.com:5432"}) {
		t.Errorf("the connections are %v, want those of the step", p.Connect)
	}
}

// dbt needs only its own installation, the project and a directory for the database in the sandbox.
func TestSandbox_DBTRunsUnchanged(t *testing.T) {
	t.Parallel()
	bin, project, data := dbtBin(t), t.TempDir(), t.TempDir()
	if err := os.CopyFS(filepath.Join(project, "shop"),
		os.DirFS(filepath.Join(repository(t), "examples", "shop"))); err != nil {
		t.Fatal(err)
	}
	j := newJournal(t, plan.DBTRun, struct{}{})
	r := worker(t, j, executor.Config{DBTPath: filepath.Join(bin, "dbt"), Sandbox: isolated(t), Write: []string{data}})
	r.ProjectRoot = project
	end, sum := dbtStep(
		t, r, j, plan.DBTRun, plan.DBTInputs{ProjectDir: "shop", Vars: json.RawMessage(fmt.Sprintf(`{"shop_dir":%q}`, data))})
	if end.Completed == nil || sum.Models["success"] == 0 {
		t.Fatalf("dbt in the sandbox: %+v, models %v\n%s", end.Failed, sum.Models, j.log())
	}
	if strings.Contains(j.log(), "the sandbox refused") {
		t.Errorf("the log names refused actions of an ordinary run of dbt:\n%s", j.log())
	}
	if kinds := storedKinds(t, j, end.Completed.ArtifactRefs); !cmp.Equal(kinds,
		[]string{"dbt-manifest", "dbt-run-results"}) {
		t.Errorf("the step stored the artifacts %v, want dbt-manifest and dbt-run-results", kinds)
	}
}
