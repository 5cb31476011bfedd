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

// crowd is callers of a coalescing store who begin one after the other.
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

// call appends step to a run, and goes on once that waits.
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

// The first goes at once by itself, the second as a group of one, and who comes while
// as many groups as allowed are under way is in the next one.
func TestGroup_OneCommitForRunsThatWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &slow{}
		c := newCrowd(t, s, coalesce.Config{MaxGroup: 3, MaxGroups: 2})
		for _, id := range []string{"a", "b", "c", "d", "e", "f", "g", "h"} {
			c.call(t.Context(), id, "s")
		}
		c.wg.Wait()
		// Which of the two groups that end at once is the first to go on is no matter.
		if s.writes[3] == "group: g h" {
			s.writes[3], s.writes[4] = s.writes[4], s.writes[3]
		}
		c.expect([]string{"a: s", "group: b", "group: c", "group: d e f", "group: g h"}, map[string]string{
			"a": "s after 1s", "b": "s after 1s", "c": "s after 1s", "d": "s after 2s", "e": "s after 2s", "f": "s after 2s",
			"g": "s after 2s", "h": "s after 2s",
		}, s)
		s.writes = nil
		if got := at(t, c.log, t.Context(), "later", "s", time.Now()); got != "s after 1s" || s.writes[0] != "later: s" {
			t.Errorf("a lone appender: %s, as %v", got, s.writes)
		}
	})
}

func TestGroup_SizesByDefault(t *testing.T) {
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
			t.Errorf("how many groups of what size (-want +got):\n%s", diff)
		}
	})
}

func TestGroup_BoundsItsBytes(t *testing.T) {
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
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

// Runs whose heads somebody holds delay nobody else, not even while one's append is the
// one that goes alone: others wait at most for one group.
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

// What a group leaves goes by itself, and a poison event fails alone.
// contract: T190
func TestGroup_PoisonFailsAlone(t *testing.T) {
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
			t.Errorf("writes %v", s.writes)
		}
		c.expect(s.writes, map[string]string{"a": "s after 1s", "b": "s after 1s", "c": "s after 3s",
			"d": "poison poison after 3s"}, s)
	})
}

// When nobody can say whether a group was written, each of its callers is told so.
func TestGroup_EachIsToldThatItFailed(t *testing.T) {
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
				t.Errorf("caller %d: %v", i, err)
			}
		}
		if diff := cmp.Diff([]string{"r0: s", "group: r1", "group: r2 r3"}, s.writes); diff != "" {
			t.Errorf("writes (-want +got):\n%s", diff)
		}
	})
}

// Who left is not written, and who comes to the same run after that is.
func TestGroup_WithoutWhoLeft(t *testing.T) {
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
			t.Errorf("who left: %s", c.got["c"])
		}
		c.call(t.Context(), "c", "again")
		c.expect([]string{"a: s", "group: b", "group: d c"},
			map[string]string{"a": "s after 1s", "b": "s after 1s", "c": "again after 2s", "d": "s after 2s"}, s)
	})
}

// Later calls on a run that is in a group are a batch of that run, after it.
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

// When as many wait as may, a call on an idle run goes by itself.
func TestGroup_GoesByItselfWhenTooManyWait(t *testing.T) {
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
