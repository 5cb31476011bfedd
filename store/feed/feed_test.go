package feed_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dvt-engine/dvt/internal/testserver"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
	"github.com/dvt-engine/dvt/store"
	"github.com/dvt-engine/dvt/store/feed"
	"github.com/dvt-engine/dvt/store/postgres"
	"github.com/dvt-engine/dvt/store/sqlite"
)

func embedded(t *testing.T) store.Store {
	t.Helper()
	s, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "dvt.db"), sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func server(t *testing.T) store.Store {
	t.Helper()
	s, err := postgres.Open(t.Context(), testserver.Postgres(t), postgres.Options{Migrate: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func create(t *testing.T, s store.Store, runID, tenantID string, more ...run.Draft) {
	t.Helper()
	id := runtest.ID
	id.RunID, id.TenantID = runID, tenantID
	n := store.NewRun{
		Run:    store.Run{Identity: id, RequestKey: run.Key("request " + runID)},
		Events: append([]run.Draft{runtest.Draft(run.RunApproved, "", 1), runtest.Start("s1")}, more...),
	}
	if _, _, err := s.CreateRun(t.Context(), n); err != nil {
		t.Fatal(err)
	}
}

// grow appends n events to a run and saves its checkpoint as a projector does.
func grow(ctx context.Context, s store.Store, runID string, n int) error {
	h, err := s.Heads(ctx, []string{runID})
	if err != nil {
		return err
	}
	a := store.Append{RunID: runID}
	for i := range n {
		a.Events = append(a.Events, runtest.Draft(run.StepStartedEvent, "s1", int(h.ByRun[runID].LastSeq)+i))
	}
	if _, err := s.Append(ctx, a); err != nil {
		return err
	}
	return save(ctx, s, runID)
}

func save(ctx context.Context, s store.Store, runID string) error {
	l, err := s.Load(ctx, runID)
	if err == nil {
		_, err = s.Save(ctx, l.State, l.Changes)
	}
	return err
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// consumer reads batches and checks that events of a run come in order and without a gap, though they may repeat.
type consumer struct {
	t      *testing.T
	open   func(checkpoint string) (*feed.Reader, error)
	reader *feed.Reader
	got    map[string]run.Seq // last seq by run
	events int
	resets int
}

func consume(t *testing.T, s feed.Store, f store.RunFilter) *consumer {
	t.Helper()
	open := func(checkpoint string) (*feed.Reader, error) { return feed.NewReader(s, f, checkpoint) }
	c := &consumer{t: t, open: open, got: map[string]run.Seq{}}
	c.resume("")
	return c
}

func (c *consumer) resume(checkpoint string) {
	c.t.Helper()
	r, err := c.open(checkpoint)
	must(c.t, err)
	c.reader = r
}

func (c *consumer) next() feed.Batch {
	c.t.Helper()
	b, err := c.reader.Next(c.t.Context())
	must(c.t, err)
	c.take(b)
	return b
}

func (c *consumer) take(b feed.Batch) {
	c.t.Helper()
	if b.Reset {
		clear(c.got)
		c.resets++
	}
	for i, e := range b.Events {
		if e.RunID != b.RunID || e.Seq > c.got[b.RunID]+1 || i > 0 && e.Seq != b.Events[i-1].Seq+1 {
			c.t.Errorf("event %d of %s after event %d, want no gap and ascending order", e.Seq, e.RunID, c.got[b.RunID])
		}
		c.got[b.RunID] = max(c.got[b.RunID], e.Seq)
		c.events++
	}
}

func (c *consumer) catchUp() {
	c.t.Helper()
	for range 10_000 {
		if b := c.next(); len(b.Events) == 0 {
			return
		}
	}
	c.t.Fatal("the reader has not caught up after 10,000 batches")
}

func (c *consumer) has(want map[string]run.Seq, what string) {
	c.t.Helper()
	if diff := cmp.Diff(want, c.got); diff != "" {
		c.t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// contract: T186
func TestReader_ReturnsEveryEventOfTheTenantInOrder(t *testing.T) {
	s := embedded(t)
	for i, tenant := range []string{"t1", "t1", "t2"} {
		create(t, s, fmt.Sprint("run-", i), tenant)
	}
	c := consume(t, s, store.RunFilter{TenantID: "t1", Limit: 1})
	all := consume(t, s, store.RunFilter{EveryTenant: true})
	none := consume(t, s, store.RunFilter{})
	c.catchUp()
	c.has(map[string]run.Seq{"run-0": 2, "run-1": 2}, "from the beginning")
	must(t, grow(t.Context(), s, "run-1", 2*feed.MaxEvents))
	must(t, grow(t.Context(), s, "run-2", 1))
	c.catchUp()
	c.has(map[string]run.Seq{"run-0": 2, "run-1": 2*feed.MaxEvents + 2}, "more than a batch of one run")
	if c.events != 2*feed.MaxEvents+4 {
		t.Errorf("%d events, want each once, because nothing failed", c.events)
	}
	all.catchUp()
	all.has(map[string]run.Seq{"run-0": 2, "run-1": 2*feed.MaxEvents + 2, "run-2": 3}, "every tenant")
	none.catchUp()
	none.has(map[string]run.Seq{}, "a filter without a tenant")
}

// A consumer that is killed after any batch continues from its last checkpoint.
// contract: T186
func TestReader_ResumesFromEveryCheckpoint(t *testing.T) {
	s := embedded(t)
	want := map[string]run.Seq{}
	for i := range 7 {
		id := fmt.Sprint("run-", i)
		create(t, s, id, "t1")
		must(t, grow(t.Context(), s, id, i))
		want[id] = run.Seq(2 + i)
	}
	for kept := range 9 {
		c := consume(t, s, store.RunFilter{TenantID: "t1", Limit: 3})
		for range kept {
			c.next()
		}
		checkpoint := c.reader.Checkpoint()
		c.next() // this batch is read, but the process dies before it stores the next checkpoint
		c.resume(checkpoint)
		c.catchUp()
		c.has(want, fmt.Sprintf("killed after %d batches", kept))
	}
}

// contract: T194
func TestReader_StartsAgainWhenTheEpochChanges(t *testing.T) {
	s := embedded(t)
	create(t, s, "run", "t1")
	for _, stored := range []bool{false, true} {
		c := consume(t, s, store.RunFilter{TenantID: "t1"})
		c.catchUp()
		checkpoint := c.reader.Checkpoint()
		must(t, s.BumpEpoch(t.Context()))
		if stored {
			c.resume(checkpoint)
		}
		b := c.next()
		if !b.Reset || len(b.Events) != 2 || b.Epoch == "" {
			t.Fatalf("first batch after the epoch changed (from a checkpoint: %t): %+v, want a reset with 2 events", stored, b)
		}
		c.catchUp()
		if c.resets != 1 {
			t.Errorf("%d resets, want 1", c.resets)
		}
		c.has(map[string]run.Seq{"run": 2}, "everything again")
	}
}

func TestReader_ForgetsEndedRunsFirst(t *testing.T) {
	s := embedded(t)
	create(t, s, "quiet", "t1")
	c := consume(t, s, store.RunFilter{TenantID: "t1"})
	c.catchUp()
	for i := range feed.MaxRuns + 10 {
		create(t, s, fmt.Sprint("run-", i), "t1", runtest.Draft(run.RunCancelled, "", 1))
	}
	c.catchUp()
	before := c.events
	must(t, grow(t.Context(), s, "quiet", 1))
	c.resume(c.reader.Checkpoint())
	c.catchUp()
	if c.events != before+1 {
		t.Errorf("%d events after one append to an open run, want 1: ended runs must be forgotten first", c.events-before)
	}
	if n := len(c.reader.Checkpoint()); n > 100*feed.MaxRuns {
		t.Errorf("the checkpoint has %d bytes, want at most %d", n, 100*feed.MaxRuns)
	}
}

// failing is a store that fails two of three calls.
type failing struct {
	feed.Store
	n int
}

var errDown = errors.New("down")

func (f *failing) fails() bool { f.n++; return f.n%3 != 0 }

func (f *failing) ListChanged(ctx context.Context, rf store.RunFilter, cursor string) ([]store.RunRow, string, error) {
	if f.fails() {
		return nil, "", errDown
	}
	return f.Store.ListChanged(ctx, rf, cursor)
}

func (f *failing) Tails(ctx context.Context, known []store.TailRequest) (store.Tails, error) {
	if f.fails() {
		return store.Tails{}, errDown
	}
	return f.Store.Tails(ctx, known)
}

func TestReader_ContinuesAfterErrorsOfTheStore(t *testing.T) {
	s := embedded(t)
	want := map[string]run.Seq{}
	for i := range 5 {
		create(t, s, fmt.Sprint("run-", i), "t1")
		want[fmt.Sprint("run-", i)] = 2
	}
	c := consume(t, &failing{Store: s}, store.RunFilter{TenantID: "t1", Limit: 2})
	for len(c.got) < len(want) {
		b, err := c.reader.Next(t.Context())
		if err != nil && !errors.Is(err, errDown) {
			t.Fatal(err)
		}
		if len(b.Events) > 0 {
			c.got[b.RunID] = b.Events[len(b.Events)-1].Seq
		} else if err == nil {
			break
		}
	}
	c.has(want, "from a store that fails two of three calls")
}

func TestReader_RefusesOtherTextsThanCheckpoints(t *testing.T) {
	for _, c := range []string{"?", "e30x", strings.Repeat("A", 3)} {
		if _, err := feed.NewReader(nil, store.RunFilter{}, c); !errors.Is(err, feed.ErrCheckpoint) {
			t.Errorf("checkpoint %q: error %v, want ErrCheckpoint", c, err)
		}
	}
}

// Transactions of the writers overlap, and the consumer is killed again and again.
// contract: T186
func TestReader_MissesNoEventOfConcurrentWriters(t *testing.T) {
	for name, open := range map[string]func(*testing.T) store.Store{"sqlite": embedded, "postgres": server} {
		t.Run(name, func(t *testing.T) {
			const writers, rounds = 8, 12
			s := open(t)
			want := map[string]run.Seq{}
			for w := range writers {
				create(t, s, fmt.Sprint("run-", w), "t1")
			}
			var wg sync.WaitGroup
			var done atomic.Bool
			for w := range writers {
				want[fmt.Sprint("run-", w)] = 2 + rounds
				wg.Go(func() {
					for range rounds {
						if err := grow(t.Context(), s, fmt.Sprint("run-", w), 1); err != nil {
							t.Error(err)
							return
						}
					}
				})
			}
			go func() { wg.Wait(); done.Store(true) }()
			c := consume(t, s, store.RunFilter{EveryTenant: true, Limit: 3})
			for !done.Load() {
				checkpoint := c.reader.Checkpoint()
				if b := c.next(); len(b.Events) == 0 {
					time.Sleep(time.Millisecond)
				}
				if rand.N(4) == 0 {
					c.resume(checkpoint)
				}
			}
			c.catchUp()
			c.catchUp()
			c.has(want, "after all writers have finished")
			t.Logf("%d events read for %d written", c.events, writers*(rounds+2))
		})
	}
}
