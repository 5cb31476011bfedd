package health_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control/controltest"
	"github.com/dvt-engine/dvt/server/usecases"
	"github.com/dvt-engine/dvt/store"
)

// countingStore counts pings and reads of the authority version.
type countingStore struct {
	store.Store
	delay time.Duration // added to reads of the authority version
	pings atomic.Int32
}

func (s *countingStore) Ping(ctx context.Context) error {
	s.pings.Add(1)
	return s.Store.Ping(ctx)
}

func (s *countingStore) AuthorityVersion(ctx context.Context) (int64, error) {
	s.pings.Add(1)
	time.Sleep(s.delay)
	return s.Store.AuthorityVersion(ctx)
}

func TestSampledHealth_AFloodOfProbesCausesFewReads(t *testing.T) {
	t.Parallel()
	var counted *countingStore
	w := controltest.New(t, func(c *usecases.Config) {
		counted = &countingStore{Store: c.Store}
		c.Store = counted
	})
	var wg sync.WaitGroup
	for range 500 {
		wg.Go(func() {
			if h := w.SampledHealth(t.Context()); h.Status == "" || len(h.Checks) != 5 {
				t.Errorf("SampledHealth returned %+v, want five checks", h)
			}
			if !w.Ready(t.Context()) {
				t.Error("the server is not ready while its store answers")
			}
		})
	}
	wg.Wait()
	if n := counted.pings.Load(); n == 0 || n > 10 {
		t.Errorf("500 probes caused %d reads of the store, want about one a second", n)
	}
}

// Cookies that no server issued share their reads, so that a flood of them does not delay new sessions.
func TestSession_AFloodOfInventedSessionsCausesFewReads(t *testing.T) {
	t.Parallel()
	var counted *countingStore
	w := controltest.New(t, func(c *usecases.Config) {
		counted = &countingStore{Store: c.Store, delay: 100 * time.Millisecond}
		c.Store = counted
	})
	began := time.Now()
	var wg sync.WaitGroup
	for i := range 500 {
		wg.Go(func() {
			_, err := w.Session(t.Context(), fmt.Sprintf("dvt_%043d", i))
			if !errors.Is(err, authz.ErrUnauthenticated) {
				t.Errorf("Session of a made-up cookie returned %v, want ErrUnauthenticated", err)
			}
		})
	}
	wg.Wait()
	reads, took := counted.pings.Load(), time.Since(began)
	if most := int32(2 + took/counted.delay); reads > most {
		t.Errorf("500 made-up sessions caused %d reads within %v, want at most %d consecutive reads", reads, took, most)
	}
}

func TestReady_AnUnavailableStoreIsNoticedWithinASecond(t *testing.T) {
	t.Parallel()
	w := controltest.New(t)
	if !w.Ready(t.Context()) {
		t.Fatal("the server is not ready while its store answers")
	}
	if err := w.Raw.Close(); err != nil {
		t.Fatal(err)
	}
	controltest.Eventually(t, "the server is not ready", func() bool { return !w.Ready(t.Context()) })
}
