package reads

import (
	"cmp"
	"context"
	"slices"
	"strconv"

	"github.com/dvt-engine/dvt/artifact"
	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/control/nodes"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
)

// NodeStore has the logs and states from which nodes are read.
type NodeStore interface {
	StateStore
	Events(ctx context.Context, runID string, after run.Seq, limit int) ([]run.Event, error)
}

// NodeReader reads the nodes that the attempts of steps report while they run. It is safe for concurrent use.
type NodeReader struct {
	rights *control.Rights
	store  NodeStore
	folds  *nodes.Folds
}

// NewNodeReader makes a NodeReader.
func NewNodeReader(rights *control.Rights, store NodeStore, folds *nodes.Folds) *NodeReader {
	return &NodeReader{rights: rights, store: store, folds: folds}
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
	fold, err := s.folds.Of(ctx, l, in.StepID, a, upTo)
	if err != nil {
		return out, false, control.Translate(err)
	}
	out = StepNodesPage{Attempt: logical, Seq: upTo, Omitted: fold.Omitted}
	over := a.Status.Terminal() && a.EndedSeq <= upTo
	compiled := ""
	if ref := ownResults(artifact.AttemptID{TenantID: r.TenantID, RunID: in.RunID, StepID: in.StepID,
		LogicalAttempt: logical}, a); ref != nil && over {
		compiled = ref.URI + "#"
	}
	for no, node := range fold.List {
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
		if compiled != "" && node.Status != run.NodeSkipped && node.Attempt == logical {
			found.CompiledIn = compiled + node.ID
		}
		out.Nodes = append(out.Nodes, found)
		out.Cursors = append(out.Cursors, strconv.Itoa(no+1))
	}
	return out, true, nil
}
