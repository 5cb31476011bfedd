package control

import (
	"context"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/live"
)

// WatchRun follows one run's state; see live.Frame for what a frame promises.
func (s *Service) WatchRun(ctx context.Context, p authz.Principal, in WatchRun) (Stream[live.Frame], error) {
	id, err := s.watchable(ctx, p, in.RunID)
	if err != nil {
		return nil, err
	}
	frames, err := s.cfg.Hub.Watch(ctx, in.RunID, in.After, in.Epoch)
	if err != nil {
		return nil, translate(err)
	}
	return &runStream{guard: s.guardRun(p, id), frames: frames}, nil
}

type runStream struct {
	guard  guard
	frames *live.Stream
}

func (r *runStream) Next(ctx context.Context) (f live.Frame, err error) {
	err = r.guard.wait(ctx, func(ctx context.Context) (err error) {
		f, err = r.frames.Next(ctx)
		return err
	})
	return f, err
}

func (r *runStream) Close() { r.frames.Close() }
