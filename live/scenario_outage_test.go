package live_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dvt-engine/dvt/live"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// contract: S08
func TestHub_StuckReadIsNeverLive(t *testing.T) {
	t.Parallel()
	play(t, 10, live.Config{}, func(s *scene) {
		st := s.watch()
		s.expect(st, isLive(10))
		before := s.archive.state(theRun, 10)
		s.archive.grow(theRun, 2)
		s.archive.set(func() {
			s.archive.skew = func(l store.Loaded) store.Loaded { l.State = before; return l }
		})
		s.send(s.archive.message(theRun, 11, 12))
		s.expect(st, sight{live.Stale, live.Gap, 10, 12, false}, sight{live.Resyncing, live.Gap, 10, 12, false},
			sight{live.Stale, live.Gap, 10, 12, false})
		for range 3 { // quiet frames
			s.expect(st, sight{live.Stale, live.Gap, 10, 12, false})
		}
		s.archive.set(func() { s.archive.skew = nil })
		s.expect(st, isLive(12))
	})
}

// contract: S13, T30
func TestHub_Restore(t *testing.T) {
	t.Parallel()
	for name, restore := range map[string]func(*scene){
		"seen by the head check": func(s *scene) { s.archive.restore(theRun, 100, "e2") },
		"seen by a message": func(s *scene) {
			s.archive.restore(theRun, 100, "e2")
			s.send(s.archive.message(theRun, 99, 100))
		},
		"without a new epoch": func(s *scene) { s.archive.restore(theRun, 100, "e1") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			play(t, 120, live.Config{}, func(s *scene) {
				st := s.watch()
				s.expect(st, isLive(120))
				restore(s)
				began := time.Now()
				s.expect(st, sight{live.Resyncing, live.EpochChanged, 100, 100, true})
				if d := time.Since(began); d > 2*time.Second {
					t.Errorf("said after %v", d)
				}
				f := s.next(st)
				if seen(f) != isLive(100) {
					t.Errorf("%+v", seen(f))
				}
				s.equal(f)
				s.step()
				s.expect(st, isLive(101))
			})
		})
	}
}

// contract: T176, T226
func TestHub_StoreDownAndBack(t *testing.T) {
	t.Parallel()
	for name, trouble := range map[string]func(a *archive){
		"refuses":       func(a *archive) { a.err = store.ErrUnavailable },
		"fails oddly":   func(a *archive) { a.err = errors.New("disk image is malformed") },
		"never answers": func(a *archive) { a.hang = true },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			play(t, 10, live.Config{}, func(s *scene) {
				st := s.watch()
				s.expect(st, isLive(10))
				time.Sleep(1010 * time.Millisecond) // just after a head check
				s.archive.grow(theRun, 3)
				late := s.archive.message(theRun, 10, 11)
				lost := s.archive.message(theRun, 12, 13)
				s.archive.set(func() { trouble(s.archive) })
				began := time.Now()
				s.expect(st, sight{live.Stale, live.StoreDown, 10, 10, false})
				if d := time.Since(began); d > 2*time.Second {
					t.Errorf("STORE_DOWN was said after %v", d)
				}
				s.send(late) // newer, but nobody knows the head
				s.expect(st, sight{live.Stale, live.StoreDown, 11, 11, false})
				reads := s.archive.count()
				s.send(lost)
				if n := s.archive.count() - reads; n != 0 {
					t.Errorf("%d reads of a store that is known to be down", n)
				}
				s.expect(st, sight{live.Stale, live.StoreDown, 11, 11, false}) // quiet
				s.archive.set(func() { s.archive.err, s.archive.hang = nil, false })
				began = time.Now()
				s.expect(st, sight{live.Verifying, live.StoreDown, 11, 11, false}, isLive(13))
				if d := time.Since(began); d > 2*time.Second {
					t.Errorf("LIVE after %v", d)
				}
			})
		})
	}
}

// contract: T226
func TestHub_StoreDownIsSaidAlsoDuringASlowRead(t *testing.T) {
	t.Parallel()
	play(t, 10, live.Config{ReadTimeout: time.Minute}, func(s *scene) {
		st := s.watch()
		s.expect(st, isLive(10))
		time.Sleep(990 * time.Millisecond)
		s.archive.set(func() { s.archive.hang = true })
		began := time.Now()
		s.wire.deliver(theRun, live.Delivery{Overflow: true})
		s.expect(st, sight{live.Stale, live.StoreDown, 10, 10, false})
		if d := time.Since(began); d > 2*time.Second {
			t.Errorf("STORE_DOWN was said after %v", d)
		}
		s.archive.set(func() { s.archive.hang = false })
		s.expect(st, sight{live.Verifying, live.StoreDown, 10, 10, false}, isLive(10))
	})
}

// contract: T127, S12
func TestHub_BusDegraded(t *testing.T) {
	t.Parallel()
	play(t, 10, live.Config{}, func(s *scene) {
		st := s.watch()
		s.expect(st, isLive(10))
		s.wire.setUp(false)
		began := time.Now()
		s.expect(st, sight{live.Live, live.BusDegraded, 10, 10, false})
		if d := time.Since(began); d > 300*time.Millisecond {
			t.Errorf("BUS_DEGRADED was said after %v", d)
		}
		for seq := run.Seq(11); seq < 131; seq++ { // two minutes by polling
			time.Sleep(time.Second)
			s.archive.grow(theRun, 1)
			began = time.Now()
			f := s.next(st)
			if seen(f) != (sight{live.Live, live.BusDegraded, seq, seq, false}) || time.Since(began) > time.Second {
				t.Fatalf("%+v after %v", seen(f), time.Since(began))
			}
		}
		s.wire.setUp(true)
		began = time.Now()
		s.expect(st, isLive(130))
		if d := time.Since(began); d > 300*time.Millisecond {
			t.Errorf("the reason went after %v", d)
		}
		for seq := run.Seq(11); seq <= 130; seq++ { // the projector drains what nobody could hear
			s.send(s.archive.message(theRun, seq-1, seq))
		}
		s.silent(st, 5*time.Second)
	})
}

func TestHub_FailedLoadIsForgotten(t *testing.T) {
	t.Parallel()
	play(t, 10, live.Config{}, func(s *scene) {
		if _, err := s.hub.Watch(s.Context(), "stranger", nil, ""); !errors.Is(err, live.ErrNotFound) {
			t.Errorf("error %v, want ErrNotFound", err)
		}
		// Two watchers of a load that fails; a third comes before both have left.
		s.archive.set(func() { s.archive.hang = true })
		failed := make(chan error, 2)
		for range 2 {
			go func() {
				_, err := s.hub.Watch(s.Context(), theRun, nil, "")
				s.archive.set(func() { s.archive.hang = false })
				failed <- err
				s.expect(s.watch(), isLive(10))
				failed <- nil
			}()
		}
		for range 4 {
			if err := <-failed; err != nil && !errors.Is(err, store.ErrUnavailable) {
				t.Errorf("error %v, want ErrUnavailable", err)
			}
		}
	})
}

func TestHub_WatcherGivesUpDuringTheLoad(t *testing.T) {
	t.Parallel()
	play(t, 10, live.Config{}, func(s *scene) {
		s.archive.set(func() { s.archive.hang = true })
		ctx, cancel := context.WithTimeout(s.Context(), 100*time.Millisecond)
		defer cancel()
		if _, err := s.hub.Watch(ctx, theRun, nil, ""); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v", err)
		}
		synctest.Wait()
		if runs, n := s.hub.Watched(); runs != 0 || n != 0 || s.wire.open() != 0 {
			t.Errorf("%d runs, %d streams, %d subscriptions left", runs, n, s.wire.open())
		}
	})
}

func TestHub_RunIsGone(t *testing.T) {
	t.Parallel()
	play(t, 10, live.Config{}, func(s *scene) {
		st := s.watch()
		s.expect(st, isLive(10))
		s.archive.set(func() { delete(s.archive.runs, theRun) })
		if _, err := st.Next(s.Context()); !errors.Is(err, live.ErrNotFound) {
			t.Errorf("error %v, want ErrNotFound", err)
		}
		s.archive.create(theRun, 3) // while the old stream is still held
		s.expect(s.watch(), isLive(3))
	})
}

func TestHub_ShutdownEndsStreams(t *testing.T) {
	t.Parallel()
	play(t, 10, live.Config{MaxStreams: 2}, func(s *scene) {
		a, b := s.watch(), s.watch()
		if _, err := s.hub.Watch(s.Context(), theRun, nil, ""); !errors.Is(err, live.ErrTooMany) {
			t.Errorf("error %v, want ErrTooMany", err)
		}
		b.Close()
		s.expect(b, isLive(10))
		if _, err := b.Next(s.Context()); !errors.Is(err, live.ErrClosed) {
			t.Errorf("error %v, want ErrClosed", err)
		}
		s.expect(a, isLive(10))
		s.stop()
		if _, err := a.Next(s.Context()); !errors.Is(err, live.ErrShutdown) {
			t.Errorf("error %v, want ErrShutdown", err)
		}
		if _, err := s.hub.Watch(s.Context(), theRun, nil, ""); !errors.Is(err, live.ErrShutdown) {
			t.Errorf("error %v, want ErrShutdown", err)
		}
		a.Close()
	})
}
