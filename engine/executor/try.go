package executor

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/dvt-engine/dvt/engine"
)

// beats is the time of the last heartbeat of an execution.
type beats struct{ last atomic.Pointer[time.Time] }

// note returns beat with a note of the time of each call.
func (b *beats) note(now func() time.Time, beat func(Heartbeat)) func(Heartbeat) {
	return func(h Heartbeat) {
		beat(h)
		b.last.Store(new(now().UTC()))
	}
}

// record returns the record of an execution that began at a time and ended with o.
func (r *Runner) record(ctx context.Context, h *host, began time.Time, o outcome) engine.TryRecord {
	x := h.evidence.of
	rec := engine.TryRecord{Worker: r.Worker, StartedAt: began.UTC(), EndedAt: r.now().UTC(), ErrorClass: o.class,
		Stack: h.stack}
	rec.LogLines, rec.LogBytes = h.out.printed()
	if at := x.beats.last.Load(); at != nil {
		rec.LastHeartbeatAt = *at
	}
	if exit := h.exit.Load(); exit != nil {
		if rec.Signal = exit.Signal; exit.Status >= 0 {
			rec.ExitStatus = &exit.Status
		}
	}
	switch {
	case o.completed != nil:
		rec.Outcome = engine.TrySucceeded
	case o.failed != nil:
		rec.Outcome, rec.ErrorCode = engine.TryFailed, o.failed.ErrorCode
	case x.workerStops(ctx):
		rec.Outcome = engine.TryInterrupted
	default:
		rec.Outcome = engine.TryStopped
	}
	return rec
}

// keepTry sends the record of a try until ctx ends. A record that is lost changes nothing: the log has the end of the
// attempt.
func (r *Runner) keepTry(ctx context.Context, to *evidence, rec engine.TryRecord) {
	err := persist(ctx, shipRetryFirst, shipRetryMost, func() error {
		if err := to.send(ctx, engine.Evidence{Try: &rec}); !errors.Is(err, errEvidenceRefused) {
			return err
		}
		return nil
	})
	if err != nil {
		r.warn(ctx, to.of.Dispatch, "the record of the try was not kept", err)
	}
}
