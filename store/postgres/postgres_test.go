package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/dvt-engine/dvt/internal/testserver"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
	"github.com/dvt-engine/dvt/store/postgres"
)

func open(t testing.TB, dsn string) *postgres.Store {
	t.Helper()
	s, err := postgres.Open(context.Background(), dsn, postgres.Options{Migrate: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func connect(t testing.TB, dsn string) *pgx.Conn {
	t.Helper()
	c, err := pgx.Connect(context.Background(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close(context.Background()) })
	return c
}

func newRun(id string) store.NewRun {
	return store.NewRun{
		Run: store.Run{
			Identity: run.Identity{RunID: id, TenantID: "t1", ProjectID: "p1", EnvironmentID: "sandbox", PlanID: "plan-3",
				PlanVersion: "1.0"},
			RequestKey: run.Key("request of " + id), RequestID: id,
		},
		Enqueue: &store.Enqueue{Terms: store.Unlimited()},
	}
}

func create(t testing.TB, s *postgres.Store, id string) {
	t.Helper()
	if _, created, err := s.CreateRun(context.Background(), newRun(id)); err != nil || !created {
		t.Fatalf("create %s: created %t, %v; want true", id, created, err)
	}
}

func stepStarted(step string, attempt int) run.Draft {
	return run.Draft{Type: run.StepStartedEvent, StepID: step, LogicalAttempt: attempt, EngineAttempt: 1,
		EmittedAt: time.Now(), EmittedBy: run.ByEngine, Payload: []byte(`{"filler": "0123456789"}`)}
}

func appendTo(ctx context.Context, s *postgres.Store, id string, drafts ...run.Draft) (store.Appended, error) {
	return s.Append(ctx, store.Append{RunID: id, Events: drafts})
}

func must[T any](t testing.TB) func(v T, err error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func TestMigrate_ManyAtOnce(t *testing.T) {
	for range 3 { // a race does not fail every time
		dsn := testserver.Postgres(t)
		var wg sync.WaitGroup
		for range 5 {
			wg.Go(func() {
				if err := postgres.Migrate(context.Background(), dsn); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		open(t, dsn)
	}
}

func TestOpen_RefusesSchemaOutsideItsRange(t *testing.T) {
	ctx := context.Background()
	dsn := testserver.Postgres(t)
	if _, err := postgres.Open(ctx, dsn, postgres.Options{}); !errors.Is(err, store.ErrSchema) {
		t.Errorf("empty database: %v, want %v", err, store.ErrSchema)
	}
	if err := postgres.Migrate(ctx, dsn); err != nil {
		t.Fatal(err)
	}
	if _, err := connect(t, dsn).Exec(
		ctx, `WITH v AS (INSERT INTO goose_db_version (version_id, is_applied) VALUES (999, true))
		UPDATE meta SET value = 999 WHERE name = 'compatible_from'`); err != nil {
		t.Fatal(err)
	}
	if _, err := postgres.Open(ctx, dsn, postgres.Options{}); !errors.Is(err, store.ErrSchema) {
		t.Errorf("newer schema: %v, want %v", err, store.ErrSchema)
	}
}

func TestOpen_UnreachableServerIsUnavailable(t *testing.T) {
	_, err := postgres.Open(context.Background(), "postgres://nobody@127.0.0.1:1/none?sslmode=disable", postgres.Options{})
	if !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("Open: %v, want %v", err, store.ErrUnavailable)
	}
}

func TestWritable_ReadOnlyDatabaseIsUnavailable(t *testing.T) {
	dsn := testserver.Postgres(t)
	if err := postgres.Migrate(t.Context(), dsn); err != nil {
		t.Fatal(err)
	}
	c := connect(t, dsn)
	if _, err := c.Exec(t.Context(), `ALTER DATABASE `+pgx.Identifier{c.Config().Database}.Sanitize()+
		` SET default_transaction_read_only = on`); err != nil {
		t.Fatal(err)
	}
	s, err := postgres.Open(t.Context(), dsn, postgres.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.Ping(t.Context()); err != nil {
		t.Error(err)
	}
	if err := s.CheckWritable(t.Context()); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("Writable: %v, want %v", err, store.ErrUnavailable)
	}
}

// contract: T208
func TestTables_InsertOnly(t *testing.T) {
	ctx := context.Background()
	dsn := migratedTemplate.Postgres(t)
	s := open(t, dsn)
	create(t, s, "r1")
	must[store.Appended](t)(appendTo(ctx, s, "r1", stepStarted("s1", 1)))
	if err := s.Audit(ctx, store.AuditRow{TenantID: "t1", Action: "TEST"}); err != nil {
		t.Fatal(err)
	}
	owner := connect(t, dsn)
	for _, sql := range []string{
		`UPDATE event SET payload = NULL`, `DELETE FROM event`, `TRUNCATE event`,
		`UPDATE audit SET actor = ''`, `DELETE FROM audit`, `TRUNCATE audit`,
	} {
		if _, err := owner.Exec(ctx, sql); err == nil {
			t.Errorf("%s succeeded, want an error", sql)
		}
	}
}

// The transaction of the first writer begins before and ends after that of the second one. So its row has the lower xid
// but becomes visible last.
// contract: T186
func TestChanged_LateCommitIsNotMissed(t *testing.T) {
	ctx := context.Background()
	dsn := migratedTemplate.Postgres(t)
	s := open(t, dsn)
	f := store.RunFilter{TenantID: "t1", ProjectIDs: []string{"p1"}, Limit: 201}
	for _, id := range []string{"early", "late"} {
		create(t, s, id)
		project(t, s, id, stepStarted("s1", 1))
	}
	_, cursor, err := s.ListChanged(ctx, f, "")
	if err != nil {
		t.Fatal(err)
	}
	c := connect(t, dsn)
	slow := must[pgx.Tx](t)(c.Begin(ctx))
	if _, err := slow.Exec(ctx, `UPDATE run_state SET xid = pg_current_xact_id() WHERE run_id = 'late'`); err != nil {
		t.Fatal(err)
	}
	project(t, s, "early", stepStarted("s2", 1))
	rows, cursor, err := s.ListChanged(ctx, f, cursor)
	if err != nil || !lists(rows, "early") {
		t.Fatalf("rows %v, %v; want early", rows, err)
	}
	if err := slow.Commit(ctx); err != nil {
		t.Fatal(err)
	}
	if rows, _, err = s.ListChanged(ctx, f, cursor); err != nil || !lists(rows, "late") {
		t.Errorf("rows %v, %v; want late", rows, err)
	}
}

func lists(rows []store.RunRow, id string) bool {
	for _, r := range rows {
		if r.Header.RunID == id {
			return true
		}
	}
	return false
}

// project appends drafts, loads the run and saves its checkpoint, as a projector does.
func project(t testing.TB, s *postgres.Store, id string, drafts ...run.Draft) {
	t.Helper()
	ctx := context.Background()
	must[store.Appended](t)(appendTo(ctx, s, id, drafts...))
	l := must[store.Loaded](t)(s.Load(ctx, id))
	must[bool](t)(s.Save(ctx, l.State, l.Changes))
}

// contract: T186
func TestChanged_OverlappingWriters(t *testing.T) {
	ctx := context.Background()
	dsn := migratedTemplate.Postgres(t)
	writer, reader := open(t, dsn), open(t, dsn)
	const runs, rounds = 8, 15
	f := store.RunFilter{TenantID: "t1", Limit: 3} // a small page, so that the test covers paging
	_, cursor, err := reader.ListChanged(ctx, f, "")
	if err != nil {
		t.Fatal(err)
	}
	for i := range runs {
		create(t, writer, fmt.Sprint("r", i))
	}
	var wg sync.WaitGroup
	for i := range runs {
		wg.Go(func() {
			for n := range rounds {
				project(t, writer, fmt.Sprint("r", i), stepStarted(fmt.Sprint("s", n), 1))
			}
		})
	}
	seen := map[string]run.Seq{}
	deadline := time.Now().Add(2 * time.Minute)
	for done := 0; done < runs; {
		var rows []store.RunRow
		if rows, cursor, err = reader.ListChanged(ctx, f, cursor); err != nil {
			t.Fatal(err)
		}
		done = 0
		for _, r := range rows {
			seen[r.Header.RunID] = max(seen[r.Header.RunID], r.Header.Seq)
		}
		for _, at := range seen {
			if at == rounds {
				done++
			}
		}
		if time.Now().After(deadline) {
			t.Fatalf("the reader saw %v, want seq %d of %d runs", seen, rounds, runs)
		}
	}
	wg.Wait()
}

// contract: T27
func TestAppend_TwoStoresOneRunReaderMissesNothing(t *testing.T) {
	ctx := context.Background()
	dsn := migratedTemplate.Postgres(t)
	stores := []*postgres.Store{open(t, dsn), open(t, dsn)}
	create(t, stores[0], "r1")
	const writers, each = 8, 20
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for n := range each {
				if _, err := appendTo(ctx, stores[w%2], "r1", stepStarted(fmt.Sprint("s", w), n+1)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	var last run.Seq
	for last < writers*each && !t.Failed() {
		for _, e := range must[[]run.Event](t)(stores[1].Events(ctx, "r1", last, 7)) {
			if e.Seq != last+1 {
				t.Fatalf("event %d follows %d, want no gap", e.Seq, last)
			}
			last = e.Seq
		}
	}
	wg.Wait()
}

// A projector must not overwrite a newer checkpoint that another projector saved after the first one had read the old
// checkpoint.
// contract: T173
func TestSave_NewerCheckpointInBetweenStays(t *testing.T) {
	ctx := context.Background()
	dsn := migratedTemplate.Postgres(t)
	s := open(t, dsn)
	create(t, s, "r1")
	must[store.Appended](t)(appendTo(ctx, s, "r1", stepStarted("s1", 1)))
	older := must[store.Loaded](t)(s.Load(ctx, "r1"))
	other := must[pgx.Tx](t)(connect(t, dsn).Begin(ctx))
	if _, err := other.Exec(ctx, `UPDATE run_state SET seq = 9 WHERE run_id = 'r1'`); err != nil {
		t.Fatal(err)
	}
	saved := make(chan bool, 1)
	go func() {
		wrote, err := s.Save(ctx, older.State, older.Changes)
		if err != nil {
			t.Error(err)
		}
		saved <- wrote
	}()
	watch := connect(t, dsn)
	awaitLockWait(t, watch)
	if err := other.Commit(ctx); err != nil {
		t.Fatal(err)
	}
	if <-saved {
		t.Error("Save wrote the older state over the newer one")
	}
	var seq run.Seq
	if err := watch.QueryRow(ctx, `SELECT seq FROM run_state WHERE run_id = 'r1'`).Scan(&seq); err != nil || seq != 9 {
		t.Errorf("the checkpoint is at seq %d, %v; want 9", seq, err)
	}
}

// awaitLockWait returns when a session of the database waits for a lock.
func awaitLockWait(t testing.TB, c *pgx.Conn) {
	t.Helper()
	for waiting, deadline := 0, time.Now().Add(time.Minute); waiting == 0; {
		if err := c.QueryRow(context.Background(), `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
			AND wait_event_type = 'Lock'`).Scan(&waiting); err != nil {
			t.Fatal(err)
		}
		if time.Now().After(deadline) {
			t.Fatal("no session waits for a lock within a minute")
		}
	}
}

// contract: T18
func TestAppend_PersistedAtIsAfterTheLock(t *testing.T) {
	ctx := context.Background()
	dsn := migratedTemplate.Postgres(t)
	s := open(t, dsn)
	create(t, s, "r1")
	holder := must[pgx.Tx](t)(connect(t, dsn).Begin(ctx))
	if _, err := holder.Exec(ctx, `SELECT 1 FROM run_head WHERE run_id = 'r1' FOR UPDATE`); err != nil {
		t.Fatal(err)
	}
	out := make(chan store.Appended, 1)
	go func() {
		a, err := appendTo(ctx, s, "r1", stepStarted("s1", 1))
		if err != nil {
			t.Error(err)
		}
		out <- a
	}()
	watch := connect(t, dsn)
	awaitLockWait(t, watch)
	var freed time.Time
	if err := watch.QueryRow(ctx, `SELECT clock_timestamp()`).Scan(&freed); err != nil {
		t.Fatal(err)
	}
	if err := holder.Rollback(ctx); err != nil {
		t.Fatal(err)
	}
	if a := <-out; len(a.Outcomes) == 1 && a.Outcomes[0].PersistedAt.Before(freed) {
		t.Errorf("PersistedAt is %v, before the lock was released at %v; want after", a.Outcomes[0].PersistedAt, freed)
	}
}

// contract: T189
func TestHead_UpdatesAreHOT(t *testing.T) {
	ctx := context.Background()
	dsn := migratedTemplate.Postgres(t)
	s := open(t, dsn)
	create(t, s, "r1")
	for n := range 200 {
		must[store.Appended](t)(appendTo(ctx, s, "r1", stepStarted("s1", n+1)))
	}
	s.Close() // a backend reports its statistics when it ends
	c := connect(t, dsn)
	var updates, hot int
	for deadline := time.Now().Add(time.Minute); updates < 200 && time.Now().Before(deadline); {
		if err := c.QueryRow(ctx, `SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables WHERE relname = 'run_head'`).
			Scan(&updates, &hot); err != nil {
			t.Fatal(err)
		}
	}
	if updates < 200 || hot < updates*95/100 {
		t.Errorf("%d of %d updates of run_head were HOT, want at least 95 %% of 200", hot, updates)
	}
}

func TestInRun_RollsBackAndReturnsTheErrorUnchanged(t *testing.T) {
	ctx := context.Background()
	s := open(t, migratedTemplate.Postgres(t))
	create(t, s, "r1")
	refusal := errors.New("refused")
	err := s.InRun(ctx, "r1", func(tx store.RunTx) error {
		if _, err := tx.Append(ctx, store.Append{Events: []run.Draft{stepStarted("s1", 1)}}); err != nil {
			return err
		}
		if _, err := tx.PutReceipt(ctx, run.SignalReceipt{Signal: run.Signal{ID: "g1", Type: run.Pause}}, true); err != nil {
			return err
		}
		return refusal
	})
	if err != refusal { //nolint:errorlint // the same error, not one that wraps it
		t.Errorf("InRun: %v, want the error of the function itself", err)
	}
	heads := must[store.Heads](t)(s.Heads(ctx, []string{"r1"}))
	if h := heads.ByRun["r1"]; h.LastSeq != 0 || h.SignalNo != 0 {
		t.Errorf("the head after a rollback is %+v, want seq 0 and no signals", h)
	}
	if _, err := s.Receipt(ctx, "r1", "g1"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("receipt after a rollback: %v, want %v", err, store.ErrNotFound)
	}
}

func TestAppend_EndedContextIsReturnedAndFreesTheLock(t *testing.T) {
	dsn := migratedTemplate.Postgres(t)
	s := open(t, dsn)
	create(t, s, "r1")
	ctx := context.Background()
	holder := must[pgx.Tx](t)(connect(t, dsn).Begin(ctx))
	if _, err := holder.Exec(ctx, `SELECT 1 FROM run_head WHERE run_id = 'r1' FOR UPDATE`); err != nil {
		t.Fatal(err)
	}
	short, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
	defer cancel()
	if _, err := appendTo(short, s, "r1", stepStarted("s1", 1)); !errors.Is(err, context.DeadlineExceeded) ||
		errors.Is(err, store.ErrUnavailable) {
		t.Errorf("Append: %v, want %v and not ErrUnavailable", err, context.DeadlineExceeded)
	}
	if err := holder.Rollback(ctx); err != nil {
		t.Fatal(err)
	}
	must[store.Appended](t)(appendTo(ctx, s, "r1", stepStarted("s1", 1)))
}
