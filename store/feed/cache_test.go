package feed_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
	"github.com/dvt-engine/dvt/store/feed"
)

// counting counts the reads of a store: pages of changes, and the runs whose events were read.
type counting struct {
	feed.Store
	pages, tails, runs atomic.Int64
}

func (c *counting) ListChanged(ctx context.Context, f store.RunFilter, cursor string) ([]store.RunRow, string, error) {
	c.pages.Add(1)
	return c.Store.ListChanged(ctx, f, cursor)
}

func (c *counting) Tails(ctx context.Context, known []store.TailRequest) (store.Tails, error) {
	c.tails.Add(1)
	c.runs.Add(int64(len(known)))
	return c.Store.Tails(ctx, known)
}

// consumeCached returns n consumers that share a cache.
func consumeCached(t *testing.T, s feed.Store, n int, fresh time.Duration) []*consumer {
	t.Helper()
	cache := feed.NewCache(s, store.RunFilter{EveryTenant: true}, fresh)
	out := make([]*consumer, n)
	for i := range out {
		out[i] = &consumer{t: t, open: cache.NewReader, got: map[string]run.Seq{}}
		out[i].resume("")
	}
	return out
}

// contract: T186
func TestReader_ReadsManyRunsAtOnce(t *testing.T) {
	s := &counting{Store: embedded(t)}
	want := map[string]run.Seq{}
	for i := range 100 {
		id := fmt.Sprint("run-", i)
		create(t, s.Store.(store.Store), id, "t1")
		want[id] = 2
	}
	c := consume(t, s, store.RunFilter{EveryTenant: true})
	c.catchUp()
	c.has(want, "100 runs")
	if n := s.tails.Load(); n > 2 {
		t.Errorf("the events of 100 runs took %d reads, want at most 2", n)
	}
}

// contract: T186
func TestCache_ReadersInStepReadTheStoreOnce(t *testing.T) {
	for name, open := range map[string]func(*testing.T) store.Store{"sqlite": embedded, "postgres": server} {
		t.Run(name, func(t *testing.T) {
			const readers, runs, rounds, fresh = 20, 10, 3, 700 * time.Millisecond
			full := open(t)
			s := &counting{Store: full}
			want := map[string]run.Seq{}
			for i := range runs {
				create(t, full, fmt.Sprint("run-", i), "t1")
			}
			all := consumeCached(t, s, readers, fresh)
			// Something is written between two readers, so that no two of them end a pass at the same position of the store.
			catchUpAll := func() {
				time.Sleep(fresh)
				for _, c := range all {
					c.catchUp()
					must(t, grow(t.Context(), full, "run-0", 1))
					want["run-0"]++
				}
			}
			want["run-0"] = 2
			for _, c := range all { // each begins with another position
				alone := consume(t, s, store.RunFilter{EveryTenant: true})
				alone.catchUp()
				c.resume(alone.reader.Checkpoint())
				c.got = alone.got
				must(t, grow(t.Context(), full, "run-0", 1))
				want["run-0"]++
			}
			catchUpAll() // they come to continue with one cursor
			s.pages.Store(0)
			s.runs.Store(0)
			for round := range rounds {
				for i := range runs - 1 {
					must(t, grow(t.Context(), full, fmt.Sprint("run-", i+1), 1))
					want[fmt.Sprint("run-", i+1)] = run.Seq(3 + round)
				}
				catchUpAll()
			}
			pages, tails := s.pages.Load(), s.runs.Load()
			time.Sleep(fresh)
			for _, c := range all {
				c.catchUp()
			}
			for _, c := range all {
				c.has(want, "a reader that shares")
			}
			if pages > 2*rounds || tails > 2*rounds*runs {
				t.Errorf("%d readers read %d pages of changes and the events of %d runs, want at most %d and %d", readers,
					pages, tails, 2*rounds, 2*rounds*runs)
			}
		})
	}
}

// A reader whose consumer is slow reads what the cache no longer has, and is not given a part of it.
// contract: T186
func TestCache_ASlowReaderMissesNothing(t *testing.T) {
	s := embedded(t)
	create(t, s, "run", "t1")
	all := consumeCached(t, s, 2, time.Millisecond)
	slow, fast := all[0], all[1]
	slow.next()
	const rounds = 12
	for range rounds {
		must(t, grow(t.Context(), s, "run", feed.MaxEvents))
		time.Sleep(2 * time.Millisecond)
		fast.catchUp()
	}
	want := map[string]run.Seq{"run": 2 + rounds*feed.MaxEvents}
	fast.has(want, "the fast reader")
	slow.catchUp()
	slow.catchUp()
	slow.has(want, "the slow reader")
}

// After a restore a reader gets no event of the history before.
// contract: T194
func TestCache_KeepsHistoriesApart(t *testing.T) {
	s := embedded(t)
	create(t, s, "run", "t1")
	all := consumeCached(t, s, 2, time.Millisecond)
	for _, c := range all {
		c.catchUp()
	}
	must(t, s.BumpEpoch(t.Context()))
	must(t, grow(t.Context(), s, "run", 1))
	time.Sleep(2 * time.Millisecond)
	for _, c := range all {
		if b := c.next(); !b.Reset || len(b.Events) != 3 {
			t.Errorf("the first batch of the new history: reset %t and %d events, want a reset with 3", b.Reset, len(b.Events))
		}
		c.catchUp()
		c.has(map[string]run.Seq{"run": 3}, "the new history")
	}
}

// Readers of all speeds share a cache while transactions of writers overlap, and some are killed.
// contract: T186
func TestCache_MissesNoEventOfConcurrentWriters(t *testing.T) {
	for name, open := range map[string]func(*testing.T) store.Store{"sqlite": embedded, "postgres": server} {
		t.Run(name, func(t *testing.T) {
			const readers, writers, rounds = 6, 8, 12
			s := open(t)
			want := map[string]run.Seq{}
			for w := range writers {
				create(t, s, fmt.Sprint("run-", w), "t1")
				want[fmt.Sprint("run-", w)] = 2 + rounds
			}
			var writing, reading sync.WaitGroup
			var done atomic.Bool
			for w := range writers {
				writing.Go(func() {
					for range rounds {
						if err := grow(t.Context(), s, fmt.Sprint("run-", w), 1); err != nil {
							t.Error(err)
							return
						}
					}
				})
			}
			all := consumeCached(t, s, readers, 5*time.Millisecond)
			for i, c := range all {
				reading.Go(func() {
					for !done.Load() {
						checkpoint := c.reader.Checkpoint()
						b, err := c.reader.Next(t.Context())
						if err != nil {
							t.Error(err)
							return
						}
						c.take(b)
						time.Sleep(time.Duration(rand.N(1+i)) * time.Millisecond)
						if rand.N(4) == 0 {
							c.resume(checkpoint)
						}
					}
				})
			}
			writing.Wait()
			done.Store(true)
			reading.Wait()
			for _, c := range all {
				for range 3 { // a page may be as old as the cache says
					time.Sleep(6 * time.Millisecond)
					c.catchUp()
				}
				c.has(want, "after all writers have finished")
			}
		})
	}
}
