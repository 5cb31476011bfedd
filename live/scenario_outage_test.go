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
	runScenario(t, 10, live.Config{}, func(s *fixture) {
		st := s.watch()
		s.expect(st, isLive(10))
		before := s.store.state(testRunID, 10)
		s.store.grow(testRunID, 2)
		s.store.set(func() {
			s.store.skew = func(l store.Loaded) store.Loaded { l.State = before; return l }
		})
		s.send(s.store.message(testRunID, 11, 12))
		s.expect(st, frameSummary{live.Stale, live.Gap, 10, 12, false}, frameSummary{live.Resyncing, live.Gap, 10, 12, false},
			frameSummary{live.Stale, live.Gap, 10, 12, false})
		for range 3 { // quiet frames
			s.expect(st, frameSummary{live.Stale, live.Gap, 10, 12, false})
		}
		s.store.set(func() { s.store.skew = nil })
		s.expect(st, isLive(12))
	})
}

// contract: S13, T30
func TestHub_RestoreResetsViewers(t *testing.T) {
	t.Parallel()
	for name, restore := range map[string]func(*fixture){
		"found by the head check": func(s *fixture) { s.store.restore(testRunID, 100, "e2") },
		"found by a message": func(s *fixture) {
			s.store.restore(testRunID, 100, "e2")
			s.send(s.store.message(testRunID, 99, 100))
		},
		"without a new epoch": func(s *fixture) { s.store.restore(testRunID, 100, "e1") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			runScenario(t, 120, live.Config{}, func(s *fixture) {
				st := s.watch()
				s.expect(st, isLive(120))
				restore(s)
				began := time.Now()
				s.expect(st, frameSummary{live.Resyncing, live.EpochChanged, 100, 100, true})
				if d := time.Since(began); d > 2*time.Second {
					t.Errorf("the frame arrived after %v", d)
				}
				f := s.next(st)
				if summarize(f) != isLive(100) {
					t.Errorf("the frame after the restore is %+v, want LIVE at 100", summarize(f))
				}
				s.requireEqual(f)
				s.step()
				s.expect(st, isLive(101))
			})
		})
	}
}

// contract: T176, T226
func TestHub_StoreDownIsShownAndRecovers(t *testing.T) {
	t.Parallel()
	for name, trouble := range map[string]func(a *fakeStore){
		"refuses":     func(a *fakeStore) { a.err = store.ErrUnavailable },
		"fails oddly": func(a *fakeStore) { a.err = errors.New("disk image is malformed") },
		"hangs":       func(a *fakeStore) { a.hang = true },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			runScenario(t, 10, live.Config{}, func(s *fixture) {
				st := s.watch()
				s.expect(st, isLive(10))
				time.Sleep(1010 * time.Millisecond) // just after a head check
				s.store.grow(testRunID, 3)
				late := s.store.message(testRunID, 10, 11)
				lost := s.store.message(testRunID, 12, 13)
				s.store.set(func() { trouble(s.store) })
				began := time.Now()
				s.expect(st, frameSummary{live.Stale, live.StoreDown, 10, 10, false})
				if d := time.Since(began); d > 2*time.Second {
					t.Errorf("STORE_DOWN was shown after %v", d)
				}
				s.send(late) // newer, but the head is unknown
				s.expect(st, frameSummary{live.Stale, live.StoreDown, 11, 11, false})
				reads := s.store.count()
				s.send(lost)
				if n := s.store.count() - reads; n != 0 {
					t.Errorf("%d reads of a store that is known to be down", n)
				}
				s.expect(st, frameSummary{live.Stale, live.StoreDown, 11, 11, false}) // a quiet frame
				s.store.set(func() { s.store.err, s.store.hang = nil, false })
				began = time.Now()
				s.expect(st, frameSummary{live.Verifying, live.StoreDown, 11, 11, false}, isLive(13))
				if d := time.Since(began); d > 2*time.Second {
					t.Errorf("LIVE after %v", d)
				}
			})
		})
	}
}

// contract: T226
func TestHub_StoreDownIsShownDuringASlowRead(t *testing.T) {
	t.Parallel()
	runScenario(t, 10, live.Config{ReadTimeout: time.Minute}, func(s *fixture) {
		st := s.watch()
		s.expect(st, isLive(10))
		time.Sleep(990 * time.Millisecond)
		s.store.set(func() { s.store.hang = true })
		began := time.Now()
		s.bus.deliver(testRunID, live.Delivery{Overflow: true})
		s.expect(st, frameSummary{live.Stale, live.StoreDown, 10, 10, false})
		if d := time.Since(began); d > 2*time.Second {
			t.Errorf("STORE_DOWN was shown after %v", d)
		}
		s.store.set(func() { s.store.hang = false })
		s.expect(st, frameSummary{live.Verifying, live.StoreDown, 10, 10, false}, isLive(10))
	})
}

// contract: T127, S12
func TestHub_PollsHeadsWhileTheBusIsDown(t *testing.T) {
	t.Parallel()
	runScenario(t, 10, live.Config{}, func(s *fixture) {
		st := s.watch()
		s.expect(st, isLive(10))
		s.bus.setUp(false)
		began := time.Now()
		s.expect(st, frameSummary{live.Live, live.BusDegraded, 10, 10, false})
		if d := time.Since(began); d > 300*time.Millisecond {
			t.Errorf("BUS_DEGRADED was shown after %v", d)
		}
		for seq := run.Seq(11); seq < 131; seq++ { // two minutes of polling
			time.Sleep(time.Second)
			s.store.grow(testRunID, 1)
			began = time.Now()
			f := s.next(st)
			if summarize(f) != (frameSummary{live.Live, live.BusDegraded, seq, seq, false}) || time.Since(began) > time.Second {
				t.Fatalf("the frame is %+v after %v, want LIVE with BUS_DEGRADED at %d within 1 s", summarize(f),
					time.Since(began), seq)
			}
		}
		s.bus.setUp(true)
		began = time.Now()
		s.expect(st, isLive(130))
		if d := time.Since(began); d > 300*time.Millisecond {
			t.Errorf("the reason was removed after %v", d)
		}
		for seq := run.Seq(11); seq <= 130; seq++ { // the projector sends the messages that the bus could not take
			s.send(s.store.message(testRunID, seq-1, seq))
		}
		s.expectSilence(st, 5*time.Second)
	})
}

func TestHub_FailedLoadIsForgotten(t *testing.T) {
	t.Parallel()
	runScenario(t, 10, live.Config{}, func(s *fixture) {
		if _, err := s.hub.Watch(s.Context(), "stranger", nil, ""); !errors.Is(err, live.ErrNotFound) {
			t.Errorf("error %v, want ErrNotFound", err)
		}
		// Two viewers of a load that fails; a third joins before both have left.
		s.store.set(func() { s.store.hang = true })
		failed := make(chan error, 2)
		for range 2 {
			go func() {
				_, err := s.hub.Watch(s.Context(), testRunID, nil, "")
				s.store.set(func() { s.store.hang = false })
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
	runScenario(t, 10, live.Config{}, func(s *fixture) {
		s.store.set(func() { s.store.hang = true })
		ctx, cancel := context.WithTimeout(s.Context(), 100*time.Millisecond)
		defer cancel()
		if _, err := s.hub.Watch(ctx, testRunID, nil, ""); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v", err)
		}
		synctest.Wait()
		if runs, n := s.hub.Watched(); runs != 0 || n != 0 || s.bus.openSubscriptions() != 0 {
			t.Errorf("%d runs, %d streams, %d subscriptions left", runs, n, s.bus.openSubscriptions())
		}
	})
}

func TestHub_DeletedRunEndsTheStream(t *testing.T) {
	t.Parallel()
	runScenario(t, 10, live.Config{}, func(s *fixture) {
		st := s.watch()
		s.expect(st, isLive(10))
		s.store.set(func() { delete(s.store.runs, testRunID) })
		if _, err := st.Next(s.Context()); !errors.Is(err, live.ErrNotFound) {
			t.Errorf("error %v, want ErrNotFound", err)
		}
		s.store.create(testRunID, 3) // while the old stream is still open
		s.expect(s.watch(), isLive(3))
	})
}

func TestHub_ShutdownEndsStreams(t *testing.T) {
	t.Parallel()
	runScenario(t, 10, live.Config{MaxStreams: 2}, func(s *fixture) {
		a, b := s.watch(), s.watch()
		if _, err := s.hub.Watch(s.Context(), testRunID, nil, ""); !errors.Is(err, live.ErrTooMany) {
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
		if _, err := s.hub.Watch(s.Context(), testRunID, nil, ""); !errors.Is(err, live.ErrShutdown) {
			t.Errorf("error %v, want ErrShutdown", err)
		}
		a.Close()
	})
}
