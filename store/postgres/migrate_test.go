package postgres

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/dvt-engine/dvt/internal/testserver"
	"github.com/dvt-engine/dvt/internal/testtime"
	"github.com/dvt-engine/dvt/store"
)

var release = flag.Bool(
	"release", false, "add the new migrations to testdata/released.sha256, so that they can no longer change")

// adapters have migrations with the same numbers and names.
var adapters = []string{"postgres", "sqlite"}

// migrationFiles returns the migrations of an adapter by name.
func migrationFiles(t *testing.T, adapter string) map[string]string {
	t.Helper()
	return schemaFiles(t, adapter+"/migrations")
}

// schemaFiles returns the SQL files of a directory by name.
func schemaFiles(t *testing.T, dir string) map[string]string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join("..", dir, "*.sql"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no files in %s: %v", dir, err)
	}
	files := map[string]string{}
	for _, p := range paths {
		body, err := os.ReadFile(p)
		if err != nil {
			t.Fatal(err)
		}
		files[filepath.Base(p)] = string(body)
	}
	return files
}

func number(t *testing.T, name string) int {
	t.Helper()
	digits, _, _ := strings.Cut(name, "_")
	n, err := strconv.Atoi(digits)
	if err != nil || len(digits) != 4 {
		t.Fatalf("the name of the migration %s does not begin with four digits", name)
	}
	return n
}

func TestMigrations_SameNumbersOnBothDatabases(t *testing.T) {
	t.Parallel()
	names := slices.Sorted(maps.Keys(migrationFiles(t, "postgres")))
	if diff := cmp.Diff(names, slices.Sorted(maps.Keys(migrationFiles(t, "sqlite")))); diff != "" {
		t.Errorf("migrations (-postgres +sqlite):\n%s", diff)
	}
	for i, name := range names {
		if number(t, name) != baseline+i {
			t.Errorf("%s should have the number %d, because numbers follow the baseline without a gap", name, baseline+i)
		}
	}
	if last := number(t, names[len(names)-1]); last != schema {
		t.Errorf("schema is %d and the number of the last migration is %d, want equal", schema, last)
	}
}

// Databases exist that have applied a released migration, so a change of it would have no effect there. The newest
// migration may change until `go test ./store/postgres -run Released -release` records it.
func TestMigrations_ReleasedOnesAreUnchanged(t *testing.T) {
	t.Parallel()
	const list = "testdata/released.sha256"
	text, err := os.ReadFile(list)
	if err != nil {
		t.Fatal(err)
	}
	released := map[string]string{}
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		sum, file, ok := strings.Cut(strings.TrimSpace(line), "  ")
		if !ok {
			t.Fatalf("%s: %q is not a sum and a file", list, line)
		}
		released[file] = sum
	}
	for _, adapter := range adapters {
		dir := adapter + "/migrations"
		files := schemaFiles(t, dir)
		for _, name := range slices.Sorted(maps.Keys(files)) {
			file, sum := dir+"/"+name, fmt.Sprintf("%x", sha256.Sum256([]byte(files[name])))
			switch {
			case released[file] == "" && *release:
				text = append(text, sum+"  "+file+"\n"...)
			case released[file] == "" && number(t, name) < schema:
				t.Errorf("%s is not the newest migration, but is missing in %s", file, list)
			case released[file] != "" && released[file] != sum:
				t.Errorf("%s was released and has changed: put the change into a new migration", file)
			}
			delete(released, file)
		}
	}
	for file := range released {
		t.Errorf("%s was released and is missing", file)
	}
	if *release && !t.Failed() {
		if err := os.WriteFile(list, text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// contract: R508
func TestMigrations_AreAdditive(t *testing.T) {
	t.Parallel()
	for _, adapter := range adapters {
		oldest := 0
		files := migrationFiles(t, adapter)
		for _, name := range slices.Sorted(maps.Keys(files)) {
			for _, p := range problems(files[name]) {
				t.Errorf("%s/%s: %s", adapter, name, p)
			}
			n := number(t, name)
			found := compatibleFrom.FindStringSubmatch(files[name])
			if found == nil {
				t.Errorf("%s/%s does not set compatible_from, the oldest program that still works on it", adapter, name)
				continue
			}
			from, _ := strconv.Atoi(strings.Join(found[1:], ""))
			if from < oldest || from > n {
				t.Errorf("%s/%s sets compatible_from to %d, after %d", adapter, name, from, oldest)
			}
			oldest = from
			if adapter == "postgres" && !strings.Contains(files[name], "-- +goose Up\nSET LOCAL lock_timeout = ") {
				t.Errorf("%s/%s does not begin with SET LOCAL lock_timeout: while it waits for a table, all servers wait behind it",
					adapter, name)
			}
			if adapter == "postgres" && strings.Contains(files[name], "ALTER TABLE") && !strings.Contains(files[name],
				"\nLOCK TABLE ") {
				t.Errorf("%s/%s locks its tables one by one: under load it would deadlock with servers that lock them in "+
					"another order", adapter, name)
			}
		}
	}
}

// nextVersion returns the synthetic next version in testdata/next, with the work ahead of it.
func nextVersion(t *testing.T) Migration {
	t.Helper()
	out := upTo(t, schema)
	for name, text := range schemaFiles(t, "postgres/testdata/next") {
		out[fmt.Sprintf("%04d_%s", schema+1, name)] = &fstest.MapFile{Data: []byte(text)}
	}
	a := ahead{version: schema + 1, file: fmt.Sprintf("%04d_next.sql", schema+1), fill: fillLabelsSQL}
	for name, text := range schemaFiles(t, "postgres/testdata/next/ahead") {
		out[fmt.Sprintf("ahead/%04d_%s", schema+1, name)] = &fstest.MapFile{Data: []byte(text)}
	}
	return Migration{files: out, ahead: append(slices.Clone(allAhead), a)}
}

// fillLabelsSQL fills the column that the synthetic next version adds to run_status.
const fillLabelsSQL = `WITH slice AS MATERIALIZED (
  SELECT run_id, label FROM run_status WHERE run_id > $1 ORDER BY run_id LIMIT 1000
), missing AS MATERIALIZED (
  SELECT r.run_id, r.triggered_by FROM slice JOIN run r USING (run_id) WHERE slice.label = '' AND r.triggered_by <> ''
), free AS MATERIALIZED (
  SELECT m.* FROM missing m JOIN run_status s USING (run_id) FOR NO KEY UPDATE OF s SKIP LOCKED
), filled AS (
  UPDATE run_status s SET label = f.triggered_by FROM free f WHERE s.run_id = f.run_id RETURNING 1
)
SELECT coalesce(max(run_id), ''), (SELECT count(*) FROM filled),
  (SELECT count(*) FROM missing) - (SELECT count(*) FROM free) FROM slice`

// The linter accepts the work ahead of the program's migrations and of the synthetic next version. The work ahead may
// be repeated.
// contract: R508
func TestMigrations_TheNextVersionIsAdditiveAndItsWorkAheadMayBeRepeated(t *testing.T) {
	t.Parallel()
	m := nextVersion(t)
	begins := regexp.MustCompile(`^(--[^\n]*\n)*SET LOCAL lock_timeout = '1s';\nLOCK TABLE `)
	for _, a := range m.ahead {
		for _, dir := range []string{"", "ahead/"} {
			text, err := fs.ReadFile(m.files, dir+a.file)
			if err != nil {
				t.Fatal(err)
			}
			for _, p := range problems(string(text)) {
				t.Errorf("%s%s: %s", dir, a.file, p)
			}
		}
		text, err := fs.ReadFile(m.files, "ahead/"+a.file)
		if err != nil {
			t.Fatal(err)
		}
		if number(t, a.file) != int(a.version) || !begins.MatchString(string(text)) {
			t.Errorf("ahead/%s does not have the number %d, or does not begin with a lock of its tables", a.file, a.version)
		}
		dsn := testserver.Postgres(t)
		migrateTo(t, dsn, upTo(t, int(a.version)-1))
		for range 2 {
			if _, err := dial(t, dsn).Exec(t.Context(), string(text)); err != nil {
				t.Errorf("ahead/%s cannot be repeated: %v", a.file, err)
			}
		}
	}
}

var compatibleFrom = regexp.MustCompile(`'compatible_from', '?(\d+)|value = '?(\d+)'? WHERE name = 'compatible_from'`)

// The rules read one statement in capitals, without comments, function bodies and literals.
var (
	comment   = regexp.MustCompile(`--[^\n]*`)
	body      = regexp.MustCompile(`(?s)\$\$.*?\$\$`)
	literal   = regexp.MustCompile(`'[^']*'`)
	blank     = regexp.MustCompile(`\s+`)
	forbidden = regexp.MustCompile(`^(DROP (TABLE|VIEW|FUNCTION|TRIGGER|SEQUENCE|SCHEMA|TYPE)|TRUNCATE|DELETE)\b`)
	altered   = regexp.MustCompile(
		`^ALTER TABLE .*\b(RENAME|DROP|TYPE|SET NOT NULL|ADD (CONSTRAINT|UNIQUE|CHECK|PRIMARY|FOREIGN))\b`)
	needs          = regexp.MustCompile(`\bNOT NULL\b`)
	has            = regexp.MustCompile(`\b(DEFAULT|GENERATED)\b`)
	madeTable      = regexp.MustCompile(`^CREATE TABLE (\w+)`)
	madeTrigger    = regexp.MustCompile(`CREATE TRIGGER (\w+)`)
	droppedTrigger = regexp.MustCompile(`^DROP TRIGGER (\w+)( ON \w+)?$`)
	uniqueness     = regexp.MustCompile(`^CREATE UNIQUE INDEX \w+ ON (\w+)`)
)

// problems returns the reasons why a migration would break programs of the previous schema, or would not be rolled back
// as a whole.
func problems(sql string) (out []string) {
	if strings.Contains(sql, "+goose Down") {
		out = append(out, "it has a Down part, but migrations only go forward")
	}
	if strings.Contains(sql, "NO TRANSACTION") {
		out = append(out, "it is not one transaction")
	}
	for _, r := range []*regexp.Regexp{comment, body, literal} {
		sql = r.ReplaceAllString(sql, " ")
	}
	made, replaced := map[string]bool{}, map[string]bool{}
	for _, m := range madeTrigger.FindAllStringSubmatch(strings.ToUpper(sql), -1) {
		replaced[m[1]] = true
	}
	for s := range strings.SplitSeq(strings.ToUpper(sql), ";") {
		s = strings.TrimSpace(blank.ReplaceAllString(s, " "))
		if m := madeTable.FindStringSubmatch(s); m != nil {
			made[m[1]] = true
		}
		if m := uniqueness.FindStringSubmatch(s); m != nil && !made[m[1]] {
			out = append(out, "a unique index on an existing table: "+s)
		}
		if m := droppedTrigger.FindStringSubmatch(s); m != nil && replaced[m[1]] {
			continue // PostgreSQL 13 and SQLite replace a trigger only so
		}
		if forbidden.MatchString(s) || altered.MatchString(strings.ReplaceAll(s, "DROP NOT NULL", "")) {
			out = append(out, "not additive: "+s)
		}
		if strings.HasPrefix(s, "ALTER TABLE ") {
			for column := range strings.SplitSeq(s, ",") {
				if needs.MatchString(strings.ReplaceAll(column, "DROP NOT NULL", "")) && !has.MatchString(column) {
					out = append(out, "a NOT NULL column without a default, which the previous program does not fill: "+s)
				}
			}
		}
	}
	return out
}

func TestMigrations_TheLinterFindsWhatIsNotAdditive(t *testing.T) {
	t.Parallel()
	for _, sql := range []string{
		`DROP TRIGGER event_no_delete`, `DROP TRIGGER t; CREATE TRIGGER u BEFORE DELETE ON event BEGIN SELECT 1; END`,
		`DROP TABLE event`, `drop table if exists event`, `ALTER TABLE event DROP COLUMN logical_attempt`,
		`ALTER TABLE event DROP logical_attempt`,
		`ALTER TABLE event ALTER COLUMN logical_attempt TYPE bigint`,
		`ALTER TABLE event ALTER logical_attempt SET DATA TYPE bigint`,
		`ALTER TABLE event RENAME logical_attempt TO l`,
		`ALTER TABLE event RENAME TO log`, `ALTER TABLE event ADD COLUMN x int NOT NULL`,
		"ALTER TABLE event\n  ADD a int DEFAULT 0,\n  ADD x int NOT NULL",
		`ALTER TABLE event ALTER COLUMN payload SET NOT NULL`,
		`ALTER TABLE event ADD CONSTRAINT c CHECK (logical_attempt > 0)`,
		`DELETE FROM run_dirty`,
		`TRUNCATE run_state`, `CREATE UNIQUE INDEX i ON event (event_id)`, `DROP FUNCTION dvt_append`,
		"CREATE TABLE n (x int);\n-- +goose Down\nSELECT 1",
		"-- +goose NO TRANSACTION\nCREATE INDEX CONCURRENTLY i ON event (type)",
	} {
		if len(problems("-- +goose Up\n"+sql+";\n")) == 0 {
			t.Errorf("the linter accepts: %s", sql)
		}
	}
	for _, sql := range []string{
		`CREATE TABLE n (x int NOT NULL)`, `ALTER TABLE event ADD COLUMN x int`,
		`ALTER TABLE event ADD COLUMN x int NOT NULL DEFAULT 0`,
		`ALTER TABLE event ALTER COLUMN logical_attempt DROP NOT NULL`,
		`CREATE TABLE n (x int); CREATE UNIQUE INDEX i ON n (x)`,
		`DROP INDEX run_listed`,
		`DROP TRIGGER t; CREATE TRIGGER t BEFORE DELETE ON event BEGIN SELECT 1; END`,
		`UPDATE meta SET value = 3 WHERE name = 'compatible_from'`,
		"CREATE FUNCTION f() RETURNS void LANGUAGE sql AS $$ DELETE FROM run_dirty; $$",
	} {
		if p := problems("-- +goose Up\n" + sql + ";\n"); p != nil {
			t.Errorf("the linter refuses: %s: %v", sql, p)
		}
	}
}

// upTo returns the program's migrations up to n, and those in more (pairs of name and SQL).
func upTo(t *testing.T, n int, more ...string) fstest.MapFS {
	t.Helper()
	out := fstest.MapFS{}
	for name, body := range migrationFiles(t, "postgres") {
		if number(t, name) <= n {
			out[name] = &fstest.MapFile{Data: []byte(body)}
		}
	}
	for name, body := range schemaFiles(t, "postgres/migrations/ahead") {
		if number(t, name) <= n {
			out["ahead/"+name] = &fstest.MapFile{Data: []byte(body)}
		}
	}
	for i := 0; i < len(more); i += 2 {
		out[more[i]] = &fstest.MapFile{Data: []byte("-- +goose Up\n" + more[i+1])}
	}
	return out
}

// later is the name of a migration after the program's own ones.
var later = fmt.Sprintf("%04d_later.sql", schema+1)

func migrateTo(t *testing.T, dsn string, files fs.FS) {
	t.Helper()
	if err := (Migration{files: files, ahead: allAhead}).Run(t.Context(), dsn); err != nil {
		t.Fatal(err)
	}
}

func dial(t *testing.T, dsn string) *pgx.Conn {
	t.Helper()
	c, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close(context.Background()) })
	return c
}

// A server that restarts after the next version has migrated must start if the schema is compatible.
// contract: R508
func TestOpen_WorksOnACompatibleLaterSchema(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, last string
		opens      bool
	}{
		{"compatible", fmt.Sprintf(
			`ALTER TABLE event ADD COLUMN later int; UPDATE meta SET value = %d WHERE name = 'compatible_from';`, schema), true},
		{"no longer compatible", fmt.Sprintf(`UPDATE meta SET value = %d WHERE name = 'compatible_from';`, schema+1), false},
		{"without compatible_from", `DELETE FROM meta WHERE name = 'compatible_from';`, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dsn := testserver.Postgres(t)
			migrateTo(t, dsn, upTo(t, schema, later, c.last))
			if err := Migrate(t.Context(), dsn); err != nil {
				t.Errorf("migrate of the older program: %v, want no error and no change", err)
			}
			s, err := Open(t.Context(), dsn, Options{})
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
			writeOne(t, s, "r1")
		})
	}
}

func TestOpen_OlderSchemaSaysWhatToDo(t *testing.T) {
	t.Parallel()
	seven, twenty := int64(7), int64(20)
	for _, c := range []struct {
		version    int64
		compatible *int64
		program    int64
		want       string
	}{
		{version: 0, program: 21, want: "the database is empty, run dvt migrate"},
		{version: 20, compatible: &twenty, program: 21, want: "it is 20, this program needs 21: run dvt migrate"},
		{version: 10, compatible: &seven, program: 21, want: "export its runs with the dvt that made it"},
		{version: 22, compatible: &twenty, program: 21},
		{version: 22, program: 21, want: "start a newer dvt"},
	} {
		err := checkVersion(c.version, c.compatible, c.program)
		if c.want == "" && err != nil {
			t.Errorf("program %d on schema %d: %v, want no error", c.program, c.version, err)
		}
		if c.want != "" && (!errors.Is(err, store.ErrSchema) || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("program %d on schema %d: %v, want an ErrSchema that says %q", c.program, c.version, err, c.want)
		}
	}
	dsn := testserver.Postgres(t)
	if _, err := Open(t.Context(), dsn, Options{}); !errors.Is(err, store.ErrSchema) ||
		!strings.Contains(err.Error(), "run dvt migrate") {
		t.Errorf("an empty database: %v, want an ErrSchema that says to migrate", err)
	}
}

// Schema answers for an empty database, for one that lacks migrations, and for one of a newer program. It changes none.
func TestMigration_SchemaSaysWhatIsPending(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name              string
		files             fs.FS
		database, pending int64
	}{
		{name: "empty", pending: schema - baseline + 1},
		{name: "older", files: upTo(t, schema-2), database: schema - 2, pending: 2},
		{name: "current", files: upTo(t, schema), database: schema},
		{name: "newer", files: upTo(t, schema, later, "CREATE TABLE later (n int);"), database: schema + 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dsn := testserver.Postgres(t)
			if c.files != nil {
				migrateTo(t, dsn, c.files)
			}
			for range 2 { // the first answer changes nothing
				s, err := Migration{}.Schema(t.Context(), dsn)
				if err != nil {
					t.Fatal(err)
				}
				if s.Database != c.database || s.Program != schema || int64(len(s.Pending())) != c.pending {
					t.Errorf("database %d, program %d, %d pending; want %d, %d, %d", s.Database, s.Program, len(s.Pending()),
						c.database, schema, c.pending)
				}
				for _, m := range s.Migrations {
					if m.AppliedAt != nil && time.Since(*m.AppliedAt).Abs() > time.Hour {
						t.Errorf("migration %d was applied at %s", m.Version, m.AppliedAt)
					}
					if m.What == "" && m.Version <= schema {
						t.Errorf("migration %d does not say what it is for", m.Version)
					}
				}
			}
		})
	}
}

// Migrate and Open refuse a database from before the baseline and change nothing in it.
// contract: R508
func TestMigrate_ADatabaseFromBeforeTheBaselineIsLeftAlone(t *testing.T) {
	t.Parallel()
	dsn := testserver.Postgres(t)
	migrateTo(t, dsn, fstest.MapFS{"0010_early.sql": {Data: []byte("-- +goose Up\nCREATE TABLE early (n int);\n" +
		"CREATE TABLE meta (name text, value bigint);\n")}})
	c := dial(t, dsn)
	objects := func() (out string) {
		t.Helper()
		if err := c.QueryRow(t.Context(), `SELECT string_agg(relname || relfilenode, ' ' ORDER BY relname)
			|| (SELECT string_agg(version_id::text, ' ' ORDER BY id) FROM goose_db_version)
			FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relname NOT LIKE 'goose_lock%'`).Scan(
			&out); err != nil {
			t.Fatal(err)
		}
		return out
	}
	before := objects()
	_, opened := Open(t.Context(), dsn, Options{})
	for name, err := range map[string]error{"Migrate": Migrate(t.Context(), dsn), "Open": opened} {
		if !errors.Is(err, store.ErrSchema) || !strings.Contains(err.Error(), "dvt store export") ||
			!strings.Contains(err.Error(), "dvt store import") {
			t.Errorf("%s: %v, want an ErrSchema that names export and import", name, err)
		}
	}
	if after := objects(); after != before {
		t.Errorf("the database changed: %s, before %s", after, before)
	}
}

// inUse is a next version that locks two tables to which servers write.
const inUse = `SET LOCAL lock_timeout = '3s';
LOCK TABLE event, run_dirty IN ACCESS EXCLUSIVE MODE;
ALTER TABLE run_dirty ADD COLUMN later int;`

// logBuffer collects a log.
type logBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (s *logBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buf.Write(p)
}

func (s *logBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buf.String()
}

func (s *logBuffer) logger() *slog.Logger { return slog.New(slog.NewTextHandler(s, nil)) }

// A transaction reads the table that the migration changes for longer than a server may wait. The migration gives up
// its locks repeatedly, so that servers can continue.
// contract: R508
func TestMigrate_StepsAsideForServersWhileATableIsInUse(t *testing.T) {
	t.Parallel()
	dsn := testserver.Postgres(t)
	migrateTo(t, dsn, upTo(t, schema))
	reader := dial(t, dsn)
	if _, err := reader.Exec(t.Context(), `BEGIN; SELECT count(*) FROM run_dirty`); err != nil {
		t.Fatal(err)
	}
	var log logBuffer
	migrated := make(chan error, 1)
	go func() {
		m := Migration{Logger: log.logger(), ahead: allAhead, files: upTo(t, schema, later, inUse)}
		migrated <- m.Run(t.Context(), dsn)
	}()
	server := dial(t, dsn)
	var longest time.Duration
	for began := time.Now(); time.Since(began) < 8*time.Second || longest < time.Second &&
		time.Since(began) < time.Minute; {
		from := time.Now()
		if _, err := server.Exec(
			t.Context(), `INSERT INTO run_dirty (run_id, head_seq, ops_rev, since) VALUES ('r1', 1, 0, now())
			ON CONFLICT (run_id) DO UPDATE SET head_seq = excluded.head_seq`); err != nil {
			t.Fatal(err)
		}
		longest = max(longest, time.Since(from))
	}
	if longest < time.Second || longest > testtime.Of(5*time.Second) {
		t.Errorf("the longest wait of a server for the migration was %v, want between 1s and 5s", longest)
	}
	select {
	case err := <-migrated:
		t.Fatalf("the migration ended although the table is in use: %v", err)
	default:
	}
	if _, err := reader.Exec(t.Context(), `COMMIT`); err != nil {
		t.Fatal(err)
	}
	if err := <-migrated; err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(log.String(), "is in use; it is tried again") {
		t.Errorf("the log does not say why the migration waits: %s", log.String())
	}
}

// The previous version locks its tables in another order when it publishes than when it appends, so a migration may be
// the victim of a deadlock.
// contract: R508
func TestMigrate_IsRepeatedAfterADeadlockWithAServer(t *testing.T) {
	t.Parallel()
	dsn := testserver.Postgres(t)
	migrateTo(t, dsn, upTo(t, schema))
	server, watch := dial(t, dsn), dial(t, dsn)
	if _, err := server.Exec(
		t.Context(), `SET deadlock_timeout = '1min'; BEGIN; DELETE FROM run_dirty WHERE run_id = 'r1'`); err != nil {
		t.Fatal(err)
	}
	var log logBuffer
	migrated := make(chan error, 1)
	go func() {
		m := Migration{Logger: log.logger(), ahead: allAhead, files: upTo(t, schema, later, inUse)}
		migrated <- m.Run(t.Context(), dsn)
	}()
	await(t, watch, `SELECT EXISTS (SELECT FROM pg_locks WHERE relation = 'event'::regclass AND mode = 'AccessExclusiveLock' AND granted)`)
	if _, err := server.Exec(t.Context(), `SELECT count(*) FROM event; COMMIT`); err != nil {
		t.Errorf("the server was the victim of the deadlock: %v, want the migration", err)
	}
	if err := <-migrated; err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(log.String(), codeDeadlock) && !strings.Contains(log.String(), codeLockNotAvailable) {
		t.Errorf("the log shows neither a deadlock nor a lock timeout: %s", log.String())
	}
}

// childEnv names the database that the test binary migrates as a child process.
const childEnv = "TEST_MIGRATION_OF"

// TestMigrationChild is the main function of a child process.
func TestMigrationChild(t *testing.T) {
	dsn, slow := strings.CutPrefix(os.Getenv(childEnv), "slowly ")
	if dsn == "" {
		return
	}
	dsn, toNext := strings.CutPrefix(dsn, "next ")
	m := Migration{ahead: allAhead, files: upTo(t, schema)}
	switch {
	case slow:
		m.files = upTo(t, schema, later, `CREATE TABLE later (n int); SELECT pg_sleep(4);`)
	case toNext:
		m = nextVersion(t)
	}
	if err := m.Run(t.Context(), dsn); err != nil {
		t.Fatal(err)
	}
}

func child(t *testing.T, env string) *exec.Cmd {
	t.Helper()
	c := exec.Command(os.Args[0], "-test.run=^TestMigrationChild$")
	c.Env = append(os.Environ(), childEnv+"="+env)
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	return c
}

func TestMigrate_ManyProcessesAtOnce(t *testing.T) {
	t.Parallel()
	dsn := testserver.Postgres(t)
	var children []*exec.Cmd
	for range 4 {
		children = append(children, child(t, dsn))
	}
	for _, c := range children {
		if err := c.Wait(); err != nil {
			t.Error(err)
		}
	}
	var applied int
	if err := dial(t, dsn).QueryRow(t.Context(), `SELECT count(*) FROM goose_db_version WHERE version_id > 0`).Scan(
		&applied); err != nil || applied != 1+schema-baseline {
		t.Errorf("%d migrations were applied, want %d (%v)", applied, 1+schema-baseline, err)
	}
}

// A process is killed in the middle of a migration while it holds the lock.
func TestMigrate_KilledInTheMiddleTheNextOneRecovers(t *testing.T) {
	t.Parallel()
	dsn := testserver.Postgres(t)
	migrateTo(t, dsn, upTo(t, schema))
	watch := dial(t, dsn)
	victim := child(t, "slowly "+dsn)
	await(t, watch, `SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() AND query LIKE '%pg_sleep(4)%' AND pid <> pg_backend_pid())`)
	if err := victim.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = victim.Wait() // an error, because it was killed
	s, err := Open(t.Context(), dsn, Options{})
	if err != nil {
		t.Fatalf("the database is not usable after the kill: %v", err)
	}
	defer s.Close()
	writeOne(t, s, "r1")
	var log logBuffer
	from := time.Now()
	m := Migration{Logger: log.logger(), ahead: allAhead, files: upTo(t, schema, later, `CREATE TABLE later (n int);`)}
	if err := m.Run(t.Context(), dsn); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(from); took > testtime.Of(20*time.Second) {
		t.Errorf("the next process waited %v for the lease of the dead one, want at most 20s", took)
	}
	if !strings.Contains(log.String(), "waiting for another migration") || !strings.Contains(log.String(),
		fmt.Sprintf("-%d-", victim.Process.Pid)) {
		t.Errorf("the log does not name the process that holds the lock: %s", log.String())
	}
	await(t, watch, fmt.Sprintf(
		`SELECT (SELECT max(version_id) FROM goose_db_version) = %d AND to_regclass('later') IS NOT NULL`, schema+1))
}

// await returns when the query returns true.
func await(t *testing.T, c *pgx.Conn, query string) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for ok := false; !ok; {
		if err := c.QueryRow(t.Context(), query).Scan(&ok); err != nil {
			t.Fatal(err)
		}
		if !ok && time.Now().After(deadline) {
			t.Fatalf("still false after a minute: %s", query)
		}
	}
}
