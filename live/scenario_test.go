package live_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/dvt-engine/dvt/live"
	"github.com/dvt-engine/dvt/run"
)

func at(seq run.Seq) *run.Seq { return &seq }

// contract: S01
func TestHub_FirstFrameIsLive(t *testing.T) {
	t.Parallel()
	play(t, 10, live.Config{}, func(s *scene) {
		st := s.watch()
		f := s.next(st)
		s.equal(f)
		if got := seen(f); got != isLive(10) || !f.Changed || f.From != 0 {
			t.Errorf("first frame %+v, changed %v from %d", got, f.Changed, f.From)
		}
		s.step()
		f = s.next(st)
		if got := seen(f); got != isLive(11) || f.From != 10 {
			t.Errorf("second frame %+v from %d", got, f.From)
		}
		s.equal(f)
		s.silent(st, 10*time.Second)
	})
}

// contract: S01
func TestHub_NothingLostBetweenSubscribeAndRead(t *testing.T) {
	t.Parallel()
	play(t, 10, live.Config{}, func(s *scene) {
		s.wire.manual = true
		var st *live.Stream
		watching := make(chan struct{})
		go func() {
			st = s.watch()
			close(watching)
		}()
		synctest.Wait()
		if s.archive.count() != 0 {
			t.Error("the store was read before the channel was confirmed (T206)")
		}
		s.archive.set(func() {
			s.archive.onRead = func() { // one event between the read and its answer
				s.archive.set(func() { s.archive.onRead = nil })
				s.archive.grow(theRun, 1)
				m := s.archive.message(theRun, 11, 12)
				s.wire.deliver(theRun, live.Delivery{Message: &m})
			}
		})
		s.archive.grow(theRun, 1) // and one before it, whose message nobody hears
		s.wire.deliver(theRun, live.Delivery{Confirmed: true})
		<-watching
		s.expect(st, isLive(12))
		s.send(s.archive.message(theRun, 10, 11))
		s.send(s.archive.message(theRun, 11, 12))
		s.silent(st, 5*time.Second)
	})
}

// contract: T206
func TestHub_UnconfirmedChannelIsPolledAndHeals(t *testing.T) {
	t.Parallel()
	play(t, 10, live.Config{}, func(s *scene) {
		s.wire.manual = true
		st := s.watch()
		s.expect(st, sight{live.Live, live.BusDegraded, 10, 10, false})
		s.archive.grow(theRun, 1)
		s.expect(st, sight{live.Live, live.BusDegraded, 11, 11, false})
		s.wire.deliver(theRun, live.Delivery{Confirmed: true})
		s.expect(st, isLive(11)) // the first confirmation is no reconnect
		s.silent(st, 3*time.Second)
	})
}

// gap is W-3: 12 comes while the state is at 10.
func gap(s *scene, st *live.Stream) {
	s.Helper()
	s.expect(st, isLive(10))
	reads := s.archive.count()
	s.archive.grow(theRun, 2)
	s.send(s.archive.message(theRun, 11, 12))
	s.expect(st,
		sight{live.Stale, live.Gap, 10, 12, false},
		sight{live.Resyncing, live.Gap, 10, 12, false},
		isLive(12))
	if n := s.archive.count() - reads; n != 1 {
		s.Errorf("%d reads of the store, want 1", n)
	}
}

// contract: S02, W-4
func TestHub_LostMiddleMessage(t *testing.T) {
	t.Parallel()
	play(t, 10, live.Config{}, func(s *scene) {
		st := s.watch()
		gap(s, st)
		s.silent(st, 5*time.Second)
	})
}

// contract: S03, W-3
func TestHub_OutOfOrder(t *testing.T) {
	t.Parallel()
	play(t, 10, live.Config{}, func(s *scene) {
		st := s.watch()
		gap(s, st)
		time.Sleep(300 * time.Millisecond)
		s.send(s.archive.message(theRun, 10, 11))
		s.silent(st, 5*time.Second)
		if n := s.archive.count(); n != 2 {
			t.Errorf("%d reads, want the first and one resync", n)
		}
	})
}

// contract: S04, W-2
func TestHub_DuplicatesAreOneUpdate(t *testing.T) {
	t.Parallel()
	play(t, 5, live.Config{}, func(s *scene) {
		st := s.watch()
		s.expect(st, isLive(5))
		s.archive.grow(theRun, 1)
		for range 3 {
			s.send(s.archive.message(theRun, 5, 6))
		}
		s.expect(st, isLive(6))
		s.silent(st, 3300*time.Millisecond) // not together with a head check, which would be older than the next frame
		s.step()
		s.expect(st, isLive(7))
		s.silent(st, 3*time.Second)
		if n := s.archive.count(); n != 1 {
			t.Errorf("%d reads, want only the first", n)
		}
	})
}

// contract: T188
func TestHub_OverlapIsApplied(t *testing.T) {
	t.Parallel()
	play(t, 10, live.Config{}, func(s *scene) {
		st := s.watch()
		s.expect(st, isLive(10))
		s.archive.grow(theRun, 3)
		s.send(s.archive.message(theRun, 4, 13))
		f := s.next(st)
		if seen(f) != isLive(13) {
			t.Errorf("got %+v", seen(f))
		}
		s.equal(f)
	})
}

// contract: S05, W-4
func TestHub_LostLastMessage(t *testing.T) {
	t.Parallel()
	play(t, len(story())-1, live.Config{}, func(s *scene) {
		last := run.Seq(len(story()))
		st := s.watch()
		s.expect(st, isLive(last-1))
		time.Sleep(1100 * time.Millisecond) // just after a head check
		lost := time.Now()
		s.archive.grow(theRun, 1)
		s.expect(st, sight{live.Stale, live.TailLoss, last - 1, last, false})
		if d := time.Since(lost); d > 3*time.Second {
			t.Errorf("TAIL_LOSS was said after %v", d)
		}
		s.expect(st, sight{live.Resyncing, live.TailLoss, last - 1, last, false})
		f := s.next(st)
		if seen(f) != isLive(last) || f.State.Status != run.Completed {
			t.Errorf("%+v %s", seen(f), f.State.Status)
		}
		f = s.next(st) // a finished run's stream stays (T226)
		if seen(f) != isLive(last) || f.Changed {
			t.Errorf("quiet frame %+v, changed %v", seen(f), f.Changed)
		}
	})
}

// contract: T187
func TestHub_ABusyRunIsNotTailLoss(t *testing.T) {
	t.Parallel()
	play(t, 2, live.Config{}, func(s *scene) {
		st := s.watch()
		s.expect(st, isLive(2))
		for range 100 { // each message comes 400 ms after its event
			head := s.archive.head(theRun)
			s.archive.grow(theRun, 1)
			time.Sleep(400 * time.Millisecond)
			s.send(s.archive.message(theRun, head, head+1))
			s.expect(st, isLive(head+1))
		}
		if n := s.archive.count(); n != 1 {
			t.Errorf("%d reads, want 1", n)
		}
	})
}

// contract: T187
func TestHub_ProjectorLag(t *testing.T) {
	t.Parallel()
	play(t, 10, live.Config{}, func(s *scene) {
		st := s.watch()
		s.expect(st, isLive(10))
		s.archive.set(func() { s.archive.runs[theRun].checkpoint = 10 })
		s.archive.grow(theRun, 2)
		f := s.next(st)
		if seen(f) != (sight{live.Stale, live.ProjectorLag, 10, 12, false}) || f.Lag != 3*time.Second {
			t.Errorf("%+v lag %v", seen(f), f.Lag)
		}
		s.expect(st, sight{live.Resyncing, live.ProjectorLag, 10, 12, false})
		if f = s.next(st); seen(f) != isLive(12) || f.Lag != 0 { // the hub folds the tail itself
			t.Errorf("%+v lag %v", seen(f), f.Lag)
		}
	})
}

// contract: S06, W-17
func TestHub_QuietReconnect(t *testing.T) {
	t.Parallel()
	play(t, 9, live.Config{}, func(s *scene) {
		st := s.watchAt(at(9), "e1")
		s.expect(st, isLive(9))
		s.wire.deliver(theRun, live.Delivery{Confirmed: true}) // the bus reconnected
		s.expect(st, sight{live.Verifying, live.Reconnected, 9, 9, false}, isLive(9))
		s.silent(st, 5*time.Second)
	})
}

// contract: W-17
func TestHub_ClientAhead(t *testing.T) {
	t.Parallel()
	play(t, 9, live.Config{}, func(s *scene) {
		st := s.watchAt(at(12), "e1")
		f := s.next(st)
		if seen(f) != (sight{live.Resyncing, "", 9, 9, true}) || f.From != 0 || !f.Changed {
			t.Errorf("%+v from %d", seen(f), f.From)
		}
		s.expect(st, isLive(9))
	})
}

// contract: S07, T213
func TestHub_PhantomIsDropped(t *testing.T) {
	t.Parallel()
	play(t, 9, live.Config{}, func(s *scene) {
		st := s.watch()
		s.expect(st, isLive(9))
		m := s.archive.message(theRun, 8, 9)
		m.From, m.To, m.Delta.From, m.Delta.To = 98, 99, 98, 99
		s.send(m)
		s.expect(st, sight{live.Stale, live.Gap, 9, 99, false}, sight{live.Resyncing, live.Gap, 9, 99, false}, isLive(9))
		if n := s.archive.count(); n != 3 {
			t.Errorf("%d reads, want the first and two", n)
		}
		s.step()
		s.expect(st, isLive(10))
	})
}

// contract: T188
func TestHub_UnreadableMessagesAreNotices(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*live.Message){
		"no delta":         func(m *live.Message) { m.Delta = nil },
		"another version":  func(m *live.Message) { m.V = 2 },
		"another revision": func(m *live.Message) { m.Rev++ },
		"another epoch":    func(m *live.Message) { m.Epoch = "e0" },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			play(t, 10, live.Config{}, func(s *scene) {
				st := s.watch()
				s.expect(st, isLive(10))
				s.archive.grow(theRun, 2)
				m := s.archive.message(theRun, 10, 12)
				change(&m)
				s.send(m)
				f := s.next(st)
				if seen(f) != isLive(12) {
					t.Errorf("%+v", seen(f))
				}
				s.equal(f)
				s.silent(st, 3*time.Second)
				if n := s.archive.count(); n != 2 {
					t.Errorf("%d reads, want one for the notice", n-1)
				}
			})
		})
	}
}

// contract: T206
func TestHub_OverflowIsOneReadAndNotStale(t *testing.T) {
	t.Parallel()
	play(t, 10, live.Config{}, func(s *scene) {
		st := s.watch()
		s.expect(st, isLive(10))
		s.archive.grow(theRun, 5)
		m := s.archive.message(theRun, 14, 15)
		s.wire.deliver(theRun, live.Delivery{Overflow: true, Message: &m})
		s.expect(st, isLive(15))
		s.silent(st, 3*time.Second)
		if n := s.archive.count(); n != 2 {
			t.Errorf("%d reads, want one for the overflow", n-1)
		}
	})
}

// contract: T187
func TestHub_AheadOfTheLogCostsFewReads(t *testing.T) {
	t.Parallel()
	play(t, 10, live.Config{}, func(s *scene) {
		s.watch()
		done := make(chan *live.Stream, 100)
		for range 100 {
			go func() { done <- s.watchAt(at(1000), "e1") }()
		}
		for range 100 {
			s.expect(<-done, sight{live.Resyncing, "", 10, 10, true}, isLive(10))
		}
		if n := s.archive.count(); n > 3 {
			t.Errorf("%d reads for 100 viewers", n)
		}
		before := s.archive.count()
		for range 200 { // one after the other
			time.Sleep(time.Millisecond)
			go func() { s.watchAt(at(1000), "e1"); done <- nil }()
		}
		for range 200 {
			<-done
		}
		if n := s.archive.count() - before; n > 6 {
			t.Errorf("%d reads for 200 viewers within 200 ms", n)
		}
	})
}
