package live_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

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
// contract: T186
func TestLists_EnterChangeLeave(t *testing.T) {
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

// A slow viewer gets the newest page, one frame.
// contract: O9
func TestLists_SlowViewer(t *testing.T) {
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
// contract: O9
func TestLists_Quiet(t *testing.T) {
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
