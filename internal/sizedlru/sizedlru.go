// Package sizedlru keeps what was used last within a weight, for values whose sizes differ by thousands.
package sizedlru

import (
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// Cache keeps the values that were used last: at most so many, and no more than so
// much weight in all, in whatever unit its owner weighs. It is safe for concurrent use.
type Cache[V any] struct {
	most int // weight

	mu   sync.Mutex
	kept *simplelru.LRU[string, entry[V]]
	held int // weight
}

type entry[V any] struct {
	value  V
	weight int
}

// New makes an empty cache of at most entries values, at least one, of at most weight in all.
func New[V any](entries, weight int) *Cache[V] {
	c := &Cache[V]{most: weight}
	// It refuses a size below one and nothing else.
	c.kept, _ = simplelru.NewLRU(max(entries, 1), func(_ string, e entry[V]) { c.held -= e.weight })
	return c
}

// Get returns the value of key, which is used by that.
func (c *Cache[V]) Get(key string) (V, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.kept.Get(key)
	return e.value, ok
}

// Put keeps v and gives up what was used longest ago while there is too much: v
// itself last, when it alone weighs too much.
func (c *Cache[V]) Put(key string, v V, weight int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.kept.Remove(key)
	c.kept.Add(key, entry[V]{v, weight})
	for c.held += weight; c.held > c.most; {
		c.kept.RemoveOldest()
	}
}

// Drop forgets key.
func (c *Cache[V]) Drop(key string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.kept.Remove(key)
}
