package control

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestFlight_CallersShareAReadThatBeganAfterTheirCalls(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var f Flight
		var reads, atOnce, most atomic.Int32
		read := func(context.Context) error {
			most.Store(max(most.Load(), atOnce.Add(1)))
			defer atOnce.Add(-1)
			reads.Add(1)
			time.Sleep(time.Second)
			return nil
		}
		var wg sync.WaitGroup
		ask := func(n int, within time.Duration) {
			for range n {
				wg.Go(func() {
					began := time.Now()
					if err := f.Do(t.Context(), read); err != nil {
						t.Errorf("Do returned %v, want no error", err)
					}
					if d := time.Since(began); d != within {
						t.Errorf("do returned after %v, want %v", d, within)
					}
				})
			}
			synctest.Wait()
		}
		ask(1, time.Second)
		time.Sleep(300 * time.Millisecond)
		ask(1000, 1700*time.Millisecond) // the rest of the read under way, then a read that began after these calls
		wg.Wait()
		if reads.Load() != 2 || most.Load() != 1 {
			t.Errorf("%d reads, %d of them concurrent, want 2 and 1", reads.Load(), most.Load())
		}
	})
}

func TestFlight_AnErrorAndAPanicReachTheirCallersAlone(t *testing.T) {
	t.Parallel()
	var f Flight
	boom := errors.New("boom")
	if err := f.Do(t.Context(), func(context.Context) error { return boom }); !errors.Is(err, boom) {
		t.Errorf("do returned %v, want the error of the read", err)
	}
	if err := f.Do(t.Context(), func(context.Context) error { panic("boom") }); err == nil {
		t.Error("Do returned nil for a read that panicked")
	}
	if err := f.Do(t.Context(), func(context.Context) error { return nil }); err != nil {
		t.Errorf("do returned %v after a read that failed, want nil", err)
	}
}

func TestFlight_ACallerThatLeavesEndsNoRead(t *testing.T) {
	t.Parallel()
	var f Flight
	ctx, cancel := context.WithCancel(t.Context())
	started, release, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		<-started
		cancel()
	}()
	err := f.Do(ctx, func(inner context.Context) error {
		close(started)
		<-release
		ended <- inner.Err()
		return nil
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("do returned %v, want the caller's context.Canceled", err)
	}
	close(release)
	if err := <-ended; err != nil {
		t.Errorf("the context of the read ended with its caller: %v", err)
	}
}
