package live_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
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
