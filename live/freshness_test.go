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
func TestHub_CommittedAtComesFromReadsMessagesAndHeadChecks(t *testing.T) {
	t.Parallel()
	runScenario(t, 10, live.Config{}, func(s *fixture) {
		committed := func(n run.Seq) time.Time { return s.store.runs[testRunID].at[n-1] }
		time.Sleep(300 * time.Millisecond)
		st := s.watch()
		if f := s.next(st); !f.CommittedAt.Equal(committed(10)) {
			t.Errorf("CommittedAt after a read is %v, want %v", f.CommittedAt, committed(10))
		}
		s.store.grow(testRunID, 1)
		m := s.store.message(testRunID, 10, 11)
		time.Sleep(10 * time.Millisecond)
		s.send(m)
		if f := s.next(st); !f.CommittedAt.Equal(committed(11)) {
			t.Errorf("CommittedAt after a message is %v, want %v", f.CommittedAt, committed(11))
		}
		s.store.grow(testRunID, 1)
		m = s.store.message(testRunID, 11, 12)
		told := m.CommittedAt
		m.CommittedAt = time.Time{} // from a server without this field
		s.send(m)
		if f := s.next(st); !f.CommittedAt.IsZero() {
			t.Errorf("CommittedAt after a message without it is %v, want zero", f.CommittedAt)
		}
		if f := s.next(st); f.Changed || !f.CommittedAt.Equal(told) { // quiet frame; a head check knew the time
			t.Errorf("CommittedAt after a head check is %v, want %v", f.CommittedAt, told)
		}
		s.store.grow(testRunID, 1)
		m = s.store.message(testRunID, 12, 13)
		told, m.CommittedAt = m.CommittedAt, time.Time{}
		s.send(m)
		m.CommittedAt = told
		s.send(m) // a second time, from another projector
		if f := s.next(st); !f.CommittedAt.IsZero() {
			t.Errorf("CommittedAt after the first of two messages is %v, want zero", f.CommittedAt)
		}
		if f := s.next(st); !f.CommittedAt.Equal(told) {
			t.Errorf("CommittedAt after the second of two messages is %v, want %v", f.CommittedAt, told)
		}
	})
}

// A server whose clock is wrong shows the same times as one whose clock is right.
// contract: T34
func TestHub_TimesComeFromTheStoresClock(t *testing.T) {
	t.Parallel()
	for _, off := range []time.Duration{0, time.Minute, -time.Minute} {
		t.Run(off.String(), func(t *testing.T) {
			t.Parallel()
			var slow atomic.Bool
			r := prometheus.NewRegistry()
			cfg := live.Config{Metrics: r, Now: func() time.Time { return time.Now().Add(off) }}
			runScenario(t, 10, cfg, func(s *fixture) {
				if !s.hub.Now().IsZero() {
					t.Error("Now before the first read is not zero")
				}
				s.store.set(func() {
					s.store.clock = -3 * time.Hour
					s.store.delay = func() time.Duration {
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
					if d := s.hub.Now().Sub(s.store.now()).Abs(); d > within {
						t.Errorf("Now differs from the store's time by %v", d)
					}
				}
				right(time.Millisecond)
				slow.Store(true) // longer reads are less precise
				time.Sleep(time.Minute)
				right(time.Millisecond)
				slow.Store(false)
				s.store.set(func() { s.store.clock = 5 * time.Hour }) // somebody set the clock
				time.Sleep(2 * time.Second)
				right(time.Millisecond)

				s.store.grow(testRunID, 1)
				m := s.store.message(testRunID, 10, 11)
				time.Sleep(20 * time.Millisecond)
				s.send(m)
				for f := s.next(st); f.State.Seq < 11; f = s.next(st) {
				}
				if n, sum := histogram(t, r, "dvt_commit_to_frame_seconds"); n != 1 || sum < .019 || sum > .022 {
					t.Errorf("%d latencies with a sum of %v s, want one of 0.02 s", n, sum)
				}
				s.store.set(func() { s.store.stuck = true })
				s.store.grow(testRunID, 3)
				lost := time.Now()
				f := s.next(st)
				for ; f.Sync == live.Live; f = s.next(st) {
				}
				if d := time.Since(lost); f.Reason != live.TailLoss || f.Lag < d-2*time.Millisecond || f.Lag > d+
					2*time.Millisecond {
					t.Errorf("%s with a lag of %v after %v", f.Reason, f.Lag, d)
				}
				for range 6 { // the lag grows
					f = s.next(st)
					if d := time.Since(lost); f.Sync == live.Live || f.Lag < d-2*time.Millisecond || f.Lag > d+2*time.Millisecond {
						t.Errorf("%+v with a lag of %v after %v", summarize(f), f.Lag, d)
					}
				}
				s.store.fail(store.ErrUnavailable) // only quiet frames follow
				for d := time.Duration(0); d < 20*time.Second; d = time.Since(lost) {
					f = s.next(st)
				}
				if d := time.Since(lost); f.Sync != live.Stale || f.Lag < d-2*time.Millisecond || f.Lag > d+2*time.Millisecond {
					t.Errorf("%+v with a lag of %v after %v", summarize(f), f.Lag, d)
				}
				s.store.fail(nil)
				s.store.set(func() { s.store.stuck = false })
			})
		})
	}
}

// A read hangs while head checks are answered: viewers see STALE before the read times out.
// contract: T226
func TestHub_HangingReadIsShownAsStale(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		lose   func(*fixture)
		want   frameSummary
		within time.Duration
	}{
		"after a notice": {func(s *fixture) {
			m := s.store.message(testRunID, 10, 11)
			m.Delta = nil
			s.send(m)
		}, frameSummary{live.Stale, live.StoreDown, 10, 10, false}, time.Second},
		"after a full mailbox": {func(s *fixture) {
			s.bus.deliver(testRunID, live.Delivery{Overflow: true})
		}, frameSummary{live.Stale, live.StoreDown, 10, 10, false}, time.Second},
		"while polling": {func(s *fixture) { s.bus.setUp(false) }, frameSummary{live.Stale, live.StoreDown, 10, 10, false},
			2 * time.Second},
		"after a lost last message": {func(*fixture) {}, frameSummary{live.Stale, live.TailLoss, 10, 11, false},
			3 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			runScenario(t, 10, live.Config{ReadTimeout: time.Minute}, func(s *fixture) {
				st := s.watch()
				s.expect(st, isLive(10))
				time.Sleep(1010 * time.Millisecond) // just after a head check
				s.store.set(func() { s.store.stuck = true })
				s.store.grow(testRunID, 1)
				began := time.Now()
				c.lose(s)
				s.expect(st, c.want)
				if d := time.Since(began); d > c.within {
					t.Errorf("the frame arrived after %v", d)
				}
			})
		})
	}
}

// While the store does not answer, further viewers do not each wait for it.
// contract: T226
func TestHub_UnavailableStoreIsNotReadAgain(t *testing.T) {
	t.Parallel()
	runScenario(t, 10, live.Config{}, func(s *fixture) {
		st := s.watch()
		s.expect(st, isLive(10))
		s.store.set(func() { s.store.hang = true })
		s.expect(st, frameSummary{live.Stale, live.StoreDown, 10, 10, false})
		reads := s.store.count()
		for range 50 {
			s.bus.deliver(testRunID, live.Delivery{Overflow: true})
			s.bus.deliver(testRunID, live.Delivery{Confirmed: true})
			time.Sleep(100 * time.Millisecond)
		}
		if n := s.store.count() - reads; n != 0 {
			t.Errorf("%d reads, too many while the store is down", n)
		}
		s.expectSilence(st, 5*time.Second)
		s.store.set(func() { s.store.hang = false })
		s.expect(st, frameSummary{live.Verifying, live.StoreDown, 10, 10, false}, isLive(10))
	})
}

// With more runs than one query takes, the last ones learn of the outage as soon as the first.
// contract: T226
func TestHub_StoreDownReachesAllRuns(t *testing.T) {
	t.Parallel()
	runScenario(t, 10, live.Config{}, func(s *fixture) {
		const runs = store.MaxHeads + 1
		streams := make([]*live.Stream, runs)
		var all sync.WaitGroup
		for i := range streams {
			id := fmt.Sprint("run-", i)
			s.store.create(id, 1)
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
		s.store.set(func() { s.store.hang = true })
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
			t.Errorf("%d of %d runs showed the outage late", n, runs)
		}
	})
}

// contract: S14
func TestStream_LateReaderGetsOnlyTheNewestState(t *testing.T) {
	t.Parallel()
	runScenario(t, 10, live.Config{}, func(s *fixture) {
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

// The test opens 10,000 viewers of 200 runs at once, half of them with a position, and counts the reads of the store.
// contract: T125, T173
func TestHub_MassReconnectCostsFewReads(t *testing.T) {
	t.Parallel()
	const runs, viewers = 200, 10000
	ids := make([]string, runs)
	for i := range ids {
		ids[i] = fmt.Sprintf("run-%03d", i)
	}
	for _, delay := range []time.Duration{0, 20 * time.Millisecond} {
		t.Run(fmt.Sprint("store latency ", delay), func(t *testing.T) {
			t.Parallel()
			runScenario(t, 10, live.Config{}, func(s *fixture) {
				s.store.set(func() { s.store.delay = func() time.Duration { return delay } })
				for _, id := range ids {
					s.store.create(id, 20)
				}
				var all sync.WaitGroup
				var ahead, at, below atomic.Int32
				streams := make([]*live.Stream, viewers)
				for i := range streams {
					all.Go(func() {
						var after *run.Seq
						want := run.Seq(20)
						if i%2 == 0 { // at the head, below it, or ahead as from another server
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
							t.Errorf("%+v %v", summarize(f), err)
						case after == nil:
						case *after > want:
							ahead.Add(1)
							if !f.Reset {
								t.Errorf("viewer ahead of the store got no reset: %+v", summarize(f))
							}
						case f.From != *after || summarize(f) != isLive(want):
							t.Errorf("after %d: %+v from %d", *after, summarize(f), f.From)
						case *after == want:
							at.Add(1)
						default:
							below.Add(1)
						}
					})
				}
				all.Wait()
				reads, checks := s.store.count(), s.store.headChecks()
				t.Logf("opened %d viewers of %d runs, %d at the head, %d below, %d ahead: %d reads, %d head checks, %d "+
					"subscriptions",
					viewers, runs, at.Load(), below.Load(), ahead.Load(), reads, checks, s.bus.opened)
				if n := ahead.Load() + at.Load() + below.Load(); n != viewers/2 || ahead.Load() == 0 || at.Load() == 0 ||
					below.Load() == 0 {
					t.Fatalf("%d viewers had a position", n)
				}
				// One read to start, one for all viewers that are ahead, and one for those that came during that read.
				if reads > 3*runs || s.bus.opened != runs {
					t.Errorf("%d reads and %d subscriptions for %d runs", reads, s.bus.opened, runs)
				}

				// The bus is lost while every run changes, and returns: one read for each run, and one more for each run that
				// changed if there was time to poll.
				head := run.Seq(20)
				for _, lost := range []struct {
					time  time.Duration
					reads int
				}{{100 * time.Millisecond, runs}, {800 * time.Millisecond, 2 * runs}} {
					// Between two checks of the bus and before the next head check.
					time.Sleep(time.Until(time.Now().Truncate(time.Second).Add(1060 * time.Millisecond)))
					reads := s.store.count()
					s.bus.setUp(false)
					s.bus.disconnect()
					for _, id := range ids {
						s.store.grow(id, 1)
					}
					head++
					time.Sleep(lost.time)
					s.bus.setUp(true)
					for _, id := range ids {
						s.bus.deliver(id, live.Delivery{Confirmed: true})
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
					n := s.store.count() - reads
					t.Logf("bus lost for %v: %d reads", lost.time, n)
					if n != lost.reads {
						t.Errorf("%d reads after the bus was lost for %v, want %d", n, lost.time, lost.reads)
					}
				}
			})
		})
	}
}

func TestHub_MetricsCountFramesAndViewers(t *testing.T) {
	t.Parallel()
	r := prometheus.NewRegistry()
	runScenario(t, 10, live.Config{Metrics: r}, func(s *fixture) {
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
			t.Errorf("%d latencies, want 2: first frames do not count", n)
		}
		s.expect(b, isLive(12))
		s.next(a) // a quiet frame
		is(map[string]float64{`dvt_frames_total quiet`: 1})
		b.Close()
		is(map[string]float64{`dvt_viewers live`: 1})
		s.store.grow(testRunID, 2)
		s.send(s.store.message(testRunID, 13, 14))
		s.expect(a, frameSummary{live.Stale, live.Gap, 12, 14, false})
		is(map[string]float64{`dvt_viewers live`: 0, `dvt_viewers stale`: 1, `dvt_resyncs_total gap`: 1})
		s.expect(a, frameSummary{live.Resyncing, live.Gap, 12, 14, false}, isLive(14))
		s.store.grow(testRunID, 1)
		s.expect(a, frameSummary{live.Stale, live.TailLoss, 14, 15, false}, frameSummary{live.Resyncing, live.TailLoss, 14,
			15, false},
			isLive(15))
		is(map[string]float64{`dvt_resyncs_total tail_loss`: 1, `dvt_head_check_missed_total`: 1})
		s.bus.deliver(testRunID, live.Delivery{Confirmed: true})
		s.expect(a, frameSummary{live.Verifying, live.Reconnected, 15, 15, false}, isLive(15))
		s.store.restore(testRunID, 11, "e2")
		s.expect(a, frameSummary{live.Resyncing, live.EpochChanged, 11, 11, true}, isLive(11))
		is(map[string]float64{
			`dvt_resyncs_total reconnected`: 1, `dvt_resyncs_total epoch_changed`: 1, `dvt_frames_total reset`: 1,
			`dvt_frames_total resyncing`: 2, `dvt_frames_total verifying`: 1, `dvt_frames_total stale`: 2,
			`dvt_head_check_missed_total`: 1,
		})
		s.bus.deliver(testRunID, live.Delivery{Overflow: true})
		synctest.Wait()
		s.store.fail(store.ErrUnavailable)
		s.expect(a, frameSummary{live.Stale, live.StoreDown, 11, 11, false})
		s.store.fail(nil)
		s.expect(a, frameSummary{live.Verifying, live.StoreDown, 11, 11, false})
		is(map[string]float64{`dvt_resyncs_total overflow`: 1, `dvt_resyncs_total store_down`: 1, `dvt_viewers verifying`: 1})
		a.Close()
		for sync := range map[string]bool{"live": true, "stale": true, "verifying": true, "resyncing": true} {
			is(map[string]float64{"dvt_viewers " + sync: 0})
		}
	})
}

// samples returns counters and gauges by name and label value.
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
	t.Fatalf("metric %s is missing", name)
	return 0, 0
}
