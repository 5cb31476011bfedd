package health

import (
	"context"
	"sync"
	"time"

	"github.com/dvt-engine/dvt/control"
)

// sampleFresh is how long callers share one answer.
const sampleFresh = time.Second

// sample limits the cost of a question that unauthenticated callers may ask at any rate. The zero value is ready; it is
// safe for concurrent use.
type sample[T any] struct {
	flight control.Flight

	mu   sync.Mutex
	last T
	at   time.Time // zero before the first answer
}

// get returns an answer that is at most sampleFresh old, or that was computed after the call. For any number of
// callers, only one ask runs at a time; ask must limit its own duration. ok is false when ctx ended first, or ask
// panicked.
func (s *sample[T]) get(ctx context.Context, ask func(context.Context) T) (answer T, ok bool) {
	if last, age := s.now(); age < sampleFresh {
		return last, true
	}
	err := s.flight.Do(ctx, func(ctx context.Context) error {
		if _, age := s.now(); age < sampleFresh {
			return nil
		}
		answer := ask(ctx)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.last, s.at = answer, time.Now()
		return nil
	})
	last, _ := s.now()
	return last, err == nil
}

func (s *sample[T]) now() (last T, age time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last, time.Since(s.at)
}

// SampledHealth returns a Health that is at most one second old, so that a flood of probes does not reach the store,
// the engine or the artifacts. It returns UNHEALTHY without checks when ctx ends first.
func (s *Reports) SampledHealth(ctx context.Context) Health {
	if h, ok := s.health.get(ctx, s.checks.Health); ok {
		return h
	}
	return Health{Status: "UNHEALTHY"}
}

// Ready reports whether the store answered a read at most a second ago. The engine does not count: without it, a server
// still answers reads and accepts signals.
func (s *Reports) Ready(ctx context.Context) bool {
	answers, ok := s.ready.get(ctx, func(ctx context.Context) bool {
		ctx, cancel := context.WithTimeout(ctx, healthTimeout)
		defer cancel()
		return s.store.Ping(ctx) == nil
	})
	return ok && answers
}
