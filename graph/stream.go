package graph

import (
	"context"
	"fmt"
	"runtime/debug"

	"github.com/dvt-engine/dvt/graph/ws"
)

// pump copies a stream into the channel that gqlgen reads. show maps a frame. Only pump starts goroutines in this
// package: one for each stream, which ends with ctx, the context of the operation, and closes the stream. At most one
// frame waits while the previous one is written; the stream itself merges frames for a slow viewer. The error that ends
// the stream ends the operation of the viewer with that error.
func pump[F, M any](ctx context.Context, frames Stream[F], err error, show func(F) *M) (<-chan *M, error) {
	if err != nil {
		return nil, err
	}
	out := make(chan *M)
	go func() {
		defer close(out)
		defer frames.Close()
		defer func() {
			if v := recover(); v != nil {
				ws.Fail(ctx, fmt.Errorf("graph: panic in a stream: %v\n%s", v, debug.Stack()))
			}
		}()
		for {
			frame, err := frames.Next(ctx)
			if err != nil {
				ws.Fail(ctx, err)
				return
			}
			select {
			case out <- show(frame):
			case <-ctx.Done():
				return
			}
		}
	}()
	return out, nil
}
