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

func at(seq run.Seq) *run.Seq { return &seq }

func TestHub_S01_FirstFrameIsLive(t *testing.T) {
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

func TestHub_S01_NothingLostBetweenSubscribeAndRead(t *testing.T) {
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

func TestHub_T206_UnconfirmedChannelIsPolledAndHeals(t *testing.T) {
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

func TestHub_S02_W4_LostMiddleMessage(t *testing.T) {
	t.Parallel()
	play(t, 10, live.Config{}, func(s *scene) {
		st := s.watch()
		gap(s, st)
		s.silent(st, 5*time.Second)
	})
}

func TestHub_S03_W3_OutOfOrder(t *testing.T) {
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

func TestHub_S04_W2_DuplicatesAreOneUpdate(t *testing.T) {
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

func TestHub_T188_OverlapIsApplied(t *testing.T) {
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

func TestHub_S05_W4_LostLastMessage(t *testing.T) {
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

func TestHub_T187_ABusyRunIsNotTailLoss(t *testing.T) {
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

func TestHub_T187_ProjectorLag(t *testing.T) {
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

func TestHub_S06_W17_QuietReconnect(t *testing.T) {
	t.Parallel()
	play(t, 9, live.Config{}, func(s *scene) {
		st := s.watchAt(at(9), "e1")
		s.expect(st, isLive(9))
		s.wire.deliver(theRun, live.Delivery{Confirmed: true}) // the bus reconnected
		s.expect(st, sight{live.Verifying, live.Reconnected, 9, 9, false}, isLive(9))
		s.silent(st, 5*time.Second)
	})
}

func TestHub_W17_ClientAhead(t *testing.T) {
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

func TestHub_S07_T213_PhantomIsDropped(t *testing.T) {
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

func TestHub_S08_StuckReadIsNeverLive(t *testing.T) {
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
		s.expect(st, sight{live.Stale, live.Gap, 10, 12, false}, sight{live.Resyncing, live.Gap, 10, 12, false}, sight{live.Stale, live.Gap, 10, 12, false})
		for range 3 { // quiet frames
			s.expect(st, sight{live.Stale, live.Gap, 10, 12, false})
		}
		s.archive.set(func() { s.archive.skew = nil })
		s.expect(st, isLive(12))
	})
}

func TestHub_S09_T33_RunsDoNotDelayEachOther(t *testing.T) {
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

func TestHub_S13_T30_Restore(t *testing.T) {
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

func TestHub_T187_After(t *testing.T) {
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

func TestHub_O9_QuietFrames(t *testing.T) {
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
			if seen(f) != isLive(9) || f.Changed || f.From != 9 || !f.AsOf.After(last.AsOf) || time.Since(f.AsOf) > 2*time.Second {
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

func TestHub_T204_OperationalChangeAlone(t *testing.T) {
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

func TestHub_T188_UnreadableMessagesAreNotices(t *testing.T) {
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

func TestHub_T206_OverflowIsOneReadAndNotStale(t *testing.T) {
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

func TestHub_T176_T226_StoreDownAndBack(t *testing.T) {
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

func TestHub_T226_StoreDownIsSaidAlsoDuringASlowRead(t *testing.T) {
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

func TestHub_T127_S12_BusDegraded(t *testing.T) {
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

func TestHub_O5_SlowViewerGetsTheNewestState(t *testing.T) {
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

func TestHub_T173_OneSubscriptionForAThousandStreams(t *testing.T) {
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

func TestHub_T187_AheadOfTheLogCostsFewReads(t *testing.T) {
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
