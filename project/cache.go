package project

import (
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"

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
	most int // steps

	mu   sync.Mutex
	runs *simplelru.LRU[string, known]
	held int // steps
}

// newCache makes a cache of at most runs states, at least one, with at most steps
// steps in all.
func newCache(runs, steps int) *cache {
	c := &cache{most: steps}
	// It refuses a size below one and nothing else.
	c.runs, _ = simplelru.NewLRU(max(runs, 1), func(_ string, k known) { c.held -= len(k.state.Steps) })
	return c
}

func (c *cache) get(runID string) (known, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.runs.Get(runID)
}

// put keeps k and gives up what was used longest ago while there is too much.
func (c *cache) put(runID string, k known) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.runs.Remove(runID)
	c.runs.Add(runID, k)
	for c.held += len(k.state.Steps); c.held > c.most; {
		c.runs.RemoveOldest()
	}
}

func (c *cache) drop(runID string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.runs.Remove(runID)
}
