package control

import (
	"context"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/live"
	"github.com/dvt-engine/dvt/run"
)

// WatchEvents follows one run's log: every event after the given position, in
// order, none twice and none missing. The hub says when to look; the log itself
// is what is read. A position ahead of the log or of another epoch begins anew with Reset.
func (s *Service) WatchEvents(ctx context.Context, p authz.Principal, in WatchRun) (Stream[EventsFrame], error) {
	r, err := s.visible(ctx, p, in.RunID)
	if err != nil {
		return nil, err
	}
	frames, err := s.cfg.Hub.Watch(ctx, in.RunID, in.After, in.Epoch)
	if err != nil {
		return nil, translate(err)
	}
	e := &eventStream{guard: guard{s: s, p: p, object: objectOf(r.Identity)}, frames: frames, runID: in.RunID}
	if in.After != nil {
		e.shown = *in.After
	}
	return e, nil
}

type eventStream struct {
	guard  guard
	frames *live.Stream
	runID  string
	shown  run.Seq
	last   EventsFrame // of the newest hub frame, while its events are read page by page
	more   bool
	reset  bool
}

func (e *eventStream) Next(ctx context.Context) (f EventsFrame, err error) {
	err = e.guard.wait(ctx, func(ctx context.Context) (err error) {
		f, err = e.next(ctx)
		return err
	})
	return f, err
}

func (e *eventStream) next(ctx context.Context) (EventsFrame, error) {
	if !e.more {
		h, err := e.frames.Next(ctx)
		if err != nil {
			return EventsFrame{}, err
		}
		if h.Reset {
			e.shown, e.reset = 0, true
		}
		e.last = EventsFrame{Sync: h.Sync, Reason: h.Reason, HeadSeq: h.HeadSeq, Epoch: h.Epoch, AsOf: h.AsOf}
		e.more = h.Sync == live.Live && h.State.Seq > e.shown
	}
	f := e.last
	f.Reset = e.reset
	if e.more {
		evs, err := e.guard.s.cfg.Store.Events(ctx, e.runID, e.shown, maxPageSize)
		if err != nil {
			return EventsFrame{}, err
		}
		f.Events = evs
		if e.more = len(evs) == maxPageSize; len(evs) > 0 {
			e.shown = evs[len(evs)-1].Seq
		}
		f.HeadSeq = max(f.HeadSeq, e.shown)
	}
	e.reset = false
	return f, nil
}

func (e *eventStream) Close() { e.frames.Close() }
