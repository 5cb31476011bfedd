package live_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dvt-engine/dvt/live"
	"github.com/dvt-engine/dvt/run"
)

// contract: T173
func TestHub_OneSubscriptionForAThousandStreams(t *testing.T) {
	t.Parallel()
	runScenario(t, 10, live.Config{}, func(s *fixture) {
		streams := make(chan *live.Stream, 1000)
		for range 1000 {
			go func() { streams <- s.watch() }()
		}
		var all []*live.Stream
		for range 1000 {
			all = append(all, <-streams)
		}
		if runs, n := s.hub.Watched(); runs != 1 || n != 1000 || s.bus.opened != 1 || s.store.count() != 1 {
			t.Errorf("%d runs, %d streams, %d subscriptions, %d reads", runs, n, s.bus.opened, s.store.count())
		}
		s.step()
		for _, st := range all {
			s.expect(st, isLive(11))
			st.Close()
			st.Close()
		}
		synctest.Wait()
		if runs, n := s.hub.Watched(); runs != 0 || n != 0 || s.bus.openSubscriptions() != 0 {
			t.Errorf("%d runs, %d streams, %d subscriptions left", runs, n, s.bus.openSubscriptions())
		}
		s.store.grow(testRunID, 1)
		s.expect(s.watch(), isLive(12)) // a new entry reads the store
	})
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
