package projector

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/dvt-engine/dvt/live"
	"github.com/dvt-engine/dvt/run"
)

// newMessage builds the message of d. at is the store's time when it reported the epoch; committed is the persistedAt
// of the event at d.To.
func newMessage(epoch string, ops int64, at, committed time.Time, d run.Delta) live.Message {
	return live.Message{
		V: live.MessageVersion, TenantID: d.Header.TenantID, ProjectID: d.Header.ProjectID, RunID: d.Header.RunID,
		Epoch: epoch, Rev: run.ReducerRev, From: d.From, To: d.To, OpsRev: ops, At: at, CommittedAt: committed, Delta: &d,
	}
}

// errBusUnavailable means that the bus cannot be used, or that the breaker is open.
var errBusUnavailable = errors.New("projector: the bus cannot be used")

// publishTime bounds the publication of one message.
const publishTime = 5 * time.Second

// send publishes a message if the breaker allows it. An error wraps errBusUnavailable, live.ErrRefused, or ctx's
// error.
func (p *Projector) send(ctx context.Context, m live.Message) error {
	if !p.breaker.allow(time.Now(), p.bus.Up()) {
		return errBusUnavailable
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
			p.monitor.countFailure()
		}
		if p.breaker.succeed() {
			p.cfg.Logger.InfoContext(ctx, "the bus can be used again; the breaker is closed")
		}
		return err
	}
	p.monitor.countFailure()
	if p.breaker.fail(time.Now(), p.bus.Up()) {
		p.cfg.Logger.WarnContext(ctx, "the bus cannot be used; the breaker is open", slog.Any("error", err))
	}
	return errors.Join(errBusUnavailable, err)
}
