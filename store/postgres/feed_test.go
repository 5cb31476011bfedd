package postgres_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
	"github.com/dvt-engine/dvt/store/postgres"
)

// saveSQL changes a checkpoint as Save does. The xid is taken when the row is written, not when the transaction
// commits.
const saveSQL = `UPDATE run_state SET seq = $2, header = jsonb_set(header::jsonb, '{seq}', to_jsonb($2::bigint))::json,
	xid = pg_current_xact_id() WHERE run_id = $1`

// executor is a connection or a transaction.
type executor interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
}

func save(t testing.TB, e executor, runID string, seq int) {
	t.Helper()
	if _, err := e.Exec(context.Background(), saveSQL, runID, seq); err != nil {
		t.Fatal(err)
	}
}

func begin(t testing.TB, dsn string) pgx.Tx {
	t.Helper()
	tx, err := connect(t, dsn).Begin(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return tx
}

func commit(t testing.TB, tx pgx.Tx) {
	t.Helper()
	if err := tx.Commit(context.Background()); err != nil {
		t.Fatal(err)
	}
}

// touched returns the runs with a changed seq. Runs that the feed repeats unchanged have 0.
func touched(seen map[string]run.Seq) map[string]run.Seq {
	out := maps.Clone(seen)
	maps.DeleteFunc(out, func(_ string, seq run.Seq) bool { return seq == 0 })
	return out
}

// reader reads the feed of t1 and remembers the last seq that it saw of each run.
type reader struct {
	t      testing.TB
	store  *postgres.Store
	limit  int
	cursor string
	seen   map[string]run.Seq
	reads  int
}

func newReader(t testing.TB, s *postgres.Store, limit int) *reader {
	t.Helper()
	_, now, err := s.ListChanged(context.Background(), store.RunFilter{TenantID: "t1"}, "")
	if err != nil {
		t.Fatal(err)
	}
	return &reader{t: t, store: s, limit: limit, cursor: now, seen: map[string]run.Seq{}}
}

// page reads once and reports whether there may be more.
func (r *reader) page() (full bool) {
	r.t.Helper()
	rows, next, err := r.store.ListChanged(context.Background(), store.RunFilter{TenantID: "t1", Limit: r.limit}, r.cursor)
	if err != nil {
		r.t.Fatal(err)
	}
	for _, row := range rows {
		r.seen[row.Header.RunID] = max(r.seen[row.Header.RunID], row.Header.Seq)
	}
	r.reads++
	r.cursor = next
	return len(rows) == r.limit
}

// catchUp reads until a page is not full. It must terminate, whatever transactions are open.
func (r *reader) catchUp() {
	r.t.Helper()
	for n := 0; r.page(); n++ {
		if n > 1000 {
			r.t.Fatal("the reader makes no progress: it read 1000 full pages")
		}
	}
}

// naive reads with a naive cursor: the highest xid, or the highest number of a sequence, that it has seen. Both are
// taken before the commit, so it loses changes.
type naive struct {
	conn  *pgx.Conn
	order string
	last  int64
	seen  map[string]run.Seq
}

func (n *naive) catchUp(t testing.TB) {
	t.Helper()
	rows, err := n.conn.Query(context.Background(), `SELECT run_id, seq, `+n.order+` FROM run_state WHERE `+n.order+
		` > $1`, n.last)
	if err != nil {
		t.Fatal(err)
	}
	var id string
	var seq, position int64
	if _, err := pgx.ForEachRow(rows, []any{&id, &seq, &position}, func() error {
		n.seen[id], n.last = max(n.seen[id], run.Seq(seq)), max(n.last, position)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

// withPositions gives every change a number from a sequence in addition to its xid.
func withPositions(t testing.TB, dsn string) {
	t.Helper()
	c := connect(t, dsn)
	for _, sql := range []string{
		`CREATE SEQUENCE change_pos`, `ALTER TABLE run_state ADD COLUMN pos bigint NOT NULL DEFAULT nextval('change_pos')`,
		`CREATE FUNCTION number_change() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.pos := nextval('change_pos'); RETURN NEW; END $$`,
		`CREATE TRIGGER number_change BEFORE UPDATE ON run_state FOR EACH ROW EXECUTE FUNCTION number_change()`,
	} {
		if _, err := c.Exec(context.Background(), sql); err != nil {
			t.Fatal(err)
		}
	}
}

func naiveReaders(t testing.TB, dsn string) []*naive {
	t.Helper()
	var out []*naive
	for _, order := range []string{"xid::text::bigint", "pos"} {
		n := &naive{conn: connect(t, dsn), order: order, seen: map[string]run.Seq{}}
		n.catchUp(t)
		clear(n.seen)
		out = append(out, n)
	}
	return out
}

// Two writers take their xids in one order and commit in the other, and the reader reads in between. The naive cursors
// lose the first writer's change.
// contract: T186
func TestFeed_CommitsOutOfOrder(t *testing.T) {
	dsn := migratedTemplate.Postgres(t)
	s := open(t, dsn)
	for _, id := range []string{"early", "late", "third"} {
		create(t, s, id)
	}
	withPositions(t, dsn)
	r, control := newReader(t, s, 10), naiveReaders(t, dsn)
	look := func() {
		t.Helper()
		r.catchUp()
		for _, n := range control {
			n.catchUp(t)
		}
	}
	first, second := begin(t, dsn), begin(t, dsn)
	save(t, first, "early", 11)
	save(t, second, "late", 12)
	commit(t, second)
	look()
	if diff := cmp.Diff(map[string]run.Seq{"late": 12}, touched(r.seen)); diff != "" {
		t.Errorf("before the first writer's commit (-want +got):\n%s", diff)
	}
	commit(t, first)
	look()
	third := begin(t, dsn)
	save(t, third, "third", 13)
	commit(t, third)
	look()
	if diff := cmp.Diff(map[string]run.Seq{"early": 11, "late": 12, "third": 13}, touched(r.seen)); diff != "" {
		t.Errorf("the feed (-want +got):\n%s", diff)
	}
	for _, n := range control {
		if diff := cmp.Diff(map[string]run.Seq{"late": 12, "third": 13}, n.seen); diff != "" {
			t.Errorf("the test proves nothing: a cursor by %s should lose the early writer (-want +got):\n%s", n.order, diff)
		}
	}
}

// The xid of a row can decrease: the writer that began first writes the row last.
// contract: T186
func TestFeed_OneRunByTwoWriters(t *testing.T) {
	dsn := migratedTemplate.Postgres(t)
	s := open(t, dsn)
	create(t, s, "run")
	r := newReader(t, s, 10)
	first, second := begin(t, dsn), begin(t, dsn)
	if _, err := first.Exec(t.Context(), `SELECT pg_current_xact_id()`); err != nil {
		t.Fatal(err)
	}
	save(t, second, "run", 11)
	commit(t, second)
	r.catchUp()
	save(t, first, "run", 12)
	commit(t, first)
	r.catchUp()
	if r.seen["run"] != 12 {
		t.Errorf("last seq seen is %d, want 12", r.seen["run"])
	}
}

// One transaction stays open while hundreds commit after it. The reader reads them all, although its pages are smaller
// than the number of changes.
// contract: T186
func TestFeed_LongTransactionCostsRepeatsNotDelay(t *testing.T) {
	const others, limit = 300, 20
	dsn := migratedTemplate.Postgres(t)
	s := open(t, dsn)
	create(t, s, "long")
	for i := range others {
		create(t, s, fmt.Sprintf("run-%03d", i))
	}
	withPositions(t, dsn)
	r, control := newReader(t, s, limit), naiveReaders(t, dsn)
	long := begin(t, dsn)
	save(t, long, "long", 100)
	want := map[string]run.Seq{}
	c := connect(t, dsn)
	for i := range others {
		id := fmt.Sprintf("run-%03d", i)
		want[id] = run.Seq(200 + i)
		save(t, c, id, 200+i)
		if i%50 == 0 {
			r.page() // so that the reader is within a pass when the next ones commit
		}
	}
	r.catchUp()
	for _, n := range control {
		n.catchUp(t)
	}
	if diff := cmp.Diff(want, touched(r.seen)); diff != "" {
		t.Fatalf("while the long transaction is open (-want +got):\n%s", diff)
	}
	// When the reader has caught up, it repeats only the rows since the long transaction began.
	before := r.reads
	r.catchUp()
	if pages := r.reads - before; pages != others/limit+1 {
		t.Errorf("%d pages were read although nothing changed, want %d", pages, others/limit+1)
	}
	// The long transaction commits while the reader is in the middle of a pass, far above its xid.
	r.page()
	r.page()
	commit(t, long)
	r.catchUp()
	r.catchUp()
	want["long"] = 100
	if diff := cmp.Diff(want, touched(r.seen)); diff != "" {
		t.Errorf("after the long transaction committed (-want +got):\n%s", diff)
	}
	before = r.reads
	r.catchUp()
	if pages := r.reads - before; pages > 2 {
		t.Errorf("%d pages were read after the long transaction ended, want at most 2 because nothing is repeated any more",
			pages)
	}
	for _, n := range control {
		n.catchUp(t)
		if n.seen["long"] != 0 {
			t.Errorf("the test proves nothing: a cursor by %s should lose the long transaction", n.order)
		}
	}
}

// One transaction changes many runs, as a projector does, so they have the same xid.
// contract: T186
func TestFeed_ManyRunsOfOneTransaction(t *testing.T) {
	const runs = 50
	dsn := migratedTemplate.Postgres(t)
	s := open(t, dsn)
	want := map[string]run.Seq{}
	for i := range runs {
		id := fmt.Sprintf("run-%03d", i)
		create(t, s, id)
		want[id] = run.Seq(i + 1)
	}
	for _, limit := range []int{1, 3, runs, runs + 1} {
		r := newReader(t, s, limit)
		tx := begin(t, dsn)
		for i := range runs {
			save(t, tx, fmt.Sprintf("run-%03d", i), i+1)
		}
		commit(t, tx)
		r.catchUp()
		if diff := cmp.Diff(want, r.seen); diff != "" {
			t.Errorf("pages of %d (-want +got):\n%s", limit, diff)
		}
	}
}

// A pass ends although writers never let the reader catch up, so that changes that were committed behind it are read.
// contract: T186
func TestFeed_PassEndsUnderLoad(t *testing.T) {
	const limit = 5
	dsn := migratedTemplate.Postgres(t)
	s := open(t, dsn)
	create(t, s, "long")
	for i := range 4 * limit {
		create(t, s, fmt.Sprintf("run-%03d", i))
	}
	r := newReader(t, s, limit)
	c := connect(t, dsn)
	busy := func(n int) { // changes more runs than a page has
		for i := range limit + 1 {
			save(t, c, fmt.Sprintf("run-%03d", (n*(limit+1)+i)%(4*limit)), 100+n)
		}
	}
	long := begin(t, dsn)
	save(t, long, "long", 100)
	for n := range 20 {
		busy(n)
		r.page()
	}
	commit(t, long)
	for n := 20; n < 60; n++ {
		busy(n)
		r.page()
		if r.seen["long"] == 100 {
			return
		}
	}
	t.Error("the run of the long transaction was not read while other runs kept changing")
}

// Many writers use Save. A trigger that sleeps after the xid was taken shuffles their commits. Readers with several
// page sizes read meanwhile.
// contract: T186
func TestFeed_ManyWritersCommitOutOfOrder(t *testing.T) {
	const writers, runs, saves = 12, 4, 8
	dsn := migratedTemplate.Postgres(t)
	s := open(t, dsn)
	ctx := t.Context()
	for w := range writers {
		for n := range runs {
			create(t, s, fmt.Sprintf("run-%d-%d", w, n))
		}
	}
	withPositions(t, dsn)
	admin := connect(t, dsn)
	for _, sql := range []string{
		`CREATE FUNCTION dawdle() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(random() * 0.02); RETURN NEW; END $$`,
		`CREATE TRIGGER zz_dawdle BEFORE UPDATE ON run_state FOR EACH ROW EXECUTE FUNCTION dawdle()`,
	} {
		if _, err := admin.Exec(ctx, sql); err != nil {
			t.Fatal(err)
		}
	}
	control := naiveReaders(t, dsn)
	var readers []*reader
	for _, limit := range []int{1, 7, store.MaxPage} {
		readers = append(readers, newReader(t, s, limit))
	}
	var writing, reading sync.WaitGroup
	var done atomic.Bool
	for w := range writers {
		writing.Go(func() {
			for range saves {
				for n := range runs {
					id := fmt.Sprintf("run-%d-%d", w, n)
					h, err := s.Heads(ctx, []string{id})
					if err == nil {
						_, err = appendTo(ctx, s, id, stepStarted("s1", int(h.ByRun[id].LastSeq)+1))
					}
					var l store.Loaded
					if err == nil {
						l, err = s.Load(ctx, id)
					}
					if err == nil {
						_, err = s.Save(ctx, l.State, l.Changes)
					}
					if err != nil {
						t.Errorf("%s: %v", id, err)
						return
					}
				}
			}
		})
	}
	for _, r := range readers {
		reading.Go(func() {
			for !done.Load() {
				r.page()
				time.Sleep(rand.N(4 * time.Millisecond))
			}
			r.catchUp()
			r.catchUp()
		})
	}
	for _, n := range control {
		reading.Go(func() {
			for !done.Load() {
				n.catchUp(t)
			}
			n.catchUp(t)
		})
	}
	writing.Wait()
	done.Store(true)
	reading.Wait()
	want := map[string]run.Seq{}
	for w := range writers {
		for n := range runs {
			want[fmt.Sprintf("run-%d-%d", w, n)] = saves
		}
	}
	for _, r := range readers {
		if diff := cmp.Diff(want, r.seen); diff != "" {
			t.Errorf("pages of %d (-want +got):\n%s", r.limit, diff)
		}
		t.Logf("pages of %d: %d reads", r.limit, r.reads)
	}
	for _, n := range control {
		lost := slices.Collect(maps.Keys(want))
		lost = slices.DeleteFunc(lost, func(id string) bool { return n.seen[id] == want[id] })
		t.Logf("a cursor by %s lost the last state of %d of %d runs", n.order, len(lost), len(want))
	}
}

// A dump that is loaded into another server contains transaction ids far in that server's future. After a restore from
// a backup, a cursor may know more transactions than the server.
// contract: T194
func TestFeed_RestoredElsewhere(t *testing.T) {
	const limit = 4
	dsn := migratedTemplate.Postgres(t)
	s := open(t, dsn)
	want := map[string]run.Seq{}
	for i := range 3 * limit {
		id := fmt.Sprintf("run-%03d", i)
		create(t, s, id)
		want[id] = 0
	}
	c := connect(t, dsn)
	if _, err := c.Exec(
		t.Context(), `UPDATE run_state SET xid = (1000000000 + right(run_id, 3)::int)::text::xid8`); err != nil {
		t.Fatal(err)
	}
	for _, what := range []string{"before BumpEpoch", "after BumpEpoch"} {
		r := &reader{t: t, store: s, limit: limit, cursor: store.FeedStart, seen: map[string]run.Seq{}}
		r.catchUp()
		if diff := cmp.Diff(want, r.seen); diff != "" {
			t.Errorf("from the beginning, %s (-want +got):\n%s", what, diff)
		}
		clear(r.seen)
		save(t, c, "run-007", 50+r.reads)
		want["run-007"] = run.Seq(50 + r.reads)
		r.catchUp()
		if r.seen["run-007"] != want["run-007"] {
			t.Errorf("a change after the restore is missing from the feed, %s", what)
		}
		if err := s.BumpEpoch(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	r := newReader(t, s, limit)
	r.catchUp()
	if len(r.seen) > 0 {
		t.Errorf("the feed repeats restored rows: %v, want none", r.seen)
	}
	epoch, err := s.Epoch(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	r.cursor = epoch + "/1000000000"
	r.catchUp()
	if diff := cmp.Diff(want, r.seen); diff != "" {
		t.Errorf("with a cursor from beyond the restored backup (-want +got):\n%s", diff)
	}
}
