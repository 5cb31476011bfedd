package dutycycle

import (
	"context"
	"errors"
	"testing"
	"time"
)

// rested returns a Cycle that notes its rests instead of sleeping, and a function that makes the current piece of work
// as long as it says.
func rested(share float64, alive func(context.Context) error) (*Cycle, *time.Duration, func(time.Duration)) {
	c, total := New(share, alive), new(time.Duration)
	c.sleep = func(_ context.Context, d time.Duration) error { *total += d; return nil }
	return c, total, func(d time.Duration) { c.began = time.Now().Add(-d) }
}

func TestRest_IsAsLongAsTheShareDemands(t *testing.T) {
	t.Parallel()
	c, total, work := rested(0.1, nil)
	ctx := With(t.Context(), c)
	for range 20 { // also of pieces that are shorter than a timer can sleep
		work(50 * time.Microsecond)
		if err := Rest(ctx); err != nil {
			t.Fatal(err)
		}
	}
	if want := 9 * time.Millisecond; *total < want*8/10 || *total > 10*want {
		t.Errorf("20 pieces of 50 µs at a share of 0.1 rested %s, want about %s", *total, want)
	}
	*total = 0
	work(100 * time.Millisecond)
	if err := Rest(ctx); err != nil {
		t.Fatal(err)
	}
	if want := 900 * time.Millisecond; *total < want || *total > want+time.Second {
		t.Errorf("a piece of 100 ms at a share of 0.1 rested %s, want %s", *total, want)
	}
}

func TestRest_IsBounded(t *testing.T) {
	t.Parallel()
	c, total, work := rested(0.01, nil)
	work(time.Minute)
	if err := Rest(With(t.Context(), c)); err != nil || *total != longest {
		t.Errorf("a piece of a minute at a share of 0.01 rested %s, error %v, want %s", *total, err, longest)
	}
}

func TestWaited_CountsLittleOfAWait(t *testing.T) {
	t.Parallel()
	c, total, work := rested(0.1, nil)
	work(2 * time.Second)
	if err := Waited(With(t.Context(), c)); err != nil || *total != 90*time.Millisecond {
		t.Errorf("a wait of 2 s rested %s, error %v, want 90ms", *total, err)
	}
}

func TestRest_WithoutACycleDoesNothing(t *testing.T) {
	t.Parallel()
	began := time.Now()
	if err := errors.Join(Rest(t.Context()), Waited(t.Context())); err != nil || time.Since(began) > time.Second {
		t.Errorf("a rest without a cycle took %s, error %v", time.Since(began), err)
	}
}

func TestRest_EndsTheWork(t *testing.T) {
	t.Parallel()
	lost := errors.New("the lease is lost")
	c, _, work := rested(1, func(context.Context) error { return lost })
	if err := Rest(With(t.Context(), c)); !errors.Is(err, lost) {
		t.Errorf("a rest of work whose lease is lost returned %v, want %v", err, lost)
	}
	slow := New(0.001, nil)
	ctx, cancel := context.WithCancel(With(t.Context(), slow))
	work(time.Second)
	slow.began = time.Now().Add(-time.Second)
	cancel()
	if err := Rest(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("a rest of work that was cancelled returned %v, want %v", err, context.Canceled)
	}
}
