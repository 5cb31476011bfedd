package run

import (
	"slices"
	"time"
)

// Bounds of the nodes that one engine attempt reports. A step with more nodes is executed all the same: the further
// nodes are counted and not listed.
const (
	MaxNodes        = 10_000 // nodes of one attempt
	MaxNodesOfBatch = 200    // nodes in one StepNodesReported
	MaxNodesBatches = 2*MaxNodes + 100
	MaxNodesPayload = 128 << 10 // bytes of one StepNodesReported
	MaxNodeID       = 512       // bytes
	MaxNodeText     = 2 << 10   // bytes of an error
)

// NodeStatus is the status of a node, the same for every version of dbt.
type NodeStatus string

// Statuses of a node. No event carries NodeUnfinished: a node has it when its attempt ended before the node did.
const (
	NodeRunning    NodeStatus = "RUNNING"
	NodeSuccess    NodeStatus = "SUCCESS" // also of a test that passed
	NodeWarn       NodeStatus = "WARN"
	NodeFailed     NodeStatus = "FAILED" // also of a test that failed
	NodeSkipped    NodeStatus = "SKIPPED"
	NodeUnfinished NodeStatus = "UNFINISHED"
)

// Ended reports whether the node itself ended.
func (s NodeStatus) Ended() bool {
	return s == NodeSuccess || s == NodeWarn || s == NodeFailed || s == NodeSkipped
}

// NodeCounts counts the nodes of an attempt by status. Total is at least their sum: it includes the nodes that have not
// started.
type NodeCounts struct {
	Total   int `json:"total"`
	Running int `json:"running,omitempty"`
	Success int `json:"success,omitempty"`
	Warn    int `json:"warn,omitempty"`
	Failed  int `json:"failed,omitempty"`
	Skipped int `json:"skipped,omitempty"`
}

// Done returns the number of nodes that ended.
func (c NodeCounts) Done() int { return c.Success + c.Warn + c.Failed + c.Skipped }

// Add adds by to the count of a status.
func (c *NodeCounts) Add(s NodeStatus, by int) {
	switch s {
	case NodeRunning:
		c.Running += by
	case NodeSuccess:
		c.Success += by
	case NodeWarn:
		c.Warn += by
	case NodeFailed:
		c.Failed += by
	case NodeSkipped:
		c.Skipped += by
	case NodeUnfinished:
	}
}

// NodeProgress counts the nodes of the newest engine attempt that reported any.
type NodeProgress struct {
	NodeCounts
	EngineAttempt int `json:"engineAttemptId"`
	Batch         int `json:"batch"` // the newest one
	Seq           Seq `json:"seq"`   // of its event
	// Unfinished counts the nodes that had not ended when the attempt ended.
	Unfinished int `json:"unfinished,omitempty"`
	// Base is the earlier logical attempt whose nodes this one continues; 0 for an attempt that runs all of its nodes.
	Base int `json:"base,omitempty"`
}

// ended returns the progress after the end of the attempt.
func (p *NodeProgress) ended() *NodeProgress {
	if p == nil || p.Running == 0 {
		return p
	}
	out := *p
	out.Unfinished, out.Running = p.Running, 0
	return &out
}

// StepNode is what a worker reports of one node when the node started or ended.
type StepNode struct {
	ID     string     `json:"id"`             // dbt's unique_id
	Type   string     `json:"type,omitempty"` // dbt's resource type, such as model or test
	Status NodeStatus `json:"status"`
	At     time.Time  `json:"at"` // when it started or ended, by the clock of dbt
	// DurationMS, Rows, Bytes and Failures are set for a node that ended; nil when dbt did not report the figure.
	// Failures are the rows that a test found.
	DurationMS *int64 `json:"durationMs,omitempty"`
	Rows       *int64 `json:"rows,omitempty"`
	Bytes      *int64 `json:"bytes,omitempty"`
	Failures   *int64 `json:"failures,omitempty"`
	Error      string `json:"error,omitempty"` // in dbt's words, without a stack trace
	// SkippedBy is the id of the failed node that made dbt skip this one.
	SkippedBy string `json:"skippedBy,omitempty"`
	Relation  string `json:"relation,omitempty"` // the name of its table or view in the warehouse
}

// StepNodesPayload of StepNodesReported: the nodes that started or ended since the batch before. Counts are those after
// the batch, so that a reader that only counts needs only the newest batch. With Base the counts are those of all nodes
// of the step: a node that this attempt has not run has the result of the attempt Base, or of an earlier try.
type StepNodesPayload struct {
	Batch  int        `json:"batch"` // from 1 within the engine attempt
	Counts NodeCounts `json:"counts"`
	Nodes  []StepNode `json:"nodes"`
	Base   int        `json:"base,omitempty"` // see NodeProgress
	// Warehouse is the address of the warehouse of the attempt, as OpenLineage names it, such as postgres://db:5432. Only
	// the first batch has it, and none when the worker does not know it.
	Warehouse string `json:"warehouse,omitempty"`
}

// nodesBatch is the part of a StepNodesPayload that keys and counts need.
type nodesBatch struct {
	Batch  int        `json:"batch"`
	Counts NodeCounts `json:"counts"`
	Base   int        `json:"base"`
}

// nodes applies StepNodesReported: only the counts become part of the state. A report about an attempt that the log
// does not have, or that ended, changes nothing, and neither does one of an earlier engine attempt or batch.
func (f *folding) nodes(e *Event) {
	ord, known := f.find(e.StepID)
	if !known {
		return
	}
	a, existed := f.s.Steps[ord].attempt(e.LogicalAttempt)
	if !existed || a.Status.Terminal() {
		return
	}
	p, _ := PayloadOf[nodesBatch](e.Payload)
	if old := a.Nodes; old != nil && (e.EngineAttempt < old.EngineAttempt ||
		e.EngineAttempt == old.EngineAttempt && p.Batch <= old.Batch) {
		return
	}
	a.Nodes = &NodeProgress{NodeCounts: p.Counts, EngineAttempt: e.EngineAttempt, Batch: p.Batch, Seq: e.Seq}
	if p.Base < a.LogicalAttempt {
		a.Nodes.Base = max(0, p.Base)
	}
	f.put(e, ord, a)
}

// Node is a node as the log has it.
type Node struct {
	StepNode
	StartedAt, EndedAt *time.Time // a node that started within the report of its end began its duration before it
	ChangedSeq         Seq        // of the last event that changed it
	Attempt            int        // the logical attempt that its status is from
}

// Nodes is the fold of the StepNodesReported of one logical attempt: the nodes of its newest engine attempt, in the
// order in which the log first has them. An attempt with a Base begins with the nodes of that attempt, see Continue,
// and each of its tries continues the try before. The zero value is that of an attempt without reports. It is not safe
// for concurrent use.
type Nodes struct {
	EngineAttempt int
	Seq           Seq // of the last event that was applied
	List          []Node
	Omitted       int // nodes beyond MaxNodes
	index         map[string]int
	// try has the nodes that the newest try of an attempt with a base reported; nil for an attempt without.
	try map[string]bool
}

// Apply applies an event of the attempt. Events with Seq <= n.Seq, of other types and of earlier engine attempts change
// nothing. A node that ended does not run again within an engine attempt, but a later report may complete its figures.
func (n *Nodes) Apply(e *Event) {
	if e.Seq <= n.Seq {
		return
	}
	n.Seq = e.Seq
	if e.Type != StepNodesReported || e.EngineAttempt < n.EngineAttempt {
		return
	}
	p, _ := PayloadOf[StepNodesPayload](e.Payload)
	switch {
	case n.index == nil, e.EngineAttempt > n.EngineAttempt && p.Base == 0:
		n.List, n.Omitted, n.index = nil, 0, map[string]int{}
	case e.EngineAttempt > n.EngineAttempt:
		n.try = map[string]bool{}
	}
	n.EngineAttempt = e.EngineAttempt
	for _, report := range p.Nodes {
		n.report(report, e)
	}
}

// Continue returns the fold with which an attempt begins that continues n, that of its base: each node has its result,
// and the first report of the attempt about a node replaces it.
func (n *Nodes) Continue() Nodes {
	out := Nodes{List: slices.Clone(n.List), Omitted: n.Omitted, index: make(map[string]int, len(n.List)),
		try: map[string]bool{}}
	for i := range out.List {
		node := &out.List[i]
		out.index[node.ID] = i
		if !node.Status.Ended() {
			node.Status = NodeUnfinished
		}
	}
	return out
}

func (n *Nodes) report(r StepNode, e *Event) {
	i, known := n.index[r.ID]
	if !known {
		if len(n.List) >= MaxNodes {
			n.Omitted++
			return
		}
		i = len(n.List)
		n.index[r.ID] = i
		n.List = append(n.List, Node{})
	}
	was := n.List[i]
	if n.try != nil && !n.try[r.ID] { // the result is of an earlier attempt or try
		n.try[r.ID], was = true, Node{}
	}
	if was.Status.Ended() && !r.Status.Ended() {
		return
	}
	now := Node{StepNode: r, StartedAt: was.StartedAt, EndedAt: was.EndedAt, ChangedSeq: e.Seq,
		Attempt: e.LogicalAttempt}
	at := instantOf(r.At)
	if !r.Status.Ended() {
		now.StartedAt = &at
	} else if now.EndedAt == nil {
		now.EndedAt = &at
	}
	if now.StartedAt == nil && now.DurationMS != nil { // it started and ended within one report
		started := at.Add(-time.Duration(*now.DurationMS) * time.Millisecond)
		now.StartedAt = &started
	}
	n.List[i] = now
}

// Clone returns a copy that later calls of Apply on n do not change.
func (n *Nodes) Clone() Nodes {
	out := *n
	out.List, out.index, out.try = slices.Clone(n.List), nil, nil
	return out
}
