package control

import (
	"context"
	"sync"
	"time"
)

// sampleFresh is how long one answer serves everybody who asks.
const sampleFresh = time.Second

// sample shares the answer to a question that strangers may ask at any rate. The zero value is ready; it is safe for
// concurrent use.
type sample[T any] struct {
	flight flight

	mu   sync.Mutex
	last T
	at   time.Time // zero: never asked
}

// get returns an answer that is at most sampleFresh old, or that began after the call. However many call, ask runs once at
// a time. It must bound its time. ok is false when ctx ended before there was any answer.
func (s *sample[T]) get(ctx context.Context, ask func(context.Context) T) (answer T, ok bool) {
	if last, age := s.now(); age < sampleFresh {
		return last, true
	}
	err := s.flight.do(ctx, func(ctx context.Context) error {
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

// SampledHealth is Health as of at most a second ago. A flood of probes does not reach the store, the engine or the
// artifacts. It is UNHEALTHY without checks when ctx ended first.
func (s *Service) SampledHealth(ctx context.Context) Health {
	if h, ok := s.healthSample.get(ctx, s.Health); ok {
		return h
	}
	return Health{Status: "UNHEALTHY"}
}

// Ready reports whether the store answered a read at most a second ago. The engine is not asked: a server without it still
// answers reads and takes signals.
func (s *Service) Ready(ctx context.Context) bool {
	answers, ok := s.readySample.get(ctx, func(ctx context.Context) bool {
		ctx, cancel := context.WithTimeout(ctx, healthTimeout)
		defer cancel()
		return s.cfg.Store.Ping(ctx) == nil
	})
	return ok && answers
}
