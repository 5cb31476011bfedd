// Package sizedlru is a least-recently-used cache that is bounded by total weight, for values whose sizes differ by
// orders of magnitude.
package sizedlru

import (
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// Cache keeps the most recently used values, within a number of entries and a total weight. The owner chooses the unit
// of weight. It is safe for concurrent use. Create it with New.
type Cache[V any] struct {
	maxWeight int

	mu     sync.Mutex
	lru    *simplelru.LRU[string, entry[V]]
	weight int // of all entries
}

type entry[V any] struct {
	value  V
	weight int
}

// New returns an empty cache for at most entries values with at most the given total weight. It uses 1 when entries is
// smaller.
func New[V any](entries, weight int) *Cache[V] {
	c := &Cache[V]{maxWeight: weight}
	// NewLRU fails only for a size below one.
	c.lru, _ = simplelru.NewLRU(max(entries, 1), func(_ string, e entry[V]) { c.weight -= e.weight })
	return c
}

// Get returns the value of key and marks it as used.
func (c *Cache[V]) Get(key string) (V, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.lru.Get(key)
	return e.value, ok
}

// Put stores v in place of the previous value of key. It then evicts the least recently used values until the total
// weight fits. A value that is heavier than the whole cache evicts everything, including itself.
func (c *Cache[V]) Put(key string, v V, weight int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lru.Remove(key)
	c.lru.Add(key, entry[V]{v, weight})
	for c.weight += weight; c.weight > c.maxWeight; {
		c.lru.RemoveOldest()
	}
}

// Drop removes key. It does nothing when the key is missing.
func (c *Cache[V]) Drop(key string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lru.Remove(key)
}
