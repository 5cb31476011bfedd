package graph

import (
	"context"
	"log/slog"
	"net/http"

	"github.com/dvt-engine/dvt/graph/limit"

	"github.com/99designs/gqlgen/graphql"
	"github.com/99designs/gqlgen/graphql/executor"
	"github.com/99designs/gqlgen/graphql/handler/extension"
	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/gqlerror"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/graph/internal/model"
	"github.com/dvt-engine/dvt/graph/internal/selection"
	"github.com/dvt-engine/dvt/graph/ws"
)

// Config says how the API is served. Authenticate or Identify is required.
type Config struct {
	// Authenticate gives the principal of a token, or authz.ErrUnauthenticated,
	// ErrExpired or ErrUnavailable. It is asked for each operation, also on a
	// socket that has been open for long.
	Authenticate func(token string) (authz.Principal, error)
	// Identify does the same and may ask others: an issuer for its keys, the store for a browser's
	// session. nil takes Authenticate for both.
	Identify func(ctx context.Context, token string, session bool) (authz.Principal, error)
	// Throttle slows addresses that send wrong tokens; nil slows nobody.
	Throttle *authz.Throttle
	// Failed counts a failed authentication by its kind, of FailedKinds; nil counts none.
	Failed func(kind string)
	// Address is where a request comes from; nil takes its connection's.
	Address func(*http.Request) string
	// Session gives the token that the browser's session stands for. It is not
	// asked when the request carries a token of its own; nil knows no sessions.
	Session func(*http.Request) (token string, ok bool)
	// AllowedOrigins, beside the server's own, are where a page may come from that
	// sends mutations or opens a socket with a session: scheme, host and port.
	AllowedOrigins []string
	// Secure says that people reach the server by https: a page of its host that came by http is a foreign one.
	Secure bool
	Limits limit.Limits
	// Streams are the limits and times of sockets and event streams; what it says of
	// execution, callers and rights is ignored.
	Streams ws.Config
	// Introspection lets clients ask for the schema.
	Introspection bool
	// DevPrincipals are whom one may become in `dvt dev`; nil is nobody.
	DevPrincipals func() []DevPrincipal
	// Logger gets the causes of INTERNAL and of outages, once each; nil is slog.Default.
	Logger *slog.Logger
	// RequestID names a request for people and logs; without one an error gets an id of its own.
	RequestID func(context.Context) string
}

// DevPrincipal is a principal of `dvt dev`.
type DevPrincipal struct {
	Principal, TenantID string
	Role                authz.Role
}

func devPrincipal(d DevPrincipal) model.DevPrincipal {
	return model.DevPrincipal{Principal: d.Principal, TenantID: d.TenantID, Role: model.Role(d.Role)}
}

// maxErrors of one answer; a document that is wrong in more places is not helped by more.
const maxErrors = 20

// Handler serves the API on one path: POST, GET for queries, Server-Sent Events
// and websockets (api.md §1). It is safe for concurrent use.
type Handler struct {
	*Callers
	cfg     Config
	exec    graphql.GraphExecutor
	streams *ws.Server

	operations *operationLimit
	addresses  *limit.RequestRate
}

// NewHandler makes the handler over c.
func NewHandler(c UseCases, cfg Config) *Handler {
	cfg.Limits = cfg.Limits.WithDefaults()
	if cfg.DevPrincipals == nil {
		cfg.DevPrincipals = func() []DevPrincipal { return nil }
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	if cfg.RequestID == nil {
		cfg.RequestID = func(context.Context) string { return "" }
	}
	operations := newOperationLimit(cfg.Limits.Operations, cfg.Limits.PerMinute)
	exec, compiler := newExecutor(c, cfg, operations)
	h := &Handler{Callers: NewCallers(cfg), cfg: cfg, exec: exec, operations: operations,
		addresses: limit.NewRequestRate(cfg.Limits.AddressPerMinute, "your address")}
	streams := &h.cfg.Streams
	streams.Exec, streams.Connect, streams.Address = h.exec, h.connect, h.settings.Address
	streams.Share, streams.RightsChanged = sharing{control: c, exec: exec, compiler: compiler}.share, c.RightsChanged
	h.streams = ws.New(*streams)
	return h
}

// Shutdown ends every stream with SERVER_SHUTDOWN, closes the sockets and waits
// until they are gone or ctx ends. Queries and mutations over HTTP are not
// touched: http.Server.Shutdown waits for them, and event streams, only after this.
func (h *Handler) Shutdown(ctx context.Context) error { return h.streams.Shutdown(ctx) }

// ServeHTTP serves one request or socket.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	r = r.WithContext(graphql.StartOperationTrace(r.Context()))
	if ws.IsUpgrade(r) {
		h.streams.ServeWebSocket(w, r)
		return
	}
	h.serveHTTP(w, r)
}

func newExecutor(c UseCases, cfg Config, operations *operationLimit) (graphql.GraphExecutor, *selection.Compiler) {
	schema := Schema(c, cfg)
	e := executor.New(schema)
	errs := newPresenter(cfg.Logger, cfg.RequestID)
	e.SetErrorPresenter(errs.present)
	e.SetRecoverFunc(recovered)
	e.SetParserTokenLimit(cfg.Limits.Tokens)
	parsed := limit.NewCache(cfg.Limits.Cached, func(query string, _ *ast.QueryDocument) int { return len(query) })
	e.SetQueryCache(parsed)
	e.Use(extension.AutomaticPersistedQuery{
		Cache: limit.NewCache(cfg.Limits.Cached, func(_, query string) int { return len(query) })})
	e.Use(limit.Guard{Limits: cfg.Limits, Known: parsed})
	if cfg.Introspection {
		e.Use(extension.Introspection{})
	}
	e.Use(placement{})
	e.Use(operations)
	e.Use(newAnswerLimit(cfg.Limits.AnswerBytes))
	e.Use(limit.Cost{Schema: schema, Limit: cfg.Limits.Complexity})
	quick := newCompiled(schema.Schema(), cfg.Limits.Cached)
	e.Use(quick)
	return fewErrors{e}, quick.compiler
}

// fewErrors bounds what a document that is wrong everywhere is answered.
type fewErrors struct{ graphql.GraphExecutor }

func (e fewErrors) CreateOperationContext(ctx context.Context, params *graphql.RawParams) (*graphql.OperationContext,
	gqlerror.List) {
	op, errs := e.GraphExecutor.CreateOperationContext(ctx, params)
	return op, errs[:min(len(errs), maxErrors)]
}
