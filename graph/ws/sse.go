package ws

import (
	"context"
	"net/http"
	"time"

	"github.com/99designs/gqlgen/graphql"
	"github.com/vektah/gqlparser/v2/gqlerror"
)

// ServeEvents runs an operation and writes its responses as Server-Sent Events
// in the distinct-connections mode of graphql-sse: `next` for each, an error that
// ends it in a last `next`, then `complete`. A stream that is too many, or that
// comes while the server stops, is refused as present words it, before anything
// is written. key is the Peer.Key of the caller.
func (s *Server) ServeEvents(w http.ResponseWriter, r *http.Request, key string, op *graphql.OperationContext) gqlerror.List {
	switch {
	case !s.enter():
		if s.stopping.Err() != nil {
			return s.present(r.Context(), ErrShutdown)
		}
		return s.present(r.Context(), ErrTooManyStreams)
	case !s.join(key):
		s.leave()
		return s.present(r.Context(), ErrTooManyStreams)
	}
	defer s.leave()
	defer s.part(key)
	e := &eventStream{srv: s, w: w, out: http.NewResponseController(w)}
	h := w.Header()
	h.Set("Content-Type", "text/event-stream; charset=utf-8")
	h.Set("Cache-Control", "no-cache, no-transform")
	h.Set("X-Accel-Buffering", "no") // or nginx keeps the events to itself
	w.WriteHeader(http.StatusOK)
	e.serve(r.Context(), op)
	_ = e.out.SetWriteDeadline(time.Time{}) // the connection may carry another request
	return nil
}

// eventStream is one event stream; only serve writes.
type eventStream struct {
	srv *Server
	w   http.ResponseWriter
	out *http.ResponseController
}

func (e *eventStream) serve(parent context.Context, op *graphql.OperationContext) {
	ctx, cancel := context.WithCancelCause(parent)
	stay := context.AfterFunc(e.srv.stopping, func() { cancel(ErrShutdown) })
	defer stay()

	events := make(chan []byte)
	last := make(chan []byte, 1)
	gone := make(chan struct{}) // nobody takes events any more
	go func() {
		last <- endEvents(e.srv.respond(ctx, op, func(r *graphql.Response) bool {
			select {
			case events <- nextEvent(r):
				return true
			case <-gone:
				return false
			}
		}))
	}()
	comment := time.NewTicker(e.srv.cfg.CommentEvery)
	defer comment.Stop()
	ok := e.write([]byte(":\n\n"))
	for ok {
		select {
		case event := <-events:
			ok = e.write(event)
			comment.Reset(e.srv.cfg.CommentEvery)
		case <-comment.C:
			ok = e.write([]byte(":\n\n"))
		case end := <-last:
			e.write(end)
			cancel(nil)
			return
		case <-parent.Done():
			ok = false
		}
	}
	cancel(context.Canceled)
	close(gone)
	<-last
}

// write sends at once, within the write timeout; false when the peer is gone.
func (e *eventStream) write(event []byte) bool {
	// A writer without deadlines, as tests have, cannot get stuck either.
	_ = e.out.SetWriteDeadline(e.srv.cfg.Now().Add(e.srv.cfg.WriteTimeout))
	if _, err := e.w.Write(event); err != nil {
		return false
	}
	return e.out.Flush() == nil
}

// nextEvent is one event. A response is JSON on one line, so one data field holds it.
func nextEvent(r *graphql.Response) []byte {
	return append(AppendResponse([]byte("event: next\ndata: "), r), "\n\n"...)
}

// endEvents are the last: the errors that ended the operation, if any, and the end.
func endEvents(errs gqlerror.List) []byte {
	var b []byte
	if len(errs) > 0 {
		b = nextEvent(&graphql.Response{Errors: errs})
	}
	return append(b, "event: complete\ndata:\n\n"...)
}
