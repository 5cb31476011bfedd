package executor_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dvt-engine/dvt/engine/executor"
	"github.com/dvt-engine/dvt/internal/errorline/errorlinetest"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/sandbox"
)

// The failure quotes the line that a reader of the log finds, and names its number as the log counts.
func TestCommand_FailureQuotesTheLineThatNamesTheError(t *testing.T) {
	t.Parallel()
	for _, of := range errorlinetest.Outputs() {
		var text bytes.Buffer
		for _, line := range of.Lines {
			if line.Stream != "output" {
				text.Reset() // a program has one pipe, so outputs of two streams are for the readers of stored logs
				break
			}
			fmt.Fprintln(&text, line.Text)
		}
		if text.Len() == 0 && len(of.Lines) > 0 {
			continue
		}
		file := filepath.Join(t.TempDir(), "output")
		if err := os.WriteFile(file, text.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
		j := newJournal(t, plan.Command, sh("cat \"$1\"; exit 3", file))
		end := execute(t, t.Context(), worker(t, j, executor.Config{}))
		wantFailed(t, end, executor.CodeExitStatus, true)
		if end.Failed.ErrorLine != int64(of.Want) {
			t.Errorf("%s: the failure names line %d, want %d", of.Name, end.Failed.ErrorLine, of.Want)
		}
		if of.Want == 0 {
			continue
		}
		line := j.lines[of.Want-1]
		quoted := strings.TrimSpace(line.Text)
		want := quoted + " (sh ended with exit status 3)"
		if strings.HasPrefix(of.Name, "no error line") || of.Name == "colours" {
			want = strings.Trim(quoted, "\x1b[032m") + " (last line; sh ended with exit status 3)"
		}
		if end.Failed.ErrorMessage != want {
			t.Errorf("%s: message %q, want %q", of.Name, end.Failed.ErrorMessage, want)
		}
	}
}

// The quoted line is masked like the log.
func TestCommand_FailureQuotesNoSecret(t *testing.T) {
	t.Parallel()
	in := sh("echo \"ERROR: login with $DB_PASSWORD was refused\"; echo bye; exit 1")
	in.Env = map[string]string{"DB_PASSWORD": "sesame-street"}
	end := execute(t, t.Context(), worker(t, newJournal(t, plan.Command, in), executor.Config{}))
	if want := "ERROR: login with *** was refused (sh ended with exit status 1)"; end.Failed.ErrorMessage != want ||
		end.Failed.ErrorLine != 1 {
		t.Errorf("message %q of line %d, want %q of line 1", end.Failed.ErrorMessage, end.Failed.ErrorLine, want)
	}
}

// A program that writes to both outputs has a log in the order of its writes.
func TestCommand_LogKeepsTheOrderOfBothOutputs(t *testing.T) {
	t.Parallel()
	const many = 100_000
	j := newJournal(t, plan.Command, sh(fmt.Sprintf(
		`awk 'BEGIN { for (i = 1; i <= %d; i += 2) { print i; fflush(); print i+1 > "/dev/stderr"; fflush("/dev/stderr") } }'`,
		many)))
	if end := execute(t, t.Context(), worker(t, j, executor.Config{})); end.Completed == nil {
		t.Fatalf("failure %+v", end.Failed)
	}
	if len(j.lines) != many {
		t.Fatalf("%d lines, want %d", len(j.lines), many)
	}
	for i, line := range j.lines {
		if line.Text != fmt.Sprint(i+1) || line.Stream != "output" {
			t.Fatalf("line %d is %s: %q, want output: %d", i+1, line.Stream, line.Text, i+1)
		}
	}
}

// separate is a runtime that carries the two outputs separately, as Docker does.
type separate struct{ sandbox.Runtime }

func (s separate) Capabilities() sandbox.Capabilities {
	c := s.Runtime.Capabilities()
	c.SeparateOutputs = true
	return c
}

func TestCommand_LogSaysThatTheOrderIsNotKnown(t *testing.T) {
	t.Parallel()
	const note = "dvt: stdout and stderr are read separately: the order of their lines to each other is not known\n"
	for script, want := range map[string]int{"echo a; echo b >&2; echo c; echo d >&2": 1, "echo a; echo b": 0} {
		j := newJournal(t, plan.Command, sh(script))
		execute(t, t.Context(), worker(t, j, executor.Config{Sandbox: separate{executor.Plain()}}))
		if got := strings.Count(j.log(), note); got != want || !strings.Contains(j.log(), "stdout: a\n") {
			t.Errorf("%s: %d notes, want %d:\n%s", script, got, want, j.log())
		}
	}
}

// Text without a line break in the same pipe does not hide an event of dbt.
func TestDBT_ReadsEventsBehindOtherText(t *testing.T) {
	t.Parallel()
	dbt := filepath.Join(t.TempDir(), "dbt")
	script := `#!/bin/sh
printf 'loading 10%%\r' >&2
printf '%s\n' '{"info":{"level":"info","msg":"dvt.rows orders 12"}}'
printf '%s\n' '{"info":{"level":"error","msg":"Encountered an error:\nRuntime Error\n  no profile \"shop\""}}'
exit 2
`
	if err := os.WriteFile(dbt, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	j := newJournal(t, plan.DBTRun, plan.DBTInputs{ProjectDir: "."})
	end := execute(t, t.Context(), worker(t, j, executor.Config{DBTPath: dbt}))
	wantFailed(t, end, executor.CodeDBTUsage, false)
	if want := `no profile "shop" (dbt run ended with exit status 2)`; end.Failed.ErrorMessage != want ||
		end.Failed.ErrorLine != 5 {
		t.Errorf("message %q of line %d, want %q of line 5; log:\n%s", end.Failed.ErrorMessage, end.Failed.ErrorLine, want,
			j.log())
	}
	if !strings.Contains(j.log(), "output: dvt.rows orders 12\n") {
		t.Errorf("the event is not in the log:\n%s", j.log())
	}
}
