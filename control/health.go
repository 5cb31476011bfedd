package control

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/dvt-engine/dvt/artifact"
	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/run"
)

// healthTimeout bounds one check.
const healthTimeout = 2 * time.Second

// Health looks at what dvt stands on. Without the store it is UNHEALTHY; without
// anything else DEGRADED (T136).
func (s *Service) Health(ctx context.Context) Health {
	checks := []struct {
		name, down string
		look       func(context.Context) error
	}{
		{"stateStore", "The store does not answer: nothing can be changed, views are STALE.", s.cfg.Store.Ping},
		{"engine", "The engine does not answer: signals stay accepted, runs wait in the queue.", s.engineAnswers},
		{"eventBus", "The bus is down: viewers poll the store and stay LIVE.", func(context.Context) error {
			if s.cfg.Bus.Up() {
				return nil
			}
			return errors.New("bus down")
		}},
		{"artifactStore", "Logs and artifacts cannot be read or kept.", func(ctx context.Context) error {
			_, _, err := s.cfg.Logs.Read(ctx, artifact.AttemptID{TenantID: "dvt", RunID: "health", StepID: "health", LogicalAttempt: 1}, 1, 1)
			return err
		}},
	}
	out := Health{Status: "HEALTHY", Checks: make([]HealthCheck, len(checks))}
	var wg sync.WaitGroup
	for i, c := range checks {
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, healthTimeout)
			defer cancel()
			began := s.cfg.Now()
			h := HealthCheck{Name: c.name, Status: "HEALTHY"}
			if err := c.look(ctx); err != nil {
				h.Status, h.Message = "UNHEALTHY", c.down
			}
			h.Latency = s.cfg.Now().Sub(began)
			out.Checks[i] = h
		})
	}
	wg.Wait()
	for i, c := range out.Checks {
		switch {
		case c.Status == "HEALTHY":
		case i == 0:
			out.Status = "UNHEALTHY"
		case out.Status == "HEALTHY":
			out.Status = "DEGRADED"
		}
	}
	return out
}

// engineAnswers asks about a run that cannot exist: any definite answer will do.
func (s *Service) engineAnswers(ctx context.Context) error {
	_, err := s.cfg.Engine.Describe(ctx, run.Identity{TenantID: "dvt", RunID: "health"})
	if errors.Is(err, engine.ErrNotStarted) {
		return nil
	}
	return err
}
