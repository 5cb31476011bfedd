package graph

import (
	"context"

	"github.com/99designs/gqlgen/graphql"
	"github.com/99designs/gqlgen/graphql/handler/lru"
)

// maxCachedQuery bounds a document that is kept; longer ones are parsed each time.
const maxCachedQuery = 16 << 10

// boundedCache keeps a number of documents by themselves or by their hash, none
// of them long.
type boundedCache[T any] struct {
	graphql.Cache[T]
	size func(key string, value T) int
}

func newCache[T any](entries int, size func(string, T) int) boundedCache[T] {
	return boundedCache[T]{Cache: lru.New[T](entries), size: size}
}

// Add keeps a value unless it is long.
func (c boundedCache[T]) Add(ctx context.Context, key string, value T) {
	if c.size(key, value) <= maxCachedQuery {
		c.Cache.Add(ctx, key, value)
	}
}
