// Package sizedlru is a least-recently-used cache that is bounded by total weight, for values whose sizes differ by
// orders of magnitude.
package sizedlru

import (
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// Cache keeps the values used last, within a number of entries and a total weight in a unit of its owner. It is safe
// for concurrent use.
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

// New makes an empty cache for at most entries values, at least one, with at most the given total weight.
func New[V any](entries, weight int) *Cache[V] {
	c := &Cache[V]{most: weight}
	// It fails only for a size below one.
	c.kept, _ = simplelru.NewLRU(max(entries, 1), func(_ string, e entry[V]) { c.held -= e.weight })
	return c
}

// Get returns the value of key and marks it as used.
func (c *Cache[V]) Get(key string) (V, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.kept.Get(key)
	return e.value, ok
}

// Put stores v and evicts the values used least recently until the weight fits, including v itself if it is too heavy
// alone.
func (c *Cache[V]) Put(key string, v V, weight int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.kept.Remove(key)
	c.kept.Add(key, entry[V]{v, weight})
	for c.held += weight; c.held > c.most; {
		c.kept.RemoveOldest()
	}
}

// Drop removes key.
func (c *Cache[V]) Drop(key string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.kept.Remove(key)
}
