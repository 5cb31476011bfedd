package limit

import (
	"context"

	"github.com/99designs/gqlgen/graphql"
	"github.com/99designs/gqlgen/graphql/handler/lru"
)

// maxCachedQuery bounds the documents in the cache in bytes. Longer ones are parsed for each request.
const maxCachedQuery = 16 << 10

// Cache keeps the most recently used documents by their text or by their hash. It does not keep long ones. It is safe
// for concurrent use.
type Cache[T any] struct {
	graphql.Cache[T]
	size func(key string, value T) int
}

// NewCache returns a cache of at most entries documents; size returns the bytes of one.
func NewCache[T any](entries int, size func(string, T) int) Cache[T] {
	return Cache[T]{Cache: lru.New[T](entries), size: size}
}

// Add keeps a value of at most 16 KiB and ignores longer ones.
func (c Cache[T]) Add(ctx context.Context, key string, value T) {
	if c.size(key, value) <= maxCachedQuery {
		c.Cache.Add(ctx, key, value)
	}
}
