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

func (g *listFixture) expect(s *live.ListStream, want ...listSummary) {
	g.Helper()
	var got []listSummary
	for range want {
		got = append(got, summarizeList(g.next(s)))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		g.Fatalf("frames (-want +got):\n%s", diff)
	}
}

// within requires the next frame within d.
func (g *listFixture) within(d time.Duration, s *live.ListStream, want listSummary) live.ListFrame {
	g.Helper()
	began := time.Now()
	f := g.next(s)
	if diff := cmp.Diff(want, summarizeList(f)); diff != "" {
		g.Fatalf("frame (-want +got):\n%s", diff)
	}
	if took := time.Since(began); took > d {
		g.Fatalf("%+v after %s, want %s", want, took, d)
	}
	return f
}

// Rows enter, change, leave and displace others on a filtered page.
// contract: T186
func TestLists_RowsEnterChangeAndLeave(t *testing.T) {
	runListScenario(t, live.ListsConfig{}, func(g *listFixture) {
		for n := range 3 {
			g.store.put(n+1, run.Running)
		}
		s := g.watch(projectPage(3, run.Running, run.Paused))
		g.expect(s, listSummary{Sync: live.Live, Rows: "3:running 2:running 1:running", Reset: true})
		g.change(2, run.Paused)
		g.expect(s, listSummary{Sync: live.Live, Rows: "2:paused"})
		g.change(4, run.Running)
		g.expect(s, listSummary{Sync: live.Live, Rows: "4:running", Removed: "1"})
		g.change(3, run.Completed)
		g.expect(s, listSummary{Sync: live.Live, Rows: "1:running", Removed: "3"})
		g.store.putIn("p2", 5, run.Running)
		g.change(1, run.Running)
		g.expect(s, listSummary{Sync: live.Live, Rows: "1:running"})
		g.change(0, run.Running) // after the last row of a full page
		g.change(9, run.Completed)
		g.expectSilence(s, 3*time.Second)
	})
}

// A full page has rows in reserve. When they are used up, it reads the rows after its last one.
func TestLists_ReadsAPageOnlyWhenTheReserveIsEmpty(t *testing.T) {
	runListScenario(t, live.ListsConfig{}, func(g *listFixture) {
		for n := range 40 {
			g.store.put(n+1, run.Running)
		}
		s := g.watch(projectPage(4, run.Running))
		g.expect(s, listSummary{Sync: live.Live, Rows: "40:running 39:running 38:running 37:running", Reset: true})
		g.store.reads()
		for n := 40; n > 10; n-- {
			g.change(n, run.Completed)
			g.expect(s, listSummary{Sync: live.Live, Rows: fmt.Sprint(n-4, ":running"), Removed: fmt.Sprint(n)})
			time.Sleep(100 * time.Millisecond)
		}
		// 7 rows are kept for a page of 4, so every fourth removal costs one read.
		if _, changes, lists := g.store.reads(); changes != 30 || lists != 7 {
			t.Errorf("30 removals: %d reads of changes, %d of the page", changes, lists)
		}
		for n := 10; n > 0; n-- { // no frame is read meanwhile
			g.change(n, run.Completed)
			time.Sleep(100 * time.Millisecond)
		}
		g.expect(s, listSummary{Sync: live.Live, Removed: "10 9 8 7"})
		g.store.reads()
		g.change(50, run.Running) // the page is empty and known to be complete
		g.expect(s, listSummary{Sync: live.Live, Rows: "50:running"})
		if _, _, lists := g.store.reads(); lists != 0 {
			t.Errorf("%d reads of a complete page, want 0", lists)
		}
	})
}

// The reserve follows the page without gaps.
func TestLists_ReserveHasNoGaps(t *testing.T) {
	runListScenario(t, live.ListsConfig{}, func(g *listFixture) {
		s := g.watch(projectPage(2, run.Running)) // keeps 4 rows
		g.expect(s, listSummary{Sync: live.Live, Reset: true})
		for n := range 10 { // they enter a page that is complete
			g.change(n+1, run.Running)
			time.Sleep(150 * time.Millisecond)
		}
		g.expect(s, listSummary{Sync: live.Live, Rows: "10:running 9:running"})
		g.change(10, run.Completed) // one reserve row is left, and there is room for another
		g.expect(s, listSummary{Sync: live.Live, Rows: "8:running", Removed: "10"})
		time.Sleep(150 * time.Millisecond)
		g.change(3, run.Running) // this run is not the next in order
		for n := 9; n > 2; n-- {
			time.Sleep(150 * time.Millisecond)
			g.change(n, run.Completed)
			g.expect(s, listSummary{Sync: live.Live, Rows: fmt.Sprint(n-2, ":running"), Removed: fmt.Sprint(n)})
		}
	})
}

// The cost of a change does not depend on the number of viewers, pages or runs.
func TestLists_CostOfAChangeIsConstant(t *testing.T) {
	for _, runs := range []int{10, 5000} {
		for _, n := range []int{1, 100, 1000} {
			t.Run(fmt.Sprintf("%d runs, %d viewers of %d pages", runs, 2*n, n), func(t *testing.T) {
				runListScenario(t, live.ListsConfig{}, func(g *listFixture) {
					for i := range runs {
						g.store.put(i+1, run.Running)
					}
					var streams []*live.ListStream
					for i := range n {
						f := projectPage(5)
						f.CreatedTo = time.Unix(100_000+int64(i), 0) // gives each viewer its own page
						streams = append(streams, g.watch(f), g.watch(f))
					}
					for _, s := range streams {
						g.next(s)
					}
					synctest.Wait()
					g.store.reads()
					const many = 8
					for i := range many {
						g.change(runs-i%3, run.Paused)
						for _, s := range streams {
							g.within(100*time.Millisecond, s, listSummary{Sync: live.Live, Rows: fmt.Sprint(runs-i%3, ":paused")})
						}
					}
					heads, changes, lists := g.store.reads()
					t.Logf("%d changes: %d reads of changes, %d of pages, %d checks of the epoch", many, changes, lists, heads)
					if changes != many || lists != 0 || heads > many+1 { // one periodic check may fall into the measurement
						t.Error("a change must cost one read of changes and at most one check")
					}
				})
			})
		}
	}
}

// Wake-ups within 100 ms cause one read. The first one is not delayed.
func TestLists_WakeUpsCoalesce(t *testing.T) {
	runListScenario(t, live.ListsConfig{}, func(g *listFixture) {
		s := g.watch(projectPage(5))
		g.expect(s, listSummary{Sync: live.Live, Reset: true})
		time.Sleep(time.Second)
		g.store.reads()
		g.change(1, run.Running)
		g.within(0, s, listSummary{Sync: live.Live, Rows: "1:running"})
		for range 200 {
			g.change(1, run.Running)
			time.Sleep(5 * time.Millisecond)
		}
		if _, changes, _ := g.store.reads(); changes < 10 || changes > 11 {
			t.Errorf("%d reads for 200 wake-ups in one second, want 10 or 11", changes)
		}
	})
}

// A slow viewer gets the newest page in one frame.
// contract: O9
func TestLists_SlowViewerGetsTheNewestPage(t *testing.T) {
	runListScenario(t, live.ListsConfig{}, func(g *listFixture) {
		g.store.put(1, run.Running)
		g.store.put(2, run.Running)
		s := g.watch(projectPage(2, run.Running))
		g.next(s)
		for n := range 300 {
			g.change(n+3, run.Running)
			g.change(1+n%2, run.Running)
			time.Sleep(150 * time.Millisecond)
		}
		g.change(302, run.Failed)
		time.Sleep(150 * time.Millisecond)
		g.expect(s, listSummary{Sync: live.Live, Rows: "301:running 300:running", Removed: "2 1"})
		g.expectSilence(s, time.Second)
		g.change(301, run.Failed)
		g.store.put(301, run.Running)
		g.change(301, run.Running)
		time.Sleep(150 * time.Millisecond)
		g.expect(s, listSummary{Sync: live.Live, Rows: "301:running"}, listSummary{Sync: live.Live})
		g.change(301, run.Failed)
		time.Sleep(15 * time.Second)
		g.expect(s, listSummary{Sync: live.Live, Rows: "299:running", Removed: "301"})
	})
}

// Frames are at most 15 s apart, and AsOf is at most 6 s old.
// contract: O9
func TestLists_QuietFramesShowTheAge(t *testing.T) {
	runListScenario(t, live.ListsConfig{}, func(g *listFixture) {
		s := g.watch(projectPage(5))
		g.next(s)
		last := time.Now()
		for range 20 {
			f := g.next(s)
			if now := time.Now(); now.Sub(last) >= 15*time.Second || now.Sub(f.AsOf) > 6*time.Second || f.Sync != live.Live {
				g.Fatalf("%s after the previous frame, AsOf %s old", now.Sub(last), now.Sub(f.AsOf))
			}
			last = time.Now()
		}
	})
}

// After more changes than one look may read, pages are reloaded.
func TestLists_TooManyChangesReloadThePage(t *testing.T) {
	runListScenario(t, live.ListsConfig{}, func(g *listFixture) {
		s := g.watch(projectPage(2))
		g.next(s)
		synctest.Wait()
		g.store.reads()
		for n := range 40 * store.MaxPage {
			g.store.put(n+1, run.Running)
		}
		g.change(1, run.Paused)
		g.within(time.Second, s, listSummary{Sync: live.Live, Rows: "40000:running 39999:running", Reset: true})
		if _, changes, lists := g.store.reads(); changes > 17 || lists != 1 {
			t.Errorf("%d reads of changes and %d of the page, want at most 17 and 1", changes, lists)
		}
		g.change(40000, run.Failed)
		g.within(time.Second, s, listSummary{Sync: live.Live, Rows: "40000:failed"})
	})
}

func TestLists_LimitsAreEnforced(t *testing.T) {
	runListScenario(t, live.ListsConfig{MaxLists: 2, MaxPages: 3, MaxStreams: 5}, func(g *listFixture) {
		refused := func(want error, f store.RunFilter) {
			t.Helper()
			if _, err := g.lists.Watch(f); !errors.Is(err, want) {
				t.Errorf("Watch returned %v, want %v", err, want)
			}
		}
		for _, limit := range []int{0, -1, live.MaxListRows + 1} {
			refused(live.ErrBadPage, projectPage(limit))
		}
		refused(live.ErrBadPage, store.RunFilter{Limit: 1, EveryTenant: true})
		g.watch(projectPage(1))
		g.watch(projectPage(2))
		third := g.watch(projectPage(live.MaxListRows))
		refused(live.ErrTooMany, projectPage(4)) // a fourth page
		g.watch(projectPage(1))
		g.watch(store.RunFilter{TenantID: "t1", Limit: 1})
		refused(live.ErrTooMany, projectPage(1)) // a sixth stream
		third.Close()
		third.Close()
		refused(live.ErrTooMany, store.RunFilter{TenantID: "t2", Limit: 1}) // a third list
		g.watch(projectPage(4))
		if lists, pages, streams := g.lists.Watched(); lists != 2 || pages != 4 || streams != 5 {
			t.Errorf("%d lists, %d pages and %d streams are watched, want 2, 4 and 5", lists, pages, streams)
		}
	})
}

// After the last viewer leaves, nothing runs: otherwise the bubble would not end.
func TestLists_NothingRunsWithoutViewers(t *testing.T) {
	runListScenario(t, live.ListsConfig{}, func(g *listFixture) {
		for range 3 {
			a, b, c := g.watch(projectPage(1)), g.watch(projectPage(2)), g.watch(store.RunFilter{TenantID: "t2", Limit: 1})
			g.next(a)
			a.Close()
			if _, err := a.Next(g.Context()); !errors.Is(err, live.ErrClosed) {
				t.Errorf("Next returned %v", err)
			}
			b.Close()
			c.Close()
			synctest.Wait()
			g.store.reads()
			time.Sleep(time.Minute)
			heads, changes, lists := g.store.reads()
			open, pages, streams := g.lists.Watched()
			if n := heads + changes + lists + open + pages + streams + len(g.bus.subs); n != 0 {
				t.Errorf("%d entries are left, want 0", n)
			}
		}
	})
}

// On shutdown streams end with their last frame and ErrShutdown, and new viewers are refused.
func TestLists_ShutdownEndsStreams(t *testing.T) {
	runListScenario(t, live.ListsConfig{}, func(g *listFixture) {
		s := g.watch(projectPage(1))
		g.next(s)
		time.Sleep(time.Second)
		g.change(1, run.Running)
		g.stop()
		g.expect(s, listSummary{Sync: live.Live, Rows: "1:running"})
		if _, err := s.Next(g.Context()); !errors.Is(err, live.ErrShutdown) {
			t.Errorf("%v", err)
		}
		if _, err := g.lists.Watch(projectPage(1)); !errors.Is(err, live.ErrShutdown) {
			t.Errorf("%v", err)
		}
	})
}

func TestErrBadPage_NamesTheAllowedLimits(t *testing.T) {
	t.Parallel()
	if !strings.Contains(live.ErrBadPage.Error(), "1 to 200 rows") {
		t.Errorf("ErrBadPage is %q, want the allowed limits in it", live.ErrBadPage)
	}
}
