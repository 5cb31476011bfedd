package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/dvt-engine/dvt/cmd/dvt/internal/cmdline"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/consoletest"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/watchview"
	log "github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
	"github.com/dvt-engine/dvt/store"
)

// runSplit runs a command and returns its standard output, its standard error and its exit status.
func runSplit(t *testing.T, address, token string, args ...string) (out, said string, status int) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	c := root()
	c.SetOut(&stdout)
	c.SetErr(&stderr)
	c.SetArgs(append(args, "--server", address, "--token", token))
	err := c.ExecuteContext(t.Context())
	return stdout.String(), stderr.String(), cmdline.ExitStatus(err)
}

// serveRuns serves n runs beside r1. The ids of the first two have the same beginning.
func serveRuns(t *testing.T, n int) (address string) {
	t.Helper()
	address, r := serve(t)
	s, _ := r.Outbox.(store.Store)
	for i := range n {
		id := runtest.ID
		id.RunID, id.TenantID, id.ProjectID = fmt.Sprintf("%08d-0000-4000-8000-000000000000", i), "acme", "shop"
		if i == 1 {
			id.RunID = "00000000-1000-4000-8000-000000000000"
		}
		if _, _, err := s.CreateRun(t.Context(), store.NewRun{Run: store.Run{Identity: id, RequestKey: log.Key(id.RunID)},
			Events: []log.Draft{
				runtest.Draft(log.RunApproved, "", 1), runtest.Start("s1"),
			}}); err != nil {
			t.Fatal(err)
		}
	}
	return address
}

// Standard output must hold only the list, because programs read it.
func TestList_ReadsEveryPageUpToTheLimit(t *testing.T) {
	t.Parallel()
	address := serveRuns(t, 230)
	for _, c := range []struct {
		limit string
		want  int
		more  bool
	}{{"5", 5, true}, {"200", 200, true}, {"230", 230, true}, {"231", 231, false}, {"1000", 231, false}} {
		out, said, status := runSplit(t, address, "dev-viewer", "run", "list", "--limit", c.limit)
		if n := strings.Count(out, "\n") - 1; n != c.want || status != 0 || strings.Contains(said,
			"more rows exist") != c.more {
			t.Errorf("--limit %s: %d rows, status %d, %q, want %d rows, 0 and more rows %t",
				c.limit, n, status, said, c.want, c.more)
		}
		var doc []json.RawMessage
		out, _, _ = runSplit(t, address, "dev-viewer", "run", "list", "--limit", c.limit, "-o", "json")
		if err := json.Unmarshal([]byte(out), &doc); err != nil || len(doc) != c.want {
			t.Errorf("--limit %s: %d runs, %v, want %d", c.limit, len(doc), err, c.want)
		}
	}
	for _, limit := range []string{"0", "-1", "10001"} {
		if _, _, status := runSplit(t, address, "dev-viewer", "run", "list", "--limit", limit); status != 2 {
			t.Errorf("--limit %s: status %d, want 2", limit, status)
		}
	}
}

func TestList_EmptyTellsWhatToDo(t *testing.T) {
	t.Parallel()
	address, _ := serve(t)
	for args, want := range map[string]string{
		"run list": "dvt run start", "run list --status failed": "Use fewer filters",
		"run list --awaiting-approval": "No run waits for approval", "manual list": "No step waits",
		"token list": "dvt token create", "queue list": "No run waits", "bulk list": "You have sent no bulk",
	} {
		out, said, status := runSplit(t, address, "dev-mallory", strings.Fields(args)...)
		if out != "" || !strings.Contains(said, want) || status != 0 {
			t.Errorf("dvt %s: standard output %q, standard error %q, status %d, want only %q on standard error",
				args, out, said, status, want)
		}
		out, _, _ = runSplit(t, address, "dev-mallory", append(strings.Fields(args), "-o", "json")...)
		if strings.TrimSpace(out) != "[]" {
			t.Errorf("dvt %s -o json: %s, want an empty array", args, out)
		}
	}
}

// On a terminal ids are the shortest unique prefixes, times are ages, and lines are cut. --no-trunc, --utc and a pipe
// show them in full.
func TestList_FitsATerminal(t *testing.T) {
	address := serveRuns(t, 3)
	show := func(width int, args ...string) string {
		t.Helper()
		tty := consoletest.OpenTerminal(t, width, 12)
		c := root()
		c.SetOut(tty.File)
		c.SetErr(tty.File)
		c.SetArgs(append([]string{"run", "list", "--server", address, "--token", "dev-viewer"}, args...))
		if err := c.ExecuteContext(t.Context()); err != nil {
			t.Fatal(err)
		}
		return tty.Await(`APPROVED`)
	}
	seen := show(120)
	if !strings.Contains(seen, "00000000-100  ") || strings.Contains(seen, "00000000-1000") ||
		!regexp.MustCompile(` \d+d ago`).MatchString(seen) {
		t.Errorf("want short ids and ages:\n%s", seen)
	}
	seen = show(160, "--no-trunc", "--utc")
	if !strings.Contains(seen, "00000000-1000-4000-8000-000000000000") || !strings.Contains(seen, "2026-02-16 12:00:00Z") {
		t.Errorf("--no-trunc --utc: want whole ids and times:\n%s", seen)
	}
	if seen = show(40); strings.Count(seen, "\n") != 4 || !strings.Contains(seen, "…") {
		t.Errorf("want four lines that are cut to 40 cells:\n%s", seen)
	}
	if seen = show(160, "-o", "wide"); !strings.Contains(seen, "00000000-1000-4000-8000-000000000000") {
		t.Errorf("-o wide: want whole ids:\n%s", seen)
	}
	piped, _, _ := runSplit(t, address, "dev-viewer", "run", "list")
	if !strings.Contains(piped, "00000000-1000-4000-8000-000000000000") || !strings.Contains(piped,
		"2026-02-16 12:00:00Z") {
		t.Errorf("a pipe: want whole ids and times:\n%s", piped)
	}
}

func TestAgeAndShortDuration_UseTheLargestUsefulUnit(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{0: "0s", 119 * time.Second: "119s", 2 * time.Minute: "2m",
		119 * time.Minute: "119m", 47 * time.Hour: "47h", 72 * time.Hour: "3d"} {
		if got := age(d); got != want {
			t.Errorf("%v: %s, want %s", d, got, want)
		}
	}
	for d, want := range map[time.Duration]string{
		-time.Second: "0s", 1234 * time.Millisecond: "1.2s", 12500 * time.Millisecond: "12s", 61 * time.Second: "1m01s",
		3 * time.Hour: "3h00m", 300 * time.Hour: "12d",
	} {
		if got := watchview.ShortDuration(d); got != want {
			t.Errorf("%v: %s, want %s", d, got, want)
		}
	}
}

func TestRunList_FiltersByStarter(t *testing.T) {
	t.Parallel()
	address, r := serve(t)
	s, _ := r.Outbox.(store.Store)
	for _, by := range []string{"dev-engineer", "dev-admin"} {
		id := runtest.ID
		id.RunID, id.TenantID, id.ProjectID = "of-"+by, "acme", "shop"
		if _, _, err := s.CreateRun(t.Context(), store.NewRun{Run: store.Run{Identity: id, TriggeredBy: by},
			Events: []log.Draft{runtest.Draft(log.RunApproved, "", 1)}}); err != nil {
			t.Fatal(err)
		}
	}
	for flags, want := range map[string]string{"--mine": "of-dev-admin", "--by me": "of-dev-admin",
		"--by dev-engineer": "of-dev-engineer", "--by nobody": ""} {
		out, said, status := runSplit(t, address, "dev-admin", append([]string{"run", "list", "-o", "json"},
			strings.Fields(flags)...)...)
		if status != 0 || strings.Count(out, `"runId"`) != min(1, len(want)) || !strings.Contains(out, want) {
			t.Errorf("%s: status %d, want only %q\n%s%s", flags, status, want, out, said)
		}
	}
	if _, _, status := runSplit(t, address, "dev-admin", "run", "list", "--mine", "--by", "ana"); status != 2 {
		t.Errorf("--mine with --by: status %d, want 2", status)
	}
}
