package live_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/dvt-engine/dvt/live"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// contract: T34
func TestHub_CommittedAtIsSaidByReadsMessagesAndHeadChecks(t *testing.T) {
	t.Parallel()
	play(t, 10, live.Config{}, func(s *scene) {
		committed := func(n run.Seq) time.Time { return s.archive.runs[theRun].at[n-1] }
		time.Sleep(300 * time.Millisecond)
		st := s.watch()
		if f := s.next(st); !f.CommittedAt.Equal(committed(10)) {
			t.Errorf("read: %v, want %v", f.CommittedAt, committed(10))
		}
		s.archive.grow(theRun, 1)
		m := s.archive.message(theRun, 10, 11)
		time.Sleep(10 * time.Millisecond)
		s.send(m)
		if f := s.next(st); !f.CommittedAt.Equal(committed(11)) {
			t.Errorf("message: %v, want %v", f.CommittedAt, committed(11))
		}
		s.archive.grow(theRun, 1)
		m = s.archive.message(theRun, 11, 12)
		told := m.CommittedAt
		m.CommittedAt = time.Time{} // of a server before this field
		s.send(m)
		if f := s.next(st); !f.CommittedAt.IsZero() {
			t.Errorf("a message without it: %v", f.CommittedAt)
		}
		if f := s.next(st); f.Changed || !f.CommittedAt.Equal(told) { // quiet; the head check knew
			t.Errorf("head check: %v, want %v", f.CommittedAt, told)
		}
		s.archive.grow(theRun, 1)
		m = s.archive.message(theRun, 12, 13)
		told, m.CommittedAt = m.CommittedAt, time.Time{}
		s.send(m)
		m.CommittedAt = told
		s.send(m) // again, by another projector
		if f := s.next(st); !f.CommittedAt.IsZero() {
			t.Errorf("the first of two: %v", f.CommittedAt)
		}
		if f := s.next(st); !f.CommittedAt.Equal(told) {
			t.Errorf("the second of two: %v, want %v", f.CommittedAt, told)
		}
	})
}

// A server whose clock is wrong says the same as one whose clock is right.
// contract: T34
func TestHub_OnlyTheStoresClockIsSaid(t *testing.T) {
	t.Parallel()
	for _, off := range []time.Duration{0, time.Minute, -time.Minute} {
		t.Run(off.String(), func(t *testing.T) {
			t.Parallel()
			var slow atomic.Bool
			r := prometheus.NewRegistry()
			cfg := live.Config{Metrics: r, Now: func() time.Time { return time.Now().Add(off) }}
			play(t, 10, cfg, func(s *scene) {
				if !s.hub.Now().IsZero() {
					t.Error("the store's time is known before the first read")
				}
				s.archive.set(func() {
					s.archive.clock = -3 * time.Hour
					s.archive.delay = func() time.Duration {
						if slow.Load() {
							return 100 * time.Millisecond
						}
						return time.Millisecond
					}
				})
				st := s.watch()
				s.expect(st, isLive(10))
				right := func(within time.Duration) {
					t.Helper()
					if d := s.hub.Now().Sub(s.archive.now()).Abs(); d > within {
						t.Errorf("the store's time is %v off", d)
					}
				}
				right(time.Millisecond)
				slow.Store(true) // reads that take longer tell less
				time.Sleep(time.Minute)
				right(time.Millisecond)
				slow.Store(false)
				s.archive.set(func() { s.archive.clock = 5 * time.Hour }) // the clock was set
				time.Sleep(2 * time.Second)
				right(time.Millisecond)

				s.archive.grow(theRun, 1)
				m := s.archive.message(theRun, 10, 11)
				time.Sleep(20 * time.Millisecond)
				s.send(m)
				for f := s.next(st); f.State.Seq < 11; f = s.next(st) {
				}
				if n, sum := histogram(t, r, "dvt_commit_to_frame_seconds"); n != 1 || sum < .019 || sum > .022 {
					t.Errorf("%d latencies of %v s in all, want one of 0.02", n, sum)
				}
				s.archive.set(func() { s.archive.stuck = true })
				s.archive.grow(theRun, 3)
				lost := time.Now()
				f := s.next(st)
				for ; f.Sync == live.Live; f = s.next(st) {
				}
				if d := time.Since(lost); f.Reason != live.TailLoss || f.Lag < d-2*time.Millisecond || f.Lag > d+
					2*time.Millisecond {
					t.Errorf("%s with a lag of %v after %v", f.Reason, f.Lag, d)
				}
				for range 6 { // and it grows
					f = s.next(st)
					if d := time.Since(lost); f.Sync == live.Live || f.Lag < d-2*time.Millisecond || f.Lag > d+2*time.Millisecond {
						t.Errorf("%+v with a lag of %v after %v", seen(f), f.Lag, d)
					}
				}
				s.archive.fail(store.ErrUnavailable) // nothing but quiet frames
				for d := time.Duration(0); d < 20*time.Second; d = time.Since(lost) {
					f = s.next(st)
				}
				if d := time.Since(lost); f.Sync != live.Stale || f.Lag < d-2*time.Millisecond || f.Lag > d+2*time.Millisecond {
					t.Errorf("%+v with a lag of %v after %v", seen(f), f.Lag, d)
				}
				s.archive.fail(nil)
				s.archive.set(func() { s.archive.stuck = false })
			})
		})
	}
}

// Head checks are answered, a read is not: viewers hear of it before it is given up.
// contract: T226
func TestHub_AReadThatHangsIsSaid(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		lose   func(*scene)
		want   sight
		within time.Duration
	}{
		"of a notice": {func(s *scene) {
			m := s.archive.message(theRun, 10, 11)
			m.Delta = nil
			s.send(m)
		}, sight{live.Stale, live.StoreDown, 10, 10, false}, time.Second},
		"of a full mailbox": {func(s *scene) {
			s.wire.deliver(theRun, live.Delivery{Overflow: true})
		}, sight{live.Stale, live.StoreDown, 10, 10, false}, time.Second},
		"of a poll": {func(s *scene) { s.wire.setUp(false) }, sight{live.Stale, live.StoreDown, 10, 10, false},
			2 * time.Second},
		"of the last message": {func(*scene) {}, sight{live.Stale, live.TailLoss, 10, 11, false}, 3 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			play(t, 10, live.Config{ReadTimeout: time.Minute}, func(s *scene) {
				st := s.watch()
				s.expect(st, isLive(10))
				time.Sleep(1010 * time.Millisecond) // just after a head check
				s.archive.set(func() { s.archive.stuck = true })
				s.archive.grow(theRun, 1)
				began := time.Now()
				c.lose(s)
				s.expect(st, c.want)
				if d := time.Since(began); d > c.within {
					t.Errorf("said after %v", d)
				}
			})
		})
	}
}

// A store that does not answer is not waited for again by each who wants to read.
// contract: T226
func TestHub_AStoreThatIsDownIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	play(t, 10, live.Config{}, func(s *scene) {
		st := s.watch()
		s.expect(st, isLive(10))
		s.archive.set(func() { s.archive.hang = true })
		s.expect(st, sight{live.Stale, live.StoreDown, 10, 10, false})
		reads := s.archive.count()
		for range 50 {
			s.wire.deliver(theRun, live.Delivery{Overflow: true})
			s.wire.deliver(theRun, live.Delivery{Confirmed: true})
			time.Sleep(100 * time.Millisecond)
		}
		if n := s.archive.count() - reads; n != 0 {
			t.Errorf("%d reads", n)
		}
		s.silent(st, 5*time.Second)
		s.archive.set(func() { s.archive.hang = false })
		s.expect(st, sight{live.Verifying, live.StoreDown, 10, 10, false}, isLive(10))
	})
}

// More runs than one query takes: the last ones hear of it as soon as the first.
// contract: T226
func TestHub_StoreDownIsSaidToAllRuns(t *testing.T) {
	t.Parallel()
	play(t, 10, live.Config{}, func(s *scene) {
		const runs = store.MaxHeads + 1
		streams := make([]*live.Stream, runs)
		var all sync.WaitGroup
		for i := range streams {
			id := fmt.Sprint("run-", i)
			s.archive.create(id, 1)
			all.Go(func() {
				var err error
				if streams[i], err = s.hub.Watch(s.Context(), id, nil, ""); err == nil {
					_, err = streams[i].Next(s.Context())
				}
				if err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		time.Sleep(1010 * time.Millisecond)
		s.archive.set(func() { s.archive.hang = true })
		began := time.Now()
		var late atomic.Int32
		for _, st := range streams {
			all.Go(func() {
				if f, err := st.Next(s.Context()); err != nil || f.Sync != live.Stale || time.Since(began) > 2*time.Second {
					late.Add(1)
				}
			})
		}
		all.Wait()
		if n := late.Load(); n > 0 {
			t.Errorf("%d of %d heard late", n, runs)
		}
	})
}

// contract: S14
func TestStream_ALateReaderGetsTheNewestAndNoBacklog(t *testing.T) {
	t.Parallel()
	play(t, 10, live.Config{}, func(s *scene) {
		st := s.watch()
		s.expect(st, isLive(10))
		s.archive.grow(theRun, 2)
		s.send(s.archive.message(theRun, 11, 12))
		time.Sleep(1100 * time.Millisecond)
		s.step()
		f := s.next(st)
		if seen(f) != (sight{live.Live, live.SlowConsumer, 13, 13, false}) || f.From != 10 || !f.Changed {
			t.Errorf("%+v from %d, changed %v", seen(f), f.From, f.Changed)
		}
		s.silent(st, time.Second)
		// What happens while it reads it hears of, whole.
		s.archive.grow(theRun, 2)
		s.send(s.archive.message(theRun, 14, 15))
		time.Sleep(900 * time.Millisecond)
		s.expect(st, sight{live.Stale, live.Gap, 13, 15, false}, sight{live.Resyncing, live.Gap, 13, 15, false}, isLive(15))
	})
}

// A reset that waits for its viewer is heard, whatever else happens before it reads.
// contract: T30
func TestStream_AResetIsNeverSwallowed(t *testing.T) {
	t.Parallel()
	for _, then := range []string{"nothing", "another one", "gaps", "time"} {
		t.Run(then, func(t *testing.T) {
			t.Parallel()
			play(t, 120, live.Config{}, func(s *scene) {
				st, fresh := s.watch(), s.watch()
				s.expect(st, isLive(120))
				s.archive.diverge(theRun, 100, "e2")
				time.Sleep(1100 * time.Millisecond)
				last := s.next(fresh) // which has not read anything yet
				if !last.Reset || last.State.Seq != 100 {
					t.Errorf("%+v", seen(last))
				}
				switch then {
				case "another one":
					s.archive.diverge(theRun, 90, "e3")
					time.Sleep(1100 * time.Millisecond)
				case "gaps":
					for range 5 {
						s.archive.grow(theRun, 2)
						head := s.archive.head(theRun)
						s.send(s.archive.message(theRun, head-1, head))
					}
				case "time":
					time.Sleep(time.Minute)
				}
				f := s.next(st)
				resets := f.Reset
				if !f.Reset || f.From != 0 || !f.Changed {
					t.Errorf("%+v from %d, changed %v", seen(f), f.From, f.Changed)
				}
				for f.Sync != live.Live || f.State.Seq != s.archive.head(theRun) || f.Epoch != s.archive.epoch {
					before := f.State.Seq
					if f = s.next(st); !f.Reset && f.From != before {
						t.Errorf("from %d after %d", f.From, before)
					}
				}
				s.equal(f)
				if !resets {
					t.Error("no frame said reset")
				}
			})
		})
	}
}

// What does not change the state does not hide that it changed.
// contract: O9
func TestStream_AFrameWithoutNewsSwallowsNone(t *testing.T) {
	t.Parallel()
	play(t, 10, live.Config{}, func(s *scene) {
		st := s.watchAt(at(10), "e1")
		s.archive.set(func() { s.archive.runs[theRun].ops++ })
		s.send(s.archive.message(theRun, 10, 10))
		if f := s.next(st); !f.Changed || f.OpsRev != 1 {
			t.Errorf("the first frame: changed %v, ops %d", f.Changed, f.OpsRev)
		}
	})
	r := rand.New(rand.NewPCG(1, 2))
	for range 50 {
		play(t, 10, live.Config{}, func(s *scene) {
			st := s.watch()
			state := s.next(st).State
			for range 20 {
				for range r.IntN(5) {
					switch r.IntN(4) {
					case 0:
						s.step()
					case 1: // the operational state alone
						s.archive.set(func() { s.archive.runs[theRun].ops++ })
						head := s.archive.head(theRun)
						s.send(s.archive.message(theRun, head, head))
					case 2: // a head above what anybody has
						head := s.archive.head(theRun)
						m := s.archive.message(theRun, head-1, head)
						m.From, m.To, m.Delta = head+50, head+60, &run.Delta{From: head + 50, To: head + 60}
						s.send(m)
					case 3:
						time.Sleep(15 * time.Second) // something quiet, if it were read
					}
				}
				if r.IntN(2) == 0 {
					continue
				}
				for state.Seq < s.archive.head(theRun) {
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
						t.Fatalf("%+v, changed %v, the viewer is left at %d", seen(f), f.Changed, state.Seq)
					}
				}
			}
		})
	}
}

// TestHub_MassReconnect opens 10,000 viewers of 200 runs at once, half of
// whom had a place, and counts what the store is asked.
// contract: T125, T173
func TestHub_MassReconnect(t *testing.T) {
	t.Parallel()
	const runs, viewers = 200, 10000
	ids := make([]string, runs)
	for i := range ids {
		ids[i] = fmt.Sprintf("run-%03d", i)
	}
	for _, delay := range []time.Duration{0, 20 * time.Millisecond} {
		t.Run(fmt.Sprint("a store that takes ", delay), func(t *testing.T) {
			t.Parallel()
			play(t, 10, live.Config{}, func(s *scene) {
				s.archive.set(func() { s.archive.delay = func() time.Duration { return delay } })
				for _, id := range ids {
					s.archive.create(id, 20)
				}
				var all sync.WaitGroup
				var ahead, at, below atomic.Int32
				streams := make([]*live.Stream, viewers)
				for i := range streams {
					all.Go(func() {
						var after *run.Seq
						want := run.Seq(20)
						if i%2 == 0 { // at the head, below it, and where another server already was
							place := run.Seq(20 + (i/2/runs)%3 - 1)
							after = &place
						}
						st, err := s.hub.Watch(s.Context(), ids[i/2%runs], after, "e1")
						if err != nil {
							t.Error(err)
							return
						}
						streams[i] = st
						f, err := st.Next(s.Context())
						switch {
						case err != nil, f.State.Seq != want:
							t.Errorf("%+v %v", seen(f), err)
						case after == nil:
						case *after > want:
							ahead.Add(1)
							if !f.Reset {
								t.Errorf("ahead of the store without a reset: %+v", seen(f))
							}
						case f.From != *after || seen(f) != isLive(want):
							t.Errorf("after %d: %+v from %d", *after, seen(f), f.From)
						case *after == want:
							at.Add(1)
						default:
							below.Add(1)
						}
					})
				}
				all.Wait()
				reads, checks := s.archive.count(), s.archive.headChecks()
				t.Logf("opened %d viewers of %d runs, %d at the head, %d below, %d ahead: %d reads, %d head checks, %d "+
					"subscriptions",
					viewers, runs, at.Load(), below.Load(), ahead.Load(), reads, checks, s.wire.opened)
				if n := ahead.Load() + at.Load() + below.Load(); n != viewers/2 || ahead.Load() == 0 || at.Load() == 0 ||
					below.Load() == 0 {
					t.Fatalf("%d viewers had a place", n)
				}
				// One to begin with, and one for all who were ahead, were they there already or came
				// during the first one.
				if reads > 3*runs || s.wire.opened != runs {
					t.Errorf("%d reads and %d subscriptions for %d runs", reads, s.wire.opened, runs)
				}

				// The bus is lost with what every run does meanwhile, and comes back: one read a
				// run, and one more for each run that moved if there was time to poll.
				head := run.Seq(20)
				for _, lost := range []struct {
					time  time.Duration
					reads int
				}{{100 * time.Millisecond, runs}, {800 * time.Millisecond, 2 * runs}} {
					// Between two looks at the bus and before the next head check.
					time.Sleep(time.Until(time.Now().Truncate(time.Second).Add(1060 * time.Millisecond)))
					reads := s.archive.count()
					s.wire.setUp(false)
					s.wire.cut()
					for _, id := range ids {
						s.archive.grow(id, 1)
					}
					head++
					time.Sleep(lost.time)
					s.wire.setUp(true)
					for _, id := range ids {
						s.wire.deliver(id, live.Delivery{Confirmed: true})
					}
					for _, st := range streams {
						all.Go(func() {
							for {
								f, err := st.Next(s.Context())
								if err != nil {
									t.Error(err)
									return
								}
								if f.Sync == live.Live && f.State.Seq == head && f.Reason == "" {
									return
								}
							}
						})
					}
					all.Wait()
					n := s.archive.count() - reads
					t.Logf("the bus was lost for %v: %d reads", lost.time, n)
					if n != lost.reads {
						t.Errorf("%d reads after the bus was lost for %v, want %d", n, lost.time, lost.reads)
					}
				}
			})
		})
	}
}

func TestHub_MetricsCountWhatIsShown(t *testing.T) {
	t.Parallel()
	r := prometheus.NewRegistry()
	play(t, 10, live.Config{Metrics: r}, func(s *scene) {
		a, b := s.watch(), s.watch()
		s.expect(a, isLive(10))
		s.expect(b, isLive(10))
		is := func(want map[string]float64) {
			t.Helper()
			got := samples(t, r)
			for name, n := range want {
				if got[name] != n {
					t.Errorf("%s is %v, want %v", name, got[name], n)
				}
			}
		}
		is(map[string]float64{`dvt_frames_total live`: 2, `dvt_viewers live`: 2, `dvt_stream_frames_conflated_total`: 0})
		s.step()
		s.expect(a, isLive(11))
		s.step()
		s.expect(a, isLive(12))
		is(map[string]float64{`dvt_frames_total live`: 4, `dvt_stream_frames_conflated_total`: 1})
		if n, _ := histogram(t, r, "dvt_commit_to_frame_seconds"); n != 2 {
			t.Errorf("%d latencies, want those of two frames: the first ones are as old as the run", n)
		}
		s.expect(b, isLive(12))
		s.next(a) // quiet
		is(map[string]float64{`dvt_frames_total quiet`: 1})
		b.Close()
		is(map[string]float64{`dvt_viewers live`: 1})
		s.archive.grow(theRun, 2)
		s.send(s.archive.message(theRun, 13, 14))
		s.expect(a, sight{live.Stale, live.Gap, 12, 14, false})
		is(map[string]float64{`dvt_viewers live`: 0, `dvt_viewers stale`: 1, `dvt_resyncs_total gap`: 1})
		s.expect(a, sight{live.Resyncing, live.Gap, 12, 14, false}, isLive(14))
		s.archive.grow(theRun, 1)
		s.expect(a, sight{live.Stale, live.TailLoss, 14, 15, false}, sight{live.Resyncing, live.TailLoss, 14, 15, false},
			isLive(15))
		is(map[string]float64{`dvt_resyncs_total tail_loss`: 1, `dvt_head_check_missed_total`: 1})
		s.wire.deliver(theRun, live.Delivery{Confirmed: true})
		s.expect(a, sight{live.Verifying, live.Reconnected, 15, 15, false}, isLive(15))
		s.archive.restore(theRun, 11, "e2")
		s.expect(a, sight{live.Resyncing, live.EpochChanged, 11, 11, true}, isLive(11))
		is(map[string]float64{
			`dvt_resyncs_total reconnected`: 1, `dvt_resyncs_total epoch_changed`: 1, `dvt_frames_total reset`: 1,
			`dvt_frames_total resyncing`: 2, `dvt_frames_total verifying`: 1, `dvt_frames_total stale`: 2,
			`dvt_head_check_missed_total`: 1,
		})
		s.wire.deliver(theRun, live.Delivery{Overflow: true})
		synctest.Wait()
		s.archive.fail(store.ErrUnavailable)
		s.expect(a, sight{live.Stale, live.StoreDown, 11, 11, false})
		s.archive.fail(nil)
		s.expect(a, sight{live.Verifying, live.StoreDown, 11, 11, false})
		is(map[string]float64{`dvt_resyncs_total overflow`: 1, `dvt_resyncs_total store_down`: 1, `dvt_viewers verifying`: 1})
		a.Close()
		for sync := range map[string]bool{"live": true, "stale": true, "verifying": true, "resyncing": true} {
			is(map[string]float64{"dvt_viewers " + sync: 0})
		}
	})
}

// samples are counters and gauges by name and label value.
func samples(t *testing.T, r prometheus.Gatherer) map[string]float64 {
	t.Helper()
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]float64{}
	for _, f := range families {
		for _, m := range f.Metric {
			name := f.GetName()
			for _, l := range m.Label {
				name += " " + l.GetValue()
			}
			out[name] = m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
	}
	return out
}

func histogram(t *testing.T, r prometheus.Gatherer, name string) (n uint64, sum float64) {
	t.Helper()
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name {
			return f.Metric[0].Histogram.GetSampleCount(), f.Metric[0].Histogram.GetSampleSum()
		}
	}
	t.Fatalf("no %s", name)
	return 0, 0
}
