package graph

import (
	"context"
	"fmt"
	"runtime/debug"

	"github.com/dvt-engine/dvt/graph/ws"
)

// pump turns a stream that is pulled into the channel that gqlgen reads. It is
// the only place in this package that starts a goroutine, which ends with ctx, so
// with the operation, and frees the stream at once. At most one frame waits
// while the one before it is written; a slower viewer gets the newest state
// then. What ends the stream reaches the viewer as the end of its operation.
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
