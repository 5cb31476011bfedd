package reads

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"

	"github.com/dvt-engine/dvt/artifact"
	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/internal/sizedlru"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// NodeStore has the logs and states from which nodes are read.
type NodeStore interface {
	StateStore
	Events(ctx context.Context, runID string, after run.Seq, limit int) ([]run.Event, error)
}

// NodeReader reads the nodes that the attempts of steps report while they run. It keeps the folds of attempts that were
// read lately, so that a further read costs only the events since. It is safe for concurrent use.
type NodeReader struct {
	rights *control.Rights
	store  NodeStore
	folds  *sizedlru.Cache[*nodeFold]
}

// Bounds of the folds that are kept.
const (
	keptFolds = 256
	keptNodes = 100_000
)

// NewNodeReader makes a NodeReader.
func NewNodeReader(rights *control.Rights, store NodeStore) *NodeReader {
	return &NodeReader{rights: rights, store: store, folds: sizedlru.New[*nodeFold](keptFolds, keptNodes)}
}

// nodeFold is the fold of one attempt. turn is held by its reader.
type nodeFold struct {
	turn  sync.Mutex
	nodes run.Nodes
}

// StepNodesQuery asks for nodes of one logical attempt.
type StepNodesQuery struct {
	RunID, StepID string
	Attempt       int // 0 means the latest
	Statuses      []run.NodeStatus
	ChangedAfter  run.Seq // only nodes that changed after this event
	UpTo          run.Seq // the nodes as they were at this event; 0 means now
	First         int
	After         string // cursor of StepNodesPage
}

// StepNode is a node and the reference of its compiled SQL: the URI of the artifact, and the node as fragment. It is ""
// while the attempt has no dbt-run-results.
type StepNode struct {
	run.Node
	CompiledIn string
}

// StepNodesPage is a page of nodes in the order in which they started.
type StepNodesPage struct {
	Attempt int
	Seq     run.Seq // of the state that the page shows
	Nodes   []StepNode
	Cursors []string // one per node
	Total   int      // number of nodes that match
	Omitted int      // nodes that were reported and are not listed, because an attempt has at most run.MaxNodes
	HasNext bool
}

// StepNodes reads a page of the nodes of an attempt. ok is false when the attempt reported none. Nodes that run in an
// attempt that has ended are NodeUnfinished. Errors: NOT_FOUND, CURSOR_INVALID, BAD_USER_INPUT.
func (s *NodeReader) StepNodes(ctx context.Context, p authz.Principal, in StepNodesQuery) (out StepNodesPage, ok bool,
	err error) {
	n, err := control.PageSize(in.First, 50)
	if err != nil {
		return out, false, err
	}
	after, err := decodeIndex(in.After)
	if err != nil {
		return out, false, err
	}
	if in.Attempt < 0 {
		return out, false, control.BadInput([]plan.Violation{{Path: "attempt", Code: plan.CodeRange,
			Message: "must be 1 or more"}})
	}
	r, err := s.rights.GetVisible(ctx, p, authz.Read, in.RunID)
	if err != nil {
		return out, false, err
	}
	l, err := s.store.Load(ctx, in.RunID)
	if err != nil {
		return out, false, control.Translate(err)
	}
	step, known := l.State.Step(in.StepID)
	if !known {
		return out, false, control.Refuse(run.CodeNotFound, "The run has no step %q.", in.StepID)
	}
	logical := cmp.Or(in.Attempt, step.LogicalAttempt)
	i := slices.IndexFunc(step.Attempts, func(a run.Attempt) bool { return a.LogicalAttempt == logical })
	if i < 0 || step.Attempts[i].Nodes == nil {
		return out, false, nil
	}
	a := step.Attempts[i]
	upTo := cmp.Or(in.UpTo, l.State.Seq)
	nodes, err := s.fold(ctx, l, in.StepID, a, upTo)
	if err != nil {
		return out, false, control.Translate(err)
	}
	out = StepNodesPage{Attempt: logical, Seq: upTo, Omitted: nodes.Omitted}
	over := a.Status.Terminal() && a.EndedSeq <= upTo
	compiled := ""
	if ref := ownResults(artifact.AttemptID{TenantID: r.TenantID, RunID: in.RunID, StepID: in.StepID,
		LogicalAttempt: logical}, a); ref != nil && over {
		compiled = ref.URI + "#"
	}
	for no, node := range nodes.List {
		if over && !node.Status.Ended() {
			node.Status = run.NodeUnfinished
		}
		if node.ChangedSeq <= in.ChangedAfter || len(in.Statuses) > 0 && !slices.Contains(in.Statuses, node.Status) {
			continue
		}
		out.Total++
		switch {
		case no+1 <= after:
			continue
		case len(out.Nodes) == n:
			out.HasNext = true
			continue
		}
		found := StepNode{Node: node}
		if compiled != "" && node.Status != run.NodeSkipped {
			found.CompiledIn = compiled + node.ID
		}
		out.Nodes = append(out.Nodes, found)
		out.Cursors = append(out.Cursors, strconv.Itoa(no+1))
	}
	return out, true, nil
}

// fold returns the fold of an attempt at an event. The caller must not change it.
func (s *NodeReader) fold(ctx context.Context, l store.Loaded, stepID string, a run.Attempt, upTo run.Seq) (run.Nodes,
	error) {
	key := fmt.Sprintf("%s/%s/%s/%d", l.Epoch, l.State.RunID, stepID, a.LogicalAttempt)
	kept, found := s.folds.Get(key)
	if !found {
		kept = &nodeFold{}
		s.folds.Put(key, kept, 1)
	}
	kept.turn.Lock()
	defer kept.turn.Unlock()
	if kept.nodes.Seq > upTo { // a view of the past
		var past run.Nodes
		err := s.read(ctx, l, stepID, a, upTo, &past)
		return past, err
	}
	if err := s.read(ctx, l, stepID, a, upTo, &kept.nodes); err != nil {
		return run.Nodes{}, err
	}
	s.folds.Put(key, kept, 1+len(kept.nodes.List))
	return kept.nodes.Clone(), nil
}

// read applies the events of an attempt up to an event. It reads no event before the first report can be in the log,
// and none after the last one.
func (s *NodeReader) read(ctx context.Context, l store.Loaded, stepID string, a run.Attempt, upTo run.Seq,
	into *run.Nodes) error {
	last := min(upTo, a.Nodes.Seq)
	for after := max(into.Seq, a.StartedSeq); after < last; {
		events, err := s.store.Events(ctx, l.State.RunID, after, int(min(last-after, store.MaxPage)))
		if err != nil {
			return err
		}
		if len(events) == 0 {
			return nil
		}
		for i := range events {
			e := &events[i]
			if after = e.Seq; e.StepID == stepID && e.LogicalAttempt == a.LogicalAttempt && e.Seq <= last {
				into.Apply(e)
			}
		}
	}
	return nil
}
