package graph

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"

	"github.com/dvt-engine/dvt/graph/internal/mapping"

	"github.com/99designs/gqlgen/graphql"
	"github.com/vektah/gqlparser/v2/gqlerror"

	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/graph/ws"
	"github.com/dvt-engine/dvt/run"
)

// presenter converts every error of every transport into the error that the client sees. It logs causes that the client
// must not see, each once. It is safe for concurrent use.
type presenter struct {
	log       *slog.Logger
	requestID func(context.Context) string
	fault     func(ctx context.Context, code string) // nil for none
	status    map[run.Code]int
}

func newPresenter(log *slog.Logger, requestID func(context.Context) string,
	fault func(ctx context.Context, code string)) *presenter {
	p := &presenter{log: log, requestID: requestID, fault: fault, status: map[run.Code]int{}}
	for _, info := range run.CodeTable() {
		p.status[info.Code] = info.HTTPStatus
	}
	return p
}

// present is the executor's error presenter.
func (p *presenter) present(ctx context.Context, err error) *gqlerror.Error {
	out := &gqlerror.Error{}
	original, isGraphQL := errors.AsType[*gqlerror.Error](err)
	if isGraphQL {
		out.Path, out.Locations = original.Path, original.Locations
	}
	e := p.knownError(err)
	switch {
	case e != nil:
	case isGraphQL && original.Err == nil: // the document or its variables are invalid
		e = &control.Error{Code: run.CodeBadInput, Message: original.Message}
		// Clients of the protocol of persisted queries compare the code and the message.
		if original.Extensions["code"] == string(run.CodeQueryUnknown) {
			e.Code = run.CodeQueryUnknown
		}
	case isGraphQL && isInputError(ctx, original): // an enum in the wrong case, which validation accepts
		e = &control.Error{Code: run.CodeBadInput, Message: fmt.Sprintf("%s is not a value that the schema allows there.",
			original.Path)}
	default:
		e = &control.Error{
			Code: run.CodeInternal, Message: "Something went wrong inside dvt. Try again; if the error persists, give " +
				"the request id to your operator."}
	}
	out.Message, out.Extensions = e.Message, p.extensions(e)
	if p.status[e.Code] >= 500 && p.fault != nil {
		p.fault(ctx, string(e.Code))
	}
	if p.status[e.Code] >= 500 && (e.Code == run.CodeInternal || e.Unwrap() != nil) {
		id := p.requestID(ctx)
		if id == "" {
			id = rand.Text()
		}
		out.Extensions["requestId"] = id
		p.log.ErrorContext(ctx, "request failed", slog.String("code", string(e.Code)), slog.String("requestId", id),
			slog.String("path", out.Path.String()), slog.Any("error", cause(e, err)))
	}
	return out
}

// isInputError reports whether an error is about a value inside the arguments of the field of ctx. Its path is then
// longer than the path of the field.
func isInputError(ctx context.Context, err *gqlerror.Error) bool {
	return graphql.GetFieldContext(ctx) != nil && len(err.Path) > len(graphql.GetPath(ctx))
}

// knownError returns the error of the public table of codes that err stands for, or nil for an unexpected error.
func (p *presenter) knownError(err error) *control.Error {
	if e, ok := errors.AsType[*control.Error](err); ok {
		return e
	}
	switch {
	case errors.Is(err, ws.ErrTooManyOperations):
		return &control.Error{Code: run.CodeTooManyStreams,
			Message: "This socket already has the maximum number of operations. Complete one first."}
	case errors.Is(err, ws.ErrTooManyStreams):
		return &control.Error{Code: run.CodeTooManyStreams,
			Message: "You already have the maximum number of open streams. Close one first."}
	case errors.Is(err, ws.ErrShutdown):
		return &control.Error{Code: run.CodeServerShutdown,
			Message: "This server is shutting down. Resume elsewhere with your last position."}
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return &control.Error{Code: run.CodeUnavailable, Message: "The request ended before its answer was ready."}
	}
	return nil
}

func cause(e *control.Error, err error) error {
	if c := e.Unwrap(); c != nil {
		return c
	}
	return err
}

func (p *presenter) extensions(e *control.Error) map[string]any {
	x := map[string]any{"code": string(e.Code)}
	if s := p.status[e.Code]; s != 0 {
		x["httpStatus"] = s
	}
	if e.RetryAfter > 0 {
		x["retryAfterMs"] = e.RetryAfter.Milliseconds()
	}
	if len(e.Violations) > 0 {
		x["violations"] = e.Violations
	}
	if e.RunSeq > 0 {
		x["current"] = map[string]any{"runSeq": e.RunSeq}
	}
	if e.Code == run.CodePolicyMoved {
		x["current"] = map[string]any{"policyVersion": e.PolicyVersion}
	}
	if e.Code == run.CodeQuotaMoved {
		x["current"] = map[string]any{"quotaVersion": e.QuotaVersion}
	}
	if e.Code == run.CodeBulkMoved {
		x["current"] = map[string]any{"count": e.Count}
	}
	if d := e.Denial; d != nil {
		denial := map[string]any{"action": d.Action, "rule": d.Rule, "whoCould": mapping.List(d.WhoCould)}
		if d.PolicyVersion > 0 {
			denial["policyVersion"] = d.PolicyVersion
		}
		x["denial"] = denial
	}
	if len(e.Supported) > 0 {
		x["supported"] = e.Supported
	}
	if e.Limit > 0 {
		x["limit"] = e.Limit
	}
	return x
}

// panicError converts the panic of a resolver into an error, which the presenter logs and answers with INTERNAL.
func panicError(_ context.Context, v any) error {
	return fmt.Errorf("graph: panic: %v\n%s", v, debug.Stack())
}

func notInStreams(field string) error {
	return &control.Error{
		Code:    run.CodeBadInput,
		Message: fmt.Sprintf("%s is not available inside a subscription; select it on run(runId:).", field),
	}
}
