package controltest

import (
	"sync"
	"time"
)

// clock is a clock that a test can advance and hold.
type clock struct {
	mu   sync.Mutex
	off  time.Duration
	held time.Time // zero while the clock runs
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.read()
}

func (c *clock) read() time.Time {
	if !c.held.IsZero() {
		return c.held.Add(c.off)
	}
	return time.Now().Add(c.off)
}

// Hold stops the time. Only advance moves it, however long the test takes.
func (c *clock) Hold() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.held, c.off = c.read().Truncate(time.Microsecond), 0 // the precision of the stores
}

// Release lets the time go on from where it was held.
func (c *clock) Release() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.off, c.held = time.Until(c.read()), time.Time{}
}

func (c *clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.off += d
}
