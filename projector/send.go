package projector

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/dvt-engine/dvt/live"
	"github.com/dvt-engine/dvt/run"
)

// message says d; at is when the store said the epoch, committed when the event at
// d.To was persisted, both by the store's clock.
func message(epoch string, ops int64, at, committed time.Time, d run.Delta) live.Message {
	return live.Message{
		V: live.MessageVersion, TenantID: d.Header.TenantID, ProjectID: d.Header.ProjectID, RunID: d.Header.RunID,
		Epoch: epoch, Rev: run.ReducerRev, From: d.From, To: d.To, OpsRev: ops, At: at, CommittedAt: committed, Delta: &d,
	}
}

// errBus says that the bus cannot be used, or that the breaker thinks so.
var errBus = errors.New("project: the bus cannot be used")

// publishTime bounds one message.
const publishTime = 5 * time.Second

// send gives a message to the bus if the breaker lets it. An error wraps errBus,
// live.ErrRefused, or that of ctx.
func (p *Projector) send(ctx context.Context, m live.Message) error {
	if !p.breaker.allow(time.Now(), p.bus.Up()) {
		return errBus
	}
	within, cancel := context.WithTimeout(ctx, publishTime)
	defer cancel()
	err := p.bus.Publish(within, m)
	switch {
	case err != nil && ctx.Err() != nil:
		p.breaker.abandon(time.Now())
		return ctx.Err()
	case err == nil || errors.Is(err, live.ErrRefused):
		if err != nil {
			p.watch.failure()
		}
		if p.breaker.succeed() {
			p.cfg.Logger.InfoContext(ctx, "the bus is back: breaker closed")
		}
		return err
	}
	p.watch.failure()
	if p.breaker.fail(time.Now(), p.bus.Up()) {
		p.cfg.Logger.WarnContext(ctx, "the bus cannot be used: breaker open", slog.Any("error", err))
	}
	return errors.Join(errBus, err)
}
