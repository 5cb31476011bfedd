package erasure_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dvt-engine/dvt/artifact"
	"github.com/dvt-engine/dvt/control/retention"
	"github.com/dvt-engine/dvt/export"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
	"github.com/dvt-engine/dvt/store"
	"github.com/dvt-engine/dvt/store/auditdoc"
	"github.com/dvt-engine/dvt/store/decorate"
	"github.com/dvt-engine/dvt/store/owner"
	"github.com/dvt-engine/dvt/store/postgres"
	"github.com/dvt-engine/dvt/store/sqlite"
	"github.com/dvt-engine/dvt/store/subject"
	"github.com/dvt-engine/dvt/storeadmin"
	"github.com/dvt-engine/dvt/storeadmin/archive"
)

func (i *installation) exportOf(dir, person string) export.Config {
	return export.Config{Store: i.store, Run: runsOf(i.store), Owner: i.owner, Bucket: i.bucket, Keys: i.keys,
		Dir: dir, FileBytes: 300, Of: owner.Scope{TenantID: "tenant-" + gone, Subject: person},
		Reason: "an export of " + gone}
}

func runsOf(s store.Store) func(context.Context, time.Time, string, io.Writer) error {
	return func(ctx context.Context, at time.Time, runID string, w io.Writer) error {
		_, err := storeadmin.ExportAt(ctx, s, at, []string{runID}, w, nil)
		return err
	}
}

// readFiles returns the content of all files of an export, by path.
func (i *installation) readFiles(dir string) map[string]string {
	i.Helper()
	out := map[string]string{}
	check(i.T, filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		body, err := os.ReadFile(path)
		name, _ := filepath.Rel(dir, path)
		out[filepath.ToSlash(name)] = string(body)
		return err
	}))
	return out
}

// linesOf returns the lines of the files of a part.
func linesOf(files map[string]string, prefix string) (out []string) {
	for _, path := range slices.Sorted(func(yield func(string) bool) {
		for path := range files {
			if strings.HasPrefix(path, prefix) && !yield(path) {
				return
			}
		}
	}) {
		for lines := bufio.NewScanner(strings.NewReader(files[path])); lines.Scan(); {
			out = append(out, lines.Text())
		}
	}
	return out
}

func (i *installation) verifyExport(at string) export.Verified {
	i.Helper()
	v := must[export.Verified](i.T)(export.Verify(at))
	if v.Wrong > 0 {
		i.Fatalf("the export has %d problems, the first: %s", v.Wrong, v.Problems[0])
	}
	return v
}

// The export of a tenant has each row and each object that an erasure of the tenant would erase, and nothing of another
// tenant, no key and no hash of a token.
func TestExport_HasWhatAnErasureErases(t *testing.T) {
	onEach(t, func(i *installation) {
		t := i.T
		i.seed(gone)
		i.seed(kept)
		counts := must[map[string]int64](t)(i.owner.Count(t.Context(), owner.Scope{TenantID: "tenant-" + gone}))
		dir := filepath.Join(t.TempDir(), "export")
		m := must[export.Manifest](t)(export.Run(t.Context(), i.exportOf(dir, "")))
		v := i.verifyExport(dir)
		if diff := cmp.Diff(m, v.Manifest); diff != "" {
			t.Errorf("manifest differs (-run +verify):\n%s", diff)
		}
		files := i.readFiles(dir)
		for path, body := range files {
			for _, canary := range []string{kept, "tenant-kept", "ana.kept"} {
				if strings.Contains(body, canary) || strings.Contains(path, canary) {
					t.Errorf("%s has %q of the other tenant", path, canary)
				}
			}
		}
		elsewhere := []string{"audit", "audit_link", "audit_head", "audit_pending", "subject_key", "event", "plan_body"}
		for table, n := range counts {
			if got := int64(len(linesOf(files, "rows/"+table+"-"))); !slices.Contains(elsewhere, table) && got != n {
				t.Errorf("the export has %d rows of %s, the store %d", got, table, n)
			}
		}
		// the record of the export itself is in the audit, and the row that waited has its link
		if got := int64(len(linesOf(files, "audit/"))); got != counts["audit"]+1 || v.Audit != got {
			t.Errorf("the export has %d rows of the audit and verify %d, the store has %d and that of the export", got, v.Audit,
				counts["audit"])
		}
		events := 0
		for _, line := range linesOf(files, "runs/") {
			if strings.HasPrefix(line, `{"event"`) {
				events++
			}
		}
		if int64(events) != counts["event"] {
			t.Errorf("the export has %d events, the store %d", events, counts["event"])
		}
		if n := len(linesOf(files, "artifacts/")); n != 9 {
			t.Errorf("the export has %d artifacts, want 9", n)
		}
		if logs := linesOf(files, "logs/"); len(logs) != 3 || !strings.Contains(logs[0], "log of ana.gone@example.org") {
			t.Errorf("the export has the lines %q of logs, want 3", logs)
		}
		var doc auditdoc.Doc
		check(t, json.Unmarshal([]byte(linesOf(files, "audit/")[0]), &doc))
		if doc.Row.Actor != "ana.gone@example.org" || doc.Row.Sealed == nil {
			t.Errorf("the first row of the audit is by %q, want the opened name and the sealed one", doc.Row.Actor)
		}
		for _, line := range linesOf(files, "rows/api_token-") {
			if strings.Contains(line, "sha256") {
				t.Errorf("the export has the hash of a token: %s", line)
			}
		}
		for _, f := range []string{"out.tar", "out.tar.gz", "out.tar.zst"} {
			packed := filepath.Join(t.TempDir(), f)
			check(t, export.Pack(t.Context(), dir, packed))
			if got := i.verifyExport(packed); got.Hash != v.Hash || got.Rows != v.Rows {
				t.Errorf("%s has the manifest %s with %d rows, want %s with %d", f, got.Hash, got.Rows, v.Hash, v.Rows)
			}
		}
		again := must[export.Manifest](t)(export.Run(t.Context(), i.exportOf(dir, "")))
		if again.Hash != m.Hash {
			t.Errorf("the repeated command gives the manifest %s, want that of the finished export %s", again.Hash, m.Hash)
		}
	})
}

// Documents, times and booleans of both adapters have the same form.
func TestExport_TypesAreThoseOfPostgres(t *testing.T) {
	shapes := map[bool]map[string]string{}
	for _, name := range []string{"sqlite", "postgres"} {
		t.Run(name, func(t *testing.T) {
			i := &installation{T: t, keys: keyring(t), engine: &fakeEngine{runs: map[string]bool{}}, pg: name == "postgres",
				bucketDir: t.TempDir()}
			i.bucket = must[*artifact.Store](t)(artifact.Open(t.Context(), "file://"+i.bucketDir))
			t.Cleanup(func() { _ = i.bucket.Close() })
			if i.pg {
				openPostgres(i, "")
			} else {
				openSQLite(i, "")
			}
			i.seed(gone)
			shapes[i.pg] = map[string]string{}
			scope := owner.Scope{TenantID: "tenant-" + gone}
			for _, table := range i.owner.ExportTables(scope) {
				check(t, i.owner.Read(t.Context(), scope, table, nil, func(r owner.Row) (bool, error) {
					var row map[string]any
					check(t, json.Unmarshal(r.JSON, &row))
					for column, v := range row {
						shape := fmt.Sprintf("%T", v)
						if text, ok := v.(string); ok && len(text) > 18 && text[10] == 'T' {
							shape = "time"
						}
						if v == "infinity" {
							shape = "time"
						}
						if v != nil && v != "x-"+gone { // what fill writes is no document
							shapes[i.pg][table+"."+column] = shape
						}
					}
					return true, nil
				}))
			}
		})
	}
	for column, want := range shapes[true] {
		if got, ok := shapes[false][column]; ok && got != want && want != "map[string]interface {}" {
			t.Errorf("%s is %s on SQLite and %s on PostgreSQL", column, got, want)
		}
	}
}

func TestExport_EachFlippedByteIsFound(t *testing.T) {
	onEach(t, func(i *installation) {
		i.seed(gone)
		dir := filepath.Join(i.TempDir(), "export")
		_ = must[export.Manifest](i.T)(export.Run(i.Context(), i.exportOf(dir, "")))
		i.verifyExport(dir)
		flips := 0
		for path, body := range i.readFiles(dir) {
			step := max(1, len(body)/3)
			if path == export.ManifestName {
				step = 37
			}
			for at := 0; at < len(body); at += step {
				changed := []byte(body)
				changed[at] ^= 1 << (at % 8)
				name := filepath.Join(dir, filepath.FromSlash(path))
				check(i.T, os.WriteFile(name, changed, 0o600))
				if v, err := export.Verify(dir); err == nil && v.Wrong == 0 {
					i.Errorf("verify finds nothing after byte %d of %s was flipped", at, path)
				}
				check(i.T, os.WriteFile(name, []byte(body), 0o600))
				flips++
			}
		}
		check(i.T, os.WriteFile(filepath.Join(dir, "runs", "more.ndjson"), nil, 0o600))
		if v := must[export.Verified](i.T)(export.Verify(dir)); v.Wrong != 1 {
			i.Errorf("verify finds %d problems with a file too many, want 1", v.Wrong)
		}
		i.Logf("%d flipped bytes were found", flips)
	})
}

// childEnv makes this program the child of a test that kills it.
const childEnv = "DVT_EXPORT_CHILD"

type child struct {
	PG                bool
	DSN, Bucket, Dir  string
	KillAt            int // the number of the change after which the child kills itself
	TenantID, Subject string
}

func TestMain(m *testing.M) {
	text := os.Getenv(childEnv)
	if text == "" {
		os.Exit(m.Run())
	}
	var c child
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		panic(err)
	}
	if err := c.export(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func (c child) export(ctx context.Context) error {
	keys, err := subject.Parse([]string{"k1:" + base64.StdEncoding.EncodeToString([]byte(strings.Repeat("s", 32)))})
	if err != nil {
		return err
	}
	cfg := export.Config{Keys: keys, Dir: c.Dir, FileBytes: 300, Of: owner.Scope{TenantID: c.TenantID, Subject: c.Subject},
		Reason: "an export of " + gone}
	var opened store.Store
	if c.PG {
		s, err := postgres.Open(ctx, c.DSN, postgres.Options{MaxConns: 4})
		if err != nil {
			return err
		}
		db, err := postgres.OpenOwner(ctx, c.DSN, nil)
		if err != nil {
			return err
		}
		opened = decorate.SealAudit(s, keys)
		cfg.Owner = owner.New(db, owner.Postgres)
	} else {
		s, err := sqlite.Open(ctx, c.DSN, sqlite.Options{})
		if err != nil {
			return err
		}
		db, err := sqlite.OpenOwner(ctx, c.DSN)
		if err != nil {
			return err
		}
		opened = decorate.SealAudit(s, keys)
		cfg.Owner = owner.New(db, owner.SQLite)
	}
	cfg.Store, cfg.Run = opened, runsOf(opened)
	if cfg.Bucket, err = artifact.Open(ctx, "file://"+c.Bucket); err != nil {
		return err
	}
	changes := 0
	cfg.Stop = func(string) error {
		if changes++; changes == c.KillAt {
			return syscall.Kill(os.Getpid(), syscall.SIGKILL)
		}
		return nil
	}
	_, err = export.Run(ctx, cfg)
	return err
}

// An export is killed again and again, each time some changes further. The manifest at the end is that of an export
// that nobody killed, except for the id and the time of the export.
func TestExport_ContinuesAfterEachKill(t *testing.T) {
	onEach(t, func(i *installation) {
		i.seed(gone)
		c := child{PG: i.pg, DSN: i.file, Bucket: i.bucketDir, Dir: filepath.Join(i.TempDir(), "killed"),
			TenantID: "tenant-" + gone}
		if i.pg {
			c.DSN = i.dsn
		}
		kills := 0
		run := func(killAt int) error {
			c.KillAt = killAt
			doc := must[[]byte](i.T)(json.Marshal(c))
			cmd := exec.CommandContext(i.Context(), os.Args[0])
			cmd.Env = append(os.Environ(), childEnv+"="+string(doc))
			out, err := cmd.CombinedOutput()
			if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signal() == syscall.SIGKILL {
				kills++
				return nil
			}
			if err != nil {
				return fmt.Errorf("%w: %s", err, out)
			}
			return nil
		}
		for n := 1; n <= 20; n++ {
			check(i.T, run(n))
		}
		if kills != 20 {
			i.Errorf("the export was killed %d times, want 20", kills)
		}
		for before := 0; before != kills; { // to the end, which has points of its own
			before = kills
			check(i.T, run(40+kills))
		}
		v := i.verifyExport(c.Dir)
		if n := i.texts(`SELECT CAST(count(*) AS text) FROM audit WHERE action = 'EXPORT_TENANT'`); n[0] != "1" {
			i.Errorf("the audit has %s records of the export, want 1", n[0])
		}
		// The same export again, from its state after the record of the audit.
		whole := filepath.Join(i.TempDir(), "whole")
		check(i.T, os.MkdirAll(filepath.Join(whole, ".dvt-export"), 0o700))
		first := v.Manifest
		state := fmt.Sprintf(`{"version":1,"id":%q,"tenantId":%q,"fileBytes":300,"storeEpoch":%q,"startedAt":%q,"auditNo":%d}`,
			first.ExportID, first.TenantID, first.StoreEpoch, first.Until.At.Format("2006-01-02T15:04:05.000Z"),
			first.Until.AuditNo)
		check(i.T, os.WriteFile(filepath.Join(whole, ".dvt-export", "state.json"), []byte(state), 0o600))
		m := must[export.Manifest](i.T)(export.Run(i.Context(), i.exportOf(whole, "")))
		if diff := cmp.Diff(i.readFiles(whole), i.readFiles(c.Dir)); diff != "" || m.Hash != v.Hash {
			i.Errorf("the killed export differs from a whole one (-whole +killed):\n%s", diff)
		}
	})
}

func TestExport_AFullDiskIsToldAndTheExportContinues(t *testing.T) {
	onEach(t, func(i *installation) {
		i.seed(gone)
		dir := filepath.Join(i.TempDir(), "export")
		cfg := i.exportOf(dir, "")
		temp := filepath.Join(dir, ".dvt-export", "part.tmp")
		cfg.Stop = func(at string) error { // from now on the kernel says that the device is full
			if at == "saved" && !exists(temp) {
				return os.Symlink("/dev/full", temp)
			}
			return nil
		}
		_, err := export.Run(i.Context(), cfg)
		if !errors.Is(err, export.ErrFull) || !strings.Contains(err.Error(), "free some space") {
			i.Fatalf("the export ends with %v, want that the disk is full", err)
		}
		_ = os.Remove(temp)
		_ = must[export.Manifest](i.T)(export.Run(i.Context(), i.exportOf(dir, "")))
		i.verifyExport(dir)
	})
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// The last part takes long enough that its end is told.
func TestExport_ProgressNamesNoPartBeyondTheLast(t *testing.T) {
	onEach(t, func(i *installation) {
		i.seed(gone)
		cfg, slow := i.exportOf(filepath.Join(i.TempDir(), "export"), ""), false
		cfg.Stop = func(at string) error {
			if strings.HasPrefix(at, "named artifacts/") && !slow {
				slow = true
				time.Sleep(1100 * time.Millisecond) // an export tells how far it is once a second
			}
			return nil
		}
		cfg.Progress = func(p export.Progress) {
			if p.Parts > p.Of {
				i.Errorf("the export tells of part %d of %d (%s)", p.Parts, p.Of, p.Part)
			}
		}
		_ = must[export.Manifest](i.T)(export.Run(i.Context(), cfg))
		if !slow {
			i.Error("the export has no artifact")
		}
	})
}

func TestExport_AnotherTenantOrDirectoryIsRefused(t *testing.T) {
	onEach(t, func(i *installation) {
		i.seed(gone)
		i.seed(kept)
		dir := filepath.Join(i.TempDir(), "export")
		cfg := i.exportOf(dir, "")
		cfg.Stop = func(at string) error {
			if strings.HasPrefix(at, "named rows/") {
				return errors.New("stopped")
			}
			return nil
		}
		if _, err := export.Run(i.Context(), cfg); err == nil {
			i.Fatal("the export was not stopped")
		}
		for name, change := range map[string]func(*export.Config){
			"another tenant": func(c *export.Config) { c.Of.TenantID = "tenant-" + kept },
			"a person":       func(c *export.Config) { c.Of.Subject = "ana.gone@example.org" },
			"another size":   func(c *export.Config) { c.FileBytes = 17 },
			"a full directory": func(c *export.Config) {
				c.Dir = i.TempDir()
				check(i.T, os.WriteFile(filepath.Join(c.Dir, "a"), nil, 0o600))
			},
		} {
			other := i.exportOf(dir, "")
			change(&other)
			if _, err := export.Run(i.Context(), other); !errors.Is(err, export.ErrOther) {
				i.Errorf("%s gives %v, want EXPORT_OTHER", name, err)
			}
		}
		unknown := i.exportOf(filepath.Join(i.TempDir(), "x"), "")
		unknown.Of.TenantID = "tenant-typo"
		if _, err := export.Run(i.Context(), unknown); !errors.Is(err, export.ErrNothing) {
			i.Errorf("a tenant that does not exist gives %v, want EXPORT_NOTHING", err)
		}
	})
}

// The export of a person has what the person did and what is about the person, and of others only their ids.
func TestExport_OfAPerson(t *testing.T) {
	onEach(t, func(i *installation) {
		t := i.T
		i.seed(gone)
		i.seed(kept)
		ana := "ana.gone@example.org"
		for n, row := range []store.AuditRow{
			{Actor: "bo", Action: "GRANT", Reason: "BO-REASON", Address: "198.51.100.9",
				Detail: []byte(`{"principals":["cy.gone@example.org","ana.gone@example.org"]}`)},
			{Actor: "bo", Action: "OTHER", Reason: "BO-SECOND"},
		} {
			row.ID, row.TenantID, row.Outcome = fmt.Sprintf("99999999-0000-4000-8000-%012d", n), "tenant-"+gone, "ACCEPTED"
			check(t, i.store.Audit(t.Context(), row))
		}
		_, err := i.store.PutPolicy(t.Context(), store.StoredPolicy{TenantID: "tenant-" + gone, Version: 2, Actor: "bo",
			Doc: []byte(`{"grants":[{"role":"ADMIN","principals":["ana.gone@example.org","cy.gone@example.org"]},` +
				`{"role":"VIEWER","principals":["cy.gone@example.org"]}]}`)},
			store.AuditRow{ID: "99999999-0000-4000-8000-000000000009", TenantID: "tenant-" + gone, Actor: "bo", Action: "P"})
		check(t, err)
		dir := filepath.Join(t.TempDir(), "person")
		_ = must[export.Manifest](t)(export.Run(t.Context(), i.exportOf(dir, ana)))
		i.verifyExport(dir)
		files := i.readFiles(dir)
		for part, want := range map[string]int{"rows/run-": 3, "rows/signal-": 3, "rows/saved_view-": 1, "rows/api_token-": 1,
			"grants/": 1, "artifacts/": 0, "runs/": 0} {
			if got := len(linesOf(files, part)); got != want {
				t.Errorf("the export has %d lines of %s, want %d", got, part, want)
			}
		}
		var own, about int
		for _, line := range linesOf(files, "audit/") {
			if strings.Contains(line, `"actor":"`+ana+`"`) {
				own++
			} else if strings.Contains(line, ana) {
				about++
			}
		}
		if own < 8 || about != 1 {
			t.Errorf("the audit has %d rows by and %d about the person, want 8 or more and 1", own, about)
		}
		for path, body := range files {
			for _, foreign := range []string{"BO-", "198.51.100.9", "cy.gone", kept, "VIEWER"} {
				if strings.Contains(body, foreign) {
					t.Errorf("%s has %q of somebody else", path, foreign)
				}
			}
		}
		// The person is erased: another export knows nothing of the person in the audit, and a tenant's says so.
		i.end(gone, 0) // an erasure waits for open runs
		i.ask(request, store.EraseSubject, ana)
		_ = must[json.RawMessage](t)(i.runner(nil).Run(t.Context(), request))
		after := filepath.Join(t.TempDir(), "after")
		_ = must[export.Manifest](t)(export.Run(t.Context(), i.exportOf(after, "")))
		i.verifyExport(after)
		audit := strings.Join(linesOf(i.readFiles(after), "audit/"), "\n")
		if strings.Contains(audit, `"actor":"`+ana) || strings.Contains(audit, "because of "+ana) ||
			!strings.Contains(audit, store.ErasedSubject) {
			t.Errorf("the audit of the export after the erasure has the name, or does not say that it is erased")
		}
		if !bytes.Contains([]byte(audit), []byte(strconv.Quote("(erased)"))) {
			t.Error("the reasons of the erased person do not read as erased")
		}
	})
}

// The log of a run whose events lie in the archive is exported as if they were in the store.
// contract: T180
func TestExport_HasArchivedRuns(t *testing.T) {
	onEach(t, func(i *installation) {
		t := i.T
		i.seed(gone)
		ctx, id := t.Context(), runtest.ID
		id.RunID, id.TenantID, id.ProjectID = "run-old", "tenant-"+gone, "project-"+gone
		events := runtest.Log(runtest.Draft(run.RunApproved, "", 1), runtest.Start("s1"),
			runtest.Draft(run.StepStartedEvent, "s1", 1), runtest.Draft(run.StepCompletedEvent, "s1", 1),
			runtest.Draft(run.RunCompleted, "", 1))
		check(t, i.store.Import(ctx, store.NewRun{Run: store.Run{Identity: id, RequestKey: "old", CreatedAt: runtest.Epoch}},
			events))
		loaded := must[store.Loaded](t)(i.store.Load(ctx, id.RunID))
		_, err := i.store.Save(ctx, loaded.State, loaded.Changes)
		check(t, err)
		check(t, i.store.MarkPublished(ctx, id.RunID, loaded.Head.LastSeq, loaded.Head.OpsRev))
		archived := must[store.ArchivedRun](t)(archive.Write(ctx, i.store, i.bucket, id.RunID))
		check(t, i.store.MarkArchived(ctx, archived))
		if n, err := i.store.DeleteArchivedEvents(ctx, id.RunID, store.MaxPage); err != nil || n == 0 {
			t.Fatalf("%d events were deleted, %v; want all", n, err)
		}
		cfg := i.exportOf(filepath.Join(t.TempDir(), "export"), "")
		cfg.Run = runsOf(archive.Reading(i.store, i.bucket))
		_ = must[export.Manifest](t)(export.Run(ctx, cfg))
		// the seed says of one run that it is archived, and its object is missing
		if v := i.verifyExport(cfg.Dir); len(v.Notes) != 1 || !strings.Contains(v.Notes[0], "runs/run-gone-0.ndjson") {
			t.Errorf("verify has the notes %q, want the run whose archive is missing", v.Notes)
		}
		file := i.readFiles(cfg.Dir)["runs/run-old.ndjson"]
		if n := strings.Count(file, "\n"+`{"event"`); n != len(events) {
			t.Errorf("the export has %d events of the archived run, want %d", n, len(events))
		}
	})
}

// The retention deletes a run after the export has read its id: the export notes it and goes on.
func TestExport_ARunThatIsDeletedMeanwhileIsANote(t *testing.T) {
	onEach(t, func(i *installation) {
		i.seed(gone)
		cfg := i.exportOf(filepath.Join(i.TempDir(), "export"), "")
		whole, deleted := cfg.Run, ""
		cfg.Run = func(ctx context.Context, at time.Time, runID string, w io.Writer) error {
			if deleted == "" || deleted == runID {
				deleted = runID
				return whole(ctx, at, "run-that-is-gone", w)
			}
			return whole(ctx, at, runID, w)
		}
		_ = must[export.Manifest](i.T)(export.Run(i.Context(), cfg))
		v := i.verifyExport(cfg.Dir)
		if len(v.Notes) != 1 || !strings.Contains(v.Notes[0], deleted+".ndjson: the run was deleted") {
			i.Errorf("verify has the notes %q, want that %s was deleted", v.Notes, deleted)
		}
	})
}

// The retention removes objects that the export has listed, and counts them in the audit: each of them is a note, and
// so is the sum.
func TestExport_ObjectsThatAreRemovedMeanwhileAreNotes(t *testing.T) {
	onEach(t, func(i *installation) {
		t := i.T
		i.seed(gone)
		cfg := i.exportOf(filepath.Join(t.TempDir(), "export"), "")
		seen := map[artifact.Kind]bool{}
		cfg.Stop = func(at string) error {
			for _, kind := range []artifact.Kind{artifact.KindLogs, artifact.KindArtifacts} {
				if strings.HasPrefix(at, "named "+string(kind)+"/") && !seen[kind] { // the rest of the page is listed
					seen[kind] = true
					_, err := i.bucket.Remove(t.Context(), artifact.Scope{Kind: kind, TenantID: "tenant-" + gone}, 1000)
					check(t, err)
				}
			}
			if !strings.HasPrefix(at, "named logs/") {
				return nil
			}
			return i.store.Audit(t.Context(), store.AuditRow{ID: "99999999-0000-4000-8000-000000000077",
				TenantID: "tenant-" + gone, Action: retention.ActionRetain, Outcome: "ACCEPTED",
				Detail: []byte(`{"archived":9,"deleted":0,"events":0,"receipts":0,"objects":7,"rows":0}`)})
		}
		_ = must[export.Manifest](t)(export.Run(t.Context(), cfg))
		notes := strings.Join(i.verifyExport(cfg.Dir).Notes, "\n")
		for _, want := range []string{"artifacts/run-gone-0/s1/1/1/f2: it was removed while the export went on",
			"retention: after the export began, the retention deleted 0 runs, 7 logs and artifacts"} {
			if !strings.Contains(notes, want) {
				t.Errorf("verify has the notes %q, want one with %q", notes, want)
			}
		}
	})
}
