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

// address is a store that may be exchanged for another one behind the same address.
type address struct{ at atomic.Pointer[store.Store] }

func (a *address) becomes(s store.Store) { a.at.Store(&s) }

func (a *address) Heads(ctx context.Context, ids []string) (store.Heads, error) {
	return (*a.at.Load()).Heads(ctx, ids)
}

func (a *address) Since(ctx context.Context, id string, w run.Seq) (store.Loaded, run.Delta, error) {
	return (*a.at.Load()).Since(ctx, id, w)
}

// grow brings the run's log to n events, which make it if it is not there.
func grow(t *testing.T, s store.Store, n run.Seq) {
	t.Helper()
	ctx := t.Context()
	id := identity(theRun)
	h, err := s.Heads(ctx, []string{theRun})
	ok(t, err)
	head, made := h.ByRun[theRun]
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
		_, err := s.Append(ctx, store.Append{RunID: theRun, Events: []run.Draft{runtest.Draft(kind, "a", int(seq-1)/2)}})
		ok(t, err)
	}
}

func ok(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// viewing is a hub on an address, and a viewer of the run.
type viewing struct {
	*testing.T
	hub  *live.Hub
	view *live.Stream
}

func viewed(t *testing.T, a *address) *viewing {
	t.Helper()
	v := &viewing{T: t, hub: live.New(a, newWire(), live.Config{HeadInterval: 400 * time.Millisecond,
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

func (v *viewing) watch(after *run.Seq, epoch string) *live.Stream {
	v.Helper()
	for began := time.Now(); ; {
		s, err := v.hub.Watch(v.Context(), theRun, after, epoch)
		if errors.Is(err, store.ErrUnavailable) && time.Since(began) < testtime.Of(20*time.Second) {
			continue // on a busy machine a read, or a head check meanwhile, may take too long
		}
		ok(v, err)
		v.Cleanup(s.Close)
		return s
	}
}

// until reads frames up to the first that fits. No frame of an epoch goes back, but for a reset.
func (v *viewing) until(s *live.Stream, what string, fits func(live.Frame) bool) live.Frame {
	v.Helper()
	ctx, cancel := context.WithTimeout(v.Context(), testtime.Of(20*time.Second))
	defer cancel()
	var last live.Frame
	for {
		f, err := s.Next(ctx)
		if err != nil {
			v.Fatalf("no frame that is %s: %v; the last one was %s %s at %d", what, err, last.Sync, last.Reason, last.State.Seq)
		}
		if !f.Reset && last.Epoch == f.Epoch && f.State.Seq < last.State.Seq {
			v.Fatalf("a frame at %d after one at %d", f.State.Seq, last.State.Seq)
		}
		if last = f; fits(f) {
			return f
		}
	}
}

func (v *viewing) live(s *live.Stream, seq run.Seq) live.Frame {
	v.Helper()
	return v.until(s, fmt.Sprintf("LIVE at %d", seq), func(f live.Frame) bool {
		return f.Sync == live.Live &&
			f.State.Seq == seq
	})
}

// reset is the frame that says so, and the LIVE one with everything.
func (v *viewing) reset(s *live.Stream, seq run.Seq) live.Frame {
	v.Helper()
	f := v.until(s, "a reset", func(f live.Frame) bool { return f.Reset })
	if f.State.Seq != seq || f.From != 0 {
		v.Errorf("reset at %d from %d, want everything up to %d", f.State.Seq, f.From, seq)
	}
	f = v.live(s, seq)
	if len(f.State.Steps) != 1 || f.State.Steps[0].LogicalAttempt != int(seq-1)/2 {
		v.Errorf("the state at %d is %+v", seq, f.State.Steps)
	}
	return f
}

// restoration is S13 with a store that is at 120 and a copy of it at 100.
func restoration(t *testing.T, now, copied store.Store, bump bool) {
	t.Helper()
	a := &address{}
	a.becomes(now)
	v := viewed(t, a)
	epoch := v.live(v.view, 120).Epoch
	if bump {
		ok(t, copied.BumpEpoch(t.Context()))
	}
	a.becomes(copied)
	f := v.reset(v.view, 100)
	if bump == (f.Epoch == epoch) {
		t.Errorf("epoch %q became %q, bumped: %v", epoch, f.Epoch, bump)
	}
	grow(t, copied, 103)
	v.live(v.view, 103)
	// A viewer that was away comes back with its position in what is gone.
	seq := run.Seq(120)
	v.reset(v.watch(&seq, epoch), 103)
	grow(t, copied, 121)
	v.live(v.view, 121)
}

// contract: S13, T30
func TestHub_RestoredSQLite(t *testing.T) {
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

// A base backup that is started again, and a standby that takes over (T194).
// contract: S13, T30, T194
func TestHub_RestoredAndFailedOverPostgres(t *testing.T) {
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
		a := &address{}
		a.becomes(now)
		v := viewed(t, a)
		epoch := v.live(v.view, 120).Epoch
		grow(t, now, 122)
		standby.Await(t, standby.Database(t, "dvt"), `SELECT max(run_seq) = 122 FROM event`)
		v.live(v.view, 122)
		ok(t, primary.Close())
		v.until(v.view, "STALE", func(f live.Frame) bool { return f.Sync == live.Stale && f.Reason == live.StoreDown })
		standby.Promote(t)
		taken := open(standby)
		a.becomes(taken)
		if f := v.reset(v.view, 122); f.Epoch == epoch {
			t.Errorf("the epoch stayed %q on the new timeline", epoch)
		}
		grow(t, taken, 123)
		v.live(v.view, 123)
	})
}

// A longer log of another epoch is read whole: what changed in it since the seq in
// hand says nothing of what was in hand.
// contract: T30, T212
func TestHub_ALogOfAnotherEpochIsReadWhole(t *testing.T) {
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
	_, _, err := stores[1].CreateRun(ctx, store.NewRun{Run: store.Run{Identity: identity(theRun)}, Events: []run.Draft{
		runtest.Draft(run.RunApproved, "", 1), runtest.Start("a", "b"),
	}})
	ok(t, err)
	for la := 1; la <= 5; la++ {
		_, err := stores[1].Append(ctx, store.Append{RunID: theRun, Events: []run.Draft{
			runtest.Draft(run.StepStartedEvent, "b", la), runtest.Draft(run.StepFailedEvent, "b", la),
		}})
		ok(t, err)
	}
	for _, s := range stores {
		l, err := s.Load(ctx, theRun)
		ok(t, err)
		_, err = s.Save(ctx, l.State, l.Changes)
		ok(t, err)
	}
	a := &address{}
	a.becomes(stores[0])
	v := viewed(t, a)
	v.live(v.view, 10)
	a.becomes(stores[1])
	v.until(v.view, "a reset", func(f live.Frame) bool { return f.Reset })
	f := v.live(v.view, 12)
	if a, b := f.State.Steps[0], f.State.Steps[1]; a.Status != run.StepPending || b.LogicalAttempt != 5 {
		t.Errorf("the steps are %s, attempt %d, and %s, attempt %d", a.Status, a.LogicalAttempt, b.Status, b.LogicalAttempt)
	}
}
