package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/creack/pty"
)

// onTerminal runs a command on a terminal with that number of columns and returns its output without colours.
func onTerminal(t *testing.T, columns uint16, address string, args ...string) string {
	t.Helper()
	c := exec.CommandContext(t.Context(), os.Args[0], args...)
	c.Env = append(os.Environ(), runAsDVT+"=1", "TERM=xterm", "LC_ALL=C.UTF-8", "NO_COLOR=1", "DVT_SERVER="+address,
		"DVT_TOKEN=dev-viewer")
	tty, err := pty.StartWithSize(c, &pty.Winsize{Rows: 40, Cols: columns})
	if err != nil {
		t.Fatal(err)
	}
	defer tty.Close()
	out, _ := io.ReadAll(tty) // the end of a terminal is an error
	if err := c.Wait(); err != nil {
		t.Errorf("dvt %v: %v", args, err)
	}
	return regexp.MustCompile(`\x1b\[[0-9;?]*[a-zA-Z]`).ReplaceAllString(strings.ReplaceAll(string(out), "\r", ""), "")
}

// At night the command to type, the environment and the cause are what a list is read for. A terminal must not cut them
// in favour of ages, counts and the names of people.
func TestLists_KeepOnATerminalWhatTheyAreReadFor(t *testing.T) {
	t.Parallel()
	const runA, runB = "16ce5869-f46f-4ac3-a80f-b9d6dea5e3ea", "98020df7-dac2-4b03-a8e7-1974c66f33a0"
	const why = "the secret of the warehouse was not read, because it does not exist"
	answers := `{"data":{"attention":{"edges":[{"node":{"kind":"FAILED_WAITING","runId":"` + runA + `","projectId":"shop",` +
		`"environmentId":"prod","planId":"nightly","planVersion":"1.4.2","stepId":"stg_orders","code":"EXIT_STATUS",` +
		`"message":"` + why + `","since":"2026-11-21T00:00:00Z","deadline":"2026-11-21T01:00:00Z",` +
		`"actions":["RETRY_STEP"]}}],"pageInfo":{}},` +
		`"runs":{"edges":[{"node":{"runId":"` + runA + `","projectId":"shop","environmentId":"prod","status":"RUNNING",` +
		`"substatus":"AWAITING_OPERATOR","triggeredBy":"dev-engineer","startedAt":"2026-11-21T00:00:00Z",` +
		`"createdAt":"2026-11-21T00:00:00Z","plan":{"planId":"warehouse-check","planVersion":"1.0"},` +
		`"stepCounts":{"total":14,"success":7,"failed":1,"pending":6},` +
		`"rootCause":{"stepId":"stg_orders","code":"EXIT_STATUS","message":"` + why + `"}}}],"pageInfo":{}},` +
		`"alerts":{"edges":[{"node":{"id":"` + runB + `","level":"HIGH","stage":"OPEN","raisedAt":"2026-11-21T00:00:00Z",` +
		`"count":1,"runId":"` + runA + `","planId":"backfill","note":"` + why + `"}}],"pageInfo":{}},` +
		`"queue":{"depth":1,"edges":[{"node":{"runId":"` + runA + `","planId":"ledger","planVersion":"1.0",` +
		`"projectId":"ledger","environmentId":"prod","triggeredBy":"dev-engineer","position":1,"priority":5,` +
		`"createdAt":"2026-11-21T00:00:00Z","waitsFor":"PLACE","slots":{"limit":1}}}],"pageInfo":{}}}}`
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, answers) }))
	t.Cleanup(s.Close)
	for _, c := range []struct {
		args    string
		columns uint16
		want    []string
	}{
		{"run list --attention", 80, []string{"nightly@1.4.2", "dvt run retry 16ce5869 stg_orders", "the secret of t"}},
		{"run list --attention", 100, []string{"shop/prod", "dvt run retry 16ce5869 stg_orders", "the secret of t"}},
		{"run list", 120, []string{"16ce5869 ", "shop/prod", "the secret of the warehouse was not"}},
		{"alerts list", 100, []string{"98020df7 ", "backfill 16ce5869", "the secret of the warehouse was not"}},
		{"queue list", 100, []string{"16ce5869 ", "ledger/prod", "slot", "until a run ends"}},
	} {
		out := onTerminal(t, c.columns, s.URL, strings.Fields(c.args)...)
		for _, text := range c.want {
			if !strings.Contains(out, text) {
				t.Errorf("dvt %s on %d columns: want %q in\n%s", c.args, c.columns, text, out)
			}
		}
	}
}
