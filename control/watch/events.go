package watch

import (
	"context"
	"errors"
	"time"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/live"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// EventsFrame has newly appended events. Events is empty in a quiet frame.
type EventsFrame struct {
	Sync    live.Sync
	Reason  live.Reason
	Events  []run.Event
	HeadSeq run.Seq
	Epoch   string
	AsOf    time.Time
	Reset   bool
}

// WatchEvents returns a stream of one run's log: every event after the given position, in order, exactly once. The hub
// only tells when to read; events come from the log itself. A position ahead of the log or of another epoch starts
// again from the beginning with Reset. While the store is down, frames are STALE (STORE_DOWN). Error: NOT_FOUND.
func (s *Watcher) WatchEvents(ctx context.Context, p authz.Principal, in WatchRun) (control.Stream[EventsFrame],
	error) {
	r, err := s.rights.GetVisible(ctx, p, authz.Read, in.RunID)
	if err != nil {
		return nil, err
	}
	frames, err := s.hub.Watch(ctx, in.RunID, in.After, in.Epoch)
	if err != nil {
		return nil, control.Translate(err)
	}
	e := &eventStream{s: s, guard: s.rights.GuardRun(p, r.Identity), frames: frames, runID: in.RunID}
	if in.After != nil {
		e.shown = *in.After
	}
	return e, nil
}

type eventStream struct {
	s      *Watcher
	guard  control.Guard
	frames *live.Stream
	runID  string
	shown  run.Seq
	last   EventsFrame // made from the newest frame of the hub, while its events are read page by page
	more   bool
	reset  bool
	down   bool // the last read failed, and the hub has not reported it yet
}

// storeRetry is the time between two reads while the store does not answer.
const storeRetry = time.Second

func (e *eventStream) Next(ctx context.Context) (f EventsFrame, err error) {
	err = e.guard.Wait(ctx, func(ctx context.Context) (err error) {
		f, err = e.next(ctx)
		return err
	})
	return f, err
}

func (e *eventStream) next(ctx context.Context) (EventsFrame, error) {
	for {
		if !e.more {
			if err := e.listen(ctx); err != nil {
				return EventsFrame{}, err
			}
		}
		f := e.last
		if e.more {
			evs, err := e.s.store.Events(ctx, e.runID, e.shown, control.MaxPageSize)
			said := e.down
			switch e.down = errors.Is(err, store.ErrUnavailable); {
			case e.down:
				e.more = false
				if said {
					continue
				}
				f.Sync, f.Reason = live.Stale, live.StoreDown
			case err != nil:
				return EventsFrame{}, err
			default:
				f.Events = evs
				if e.more = len(evs) == control.MaxPageSize; len(evs) > 0 {
					e.shown = evs[len(evs)-1].Seq
				}
			}
		}
		f.HeadSeq = max(f.HeadSeq, e.shown) // the log may be ahead of the hub
		f.Reset, e.reset = e.reset, false
		return f, nil
	}
}

// listen takes the next frame of the hub. After a failed read it asks for another read when storeRetry has passed.
func (e *eventStream) listen(ctx context.Context) error {
	wait, cancel := ctx, context.CancelFunc(func() {})
	if e.down {
		wait, cancel = context.WithTimeout(ctx, storeRetry)
	}
	defer cancel()
	h, err := e.frames.Next(wait)
	if err != nil {
		if e.down && ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
			e.more = true
			return nil
		}
		return err
	}
	if h.Reset {
		e.shown, e.reset = 0, true
	}
	e.last = EventsFrame{Sync: h.Sync, Reason: h.Reason, HeadSeq: h.HeadSeq, Epoch: h.Epoch, AsOf: h.AsOf}
	e.more = h.Sync == live.Live && h.State.Seq > e.shown
	e.down = e.down && h.Sync == live.Live
	return nil
}

func (e *eventStream) Close() { e.frames.Close() }
