package artifact

import (
	"container/list"
	"sync"
)

// pieceCache holds the pieces of logs, and the frames of segments, that were used last, so that the readers of one log
// share the reads of its end.
type pieceCache struct {
	mu    sync.Mutex
	max   int
	size  int
	order list.List // of *cachedPiece, most recently used first
	byKey map[string]*list.Element
}

type cachedPiece struct {
	key   string
	lines []Line
	size  int
}

func (c *pieceCache) get(key string) ([]Line, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.byKey[key]
	if !ok {
		return nil, false
	}
	c.order.MoveToFront(e)
	return e.Value.(*cachedPiece).lines, true
}

func (c *pieceCache) has(key string) bool {
	_, ok := c.get(key)
	return ok
}

func (c *pieceCache) put(key string, ls []Line, size int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.byKey == nil {
		c.byKey = map[string]*list.Element{}
	}
	if e, ok := c.byKey[key]; ok {
		c.drop(e)
	}
	c.byKey[key] = c.order.PushFront(&cachedPiece{key: key, lines: ls, size: size})
	c.size += size
	for c.size > c.max && c.order.Len() > 0 {
		c.drop(c.order.Back())
	}
}

func (c *pieceCache) drop(e *list.Element) {
	p := c.order.Remove(e).(*cachedPiece)
	delete(c.byKey, p.key)
	c.size -= p.size
}
