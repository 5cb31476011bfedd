package erasure_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/ed25519"
	"database/sql"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dvt-engine/dvt/artifact"
	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/erasure"
	"github.com/dvt-engine/dvt/internal/testserver"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
	"github.com/dvt-engine/dvt/store"
	"github.com/dvt-engine/dvt/store/decorate"
	"github.com/dvt-engine/dvt/store/owner"
	"github.com/dvt-engine/dvt/store/postgres"
	"github.com/dvt-engine/dvt/store/sqlite"
	"github.com/dvt-engine/dvt/store/subject"
	"github.com/dvt-engine/dvt/storeadmin/archive"
)

// Everything of the erased tenant contains gone, and everything of the other one kept.
const (
	gone = "gone"
	kept = "kept"
)

const request = "11111111-1111-4111-8111-111111111111"

// installation is a store with its bucket, engine and ledger, before and after a restore.
type installation struct {
	*testing.T
	store  store.Store
	db     *sql.DB // with the owner's rights
	owner  *owner.DB
	bucket *artifact.Store
	engine *fakeEngine
	// bucketDir is the directory of the bucket.
	bucketDir, ledger string
	file              string // of the database; "" on PostgreSQL
	dsn               string // "" on SQLite
	keys              *subject.Keyring
	sign              ed25519.PrivateKey
	pg                bool
	backup            func() *installation // restores the store as it was when backup was made
}

func must[T any](t testing.TB) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// fakeEngine keeps executions by tenant.
type fakeEngine struct {
	mu   sync.Mutex
	runs map[string]bool // by tenant/run; true: open
}

func (f *fakeEngine) Terminate(_ context.Context, id run.Identity, _ string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	open, ok := f.runs[id.TenantID+"/"+id.RunID]
	switch {
	case !ok:
		return engine.ErrNotStarted
	case !open:
		return engine.ErrClosed
	}
	f.runs[id.TenantID+"/"+id.RunID] = false
	return nil
}

func (f *fakeEngine) CountTenant(_ context.Context, tenant string) (n int64, _ error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for key := range f.runs {
		if strings.HasPrefix(key, tenant+"/") {
			n++
		}
	}
	return n, nil
}

func (f *fakeEngine) ForgetTenant(_ context.Context, tenant string, limit int) (n int64, more bool, _ error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, key := range slices.Sorted(maps.Keys(f.runs)) {
		if strings.HasPrefix(key, tenant+"/") {
			if n == int64(limit) {
				return n, true, nil
			}
			delete(f.runs, key)
			n++
		}
	}
	return n, false, nil
}

func (f *fakeEngine) ForgetRun(_ context.Context, id run.Identity) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.runs, id.TenantID+"/"+id.RunID)
	return nil
}

func keyring(t *testing.T) *subject.Keyring {
	return must[*subject.Keyring](t)(subject.Parse([]string{"k1:" + base64.StdEncoding.EncodeToString(
		[]byte(strings.Repeat("s", 32)))}))
}

// onEach runs f on an installation of each adapter.
func onEach(t *testing.T, f func(*installation)) {
	t.Parallel()
	for name, open := range map[string]func(*installation, string) string{"sqlite": openSQLite, "postgres": openPostgres} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			i := &installation{T: t, ledger: "file://" + t.TempDir(), keys: keyring(t),
				engine: &fakeEngine{runs: map[string]bool{}},
				sign:   ed25519.NewKeyFromSeed([]byte(strings.Repeat("k", 32)))}
			i.bucketDir = t.TempDir()
			i.bucket = must[*artifact.Store](t)(artifact.Open(t.Context(), "file://"+i.bucketDir))
			t.Cleanup(func() { _ = i.bucket.Close() })
			i.pg = name == "postgres"
			open(i, "")
			f(i)
		})
	}
}

func openSQLite(i *installation, path string) string {
	if path == "" {
		path = filepath.Join(i.TempDir(), "dvt.db")
	}
	i.file = path
	raw := must[*sqlite.Store](i.T)(sqlite.Open(i.Context(), path, sqlite.Options{}))
	i.Cleanup(func() { _ = raw.Close() })
	i.store = decorate.SealAudit(raw, i.keys)
	i.db = must[*sql.DB](i.T)(sqlite.OpenOwner(i.Context(), path))
	i.Cleanup(func() { _ = i.db.Close() })
	i.owner = owner.New(i.db, owner.SQLite)
	i.backup = func() *installation {
		copied := filepath.Join(i.TempDir(), "backup.db")
		_ = must[sql.Result](i.T)(i.db.ExecContext(i.Context(), `VACUUM INTO '`+copied+`'`))
		restored := *i
		openSQLite(&restored, copied)
		return &restored
	}
	return path
}

func openPostgres(i *installation, dsn string) string {
	if dsn == "" {
		dsn = testserver.Postgres(i)
	}
	i.dsn = dsn
	raw := must[*postgres.Store](i.T)(postgres.Open(i.Context(), dsn, postgres.Options{Migrate: true, MaxConns: 4}))
	i.Cleanup(func() { _ = raw.Close() })
	i.store = decorate.SealAudit(raw, i.keys)
	i.db = must[*sql.DB](i.T)(postgres.OpenOwner(i.Context(), dsn, nil))
	i.Cleanup(func() { _ = i.db.Close() })
	i.owner = owner.New(i.db, owner.Postgres)
	i.backup = func() *installation {
		check(i.T, errors.Join(raw.Close(), i.db.Close())) // a database that is copied has no sessions
		name := dsn[strings.LastIndexByte(dsn, '/')+1:]
		name, _, _ = strings.Cut(name, "?")
		admin := must[*sql.DB](i.T)(sql.Open("pgx", strings.Replace(dsn, "/"+name, "/postgres", 1)))
		_ = must[sql.Result](i.T)(admin.ExecContext(i.Context(), `CREATE DATABASE `+name+`_backup TEMPLATE `+name))
		check(i.T, admin.Close())
		openPostgres(i, dsn)
		restored := *i
		openPostgres(&restored, strings.Replace(dsn, "/"+name, "/"+name+"_backup", 1))
		return &restored
	}
	return dsn
}

// A directory that is not mounted is no ledger without entries.
func TestOpenLedger_NeedsTheDirectory(t *testing.T) {
	t.Parallel()
	gone := filepath.Join(t.TempDir(), "gone")
	for range 2 { // the first try makes no directory
		_, err := erasure.OpenLedger(t.Context(), "file://"+gone, keyring(t))
		if err == nil || !strings.Contains(err.Error(), "check that its file system is mounted") {
			t.Errorf("the ledger opened with %v, want that the directory does not exist", err)
		}
	}
}

func (i *installation) runner(stop func(phase, position string) error) *erasure.Runner {
	i.Helper()
	ledger := must[*erasure.Ledger](i.T)(erasure.OpenLedger(i.Context(), i.ledger, i.keys))
	i.Cleanup(func() { _ = ledger.Close() })
	logs := archive.Reading(i.store, i.bucket)
	return must[*erasure.Runner](i.T)(erasure.New(erasure.Config{
		Owner: i.owner, Bucket: i.bucket, Archive: i.bucket, Store: logs, Engine: i.engine, Ledger: ledger, Keys: i.keys,
		WriteArchive: func(ctx context.Context, runID string, to owner.Renaming) (store.ArchivedRun, error) {
			return archive.WriteRenamed(ctx, logs, i.bucket, runID, to)
		}, Sign: i.sign,
		Installation: "https://dvt.example", Batch: 2, DrainFor: time.Millisecond, Stop: stop,
	}))
}

// seed fills every table, the bucket and the engine with data of a tenant whose names contain mark.
func (i *installation) seed(mark string) {
	i.Helper()
	ctx, tenant, person := i.Context(), "tenant-"+mark, personOf(mark)
	row := store.AuditRow{TenantID: tenant, Actor: person, Outcome: "ACCEPTED", Reason: "because of " + person,
		Address: "192.0.2.7", Credential: "token:t-1"}
	n := 0
	audit := func(action, runID string) store.AuditRow {
		r := row
		n++
		r.ID = fmt.Sprintf("%08x-0000-4000-8000-%012d", len(mark)*1000+int(mark[0]), n)
		r.Action, r.RunID = action, runID
		return r
	}
	for k := range 3 {
		id := runtest.ID
		id.RunID, id.TenantID, id.ProjectID = fmt.Sprintf("run-%s-%d", mark, k), tenant, "project-"+mark
		sum := strings.Repeat(fmt.Sprintf("%x", mark[0]%16), 64)
		r := store.Run{Identity: id, RequestID: "q-" + mark, TriggeredBy: person,
			RequestKey: run.RequestKey(id.TenantID, id.ProjectID, id.EnvironmentID, id.PlanID, id.PlanVersion, id.RunID),
			PlanRef:    plan.Ref{SHA256: sum, PlanID: id.PlanID, PlanVersion: id.PlanVersion},
			Params:     []byte(`{"mail":"` + person + `"}`)}
		_, _, err := i.store.CreateRun(ctx, store.NewRun{Run: r, Plan: []byte(`{"plan":"` + mark + `"}`),
			Events: []run.Draft{runtest.Draft(run.RunApproved, "", 1, runtest.M{"actor": person, "reason": "r"}),
				runtest.Start("s1", "s2<s1")},
			Enqueue: &store.Enqueue{Terms: store.Unlimited()},
			Audit:   []store.AuditRow{store.AuditRowOfRun(audit("START", id.RunID), r)}})
		check(i.T, err)
		check(i.T, i.store.InRun(ctx, id.RunID, func(tx store.RunTx) error {
			_, err := tx.PutReceipt(ctx, run.SignalReceipt{RunID: id.RunID, Actor: person, Reason: "r " + person,
				Signal: run.Signal{ID: fmt.Sprint("sig-", k), Type: "PAUSE"}}, true)
			return errors.Join(err, tx.Audit(ctx, audit("PAUSE", id.RunID)))
		}))
		for f := range 3 {
			_, _, _, err := i.bucket.Put(ctx, fmt.Sprintf("%s/%s/s1/1/1/f%d", tenant, id.RunID, f),
				strings.NewReader(person))
			check(i.T, err)
		}
		check(i.T, i.bucket.Append(ctx, artifact.AttemptID{TenantID: tenant, RunID: id.RunID, StepID: "s1",
			LogicalAttempt: 1}, 1, 1, []artifact.Line{{No: 1, Text: "log of " + person}}))
		i.engine.runs[tenant+"/"+id.RunID] = k == 0
	}
	_, err := i.store.PutPolicy(ctx, store.StoredPolicy{TenantID: tenant, Version: 1, Doc: []byte(`{}`), Actor: person},
		audit("PUT_POLICY", ""))
	check(i.T, err)
	_, _, err = i.store.PutToken(ctx, store.StoredToken{ID: fmt.Sprintf("00000000-0000-4000-8000-%012x", mark[0]),
		TenantID: tenant, Name: "n", Principal: person, SHA256: mark, Grants: []byte(`[]`), CreatedBy: person,
		ExpiresAt: time.Now().Add(time.Hour)}, audit("CREATE_TOKEN", ""))
	check(i.T, err)
	_, err = i.store.PutView(ctx, store.SavedView{TenantID: tenant, Owner: person, ID: "v", Name: "mine", Query: "q"},
		audit("PUT_VIEW", ""))
	check(i.T, err)
	_ = must[int](i.T)(i.store.LinkAudit(ctx, 100))
	check(i.T, i.store.Audit(ctx, audit("WAITS_FOR_ITS_LINK", "")))
	i.fill(mark)
}

// fill inserts a row of the tenant into each table that the seed left without one.
func (i *installation) fill(mark string) {
	i.Helper()
	for _, name := range i.tables() {
		if slices.Contains(shared, name) || name == "audit_pending" || // it has a row of the seed
			strings.Contains(strings.Join(i.dump(name, mark), ""), mark) {
			continue
		}
		var columns, values []string
		for _, c := range i.columns(name) {
			columns, values = append(columns, c.name), append(values, c.value(name, mark))
		}
		always := ""
		if i.pg {
			always = "OVERRIDING SYSTEM VALUE "
		}
		if _, err := i.db.ExecContext(i.Context(), fmt.Sprintf(`INSERT INTO %s (%s) %sVALUES (%s)`, name,
			strings.Join(columns, ", "), always, strings.Join(values, ", "))); err != nil {
			i.Fatalf("fill %s: %v", name, err)
		}
	}
	var archived bytes.Buffer
	z := gzip.NewWriter(&archived)
	_, err := fmt.Fprintf(z, `{"type":"event","payload":{"actor":%q}}`, personOf(mark))
	check(i.T, errors.Join(err, z.Close(), i.bucket.PutArchived(i.Context(), archiveOf(mark), &archived)))
}
