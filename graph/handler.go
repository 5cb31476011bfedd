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

// Config configures a Handler. Authenticate or Identify is required; the zero values of all other fields are usable.
type Config struct {
	// Authenticate returns the principal of a token, or authz.ErrUnauthenticated, ErrExpired or ErrUnavailable. It is
	// called for each operation, also on an open socket, and from many goroutines.
	Authenticate func(token string) (authz.Principal, error)
	// Identify does the same and may do I/O: fetch an issuer's keys, or read a browser's session from the store. nil
	// stands for Authenticate, for tokens and sessions.
	Identify func(ctx context.Context, token string, session bool) (authz.Principal, error)
	// Throttle delays addresses that send wrong tokens; nil delays none.
	Throttle *authz.Throttle
	// Failed is called for each failed authentication with one of FailedKinds; nil ignores them.
	Failed func(kind string)
	// Address returns the address of the client; nil stands for the remote address of the connection.
	Address func(*http.Request) string
	// Session returns the token of the browser's session. It is not called for a request with a token of its own; nil
	// disables sessions.
	Session func(*http.Request) (token string, ok bool)
	// AllowedOrigins are the origins (scheme, host and port), in addition to the server's own, whose pages may send
	// mutations or open sockets with a session.
	AllowedOrigins []string
	// Secure says that browsers reach the server over https. A page of its host that was loaded over http is then foreign.
	Secure bool
	// Limits bound operations; zero values mean the defaults.
	Limits limit.Limits
	// Streams configures the limits and times of sockets and event streams. NewHandler overwrites its Exec, Connect,
	// Address, Share and RightsChanged.
	Streams ws.Config
	// Introspection lets clients read the schema.
	Introspection bool
	// DevPrincipals returns the principals that a user of `dvt dev` may become; nil stands for none.
	DevPrincipals func() []DevPrincipal
	// Logger gets the cause of each INTERNAL error and of each outage once; nil is slog.Default.
	Logger *slog.Logger
	// RequestID returns the id of the request, which errors and logs carry. Where it is nil or returns "", an error gets a
	// random id.
	RequestID func(context.Context) string
	// Operation gets the operationName of each request over HTTP, as the client sent it; nil ignores it.
	Operation func(ctx context.Context, name string)
	// Standby refuses every mutation with STANDBY, because this site is a standby.
	Standby bool
	// Fault gets the code of each answer of the status 500 and above; nil ignores it.
	Fault func(ctx context.Context, code string)
}

// DevPrincipal is a principal of `dvt dev`.
type DevPrincipal struct {
	Principal, TenantID string
	Role                authz.Role
}

func devPrincipal(d DevPrincipal) model.DevPrincipal {
	return model.DevPrincipal{Principal: d.Principal, TenantID: d.TenantID, Role: model.Role(d.Role)}
}

// maxErrors bounds the errors of one answer, because validation of a hostile document can produce thousands.
const maxErrors = 20

// Handler serves the API on one path: POST, GET for queries, Server-Sent Events and websockets. It is safe for
// concurrent use.
type Handler struct {
	*Callers
	cfg     Config
	exec    graphql.GraphExecutor
	streams *ws.Server

	operations *operationLimit
	addresses  *limit.RequestRate
}

// NewHandler returns the handler of the API over c. The caller must call Shutdown to end its streams.
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
	streams.Share, streams.RightsChanged = sharer{control: c, exec: exec, compiler: compiler}.share, c.RightsChanged
	h.streams = ws.New(*streams)
	return h
}

// Shutdown ends every stream with SERVER_SHUTDOWN, closes the sockets and waits until they are gone or ctx ends. It
// does not touch queries and mutations over HTTP. Call http.Server.Shutdown after it, because that waits for all
// requests, including event streams, which end only here.
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
	errs := newPresenter(cfg.Logger, cfg.RequestID, cfg.Fault)
	e.SetErrorPresenter(errs.present)
	e.SetRecoverFunc(panicError)
	e.SetParserTokenLimit(cfg.Limits.Tokens)
	parsed := limit.NewCache(cfg.Limits.Cached, func(query string, _ *ast.QueryDocument) int { return len(query) })
	e.SetQueryCache(parsed)
	e.Use(extension.AutomaticPersistedQuery{
		Cache: limit.NewCache(cfg.Limits.Cached, func(_, query string) int { return len(query) })})
	e.Use(limit.Guard{Limits: cfg.Limits, Known: parsed})
	if cfg.Introspection {
		e.Use(extension.Introspection{})
	}
	e.Use(fieldPlacement{})
	e.Use(operations)
	if cfg.Standby {
		e.Use(standbyGuard{})
	}
	e.Use(newAnswerLimit(cfg.Limits.AnswerBytes))
	e.Use(limit.Cost{Schema: schema, Limit: cfg.Limits.Complexity})
	quick := newCompiledQueries(schema.Schema(), cfg.Limits.Cached)
	e.Use(quick)
	return errorLimit{e}, quick.compiler
}

// errorLimit limits the errors of one answer to maxErrors.
type errorLimit struct{ graphql.GraphExecutor }

func (e errorLimit) CreateOperationContext(ctx context.Context, params *graphql.RawParams) (*graphql.OperationContext,
	gqlerror.List) {
	op, errs := e.GraphExecutor.CreateOperationContext(ctx, params)
	return op, errs[:min(len(errs), maxErrors)]
}
