package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dvt-engine/dvt/cmd/dvt/internal/cmdline"
	"github.com/dvt-engine/dvt/control/reads"
	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/graph"
	"github.com/dvt-engine/dvt/internal/testtime"
	"github.com/dvt-engine/dvt/live"
	log "github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
	"github.com/dvt-engine/dvt/server/usecases"
	"github.com/dvt-engine/dvt/store"
	"github.com/dvt-engine/dvt/store/sqlite"
)

// redriver marks dead letters as redriven, or refuses them like a bus that is down.
type redriver struct {
	store.Outbox
	refuse bool
}

func (r *redriver) Redrive(ctx context.Context, d reads.DeadLetter) error {
	if r.refuse {
		return live.ErrRefused
	}
	_, err := r.MarkRedriven(ctx, d.ID)
	return err
}

// serve serves the API on a new store with run r1, which has one dead letter.
func serve(t *testing.T) (address string, r *redriver) {
	t.Helper()
	return serveFile(t, filepath.Join(t.TempDir(), "dvt.db"))
}

func serveFile(t *testing.T, file string) (address string, r *redriver) {
	t.Helper()
	ctx := t.Context()
	s, err := sqlite.Open(ctx, file, sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	id := runtest.ID
	id.RunID, id.TenantID, id.ProjectID = "r1", "acme", "shop"
	_, _, err = s.CreateRun(ctx, store.NewRun{Run: store.Run{Identity: id, RequestKey: "k"},
		Events: []log.Draft{runtest.Draft(log.RunApproved, "", 1)}})
	if err == nil {
		_, err = s.RecordRefusal(ctx, "r1", 1, "message too large", 0)
	}
	if err == nil {
		_, err = s.AddDeadLetter(ctx, "r1", 1, "message too large")
	}
	if err != nil {
		t.Fatal(err)
	}
	return serveStore(t, s)
}

// idleEngine answers, and knows no run.
type idleEngine struct{ engine.Engine }

func (idleEngine) Describe(context.Context, log.Identity) (engine.Description, error) {
	return engine.Description{}, engine.ErrNotStarted
}

// serveStore serves the API on a store.
func serveStore(t *testing.T, s *sqlite.Store, change ...func(*usecases.Config)) (address string, r *redriver) {
	t.Helper()
	directory, rights := devRights(t)
	r = &redriver{Outbox: s}
	config := usecases.Config{Store: s, Engine: idleEngine{}, Authz: rights, Redriver: r, Quotas: oneStart()}
	for _, f := range change {
		f(&config)
	}
	h := graph.NewHandler(usecases.New(config), graph.Config{Authenticate: directory.Authenticate})
	server := httptest.NewServer(h)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), testtime.Of(10*time.Second))
		defer cancel()
		if err := h.Shutdown(ctx); err != nil {
			t.Error(err)
		}
		server.Close()
	})
	return server.URL, r
}

// dvt runs a command with a token and returns its output on both streams, its exit status and its error.
func dvt(t *testing.T, address, token string, args ...string) (out string, status int, err error) {
	t.Helper()
	c := root()
	var b bytes.Buffer
	c.SetOut(&b)
	c.SetErr(&b)
	c.SetArgs(append(args, "--server", address, "--token", token))
	err = c.ExecuteContext(t.Context())
	var e *cmdline.Error
	if errors.As(err, &e) {
		status = e.Status
	} else if err != nil {
		status = 1
	}
	return b.String(), status, err
}

func TestDeadLetters_ListAndRedrive(t *testing.T) {
	address, r := serve(t)
	ask := func(token string, args ...string) (string, int) {
		t.Helper()
		out, status, err := dvt(t, address, token, append([]string{"dead-letters"}, args...)...)
		t.Logf("dvt dead-letters %s: %d %v\n%s", strings.Join(args, " "), status, err, out)
		return out, status
	}
	out, status := ask("dev-sre", "list", "--run", "r1")
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if status != 0 || len(lines) != 2 || !strings.Contains(lines[1], "message too large") ||
		!strings.Contains(lines[1], "1-1") {
		t.Fatalf("list: status %d", status)
	}
	letter := strings.Fields(lines[1])[0]
	for _, c := range []struct {
		token  string
		args   []string
		status int
		says   string
	}{
		{"dev-engineer", []string{"list"}, 3, ""},
		{"dev-engineer", []string{"redrive", letter}, 3, ""},
		{"dev-mallory", []string{"redrive", letter}, 4, "NOT_FOUND"},
		{"dev-mallory", []string{"list", "--run", "r1"}, 4, ""},
		{"dev-admin", []string{"redrive"}, 2, ""},
		{"dev-admin", []string{"redrive", letter, "--all-open"}, 2, ""},
		{"dev-admin", []string{"redrive", letter, "--request-id", "?"}, 2, ""},
	} {
		if out, status := ask(c.token, c.args...); status != c.status || !strings.Contains(out, c.says) {
			t.Errorf("%s %v: status %d, want %d and %q", c.token, c.args, status, c.status, c.says)
		}
	}
	r.refuse = true
	if out, status := ask("dev-admin", "redrive", "--run", "r1"); status != 1 || !strings.Contains(out,
		"[UNAVAILABLE]") {
		t.Errorf("a bus that still refuses: status %d, want 1 and FAILED", status)
	}
	r.refuse = false
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{"redrive", "--all-open"}, letter + " redriven"},
		{[]string{"redrive", letter}, letter + " already redriven"},
		{[]string{"redrive", "--all-open"}, "no dead letters are open"},
	} {
		if out, status := ask("dev-admin", c.args...); status != 0 || !strings.Contains(out, c.says) {
			t.Errorf("%v: status %d, want %q", c.args, status, c.says)
		}
	}
	out, status = ask("dev-admin", "list", "--all", "-o", "json")
	var page []struct{ RedrivenAt *time.Time }
	if err := json.Unmarshal([]byte(out), &page); err != nil || status != 0 || len(page) != 1 ||
		page[0].RedrivenAt == nil {
		t.Errorf("list --all: status %d, %v, want the redriven letter", status, err)
	}
}
