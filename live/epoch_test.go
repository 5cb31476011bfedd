package live_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dvt-engine/dvt/internal/testserver"
	"github.com/dvt-engine/dvt/internal/testtime"
	"github.com/dvt-engine/dvt/live"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
	"github.com/dvt-engine/dvt/store"
	"github.com/dvt-engine/dvt/store/postgres"
	"github.com/dvt-engine/dvt/store/sqlite"
)

// swappableStore is an address behind which one store can be replaced by another.
type swappableStore struct{ at atomic.Pointer[store.Store] }

func (a *swappableStore) swap(s store.Store) { a.at.Store(&s) }

func (a *swappableStore) Heads(ctx context.Context, ids []string) (store.Heads, error) {
	return (*a.at.Load()).Heads(ctx, ids)
}

func (a *swappableStore) Since(ctx context.Context, id string, w run.Seq) (store.Loaded, run.Delta, error) {
	return (*a.at.Load()).Since(ctx, id, w)
}

// grow appends to the run's log until it has n events. The first call creates the run.
func grow(t *testing.T, s store.Store, n run.Seq) {
	t.Helper()
	ctx := t.Context()
	id := identity(testRunID)
	h, err := s.Heads(ctx, []string{testRunID})
	ok(t, err)
	head, made := h.ByRun[testRunID]
	if !made {
		_, _, err := s.CreateRun(
			ctx, store.NewRun{Run: store.Run{Identity: id}, Events: []run.Draft{runtest.Draft(run.RunApproved, "", 1),
				runtest.Start("a")}})
		ok(t, err)
		head.LastSeq = 2
	}
	for seq := head.LastSeq + 1; seq <= n; seq++ {
		kind := run.StepStartedEvent
		if seq%2 == 0 {
			kind = run.StepFailedEvent
		}
		_, err := s.Append(ctx, store.Append{RunID: testRunID, Events: []run.Draft{runtest.Draft(kind, "a", int(seq-1)/2)}})
		ok(t, err)
	}
}

func ok(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// hubFixture is a hub on a swappableStore, with one viewer of the run.
type hubFixture struct {
	*testing.T
	hub  *live.Hub
	view *live.Stream
}

func newHubFixture(t *testing.T, a *swappableStore) *hubFixture {
	t.Helper()
	v := &hubFixture{T: t, hub: live.New(a, newFakeBus(), live.Config{HeadInterval: 400 * time.Millisecond,
		Patience: 50 * time.Millisecond})}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- v.hub.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	v.view = v.watch(nil, "")
	return v
}

func (v *hubFixture) watch(after *run.Seq, epoch string) *live.Stream {
	v.Helper()
	for began := time.Now(); ; {
		s, err := v.hub.Watch(v.Context(), testRunID, after, epoch)
		if errors.Is(err, store.ErrUnavailable) && time.Since(began) < testtime.Of(20*time.Second) {
			continue // on a busy machine a read or a concurrent head check may be slow
		}
		ok(v, err)
		v.Cleanup(s.Close)
		return s
	}
}

// until reads frames until one fits. It fails when a frame goes back within an epoch without a reset.
func (v *hubFixture) until(s *live.Stream, what string, fits func(live.Frame) bool) live.Frame {
	v.Helper()
	ctx, cancel := context.WithTimeout(v.Context(), testtime.Of(20*time.Second))
	defer cancel()
	var last live.Frame
	for {
		f, err := s.Next(ctx)
		if err != nil {
			v.Fatalf("waiting for %s: %v; the last frame was %s %s at %d", what, err, last.Sync, last.Reason, last.State.Seq)
		}
		if !f.Reset && last.Epoch == f.Epoch && f.State.Seq < last.State.Seq {
			v.Fatalf("frame at seq %d after seq %d, want no decrease", f.State.Seq, last.State.Seq)
		}
		if last = f; fits(f) {
			return f
		}
	}
}

func (v *hubFixture) live(s *live.Stream, seq run.Seq) live.Frame {
	v.Helper()
	return v.until(s, fmt.Sprintf("LIVE at %d", seq), func(f live.Frame) bool {
		return f.Sync == live.Live &&
			f.State.Seq == seq
	})
}

// reset returns the reset frame and requires it to be LIVE with the whole state.
func (v *hubFixture) reset(s *live.Stream, seq run.Seq) live.Frame {
	v.Helper()
	f := v.until(s, "a reset", func(f live.Frame) bool { return f.Reset })
	if f.State.Seq != seq || f.From != 0 {
		v.Errorf("reset has seq %d from %d, want seq %d from 0", f.State.Seq, f.From, seq)
	}
	f = v.live(s, seq)
	if len(f.State.Steps) != 1 || f.State.Steps[0].LogicalAttempt != int(seq-1)/2 {
		v.Errorf("state at seq %d has steps %+v", seq, f.State.Steps)
	}
	return f
}

// restoration replaces a store at seq 120 by a copy of it at seq 100.
func restoration(t *testing.T, now, copied store.Store, bump bool) {
	t.Helper()
	a := &swappableStore{}
	a.swap(now)
	v := newHubFixture(t, a)
	epoch := v.live(v.view, 120).Epoch
	if bump {
		ok(t, copied.BumpEpoch(t.Context()))
	}
	a.swap(copied)
	f := v.reset(v.view, 100)
	if bump == (f.Epoch == epoch) {
		t.Errorf("epoch changed from %q to %q, want a change: %v", epoch, f.Epoch, bump)
	}
	grow(t, copied, 103)
	v.live(v.view, 103)
	// A viewer that was disconnected resumes at a position that does not exist any more.
	seq := run.Seq(120)
	v.reset(v.watch(&seq, epoch), 103)
	grow(t, copied, 121)
	v.live(v.view, 121)
}

// contract: S13, T30
func TestHub_RestoredSQLiteResetsViewers(t *testing.T) {
	for _, bump := range []bool{true, false} {
		t.Run(fmt.Sprintf("new epoch %v", bump), func(t *testing.T) {
			dir := t.TempDir()
			open := func(name string) store.Store {
				s, err := sqlite.Open(t.Context(), filepath.Join(dir, name), sqlite.Options{})
				ok(t, err)
				t.Cleanup(func() { _ = s.Close() })
				return s
			}
			now := open("dvt.db")
			grow(t, now, 100)
			raw, err := sql.Open("sqlite", filepath.Join(dir, "dvt.db"))
			ok(t, err)
			_, err = raw.ExecContext(t.Context(), `VACUUM INTO '`+filepath.Join(dir, "backup.db")+`'`)
			ok(t, err)
			ok(t, raw.Close())
			grow(t, now, 120)
			restoration(t, now, open("backup.db"), bump)
		})
	}
}

// Covers a restored base backup and a promoted standby.
// contract: S13, T30, T194
func TestHub_RestoredOrFailedOverPostgresResetsViewers(t *testing.T) {
	primary, err := testserver.StartPostgres(testserver.PostgresOptions{Settings: []string{"fsync=off"}})
	ok(t, err)
	t.Cleanup(func() { _ = primary.Close() })
	open := func(s *testserver.PostgresServer) store.Store {
		st, err := postgres.Open(t.Context(), s.Database(t, "dvt"), postgres.Options{Migrate: s == primary, MaxConns: 4})
		ok(t, err)
		t.Cleanup(func() { _ = st.Close() })
		return st
	}
	now := open(primary)
	grow(t, now, 100)
	backups := map[bool]*testserver.PostgresServer{true: primary.Copy(t, false), false: primary.Copy(t, false)}
	grow(t, now, 120)
	for bump, backup := range backups {
		t.Run(fmt.Sprintf("restored, new epoch %v", bump), func(t *testing.T) { restoration(t, now, open(backup), bump) })
		ok(t, backup.Close())
	}
	t.Run("failed over", func(t *testing.T) {
		standby := primary.Copy(t, true)
		a := &swappableStore{}
		a.swap(now)
		v := newHubFixture(t, a)
		epoch := v.live(v.view, 120).Epoch
		grow(t, now, 122)
		standby.Await(t, standby.Database(t, "dvt"), `SELECT max(run_seq) = 122 FROM event`)
		v.live(v.view, 122)
		ok(t, primary.Close())
		v.until(v.view, "STALE", func(f live.Frame) bool { return f.Sync == live.Stale && f.Reason == live.StoreDown })
		standby.Promote(t)
		taken := open(standby)
		a.swap(taken)
		if f := v.reset(v.view, 122); f.Epoch == epoch {
			t.Errorf("epoch on the new timeline is still %q", epoch)
		}
		grow(t, taken, 123)
		v.live(v.view, 123)
	})
}

// When the epoch changes and the new log is longer, the hub must read the whole state: a delta from the current seq
// would mix two histories.
// contract: T30, T212
func TestHub_NewEpochReloadsTheWholeState(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	stores := make([]store.Store, 2)
	for i := range stores {
		s, err := sqlite.Open(ctx, filepath.Join(t.TempDir(), "dvt.db"), sqlite.Options{})
		ok(t, err)
		t.Cleanup(func() { s.Close() })
		stores[i] = s
	}
	grow(t, stores[0], 10)
	_, _, err := stores[1].CreateRun(ctx, store.NewRun{Run: store.Run{Identity: identity(testRunID)}, Events: []run.Draft{
		runtest.Draft(run.RunApproved, "", 1), runtest.Start("a", "b"),
	}})
	ok(t, err)
	for logicalAttempt := 1; logicalAttempt <= 5; logicalAttempt++ {
		_, err := stores[1].Append(ctx, store.Append{RunID: testRunID, Events: []run.Draft{
			runtest.Draft(run.StepStartedEvent, "b", logicalAttempt), runtest.Draft(run.StepFailedEvent, "b", logicalAttempt),
		}})
		ok(t, err)
	}
	for _, s := range stores {
		l, err := s.Load(ctx, testRunID)
		ok(t, err)
		_, err = s.Save(ctx, l.State, l.Changes)
		ok(t, err)
	}
	a := &swappableStore{}
	a.swap(stores[0])
	v := newHubFixture(t, a)
	v.live(v.view, 10)
	a.swap(stores[1])
	v.until(v.view, "a reset", func(f live.Frame) bool { return f.Reset })
	f := v.live(v.view, 12)
	if a, b := f.State.Steps[0], f.State.Steps[1]; a.Status != run.StepPending || b.LogicalAttempt != 5 {
		t.Errorf("steps are %s (attempt %d) and %s (attempt %d)", a.Status, a.LogicalAttempt, b.Status, b.LogicalAttempt)
	}
}
