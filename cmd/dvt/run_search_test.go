package main

import (
	"context"
	"fmt"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dvt-engine/dvt/artifact"
	"github.com/dvt-engine/dvt/graph"
	"github.com/dvt-engine/dvt/internal/testtime"
	log "github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
	"github.com/dvt-engine/dvt/server/usecases"
	"github.com/dvt-engine/dvt/store/sqlite"
)

// serveLogs serves the API with a run "logged" whose steps load and test have logs of 1,200 and 7 lines.
func serveLogs(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	s, err := sqlite.Open(t.Context(), filepath.Join(dir, "dvt.db"), sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	later := runtest.Draft(log.StepStartedEvent, "test", 1)
	later.EmittedAt = later.EmittedAt.Add(time.Minute)
	createRun(t, s, "logged", runtest.Start("test<load", "load", "never<test"),
		runtest.Draft(log.StepStartedEvent, "load", 1), runtest.Draft(log.StepCompletedEvent, "load", 1),
		later)
	logs, err := artifact.Open(t.Context(), "file://"+filepath.Join(dir, "artifacts")+"?create_dir=true")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = logs.Close() })
	for step, n := range map[string]int{"load": 1200, "test": 7} {
		lines := make([]artifact.Line, n)
		for i := range lines {
			lines[i] = artifact.Line{At: runtest.Epoch, Stream: "stdout", Text: fmt.Sprintf("%s says %d", step, i+1)}
		}
		id := artifact.AttemptID{TenantID: "acme", RunID: "logged", StepID: step, LogicalAttempt: 1}
		if err := logs.Append(t.Context(), id, 1, 1, lines); err != nil {
			t.Fatal(err)
		}
	}
	directory, rights := devRights(t)
	h := graph.NewHandler(usecases.New(usecases.Config{Store: s, Authz: rights, Logs: logs,
		Quotas: oneStart()}), graph.Config{Authenticate: directory.Authenticate})
	server := httptest.NewServer(h)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), testtime.Of(10*time.Second))
		defer cancel()
		_ = h.Shutdown(ctx)
		server.Close()
	})
	return server.URL
}

func TestRunLogs_AllPrintsTheStepsInTheOrderOfTheirStart(t *testing.T) {
	t.Parallel()
	address := serveLogs(t)
	out, said, status := runSplit(t, address, "dev-viewer", "run", "logs", "logged", "--all")
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if status != 0 || len(lines) != 1207 || lines[0] != "load | load says 1" || lines[1200] != "test | test says 1" {
		t.Errorf("status %d, %d lines, %q; want 1,207 lines, those of load first, each behind its step", status,
			len(lines), said)
	}
	out, _, status = runSplit(t, address, "dev-viewer", "run", "logs", "logged", "--all", "--grep", "says 7")
	if status != 0 || !strings.HasSuffix(out, "test | test says 7\n") || !strings.HasPrefix(out, "load | load says 7\n") {
		t.Errorf("--grep: status %d, %q", status, out)
	}
	if out, _, status := runSplit(t, address, "dev-viewer", "run", "logs", "logged", "--all", "-o", "json"); status != 0 ||
		strings.Count(out, `"stepId": "load"`) != 2 || !strings.Contains(out, `"text": "test says 7"`) {
		t.Errorf("-o json: status %d, want two pages of load and one of test\n%.300s", status, out)
	}
	for _, wrong := range []string{"test", "--follow", "--attempt=1", "--tail=3"} {
		if _, _, status := runSplit(t, address, "dev-viewer", "run", "logs", "logged", "--all", wrong); status != 2 {
			t.Errorf("--all %s: status %d, want 2", wrong, status)
		}
	}
}

func TestRunSearch_FindsLinesInAllLogs(t *testing.T) {
	t.Parallel()
	address := serveLogs(t)
	for _, c := range []struct {
		args   string
		status int
		says   []string
	}{
		{"logged says", 0, []string{"load  1        1     load says 1\n", "(and 1195 lines more)", "(and 2 lines more)"}},
		{"logged says --runs 2", 0, []string{"logged  load  1"}},
		{"logged nothing", 0, []string{"No log contains this text, in capitals or not."}},
		{"logged says --limit 1", 0, []string{"more rows exist"}},
		{"logged says -o json", 0, []string{`"totalMatches": 1200`}},
		{"logged says --runs 21", 2, []string{"--runs must be from 1 to 20"}},
		{"nope says", 4, []string{"NOT_FOUND"}},
		{"nope says --runs 2", 4, []string{"NOT_FOUND"}},
	} {
		out, status, err := dvt(t, address, "dev-viewer", append([]string{"run", "search"}, strings.Fields(c.args)...)...)
		for _, want := range c.says {
			if said := out + text(err); status != c.status || !strings.Contains(said, want) {
				t.Errorf("dvt run search %s: status %d, want %d and %q\n%.600s", c.args, status, c.status, want, said)
			}
		}
	}
}

// A person types "error", and the log says ERROR.
func TestRunSearch_TriesOtherCases(t *testing.T) {
	t.Parallel()
	address := serveLogs(t)
	out, status, err := dvt(t, address, "dev-viewer", "run", "search", "logged", "LOAD SAYS 7")
	if status != 0 || !strings.Contains(out, "load says 7") {
		t.Errorf("status %d, %v, want the line in small letters:\n%s", status, err, out)
	}
	out, status, _ = dvt(t, address, "dev-viewer", "run", "search", "logged", "no such text")
	if status != 0 || !strings.Contains(out, "in capitals or not") {
		t.Errorf("status %d, want to read that case made no difference:\n%s", status, out)
	}
}
