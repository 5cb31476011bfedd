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

// slow is a store whose writes take writeTime. It records the writes that reach it.
type slow struct {
	store.Store // nil, because the tests call no other method
	mu          sync.Mutex
	writes      []string // one line for each write: the run and its steps
	err         error
	locked      map[string]time.Duration // by run: how long another transaction holds its head
}

const writeTime = time.Second

func (s *slow) write(runID string, entries []store.Entry) ([]store.EntryResult, error) {
	line := runID + ":"
	out := make([]store.EntryResult, len(entries))
	for i, e := range entries {
		var step string
		if e.Start != nil {
			step = e.Start.StepID
			out[i].Started = store.AttemptStarted{Verdict: store.StartGranted, Head: store.Head{RunID: step}}
		} else {
			step = e.Append.Events[0].StepID
			out[i].Appended = store.Appended{Head: store.Head{RunID: step}}
		}
		if step == "poison" {
			out[i] = store.EntryResult{Err: errPoison}
		}
		line += " " + step
	}
	s.mu.Lock()
	s.writes = append(s.writes, line)
	s.mu.Unlock()
	time.Sleep(writeTime + s.locked[runID])
	return out, s.err
}

var errPoison = errors.New("poison")

func (s *slow) Append(_ context.Context, a store.Append) (store.Appended, error) {
	out, err := s.write(a.RunID, []store.Entry{{Append: &a}})
	return out[0].Appended, errors.Join(err, out[0].Err)
}

func (s *slow) StartAttempt(_ context.Context, b store.StartAttempt) (store.AttemptStarted, error) {
	out, err := s.write(b.RunID, []store.Entry{{Start: &b}})
	return out[0].Started, errors.Join(err, out[0].Err)
}

func (s *slow) Batch(_ context.Context, runID string, entries []store.Entry) ([]store.EntryResult, error) {
	return s.write(runID, entries)
}

// unprepared is an entry without preparation.
type unprepared struct{ store.Entry }

// Plain accepts appends of one event.
func (s *slow) Plain(e store.Entry) (store.Plain, bool) {
	return unprepared{e}, e.Append != nil && len(e.Append.Events) == 1
}

// Group omits runs whose head another transaction holds. If one of its events is poison it writes nothing.
func (s *slow) Group(_ context.Context, prepared []store.Plain) ([]*store.EntryResult, error) {
	out := make([]*store.EntryResult, len(prepared))
	line, poisoned := "group:", false
	for i, p := range prepared {
		step := p.(unprepared).Append.Events[0].StepID
		line += " " + p.RunID()
		poisoned = poisoned || step == "poison"
		if s.locked[p.RunID()] == 0 {
			out[i] = &store.EntryResult{Appended: store.Appended{Head: store.Head{RunID: step}}}
		}
	}
	s.mu.Lock()
	s.writes = append(s.writes, line)
	s.mu.Unlock()
	time.Sleep(writeTime)
	if poisoned {
		clear(out)
	}
	return out, s.err
}

// CreateRuns refuses runs of the project poison.
func (s *slow) CreateRuns(_ context.Context, runs []store.NewRun) ([]store.CreatedRun, error) {
	out := make([]store.CreatedRun, len(runs))
	line := "create:"
	for i, n := range runs {
		line += " " + n.Run.RunID
		out[i] = store.CreatedRun{Run: n.Run, Created: true}
		if n.Run.ProjectID == "poison" {
			out[i] = store.CreatedRun{Err: errPoison}
		}
	}
	s.mu.Lock()
	s.writes = append(s.writes, line)
	s.mu.Unlock()
	time.Sleep(writeTime)
	return out, s.err
}

// at appends step to runID and describes the result and the time since began.
func at(t *testing.T, c store.Store, ctx context.Context, runID, step string, began time.Time) string {
	t.Helper()
	out, err := c.Append(ctx, store.Append{RunID: runID, Events: []run.Draft{{StepID: step}}})
	took := time.Since(began).Round(time.Millisecond)
	if err != nil {
		return fmt.Sprintf("%s %v after %v", step, err, took)
	}
	if out.Head.RunID != step {
		return fmt.Sprintf("%s got the answer of %s", step, out.Head.RunID)
	}
	return fmt.Sprintf("%s after %v", step, took)
}

func TestCoalesce_WaitingCallsOfARunShareACommit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &slow{}
		c := coalesce.New(s, coalesce.Config{MaxEntries: 4})
		began := time.Now()
		got := make([]string, 7)
		var wg sync.WaitGroup
		for i := range got {
			wg.Go(func() {
				if i == 5 {
					b, err := c.StartAttempt(t.Context(), store.StartAttempt{RunID: "r", StepID: "s5"})
					got[i] = fmt.Sprint(b.Verdict, " ", b.Head.RunID, " ", err)
					return
				}
				got[i] = at(t, c, t.Context(), "r", fmt.Sprint("s", i), began)
			})
			synctest.Wait() // so that the calls arrive in this order
		}
		wg.Wait()
		if diff := cmp.Diff([]string{"r: s0", "r: s1 s2 s3 s4", "r: s5 s6"}, s.writes); diff != "" {
			t.Errorf("writes (-want +got):\n%s", diff)
		}
		want := []string{"s0 after 1s", "s1 after 2s", "s2 after 2s", "s3 after 2s", "s4 after 2s", "RUN s5 <nil>",
			"s6 after 3s"}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("answers (-want +got):\n%s", diff)
		}
		got[0] = at(t, c, t.Context(), "r", "later", time.Now())
		if got[0] != "later after 1s" {
			t.Errorf("a call on an idle run: %s, want later after 1s", got[0])
		}
	})
}

func TestCoalesce_RunsDoNotWaitForEachOther(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &slow{locked: map[string]time.Duration{"held": time.Minute}}
		c := coalesce.New(s, coalesce.Config{})
		var wg sync.WaitGroup
		for i := range 3 {
			wg.Go(func() { at(t, c, t.Context(), "held", fmt.Sprint("s", i), time.Now()) })
		}
		synctest.Wait()
		for range 5 {
			if got := at(t, c, t.Context(), "free", "s", time.Now()); got != "s after 1s" {
				t.Errorf("append beside a run whose head is held: %s, want s after 1s", got)
			}
		}
		wg.Wait()
	})
}

func TestCoalesce_RefusesCallsWhenTooManyWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &slow{}
		c := coalesce.New(s, coalesce.Config{MaxWaiting: 2})
		var wg sync.WaitGroup
		for i := range 3 {
			wg.Go(func() { at(t, c, t.Context(), "r", fmt.Sprint("s", i), time.Now()) })
			synctest.Wait()
		}
		began := time.Now()
		_, err := c.Append(t.Context(), store.Append{RunID: "r", Events: []run.Draft{{StepID: "s"}}})
		var full *store.OverloadedError
		if !errors.As(err, &full) || full.RetryAfter <= 0 || time.Since(began) > 0 {
			t.Errorf("the call above MaxWaiting: error %v after %v, want *OverloadedError at once", err, time.Since(began))
		}
		if got := at(t, c, t.Context(), "idle", "s", time.Now()); got != "s after 1s" {
			t.Errorf("append to an idle run beside a full queue: %s, want s after 1s", got)
		}
		wg.Wait()
		if got := at(t, c, t.Context(), "r", "s", time.Now()); got != "s after 1s" {
			t.Errorf("append after the full queue was written: %s, want s after 1s", got)
		}
	})
}

func TestCoalesce_EachCallHasItsOwnError(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &slow{}
		c := coalesce.New(s, coalesce.Config{})
		began := time.Now()
		leaving, leave := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		got := map[string]string{}
		var mu sync.Mutex
		call := func(ctx context.Context, step string) {
			wg.Go(func() {
				out := at(t, c, ctx, "r", step, began)
				mu.Lock()
				defer mu.Unlock()
				got[step] = out
			})
			synctest.Wait()
		}
		call(t.Context(), "first")
		call(t.Context(), "good")
		call(t.Context(), "poison")
		call(leaving, "left")
		leave()
		wg.Wait()
		want := map[string]string{
			"first": "first after 1s", "good": "good after 2s", "poison": "poison poison after 2s",
			"left": "left context canceled after 0s",
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("results (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]string{"r: first", "r: good poison"}, s.writes); diff != "" {
			t.Errorf("writes, without the cancelled call (-want +got):\n%s", diff)
		}
	})
}

func TestCoalesce_LimitsTheBytesOfABatch(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &slow{}
		c := coalesce.New(s, coalesce.Config{MaxBytes: 100})
		var wg sync.WaitGroup
		for i, n := range []int{1, 300, 60, 60, 40} {
			wg.Go(func() {
				_, _ = c.Append(
					t.Context(), store.Append{RunID: "r", Events: []run.Draft{{StepID: fmt.Sprint("s", i), Payload: make([]byte, n)}}})
			})
			synctest.Wait()
		}
		wg.Wait()
		if diff := cmp.Diff([]string{"r: s0", "r: s1", "r: s2", "r: s3 s4"}, s.writes); diff != "" {
			t.Errorf("writes (-want +got):\n%s", diff)
		}
	})
}
