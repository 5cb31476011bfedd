package live_test

import (
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dvt-engine/dvt/live"
	"github.com/dvt-engine/dvt/run"
)

// contract: S14, R077
func TestStream_LateReaderGetsOnlyTheNewestState(t *testing.T) {
	t.Parallel()
	var gaps atomic.Int32
	runScenario(t, 10, live.Config{OnGap: func() { gaps.Add(1) }}, func(s *fixture) {
		st := s.watch()
		s.expect(st, isLive(10))
		s.store.grow(testRunID, 2)
		s.send(s.store.message(testRunID, 11, 12))
		time.Sleep(1100 * time.Millisecond)
		s.step()
		f := s.next(st)
		if summarize(f) != (frameSummary{live.Live, live.SlowConsumer, 13, 13, false}) || f.From != 10 || !f.Changed {
			t.Errorf("%+v from %d, changed %v", summarize(f), f.From, f.Changed)
		}
		s.expectSilence(st, time.Second)
		// Changes during its reads are all delivered.
		s.store.grow(testRunID, 2)
		s.send(s.store.message(testRunID, 14, 15))
		time.Sleep(900 * time.Millisecond)
		s.expect(st, frameSummary{live.Stale, live.Gap, 13, 15, false}, frameSummary{live.Resyncing, live.Gap, 13, 15,
			false}, isLive(15))
		if gaps.Load() == 0 {
			t.Error("the stream missed a message and reported no gap")
		}
	})
}

// A reset that waits for its viewer is delivered, whatever happens before it reads.
// contract: T30
func TestStream_ResetIsAlwaysDelivered(t *testing.T) {
	t.Parallel()
	for _, then := range []string{"nothing", "another one", "gaps", "time"} {
		t.Run(then, func(t *testing.T) {
			t.Parallel()
			runScenario(t, 120, live.Config{}, func(s *fixture) {
				st, fresh := s.watch(), s.watch()
				s.expect(st, isLive(120))
				s.store.diverge(testRunID, 100, "e2")
				time.Sleep(1100 * time.Millisecond)
				last := s.next(fresh) // it has not read anything yet
				if !last.Reset || last.State.Seq != 100 {
					t.Errorf("the last frame is %+v, want a reset to 100", summarize(last))
				}
				switch then {
				case "another one":
					s.store.diverge(testRunID, 90, "e3")
					time.Sleep(1100 * time.Millisecond)
				case "gaps":
					for range 5 {
						s.store.grow(testRunID, 2)
						head := s.store.head(testRunID)
						s.send(s.store.message(testRunID, head-1, head))
					}
				case "time":
					time.Sleep(time.Minute)
				}
				f := s.next(st)
				resets := f.Reset
				if !f.Reset || f.From != 0 || !f.Changed {
					t.Errorf("%+v from %d, changed %v", summarize(f), f.From, f.Changed)
				}
				for f.Sync != live.Live || f.State.Seq != s.store.head(testRunID) || f.Epoch != s.store.epoch {
					before := f.State.Seq
					if f = s.next(st); !f.Reset && f.From != before {
						t.Errorf("from %d after %d", f.From, before)
					}
				}
				s.requireEqual(f)
				if !resets {
					t.Error("no frame was a reset")
				}
			})
		})
	}
}

// A frame without changes does not hide the Changed mark of the one that it replaces.
// contract: O9
func TestStream_ConflationKeepsChanged(t *testing.T) {
	t.Parallel()
	runScenario(t, 10, live.Config{}, func(s *fixture) {
		st := s.watchAt(at(10), "e1")
		s.store.set(func() { s.store.runs[testRunID].ops++ })
		s.send(s.store.message(testRunID, 10, 10))
		if f := s.next(st); !f.Changed || f.OpsRev != 1 {
			t.Errorf("the first frame: changed %v, ops %d", f.Changed, f.OpsRev)
		}
	})
	r := rand.New(rand.NewPCG(1, 2))
	for range 50 {
		runScenario(t, 10, live.Config{}, func(s *fixture) {
			st := s.watch()
			state := s.next(st).State
			for range 20 {
				for range r.IntN(5) {
					switch r.IntN(4) {
					case 0:
						s.step()
					case 1: // only the operational state
						s.store.set(func() { s.store.runs[testRunID].ops++ })
						head := s.store.head(testRunID)
						s.send(s.store.message(testRunID, head, head))
					case 2: // a head above all known events
						head := s.store.head(testRunID)
						m := s.store.message(testRunID, head-1, head)
						m.From, m.To, m.Delta = head+50, head+60, &run.Delta{From: head + 50, To: head + 60}
						s.send(m)
					case 3:
						time.Sleep(15 * time.Second) // a quiet frame would be due if it were read
					}
				}
				if r.IntN(2) == 0 {
					continue
				}
				for state.Seq < s.store.head(testRunID) {
					f := s.next(st)
					if f.From != state.Seq {
						t.Fatalf("from %d, the viewer has %d", f.From, state.Seq)
					}
					if f.Changed {
						if next, verdict := state.Apply(f.State.Since(f.From)); verdict == run.Applied {
							state = next
						}
					}
					if state.Seq != f.State.Seq {
						t.Fatalf("%+v, changed %v, the viewer is left at %d", summarize(f), f.Changed, state.Seq)
					}
				}
			}
		})
	}
}
