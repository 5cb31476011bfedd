package live_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/dvt-engine/dvt/live"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// Without wake-ups a list is read every 5 s, and every second without a bus.
// contract: T127, T226
func TestLists_AreReadWithoutWakeUps(t *testing.T) {
	r := prometheus.NewRegistry()
	runListScenario(t, live.ListsConfig{Metrics: r}, func(g *listFixture) {
		s := g.watch(projectPage(5))
		g.watch(projectPage(5, run.Running))
		g.expect(s, listSummary{Sync: live.Live, Reset: true})
		count := func(d time.Duration) int {
			synctest.Wait()
			g.store.reads()
			time.Sleep(d)
			heads, changes, _ := g.store.reads()
			if checks := int(d/time.Second) + 1; heads > checks {
				t.Errorf("%d other reads during %d reads of changes", heads-checks, changes)
			}
			return changes
		}
		if n := count(50 * time.Second); n < 9 || n > 10 {
			t.Errorf("%d reads of changes in 50 s of silence, want 9 or 10", n)
		}
		g.within(0, s, listSummary{Sync: live.Live})
		g.bus.setDown(true)
		g.within(2*time.Second, s, listSummary{Sync: live.Live, Reason: live.BusDegraded})
		if n := count(20 * time.Second); n < 19 || n > 20 {
			t.Errorf("%d reads of changes in 20 s without a bus, want 19 or 20", n)
		}
		g.within(0, s, listSummary{Sync: live.Live, Reason: live.BusDegraded})
		g.store.put(1, run.Running)
		g.within(time.Second, s, listSummary{Sync: live.Live, Reason: live.BusDegraded, Rows: "1:running"})
		g.bus.setDown(false)
		g.within(2*time.Second, s, listSummary{Sync: live.Live})
		g.change(1, run.Paused)
		g.within(100*time.Millisecond, s, listSummary{Sync: live.Live, Rows: "1:paused"})

		if n := metricValue(t, r, "dvt_list_pages", ""); n != 2 {
			t.Errorf("%v pages, want 2", n)
		}
		for cause, want := range map[string]float64{"wake": 1, "reset": 1, "net": 10, "poll": 20} {
			if n := metricValue(t, r, "dvt_list_looks_total", cause); n < want || n > want+3 {
				t.Errorf("%v reads because of %s, want %v", n, cause, want)
			}
		}
	})
}

// metricValue returns one value of a registry.
func metricValue(t *testing.T, r *prometheus.Registry, name, cause string) (n float64) {
	t.Helper()
	families, err := r.Gather()
	ok(t, err)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == name && (cause == "" || m.GetLabel()[0].GetValue() == cause) {
				n += m.GetGauge().GetValue() + m.GetCounter().GetValue()
			}
		}
	}
	return n
}

// A lost wake-up delays a change by at most NetInterval, and AsOf does not claim more.
// contract: T125
func TestLists_LostWakeUpDelaysAChangeAtMostNetInterval(t *testing.T) {
	runListScenario(t, live.ListsConfig{KeepAlive: time.Second}, func(g *listFixture) {
		s := g.watch(projectPage(5))
		g.expect(s, listSummary{Sync: live.Live, Reset: true})
		time.Sleep(2 * time.Second)
		g.store.put(1, run.Running)
		at := time.Now()
		for {
			f := g.next(s)
			if len(f.Rows) > 0 {
				if f.AsOf.Before(at) {
					t.Errorf("a row of %s is shown as of %s", at, f.AsOf)
				}
				break
			}
			if f.AsOf.After(at) {
				g.Fatalf("frame without the row is as of %s after it", f.AsOf.Sub(at))
			}
		}
		if took := time.Since(at); took > 5*time.Second {
			t.Errorf("the change was found after %s", took)
		}
	})
}

// contract: T226
func TestLists_StoreDownIsShownAndRecovers(t *testing.T) {
	for name, fault := range map[string]func(*fakeListStore){
		"refuses":                   func(s *fakeListStore) { s.err = store.ErrUnavailable },
		"hangs":                     func(s *fakeListStore) { s.hang = true },
		"hangs beyond the deadline": func(s *fakeListStore) { s.deaf = true },
		"fails":                     func(s *fakeListStore) { s.err = errors.New("disk image is malformed") },
	} {
		for _, wake := range []bool{false, true} {
			t.Run(fmt.Sprint(name, ", wake-ups ", wake), func(t *testing.T) {
				runListScenario(t, live.ListsConfig{}, func(g *listFixture) {
					g.store.put(1, run.Running)
					s := g.watch(projectPage(5))
					first := g.next(s)
					for round := range 5 {
						time.Sleep(time.Duration(round) * 1357 * time.Millisecond)
						g.store.set(func() { fault(g.store) })
						if wake {
							g.bus.ring(live.List{TenantID: "t1", ProjectID: "p1"})
						}
						f := g.within(2*time.Second, s, listSummary{Sync: live.Stale, Reason: live.StoreDown})
						if f.AsOf.After(time.Now().Add(-time.Millisecond)) || f.AsOf.Before(first.AsOf) {
							t.Errorf("STALE frame as of %s", f.AsOf)
						}
						late := g.watch(projectPage(5, run.Running)) // a viewer that joins now
						g.within(2*time.Second, late, listSummary{Sync: live.Stale, Reason: live.StoreDown})
						g.store.put(1, run.Running) // other servers still reach the store
						time.Sleep(30 * time.Second)
						g.within(0, s, listSummary{Sync: live.Stale, Reason: live.StoreDown}) // a quiet frame
						g.within(0, late, listSummary{Sync: live.Stale, Reason: live.StoreDown})
						g.store.set(func() { g.store.err, g.store.hang, g.store.deaf = nil, false, false })
						g.within(5*time.Second, s, listSummary{Sync: live.Live, Rows: "1:running"})
						g.within(5*time.Second, late, listSummary{Sync: live.Live, Rows: "1:running", Reset: true})
						late.Close()
					}
				})
			})
		}
	}
}

// contract: T30
func TestLists_AnotherHistoryResetsThePage(t *testing.T) {
	runListScenario(t, live.ListsConfig{}, func(g *listFixture) {
		g.store.put(1, run.Running)
		g.store.put(2, run.Completed)
		g.store.put(2, run.Completed)
		s := g.watch(projectPage(5))
		g.expect(s, listSummary{Sync: live.Live, Rows: "2:completed 1:running", Reset: true})
		time.Sleep(3300 * time.Millisecond)
		g.store.set(func() {
			g.store.epoch = "e2"
			delete(g.store.rows, "run-00001")
			g.store.rows["run-00002"].row.Header.Seq = 1
		})
		reset := time.Now()
		f := g.next(s)
		for ; f.Sync != live.Live && f.Reason == live.EpochChanged; f = g.next(s) {
			t.Logf("%+v", summarizeList(f)) // only if the viewer is as fast as the reads
		}
		if diff := cmp.Diff(listSummary{Sync: live.Live, Rows: "2:completed", Reset: true}, summarizeList(f)); diff != "" ||
			time.Since(reset) > 2*time.Second {
			t.Errorf("after %s (-want +got):\n%s", time.Since(reset), diff)
		}
		if f.Epoch != "e2" || f.Rows[0].Header.Seq != 1 {
			t.Errorf("the page is of epoch %s with a run at seq %d, want e2 and 1", f.Epoch, f.Rows[0].Header.Seq)
		}
		// The epoch changes between the read of changes and its check: rows of the new history must not be shown under the
		// old epoch.
		g.store.set(func() {
			g.store.onChanged = func() { g.store.set(func() { g.store.onChanged, g.store.epoch = nil, "e3" }) }
		})
		g.change(1, run.Running)
		for f.Epoch != "e3" {
			if f = g.next(s); f.Epoch == "e2" && len(f.Rows) > 0 {
				t.Errorf("rows of epoch e3 were shown under e2: %+v", summarizeList(f))
			}
		}
		// A restore without a new epoch: the log is shorter.
		time.Sleep(time.Second)
		g.store.set(func() {
			g.store.rows["run-00001"].row.Header.Seq = -1
			g.store.listError = func(context.Context, store.RunFilter) error { time.Sleep(time.Second); return nil }
		})
		g.change(1, run.Failed)
		g.within(0, s, listSummary{Sync: live.Resyncing, Reason: live.EpochChanged}) // depends on timing
		g.within(time.Second, s, listSummary{Sync: live.Live, Rows: "2:completed 1:failed", Reset: true})
	})
}

// An error or a slow query of one page does not affect other pages.
func TestLists_FailingPageDoesNotAffectOthers(t *testing.T) {
	errRefused := errors.New("no such text")
	runListScenario(t, live.ListsConfig{}, func(g *listFixture) {
		g.store.put(1, run.Running)
		var slow atomic.Bool
		var tries atomic.Int64
		slow.Store(true)
		g.store.set(func() {
			g.store.listError = func(ctx context.Context, f store.RunFilter) error {
				switch {
				case f.Text == "bad":
					return errRefused
				case f.Text == "run" && slow.Load():
					tries.Add(1)
					<-ctx.Done()
					return ctx.Err()
				}
				return nil
			}
		})
		named := func(text string) *live.ListStream {
			f := projectPage(5)
			f.Text = text
			return g.watch(f)
		}
		well := g.watch(projectPage(5))
		g.expect(well, listSummary{Sync: live.Live, Rows: "1:running", Reset: true})
		bad, long := named("bad"), named("run")
		if _, err := bad.Next(g.Context()); !errors.Is(err, errRefused) {
			t.Errorf("Next of the refused page returned %v, want errRefused", err)
		}
		g.within(3*time.Second, long, listSummary{Sync: live.Stale, Reason: live.StoreDown})
		began := time.Now()
		for n := range 20 {
			g.change(1, run.Running)
			g.within(2200*time.Millisecond, well, listSummary{Sync: live.Live, Rows: "1:running"})
			time.Sleep(time.Duration(n) * 100 * time.Millisecond)
		}
		if _, pages, _ := g.lists.Watched(); pages != 2 {
			t.Errorf("%d pages are watched, want 2", pages)
		}
		if n := tries.Load(); time.Duration(n-2)*4*time.Second > time.Since(began) { // 2 s for each try and 2 s of waiting
			t.Errorf("%d attempts in %s, want one in 4 s", n, time.Since(began))
		}
		slow.Store(false)
		repaired := time.Now()
		for f := g.next(long); f.Sync != live.Live; f = g.next(long) {
			if f.Reason != live.StoreDown || time.Since(repaired) > 5*time.Second {
				t.Errorf("%+v after %s", summarizeList(f), time.Since(repaired))
			}
		}
	})
}
