package sqlite

import (
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
	"github.com/dvt-engine/dvt/store"
)

// upTo returns the program's migrations whose names are not above last, and those in more (pairs of name and SQL).
func upTo(t *testing.T, last string, more ...string) fs.FS {
	t.Helper()
	out := fstest.MapFS{}
	paths, err := filepath.Glob("migrations/*.sql")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no migrations: %v", err)
	}
	for _, p := range paths {
		body, err := os.ReadFile(p)
		if err != nil {
			t.Fatal(err)
		}
		if name := filepath.Base(p); name[:4] <= last {
			out[name] = &fstest.MapFile{Data: body}
		}
	}
	for i := 0; i < len(more); i += 2 {
		out[more[i]] = &fstest.MapFile{Data: []byte("-- +goose Up\n" + more[i+1])}
	}
	return out
}

// released and newest are the number of this program's migrations and the version of the last one, own the same as the
// prefix of its name, and nextName the name of a migration after it.
var (
	released, newest = func() (released, newest int64) {
		files, err := migrations.ReadDir("migrations")
		if err != nil || len(files) == 0 {
			panic(err)
		}
		if _, err := fmt.Sscanf(files[len(files)-1].Name(), "%04d_", &newest); err != nil {
			panic(err)
		}
		return int64(len(files)), newest
	}()
	own      = fmt.Sprintf("%04d", newest)
	nextName = fmt.Sprintf("%04d_later.sql", newest+1)
)

// raw opens the file with database/sql and the store's settings.
func raw(t *testing.T, path string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", dsn(path, Options{}.withDefaults()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func migrateFile(t *testing.T, path string, files fs.FS) {
	t.Helper()
	if err := migrateWith(t.Context(), raw(t, path), files); err != nil {
		t.Fatal(err)
	}
}

func appendStep(t *testing.T, s *Store, attempt int) {
	t.Helper()
	if _, err := s.Append(
		t.Context(), store.Append{RunID: runtest.ID.RunID,
			Events: []run.Draft{runtest.Draft(run.StepStartedEvent, "s1", attempt)}}); err != nil {
		t.Fatal(err)
	}
}

// Open refuses a file from before the baseline and changes nothing in it.
// contract: R508
func TestOpen_AFileFromBeforeTheBaselineIsLeftAlone(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "dvt.db")
	migrateFile(t, path, fstest.MapFS{"0010_early.sql": {Data: []byte("-- +goose Up\nCREATE TABLE early (n INTEGER);")}})
	objects := func() (out string) {
		t.Helper()
		if err := raw(t, path).QueryRow(`SELECT (SELECT group_concat(name || coalesce(sql, '')) FROM sqlite_schema) ||
			(SELECT group_concat(version_id) FROM goose_db_version)`).Scan(&out); err != nil {
			t.Fatal(err)
		}
		return out
	}
	before := objects()
	_, err := Open(t.Context(), path, Options{})
	if !errors.Is(err, store.ErrSchema) || !strings.Contains(err.Error(), "dvt store export") ||
		!strings.Contains(err.Error(), "dvt store import") {
		t.Errorf("Open: %v, want an ErrSchema that names export and import", err)
	}
	if after := objects(); after != before {
		t.Errorf("the file changed: %s, before %s", after, before)
	}
}

// contract: R508
func TestOpen_WorksOnACompatibleLaterFile(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, last string
		opens      bool
	}{
		{"compatible", fmt.Sprintf(
			`ALTER TABLE event ADD COLUMN later INTEGER; UPDATE meta SET value = '%d' WHERE name = 'compatible_from';`, newest),
			true},
		{"no longer compatible",
			fmt.Sprintf(`UPDATE meta SET value = '%d' WHERE name = 'compatible_from';`, newest+1), false},
		{"without compatible_from", `DELETE FROM meta WHERE name = 'compatible_from';`, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "dvt.db")
			migrateFile(t, path, upTo(t, own, nextName, c.last))
			s, err := Open(t.Context(), path, Options{})
			if !c.opens {
				if !errors.Is(err, store.ErrSchema) || !strings.Contains(err.Error(), "start a newer dvt") {
					t.Fatalf("Open: %v, want an ErrSchema that says to start a newer dvt", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			newRun(t, s)
			appendStep(t, s, 1)
		})
	}
}

// This version, which has prepared its statements, continues while the next version migrates the file.
// contract: R508
func TestOpen_ThisVersionContinuesWhileTheNextMigrates(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "dvt.db")
	s := open(t, path, Options{})
	newRun(t, s)
	appendStep(t, s, 1)
	alter := ""
	for _, table := range []string{"event", "run", "run_head", "run_state", "step_state", "run_dirty", "signal",
		"delivery", "run_queue", "audit", "plan_body"} {
		alter += "ALTER TABLE " + table + " ADD COLUMN later INTEGER NOT NULL DEFAULT 7;\n"
	}
	migrateFile(t, path, upTo(t, own, nextName, alter))
	appendStep(t, s, 2)
	l, err := s.Load(t.Context(), runtest.ID.RunID)
	if err != nil || l.Head.LastSeq != 3 {
		t.Fatalf("head %d, %v; want 3", l.Head.LastSeq, err)
	}
	if _, err := s.Save(t.Context(), l.State, l.Changes); err != nil {
		t.Fatal(err)
	}
	if err := s.MarkPublished(t.Context(), runtest.ID.RunID, l.Head.LastSeq, l.Head.OpsRev); err != nil {
		t.Fatal(err)
	}
}

// childEnv names what the test binary does as a child process, and the file on which it works.
const childEnv = "TEST_CHILD_ON"

// TestChild is the main function of a child process.
func TestChild(t *testing.T) {
	what, path, ok := strings.Cut(os.Getenv(childEnv), " ")
	if !ok {
		return
	}
	switch what {
	case "open":
		s, err := Open(t.Context(), path, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	case "slowly":
		migrateFile(t, path, upTo(t, own, nextName, `CREATE TABLE later (n INTEGER);
			INSERT INTO later WITH RECURSIVE c (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < 100000000) SELECT n FROM c;`))
	case "write":
		s, err := Open(t.Context(), path, Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		writeUntilEndOfInput(t, s)
	}
}

func child(t *testing.T, what, path string) *exec.Cmd {
	t.Helper()
	c := exec.Command(os.Args[0], "-test.run=^TestChild$")
	c.Env = append(os.Environ(), childEnv+"="+what+" "+path)
	return c
}

// contract: T227
func TestOpen_ManyProcessesAtOnce(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "dvt.db")
	var children []*exec.Cmd
	for range 4 {
		c := child(t, "open", path)
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		children = append(children, c)
	}
	for _, c := range children {
		if err := c.Wait(); err != nil {
			t.Error(err)
		}
	}
	var applied, distinct int64
	if err := raw(t, path).QueryRow(
		`SELECT count(*), count(DISTINCT version_id) FROM goose_db_version WHERE version_id > 0`).Scan(&applied,
		&distinct); err != nil {
		t.Fatal(err)
	}
	if applied != distinct || distinct != released {
		t.Errorf("%d migrations were applied, %d of them distinct; want each one once", applied, distinct)
	}
}

func TestOpen_KilledInTheMiddleOfAMigration(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "dvt.db")
	s := open(t, path, Options{})
	newRun(t, s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	victim := child(t, "slowly", path)
	if err := victim.Start(); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		if wal, err := os.Stat(path + "-wal"); err == nil && wal.Size() > 1<<20 { // the migration fills the table
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the migration did not start within a minute")
		}
	}
	if err := victim.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = victim.Wait() // an error, because it was killed
	from := time.Now()
	s = open(t, path, Options{})
	appendStep(t, s, 1)
	if took := time.Since(from); took > time.Minute {
		t.Errorf("the file was usable after %v, want within a minute", took)
	}
	var left int
	if err := raw(t, path).QueryRow(
		`SELECT (SELECT count(*) FROM sqlite_schema WHERE name = 'later') + (SELECT count(*) FROM goose_db_version WHERE version_id > ?)`, newest).
		Scan(&left); err != nil || left != 0 {
		t.Errorf("the killed migration left %d traces, %v; want none", left, err)
	}
	migrateFile(t, path, upTo(t, own, nextName, `CREATE TABLE later (n INTEGER);`))
	appendStep(t, s, 2)
}

// No statement can change the insert-only tables, not even REPLACE, which deletes rows implicitly.
// contract: Z02, T208
func TestTriggers_InsertOnly(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	path := filepath.Join(t.TempDir(), "dvt.db")
	s := open(t, path, Options{})
	newRun(t, s)
	appendStep(t, s, 1)
	if err := s.Audit(ctx, store.AuditRow{ID: "a1", TenantID: "t1", Action: "TEST"}); err != nil {
		t.Fatal(err)
	}
	digest := func() (sum string) {
		t.Helper()
		err := raw(t, path).QueryRow(`SELECT (SELECT group_concat(e.run_seq || e.event_id || e.type || e.key || hex(e.payload)) FROM event e) ||
			(SELECT group_concat(a.id || a.actor || a.action) FROM audit a)`).Scan(&sum)
		if err != nil {
			t.Fatal(err)
		}
		return sum
	}
	before := digest()
	for _, statement := range []string{
		`UPDATE event SET type = 'RunCancelled'`, `DELETE FROM event`, `UPDATE audit SET actor = ''`, `DELETE FROM audit`,
		`REPLACE INTO event SELECT run_id, run_seq, key, event_id, 'StepSkipped', step_id, signal_id, logical_attempt, engine_attempt, emitted_at, persisted_at, emitted_by, payload FROM event`,
		`INSERT OR REPLACE INTO event SELECT run_id, run_seq + 100, key, 'other', type, step_id, signal_id, logical_attempt, engine_attempt, emitted_at, persisted_at, emitted_by, payload FROM event`,
		`INSERT INTO event SELECT * FROM event WHERE true ON CONFLICT DO UPDATE SET payload = NULL`,
		`UPDATE OR REPLACE event SET run_seq = 1`, `UPDATE event SET payload = NULL WHERE run_seq = 1`,
		`REPLACE INTO audit (id, at, tenant_id, actor, action, run_id, signal_id, outcome, code, reason, request_id, detail) SELECT id, at, tenant_id, 'nobody', action, run_id, signal_id, outcome, code, reason, request_id, detail FROM audit`,
		`INSERT INTO audit SELECT * FROM audit WHERE true ON CONFLICT (id) DO UPDATE SET actor = ''`,
	} {
		err := s.write(ctx, func(c *conn) error {
			_, err := c.exec(ctx, "test", statement)
			return err
		})
		if err == nil || !strings.Contains(err.Error(), "-only") {
			t.Errorf("%s: %v, want an error of the trigger", statement, err)
		}
	}
	if after := digest(); after != before {
		t.Errorf("events or audit rows changed, before and after:\n%s\n%s", before, after)
	}
}
