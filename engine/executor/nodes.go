package executor

import (
	"context"
	"errors"
	"maps"
	"sync"
	"time"

	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/run"
)

const (
	// nodesEvery is the shortest time between two reports of an attempt, and slowNodesEvery that after manyBatches, so
	// that a step that runs for hours does not fill the log.
	nodesEvery     = 200 * time.Millisecond
	slowNodesEvery = 2 * time.Second
	manyBatches    = 3_000

	nodesOfBatch    = run.MaxNodesOfBatch
	nodesBatchBytes = run.MaxNodesPayload / 4 // estimated; JSON escapes take more
	nodeFrameBytes  = 200                     // of a report without its texts
)

// nodeReports collects the reports about the nodes of one execution and ships them in the background, in batches. A
// node has at most two reports in the log: a start and an end, or one when both fall into one batch. Safe for
// concurrent use.
type nodeReports struct {
	to      func(ctx context.Context, p run.StepNodesPayload) error
	ready   chan struct{} // one slot: something waits
	closing chan struct{}
	done    chan struct{}

	// base, in an attempt that executes only some nodes, is the logical attempt that it continues; earlier are the
	// newest results of the nodes that it executes.
	base    int
	earlier map[string]run.NodeStatus

	mu      sync.Mutex
	last    map[string]run.NodeStatus // of each node, as it was reported
	counts  run.NodeCounts
	waiting []run.StepNode
	index   map[string]int // of the waiting reports, by node
	batch   int            // number of the last batch
	// warehouse is reported with the first batch.
	warehouse string
}

// newNodeReports makes a nodeReports that ships by to. The caller runs ship in a goroutine and calls close at the end.
// An attempt that executes only some nodes begins with a batch without nodes, because its counts are those of all
// nodes.
func newNodeReports(to func(context.Context, run.StepNodesPayload) error, only *engine.NodeSelection) *nodeReports {
	n := &nodeReports{to: to, ready: make(chan struct{}, 1), closing: make(chan struct{}), done: make(chan struct{}),
		last: map[string]run.NodeStatus{}, index: map[string]int{}}
	if only == nil {
		return n
	}
	n.base, n.counts, n.earlier = only.Base, only.Counts, maps.Clone(only.Hooks)
	if n.earlier == nil {
		n.earlier = map[string]run.NodeStatus{}
	}
	for _, node := range only.Nodes {
		if node.Was != "" {
			n.earlier[node.ID] = node.Was
		}
	}
	n.ready <- struct{}{}
	return n
}

// setWarehouse sets what the first batch says of the warehouse.
func (n *nodeReports) setWarehouse(namespace string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.warehouse = run.Text(namespace, run.MaxNodeID)
}

// add queues a report. It drops nodes beyond run.MaxNodes, and the start of a node that ended.
func (n *nodeReports) add(r run.StepNode, total int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	was, known := n.last[r.ID]
	if was.Ended() && !r.Status.Ended() || r.ID == "" || len(r.ID) > run.MaxNodeID {
		return
	}
	if !known && len(n.last) >= run.MaxNodes {
		return
	}
	if !known {
		was = n.earlier[r.ID]
	}
	n.counts.Add(was, -1)
	n.counts.Add(r.Status, 1)
	n.last[r.ID] = r.Status
	switch {
	case n.base == 0:
		n.counts.Total = max(n.counts.Total, total, len(n.last))
	case !known && was == "":
		n.counts.Total++
	}
	r.Error, r.Relation = run.Text(r.Error, run.MaxNodeText), run.Text(r.Relation, run.MaxNodeID)
	if i, waits := n.index[r.ID]; waits {
		n.waiting[i] = r
	} else {
		n.index[r.ID] = len(n.waiting)
		n.waiting = append(n.waiting, r)
	}
	select {
	case n.ready <- struct{}{}:
	default:
	}
}

// next removes the next batch from the queue. Its counts include the reports that still wait: they are those of the
// step at this time. It returns false when nothing waits.
func (n *nodeReports) next() (run.StepNodesPayload, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	size, k := 0, 0
	for k < len(n.waiting) && k < nodesOfBatch && (k == 0 || size < nodesBatchBytes) {
		r := n.waiting[k]
		size += nodeFrameBytes + len(r.ID) + len(r.SkippedBy) + len(r.Error) + len(r.Relation)
		k++
	}
	if k == 0 && (n.base == 0 || n.batch > 0) {
		return run.StepNodesPayload{}, false
	}
	n.batch++
	p := run.StepNodesPayload{Batch: n.batch, Counts: n.counts, Nodes: n.waiting[:k:k], Base: n.base}
	if k == 0 {
		p.Nodes = []run.StepNode{}
	}
	if n.batch == 1 {
		p.Warehouse = n.warehouse
	}
	n.waiting = n.waiting[k:]
	clear(n.index)
	for i, r := range n.waiting {
		n.index[r.ID] = i
	}
	return p, true
}

// ship runs until close, and then until everything is shipped or ctx ends. It repeats a batch until the Journal accepts
// or refuses it, because the next one must follow it.
func (n *nodeReports) ship(ctx context.Context) {
	defer close(n.done)
	for open := true; open; {
		select {
		case <-ctx.Done():
			return
		case <-n.closing:
			open = false
		case <-n.ready:
		}
		for {
			p, more := n.next()
			if !more {
				break
			}
			var refused bool
			err := persist(ctx, shipRetryFirst, shipRetryMost, func() error {
				err := n.to(ctx, p)
				refused = errors.Is(err, errEvidenceRefused) || errors.Is(err, run.ErrSchema)
				if refused {
					return nil
				}
				return err
			})
			if err != nil || refused {
				n.drop(p.Nodes)
				return
			}
			if open {
				open = n.pause(ctx, p.Batch)
			}
		}
	}
}

// drop puts reports that were not stored back, so that close counts them.
func (n *nodeReports) drop(reports []run.StepNode) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.waiting = append(reports, n.waiting...)
}

// pause waits between two batches. It returns false when close was called.
func (n *nodeReports) pause(ctx context.Context, batch int) bool {
	every := nodesEvery
	if batch > manyBatches {
		every = slowNodesEvery
	}
	timer := time.NewTimer(every)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	case <-n.closing:
		return false
	}
	return true
}

// close ships the remaining reports and returns when they are stored or ctx has ended. It returns the number of reports
// that were not stored.
func (n *nodeReports) close(ctx context.Context) (lost int) {
	close(n.closing)
	select {
	case <-n.done:
	case <-ctx.Done():
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.waiting)
}

// nodes sends a batch of reports.
func (e *evidence) nodes(ctx context.Context, p run.StepNodesPayload) error {
	return e.send(ctx, engine.Evidence{Nodes: &p})
}
