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

// While nothing is said a list looks every 5 s, and every second without a bus.
// contract: T127, T226
func TestLists_NetAndPoll(t *testing.T) {
	r := prometheus.NewRegistry()
	exhibit(t, live.ListsConfig{Metrics: r}, func(g *gallery) {
		s := g.watch(only(5))
		g.watch(only(5, run.Running))
		g.expect(s, notice{Sync: live.Live, Reset: true})
		count := func(d time.Duration) int {
			synctest.Wait()
			g.shelf.reads()
			time.Sleep(d)
			heads, changes, _ := g.shelf.reads()
			if checks := int(d/time.Second) + 1; heads > checks {
				t.Errorf("%d reads beside %d looks at nothing new", heads-checks, changes)
			}
			return changes
		}
		if n := count(50 * time.Second); n < 9 || n > 10 {
			t.Errorf("%d looks in 50 s of silence", n)
		}
		g.within(0, s, notice{Sync: live.Live})
		g.bell.setDown(true)
		g.within(2*time.Second, s, notice{Sync: live.Live, Reason: live.BusDegraded})
		if n := count(20 * time.Second); n < 19 || n > 20 {
			t.Errorf("%d looks in 20 s without a bus", n)
		}
		g.within(0, s, notice{Sync: live.Live, Reason: live.BusDegraded})
		g.shelf.put(1, run.Running)
		g.within(time.Second, s, notice{Sync: live.Live, Reason: live.BusDegraded, Rows: "1:running"})
		g.bell.setDown(false)
		g.within(2*time.Second, s, notice{Sync: live.Live})
		g.change(1, run.Paused)
		g.within(100*time.Millisecond, s, notice{Sync: live.Live, Rows: "1:paused"})

		if n := gathered(t, r, "dvt_list_pages", ""); n != 2 {
			t.Errorf("%v pages", n)
		}
		for cause, want := range map[string]float64{"wake": 1, "reset": 1, "net": 10, "poll": 20} {
			if n := gathered(t, r, "dvt_list_looks_total", cause); n < want || n > want+3 {
				t.Errorf("%v looks because of %s, want %v", n, cause, want)
			}
		}
	})
}

// gathered is one value of a registry.
func gathered(t *testing.T, r *prometheus.Registry, name, cause string) (n float64) {
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

// A wake-up that is lost costs one net interval, and AsOf does not claim otherwise.
// contract: T125
func TestLists_LostWakeUp(t *testing.T) {
	exhibit(t, live.ListsConfig{Quiet: time.Second}, func(g *gallery) {
		s := g.watch(only(5))
		g.expect(s, notice{Sync: live.Live, Reset: true})
		time.Sleep(2 * time.Second)
		g.shelf.put(1, run.Running)
		at := time.Now()
		for {
			f := g.next(s)
			if len(f.Rows) > 0 {
				if f.AsOf.Before(at) {
					t.Errorf("a row of %s as of %s", at, f.AsOf)
				}
				break
			}
			if f.AsOf.After(at) {
				g.Fatalf("without the row as of %s after it", f.AsOf.Sub(at))
			}
		}
		if took := time.Since(at); took > 5*time.Second {
			t.Errorf("found after %s", took)
		}
	})
}

// contract: T226
func TestLists_StoreDownAndBack(t *testing.T) {
	for name, fault := range map[string]func(*shelf){
		"refuses": func(s *shelf) { s.err = store.ErrUnavailable },
		"hangs":   func(s *shelf) { s.hang = true },
		"is deaf": func(s *shelf) { s.deaf = true },
		"fails":   func(s *shelf) { s.err = errors.New("what is this?") },
	} {
		for _, wake := range []bool{false, true} {
			t.Run(fmt.Sprint(name, ", wake-ups ", wake), func(t *testing.T) {
				exhibit(t, live.ListsConfig{}, func(g *gallery) {
					g.shelf.put(1, run.Running)
					s := g.watch(only(5))
					first := g.next(s)
					for round := range 5 {
						time.Sleep(time.Duration(round) * 1357 * time.Millisecond)
						g.shelf.set(func() { fault(g.shelf) })
						if wake {
							g.bell.ring(live.List{TenantID: "t1", ProjectID: "p1"})
						}
						f := g.within(2*time.Second, s, notice{Sync: live.Stale, Reason: live.StoreDown})
						if f.AsOf.After(time.Now().Add(-time.Millisecond)) || f.AsOf.Before(first.AsOf) {
							t.Errorf("STALE as of %s", f.AsOf)
						}
						late := g.watch(only(5, run.Running)) // one who comes now
						g.within(2*time.Second, late, notice{Sync: live.Stale, Reason: live.StoreDown})
						g.shelf.put(1, run.Running) // by others who reach it
						time.Sleep(30 * time.Second)
						g.within(0, s, notice{Sync: live.Stale, Reason: live.StoreDown}) // quiet
						g.within(0, late, notice{Sync: live.Stale, Reason: live.StoreDown})
						g.shelf.set(func() { g.shelf.err, g.shelf.hang, g.shelf.deaf = nil, false, false })
						g.within(5*time.Second, s, notice{Sync: live.Live, Rows: "1:running"})
						g.within(5*time.Second, late, notice{Sync: live.Live, Rows: "1:running", Reset: true})
						late.Close()
					}
				})
			})
		}
	}
}

// contract: T30
func TestLists_AnotherHistory(t *testing.T) {
	exhibit(t, live.ListsConfig{}, func(g *gallery) {
		g.shelf.put(1, run.Running)
		g.shelf.put(2, run.Completed)
		g.shelf.put(2, run.Completed)
		s := g.watch(only(5))
		g.expect(s, notice{Sync: live.Live, Rows: "2:completed 1:running", Reset: true})
		time.Sleep(3300 * time.Millisecond)
		g.shelf.set(func() {
			g.shelf.epoch = "e2"
			delete(g.shelf.rows, "run-00001")
			g.shelf.rows["run-00002"].row.Header.Seq = 1
		})
		reset := time.Now()
		f := g.next(s)
		for ; f.Sync != live.Live && f.Reason == live.EpochChanged; f = g.next(s) {
			t.Logf("%+v", told(f)) // if the viewer is as quick as the reads
		}
		if diff := cmp.Diff(notice{Sync: live.Live, Rows: "2:completed", Reset: true}, told(f)); diff != "" ||
			time.Since(reset) > 2*time.Second {
			t.Errorf("after %s (-want +got):\n%s", time.Since(reset), diff)
		}
		if f.Epoch != "e2" || f.Rows[0].Header.Seq != 1 {
			t.Errorf("%s at %d", f.Epoch, f.Rows[0].Header.Seq)
		}
		// Between the look and its check of the epoch: nothing of the new history is shown as of the old one.
		g.shelf.set(func() {
			g.shelf.after = func() { g.shelf.set(func() { g.shelf.after, g.shelf.epoch = nil, "e3" }) }
		})
		g.change(1, run.Running)
		for f.Epoch != "e3" {
			if f = g.next(s); f.Epoch == "e2" && len(f.Rows) > 0 {
				t.Errorf("%+v", told(f))
			}
		}
		// A restore that nobody told of: the log is shorter, the epoch the same.
		time.Sleep(time.Second)
		g.shelf.set(func() {
			g.shelf.rows["run-00001"].row.Header.Seq = -1
			g.shelf.judge = func(context.Context, store.RunFilter) error { time.Sleep(time.Second); return nil }
		})
		g.change(1, run.Failed)
		g.within(0, s, notice{Sync: live.Resyncing, Reason: live.EpochChanged}) // it takes a moment
		g.within(time.Second, s, notice{Sync: live.Live, Rows: "2:completed 1:failed", Reset: true})
	})
}

// What one page costs the store is not another page's trouble.
func TestLists_OnePageInTrouble(t *testing.T) {
	errRefused := errors.New("no such text")
	exhibit(t, live.ListsConfig{}, func(g *gallery) {
		g.shelf.put(1, run.Running)
		var slow atomic.Bool
		var tries atomic.Int64
		slow.Store(true)
		g.shelf.set(func() {
			g.shelf.judge = func(ctx context.Context, f store.RunFilter) error {
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
			f := only(5)
			f.Text = text
			return g.watch(f)
		}
		well := g.watch(only(5))
		g.expect(well, notice{Sync: live.Live, Rows: "1:running", Reset: true})
		bad, long := named("bad"), named("run")
		if _, err := bad.Next(g.Context()); !errors.Is(err, errRefused) {
			t.Errorf("%v", err)
		}
		g.within(3*time.Second, long, notice{Sync: live.Stale, Reason: live.StoreDown})
		began := time.Now()
		for n := range 20 {
			g.change(1, run.Running)
			g.within(2200*time.Millisecond, well, notice{Sync: live.Live, Rows: "1:running"})
			time.Sleep(time.Duration(n) * 100 * time.Millisecond)
		}
		if _, pages, _ := g.lists.Watched(); pages != 2 {
			t.Errorf("%d pages", pages)
		}
		if n := tries.Load(); time.Duration(n-2)*4*time.Second > time.Since(began) { // 2 s of trying, 2 s of waiting
			t.Errorf("%d tries in %s", n, time.Since(began))
		}
		slow.Store(false)
		repaired := time.Now()
		for f := g.next(long); f.Sync != live.Live; f = g.next(long) {
			if f.Reason != live.StoreDown || time.Since(repaired) > 5*time.Second {
				t.Errorf("%+v after %s", told(f), time.Since(repaired))
			}
		}
	})
}
