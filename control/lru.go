package control

import (
	lru "github.com/hashicorp/golang-lru/v2"
)

// NewLRU returns an empty cache of n values. It panics unless n is positive.
func NewLRU[V any](n int) *lru.Cache[string, V] {
	c, err := lru.New[string, V](n)
	if err != nil {
		panic(err) // n is a constant
	}
	return c
}
