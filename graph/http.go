package graph

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"github.com/99designs/gqlgen/graphql"
	"github.com/klauspost/compress/gzhttp"
	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/gqlerror"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/graph/ws"
	"github.com/dvt-engine/dvt/run"
)

// These are the media types of GraphQL over HTTP. An answer in application/json has status 200 once the request was
// parsed, even with errors, as clients of that older media type expect. An answer in application/graphql-response+json
// has 400 when the operation did not start. Both have 401, 405, 406, 413 and 415 for failures of HTTP itself (contract
// T134).
const (
	typeJSON     = "application/json"
	typeResponse = "application/graphql-response+json"
	typeEvents   = "text/event-stream"
)

// accepts says which of the media types of this package a client accepts.
type accepts struct{ events, json, response bool }

func acceptsOf(r *http.Request) accepts {
	var a accepts
	header := strings.Join(r.Header.Values("Accept"), ",")
	for part := range strings.SplitSeq(header, ",") {
		switch kind, _, _ := mime.ParseMediaType(part); kind {
		case typeEvents:
			a.events = true
		case typeResponse:
			a.response = true
		case typeJSON, "application/*", "*/*":
			a.json = true
		}
	}
	if strings.TrimSpace(header) == "" {
		a.json = true
	}
	return a
}

// exchange is one request and its answer.
type exchange struct {
	h       *Handler
	w       http.ResponseWriter
	r       *http.Request
	accepts accepts
}

func (h *Handler) serveHTTP(w http.ResponseWriter, r *http.Request) {
	x := &exchange{h: h, w: w, r: r, accepts: acceptsOf(r)}
	if r.Method != http.MethodPost && r.Method != http.MethodGet {
		w.Header().Set("Allow", "GET, POST")
		x.refuse(http.StatusMethodNotAllowed, refuse(run.CodeBadInput, "Send operations by POST, or queries by GET."))
		return
	}
	c := h.credential(r)
	if err := h.addresses.Take(authz.Network(c.address)); err != nil {
		x.refuse(0, err)
		return
	}
	p, err := h.authenticate(r.Context(), c)
	if err != nil {
		x.refuse(0, err)
		return
	}
	x.r = r.WithContext(withPrincipal(r.Context(), p))
	params, status, err := x.params()
	if err != nil {
		x.refuse(status, err)
		return
	}
	op, errs := h.exec.CreateOperationContext(x.r.Context(), params)
	ctx := graphql.WithOperationContext(x.r.Context(), op)
	if len(errs) > 0 {
		x.answer(x.invalidStatus(), h.exec.DispatchError(ctx, errs), false)
		return
	}
	x.run(ctx, c, peerKey(p), op)
}

func (x *exchange) run(ctx context.Context, c credential, peer string, op *graphql.OperationContext) {
	kind := op.Operation.Operation
	switch {
	case kind != ast.Query && x.r.Method == http.MethodGet && (kind == ast.Mutation || !x.accepts.events):
		x.w.Header().Set("Allow", http.MethodPost)
		x.refuse(http.StatusMethodNotAllowed, refuse(run.CodeBadInput, "GET is for queries; send this by POST."))
	case kind == ast.Subscription && !x.accepts.events:
		x.refuse(http.StatusNotAcceptable, refuse(run.CodeBadInput,
			"A subscription needs Accept: text/event-stream, or a websocket with the subprotocol graphql-transport-ws."))
	case kind == ast.Mutation && c.session && !x.h.OwnOrigin(x.r):
		x.refuse(http.StatusForbidden, refuse(run.CodeForbidden,
			"A mutation with a session must come from a page of this server: its Origin is missing or not allowed."))
	case kind == ast.Subscription || x.accepts.events && !x.accepts.json && !x.accepts.response:
		if errs := x.h.streams.ServeEvents(x.w, x.r.WithContext(ctx), peer, op); len(errs) > 0 {
			x.answer(statusOf(errs, http.StatusServiceUnavailable), &graphql.Response{Errors: errs}, false)
		}
	default:
		leave, err := x.h.operations.enter(peer)
		if err != nil {
			x.refuse(0, err)
			return
		}
		defer leave() // after the answer is written
		next, ctx := x.h.exec.DispatchOperation(context.WithValue(ctx, countedKey{}, true), op)
		response := next(ctx)
		if response == nil { // the client has disconnected
			x.refuse(0, context.Cause(ctx))
			return
		}
		x.answer(http.StatusOK, response, true)
	}
}

// invalidStatus returns the status for an operation that did not start.
func (x *exchange) invalidStatus() int {
	if x.accepts.response || x.accepts.events {
		return http.StatusBadRequest
	}
	return http.StatusOK
}

// refuse answers with one error. Status 0 stands for the status of the error's code.
func (x *exchange) refuse(status int, err error) {
	response := x.h.exec.DispatchError(x.r.Context(), gqlerror.List{gqlerror.WrapPath(nil, err)})
	if status == 0 {
		status = statusOf(response.Errors, http.StatusInternalServerError)
	}
	if status == http.StatusUnauthorized {
		x.w.Header().Set("WWW-Authenticate", "Bearer")
	}
	x.answer(status, response, false)
}

func statusOf(errs gqlerror.List, otherwise int) int {
	for _, e := range errs {
		if s, ok := e.Extensions["httpStatus"].(int); ok {
			return s
		}
	}
	return otherwise
}

// answer writes one response. When begun is false the operation did not start, and the response has no member `data`.
func (x *exchange) answer(status int, response *graphql.Response, begun bool) {
	h := x.w.Header()
	h.Set("Content-Type", typeJSON+"; charset=utf-8")
	if x.accepts.response {
		h.Set("Content-Type", typeResponse+"; charset=utf-8")
	}
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	if ms := retryAfter(response.Errors); ms > 0 {
		h.Set("Retry-After", strconv.FormatInt((ms+999)/1000, 10))
	}
	gzipHandler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		if begun {
			_, _ = w.Write(ws.AppendResponse(make([]byte, 0, len(response.Data)+64), response))
			return
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"errors": response.Errors})
	})).ServeHTTP(x.w, x.r)
}

// gzipHandler compresses answers of 4 KiB and more for clients that accept gzip. It uses the fastest level, because
// each answer is sent only once.
//
//nolint:gochecknoglobals // its only state is a pool
var gzipHandler = sync.OnceValue(func() func(http.Handler) http.HandlerFunc {
	wrap, err := gzhttp.NewWrapper(gzhttp.EnableZstd(false), gzhttp.CompressionLevel(gzip.BestSpeed),
		gzhttp.MinSize(4<<10))
	if err != nil {
		panic(err) // the options are constants
	}
	return wrap
})()

// retryAfter returns the longest wait in milliseconds that one of the errors asks for.
func retryAfter(errs gqlerror.List) int64 {
	var longest int64
	for _, e := range errs {
		ms, _ := e.Extensions["retryAfterMs"].(int64)
		longest = max(longest, ms)
	}
	return longest
}

// params reads the operation from the request. Its error comes with the HTTP status.
func (x *exchange) params() (*graphql.RawParams, int, error) {
	params := &graphql.RawParams{Headers: x.r.Header, ReadTime: graphql.TraceTiming{Start: graphql.Now()}}
	read := x.readBody
	if x.r.Method == http.MethodGet {
		read = x.readQuery
	}
	if status, err := read(params); err != nil {
		return nil, status, err
	}
	params.ReadTime.End = graphql.Now()
	if note := x.h.cfg.Operation; note != nil {
		note(x.r.Context(), params.OperationName)
	}
	return params, 0, nil
}

func (x *exchange) readBody(params *graphql.RawParams) (int, error) {
	if kind, _, _ := mime.ParseMediaType(x.r.Header.Get("Content-Type")); kind != typeJSON {
		return http.StatusUnsupportedMediaType, refuse(run.CodeBadInput, "Send the operation as application/json.")
	}
	limit := x.h.cfg.Limits.BodyBytes
	err := decode(http.MaxBytesReader(x.w, x.r.Body, limit), params)
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return http.StatusRequestEntityTooLarge, &control.Error{
			Code: run.CodePlanTooLarge, Message: fmt.Sprintf("The request has more than %d bytes.", limit), Limit: limit,
		}
	}
	if err != nil {
		return http.StatusBadRequest, refuse(run.CodeBadInput,
			"The body is not a GraphQL request in JSON: query, operationName, variables, extensions.")
	}
	return 0, nil
}

func (x *exchange) readQuery(params *graphql.RawParams) (int, error) {
	q := x.r.URL.Query()
	params.Query, params.OperationName = q.Get("query"), q.Get("operationName")
	for name, into := range map[string]*map[string]any{"variables": &params.Variables, "extensions": &params.Extensions} {
		if v := q.Get(name); v != "" && decode(strings.NewReader(v), into) != nil {
			return http.StatusBadRequest, refuse(run.CodeBadInput, name+" is not a JSON object.")
		}
	}
	return 0, nil
}

// decode reads exactly one JSON value. It decodes numbers as json.Number, so that large ones keep their digits.
func decode(from io.Reader, into any) error {
	d := json.NewDecoder(from)
	d.UseNumber()
	if err := d.Decode(into); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("graph: more than one JSON value")
	}
	return nil
}
