package server

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/engine/executor"
	"github.com/dvt-engine/dvt/secret"
)

const (
	// secretPoll is the time between two polls for orders about secrets.
	secretPoll = 2 * time.Second
	// secretPollFailed is the time after a poll that failed.
	secretPollFailed = 10 * time.Second
	// secretOrderTime bounds the work for one order.
	secretOrderTime = 30 * time.Second
	// maxOrdersAtOnce bounds the orders that one poll begins.
	maxOrdersAtOnce = 20
)

// secretOrders carries out the orders about secrets that a server gives to a worker: it checks which secrets can be
// read, forgets values and ends leases. One goroutine may use it.
type secretOrders struct {
	to       engine.SecretDispatcher
	secrets  *secret.Resolver
	worker   string
	queues   []string
	log      *slog.Logger
	answered map[string]engine.SecretAnswer // orders that the server still gives
	unsent   []engine.SecretAnswer
}

// run polls for orders until ctx ends.
func (s *secretOrders) run(ctx context.Context) {
	s.answered = map[string]engine.SecretAnswer{}
	failing := false
	for {
		pause := secretPoll
		did, err := s.poll(ctx)
		if err != nil && ctx.Err() == nil && !failing {
			s.log.WarnContext(ctx, "orders about secrets cannot be read from the server; the worker tries again",
				slog.Any("error", err))
		}
		if failing = err != nil; failing {
			pause = secretPollFailed
		}
		if did {
			continue // send the answers at once
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
	}
}

// poll sends the answers that it has and carries out new orders. It reports whether there are answers to send.
func (s *secretOrders) poll(ctx context.Context) (bool, error) {
	call, cancel := context.WithTimeout(ctx, reportTimeout)
	defer cancel()
	var orders []engine.SecretOrder
	var errs []error
	parts := slices.Collect(slices.Chunk(slices.Compact(slices.Sorted(slices.Values(s.queues))), reportQueues))
	for _, part := range parts {
		given, err := s.to.SecretOrders(call, engine.SecretPoll{Worker: s.worker, Queues: part, Answers: s.unsent})
		orders, errs = append(orders, given...), append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return false, err
	}
	s.unsent = nil
	open := map[string]bool{}
	begun := 0
	for _, o := range orders {
		open[o.ID] = true
		if _, done := s.answered[o.ID]; done || begun == maxOrdersAtOnce {
			continue
		}
		begun++
		answer := s.carryOut(ctx, o)
		s.answered[o.ID] = answer
		s.unsent = append(s.unsent, answer)
	}
	maps.DeleteFunc(s.answered, func(id string, _ engine.SecretAnswer) bool { return !open[id] })
	return begun > 0, nil
}

func (s *secretOrders) carryOut(ctx context.Context, o engine.SecretOrder) engine.SecretAnswer {
	ctx, cancel := context.WithTimeout(ctx, secretOrderTime)
	defer cancel()
	out := engine.SecretAnswer{OrderID: o.ID}
	switch {
	case o.Revoke != nil:
		did := s.secrets.Revoke(ctx, o.TenantID, o.Revoke.RunID)
		out.Dropped, out.Ended, out.Failed = did.Dropped, did.Ended, did.Failed
		s.log.WarnContext(ctx, "secrets were revoked: the worker forgot its values and ended its leases",
			slog.String("tenantId", o.TenantID), slog.String("runId", o.Revoke.RunID), slog.Int("values", did.Dropped),
			slog.Int("leases", did.Ended), slog.Int("failed", did.Failed))
	case o.Check != nil:
		out.Checked = executor.CheckSecrets(ctx, s.secrets,
			secret.Scope{TenantID: o.TenantID, EnvironmentID: o.Check.EnvironmentID}, o.Check.Refs)
	}
	return out
}
