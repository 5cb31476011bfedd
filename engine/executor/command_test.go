package executor_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/engine/executor"
	"github.com/dvt-engine/dvt/internal/testtime"
	"github.com/dvt-engine/dvt/plan"
)

func sh(script string, args ...string) plan.CommandInputs {
	return plan.CommandInputs{Argv: append([]string{"sh", "-c", script, "sh"}, args...)}
}

// contract: O13
func TestCommand_GetsTheAllowedEnvironmentAndNoShell(t *testing.T) {
	t.Setenv("DVT_TEST_CANARY", "not for steps")
	in := plan.CommandInputs{Argv: []string{"env"}, Env: map[string]string{"OWN": "of the step",
		"API_TOKEN": "canary-4711"}}
	j := newJournal(t, plan.Command, in)
	j.parent = "00-c91ebccbcb1f7f55a71151888bd71bb6-05d5d8e132a58249-01"
	r := worker(t, j, executor.Config{Env: map[string]string{"EXTRA": "of the worker"}})
	end := execute(t, t.Context(), r)
	if end.Completed == nil || string(end.Completed.Result) != `{"exitStatus":0}` {
		t.Fatalf("end %+v, failure %+v; want a completion with exit status 0", end, end.Failed)
	}
	log := j.log()
	for _, want := range []string{"OWN=of the step\n", "EXTRA=of the worker\n", "PATH=", "DVT_RUN_ID=" + identity.RunID +
		"\n",
		"DVT_IDEMPOTENCY_KEY=" + identity.RunID + ":s1:1\n", "API_TOKEN=***\n",
		"TRACEPARENT=" + j.parent + "\n"} {
		if !strings.Contains(log, want) {
			t.Errorf("the environment lacks %q:\n%s", want, log)
		}
	}
	if strings.Contains(log, "CANARY") || strings.Contains(log, "canary") {
		t.Errorf("the worker's environment or a secret is in the log:\n%s", log)
	}

	j = newJournal(t, plan.Command, plan.CommandInputs{Argv: []string{"echo", "$HOME; exit 3", "`id`"}})
	if end := execute(t, t.Context(), worker(t, j, executor.Config{})); end.Completed == nil ||
		j.log() != "output: $HOME; exit 3 `id`\n" {
		t.Errorf("failure %+v, log %q; want a completion that prints its arguments unchanged", end.Failed, j.log())
	}
}

// contract: T219
func TestCommand_ExitStatusIsAFailure(t *testing.T) {
	t.Parallel()
	j := newJournal(t, plan.Command, sh("echo first >&2; echo 'no such table' >&2; exit 3"))
	end := execute(t, t.Context(), worker(t, j, executor.Config{}))
	wantFailed(t, end, executor.CodeExitStatus, true)
	if want := "no such table (sh ended with exit status 3)"; end.Failed.ErrorMessage != want {
		t.Errorf("message %q, want %q", end.Failed.ErrorMessage, want)
	}

	j = newJournal(t, plan.Command, plan.CommandInputs{Argv: []string{"no-such-program-of-dvt"}})
	wantFailed(t, execute(t, t.Context(), worker(t, j, executor.Config{})), executor.CodeProgramNotFound, false)
}

// contract: T230
func TestCommand_WorksOnlyInPermittedDirectories(t *testing.T) {
	t.Parallel()
	outside := t.TempDir()
	for name, c := range map[string]struct {
		dir  string
		cfg  executor.Config
		code string // empty: the step completes
		at   func(r *executor.Runner) string
	}{
		"empty is the workspace": {
			at: func(r *executor.Runner) string { return filepath.Join(r.WorkspaceRoot, identity.RunID) }},
		"relative to the root": {dir: "sub", at: func(r *executor.Runner) string {
			return filepath.Join(r.ProjectRoot, "sub")
		}},
		"missing":                   {dir: "none", code: executor.CodeDirNotFound},
		"out of the root by dots":   {dir: "sub/../..", code: executor.CodeDirNotAllowed},
		"out of the root by a link": {dir: "link", code: executor.CodeDirNotAllowed},
		"absolute elsewhere":        {dir: outside, code: executor.CodeDirNotAllowed},
		"absolute, an allowed root": {dir: outside, cfg: executor.Config{AllowedRoots: []string{outside}},
			at: func(*executor.Runner) string { return outside }},
		"absolute, any dir in dev": {dir: outside, cfg: executor.Config{AllowAnyDir: true},
			at: func(*executor.Runner) string { return outside }},
		"a prefix is not a root": {dir: outside, cfg: executor.Config{AllowedRoots: []string{outside[:len(outside)-1]}},
			code: executor.CodeDirNotAllowed},
		"a file is not a directory": {dir: "file", code: executor.CodeDirNotFound},
		"an empty root is not all /": {dir: "/", cfg: executor.Config{AllowedRoots: []string{""}},
			code: executor.CodeDirNotAllowed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := newJournal(t, plan.Command, plan.CommandInputs{Argv: []string{"pwd", "-P"}, Dir: c.dir})
			r := worker(t, j, c.cfg)
			if err := errors.Join(os.Mkdir(filepath.Join(r.ProjectRoot, "sub"), 0o700), os.Symlink(outside,
				filepath.Join(r.ProjectRoot, "link")),
				os.WriteFile(filepath.Join(r.ProjectRoot, "file"), nil, 0o600)); err != nil {
				t.Fatal(err)
			}
			end := execute(t, t.Context(), r)
			if c.code != "" {
				wantFailed(t, end, c.code, c.code == executor.CodeDirNotFound)
				return
			}
			if diff := cmp.Diff("output: "+c.at(r)+"\n", j.log()); end.Completed == nil || diff != "" {
				t.Errorf("failure %+v; working directory (-want +got):\n%s", end.Failed, diff)
			}
		})
	}
}

// waitForPIDs waits until a script has printed two process ids.
func waitForPIDs(t *testing.T, j *journal) []string {
	t.Helper()
	var pids []string
	eventually(t, "the script prints its process ids", func() bool {
		pids = strings.Fields(strings.ReplaceAll(j.log(), "output: ", ""))
		return len(pids) >= 2
	})
	return pids[:2]
}

func TestCommand_CancelEndsTheWholeGroup(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		script  string
		grace   time.Duration
		atLeast time.Duration
		atMost  time.Duration
	}{
		"a program that obeys": {"sleep 300 & echo $$ $!; wait", time.Minute, 0, 30 * time.Second},
		"a program that ignores SIGTERM": {"trap '' TERM; sleep 300 & echo $$ $!; while :; do sleep 300; done",
			2 * time.Second, 2 * time.Second, testtime.Of(8 * time.Second)},
		"a child that ignores SIGTERM": {"sh -c \"trap '' TERM; sleep 300\" & echo $$ $!; wait", 2 * time.Second,
			2 * time.Second, testtime.Of(8 * time.Second)},
		"a program that tidies up meanwhile": {"trap 'sleep 0.5; echo tidied; exit 0' TERM; sleep 300 & echo $$ $!; wait",
			time.Minute, 400 * time.Millisecond, 30 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := newJournal(t, plan.Command, sh(c.script))
			ctx, cancel := context.WithCancel(t.Context())
			backs := make(chan engine.Return, 1)
			r := worker(t, j, executor.Config{Grace: c.grace})
			go func() {
				back, _ := r.Run(ctx, dispatch, quiet)
				backs <- back
			}()
			pids := waitForPIDs(t, j)
			asked := time.Now()
			cancel()
			back := <-backs
			took := time.Since(asked)
			if back.Kind != engine.ReturnCancelled {
				t.Errorf("return %q, want CANCELLED", back.Kind)
			}
			if len(j.tries) != 0 {
				t.Errorf("the worker wrote an end for a cancelled execution: %+v", j.tries)
			}
			if took < c.atLeast || took > c.atMost {
				t.Errorf("took %s, want %s to %s", took, c.atLeast, c.atMost)
			}
			for _, pid := range pids {
				eventually(t, "process "+pid+" is gone", func() bool { return !alive(pid) })
			}
			if strings.Contains(c.script, "tidied") && !strings.Contains(j.log(), "tidied") {
				t.Error("the log lacks a line that the program printed after SIGTERM")
			}
		})
	}
}

func TestCommand_NothingOutlivesTheStep(t *testing.T) {
	t.Parallel()
	j := newJournal(t, plan.Command, sh("sleep 300 & echo $$ $!"))
	began := time.Now()
	if end := execute(t, t.Context(), worker(t, j, executor.Config{})); end.Completed == nil {
		t.Errorf("end %+v, want a completion", end)
	}
	if took := time.Since(began); took > time.Minute {
		t.Errorf("the step waited %s for a child that it left behind", took)
	}
	pids := waitForPIDs(t, j)
	eventually(t, "the child is gone", func() bool { return !alive(pids[1]) })
}

func TestCommand_LosesNoOutput(t *testing.T) {
	t.Parallel()
	j := newJournal(t, plan.Command, plan.CommandInputs{Argv: []string{"seq", "1", "3000"}})
	execute(t, t.Context(), worker(t, j, executor.Config{}))
	if len(j.lines) != 3000 || j.lines[2999].Text != "3000" {
		t.Fatalf("the log has %d lines, want 3000 in order", len(j.lines))
	}
	for i, l := range j.lines {
		if l.No != int64(i+1) {
			t.Fatalf("line %d has the number %d", i+1, l.No)
		}
	}
	j = newJournal(t, plan.Command, sh(`head -c 1000000 /dev/zero | tr '\0' x; printf '\nend without newline'`))
	execute(t, t.Context(), worker(t, j, executor.Config{}))
	if len(j.lines) != 2 || len(j.lines[0].Text) > 8<<10 || j.lines[1].Text != "end without newline" {
		t.Errorf("%d lines, the first of %d bytes; want 2, the first cut to 8 KiB", len(j.lines), len(j.lines[0].Text))
	}
}
