// Package gqlgenpeer serves the schema with gqlgen's own handler and transports over the same resolvers. Benchmarks
// compare package graph with it. It is not for users: it has no limits and shows internal errors.
package gqlgenpeer

import (
	"context"
	"net/http"
	"strings"

	"github.com/99designs/gqlgen/graphql/handler"
	"github.com/99designs/gqlgen/graphql/handler/lru"
	"github.com/99designs/gqlgen/graphql/handler/transport"
	"github.com/vektah/gqlparser/v2/ast"

	"github.com/dvt-engine/dvt/graph"
)

// Handler serves POST and graphql-transport-ws. It uses only Authenticate and DevPrincipals of cfg. Tokens come in the
// Authorization header or in the payload of connection_init.
func Handler(c graph.UseCases, cfg graph.Config) http.Handler {
	if cfg.DevPrincipals == nil {
		cfg.DevPrincipals = func() []graph.DevPrincipal { return nil }
	}
	admit := func(ctx context.Context, authorization string) (context.Context, error) {
		p, err := cfg.Authenticate(strings.TrimPrefix(authorization, "Bearer "))
		return graph.ActingFor(ctx, p), err
	}
	h := handler.New(graph.Schema(c, cfg))
	h.AddTransport(transport.Websocket{InitFunc: func(ctx context.Context, init transport.InitPayload) (context.Context,
		*transport.InitPayload, error) {
		ctx, err := admit(ctx, init.Authorization())
		return ctx, nil, err
	}})
	h.AddTransport(transport.POST{})
	h.SetQueryCache(lru.New[*ast.QueryDocument](1000))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") == "" {
			ctx, err := admit(r.Context(), r.Header.Get("Authorization"))
			if err != nil {
				http.Error(w, err.Error(), http.StatusUnauthorized)
				return
			}
			r = r.WithContext(ctx)
		}
		h.ServeHTTP(w, r)
	})
}
