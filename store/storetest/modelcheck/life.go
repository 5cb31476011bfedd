package modelcheck

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dvt-engine/dvt/run/runtest"
	"github.com/dvt-engine/dvt/store"
	"github.com/dvt-engine/dvt/store/storetest/history"
)

// Actors of one process.
const (
	writers = 6
	readers = 2
)

// life is one execution of a process, from its start to its end or kill.
type life struct {
	Name       string
	Process    int
	Generation uint64
	Seed       uint64
	Address    string
	Dir        string // directory of the cursors of consumers
	Journal    string
	Writers    int
}

// body is the state that the actors of one life share.
type body struct {
	life
	store   store.Store
	journal *history.Journal
	written atomic.Int64 // number of writes, which determines the new runs that are picked
}

type opener func(ctx context.Context, address string) (store.Store, error)

// live writes, reads, projects and consumes until ctx ends.
func (l life) live(ctx context.Context, open opener) error {
	return l.with(ctx, open, func(b *body) {
		var wg sync.WaitGroup
		for n := range cmp.Or(l.Writers, writers) {
			wg.Go(func() { b.writer(n).work(ctx) })
		}
		for n := range readers {
			wg.Go(func() { b.reader(n).work(ctx) })
		}
		wg.Go(func() { b.project(ctx) })
		wg.Go(func() { b.consume(ctx) })
		wg.Wait()
	})
}

// watch reads and consumes until ctx ends, in a process that is never killed.
func (l life) watch(ctx context.Context, open opener) error {
	return l.with(ctx, open, func(b *body) {
		var wg sync.WaitGroup
		wg.Go(func() { b.reader(0).work(ctx) })
		wg.Go(func() { b.consume(ctx) })
		wg.Wait()
	})
}

func (l life) with(ctx context.Context, open opener, do func(*body)) (err error) {
	b := &body{life: l}
	for b.store == nil {
		if b.store, err = open(ctx, l.Address); err != nil {
			b.store = nil
			if !pause(ctx, 20*time.Millisecond) {
				return nil
			}
		}
	}
	if b.journal, err = history.Open(l.Journal, l.Name); err != nil {
		return errors.Join(err, b.store.Close())
	}
	do(b)
	return errors.Join(b.store.Close(), b.journal.Close())
}

// dice returns the random numbers of one actor of one life.
func (b *body) dice(role, n uint64) *rand.Rand {
	return rand.New(rand.NewPCG(b.Seed, uint64(b.Process)<<48|b.Generation<<24|role<<16|n))
}

func (b *body) actor(role string, n int) *history.Client {
	return b.journal.Client(fmt.Sprintf("%s/%s%d", b.Name, role, n), b.store)
}

// project works like a projector: it saves checkpoints and clears marks.
func (b *body) project(ctx context.Context) {
	c := b.actor("projector", 0)
	for pause(ctx, 3*time.Millisecond) {
		_, _ = b.sweep(ctx, c) // the next sweep finds the runs that are left
	}
}

func (b *body) sweep(ctx context.Context, c *history.Client) (found int, err error) {
	dirty, err := b.store.Dirty(ctx, 0, 50)
	if err != nil {
		return 0, err
	}
	for _, d := range dirty {
		l, err := c.Load(ctx, d.RunID)
		if err != nil {
			return 0, err
		}
		if l.CheckpointAt < l.State.Seq {
			if err := c.Save(ctx, l); err != nil {
				return 0, err
			}
		}
		if err := b.store.MarkPublished(ctx, d.RunID, l.State.Seq, l.Head.OpsRev); err != nil {
			return 0, err
		}
	}
	return len(dirty), nil
}

// feedLimit is the page size of a consumer. It is small, so that pages are often full.
const feedLimit = 8

// consumer reads the feed in one process. It saves its cursor after each recorded page, so that it continues after a
// restart of the process.
type consumer struct {
	*history.Client
	file string
}

func (b *body) consumer(process int) consumer {
	name := fmt.Sprintf("consumer%d", process)
	return consumer{b.journal.Client(name, b.store), filepath.Join(b.Dir, name)}
}

func (c consumer) next(ctx context.Context) (caughtUp bool, err error) {
	cursor, err := os.ReadFile(c.file)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return false, err
	}
	rows, next, err := c.ListChanged(ctx, store.RunFilter{TenantID: runtest.ID.TenantID,
		ProjectIDs: []string{runtest.ID.ProjectID}, Limit: feedLimit}, string(cursor))
	if err != nil {
		return false, err
	}
	if err := os.WriteFile(c.file+".new", []byte(next), 0o600); err != nil {
		return false, err
	}
	return len(rows) < feedLimit, os.Rename(c.file+".new", c.file)
}

// catchUp finishes the current pass of a consumer and makes one more. It does nothing for a consumer that never read a
// page.
func (c consumer) catchUp(ctx context.Context) error {
	if _, err := os.Stat(c.file); err != nil {
		return nil //nolint:nilerr // the consumer has no cursor
	}
	for passes := 2; passes > 0; {
		caughtUp, err := c.next(ctx)
		if err != nil {
			return err
		}
		if caughtUp {
			passes--
		}
	}
	return nil
}

func (b *body) consume(ctx context.Context) {
	c, dice := b.consumer(b.Process), b.dice(3, 0)
	for pause(ctx, time.Duration(dice.IntN(8))*time.Millisecond) {
		_, _ = c.next(ctx) // an error is recorded, and the cursor does not move
	}
}

// conclude projects the remaining runs, lets every consumer catch up, and records every run as a new connection reads
// it.
func (l life) conclude(ctx context.Context, open opener) (err error) {
	return errors.Join(l.with(ctx, open, func(b *body) { err = b.settle(ctx) }), err)
}

func (b *body) settle(ctx context.Context) error {
	c, w := b.actor("conclusion", 0), b.writer(0)
	if err := b.drain(ctx, c); err != nil {
		return err
	}
	// One more write to each run, because without a later write a lost mark would never be noticed.
	err := b.each(ctx, func(runID string) error {
		w.try(ctx, runID, w.nextWrite(runID, &runView{n: beyond}))
		return nil
	})
	if err != nil {
		return err
	}
	if err := b.drain(ctx, c); err != nil {
		return err
	}
	b.journal.Write(history.Record{Drained: true})
	for process := range processes + 1 {
		if err := b.consumer(process).catchUp(ctx); err != nil {
			return err
		}
	}
	return b.each(ctx, func(runID string) error { return b.final(ctx, c, runID) })
}

// beyond is a number of writes that no writer reaches, so that drafts drawn with it are new.
const beyond = 100_000

// drain projects until no run is marked as dirty.
func (b *body) drain(ctx context.Context, c *history.Client) error {
	for {
		if left, err := b.sweep(ctx, c); err != nil || left == 0 {
			return err
		}
	}
}

// each calls do for every run.
func (b *body) each(ctx context.Context, do func(runID string) error) error {
	for after := ""; ; {
		runs, err := b.store.AllRuns(ctx, after, 200)
		if err != nil || len(runs) == 0 {
			return err
		}
		for _, r := range runs {
			if err := do(r.RunID); err != nil {
				return err
			}
			after = r.RunID
		}
	}
}

// final records a run and reads it with and without its checkpoint. Both reads must be equal, because a checkpoint is a
// cache (contract T193).
func (b *body) final(ctx context.Context, c *history.Client, runID string) error {
	if err := c.Final(ctx, runID); err != nil {
		return err
	}
	for range 2 {
		if _, err := c.Load(ctx, runID); err != nil {
			return err
		}
		if _, err := c.Since(ctx, runID, 0); err != nil {
			return err
		}
		if err := b.store.DropCheckpoint(ctx, runID); err != nil {
			return err
		}
	}
	return nil
}
