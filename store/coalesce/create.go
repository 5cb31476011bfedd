package coalesce

import (
	"context"
	"fmt"
	"slices"

	"github.com/dvt-engine/dvt/store"
)

// newRun is a waiting call of CreateRun.
type newRun struct {
	left   <-chan struct{} // closed when the caller no longer waits
	run    store.NewRun
	result chan store.CreatedRun // buffered, so that the writer never blocks
}

func (n *newRun) bytes() int { return len(n.run.Plan) + len(n.run.Run.Params) }

// CreateRun implements store.Transactor. A start locks the lanes of all projects until it is durable, so starts that
// arrive meanwhile share the next transaction. ErrOverloaded when too many starts wait. When ctx ends first, Wait of n
// may still be called, and the run may still be created.
func (c *coalescer) CreateRun(ctx context.Context, n store.NewRun) (store.Run, bool, error) {
	own := &newRun{left: ctx.Done(), run: n, result: make(chan store.CreatedRun, 1)}
	if !c.enterNew(own) {
		return store.Run{}, false, &store.OverloadedError{RetryAfter: retryAfter}
	}
	select {
	case r := <-own.result:
		return r.Run, r.Created, r.Err
	case <-ctx.Done():
		return store.Run{}, false, context.Cause(ctx)
	}
}

// enterNew adds a call to the queue; false when too many calls wait.
func (c *coalescer) enterNew(own *newRun) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.waiting == c.maxWaiting {
		return false
	}
	c.waiting++
	c.newRuns = append(c.newRuns, own)
	if !c.creating {
		c.creating = true
		go c.create()
	}
	return true
}

// create writes transactions of new runs until no call waits.
func (c *coalescer) create() {
	for {
		c.mu.Lock()
		group := c.takeNew()
		if len(group) == 0 {
			c.creating = false
			c.mu.Unlock()
			return
		}
		c.mu.Unlock()
		runs := make([]store.NewRun, len(group))
		for i, w := range group {
			runs[i] = w.run
		}
		// The end of one caller's context must not cancel the others; the store limits the duration of the call.
		var out []store.CreatedRun
		err := c.panics.Call("create", "", func() (err error) {
			if out, err = c.creator.CreateRuns(context.Background(), runs); err == nil && len(out) != len(runs) {
				return fmt.Errorf("store: %d answers for %d new runs", len(out), len(runs))
			}
			return err
		})
		for i, w := range group {
			if err != nil {
				w.result <- store.CreatedRun{Err: err}
				continue
			}
			w.result <- out[i]
		}
	}
}

// takeNew removes the runs of the next transaction from the queue, without those whose callers no longer wait. The
// caller holds mu.
func (c *coalescer) takeNew() (group []*newRun) {
	bytes, taken := 0, 0
	for _, w := range c.newRuns {
		if bytes += w.bytes(); len(group) == c.group.entries || (bytes > c.group.bytes && len(group) > 0) {
			break
		}
		taken++
		select {
		case <-w.left:
		default:
			group = append(group, w)
		}
	}
	c.waiting -= taken
	c.newRuns = slices.Delete(c.newRuns, 0, taken)
	return group
}
