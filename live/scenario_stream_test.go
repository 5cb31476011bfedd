package live_test

import (
	"errors"
	"testing"
	"time"

	"github.com/dvt-engine/dvt/live"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// contract: S09, T33
func TestHub_RunsDoNotDelayEachOther(t *testing.T) {
	t.Parallel()
	runScenario(t, 10, live.Config{ReadTimeout: time.Minute}, func(s *fixture) {
		s.store.create("run-b", 10)
		a := s.watch()
		b, err := s.hub.Watch(s.Context(), "run-b", nil, "")
		if err != nil {
			t.Fatal(err)
		}
		s.expect(a, isLive(10))
		s.expect(b, isLive(10))
		release := make(chan struct{})
		s.store.set(func() { s.store.onRead = func() { <-release } })
		s.store.grow(testRunID, 2)
		s.send(s.store.message(testRunID, 11, 12))
		s.expect(a, frameSummary{live.Stale, live.Gap, 10, 12, false})
		for range 5 {
			head := s.store.head("run-b")
			s.store.grow("run-b", 1)
			sent := time.Now()
			s.send(s.store.message("run-b", head, head+1))
			s.expect(b, isLive(head+1))
			if d := time.Since(sent); d > time.Second {
				t.Errorf("run B was delayed by %v", d)
			}
		}
		close(release)
		s.expect(a, frameSummary{live.Resyncing, live.Gap, 10, 12, false}, isLive(12))
	})
}

// contract: T187
func TestHub_PositionOfAViewerDecidesItsFirstFrame(t *testing.T) {
	t.Parallel()
	t.Run("catch-up is LIVE with the position in From", func(t *testing.T) {
		t.Parallel()
		runScenario(t, 20, live.Config{}, func(s *fixture) {
			st := s.watchAt(at(7), "e1")
			f := s.next(st)
			if summarize(f) != isLive(20) || f.From != 7 {
				t.Errorf("the first frame is %+v from %d, want LIVE at 20 from 7", summarize(f), f.From)
			}
			next, verdict := s.store.state(testRunID, 7).Apply(f.State.Since(f.From))
			if verdict != run.Applied || next.Seq != 20 {
				t.Errorf("delta is %v up to seq %d", verdict, next.Seq)
			}
		})
	})
	t.Run("a position ahead of the entry reads the primary once", func(t *testing.T) {
		t.Parallel()
		runScenario(t, 20, live.Config{}, func(s *fixture) {
			first := s.watch()
			s.expect(first, isLive(20))
			s.store.grow(testRunID, 2)
			st := s.watchAt(at(21), "e1")
			f := s.next(st)
			if summarize(f) != isLive(22) || f.From != 21 {
				t.Errorf("the first frame is %+v from %d, want LIVE at 22 from 21", summarize(f), f.From)
			}
			s.expect(first, isLive(22))
			s.send(s.store.message(testRunID, 20, 21)) // late: no viewer may go back
			s.expectSilence(st, time.Second)
			if n := s.store.count(); n != 2 {
				t.Errorf("%d reads, want 2", n)
			}
		})
	})
	t.Run("another epoch resets", func(t *testing.T) {
		t.Parallel()
		runScenario(t, 20, live.Config{}, func(s *fixture) {
			st := s.watchAt(at(7), "e0")
			s.expect(st, frameSummary{live.Resyncing, live.EpochChanged, 20, 20, true}, isLive(20))
		})
	})
	t.Run("a newer epoch than the entry's does not", func(t *testing.T) {
		t.Parallel()
		runScenario(t, 20, live.Config{}, func(s *fixture) {
			first := s.watch()
			s.expect(first, isLive(20))
			s.store.restore(testRunID, 15, "e2")
			st := s.watchAt(at(15), "e2")
			s.expect(st, isLive(15))
			s.expect(first, frameSummary{live.Resyncing, live.EpochChanged, 15, 15, true}, isLive(15))
		})
	})
	t.Run("ahead while the store is down is an error", func(t *testing.T) {
		t.Parallel()
		runScenario(t, 20, live.Config{}, func(s *fixture) {
			first := s.watch()
			s.expect(first, isLive(20))
			s.store.fail(store.ErrUnavailable)
			for range 2 {
				if _, err := s.hub.Watch(s.Context(), testRunID, at(21), "e1"); !errors.Is(err, store.ErrUnavailable) {
					t.Errorf("error %v", err)
				}
			}
			if n := s.store.count(); n != 2 {
				t.Errorf("%d reads, want one failed read for both", n)
			}
		})
	})
}

// contract: O9
func TestHub_QuietFramesRepeatTheState(t *testing.T) {
	t.Parallel()
	runScenario(t, 9, live.Config{}, func(s *fixture) {
		st := s.watch()
		last := s.next(st)
		for range 4 {
			began := time.Now()
			f := s.next(st)
			if d := time.Since(began); d > 15*time.Second || d < 10*time.Second {
				t.Errorf("no frame for %v", d)
			}
			if summarize(f) != isLive(9) || f.Changed || f.From != 9 || !f.AsOf.After(last.AsOf) ||
				time.Since(f.AsOf) > 2*time.Second {
				t.Errorf("quiet frame %+v, changed %v, as of %v after %v", summarize(f), f.Changed, f.AsOf, last.AsOf)
			}
			last = f
		}
		// A Next that is cancelled does not restart the quiet time.
		began := time.Now()
		s.expectSilence(st, 8*time.Second)
		s.next(st)
		if d := time.Since(began); d > 15*time.Second {
			t.Errorf("no frame for %v", d)
		}
	})
}

// The last frame may be lost on its way to the viewer: soon after it one quiet frame repeats the position.
func TestHub_QuietFrameFollowsAChange(t *testing.T) {
	t.Parallel()
	runScenario(t, 9, live.Config{Settle: 2 * time.Second}, func(s *fixture) {
		st := s.watch()
		s.expect(st, isLive(9))
		for range 2 {
			s.store.grow(testRunID, 1)
			head := s.store.head(testRunID)
			m := s.store.message(testRunID, head-1, head)
			s.bus.deliver(testRunID, live.Delivery{Message: &m})
			s.expect(st, isLive(head))
			for _, within := range []time.Duration{2 * time.Second, 14 * time.Second, 14 * time.Second} {
				began := time.Now()
				f := s.next(st)
				if d := time.Since(began); d < within-time.Second || d > within+time.Second || summarize(f) != isLive(head) ||
					f.Changed {
					t.Errorf("after %v: %+v, changed %v; want a quiet frame after %v", d, summarize(f), f.Changed, within)
				}
			}
		}
	})
}

// contract: T204
func TestHub_OperationalChangeAloneIsShown(t *testing.T) {
	t.Parallel()
	runScenario(t, 9, live.Config{}, func(s *fixture) {
		st := s.watch()
		s.expect(st, isLive(9))
		s.store.set(func() { s.store.runs[testRunID].ops = 3 })
		s.send(s.store.message(testRunID, 9, 9))
		f := s.next(st)
		if summarize(f) != isLive(9) || f.OpsRev != 3 || f.Changed {
			t.Errorf("the frame is %+v with ops %d and changed %v, want LIVE at 9 with ops 3, unchanged", summarize(f),
				f.OpsRev, f.Changed)
		}
		s.store.set(func() { s.store.runs[testRunID].ops = 4 }) // its message is lost
		began := time.Now()
		if f = s.next(st); f.OpsRev != 4 || time.Since(began) > 2*time.Second {
			t.Errorf("ops %d after %v", f.OpsRev, time.Since(began))
		}
	})
}

// contract: O5
func TestHub_SlowViewerGetsTheNewestState(t *testing.T) {
	t.Parallel()
	runScenario(t, 2, live.Config{}, func(s *fixture) {
		fast, slow := s.watch(), s.watch()
		s.expect(fast, isLive(2))
		s.expect(slow, isLive(2))
		for range 150 {
			s.step()
			s.expect(fast, isLive(s.store.head(testRunID)))
		}
		f := s.next(slow)
		if summarize(f) != isLive(152) || f.From != 2 || slow.ConflatedFrames() != 149 {
			t.Errorf("the frame is %+v from %d, %d conflated, want LIVE at 152 from 2 and 149", summarize(f), f.From,
				slow.ConflatedFrames())
		}
		for range 20 { // changes of the sync state are conflated, too
			s.store.grow(testRunID, 2)
			head := s.store.head(testRunID)
			s.send(s.store.message(testRunID, head-1, head))
		}
		var frames []live.Frame
		for f = s.next(slow); ; f = s.next(slow) {
			frames = append(frames, f)
			if f.Sync == live.Live && f.State.Seq == 192 {
				break
			}
		}
		if len(frames) > 9 {
			t.Errorf("%d frames were pending, want at most 9", len(frames))
		}
		slowly := false
		for _, f := range frames {
			slowly = slowly || f.Reason == live.SlowConsumer
		}
		if !slowly {
			t.Error("no frame has the reason SLOW_CONSUMER")
		}
		s.requireEqual(f)
	})
}

func TestHub_QuietFrameNeverOvertakesPendingFrames(t *testing.T) {
	t.Parallel()
	runScenario(t, 10, live.Config{KeepAlive: time.Second}, func(s *fixture) {
		st := s.watch()
		shown := s.next(st).State.Seq
		go func() { // each gap coincides with a quiet frame
			for range 80 {
				time.Sleep(time.Second)
				s.store.grow(testRunID, 2)
				head := s.store.head(testRunID)
				m := s.store.message(testRunID, head-1, head)
				s.bus.deliver(testRunID, live.Delivery{Message: &m})
			}
		}()
		for shown < 170 {
			f := s.next(st)
			if f.State.Seq < shown {
				t.Fatalf("frame at seq %d after seq %d", f.State.Seq, shown)
			}
			shown = f.State.Seq
		}
	})
}
