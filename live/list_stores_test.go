package live_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dvt-engine/dvt/internal/testserver"
	"github.com/dvt-engine/dvt/internal/testtime"
	"github.com/dvt-engine/dvt/live"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
	"github.com/dvt-engine/dvt/store"
	"github.com/dvt-engine/dvt/store/postgres"
	"github.com/dvt-engine/dvt/store/sqlite"
)

// onStores runs test on each store.
func onStores(t *testing.T, test func(t *testing.T, s store.Store)) {
	t.Run("sqlite", func(t *testing.T) {
		s, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "dvt.db"), sqlite.Options{})
		ok(t, err)
		t.Cleanup(func() { ok(t, s.Close()) })
		test(t, s)
	})
	t.Run("postgres", func(t *testing.T) {
		server, err := testserver.StartPostgres(testserver.PostgresOptions{Settings: []string{"fsync=off"}})
		if err != nil {
			t.Fatalf("PostgreSQL cannot be started: %v", err)
		}
		t.Cleanup(func() { ok(t, server.Close()) })
		s, err := postgres.Open(t.Context(), server.Database(t, "dvt"), postgres.Options{Migrate: true})
		ok(t, err)
		t.Cleanup(func() { ok(t, s.Close()) })
		test(t, s)
	})
}

// runFactory creates random runs in a store and advances them.
type runFactory struct {
	*testing.T
	*rand.Rand
	store store.Store
	runs  []run.Identity
	moves map[string]int // index of the run's next event in lifecycle
}

func newRunFactory(t *testing.T, s store.Store, seed uint64) *runFactory {
	return &runFactory{T: t, Rand: rand.New(rand.NewPCG(seed, 2)), store: s, moves: map[string]int{}}
}

func pick[T any](r *rand.Rand, values ...T) T { return values[r.IntN(len(values))] }

// lifecycle is the sequence of events of every run in these tests.
var lifecycle = []run.EventType{run.RunStarted, run.StepStartedEvent, run.RunPaused, run.RunResumed,
	run.StepCompletedEvent,
	run.RunCompleted}

func (l *runFactory) identity() run.Identity {
	id := runtest.ID
	id.RunID = fmt.Sprintf("%s%03d", pick(l.Rand, "run-", "RUN-", "a_", "a.", "z"), len(l.runs))
	id.TenantID = pick(l.Rand, "t1", "t1", "t1", "t2")
	id.ProjectID = pick(l.Rand, "p1", "p2", "p3")
	id.EnvironmentID = pick(l.Rand, "dev", "prod")
	id.PlanID = pick(l.Rand, "plan", "Plan", "shop_nightly", "a.b", "run-1")
	return id
}

func newRunOf(id run.Identity) store.NewRun {
	return store.NewRun{Run: store.Run{
		Identity: id, RequestID: id.RunID, RequestKey: run.Key("key-" + id.RunID), TriggeredBy: "ola", TriggerSource: "api",
	}}
}

// create makes a run with the current time.
func (l *runFactory) create() run.Identity {
	l.Helper()
	id := l.identity()
	n := newRunOf(id)
	n.Events = []run.Draft{runtest.Draft(run.RunApproved, "", 1)}
	_, _, err := l.store.CreateRun(context.Background(), n)
	ok(l, err)
	l.runs = append(l.runs, id)
	return id
}

// imported makes a run that was created at the given time.
func (l *runFactory) imported(created time.Time) {
	l.Helper()
	id := l.identity()
	id.PlanID = pick(l.Rand, id.PlanID, "a%b", `a\b`, "прогон", "é", "e\u0301") // names as other systems may use them
	n := newRunOf(id)
	n.Run.CreatedAt = created
	ok(l, l.store.Import(context.Background(), n, nil))
	l.runs = append(l.runs, id)
}

// advance appends the run's next event, if there is one, and projects it.
func (l *runFactory) advance(id run.Identity) {
	l.Helper()
	n := l.moves[id.RunID]
	if n == len(lifecycle) {
		return
	}
	l.moves[id.RunID]++
	draft := runtest.Draft(lifecycle[n], "", 1)
	switch {
	case n > 0 && l.IntN(4) == 0:
		draft, l.moves[id.RunID] = runtest.Draft(run.RunCancelled, "", 1), len(lifecycle)
	case lifecycle[n] == run.RunStarted:
		draft = runtest.Start("a")
		draft.Payload = bytes.ReplaceAll(draft.Payload, runtest.JSON(runtest.ID.PlanID), runtest.JSON(id.PlanID))
	case lifecycle[n] == run.StepStartedEvent, lifecycle[n] == run.StepCompletedEvent:
		draft = runtest.Draft(lifecycle[n], "a", 1)
	}
	ctx := context.Background()
	_, err := l.store.Append(ctx, store.Append{RunID: id.RunID, Events: []run.Draft{draft}})
	ok(l, err)
	loaded, err := l.store.Load(ctx, id.RunID)
	ok(l, err)
	_, err = l.store.Save(ctx, loaded.State, loaded.Changes)
	ok(l, err)
}

// filter returns a random filter of tenant t1. Each restriction is set with a probability of 1/once; between has the
// bounds of time.
func (l *runFactory) filter(once int, between []time.Time) store.RunFilter {
	f := store.RunFilter{TenantID: "t1", Limit: 1 + l.IntN(live.MaxListRows), Ascending: l.IntN(3) == 0}
	if l.IntN(2) == 0 {
		f.Limit = 1 + l.IntN(6)
	}
	may := func(set func()) {
		if l.IntN(once) == 0 {
			set()
		}
	}
	may(func() {
		f.ProjectIDs = pick(l.Rand, []string{"p1"}, []string{"p1", "p2"}, []string{"p2", "p3", "p9"}, []string{}, nil)
	})
	may(func() { f.EnvironmentID = pick(l.Rand, "dev", "prod", "Dev", "") })
	may(func() {
		f.Statuses = pick(l.Rand, []run.Status{run.Running}, []run.Status{run.Running, run.Paused},
			[]run.Status{run.Completed, run.Cancelled},
			[]run.Status{run.Pending, run.Approved}, []run.Status{})
	})
	may(func() {
		may(func() { f.PlanID = pick(l.Rand, "plan", "shop_nightly", "a%b", "é", "x") })
	})
	may(func() {
		f.Text = pick(l.Rand, "run-", "RUN", "run-00", "a_", "a", "%", "_", `\`, "lan", "ghtly", "гон", "é", "e\u0301", "e",
			"-1", " ", "*", "?", "[a]", "z0", "run-001x")
	})
	bound := func() time.Time {
		at := between[l.IntN(len(between))]
		return at.Add(pick(l.Rand, 0, time.Nanosecond, -time.Nanosecond, 999*time.Nanosecond, time.Microsecond,
			-time.Microsecond, time.Hour, -time.Hour)).
			In(pick(l.Rand, time.UTC, time.FixedZone("x", 3600)))
	}
	may(func() { f.CreatedFrom = bound() })
	may(func() { f.CreatedTo = bound() })
	return f
}

func (l *runFactory) list(f store.RunFilter) []store.RunRow {
	l.Helper()
	rows, err := l.store.List(context.Background(), f)
	ok(l, err)
	return rows
}

// summary describes rows for cmp.
func summary(rows []store.RunRow) []string {
	out := []string{}
	for _, r := range rows {
		out = append(out, fmt.Sprintf("%s %d %s ops %d", r.Header.RunID, r.Header.Seq, r.Header.Status, r.OpsRev))
	}
	return out
}

// In memory a filter selects and orders as in the SQL of the stores.
func TestLists_FiltersMatchTheStores(t *testing.T) {
	onStores(t, func(t *testing.T, s store.Store) {
		l := newRunFactory(t, s, 7)
		for i := range 150 {
			if i%3 == 0 {
				l.create()
			} else { // equal times: the ids decide
				l.imported(runtest.Epoch.Add(time.Duration(l.IntN(20)) * time.Microsecond).Add(
					-time.Duration(l.IntN(2)) * 100 * 365 * 24 * time.Hour))
			}
		}
		for range 200 {
			if id := l.runs[3*l.IntN(50)]; l.moves[id.RunID] < len(lifecycle) {
				l.advance(id)
			}
		}
		var all []store.RunRow
		var between []time.Time
		for _, tenant := range []string{"t1", "t2"} {
			for _, row := range l.list(store.RunFilter{TenantID: tenant, Limit: 201}) {
				all, between = append(all, row), append(between, row.Header.CreatedAt)
			}
		}
		if len(all) != 150 {
			t.Fatalf("the store has %d rows, want 150", len(all))
		}
		found := 0
		for range 2000 {
			f := l.filter(2, between)
			var rows []*store.RunRow
			for i := range all {
				if live.Selects(&f, &all[i]) {
					rows = append(rows, &all[i])
				}
			}
			slices.SortFunc(rows, live.Displayed(&f))
			var got []store.RunRow
			for _, row := range rows[:min(len(rows), f.Limit)] {
				got = append(got, *row)
			}
			found += len(got)
			if diff := cmp.Diff(summary(l.list(f)), summary(got)); diff != "" {
				t.Fatalf("%+v (-store +memory):\n%s", f, diff)
			}
		}
		if found < 2000 {
			t.Errorf("the filters found %d rows in total, too few to prove anything", found)
		}
	})
}

// pageViewer keeps a page as clients do and checks every frame.
type pageViewer struct {
	*testing.T
	filter store.RunFilter
	stream *live.ListStream
	rows   map[string]store.RunRow
	seqs   map[string]run.Seq // highest position shown in this epoch
	epoch  string
	asOf   time.Time
	last   live.ListFrame
	frames int
}

func (o *pageViewer) take(f live.ListFrame) {
	o.frames++
	if f.Reset || o.rows == nil {
		o.rows = map[string]store.RunRow{}
	}
	if f.Epoch != o.epoch {
		o.seqs, o.epoch = map[string]run.Seq{}, f.Epoch
	} else if f.AsOf.Before(o.asOf) {
		o.Errorf("%+v: AsOf decreased from %s to %s", o.filter, o.asOf, f.AsOf)
	}
	for _, id := range f.Removed {
		if _, shown := o.rows[id]; !shown {
			o.Errorf("%+v: %s was removed but had not been shown", o.filter, id)
		}
		delete(o.rows, id)
	}
	for _, row := range f.Rows {
		h := row.Header
		switch {
		case !live.Selects(&o.filter, &store.RunRow{Header: h}):
			o.Errorf("%+v: showed %+v", o.filter, h)
		case h.Seq < o.seqs[h.RunID]:
			o.Errorf("%+v: %s decreased from seq %d to %d", o.filter, h.RunID, o.seqs[h.RunID], h.Seq)
		case slices.Contains(f.Removed, h.RunID):
			o.Errorf("%+v: %s is both in Rows and in Removed", o.filter, h.RunID)
		}
		o.seqs[h.RunID], o.rows[h.RunID] = h.Seq, row
	}
	if len(o.rows) > o.filter.Limit {
		o.Errorf("%+v: %d rows", o.filter, len(o.rows))
	}
	o.asOf, o.last = f.AsOf, f
}

// page returns the rows that the viewer has, in display order.
func (o *pageViewer) page() []store.RunRow {
	order := live.Displayed(&o.filter)
	rows := []store.RunRow{}
	for _, row := range o.rows {
		rows = append(rows, row)
	}
	slices.SortFunc(rows, func(a, b store.RunRow) int { return order(&a, &b) })
	return rows
}

// drain takes frames until none arrives for d.
func (o *pageViewer) drain(d time.Duration) {
	for {
		ctx, cancel := context.WithTimeout(context.Background(), d)
		f, err := o.stream.Next(ctx)
		cancel()
		if err != nil {
			return
		}
		o.take(f)
	}
}

// With any changes and filters, lost wake-ups, late and slow viewers, and changing histories, every page finally
// equals the store's list.
// contract: T186
func TestLists_PagesConvergeToTheStore(t *testing.T) {
	onStores(t, func(t *testing.T, s store.Store) {
		for seed := range uint64(3) {
			checkConvergence(t, newRunFactory(t, s, 100+seed), seed)
		}
	})
}

func checkConvergence(t *testing.T, l *runFactory, seed uint64) {
	b := newFakeListBus()
	lists := live.NewLists(l.store, b, live.ListsConfig{
		MinInterval: 5 * time.Millisecond, NetInterval: 50 * time.Millisecond,
		CheckInterval: testtime.Of(200 * time.Millisecond), ReadTimeout: 10 * time.Second,
	})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- lists.Run(ctx) }()
	defer func() { cancel(); ok(t, <-done) }()
	var viewers []*pageViewer
	offset := int(seed) * 1000
	l.runs = make([]run.Identity, offset) // so that each seed has its own ids
	between := []time.Time{time.Now().Add(-time.Hour), time.Now(), time.Now().Add(time.Second), time.Now().Add(time.Hour)}
	for step := range 400 {
		var touched run.Identity
		switch n := l.IntN(100); {
		case n < 20 || len(l.runs) == offset:
			touched = l.create()
		case n < 70:
			touched = l.runs[offset+l.IntN(len(l.runs)-offset)]
			l.advance(touched)
		case n < 78 && len(viewers) < 60:
			o := &pageViewer{T: t, filter: l.filter(5, between)}
			var err error
			o.stream, err = lists.Watch(o.filter)
			ok(t, err)
			viewers = append(viewers, o)
		case n == 78 && len(viewers) > 0:
			i := l.IntN(len(viewers))
			viewers[i].stream.Close()
			viewers = slices.Delete(viewers, i, i+1)
		case n == 79 && step%3 == 0:
			ok(t, l.store.BumpEpoch(context.Background()))
		case n == 80:
			b.setDown(b.Up())
		default:
			for _, o := range viewers {
				if l.IntN(2) == 0 {
					o.drain(time.Millisecond)
				}
			}
		}
		if touched.RunID != "" && l.IntN(4) > 0 {
			b.ring(live.List{TenantID: touched.TenantID, ProjectID: touched.ProjectID})
		}
	}
	b.setDown(false)
	var frames int
	for deadline := time.Now().Add(testtime.Of(20 * time.Second)); ; time.Sleep(20 * time.Millisecond) {
		late := ""
		frames = 0
		for _, o := range viewers {
			o.drain(time.Millisecond)
			frames += o.frames
			if diff := cmp.Diff(summary(l.list(o.filter)), summary(o.page())); diff != "" || o.last.Sync != live.Live {
				late = fmt.Sprintf("%+v is %s %s (-store +page):\n%s", o.filter, o.last.Sync, o.last.Reason, diff)
			}
		}
		if late == "" {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("seed %d: a page does not converge to the store's list: %s", seed, late)
		}
	}
	if len(viewers) < 10 || frames < 4*len(viewers) {
		t.Errorf("%d viewers got %d frames, too few to prove anything", len(viewers), frames)
	}
}
