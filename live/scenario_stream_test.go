package live_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dvt-engine/dvt/live"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// contract: S09, T33
func TestHub_RunsDoNotDelayEachOther(t *testing.T) {
	t.Parallel()
	play(t, 10, live.Config{ReadTimeout: time.Minute}, func(s *scene) {
		s.archive.create("run-b", 10)
		a := s.watch()
		b, err := s.hub.Watch(s.Context(), "run-b", nil, "")
		if err != nil {
			t.Fatal(err)
		}
		s.expect(a, isLive(10))
		s.expect(b, isLive(10))
		release := make(chan struct{})
		s.archive.set(func() { s.archive.onRead = func() { <-release } })
		s.archive.grow(theRun, 2)
		s.send(s.archive.message(theRun, 11, 12))
		s.expect(a, sight{live.Stale, live.Gap, 10, 12, false})
		for range 5 {
			head := s.archive.head("run-b")
			s.archive.grow("run-b", 1)
			sent := time.Now()
			s.send(s.archive.message("run-b", head, head+1))
			s.expect(b, isLive(head+1))
			if d := time.Since(sent); d > time.Second {
				t.Errorf("run B waited %v", d)
			}
		}
		close(release)
		s.expect(a, sight{live.Resyncing, live.Gap, 10, 12, false}, isLive(12))
	})
}

// contract: T187
func TestHub_After(t *testing.T) {
	t.Parallel()
	t.Run("catch-up is LIVE and says from where", func(t *testing.T) {
		t.Parallel()
		play(t, 20, live.Config{}, func(s *scene) {
			st := s.watchAt(at(7), "e1")
			f := s.next(st)
			if seen(f) != isLive(20) || f.From != 7 {
				t.Errorf("%+v from %d", seen(f), f.From)
			}
			next, verdict := s.archive.state(theRun, 7).Apply(f.State.Since(f.From))
			if verdict != run.Applied || next.Seq != 20 {
				t.Errorf("the delta is %v up to %d", verdict, next.Seq)
			}
		})
	})
	t.Run("ahead of the entry reads the primary, for everybody", func(t *testing.T) {
		t.Parallel()
		play(t, 20, live.Config{}, func(s *scene) {
			first := s.watch()
			s.expect(first, isLive(20))
			s.archive.grow(theRun, 2)
			st := s.watchAt(at(21), "e1")
			f := s.next(st)
			if seen(f) != isLive(22) || f.From != 21 {
				t.Errorf("%+v from %d", seen(f), f.From)
			}
			s.expect(first, isLive(22))
			s.send(s.archive.message(theRun, 20, 21)) // late: nobody goes back
			s.silent(st, time.Second)
			if n := s.archive.count(); n != 2 {
				t.Errorf("%d reads, want 2", n)
			}
		})
	})
	t.Run("another epoch resets", func(t *testing.T) {
		t.Parallel()
		play(t, 20, live.Config{}, func(s *scene) {
			st := s.watchAt(at(7), "e0")
			s.expect(st, sight{live.Resyncing, live.EpochChanged, 20, 20, true}, isLive(20))
		})
	})
	t.Run("a newer epoch than the entry's does not", func(t *testing.T) {
		t.Parallel()
		play(t, 20, live.Config{}, func(s *scene) {
			first := s.watch()
			s.expect(first, isLive(20))
			s.archive.restore(theRun, 15, "e2")
			st := s.watchAt(at(15), "e2")
			s.expect(st, isLive(15))
			s.expect(first, sight{live.Resyncing, live.EpochChanged, 15, 15, true}, isLive(15))
		})
	})
	t.Run("ahead while the store is down is an error", func(t *testing.T) {
		t.Parallel()
		play(t, 20, live.Config{}, func(s *scene) {
			first := s.watch()
			s.expect(first, isLive(20))
			s.archive.fail(store.ErrUnavailable)
			for range 2 {
				if _, err := s.hub.Watch(s.Context(), theRun, at(21), "e1"); !errors.Is(err, store.ErrUnavailable) {
					t.Errorf("error %v", err)
				}
			}
			if n := s.archive.count(); n != 2 {
				t.Errorf("%d reads, want one failed one for both", n)
			}
		})
	})
}

// contract: O9
func TestHub_QuietFrames(t *testing.T) {
	t.Parallel()
	play(t, 9, live.Config{}, func(s *scene) {
		st := s.watch()
		last := s.next(st)
		for range 4 {
			began := time.Now()
			f := s.next(st)
			if d := time.Since(began); d > 15*time.Second || d < 10*time.Second {
				t.Errorf("quiet for %v", d)
			}
			if seen(f) != isLive(9) || f.Changed || f.From != 9 || !f.AsOf.After(last.AsOf) ||
				time.Since(f.AsOf) > 2*time.Second {
				t.Errorf("quiet frame %+v, changed %v, as of %v after %v", seen(f), f.Changed, f.AsOf, last.AsOf)
			}
			last = f
		}
		// A reader that gives up in between does not begin to wait anew.
		began := time.Now()
		s.silent(st, 8*time.Second)
		s.next(st)
		if d := time.Since(began); d > 15*time.Second {
			t.Errorf("quiet for %v", d)
		}
	})
}

// What was said last may be lost on its way to a viewer: soon after it a quiet frame names the position again, once.
func TestHub_QuietFrameFollowsNews(t *testing.T) {
	t.Parallel()
	play(t, 9, live.Config{Settle: 2 * time.Second}, func(s *scene) {
		st := s.watch()
		s.expect(st, isLive(9))
		for range 2 {
			s.archive.grow(theRun, 1)
			head := s.archive.head(theRun)
			m := s.archive.message(theRun, head-1, head)
			s.wire.deliver(theRun, live.Delivery{Message: &m})
			s.expect(st, isLive(head))
			for _, within := range []time.Duration{2 * time.Second, 14 * time.Second, 14 * time.Second} {
				began := time.Now()
				f := s.next(st)
				if d := time.Since(began); d < within-time.Second || d > within+time.Second || seen(f) != isLive(head) ||
					f.Changed {
					t.Errorf("after %v: %+v, changed %v; want a quiet frame after %v", d, seen(f), f.Changed, within)
				}
			}
		}
	})
}

// contract: T204
func TestHub_OperationalChangeAlone(t *testing.T) {
	t.Parallel()
	play(t, 9, live.Config{}, func(s *scene) {
		st := s.watch()
		s.expect(st, isLive(9))
		s.archive.set(func() { s.archive.runs[theRun].ops = 3 })
		s.send(s.archive.message(theRun, 9, 9))
		f := s.next(st)
		if seen(f) != isLive(9) || f.OpsRev != 3 || f.Changed {
			t.Errorf("%+v ops %d changed %v", seen(f), f.OpsRev, f.Changed)
		}
		s.archive.set(func() { s.archive.runs[theRun].ops = 4 }) // its message is lost
		began := time.Now()
		if f = s.next(st); f.OpsRev != 4 || time.Since(began) > 2*time.Second {
			t.Errorf("ops %d after %v", f.OpsRev, time.Since(began))
		}
	})
}

// contract: O5
func TestHub_SlowViewerGetsTheNewestState(t *testing.T) {
	t.Parallel()
	play(t, 2, live.Config{}, func(s *scene) {
		fast, slow := s.watch(), s.watch()
		s.expect(fast, isLive(2))
		s.expect(slow, isLive(2))
		for range 150 {
			s.step()
			s.expect(fast, isLive(s.archive.head(theRun)))
		}
		f := s.next(slow)
		if seen(f) != isLive(152) || f.From != 2 || slow.Conflated() != 149 {
			t.Errorf("%+v from %d, %d conflated", seen(f), f.From, slow.Conflated())
		}
		for range 20 { // transitions do not pile up either
			s.archive.grow(theRun, 2)
			head := s.archive.head(theRun)
			s.send(s.archive.message(theRun, head-1, head))
		}
		var frames []live.Frame
		for f = s.next(slow); ; f = s.next(slow) {
			frames = append(frames, f)
			if f.Sync == live.Live && f.State.Seq == 192 {
				break
			}
		}
		if len(frames) > 9 {
			t.Errorf("%d frames were kept", len(frames))
		}
		slowly := false
		for _, f := range frames {
			slowly = slowly || f.Reason == live.SlowConsumer
		}
		if !slowly {
			t.Error("no frame says that the viewer was slow")
		}
		s.equal(f)
	})
}

// contract: T173
func TestHub_OneSubscriptionForAThousandStreams(t *testing.T) {
	t.Parallel()
	play(t, 10, live.Config{}, func(s *scene) {
		streams := make(chan *live.Stream, 1000)
		for range 1000 {
			go func() { streams <- s.watch() }()
		}
		var all []*live.Stream
		for range 1000 {
			all = append(all, <-streams)
		}
		if runs, n := s.hub.Watched(); runs != 1 || n != 1000 || s.wire.opened != 1 || s.archive.count() != 1 {
			t.Errorf("%d runs, %d streams, %d subscriptions, %d reads", runs, n, s.wire.opened, s.archive.count())
		}
		s.step()
		for _, st := range all {
			s.expect(st, isLive(11))
			st.Close()
			st.Close()
		}
		synctest.Wait()
		if runs, n := s.hub.Watched(); runs != 0 || n != 0 || s.wire.open() != 0 {
			t.Errorf("%d runs, %d streams, %d subscriptions left", runs, n, s.wire.open())
		}
		s.archive.grow(theRun, 1)
		s.expect(s.watch(), isLive(12)) // a new entry reads anew
	})
}

func TestHub_QuietFrameNeverOvertakesWhatWaits(t *testing.T) {
	t.Parallel()
	play(t, 10, live.Config{Quiet: time.Second}, func(s *scene) {
		st := s.watch()
		shown := s.next(st).State.Seq
		go func() { // each gap comes at the moment of a quiet frame
			for range 80 {
				time.Sleep(time.Second)
				s.archive.grow(theRun, 2)
				head := s.archive.head(theRun)
				m := s.archive.message(theRun, head-1, head)
				s.wire.deliver(theRun, live.Delivery{Message: &m})
			}
		}()
		for shown < 170 {
			f := s.next(st)
			if f.State.Seq < shown {
				t.Fatalf("%d after %d", f.State.Seq, shown)
			}
			shown = f.State.Seq
		}
	})
}
