package limit

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestHeavyGate_ACallerWaitsForItselfAndOthersForTheSlots(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := NewHeavyGate(2)
		enter := func(caller string) func() {
			leave, err := g.Enter(t.Context(), caller)
			if err != nil {
				t.Errorf("Enter of %s returned %v, want nil", caller, err)
				return func() {}
			}
			return leave
		}
		first := enter("eva")
		second := make(chan func(), 1)
		go func() { second <- enter("eva") }()
		synctest.Wait()
		if len(second) > 0 {
			t.Fatal("a caller had two concurrent turns, want one")
		}
		other := enter("olga") // does not wait for the turn of another caller
		third := make(chan func(), 1)
		go func() { third <- enter("otto") }()
		synctest.Wait()
		if len(third) > 0 {
			t.Fatal("three callers entered at once, want two")
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := g.Enter(ctx, "nora"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Enter of a caller whose context ended returned %v, want DeadlineExceeded", err)
		}
		other()
		(<-third)()
		first()
		(<-second)()
		if len(g.callers) > 0 || len(g.slots) > 0 {
			t.Errorf("%d callers and %d used slots are left, want 0 and 0", len(g.callers), len(g.slots))
		}
	})
}
