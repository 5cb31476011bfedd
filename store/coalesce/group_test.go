package coalesce_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
	"github.com/dvt-engine/dvt/store/coalesce"
)

// crowd starts calls to a coalescing store one after the other and records their results by run.
type crowd struct {
	*testing.T
	log   store.Store
	began time.Time
	wg    sync.WaitGroup
	mu    sync.Mutex
	got   map[string]string
}

func newCrowd(t *testing.T, s *slow, cfg coalesce.Config) *crowd {
	return &crowd{T: t, log: coalesce.New(s, cfg), began: time.Now(), got: map[string]string{}}
}

// call starts an append of step to a run, and returns when the append waits.
func (c *crowd) call(ctx context.Context, runID, step string) {
	c.wg.Go(func() {
		out := at(c.T, c.log, ctx, runID, step, c.began)
		c.mu.Lock()
		defer c.mu.Unlock()
		c.got[runID] = out
	})
	synctest.Wait()
}

func (c *crowd) expect(writes []string, got map[string]string, s *slow) {
	c.Helper()
	c.wg.Wait()
	if diff := cmp.Diff(writes, s.writes); diff != "" {
		c.Errorf("writes (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(got, c.got); diff != "" {
		c.Errorf("answers (-want +got):\n%s", diff)
	}
}

// The first call is made at once and alone, the next ones as groups of one. Calls that arrive while MaxGroups groups
// are in progress share the next group.
func TestGroup_WaitingCallsOfSeveralRunsShareACommit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &slow{}
		c := newCrowd(t, s, coalesce.Config{MaxGroup: 3, MaxGroups: 2})
		for _, id := range []string{"a", "b", "c", "d", "e", "f", "g", "h"} {
			c.call(t.Context(), id, "s")
		}
		c.wg.Wait()
		// Two groups end at the same time, so the next two may be in either order.
		if s.writes[3] == "group: g h" {
			s.writes[3], s.writes[4] = s.writes[4], s.writes[3]
		}
		c.expect([]string{"a: s", "group: b", "group: c", "group: d e f", "group: g h"}, map[string]string{
			"a": "s after 1s", "b": "s after 1s", "c": "s after 1s", "d": "s after 2s", "e": "s after 2s", "f": "s after 2s",
			"g": "s after 2s", "h": "s after 2s",
		}, s)
		s.writes = nil
		if got := at(t, c.log, t.Context(), "later", "s", time.Now()); got != "s after 1s" || s.writes[0] != "later: s" {
			t.Errorf("a single call: %s, writes %v; want s after 1s, made alone", got, s.writes)
		}
	})
}

func TestGroup_HasAtMost64EntriesAndFourAtOnceByDefault(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &slow{}
		c := newCrowd(t, s, coalesce.Config{})
		for i := range 5 + 64 + 64 + 1 {
			c.call(t.Context(), fmt.Sprintf("r%03d", i), "s")
		}
		c.wg.Wait()
		sizes := map[int]int{}
		for _, line := range s.writes {
			sizes[(len(line)-len("group:"))/len(" r000")]++
		}
		if diff := cmp.Diff(map[int]int{0: 1, 1: 5, 64: 2}, sizes); diff != "" {
			t.Errorf("number of groups by size (-want +got):\n%s", diff)
		}
	})
}

func TestGroup_LimitsItsBytes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &slow{}
		log := coalesce.New(s, coalesce.Config{MaxGroupBytes: 100, MaxGroups: 1})
		var wg sync.WaitGroup
		for i, n := range []int{1, 1, 300, 60, 60, 40} {
			wg.Go(func() {
				_, _ = log.Append(
					t.Context(), store.Append{RunID: fmt.Sprint("r", i), Events: []run.Draft{{Payload: make([]byte, n)}}})
			})
			synctest.Wait()
		}
		wg.Wait()
		if diff := cmp.Diff([]string{"r0: ", "group: r1", "group: r2", "group: r3", "group: r4 r5"}, s.writes); diff != "" {
			t.Errorf("writes (-want +got):\n%s", diff)
		}
	})
}

// A run whose head another transaction holds does not delay other runs, even if its append is the one that is made
// alone. Other runs wait at most for one group.
// contract: T185
func TestGroup_RunsDoNotWaitForAHeadThatIsHeld(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &slow{locked: map[string]time.Duration{"held": time.Minute, "held too": time.Minute}}
		c := newCrowd(t, s, coalesce.Config{MaxGroups: 1})
		c.call(t.Context(), "held", "s")
		c.call(t.Context(), "held too", "s")
		for i, want := range []string{"s after 2s", "s after 1s", "s after 1s"} {
			if got := at(t, c.log, t.Context(), "free", "s", time.Now()); got != want {
				t.Errorf("append %d beside held runs: %s, want %s", i, got, want)
			}
		}
		c.expect(s.writes, map[string]string{"held": "s after 1m1s", "held too": "s after 1m2s"}, s)
	})
}

// Callers make the calls that a group did not write alone, so that a poison event fails alone.
// contract: T190
func TestGroup_APoisonEventFailsAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &slow{}
		c := newCrowd(t, s, coalesce.Config{MaxGroups: 1})
		c.call(t.Context(), "a", "s")
		c.call(t.Context(), "b", "s")
		c.call(t.Context(), "c", "s")
		c.call(t.Context(), "d", "poison")
		c.wg.Wait()
		if len(s.writes) != 5 || s.writes[2] != "group: c d" {
			t.Errorf("writes %v, want five, the third of them \"group: c d\"", s.writes)
		}
		c.expect(s.writes, map[string]string{"a": "s after 1s", "b": "s after 1s", "c": "s after 3s",
			"d": "poison poison after 3s"}, s)
	})
}

// When it is unknown whether a group was written, each of its callers gets the error.
func TestGroup_EachCallerGetsTheErrorOfTheGroup(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &slow{err: store.ErrUnavailable}
		log := coalesce.New(s, coalesce.Config{MaxGroups: 1})
		errs := make([]error, 4)
		var wg sync.WaitGroup
		for i := range errs {
			wg.Go(func() {
				_, errs[i] = log.Append(t.Context(), store.Append{RunID: fmt.Sprint("r", i), Events: []run.Draft{{StepID: "s"}}})
			})
			synctest.Wait()
		}
		wg.Wait()
		for i, err := range errs {
			if !errors.Is(err, store.ErrUnavailable) {
				t.Errorf("caller %d: error %v, want ErrUnavailable", i, err)
			}
		}
		if diff := cmp.Diff([]string{"r0: s", "group: r1", "group: r2 r3"}, s.writes); diff != "" {
			t.Errorf("writes (-want +got):\n%s", diff)
		}
	})
}

// A group does not write a cancelled call, but a later call on the same run.
func TestGroup_DoesNotWriteACancelledCall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &slow{}
		c := newCrowd(t, s, coalesce.Config{MaxGroups: 1})
		leaving, leave := context.WithCancel(t.Context())
		c.call(t.Context(), "a", "s")
		c.call(t.Context(), "b", "s")
		c.call(leaving, "c", "left")
		c.call(t.Context(), "d", "s")
		leave()
		synctest.Wait()
		if c.got["c"] != "left context canceled after 0s" {
			t.Errorf("the cancelled call: %s, want context canceled at once", c.got["c"])
		}
		c.call(t.Context(), "c", "again")
		c.expect([]string{"a: s", "group: b", "group: d c"},
			map[string]string{"a": "s after 1s", "b": "s after 1s", "c": "again after 2s", "d": "s after 2s"}, s)
	})
}

// Later calls on a run that is in a group become a batch of that run, after the group.
func TestGroup_CallsOnOneRunStayInOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &slow{}
		c := newCrowd(t, s, coalesce.Config{MaxGroups: 1})
		c.call(t.Context(), "a", "s")
		c.call(t.Context(), "b", "s1")
		for _, step := range []string{"s2", "s3"} {
			c.wg.Go(func() { at(t, c.log, t.Context(), "b", step, time.Now()) })
			synctest.Wait()
		}
		c.expect([]string{"a: s", "group: b", "b: s2 s3"}, map[string]string{"a": "s after 1s", "b": "s1 after 1s"}, s)
	})
}

// When MaxWaiting calls wait, a call on an idle run is made alone.
func TestGroup_CallsOnIdleRunsAreMadeAloneWhenTooManyWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &slow{}
		c := newCrowd(t, s, coalesce.Config{MaxGroups: 1, MaxWaiting: 1})
		for _, id := range []string{"a", "b", "c", "d"} {
			c.call(t.Context(), id, "s")
		}
		c.expect([]string{"a: s", "group: b", "d: s", "group: c"},
			map[string]string{"a": "s after 1s", "b": "s after 1s", "c": "s after 2s", "d": "s after 1s"}, s)
	})
}
