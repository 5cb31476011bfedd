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
	runScenario(t, 10, live.Config{}, func(s *fixture) {
		st := s.watch()
		f := s.next(st)
		s.requireEqual(f)
		if got := summarize(f); got != isLive(10) || !f.Changed || f.From != 0 {
			t.Errorf("first frame %+v, changed %v from %d", got, f.Changed, f.From)
		}
		s.step()
		f = s.next(st)
		if got := summarize(f); got != isLive(11) || f.From != 10 {
			t.Errorf("second frame %+v from %d", got, f.From)
		}
		s.requireEqual(f)
		s.expectSilence(st, 10*time.Second)
	})
}

// contract: S01
func TestHub_NothingLostBetweenSubscribeAndRead(t *testing.T) {
	t.Parallel()
	runScenario(t, 10, live.Config{}, func(s *fixture) {
		s.bus.manual = true
		var st *live.Stream
		watching := make(chan struct{})
		go func() {
			st = s.watch()
			close(watching)
		}()
		synctest.Wait()
		if s.store.count() != 0 {
			t.Error("the store was read before the channel was confirmed")
		}
		s.store.set(func() {
			s.store.onRead = func() { // one event between the read and its answer
				s.store.set(func() { s.store.onRead = nil })
				s.store.grow(testRunID, 1)
				m := s.store.message(testRunID, 11, 12)
				s.bus.deliver(testRunID, live.Delivery{Message: &m})
			}
		})
		s.store.grow(testRunID, 1) // and one before it, whose message is lost
		s.bus.deliver(testRunID, live.Delivery{Confirmed: true})
		<-watching
		s.expect(st, isLive(12))
		s.send(s.store.message(testRunID, 10, 11))
		s.send(s.store.message(testRunID, 11, 12))
		s.expectSilence(st, 5*time.Second)
	})
}

// contract: T206
func TestHub_UnconfirmedChannelIsPolledAndHeals(t *testing.T) {
	t.Parallel()
	runScenario(t, 10, live.Config{}, func(s *fixture) {
		s.bus.manual = true
		st := s.watch()
		s.expect(st, frameSummary{live.Live, live.BusDegraded, 10, 10, false})
		s.store.grow(testRunID, 1)
		s.expect(st, frameSummary{live.Live, live.BusDegraded, 11, 11, false})
		s.bus.deliver(testRunID, live.Delivery{Confirmed: true})
		s.expect(st, isLive(11)) // the first confirmation is not a reconnect
		s.expectSilence(st, 3*time.Second)
	})
}

// gap delivers event 12 while the state is at 10.
func gap(s *fixture, st *live.Stream) {
	s.Helper()
	s.expect(st, isLive(10))
	reads := s.store.count()
	s.store.grow(testRunID, 2)
	s.send(s.store.message(testRunID, 11, 12))
	s.expect(st,
		frameSummary{live.Stale, live.Gap, 10, 12, false},
		frameSummary{live.Resyncing, live.Gap, 10, 12, false},
		isLive(12))
	if n := s.store.count() - reads; n != 1 {
		s.Errorf("%d reads of the store, want 1", n)
	}
}

// contract: S02, W-4
func TestHub_LostMiddleMessageCausesAResync(t *testing.T) {
	t.Parallel()
	runScenario(t, 10, live.Config{}, func(s *fixture) {
		st := s.watch()
		gap(s, st)
		s.expectSilence(st, 5*time.Second)
	})
}

// contract: S03, W-3
func TestHub_MessagesOutOfOrderCauseOneResync(t *testing.T) {
	t.Parallel()
	runScenario(t, 10, live.Config{}, func(s *fixture) {
		st := s.watch()
		gap(s, st)
		time.Sleep(300 * time.Millisecond)
		s.send(s.store.message(testRunID, 10, 11))
		s.expectSilence(st, 5*time.Second)
		if n := s.store.count(); n != 2 {
			t.Errorf("%d reads, want the first and one resync", n)
		}
	})
}

// contract: S04, W-2
func TestHub_DuplicatesAreOneUpdate(t *testing.T) {
	t.Parallel()
	runScenario(t, 5, live.Config{}, func(s *fixture) {
		st := s.watch()
		s.expect(st, isLive(5))
		s.store.grow(testRunID, 1)
		for range 3 {
			s.send(s.store.message(testRunID, 5, 6))
		}
		s.expect(st, isLive(6))
		s.expectSilence(st, 3300*time.Millisecond) // offset from head checks, which would be older than the next frame
		s.step()
		s.expect(st, isLive(7))
		s.expectSilence(st, 3*time.Second)
		if n := s.store.count(); n != 1 {
			t.Errorf("%d reads, want only the first", n)
		}
	})
}

// contract: T188
func TestHub_OverlapIsApplied(t *testing.T) {
	t.Parallel()
	runScenario(t, 10, live.Config{}, func(s *fixture) {
		st := s.watch()
		s.expect(st, isLive(10))
		s.store.grow(testRunID, 3)
		s.send(s.store.message(testRunID, 4, 13))
		f := s.next(st)
		if summarize(f) != isLive(13) {
			t.Errorf("got %+v", summarize(f))
		}
		s.requireEqual(f)
	})
}

// contract: S05, W-4
func TestHub_HeadCheckFindsALostLastMessage(t *testing.T) {
	t.Parallel()
	runScenario(t, len(firstVariant())-1, live.Config{}, func(s *fixture) {
		last := run.Seq(len(firstVariant()))
		st := s.watch()
		s.expect(st, isLive(last-1))
		time.Sleep(1100 * time.Millisecond) // just after a head check
		lost := time.Now()
		s.store.grow(testRunID, 1)
		s.expect(st, frameSummary{live.Stale, live.TailLoss, last - 1, last, false})
		if d := time.Since(lost); d > 3*time.Second {
			t.Errorf("TAIL_LOSS was shown after %v", d)
		}
		s.expect(st, frameSummary{live.Resyncing, live.TailLoss, last - 1, last, false})
		f := s.next(st)
		if summarize(f) != isLive(last) || f.State.Status != run.Completed {
			t.Errorf("the frame is %+v with status %s, want LIVE at %d and COMPLETED", summarize(f), f.State.Status, last)
		}
		f = s.next(st) // the stream of a finished run stays open (contract T226)
		if summarize(f) != isLive(last) || f.Changed {
			t.Errorf("quiet frame %+v, changed %v", summarize(f), f.Changed)
		}
	})
}

// A head check found an event whose message came soon after. The next one finds a lost event, and must not take it for
// the first: the wait for a late message begins with it.
// contract: T226
func TestHub_EachHeadCheckCanFindALoss(t *testing.T) {
	t.Parallel()
	runScenario(t, 2, live.Config{}, func(s *fixture) {
		st := s.watch()
		s.expect(st, isLive(2))
		time.Sleep(950 * time.Millisecond)
		s.store.grow(testRunID, 1)
		time.Sleep(150 * time.Millisecond) // the head check after one second sees it
		s.send(s.store.message(testRunID, 2, 3))
		s.expect(st, isLive(3))
		lost := time.Now()
		s.store.grow(testRunID, 1)
		s.expect(st, frameSummary{live.Stale, live.TailLoss, 3, 4, false})
		if d := time.Since(lost); d > 1500*time.Millisecond {
			t.Errorf("TAIL_LOSS was shown after %v, want half a second after the next head check", d)
		}
	})
}

// contract: T187
func TestHub_BusyRunIsNotTailLoss(t *testing.T) {
	t.Parallel()
	runScenario(t, 2, live.Config{}, func(s *fixture) {
		st := s.watch()
		s.expect(st, isLive(2))
		for range 100 { // each message arrives 400 ms after its event
			head := s.store.head(testRunID)
			s.store.grow(testRunID, 1)
			time.Sleep(400 * time.Millisecond)
			s.send(s.store.message(testRunID, head, head+1))
			s.expect(st, isLive(head+1))
		}
		if n := s.store.count(); n != 1 {
			t.Errorf("%d reads, want 1", n)
		}
	})
}

// contract: T187
func TestHub_ProjectorLagIsNotALoss(t *testing.T) {
	t.Parallel()
	runScenario(t, 10, live.Config{}, func(s *fixture) {
		st := s.watch()
		s.expect(st, isLive(10))
		s.store.set(func() { s.store.runs[testRunID].checkpoint = 10 })
		s.store.grow(testRunID, 2)
		f := s.next(st)
		if summarize(f) != (frameSummary{live.Stale, live.ProjectorLag, 10, 12, false}) || f.Lag != 3*time.Second {
			t.Errorf("the frame is %+v with a lag of %v, want STALE(PROJECTOR_LAG) and 3 s", summarize(f), f.Lag)
		}
		s.expect(st, frameSummary{live.Resyncing, live.ProjectorLag, 10, 12, false})
		if f = s.next(st); summarize(f) != isLive(12) || f.Lag != 0 { // the hub folds the unprojected events itself
			t.Errorf("the frame is %+v with a lag of %v, want LIVE at 12 without lag", summarize(f), f.Lag)
		}
	})
}

// contract: S06, W-17
func TestHub_ReconnectWithoutChangesIsVerified(t *testing.T) {
	t.Parallel()
	runScenario(t, 9, live.Config{}, func(s *fixture) {
		st := s.watchAt(at(9), "e1")
		s.expect(st, isLive(9))
		s.bus.deliver(testRunID, live.Delivery{Confirmed: true}) // the bus reconnected
		s.expect(st, frameSummary{live.Verifying, live.Reconnected, 9, 9, false}, isLive(9))
		s.expectSilence(st, 5*time.Second)
	})
}

// contract: W-17
func TestHub_ViewerAheadOfTheLogIsReset(t *testing.T) {
	t.Parallel()
	runScenario(t, 9, live.Config{}, func(s *fixture) {
		st := s.watchAt(at(12), "e1")
		f := s.next(st)
		if summarize(f) != (frameSummary{live.Resyncing, "", 9, 9, true}) || f.From != 0 || !f.Changed {
			t.Errorf("the first frame is %+v from %d, want a reset to 9", summarize(f), f.From)
		}
		s.expect(st, isLive(9))
	})
}

// contract: S07, T213
func TestHub_PhantomIsDropped(t *testing.T) {
	t.Parallel()
	runScenario(t, 9, live.Config{}, func(s *fixture) {
		st := s.watch()
		s.expect(st, isLive(9))
		m := s.store.message(testRunID, 8, 9)
		m.From, m.To, m.Delta.From, m.Delta.To = 98, 99, 98, 99
		s.send(m)
		s.expect(st, frameSummary{live.Stale, live.Gap, 9, 99, false}, frameSummary{live.Resyncing, live.Gap, 9, 99,
			false}, isLive(9))
		if n := s.store.count(); n != 3 {
			t.Errorf("%d reads, want the first and two more", n)
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
			runScenario(t, 10, live.Config{}, func(s *fixture) {
				st := s.watch()
				s.expect(st, isLive(10))
				s.store.grow(testRunID, 2)
				m := s.store.message(testRunID, 10, 12)
				change(&m)
				s.send(m)
				f := s.next(st)
				if summarize(f) != isLive(12) {
					t.Errorf("the frame is %+v, want LIVE at 12", summarize(f))
				}
				s.requireEqual(f)
				s.expectSilence(st, 3*time.Second)
				if n := s.store.count(); n != 2 {
					t.Errorf("%d reads, want one for the notice", n-1)
				}
			})
		})
	}
}

// contract: T206
func TestHub_OverflowCausesOneReadAndNoStaleFrame(t *testing.T) {
	t.Parallel()
	runScenario(t, 10, live.Config{}, func(s *fixture) {
		st := s.watch()
		s.expect(st, isLive(10))
		s.store.grow(testRunID, 5)
		m := s.store.message(testRunID, 14, 15)
		s.bus.deliver(testRunID, live.Delivery{Overflow: true, Message: &m})
		s.expect(st, isLive(15))
		s.expectSilence(st, 3*time.Second)
		if n := s.store.count(); n != 2 {
			t.Errorf("%d reads, want one for the overflow", n-1)
		}
	})
}

// contract: T187
func TestHub_ViewersAheadOfTheLogShareReads(t *testing.T) {
	t.Parallel()
	runScenario(t, 10, live.Config{}, func(s *fixture) {
		s.watch()
		done := make(chan *live.Stream, 100)
		for range 100 {
			go func() { done <- s.watchAt(at(1000), "e1") }()
		}
		for range 100 {
			s.expect(<-done, frameSummary{live.Resyncing, "", 10, 10, true}, isLive(10))
		}
		if n := s.store.count(); n > 3 {
			t.Errorf("%d reads for 100 concurrent viewers, want at most 3", n)
		}
		before := s.store.count()
		for range 200 { // sequentially
			time.Sleep(time.Millisecond)
			go func() { s.watchAt(at(1000), "e1"); done <- nil }()
		}
		for range 200 {
			<-done
		}
		if n := s.store.count() - before; n > 6 {
			t.Errorf("%d reads for 200 viewers within 200 ms, want at most 6", n)
		}
	})
}
