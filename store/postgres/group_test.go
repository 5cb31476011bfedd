package postgres_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
	"github.com/dvt-engine/dvt/store"
	"github.com/dvt-engine/dvt/store/postgres"
	"github.com/dvt-engine/dvt/store/storetest"
)

// groups returns a store and a connection to its database. It has n runs, r0 to r<n-1>, each with one StepStarted of s0
// in its log.
func groups(t *testing.T, n int) (s *postgres.Store, db *pgx.Conn) {
	t.Helper()
	s, db, _ = groupsAt(t, n)
	return s, db
}

func groupsAt(t *testing.T, n int) (s *postgres.Store, db *pgx.Conn, dsn string) {
	t.Helper()
	dsn = migratedTemplate.Postgres(t)
	s = open(t, dsn)
	for i := range n {
		create(t, s, fmt.Sprint("r", i))
		if _, err := appendTo(t.Context(), s, fmt.Sprint("r", i), stepStarted("s0", 1)); err != nil {
			t.Fatal(err)
		}
	}
	return s, connect(t, dsn), dsn
}

// asGroup writes the appends as one group. Plain must accept all of them.
func asGroup(t testing.TB, s *postgres.Store, appends ...store.Append) ([]*store.EntryResult, error) {
	t.Helper()
	prepared := make([]store.Plain, len(appends))
	for i, a := range appends {
		p, ok := s.Plain(store.Entry{Append: &a})
		if !ok {
			t.Fatalf("not plain: %+v", a)
		}
		prepared[i] = p
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	return s.Group(ctx, prepared)
}

// one returns an append of one event.
func one(runID string, d run.Draft) store.Append {
	return store.Append{RunID: runID, Events: []run.Draft{d}}
}

func execSQL(t testing.TB, db *pgx.Conn, sql string) {
	t.Helper()
	if _, err := db.Exec(t.Context(), sql); err != nil {
		t.Fatal(err)
	}
}

// A group writes plain entries and leaves everything else to dvt_append, without any change: duplicates, attempts in an
// unexpected state, ended runs, gates, logs that are too short, and locked heads.
// contract: T190, T28
func TestGroup_SkipsEntriesThatAreNotPlain(t *testing.T) {
	completed := runtest.Draft(run.StepCompletedEvent, "s0", 1)
	cases := []struct {
		what    string
		before  store.Append // applied to the run first
		sql     string       // executed first; %s is the run id
		append  store.Append
		written bool
	}{
		{what: "a fresh attempt", append: one("", stepStarted("s1", 1)), written: true},
		{what: "the end of an attempt", append: one("", completed), written: true},
		{what: "an event of the run", append: one("", runtest.Draft(run.RunResumed, "", 1)), written: true},
		{what: "a signal", append: one("", runtest.Draft(run.SignalAccepted, "u1", 1)), written: true},
		{what: "a MinHead that the log has reached",
			append:  store.Append{Events: []run.Draft{stepStarted("s1", 1)}, MinHead: 1},
			written: true},
		{what: "an attempt that has started", append: one("", stepStarted("s0", 1))},
		{what: "an attempt that has ended", before: one("", completed), append: one("",
			runtest.Draft(run.StepFailedEvent, "s0", 1))},
		{what: "a duplicate end", before: one("", completed), append: one("", completed)},
		{what: "a duplicate signal", before: one("", runtest.Draft(run.SignalAccepted, "u1", 1)),
			append: one("", runtest.Draft(run.SignalAccepted, "u1", 1))},
		{what: "the end of an attempt that never started", append: one("", runtest.Draft(run.StepCompletedEvent, "s9", 1))},
		{what: "a manual step", before: one("", runtest.Draft(run.StepAwaitingManualCompletion, "s0", 1)),
			append: one("", completed)},
		{what: "an ended run", before: one("", runtest.Draft(run.RunCompleted, "", 1)),
			append: one("", stepStarted("s1", 1))},
		{what: "a signal of an ended run", before: one("", runtest.Draft(run.RunCompleted, "", 1)),
			append: one("", runtest.Draft(run.SignalRejected, "u1", 1))},
		{what: "a paused run", before: store.Append{SetGate: run.GatePaused}, append: one("", completed)},
		{what: "a failing run and a retry deadline", before: store.Append{SetGate: run.GateFailing},
			append: store.Append{Events: []run.Draft{completed}, RetryDeadline: time.Now()}},
		{what: "a MinHead that the log has not reached",
			append: store.Append{Events: []run.Draft{stepStarted("s1", 1)}, MinHead: 2}},
		{what: "a count of running attempts that would become negative",
			sql:    `UPDATE run_head SET running = 0 WHERE run_id = '%s'`,
			append: one("", completed)},
	}
	s, db := groups(t, len(cases)+1)
	var appends []store.Append
	for i, c := range cases {
		id := fmt.Sprint("r", i)
		if c.before.RunID = id; len(c.before.Events) > 0 || c.before.SetGate != 0 {
			if _, err := s.Append(t.Context(), c.before); err != nil {
				t.Fatal(err)
			}
		}
		if c.sql != "" {
			execSQL(t, db, fmt.Sprintf(c.sql, id))
		}
		c.append.RunID = id
		appends = append(appends, c.append)
	}
	held := fmt.Sprint("r", len(cases))
	execSQL(t, db, `BEGIN`)
	execSQL(t, db, `SELECT FROM run_head WHERE run_id = '`+held+`' FOR UPDATE`)
	appends = append(appends, one(held, stepStarted("s1", 1)))
	before := must[store.Heads](t)(s.Heads(t.Context(), runIDs(len(appends))))
	results, err := asGroup(t, s, appends...)
	if err != nil {
		t.Fatal(err)
	}
	execSQL(t, db, `ROLLBACK`)
	after := must[store.Heads](t)(s.Heads(t.Context(), runIDs(len(appends))))
	for i, a := range appends {
		what, written := "a run with a locked head", false
		if i < len(cases) {
			what, written = cases[i].what, cases[i].written
		}
		if (results[i] != nil) != written {
			t.Errorf("%s: written %t, want %t", what, results[i] != nil, written)
			continue
		}
		was, is := before.ByRun[a.RunID], after.ByRun[a.RunID]
		log := must[[]run.Event](t)(s.Events(t.Context(), a.RunID, was.LastSeq, 10))
		if !written {
			if diff := cmp.Diff(was, is); diff != "" || len(log) > 0 {
				t.Errorf("%s: want no change of the run; %d events were added, head (-before +after):\n%s", what, len(log), diff)
			}
			continue
		}
		if len(log) != 1 || log[0].Seq != was.LastSeq+1 || log[0].StepID != a.Events[0].StepID {
			t.Errorf("%s: new events %+v, want one event of step %s", what, log, a.Events[0].StepID)
			continue
		}
		want := store.Appended{Head: is, Outcomes: []store.EventOutcome{{
			Seq: log[0].Seq, EventID: log[0].EventID, EmittedAt: log[0].EmittedAt, PersistedAt: log[0].PersistedAt,
		}}}
		if diff := cmp.Diff(want, results[i].Appended); diff != "" {
			t.Errorf("%s: the result differs from the log (-log +result):\n%s", what, diff)
		}
	}
}

func runIDs(n int) []string {
	ids := make([]string, n)
	for i := range ids {
		ids[i] = fmt.Sprint("r", i)
	}
	return ids
}

// A group writes the event, the head and the dirty mark of every run, whether the run had a mark or not.
// contract: T189
func TestGroup_MarksEveryRun(t *testing.T) {
	s, db := groups(t, 3)
	execSQL(t, db, `UPDATE run_head SET ops_rev = 7`)
	execSQL(t, db, `DELETE FROM run_dirty WHERE run_id = 'r1'`)
	execSQL(t, db, `UPDATE run_dirty SET ops_rev = 9, since = 'epoch' WHERE run_id = 'r2'`)
	if _, err := asGroup(t, s, one("r2", stepStarted("s1", 1)), one("r0", stepStarted("s1", 1)),
		one("r1", stepStarted("s1", 1))); err != nil {
		t.Fatal(err)
	}
	var got string
	if err := db.QueryRow(
		t.Context(), `SELECT string_agg(concat_ws(' ', run_id, d.head_seq, d.ops_rev, since = 'epoch', since >= e.persisted_at,
		(SELECT count(DISTINCT xmin::text) FROM event x WHERE x.run_seq = 2)), ', ' ORDER BY run_id)
		FROM run_dirty d JOIN event e USING (run_id) WHERE run_seq = d.head_seq`).Scan(&got); err != nil {
		t.Fatal(err)
	}
	if want := "r0 2 7 f f 1, r1 2 7 f t 1, r2 2 9 t f 1"; got != want {
		t.Errorf("marks: %s\nwant %s", got, want)
	}
}

// PersistedAt is read from the clock after the locks are taken, and never decreases.
// contract: T18
func TestGroup_PersistedAtNeverFalls(t *testing.T) {
	s, db, dsn := groupsAt(t, 2)
	ahead := time.Now().Add(time.Hour).Truncate(time.Microsecond).UTC()
	if _, err := db.Exec(t.Context(), `UPDATE run_head SET last_at = $1 WHERE run_id = 'r1'`, ahead); err != nil {
		t.Fatal(err)
	}
	execSQL(t, db, `BEGIN`)
	execSQL(t, db, `LOCK TABLE run_head IN ACCESS EXCLUSIVE MODE`)
	type answer struct {
		results []*store.EntryResult
		err     error
	}
	done := make(chan answer)
	go func() {
		results, err := asGroup(t, s, one("r0", stepStarted("s1", 1)), one("r1", stepStarted("s1", 1)))
		done <- answer{results, err}
	}()
	awaitLockWait(t, connect(t, dsn))
	var released time.Time
	if err := db.QueryRow(t.Context(), `SELECT clock_timestamp()`).Scan(&released); err != nil {
		t.Fatal(err)
	}
	execSQL(t, db, `COMMIT`)
	got := <-done
	if got.err != nil || got.results[0] == nil || got.results[1] == nil {
		t.Fatalf("results %+v, %v; want two results", got.results, got.err)
	}
	if at := got.results[0].Appended.Outcomes[0].PersistedAt; at.Before(released) {
		t.Errorf("PersistedAt is %v before the lock was released, want after", released.Sub(at))
	}
	if at := got.results[1].Appended.Outcomes[0].PersistedAt; !at.Equal(ahead) {
		t.Errorf("PersistedAt is %v, want that of the last event, %v", at, ahead)
	}
}

// A group locks marks in the order of run ids, whatever the order of its entries. So it cannot deadlock with others
// that use this order.
// contract: T207
func TestGroup_LocksInOrder(t *testing.T) {
	s, db, dsn := groupsAt(t, 8)
	execSQL(t, db, `BEGIN`)
	execSQL(t, db, `SELECT FROM run_dirty WHERE run_id = 'r0' FOR UPDATE`)
	var appends []store.Append
	for _, n := range []int{5, 2, 7, 0, 3, 6, 1, 4} {
		appends = append(appends, one(fmt.Sprint("r", n), stepStarted("s1", 1)))
	}
	done := make(chan error)
	go func() {
		_, err := asGroup(t, s, appends...)
		done <- err
	}()
	awaitLockWait(t, connect(t, dsn))
	if _, err := db.Exec(t.Context(), `SELECT FROM run_dirty FOR UPDATE NOWAIT`); err != nil {
		t.Errorf("a group that waits for the mark of the first run has locked another mark: %v", err)
	}
	execSQL(t, db, `ROLLBACK`)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

// If the database refuses one event, the group writes nothing and the caller writes the entries one by one.
// contract: T190
func TestGroup_ARefusedEventLeavesAllUnwritten(t *testing.T) {
	s, db := groups(t, 2)
	execSQL(t, db, `ALTER TABLE event ADD CONSTRAINT poison CHECK (step_id <> 'poison')`)
	results, err := asGroup(t, s, one("r0", stepStarted("s1", 1)), one("r1", stepStarted("poison", 1)))
	if err != nil || results[0] != nil || results[1] != nil {
		t.Errorf("results %+v, %v; want two nil results", results, err)
	}
	if h := must[store.Heads](t)(s.Heads(t.Context(), []string{"r0"})); h.ByRun["r0"].LastSeq != 1 {
		t.Errorf("head %+v, want last seq 1", h.ByRun["r0"])
	}
}

func TestGroup_IsBounded(t *testing.T) {
	s, _ := groups(t, 1)
	a := one("r0", stepStarted("s1", 1))
	p, ok := s.Plain(store.Entry{Append: &a})
	if !ok {
		t.Fatal("a StepStarted is not plain, want plain")
	}
	many := make([]store.Plain, store.MaxEntries+1)
	for i := range many {
		many[i] = p
	}
	if _, err := s.Group(t.Context(), many); err == nil {
		t.Error("Group wrote more than store.MaxEntries entries, want an error")
	}
	if results, err := s.Group(t.Context(), nil); err != nil || len(results) > 0 {
		t.Errorf("an empty group: results %v, %v; want none", results, err)
	}
	s.Close()
	if _, err := s.Group(t.Context(), many[:1]); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("a group on a closed store: %v, want %v", err, store.ErrUnavailable)
	}
}

// Plain rejects entries that need dvt_append in every state of the run.
// contract: T190
func TestPlain_RejectsOtherEntries(t *testing.T) {
	s, _ := groups(t, 1)
	d := stepStarted("s1", 1)
	for what, e := range map[string]store.Entry{
		"two events":        {Append: &store.Append{RunID: "r0", Events: []run.Draft{d, stepStarted("s2", 1)}}},
		"no event":          {Append: &store.Append{RunID: "r0"}},
		"a gate":            {Append: &store.Append{RunID: "r0", Events: []run.Draft{d}, SetGate: run.GatePaused}},
		"a gate that opens": {Append: &store.Append{RunID: "r0", Events: []run.Draft{d}, ClearGate: run.GatePaused}},
		"a receipt": {Append: &store.Append{RunID: "r0", Events: []run.Draft{d},
			Outcomes: []store.SignalOutcome{{SignalID: "u1", AppliedBy: -1}}}},
		"a receipt of a start": {Start: &store.StartAttempt{RunID: "r0", StepID: "s1", LogicalAttempt: 1, EngineAttempt: 1,
			EmittedAt: time.Now(), SignalID: "u1"}},
		"a pause":           {Append: &store.Append{RunID: "r0", Events: []run.Draft{runtest.Draft(run.RunPaused, "", 1)}}},
		"an end of the run": {Append: &store.Append{RunID: "r0", Events: []run.Draft{runtest.Draft(run.RunFailed, "", 1)}}},
		"a skip": {
			Append: &store.Append{RunID: "r0", Events: []run.Draft{runtest.Draft(run.StepSkippedEvent, "s1", 1)}}},
		"a manual step": {
			Append: &store.Append{RunID: "r0", Events: []run.Draft{runtest.Draft(run.StepAwaitingManualCompletion, "s1", 1)}}},
		"an invalid event": {Append: &store.Append{RunID: "r0", Events: []run.Draft{{Type: "Nonsense"}}}},
		"an unknown run":   {Append: &store.Append{RunID: "nobody", Events: []run.Draft{d}}},
	} {
		if _, ok := s.Plain(e); ok {
			t.Errorf("%s is plain, want not plain", what)
		}
	}
}

// everyGroup is a store that writes each plain entry as a group.
type everyGroup struct {
	*postgres.Store
	written *atomic.Int64
}

func (s everyGroup) try(ctx context.Context, e store.Entry) (*store.EntryResult, error) {
	p, ok := s.Plain(e)
	if !ok {
		return nil, nil
	}
	results, err := s.Group(ctx, []store.Plain{p})
	if err != nil || results[0] == nil {
		return nil, err
	}
	s.written.Add(1)
	return results[0], nil
}

func (s everyGroup) Append(ctx context.Context, a store.Append) (store.Appended, error) {
	r, err := s.try(ctx, store.Entry{Append: &a})
	if err != nil {
		return store.Appended{}, err
	}
	if r != nil {
		return r.Appended, r.Err
	}
	return s.Store.Append(ctx, a)
}

func (s everyGroup) StartAttempt(ctx context.Context, b store.StartAttempt) (store.AttemptStarted, error) {
	r, err := s.try(ctx, store.Entry{Start: &b})
	if err != nil {
		return store.AttemptStarted{}, err
	}
	if r != nil {
		return r.Started, r.Err
	}
	return s.Store.StartAttempt(ctx, b)
}

type groupedDatabase struct {
	database
	written *atomic.Int64
}

func (d groupedDatabase) Open(t testing.TB) store.Store {
	return everyGroup{d.database.Open(t).(*postgres.Store), d.written}
}

// A store that writes plain entries by Group passes the conformance suite with the rights of a server.
// contract: T190
func TestGroups_Conformance(t *testing.T) {
	var written atomic.Int64
	t.Run("suite", func(t *testing.T) {
		storetest.Run(t, func(t testing.TB) storetest.DB {
			return groupedDatabase{database{as(t, serverRoleTemplate.Postgres(t), "Server")}, &written}
		})
	})
	if strings.Contains(flag.Lookup("test.run").Value.String(), "/") {
		return // somebody runs a part of the suite
	}
	if t.Logf("%d events were written by groups", written.Load()); written.Load() < 100 {
		t.Error("fewer than 100 events were written by groups, so the test proves little")
	}
}

// Groups and other writers use the same runs. Every event is stored once, sequence numbers have no gap, and nothing
// deadlocks.
// contract: A06, T27
func TestGroup_ManyAtOnce(t *testing.T) {
	const runs, writers, each = 12, 4, 30
	s, db := groups(t, runs)
	var left atomic.Int64
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for n := range each {
				var appends []store.Append
				for i := range runs {
					appends = append(appends, one(fmt.Sprint("r", (i*5+w*7+n)%runs), stepStarted(fmt.Sprint("w", w), 1+n)))
				}
				results, err := asGroup(t, s, appends...)
				for i, r := range results {
					if r == nil && err == nil {
						left.Add(1)
						_, err = s.Append(t.Context(), appends[i])
					}
				}
				if err != nil {
					t.Errorf("writer %d: %v", w, err)
					return
				}
			}
		})
	}
	done := make(chan struct{})
	var publisher sync.WaitGroup
	publisher.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
			}
			var sent []store.PublishedTo
			for i := range runs {
				sent = append(sent, store.PublishedTo{RunID: fmt.Sprint("r", runs-1-i), To: 1})
			}
			if _, err := s.Advance(t.Context(), sent, nil); err != nil {
				t.Errorf("publish: %v", err)
				return
			}
		}
	})
	wg.Wait()
	close(done)
	publisher.Wait()
	t.Logf("%d of %d entries were not plain", left.Load(), runs*writers*each)
	var wrong, deadlocks int
	if err := db.QueryRow(
		t.Context(), `SELECT count(*) FROM run_head h WHERE last_seq <> $1 OR running <> $1 OR last_seq <> (SELECT count(*) FROM event e
		WHERE e.run_id = h.run_id AND e.run_seq <= h.last_seq) OR NOT EXISTS (SELECT FROM run_dirty d WHERE d.run_id = h.run_id AND head_seq = last_seq)`,
		1+writers*each).Scan(&wrong); err != nil || wrong > 0 {
		t.Errorf("%d runs have a wrong head, log or mark, %v; want none", wrong, err)
	}
	if err := db.QueryRow(t.Context(), `SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()`).Scan(
		&deadlocks); err != nil || deadlocks > 0 {
		t.Errorf("%d deadlocks, %v; want none", deadlocks, err)
	}
}
