package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/dvt-engine/dvt/server/usecases"
	"github.com/dvt-engine/dvt/store/sqlite"
)

// sendBulks runs the sender of bulks of another server on the database until the test ends.
func sendBulks(t *testing.T, file string) {
	t.Helper()
	s, err := sqlite.Open(t.Context(), file, sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	_, rights := devRights(t)
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- usecases.New(usecases.Config{Store: s, Authz: rights}).SendBulks(ctx, "another") }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
		_ = s.Close()
	})
}

func TestBulk_SignalShowAndWatch(t *testing.T) {
	file := filepath.Join(t.TempDir(), "dvt.db")
	address, _ := serveFile(t, file)
	ids := filepath.Join(t.TempDir(), "ids")
	if err := os.WriteFile(ids, []byte("r1\n\nunknown\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{".line": "r1\n" + strings.Repeat("x", 70_000) + "\nr2\n",
		".long": strings.Repeat("r1\n", 1<<19)} {
		if err := os.WriteFile(ids+name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		token  string
		args   string
		status int
		says   string
	}{
		{"dev-engineer", "signal pause --reason x --yes", 2, "give one of --status, --project"},
		{"dev-engineer", "signal pause --text r1 --yes", 2, "reason"},
		{"dev-engineer", "signal jump --text r1 --reason x --yes", 2, "must be pause, resume"},
		{"dev-engineer", "signal retry --text r1 --reason x --yes", 2, "--step"},
		{"dev-engineer", "signal pause --step s --text r1 --reason x --yes", 2, "--step"},
		{"dev-engineer", "signal pause --text r1 --ids-from - --reason x --yes", 2, "at most one of --text, --ids-from"},
		{"dev-engineer", "signal cancel --text r1 --reason x", 2, "--yes"},
		{"dev-engineer", "signal cancel --ids-from " + ids + ".none --reason x --yes", 2, "no such file"},
		{"dev-engineer", "signal cancel --ids-from " + ids + ".line --reason x --preview", 0, "2 left out"},
		{"dev-engineer", "signal cancel --ids-from " + ids + ".long --reason x --yes", 2, "larger than 1 MiB"},
		{"dev-engineer", "signal cancel --ids-from " + t.TempDir() + " --reason x --yes", 2, "is a directory"},
		{"dev-viewer", "signal cancel --text r1 --reason x --yes", 3, "[FORBIDDEN]"},
		{"dev-mallory", "signal cancel --ids-from " + ids + " --reason x --yes", 4, "no run is selected"},
		{"dev-engineer", "signal cancel --ids-from " + ids + " --reason x --preview", 0, "1 left out"},
		{"dev-engineer", "signal cancel --text r1 --preview", 0, "1 run\n"},
		{"dev-engineer", "list", 0, "You have sent no bulk yet"},
		{"dev-engineer", "show QnVsazp4", 4, "There is no such bulk"},
		{"dev-engineer", "watch QnVsazp4", 4, "There is no such bulk"},
		{"dev-engineer", "signal cancel --failed-of QnVsazp4 --reason x --yes", 4, "There is no such bulk"},
		{"dev-engineer", "stop QnVsazp4", 2, "--reason"},
		{"dev-engineer", "stop QnVsazp4 --reason x", 4, "There is no such bulk"},
	} {
		out, status, err := dvt(t, address, c.token, append([]string{"bulk"}, strings.Fields(c.args)...)...)
		if says := out + text(err); status != c.status || !strings.Contains(says, c.says) {
			t.Errorf("%s %s: status %d, want %d and %q in\n%s", c.token, c.args, status, c.status, c.says, says)
		}
	}
	ask := func(want int, args ...string) string {
		t.Helper()
		out, status, err := dvt(t, address, "dev-engineer", append([]string{"bulk"}, args...)...)
		if status != want {
			t.Fatalf("%v: status %d, %v\n%s", args, status, err, out)
		}
		return out
	}
	send := func(requestID string) string {
		t.Helper()
		out := ask(0, "signal", "pause", "--ids-from", ids, "--reason", "release", "--yes", "--request-id", requestID, "-o",
			"json")
		var made struct{ Bulk struct{ ID string } }
		if err := json.Unmarshal([]byte(out[strings.Index(out, "{"):]), &made); err != nil || made.Bulk.ID == "" {
			t.Fatalf("%v in %s", err, out)
		}
		return made.Bulk.ID
	}
	id, stopped := send("q1"), send("q2")
	if out := ask(0, "stop", stopped, "--reason", "wrong runs"); !strings.Contains(out, "pause stopping: 0 of 1 sent") {
		t.Errorf("stop: %s", out)
	}
	if out := ask(0, "show", id); !strings.Contains(out, "pause running: 0 of 1 sent") || !strings.Contains(out, "r1") {
		t.Errorf("show: %s", out)
	}
	sendBulks(t, file)
	// A run that has not started rejects PAUSE.
	if out := ask(1, "watch", id); !strings.Contains(out, "pause done: 1 of 1 sent, 0 accepted, 1 rejected") {
		t.Errorf("watch: %s", out)
	}
	if out := ask(1, "watch", stopped); !strings.Contains(out,
		"pause stopped: 0 of 1 sent, 0 accepted, 0 rejected, 0 refused, 1 not sent") {
		t.Errorf("watch of the stopped bulk: %s", out)
	}
	if out := ask(1, "show", "--failed", id); !strings.Contains(out, "rejected") ||
		!strings.Contains(out, "INVALID_RUN_STATE") {
		t.Errorf("show --failed: %s", out)
	}
	if out := ask(0, "signal", "cancel", "--failed-of", id, "--reason", "then not at all", "--yes",
		"--watch"); !strings.Contains(out, "cancel done: 1 of 1 sent, 1 accepted") {
		t.Errorf("signal --watch: %s", out)
	}
	if out := ask(0, "list"); strings.Count(out, "\n") != 4 || !strings.Contains(out, "then not at all") {
		t.Errorf("list: %s", out)
	}
}

// A server may send rows again after a lost connection. The watch prints each failed run once.
func TestBulkWatch_ReconnectsAndPrintsEachFailureOnce(t *testing.T) {
	t.Parallel()
	var connections atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		state := `"state":"RUNNING"`
		if connections.Add(1) > 1 {
			state = `"state":"DONE","finishedAt":"2026-11-22T00:00:01Z"`
		}
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprintf(w, "event: next\ndata: %s\n\n", `{"data":{"bulkUpdates":{"sync":"LIVE","asOf":"2026-11-22T00:00:00Z","bulk":{"id":"b1",`+state+`,"typeRaw":"PAUSE","createdAt":"2026-11-22T00:00:00Z",`+
			`"counts":{"total":2,"accepted":1,"rejected":1}},"rows":[{"no":1,"runId":"r7","code":"RUN_TERMINAL","failed":true}]}}}`)
	}))
	t.Cleanup(s.Close)
	out, said, status := runSplit(t, s.URL, "t", "bulk", "watch", "b1")
	if status != 1 || connections.Load() != 2 || strings.Count(out, "r7 RUN_TERMINAL") != 1 ||
		strings.Count(said, "OFFLINE: ") != 1 || !strings.Contains(out, "pause done") {
		t.Errorf("status %d after %d connections, want 1 after 2, and r7 and OFFLINE once: %q\n%s",
			status, connections.Load(), said, out)
	}
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
