package project

import (
	"container/list"
	"sync"

	"github.com/dvt-engine/dvt/run"
)

// known is a state that a projector has folded, and what it has published.
type known struct {
	epoch string
	state run.State
	to    run.Seq // everything up to here went to the bus
	ops   int64   // and the operational state up to here; -1 for none
}

// cache keeps the states of the runs projected last, so that a wake reads only
// what is new. It is never the truth: a reader compares epoch and head with the
// store's. It is safe for concurrent use.
type cache struct {
	runs, steps int // most of each

	mu    sync.Mutex
	items map[string]*list.Element // of *item
	order list.List                // the one used last first
	held  int                      // steps
}

type item struct {
	runID string
	known known
}

func newCache(runs, steps int) *cache {
	return &cache{runs: runs, steps: steps, items: map[string]*list.Element{}}
}

func (c *cache) get(runID string) (known, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.items[runID]
	if e == nil {
		return known{}, false
	}
	c.order.MoveToFront(e)
	return e.Value.(*item).known, true
}

// put keeps k and gives up what was used longest ago while there is too much.
func (c *cache) put(runID string, k known) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.items[runID]; e != nil {
		c.remove(e)
	}
	c.items[runID] = c.order.PushFront(&item{runID: runID, known: k})
	c.held += len(k.state.Steps)
	for len(c.items) > c.runs || c.held > c.steps {
		c.remove(c.order.Back())
	}
}

func (c *cache) drop(runID string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.items[runID]; e != nil {
		c.remove(e)
	}
}

func (c *cache) remove(e *list.Element) {
	it := c.order.Remove(e).(*item)
	delete(c.items, it.runID)
	c.held -= len(it.known.state.Steps)
}
