package ws

import (
	"context"
	"errors"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/99designs/gqlgen/graphql"
	"github.com/vektah/gqlparser/v2/gqlerror"
)

// ServeEvents executes an operation and writes its responses as Server-Sent Events in the distinct-connections mode of
// graphql-sse: a `next` event for each response, a `next` with the errors if the operation ends with an error, then
// `complete`. It returns when the stream has ended. key is the Peer.Key of the caller.
//
// It returns errors, and has then written nothing, when there are too many streams (ErrTooManyStreams) or the server is
// stopping (ErrShutdown). The executor's error presenter has converted them.
func (s *Server) ServeEvents(w http.ResponseWriter, r *http.Request, key string,
	op *graphql.OperationContext) gqlerror.List {
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
	defer s.release(key)
	e := newEventStream(r.Context(), s, w, op)
	h := w.Header()
	h.Set("Content-Type", "text/event-stream; charset=utf-8")
	h.Set("Cache-Control", "no-cache, no-transform")
	h.Set("X-Accel-Buffering", "no") // otherwise nginx buffers the events
	w.WriteHeader(http.StatusOK)
	e.serve(r.Context())
	_ = e.out.SetWriteDeadline(time.Time{}) // because the connection may serve another request
	return nil
}

// eventStream is one event stream. Only the goroutine of serve writes to it.
type eventStream struct {
	member
	w      http.ResponseWriter
	out    *http.ResponseController
	cancel context.CancelCauseFunc

	responses chan []byte   // from an execution of its own; unbuffered, so that take blocks until the previous is written
	payloads  chan []byte   // from a group; one may wait
	last      chan []byte   // the final events
	done      chan struct{} // closed when serve receives no more responses

	mu      sync.Mutex
	refused bool // offer refused a payload since payloads was last empty
}

func newEventStream(ctx context.Context, s *Server, w http.ResponseWriter,
	request *graphql.OperationContext) *eventStream {
	e := &eventStream{
		w: w, out: http.NewResponseController(w),
		responses: make(chan []byte), payloads: make(chan []byte, 1), last: make(chan []byte, 1), done: make(chan struct{}),
	}
	e.srv, e.request, e.sink = s, request, e
	e.ctx, e.cancel = context.WithCancelCause(ctx)
	return e
}

func (e *eventStream) serve(parent context.Context) {
	stop := context.AfterFunc(e.srv.stopping, func() { e.drop(ErrShutdown) })
	defer stop()
	go e.follow(false)
	comment := time.NewTicker(e.srv.cfg.CommentEvery)
	defer comment.Stop()
	ok := e.write([]byte(":\n\n"))
	for ok {
		select {
		case event := <-e.responses:
			ok = e.write(event)
			comment.Reset(e.srv.cfg.CommentEvery)
		case payload := <-e.payloads:
			ok = e.write(payload)
			comment.Reset(e.srv.cfg.CommentEvery)
			e.notifyReady()
		case <-comment.C:
			ok = e.write([]byte(":\n\n"))
		case end := <-e.last:
			select {
			case payload := <-e.payloads: // it was offered before the final events
				ok = e.write(payload)
			default:
			}
			if ok {
				e.write(end)
			}
			e.cancel(nil)
			return
		case <-parent.Done():
			ok = false
		}
	}
	e.drop(context.Canceled)
	close(e.done)
	<-e.last
}

// drop ends the operation with the cause why; see operation.drop.
func (e *eventStream) drop(why error) {
	e.cancel(why)
	if e.leave() {
		e.end(e.present(why))
	}
}

func (e *eventStream) offer(p *frameBuf) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.refused = len(e.payloads) > 0; e.refused {
		return false
	}
	e.payloads <- nextEvent(p.data())
	return true
}

// notifyReady calls ready if a payload was refused and none waits any more.
func (e *eventStream) notifyReady() {
	e.mu.Lock()
	refused := e.refused && len(e.payloads) == 0
	e.mu.Unlock()
	if refused {
		e.ready()
	}
}

func (e *eventStream) take(r *graphql.Response) bool {
	select {
	case e.responses <- nextEvent(AppendResponse(nil, r)):
		return true
	case <-e.done:
		return false
	}
}

func (e *eventStream) end(errs gqlerror.List) {
	e.srv.metrics.endedBy(errs)
	var b []byte
	if len(errs) > 0 {
		b = nextEvent(AppendResponse(nil, &graphql.Response{Errors: errs}))
	}
	e.last <- append(b, "event: complete\ndata:\n\n"...)
}

// write writes and flushes one event within the write timeout; false when the peer has left or is too slow.
func (e *eventStream) write(event []byte) bool {
	// The error is ignored: a ResponseWriter without deadlines exists only in tests and does not block.
	_ = e.out.SetWriteDeadline(e.srv.cfg.Now().Add(e.srv.cfg.WriteTimeout))
	_, err := e.w.Write(event)
	if err == nil {
		err = e.out.Flush()
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		e.srv.metrics.slow.Inc()
		e.srv.metrics.end(codeSlow)
	}
	return err == nil
}

// nextEvent returns a `next` event. A response is JSON without line breaks, so one data field holds it.
func nextEvent(response []byte) []byte {
	const head = "event: next\ndata: "
	b := append(make([]byte, 0, len(head)+len(response)+2), head...)
	return append(append(b, response...), "\n\n"...)
}
