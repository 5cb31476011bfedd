package ws

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"

	"github.com/99designs/gqlgen/graphql"
	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/gqlerror"
)

// ending holds the error that ends one subscription. gqlgen has no way to return it: a resolver returns a channel and
// can only close it.
type ending struct {
	mu  sync.Mutex
	err error
}

type endingKey struct{}

// Fail sets the error that the subscription of ctx ends with. A resolver calls it before it closes its channel. The
// first call wins. For a ctx of another transport it does nothing. The executor's error presenter converts the error.
// It is safe for concurrent use.
func Fail(ctx context.Context, err error) {
	e, ok := ctx.Value(endingKey{}).(*ending)
	if !ok {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.err == nil {
		e.err = err
	}
}

func (e *ending) get() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.err
}

// respond executes an operation and passes its responses to take, one at a time: it requests the next response after
// take has returned, so that a slow client is not sent a backlog. It stops when take returns false. It returns the
// errors that the operation ended with; nil if it completed or the client ended it.
func (s *Server) respond(ctx context.Context, op *graphql.OperationContext, take func(*graphql.Response) bool) (
	errs gqlerror.List) {
	end := &ending{}
	ctx = context.WithValue(graphql.WithOperationContext(ctx, op), endingKey{}, end)
	defer func() {
		if v := recover(); v != nil {
			errs = s.present(ctx, fmt.Errorf("%w: %v\n%s", errPanic, v, debug.Stack()))
		}
	}()
	stream := op.Operation.Operation == ast.Subscription
	next, opCtx := s.cfg.Exec.DispatchOperation(ctx, op)
	for response := next(opCtx); response != nil; response = next(opCtx) {
		if stream && len(response.Data) == 0 && len(response.Errors) > 0 {
			return response.Errors
		}
		if !take(response) || !stream {
			return nil
		}
	}
	switch err := end.get(); {
	case errors.Is(context.Cause(ctx), ErrShutdown):
		return s.present(ctx, ErrShutdown)
	case err != nil && ctx.Err() == nil:
		return s.present(ctx, err)
	}
	return nil
}

// AppendResponse appends a response as JSON. It copies r.Data unchanged, because the executor wrote valid JSON and
// encoding/json would validate and compact it again.
func AppendResponse(b []byte, r *graphql.Response) []byte {
	b = append(b, '{')
	if len(r.Errors) > 0 {
		b = append(appendErrors(append(b, `"errors":`...), r.Errors), ',')
	}
	b = append(b, `"data":`...)
	if len(r.Data) == 0 {
		b = append(b, "null"...)
	}
	return append(append(b, r.Data...), '}')
}

// appendErrors appends errors as JSON. If an extension cannot be encoded, it sends only the message of the first error.
func appendErrors(b []byte, errs gqlerror.List) []byte {
	list, err := json.Marshal(errs)
	if err != nil {
		list, _ = json.Marshal(gqlerror.List{{Message: errs[0].Message}})
	}
	return append(b, list...)
}
