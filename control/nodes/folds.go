// Package nodes reads the nodes of steps from the logs of runs, and computes the sets of nodes that retries run again.
package nodes

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/dvt-engine/dvt/internal/sizedlru"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// Log reads the events of runs.
type Log interface {
	Events(ctx context.Context, runID string, after run.Seq, limit int) ([]run.Event, error)
}

// Folds reads the nodes of attempts. It keeps the folds of attempts that were read lately, so that a further read costs
// only the events since. It is safe for concurrent use.
type Folds struct {
	log  Log
	kept *sizedlru.Cache[*fold]
}

// Bounds of the folds that are kept.
const (
	keptFolds = 256
	keptNodes = 100_000
)

// NewFolds makes a Folds.
func NewFolds(log Log) *Folds {
	return &Folds{log: log, kept: sizedlru.New[*fold](keptFolds, keptNodes)}
}

// fold is the fold of one attempt. turn is held by its reader.
type fold struct {
	turn  sync.Mutex
	begun bool // nodes has the nodes of the base
	nodes run.Nodes
}

// Of returns the nodes of an attempt at an event, none for an attempt that reported none. An attempt that continues
// another one has the nodes of both; Node.Attempt says which attempt a result is from.
func (f *Folds) Of(ctx context.Context, l store.Loaded, stepID string, a run.Attempt, upTo run.Seq) (run.Nodes, error) {
	if a.Nodes == nil {
		return run.Nodes{}, nil
	}
	key := fmt.Sprintf("%s/%s/%s/%d", l.Epoch, l.State.RunID, stepID, a.LogicalAttempt)
	kept, found := f.kept.Get(key)
	if !found {
		kept = &fold{}
		f.kept.Put(key, kept, 1)
	}
	kept.turn.Lock()
	defer kept.turn.Unlock()
	if !kept.begun {
		base, err := f.baseOf(ctx, l, stepID, a)
		if err != nil {
			return run.Nodes{}, err
		}
		kept.nodes, kept.begun = base, true
	}
	if kept.nodes.Seq > upTo { // a view of the past
		past, err := f.baseOf(ctx, l, stepID, a)
		if err == nil {
			err = f.read(ctx, l, stepID, a, upTo, &past)
		}
		return past, err
	}
	if err := f.read(ctx, l, stepID, a, upTo, &kept.nodes); err != nil {
		return run.Nodes{}, err
	}
	f.kept.Put(key, kept, 1+len(kept.nodes.List))
	return kept.nodes.Clone(), nil
}

// baseOf returns the nodes with which an attempt begins. A base is an earlier attempt, so the calls end.
func (f *Folds) baseOf(ctx context.Context, l store.Loaded, stepID string, a run.Attempt) (run.Nodes, error) {
	base, ok := BaseOf(l.State, stepID, a)
	if !ok {
		return run.Nodes{}, nil
	}
	nodes, err := f.Of(ctx, l, stepID, base, l.State.Seq)
	if err != nil {
		return run.Nodes{}, err
	}
	return nodes.Continue(), nil
}

// BaseOf returns the earlier attempt whose nodes an attempt continues, and false for one that continues none.
func BaseOf(st run.State, stepID string, a run.Attempt) (run.Attempt, bool) {
	step, known := st.Step(stepID)
	if !known || a.Nodes == nil || a.Nodes.Base == 0 {
		return run.Attempt{}, false
	}
	i := slices.IndexFunc(step.Attempts, func(b run.Attempt) bool { return b.LogicalAttempt == a.Nodes.Base })
	if i < 0 || a.Nodes.Base >= a.LogicalAttempt {
		return run.Attempt{}, false
	}
	return step.Attempts[i], true
}

// read applies the events of an attempt up to an event. It reads no event before the first report can be in the log,
// and none after the last one.
func (f *Folds) read(ctx context.Context, l store.Loaded, stepID string, a run.Attempt, upTo run.Seq,
	into *run.Nodes) error {
	last := min(upTo, a.Nodes.Seq)
	for after := max(into.Seq, a.StartedSeq); after < last; {
		events, err := f.log.Events(ctx, l.State.RunID, after, int(min(last-after, store.MaxPage)))
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
