package sqlite

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
	"github.com/dvt-engine/dvt/store"
)

// crowd is a store in which a first call holds the writer while others wait.
type crowd struct {
	*testing.T
	s       *Store
	release func() error // lets the first call end and returns its error
}

func newCrowd(t *testing.T, o Options, held func(store.RunTx) error) *crowd {
	t.Helper()
	s := open(t, filepath.Join(t.TempDir(), "dvt.db"), o)
	s.writer.span = time.Minute // so that a slow machine does not end the group
	newRun(t, s)
	if err := begin(t.Context(), s); err != nil { // so that the identity of the run is cached
		t.Fatal(err)
	}
	holds, free, done := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		done <- s.InRun(context.WithoutCancel(t.Context()), runtest.ID.RunID, func(tx store.RunTx) error {
			close(holds)
			<-free
			return held(tx)
		})
	}()
	<-holds
	return &crowd{T: t, s: s, release: sync.OnceValue(func() error { close(free); return <-done })}
}

// joins starts a call and waits until n calls wait in the queue.
func (c *crowd) joins(n int, f func() error) <-chan error {
	c.Helper()
	done := make(chan error, 1)
	go func() {
		err := errors.New("the call did not return")
		defer func() { done <- err }()
		err = f()
	}()
	c.waiting(n)
	return done
}

func (c *crowd) waiting(n int) {
	c.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		c.s.writer.mu.Lock()
		have := len(c.s.writer.queue)
		c.s.writer.mu.Unlock()
		if have == n {
			return
		}
		if time.Now().After(deadline) {
			c.Fatalf("%d calls wait, want %d", have, n)
		}
	}
}

// start appends the StepStarted of a step.
func (c *crowd) start(ctx context.Context, step string) error {
	_, err := c.s.Append(
		ctx, store.Append{RunID: runtest.ID.RunID, Events: []run.Draft{runtest.Draft(run.StepStartedEvent, step, 1)}})
	return err
}

// steps returns the started steps in the order of the log.
func (c *crowd) steps() (out []string) {
	c.Helper()
	evs, err := c.s.Events(c.Context(), runtest.ID.RunID, 0, store.MaxPage)
	if err != nil {
		c.Fatal(err)
	}
	for i, e := range evs {
		if e.Seq != run.Seq(i+1) {
			c.Errorf("event %d has seq %d, want %d", i, e.Seq, i+1)
		}
		if e.Type == run.StepStartedEvent {
			out = append(out, e.StepID)
		}
	}
	return out
}

func (c *crowd) logIs(want ...string) {
	c.Helper()
	if got := c.steps(); fmt.Sprint(got) != fmt.Sprint(want) {
		c.Errorf("the log has the steps %v, want %v", got, want)
	}
}

func nothing(store.RunTx) error { return nil }

func TestWriter_WaitingCallsShareACommit(t *testing.T) {
	t.Parallel()
	c := newCrowd(t, Options{}, nothing)
	before := c.s.writer.commits.Load()
	want := []string{"s1"}
	var calls []<-chan error
	for i := range 40 {
		step := fmt.Sprintf("n%02d", i)
		want = append(want, step)
		calls = append(calls, c.joins(i+1, func() error { return c.start(t.Context(), step) }))
	}
	if err := c.release(); err != nil {
		t.Fatal(err)
	}
	for _, done := range calls {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	c.logIs(want...)
	if n := c.s.writer.commits.Load() - before; n != 1 {
		t.Errorf("%d commits for 41 calls, want 1", n)
	}
}

func TestWriter_AFailingCallFailsAlone(t *testing.T) {
	t.Parallel()
	c := newCrowd(t, Options{}, nothing)
	poison := errors.New("poison")
	a := c.joins(1, func() error { return c.start(t.Context(), "a") })
	b := c.joins(2, func() error {
		return c.s.InRun(t.Context(), runtest.ID.RunID, func(tx store.RunTx) error {
			if _, err := tx.Append(
				t.Context(), store.Append{Events: []run.Draft{runtest.Draft(run.StepStartedEvent, "b", 1)}}); err != nil {
				return err
			}
			return poison
		})
	})
	d := c.joins(3, func() error { return c.start(t.Context(), "d") })
	if err := c.release(); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(<-a, <-d); err != nil {
		t.Error(err)
	}
	if err := <-b; err != poison { //nolint:errorlint // the error must be returned unchanged
		t.Errorf("the failing call: %v, want its own error unchanged", err)
	}
	c.logIs("s1", "a", "d")
}

func TestWriter_APanicReachesOnlyItsCaller(t *testing.T) {
	t.Parallel()
	t.Run("of a member", func(t *testing.T) {
		t.Parallel()
		c := newCrowd(t, Options{}, nothing)
		a := c.joins(1, func() (err error) {
			defer func() { err = fmt.Errorf("recovered %v", recover()) }()
			return c.s.InRun(t.Context(), runtest.ID.RunID, func(tx store.RunTx) error {
				if _, err := tx.Append(
					t.Context(), store.Append{Events: []run.Draft{runtest.Draft(run.StepStartedEvent, "a", 1)}}); err != nil {
					return err
				}
				panic("oh")
			})
		})
		b := c.joins(2, func() error {
			return c.s.InRun(t.Context(), runtest.ID.RunID, func(store.RunTx) error { runtime.Goexit(); return nil })
		})
		d := c.joins(3, func() error { return c.start(t.Context(), "d") })
		if err := c.release(); err != nil {
			t.Fatal(err)
		}
		if err := <-a; err == nil || err.Error() != "recovered oh" {
			t.Errorf("the caller whose work panics got %v, want the panic", err)
		}
		<-b
		if err := <-d; err != nil {
			t.Error(err)
		}
		c.logIs("s1", "d")
	})
	t.Run("of the leader", func(t *testing.T) {
		t.Parallel()
		s := open(t, filepath.Join(t.TempDir(), "dvt.db"), Options{})
		newRun(t, s)
		func() {
			defer func() {
				if r := recover(); r != "oh" {
					t.Errorf("recovered %v, want the panic of the work", r)
				}
			}()
			_ = s.InRun(t.Context(), runtest.ID.RunID, func(store.RunTx) error { panic("oh") })
		}()
		if err := begin(t.Context(), s); err != nil {
			t.Error(err)
		}
	})
}

func TestWriter_AContextEndsOnlyItsOwnCall(t *testing.T) {
	t.Parallel()
	c := newCrowd(t, Options{}, nothing)
	left, leave := context.WithCancel(t.Context())
	gone := c.joins(1, func() error { return c.start(left, "gone") })
	running, stop := context.WithCancel(t.Context())
	late := c.joins(2, func() error {
		return c.s.InRun(running, runtest.ID.RunID, func(tx store.RunTx) error {
			stop() // its statements continue, because other calls share the transaction
			_, err := tx.Append(running, store.Append{Events: []run.Draft{runtest.Draft(run.StepStartedEvent, "late", 1)}})
			return err
		})
	})
	other := c.joins(3, func() error { return c.start(t.Context(), "other") })
	leave()
	if err := <-gone; !errors.Is(err, context.Canceled) {
		t.Errorf("a call whose context ends before its turn: %v, want %v", err, context.Canceled)
	}
	c.waiting(2)
	if err := c.release(); err != nil {
		t.Fatal(err)
	}
	if err := <-late; err != nil && !errors.Is(err, context.Canceled) {
		t.Errorf("a call whose context ends during its turn: %v, want nil or %v", err, context.Canceled)
	}
	if err := <-other; err != nil {
		t.Error(err)
	}
	c.logIs("s1", "late", "other")
}

func TestWriter_OverloadRefusesAtOnceAndRecovers(t *testing.T) {
	t.Parallel()
	c := newCrowd(t, Options{Waiting: 3}, nothing)
	var calls []<-chan error
	for i := range 3 {
		calls = append(calls, c.joins(i+1, func() error { return c.start(t.Context(), fmt.Sprint("n", i)) }))
	}
	var overloaded *store.OverloadedError
	if err := c.start(t.Context(), "refused"); !errors.As(err, &overloaded) || overloaded.RetryAfter <= 0 {
		t.Fatalf("a call beyond the limit: %v, want an OverloadedError with RetryAfter", err)
	}
	if err := c.release(); err != nil {
		t.Fatal(err)
	}
	for _, done := range calls {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	if err := c.start(t.Context(), "after"); err != nil {
		t.Error(err)
	}
	c.logIs("s1", "n0", "n1", "n2", "after")
}

func TestWriter_ALostTransactionFailsAllItsCalls(t *testing.T) {
	t.Parallel()
	c := newCrowd(t, Options{}, func(tx store.RunTx) error {
		_, err := tx.Append(t.Context(), store.Append{Events: []run.Draft{runtest.Draft(run.StepStartedEvent, "held", 1)}})
		return err
	})
	a := c.joins(1, func() error { return c.start(t.Context(), "a") })
	killer := c.joins(2, func() error {
		return c.s.write(t.Context(), func(conn *conn) error { // SQLite does the same when the disk is full
			if _, err := conn.exec(t.Context(), "test", `ROLLBACK`); err != nil {
				return err
			}
			return errors.New("the disk is full")
		})
	})
	after := c.joins(3, func() error { return c.start(t.Context(), "after") })
	if err := c.release(); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("leader: %v, want %v", err, store.ErrUnavailable)
	}
	if err := <-a; !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("member: %v, want %v", err, store.ErrUnavailable)
	}
	if err := <-killer; err == nil {
		t.Error("the failing call returned nil, want its error")
	}
	if err := <-after; err != nil {
		t.Errorf("a call whose turn had not come: %v, want no error", err)
	}
	c.logIs("s1", "after")
}

func TestWriter_CloseRefusesWaitingCalls(t *testing.T) {
	t.Parallel()
	c := newCrowd(t, Options{}, nothing)
	waits := c.joins(1, func() error { return c.start(t.Context(), "a") })
	closed := make(chan error, 1)
	go func() { closed <- c.s.Close() }()
	if err := <-waits; !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("a call that waits during Close: %v, want %v", err, store.ErrUnavailable)
	}
	if err := c.release(); err != nil {
		t.Errorf("the running call: %v, want no error", err)
	}
	if err := <-closed; err != nil {
		t.Error(err)
	}
	if err := c.start(t.Context(), "late"); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("a call after Close: %v, want %v", err, store.ErrUnavailable)
	}
}

func TestReaders_OverloadRefusesAtOnceAndRecovers(t *testing.T) {
	t.Parallel()
	s := open(t, filepath.Join(t.TempDir(), "dvt.db"), Options{Readers: 1, Waiting: 2})
	newRun(t, s)
	free := make(chan struct{})
	var wg sync.WaitGroup
	holds := make(chan struct{})
	wg.Go(func() {
		if err := s.read(t.Context(), func(*conn) error { close(holds); <-free; return nil }); err != nil {
			t.Error(err)
		}
	})
	<-holds
	for range 2 {
		wg.Go(func() {
			if _, err := s.Load(t.Context(), runtest.ID.RunID); err != nil {
				t.Error(err)
			}
		})
	}
	for s.readers.waiting.Load() < 2 {
		time.Sleep(time.Millisecond)
	}
	var overloaded *store.OverloadedError
	if _, err := s.Load(t.Context(), runtest.ID.RunID); !errors.As(err, &overloaded) || overloaded.RetryAfter <= 0 {
		t.Errorf("a read beyond the limit: %v, want an OverloadedError with RetryAfter", err)
	}
	close(free)
	wg.Wait()
	if _, err := s.Load(t.Context(), runtest.ID.RunID); err != nil {
		t.Error(err)
	}
}

func TestWriter_ALongGroupEnds(t *testing.T) {
	t.Parallel()
	c := newCrowd(t, Options{}, func(store.RunTx) error { time.Sleep(2 * time.Millisecond); return nil })
	c.s.writer.span = time.Millisecond
	before := c.s.writer.commits.Load()
	a := c.joins(1, func() error { return c.start(t.Context(), "a") })
	if err := c.release(); err != nil {
		t.Fatal(err)
	}
	if err := <-a; err != nil {
		t.Error(err)
	}
	if n := c.s.writer.commits.Load() - before; n != 2 {
		t.Errorf("%d commits, want 2", n)
	}
}
