package sizedlru

import (
	"fmt"
	"testing"
)

func TestCache_IsBoundedByEntriesAndWeight(t *testing.T) {
	t.Parallel()
	c := New[string](3, 100)
	for i := range 5 {
		c.Put(fmt.Sprint(i), "light", 1)
	}
	if _, found := c.Get("1"); found || c.lru.Len() != 3 {
		t.Errorf("after five values the cache has %d and finds the second: %t, want the last 3", c.lru.Len(), found)
	}
	c.Get("2")
	c.Put("5", "heavy", 98) // the least recently used entry goes first
	_, two := c.Get("2")
	_, three := c.Get("3")
	if !two || three || c.weight != 100 {
		t.Errorf("found 2: %t, 3: %t, weight %d; want 2 and not 3, weight 100", two, three, c.weight)
	}
	c.Put("5", "lighter", 10)
	c.Drop("2")
	c.Drop("2")
	if c.weight != 11 || c.lru.Len() != 2 {
		t.Errorf("after a replacement and a drop: weight %d of %d values, want 11 of 2", c.weight, c.lru.Len())
	}
	c.Put("6", "too heavy", 101)
	if c.weight != 0 || c.lru.Len() != 0 {
		t.Errorf("after a value that is too heavy: weight %d of %d values, want an empty cache", c.weight, c.lru.Len())
	}
}
