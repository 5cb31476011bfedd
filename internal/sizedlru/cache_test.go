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
	if _, kept := c.Get("1"); kept || c.kept.Len() != 3 {
		t.Errorf("%d of at most 3", c.kept.Len())
	}
	c.Get("2")
	c.Put("5", "heavy", 98) // the least recently used entry goes first
	_, two := c.Get("2")
	_, three := c.Get("3")
	if !two || three || c.held != 100 {
		t.Errorf("kept 2: %v, 3: %v, weight %d", two, three, c.held)
	}
	c.Put("5", "lighter", 10)
	c.Drop("2")
	c.Drop("2")
	if c.held != 11 || c.kept.Len() != 2 {
		t.Errorf("weight %d of %d", c.held, c.kept.Len())
	}
	c.Put("6", "too heavy", 101)
	if c.held != 0 || c.kept.Len() != 0 {
		t.Errorf("weight %d of %d", c.held, c.kept.Len())
	}
}
