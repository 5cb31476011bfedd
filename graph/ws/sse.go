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

// ServeEvents runs an operation and writes its responses as Server-Sent Events
// in the distinct-connections mode of graphql-sse: `next` for each, an error that
// ends it in a last `next`, then `complete`. A stream that is too many, or that
// comes while the server stops, is refused as present words it, before anything
// is written. key is the Peer.Key of the caller.
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
	defer s.part(key)
	e := newEventStream(r.Context(), s, w, op)
	h := w.Header()
	h.Set("Content-Type", "text/event-stream; charset=utf-8")
	h.Set("Cache-Control", "no-cache, no-transform")
	h.Set("X-Accel-Buffering", "no") // or nginx keeps the events to itself
	w.WriteHeader(http.StatusOK)
	e.serve(r.Context())
	_ = e.out.SetWriteDeadline(time.Time{}) // the connection may carry another request
	return nil
}

// eventStream is one event stream; only serve writes.
type eventStream struct {
	member
	w      http.ResponseWriter
	out    *http.ResponseController
	cancel context.CancelCauseFunc

	responses chan []byte   // of an execution of its own, each taken when the former is written
	payloads  chan []byte   // of a group; one waits
	last      chan []byte   // the end
	gone      chan struct{} // nobody takes events any more

	mu      sync.Mutex
	refused bool // an offer, since payloads was empty
}

func newEventStream(ctx context.Context, s *Server, w http.ResponseWriter,
	request *graphql.OperationContext) *eventStream {
	e := &eventStream{
		w: w, out: http.NewResponseController(w),
		responses: make(chan []byte), payloads: make(chan []byte, 1), last: make(chan []byte, 1), gone: make(chan struct{}),
	}
	e.srv, e.request, e.sink = s, request, e
	e.ctx, e.cancel = context.WithCancelCause(ctx)
	return e
}

func (e *eventStream) serve(parent context.Context) {
	stay := context.AfterFunc(e.srv.stopping, func() { e.drop(ErrShutdown) })
	defer stay()
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
			e.again()
		case <-comment.C:
			ok = e.write([]byte(":\n\n"))
		case end := <-e.last:
			select {
			case payload := <-e.payloads: // it was offered before the end
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
	close(e.gone)
	<-e.last
}

// drop ends the operation from outside; see operation.drop.
func (e *eventStream) drop(why error) {
	e.cancel(why)
	if e.leave() {
		e.end(e.worded(why))
	}
}

func (e *eventStream) offer(p *parcel) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.refused = len(e.payloads) > 0; e.refused {
		return false
	}
	e.payloads <- nextEvent(p.data())
	return true
}

// again asks for what was refused, once nothing waits any more.
func (e *eventStream) again() {
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
	case <-e.gone:
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

// write sends at once, within the write timeout; false when the peer is gone.
func (e *eventStream) write(event []byte) bool {
	// A writer without deadlines, as tests have, cannot get stuck either.
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

// nextEvent is one event. A response is JSON on one line, so one data field holds it.
func nextEvent(response []byte) []byte {
	const head = "event: next\ndata: "
	b := append(make([]byte, 0, len(head)+len(response)+2), head...)
	return append(append(b, response...), "\n\n"...)
}
