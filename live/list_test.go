package live_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
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

func (g *gallery) expect(s *live.ListStream, want ...notice) {
	g.Helper()
	var got []notice
	for range want {
		got = append(got, told(g.next(s)))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		g.Fatalf("frames (-want +got):\n%s", diff)
	}
}

// within expects the next frame within d.
func (g *gallery) within(d time.Duration, s *live.ListStream, want notice) live.ListFrame {
	g.Helper()
	began := time.Now()
	f := g.next(s)
	if diff := cmp.Diff(want, told(f)); diff != "" {
		g.Fatalf("frame (-want +got):\n%s", diff)
	}
	if took := time.Since(began); took > d {
		g.Fatalf("%+v after %s, want %s", want, took, d)
	}
	return f
}

// Rows enter, change, leave and push others out, of a filtered page.
func TestLists_T186_EnterChangeLeave(t *testing.T) {
	exhibit(t, live.ListsConfig{}, func(g *gallery) {
		for n := range 3 {
			g.shelf.put(n+1, run.Running)
		}
		s := g.watch(only(3, run.Running, run.Paused))
		g.expect(s, notice{Sync: live.Live, Rows: "3:running 2:running 1:running", Reset: true})
		g.change(2, run.Paused)
		g.expect(s, notice{Sync: live.Live, Rows: "2:paused"})
		g.change(4, run.Running)
		g.expect(s, notice{Sync: live.Live, Rows: "4:running", Removed: "1"})
		g.change(3, run.Completed)
		g.expect(s, notice{Sync: live.Live, Rows: "1:running", Removed: "3"})
		g.shelf.putIn("p2", 5, run.Running)
		g.change(1, run.Running)
		g.expect(s, notice{Sync: live.Live, Rows: "1:running"})
		g.change(0, run.Running) // sorts behind the last of a full page
		g.change(9, run.Completed)
		g.silent(s, 3*time.Second)
	})
}

// A full page has rows in reserve; when they are used up it reads those after its last.
func TestLists_ReadsAPageOnlyWhenItMust(t *testing.T) {
	exhibit(t, live.ListsConfig{}, func(g *gallery) {
		for n := range 40 {
			g.shelf.put(n+1, run.Running)
		}
		s := g.watch(only(4, run.Running))
		g.expect(s, notice{Sync: live.Live, Rows: "40:running 39:running 38:running 37:running", Reset: true})
		g.shelf.reads()
		for n := 40; n > 10; n-- {
			g.change(n, run.Completed)
			g.expect(s, notice{Sync: live.Live, Rows: fmt.Sprint(n-4, ":running"), Removed: fmt.Sprint(n)})
			time.Sleep(100 * time.Millisecond)
		}
		// 7 rows are kept for 4: every fourth loss costs one read.
		if _, changes, lists := g.shelf.reads(); changes != 30 || lists != 7 {
			t.Errorf("30 losses: %d reads of changes, %d of the page", changes, lists)
		}
		for n := 10; n > 0; n-- { // nobody looks
			g.change(n, run.Completed)
			time.Sleep(100 * time.Millisecond)
		}
		g.expect(s, notice{Sync: live.Live, Removed: "10 9 8 7"})
		g.shelf.reads()
		g.change(50, run.Running) // the page is empty, and known to be
		g.expect(s, notice{Sync: live.Live, Rows: "50:running"})
		if _, _, lists := g.shelf.reads(); lists != 0 {
			t.Errorf("%d reads of a page that has all there is", lists)
		}
	})
}

// The reserve is what follows the page, without holes, however it came to be.
func TestLists_TheReserveHasNoHoles(t *testing.T) {
	exhibit(t, live.ListsConfig{}, func(g *gallery) {
		s := g.watch(only(2, run.Running)) // keeps 4
		g.expect(s, notice{Sync: live.Live, Reset: true})
		for n := range 10 { // they enter a page that had all there is
			g.change(n+1, run.Running)
			time.Sleep(150 * time.Millisecond)
		}
		g.expect(s, notice{Sync: live.Live, Rows: "10:running 9:running"})
		g.change(10, run.Completed) // one in reserve is left, behind it is room
		g.expect(s, notice{Sync: live.Live, Rows: "8:running", Removed: "10"})
		time.Sleep(150 * time.Millisecond)
		g.change(3, run.Running) // and this one is not the next
		for n := 9; n > 2; n-- {
			time.Sleep(150 * time.Millisecond)
			g.change(n, run.Completed)
			g.expect(s, notice{Sync: live.Live, Rows: fmt.Sprint(n-2, ":running"), Removed: fmt.Sprint(n)})
		}
	})
}

// The cost of a change does not know of viewers, of pages, or of how many runs there are.
func TestLists_StatementsPerChange(t *testing.T) {
	for _, runs := range []int{10, 5000} {
		for _, n := range []int{1, 100, 1000} {
			t.Run(fmt.Sprintf("%d runs, %d viewers of %d pages", runs, 2*n, n), func(t *testing.T) {
				exhibit(t, live.ListsConfig{}, func(g *gallery) {
					for i := range runs {
						g.shelf.put(i+1, run.Running)
					}
					var streams []*live.ListStream
					for i := range n {
						f := only(5)
						f.CreatedTo = time.Unix(100_000+int64(i), 0) // a page of its own
						streams = append(streams, g.watch(f), g.watch(f))
					}
					for _, s := range streams {
						g.next(s)
					}
					synctest.Wait()
					g.shelf.reads()
					const many = 8
					for i := range many {
						g.change(runs-i%3, run.Paused)
						for _, s := range streams {
							g.within(100*time.Millisecond, s, notice{Sync: live.Live, Rows: fmt.Sprint(runs-i%3, ":paused")})
						}
					}
					heads, changes, lists := g.shelf.reads()
					t.Logf("%d changes: %d of what changed, %d of pages, %d of the epoch and the clock", many, changes, lists, heads)
					if changes != many || lists != 0 || heads > many+1 { // one check of the store may fall in between
						t.Error("a change costs more than it should")
					}
				})
			})
		}
	}
}

// Wake-ups within 100 ms are one look; the first one looks at once.
func TestLists_WakeUpsCoalesce(t *testing.T) {
	exhibit(t, live.ListsConfig{}, func(g *gallery) {
		s := g.watch(only(5))
		g.expect(s, notice{Sync: live.Live, Reset: true})
		time.Sleep(time.Second)
		g.shelf.reads()
		g.change(1, run.Running)
		g.within(0, s, notice{Sync: live.Live, Rows: "1:running"})
		for range 200 {
			g.change(1, run.Running)
			time.Sleep(5 * time.Millisecond)
		}
		if _, changes, _ := g.shelf.reads(); changes < 10 || changes > 11 {
			t.Errorf("%d looks at 200 wake-ups in a second", changes)
		}
	})
}

// While nothing is said a list looks every 5 s, and every second without a bus.
func TestLists_T127_T226_NetAndPoll(t *testing.T) {
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
func TestLists_T125_LostWakeUp(t *testing.T) {
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

func TestLists_T226_StoreDownAndBack(t *testing.T) {
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

func TestLists_T30_AnotherHistory(t *testing.T) {
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
		if diff := cmp.Diff(notice{Sync: live.Live, Rows: "2:completed", Reset: true}, told(f)); diff != "" || time.Since(reset) > 2*time.Second {
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

// A slow viewer gets the newest page, one frame.
func TestLists_O9_SlowViewer(t *testing.T) {
	exhibit(t, live.ListsConfig{}, func(g *gallery) {
		g.shelf.put(1, run.Running)
		g.shelf.put(2, run.Running)
		s := g.watch(only(2, run.Running))
		g.next(s)
		for n := range 300 {
			g.change(n+3, run.Running)
			g.change(1+n%2, run.Running)
			time.Sleep(150 * time.Millisecond)
		}
		g.change(302, run.Failed)
		time.Sleep(150 * time.Millisecond)
		g.expect(s, notice{Sync: live.Live, Rows: "301:running 300:running", Removed: "2 1"})
		g.silent(s, time.Second)
		g.change(301, run.Failed)
		g.shelf.put(301, run.Running)
		g.change(301, run.Running)
		time.Sleep(150 * time.Millisecond)
		g.expect(s, notice{Sync: live.Live, Rows: "301:running"}, notice{Sync: live.Live})
		g.change(301, run.Failed)
		time.Sleep(15 * time.Second)
		g.expect(s, notice{Sync: live.Live, Rows: "299:running", Removed: "301"})
	})
}

// Frames are never more than 15 s apart, and AsOf is never older than 6 s.
func TestLists_O9_Quiet(t *testing.T) {
	exhibit(t, live.ListsConfig{}, func(g *gallery) {
		s := g.watch(only(5))
		g.next(s)
		last := time.Now()
		for range 20 {
			f := g.next(s)
			if now := time.Now(); now.Sub(last) >= 15*time.Second || now.Sub(f.AsOf) > 6*time.Second || f.Sync != live.Live {
				g.Fatalf("%s after the frame before, %s old", now.Sub(last), now.Sub(f.AsOf))
			}
			last = time.Now()
		}
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

// After much more than a look may read, pages are read anew.
func TestLists_MoreChangedThanALookReads(t *testing.T) {
	exhibit(t, live.ListsConfig{}, func(g *gallery) {
		s := g.watch(only(2))
		g.next(s)
		synctest.Wait()
		g.shelf.reads()
		for n := range 40 * store.MaxPage {
			g.shelf.put(n+1, run.Running)
		}
		g.change(1, run.Paused)
		g.within(time.Second, s, notice{Sync: live.Live, Rows: "40000:running 39999:running", Reset: true})
		if _, changes, lists := g.shelf.reads(); changes > 17 || lists != 1 {
			t.Errorf("%d reads of changes, %d of the page", changes, lists)
		}
		g.change(40000, run.Failed)
		g.within(time.Second, s, notice{Sync: live.Live, Rows: "40000:failed"})
	})
}

func TestLists_Limits(t *testing.T) {
	exhibit(t, live.ListsConfig{MaxLists: 2, MaxPages: 3, MaxStreams: 5}, func(g *gallery) {
		refused := func(want error, f store.RunFilter) {
			t.Helper()
			if _, err := g.lists.Watch(f); !errors.Is(err, want) {
				t.Errorf("%v, want %v", err, want)
			}
		}
		for _, limit := range []int{0, -1, live.MaxListRows + 1} {
			refused(live.ErrBadPage, only(limit))
		}
		refused(live.ErrBadPage, store.RunFilter{Limit: 1, EveryTenant: true})
		g.watch(only(1))
		g.watch(only(2))
		third := g.watch(only(live.MaxListRows))
		refused(live.ErrTooMany, only(4)) // a fourth page
		g.watch(only(1))
		g.watch(store.RunFilter{TenantID: "t1", Limit: 1})
		refused(live.ErrTooMany, only(1)) // a sixth stream
		third.Close()
		third.Close()
		refused(live.ErrTooMany, store.RunFilter{TenantID: "t2", Limit: 1}) // a third list
		g.watch(only(4))
		if lists, pages, streams := g.lists.Watched(); lists != 2 || pages != 4 || streams != 5 {
			t.Errorf("%d lists, %d pages, %d streams", lists, pages, streams)
		}
	})
}

// When the last viewer has gone, nothing runs: the bubble would not end otherwise.
func TestLists_NothingIsLeft(t *testing.T) {
	exhibit(t, live.ListsConfig{}, func(g *gallery) {
		for range 3 {
			a, b, c := g.watch(only(1)), g.watch(only(2)), g.watch(store.RunFilter{TenantID: "t2", Limit: 1})
			g.next(a)
			a.Close()
			if _, err := a.Next(g.Context()); !errors.Is(err, live.ErrClosed) {
				t.Errorf("%v", err)
			}
			b.Close()
			c.Close()
			synctest.Wait()
			g.shelf.reads()
			time.Sleep(time.Minute)
			heads, changes, lists := g.shelf.reads()
			open, pages, streams := g.lists.Watched()
			if n := heads + changes + lists + open + pages + streams + len(g.bell.subs); n != 0 {
				t.Errorf("%d things are left", n)
			}
		}
	})
}

// Streams end with their last frame and a word, and nobody comes in any more.
func TestLists_Shutdown(t *testing.T) {
	exhibit(t, live.ListsConfig{}, func(g *gallery) {
		s := g.watch(only(1))
		g.next(s)
		time.Sleep(time.Second)
		g.change(1, run.Running)
		g.stop()
		g.expect(s, notice{Sync: live.Live, Rows: "1:running"})
		if _, err := s.Next(g.Context()); !errors.Is(err, live.ErrShutdown) {
			t.Errorf("%v", err)
		}
		if _, err := g.lists.Watch(only(1)); !errors.Is(err, live.ErrShutdown) {
			t.Errorf("%v", err)
		}
	})
}

func TestErrBadPage_SaysWhatIsAllowed(t *testing.T) {
	t.Parallel()
	if !strings.Contains(live.ErrBadPage.Error(), "1 to 200 rows") {
		t.Error(live.ErrBadPage)
	}
}
