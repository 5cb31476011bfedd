package projector_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dvt-engine/dvt/projector"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
	"github.com/dvt-engine/dvt/store"
)

// countingStore counts the reads and writes of a projector.
type countingStore struct {
	store.Store
	loads, tails, events, saves, rounds atomic.Int64
}

func (c *countingStore) Load(ctx context.Context, runID string) (store.Loaded, error) {
	c.loads.Add(1)
	return c.Store.Load(ctx, runID)
}

func (c *countingStore) Tails(ctx context.Context, known []store.TailRequest) (store.Tails, error) {
	c.tails.Add(1)
	t, err := c.Store.Tails(ctx, known)
	for _, tail := range t.ByRun {
		c.events.Add(int64(len(tail.Events)))
	}
	return t, err
}

func (c *countingStore) Advance(ctx context.Context, published []store.PublishedTo,
	save []store.CheckpointSave) ([]bool,
	error) {
	c.rounds.Add(1)
	c.saves.Add(int64(len(save)))
	return c.Store.Advance(ctx, published, save)
}

// contract: T212
func TestProjector_WakeReadsOnlyNewEvents(t *testing.T) {
	t.Parallel()
	s, bus := &countingStore{Store: openSQLite(t)}, &fakeBus{}
	runID := create(t, s, 1)
	p := projector.New(s, bus, projector.Config{})
	for i := range 50 {
		begin(t, s, runID, i)
		if err := p.Project(t.Context(), runID); err != nil {
			t.Fatal(err)
		}
	}
	if s.loads.Load() != 1 || s.tails.Load() != 50 || s.events.Load() != 49 || s.rounds.Load() != 100 {
		t.Errorf("%d loads, %d tails with %d events, %d writes", s.loads.Load(), s.tails.Load(), s.events.Load(),
			s.rounds.Load())
	}
	if err := p.Project(t.Context(), runID); err != nil || len(bus.of(runID)) != 50 || s.rounds.Load() != 100 {
		t.Errorf("projection without new events wrote or published: %v", err)
	}
	replay(t, s, runID, bus.of(runID))
	var long []run.Draft // more than one answer holds
	for i := range store.MaxTail + 10 {
		long = append(long, runtest.Draft(run.SignalRejected, fmt.Sprint(i), 1))
	}
	if _, err := s.Append(t.Context(), store.Append{RunID: runID, Events: long}); err != nil {
		t.Fatal(err)
	}
	if err := p.Project(t.Context(), runID); err != nil {
		t.Fatal(err)
	}
	replay(t, s, runID, bus.of(runID))
}

// contract: T189
func TestProjector_RunsWokenTogetherShareWrites(t *testing.T) {
	t.Parallel()
	s, bus := &countingStore{Store: openSQLite(t)}, &fakeBus{}
	// The first saves start here; further ones are collected.
	p := projector.New(s, bus, projector.Config{Workers: 1, SweepAge: time.Hour, SaveInterval: 300 * time.Millisecond})
	var ids []string
	for i := range 40 {
		ids = append(ids, create(t, s, i))
		p.Wake(ids[i])
	}
	start(t, p)
	eventually(t, 5*time.Second, "the dirty marks are cleared", clean(t, s))
	if s.rounds.Load() != 2 || s.saves.Load() != 0 { // saved at creation, so only cleared
		t.Logf("%d writes, %d saves", s.rounds.Load(), s.saves.Load())
	}
	if n := s.rounds.Load(); n > 3 {
		t.Errorf("%d writes for 40 runs, want at most 3", n)
	}
	for _, id := range ids {
		replay(t, s, id, bus.of(id))
	}
}

// replacedStore is a store whose database is replaced while a projector uses it.
type replacedStore struct {
	store.Store
	mu  sync.Mutex
	now store.Store
}

func (r *replacedStore) current() store.Store {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.now
}

func (r *replacedStore) Load(ctx context.Context, runID string) (store.Loaded, error) {
	return r.current().Load(ctx, runID)
}

func (r *replacedStore) Tails(ctx context.Context, known []store.TailRequest) (store.Tails, error) {
	return r.current().Tails(ctx, known)
}

func (r *replacedStore) Advance(ctx context.Context, published []store.PublishedTo,
	save []store.CheckpointSave) ([]bool,
	error) {
	return r.current().Advance(ctx, published, save)
}

// sameEpoch hides that the database was replaced.
type sameEpoch struct {
	store.Store
	epoch string
}

func (s sameEpoch) Load(ctx context.Context, runID string) (store.Loaded, error) {
	l, err := s.Store.Load(ctx, runID)
	l.Epoch = s.epoch
	return l, err
}

func (s sameEpoch) Tails(ctx context.Context, known []store.TailRequest) (store.Tails, error) {
	t, err := s.Store.Tails(ctx, known)
	t.Epoch = s.epoch
	return t, err
}

// contract: T194
func TestProjector_StateOfAnotherHistoryIsDiscarded(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		events int // events of the other history relative to the cached one
		hide   bool
	}{
		"another epoch, a longer log":  {events: 4},
		"another epoch, a log as long": {events: 0},
		"a shorter log":                {events: -2, hide: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			one, two, bus := openSQLite(t), openSQLite(t), &fakeBus{}
			runID := create(t, one, 1)
			create(t, two, 1)
			for i := range 4 {
				begin(t, one, runID, i)
			}
			for i := range 4 + c.events { // other steps
				begin(t, two, runID, 50+i)
			}
			s := &replacedStore{Store: one, now: one}
			p := projector.New(s, bus, projector.Config{})
			if err := p.Project(t.Context(), runID); err != nil {
				t.Fatal(err)
			}
			epoch, err := one.Epoch(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			s.mu.Lock()
			if s.now = two; c.hide {
				s.now = sameEpoch{two, epoch}
			}
			s.mu.Unlock()
			if err := p.Project(t.Context(), runID); err != nil {
				t.Fatal(err)
			}
			l, err := two.Load(t.Context(), runID)
			if err != nil {
				t.Fatal(err)
			}
			got := bus.of(runID)[len(bus.of(runID))-1]
			if diff := cmp.Diff(l.State.Since(0), *got.Delta, ignoreBaseFields); diff != "" || got.From != 0 {
				t.Errorf("from %d (-log +message):\n%s", got.From, diff)
			}
			if l.CheckpointAt != l.Head.LastSeq || !clean(t, two)() {
				t.Errorf("checkpoint is at %d, the head at %d", l.CheckpointAt, l.Head.LastSeq)
			}
			if !c.hide && got.Epoch == epoch {
				t.Error("the message has the epoch of the old history")
			}
		})
	}
}

// contract: T173
func TestProjector_ToleratesACheckpointOfAnotherProjector(t *testing.T) {
	t.Parallel()
	s, bus := openSQLite(t), &fakeBus{}
	runID := create(t, s, 1)
	ps := []*projector.Projector{projector.New(s, bus, projector.Config{}), projector.New(s, bus, projector.Config{})}
	for i := range 30 {
		begin(t, s, runID, i)
		if i%7 == 3 {
			if err := s.DropCheckpoint(t.Context(), runID); err != nil {
				t.Fatal(err)
			}
		}
		if err := ps[(i/3)%2].Project(t.Context(), runID); err != nil {
			t.Fatal(err)
		}
		replay(t, s, runID, bus.of(runID))
	}
}

// failingSave cannot write the checkpoint of one run.
type failingSave struct {
	store.Store
	runID string
}

var errNotSaved = errors.New("checkpoint refused")

func (p *failingSave) Advance(ctx context.Context, published []store.PublishedTo, save []store.CheckpointSave) ([]bool,
	error) {
	for _, c := range save {
		if c.State.RunID == p.runID {
			return nil, errNotSaved
		}
	}
	return p.Store.Advance(ctx, published, save)
}

func TestProjector_UnsavableRunDoesNotDelayOthers(t *testing.T) {
	t.Parallel()
	s, bus := openSQLite(t), &fakeBus{}
	var ids []string
	p := projector.New(&failingSave{Store: s, runID: identity(3).RunID}, bus, projector.Config{Workers: 1})
	for i := range 8 {
		ids = append(ids, create(t, s, i))
		begin(t, s, ids[i], 0)
		p.Wake(ids[i])
	}
	start(t, p)
	eventually(t, 5*time.Second, "seven dirty marks are cleared", func() bool {
		dirty, err := s.Dirty(t.Context(), 0, 10)
		return err == nil && len(dirty) == 1 && dirty[0].RunID == ids[3]
	})
	if n := len(bus.of(ids[3])); n != 1 { // a reader folds the log, so the message does not wait for the checkpoint
		t.Errorf("%d messages for the run without checkpoint, want 1", n)
	}
}
