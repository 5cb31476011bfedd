package live_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/dvt-engine/dvt/internal/contain"
	"github.com/dvt-engine/dvt/live"
)

// faultyBus panics when one run is subscribed to.
type faultyBus struct {
	*fakeBus
	run string
}

func (w *faultyBus) Subscribe(runID string) live.Subscription {
	if runID == w.run {
		panic("a fault of this run")
	}
	return w.fakeBus.Subscribe(runID)
}

// A panic while a run is served ends the streams of that run with an error. Streams of other runs continue.
func TestHub_PanicOfOneRunDoesNotStopOthers(t *testing.T) {
	t.Parallel()
	const bad = "run-bad"
	a := newFakeStore().create(testRunID, 10).create(bad, 10)
	h := live.New(a, &faultyBus{newFakeBus(), bad}, live.Config{})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- h.Run(ctx) }()
	defer func() { cancel(); ok(t, <-done) }()

	within, stop := context.WithTimeout(ctx, 10*time.Second)
	defer stop()
	for range 2 { // the second viewer makes the hub load the run a second time
		_, err := h.Watch(within, bad, nil, "")
		if p, panicked := errors.AsType[*contain.PanicError](err); !panicked || len(p.Stack) == 0 {
			t.Fatalf("Watch of the run returned %v, want the panic", err)
		}
	}
	st, err := h.Watch(within, testRunID, nil, "")
	ok(t, err)
	defer st.Close()
	f, err := st.Next(within)
	ok(t, err)
	if f.State.Seq != 10 {
		t.Errorf("the first frame of the other run shows seq %d, want 10", f.State.Seq)
	}
}
