package journal

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/dvt-engine/dvt/control/nodes"
	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/nodeset"
	"github.com/dvt-engine/dvt/store"
)

// maxOpenNodes bounds the names of the nodes with which a step does not succeed.
const maxOpenNodes = 20

// hookType is the type of nodes that dbt runs with every execution.
const hookType = "operation"

// chosenNodes returns the nodes that the RETRY_STEP of an attempt chose; nil for an attempt that runs all nodes. A
// worker of an earlier version, which would run all of them, gets engine.ErrDenied: another worker may be newer.
func (j *Journal) chosenNodes(ctx context.Context, f *RunFacts, i int, b engine.StartAttempt, signalID string) (
	*run.SignalNodes, error) {
	if b.LogicalAttempt < 2 || f.plan.Steps[i].Type.WorkloadOn("") != plan.DBTWorkload {
		return nil, nil //nolint:nilnil // all nodes
	}
	signalID, err := j.signalOf(ctx, b, signalID)
	if err != nil || signalID == "" {
		return nil, err
	}
	receipt, err := j.cfg.Store.Signals.Receipt(ctx, b.RunID, signalID)
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil //nolint:nilnil // see signalOf
	}
	if err != nil {
		return nil, err
	}
	event, err := j.eventAt(ctx, b.RunID, receipt.AcceptedSeq)
	if err != nil || event.Type != run.SignalAccepted {
		return nil, err
	}
	p, err := run.PayloadOf[run.SignalPayload](event.Payload)
	if err != nil || p.Nodes == nil {
		return nil, err
	}
	if !b.SelectsNodes {
		return nil, fmt.Errorf("%w: the retry runs only some nodes, which this version of the worker cannot", engine.ErrDenied)
	}
	return p.Nodes, nil
}

// signalOf returns the RETRY_STEP that caused an attempt, "" for none. An attempt that has started names it in the log;
// the ticket of a later dispatch may not.
func (j *Journal) signalOf(ctx context.Context, b engine.StartAttempt, ticketed string) (string, error) {
	l, err := j.cfg.Store.Runs.Load(ctx, b.RunID)
	if err != nil {
		return "", err
	}
	step, known := l.State.Step(b.StepID)
	if !known {
		return ticketed, nil
	}
	k := slices.IndexFunc(step.Attempts, func(a run.Attempt) bool { return a.LogicalAttempt == b.LogicalAttempt })
	if k < 0 || step.Attempts[k].StartedSeq == 0 {
		return ticketed, nil
	}
	event, err := j.eventAt(ctx, b.RunID, step.Attempts[k].StartedSeq)
	if err != nil {
		return "", err
	}
	p, err := run.PayloadOf[run.StepStartedPayload](event.Payload)
	return p.SignalID, err
}

// eventAt returns the event of a run at a position.
func (j *Journal) eventAt(ctx context.Context, runID string, at run.Seq) (run.Event, error) {
	events, err := j.cfg.Store.Signals.Events(ctx, runID, at-1, 1)
	if err != nil {
		return run.Event{}, err
	}
	if len(events) == 0 || events[0].Seq != at {
		return run.Event{}, fmt.Errorf("%w: event %d of run %s", store.ErrNotFound, at, runID)
	}
	return events[0], nil
}

// selectNodes returns what a started attempt executes: the nodes of its set that no earlier try ended well, with the
// results that the step has now.
func (j *Journal) selectNodes(ctx context.Context, b engine.StartAttempt, of run.SignalNodes) (
	*engine.NodeSelection, error) {
	set, err := nodes.Read(ctx, j.cfg.Blobs, of)
	if err != nil {
		return nil, err
	}
	l, err := j.cfg.Store.Runs.Load(ctx, b.RunID)
	if err != nil {
		return nil, err
	}
	union, err := j.unionOf(ctx, l, b, of.Attempt)
	if err != nil {
		return nil, err
	}
	out := &engine.NodeSelection{Base: of.Attempt, Chosen: len(set.Nodes), DBTVersion: set.DBTVersion}
	ids, byID := make([]string, len(set.Nodes)), make(map[string]nodes.Node, len(set.Nodes))
	for i, n := range set.Nodes {
		ids[i], byID[n.ID] = n.ID, n
	}
	was, now := map[string]run.NodeStatus{}, map[string]run.NodeStatus{} // results, and those of this attempt
	for _, n := range union.List {
		out.Counts.Total++
		out.Counts.Add(n.Status, 1)
		was[n.ID] = n.Status
		if n.Type == hookType {
			if out.Hooks == nil {
				out.Hooks = map[string]run.NodeStatus{}
			}
			out.Hooks[n.ID] = n.Status
			continue
		}
		if n.Attempt == b.LogicalAttempt {
			now[n.ID] = n.Status
		}
		if _, chosen := byID[n.ID]; !chosen && n.Status != run.NodeSuccess &&
			n.Status != run.NodeWarn && (n.Status != run.NodeSkipped || n.SkippedBy != "") {
			out.OpenCount++
			if len(out.Open) < maxOpenNodes {
				out.Open = append(out.Open, n.ID)
			}
		}
	}
	for _, id := range nodeset.Rest(ids, now) {
		n := byID[id]
		out.Nodes = append(out.Nodes, engine.SelectedNode{ID: id, Was: was[id], FQN: n.FQN, Path: n.Path})
	}
	return out, nil
}

// unionOf returns the nodes of the step with which a try of an attempt begins: those of the tries before it, or of the
// base.
func (j *Journal) unionOf(ctx context.Context, l store.Loaded, b engine.StartAttempt, base int) (run.Nodes, error) {
	step, known := l.State.Step(b.StepID)
	if !known {
		return run.Nodes{}, nil
	}
	for _, logical := range []int{b.LogicalAttempt, base} {
		k := slices.IndexFunc(step.Attempts, func(a run.Attempt) bool { return a.LogicalAttempt == logical })
		if k < 0 || step.Attempts[k].Nodes == nil {
			continue
		}
		union, err := j.nodes.Of(ctx, l, b.StepID, step.Attempts[k], l.State.Seq)
		if logical == base {
			union = union.Continue()
		}
		return union, err
	}
	return run.Nodes{}, nil
}
