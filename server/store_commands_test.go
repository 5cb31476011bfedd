package server_test

import (
	"bytes"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dvt-engine/dvt/client"
	"github.com/dvt-engine/dvt/internal/testserver"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
	"github.com/dvt-engine/dvt/store"
	"github.com/dvt-engine/dvt/store/postgres"
	"github.com/dvt-engine/dvt/store/sqlite"
)

// runCommand runs dvt to its end and returns its exit status and output.
func runCommand(t *testing.T, stdin string, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	cmd := exec.Command(testserver.Binary(t), args...)
	cmd.Dir, cmd.Env, cmd.Stdin = root(t), environmentWithoutDVT(), strings.NewReader(stdin)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), out.String(), errs.String()
}

// expectCommand runs a command that must end with the exit status and print each text of want. It returns standard
// output.
func expectCommand(t *testing.T, status int, args []string, want ...string) string {
	t.Helper()
	got, out, errs := runCommand(t, "", args...)
	if got != status {
		t.Errorf("dvt %s: exit status %d, want %d:\n%s%s", strings.Join(args, " "), got, status, out, errs)
	}
	for _, w := range want {
		if !strings.Contains(out+errs, w) {
			t.Errorf("dvt %s does not print %q:\n%s%s", strings.Join(args, " "), w, out, errs)
		}
	}
	return out
}

func createRuns(t *testing.T, s store.Store, n int) {
	t.Helper()
	for i := range n {
		id := runtest.ID
		id.RunID = fmt.Sprintf("run-%d", i)
		_, _, err := s.CreateRun(
			t.Context(), store.NewRun{Run: store.Run{Identity: id, RequestKey: run.Key(fmt.Sprintf("%064d", i))},
				Events: []run.Draft{runtest.Draft(run.RunApproved, "", 1), runtest.Start("a"),
					runtest.Draft(run.StepStartedEvent, "a", 1)}})
		must(t, err)
	}
	must(t, s.Close())
}

func TestStoreCommands_WorkOnBothStores(t *testing.T) {
	for name, fresh := range map[string]func(t *testing.T) (dsn string, exec func(string)){
		"sqlite": func(t *testing.T) (string, func(string)) {
			path := filepath.Join(t.TempDir(), "dvt.db")
			s, err := sqlite.Open(t.Context(), path, sqlite.Options{})
			must(t, err)
			createRuns(t, s, 3)
			return "sqlite:" + path, func(q string) {
				db, err := sql.Open("sqlite", path)
				must(t, err)
				_, err = db.Exec(q)
				must(t, errors.Join(err, db.Close()))
			}
		},
		"postgres": func(t *testing.T) (string, func(string)) {
			dsn := testserver.Postgres(t)
			s, err := postgres.Open(t.Context(), dsn, postgres.Options{Migrate: true})
			must(t, err)
			createRuns(t, s, 3)
			return dsn, func(q string) {
				db, err := sql.Open("pgx", dsn)
				must(t, err)
				_, err = db.Exec(q)
				must(t, errors.Join(err, db.Close()))
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			dsn, exec := fresh(t)
			on := func(args ...string) []string { return append(append([]string{"store"}, args...), "--store", dsn) }
			expectCommand(t, 0, on("verify"), "3 runs, 9 events: 0 differences")
			expectCommand(t, 4, on("verify", "--run", "nobody", "--run", "run-1"), "there is no run nobody in this store")
			expectCommand(t, 2, on("verify", "-o", "xml"), "it must be table, wide, json or yaml")
			exec(`UPDATE run_head SET running = 5 WHERE run_id = 'run-1'`)
			expectCommand(t, 1, on("verify"), "DIFFERENT run-1: head.running: stored 5, expected 1",
				"the store has 1 differences")
			var report struct {
				Differences int
				Found       []struct{ RunID, What string }
			}
			must(t, json.Unmarshal([]byte(expectCommand(t, 1, on("verify", "-o", "json"))), &report))
			if report.Differences != 1 || report.Found[0].What != "head.running" {
				t.Errorf("the report is %+v, want one difference of head.running", report)
			}
			expectCommand(t, 0, on("verify", "--run", "run-2"), "1 runs, 3 events: 0 differences")
			exec(`UPDATE run_head SET running = 1 WHERE run_id = 'run-1'`)
			expectCommand(t, 0, on("rebuild"), "rebuilt 3 runs")
			expectCommand(t, 0, on("epoch", "bump"), "epoch ", " -> ")

			file := filepath.Join(t.TempDir(), "runs.jsonl.gz")
			expectCommand(t, 0, on("export", file), "exported 3 runs with 9 events")
			if b, err := os.ReadFile(file); err != nil || !bytes.HasPrefix(b, []byte{0x1f, 0x8b}) {
				t.Errorf("the export is not compressed with gzip (%v)", err)
			}
			status, doc, note := runCommand(t, "", on("export", "-", "--run", "run-1")...)
			if status != 0 || !strings.Contains(note, "exported 1 runs") || strings.Count(doc, "\n") != 7 {
				t.Errorf("the export of one run has the status %d and prints %q, want 7 lines:\n%s", status, note, doc)
			}
			expectCommand(t, 3, on("import", file), "3 runs of the file are in the store already", "run-0, run-1, run-2")
			fresh := "sqlite:" + filepath.Join(t.TempDir(), "fresh.db")
			if status, out, errs := runCommand(t, doc, "store", "import", "-", "--store", fresh); status != 0 ||
				!strings.Contains(out, "imported 1 runs with 3 events") {
				t.Errorf("the import of one run has the status %d and prints %s%s", status, out, errs)
			}
			expectCommand(t, 0, []string{"store", "import", file, "--store", fresh, "--skip-existing"},
				"imported 2 runs with 6 events and 0 receipts; skipped 1 that exist")
			expectCommand(t, 0, []string{"store", "verify", "--store", fresh}, "3 runs, 9 events: 0 differences")
			broken := filepath.Join(t.TempDir(), "broken.jsonl")
			must(t, os.WriteFile(broken, []byte(strings.ReplaceAll(doc, `"runSeq":2`, `"runSeq":7`)), 0o600))
			expectCommand(t, 2, []string{"store", "import", broken, "--store", "sqlite:" + filepath.Join(t.TempDir(), "no.db")},
				"line 4: ", "event.runSeq", "nothing was imported")
		})
	}
}

func TestStoreCommands_NameTheMissingStoreFileOrFlag(t *testing.T) {
	expectCommand(t, 4, []string{"store", "verify", "--store", "sqlite:" + filepath.Join(t.TempDir(), "none.db")},
		"there is no store at")
	expectCommand(t, 1, []string{"store", "verify", "--data", t.TempDir()}, "--store is missing")
	expectCommand(t, 4, []string{"store", "import", "none.jsonl", "--store", "sqlite:" + filepath.Join(t.TempDir(),
		"x.db")},
		"none.jsonl")
	expectCommand(t, 2, []string{"store", "repair"}, "dvt store repair --from-engine")
	expectCommand(t, 1, []string{"store", "repair", "--from-engine", "--data", t.TempDir()}, "--temporal is missing")
	expectCommand(t, 2, []string{"store", "export"}, "usage:")
}

// After the loss of a disk, an operator restores an old backup and runs repair and verify. Then finished runs are known
// and open runs go on.
// contract: T30
func TestStoreRepair_RefillsABackupOfDvtDev(t *testing.T) {
	t.Parallel()
	data, address := dataDir(t), testserver.FreeAddress(t)
	p := spawn(t, "dvt dev", nil, "dev", "--listen", address, "--data", data, "--no-sample")
	c := client.New("http://"+address, devToken(t, data, "dev-engineer"))
	doc := func(ms int) []byte {
		return fmt.Appendf(
			nil, `{"schemaVersion":"v1.2","metadata":{"planId":"p-%d","planVersion":"1.0","createdAt":"2026-01-01T00:00:00Z","createdBy":"test","schemaVersion":"v1.2"},
			"scope":{"tenantId":"acme","projectId":"shop","environmentId":"dev","repoSha":"%s"},"steps":[
			{"stepId":"a","type":"SLEEP","inputs":{"ms":3000},"timeout":"1m"},
			{"stepId":"b","type":"SLEEP","inputs":{"ms":%d},"dependsOn":["a"],"timeout":"1m","retry":{"maxAttempts":5}}]}`, ms,
			strings.Repeat("0", 40), ms)
	}
	long, short := start(t, c, "long", doc(12000)), start(t, c, "short", doc(1))
	backup := filepath.Join(t.TempDir(), "backup.db")
	db, err := sql.Open("sqlite", filepath.Join(data, "dvt.db")+"?_pragma=busy_timeout(5000)")
	must(t, err)
	_, err = db.Exec(`VACUUM INTO '` + backup + `'`)
	must(t, errors.Join(err, db.Close()))
	expectCommand(t, 1, []string{"store", "repair", "--from-engine", "--data", data}, "already") // dvt dev uses the data
	if r := waitForEnd(t, c, short, time.Minute); r.Status != client.RunStatusCompleted {
		t.Fatalf("the short run ended %s, want COMPLETED", r.StatusRaw)
	}
	p.terminate()
	for _, name := range []string{"dvt.db-wal", "dvt.db-shm"} {
		must(t, os.RemoveAll(filepath.Join(data, name)))
	}
	must(t, os.Rename(backup, filepath.Join(data, "dvt.db")))
	on := func(args ...string) []string { return append(append([]string{"store"}, args...), "--data", data) }
	expectCommand(t, 0, on("repair", "--from-engine"), "REFILLED  "+short, "epoch ", "0 lost")
	expectCommand(t, 0, on("verify"), "2 runs", "0 differences")
	expectCommand(t, 0, on("repair", "--from-engine"), "0 refilled")
	p.start()
	if r := waitForEnd(t, c, short, time.Minute); r.Status != client.RunStatusCompleted {
		t.Errorf("after the repair the finished run is %s, want COMPLETED", r.StatusRaw)
	}
	if r := waitForEnd(t, c, long, time.Minute); r.Status != client.RunStatusCompleted {
		t.Errorf("after the repair the open run ended %s, want COMPLETED", r.StatusRaw)
	}
	p.terminate()
	expectCommand(t, 0, on("verify"), "0 differences")
}
