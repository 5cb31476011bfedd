package controltest

import (
	"context"
	"iter"
	"sync"
	"testing"
	"time"

	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/run"
)

// SweptEngine is a FakeEngine with the methods that sweeps need. Tests set the state of its executions.
type SweptEngine struct {
	*FakeEngine
	Mu           sync.Mutex
	Down         bool
	Mute         bool              // the index answers, but the engine itself does not
	Ends         map[string]string // status of closed executions, by run
	ClosedTenant string            // tenant in the ids of closed executions
	Unknown      map[string]bool
	Unseen       bool              // the index shows nothing
	Open         []run.Identity    // open executions, as ListOpen lists them
	Ousted       []string          // terminated foreign executions, as "runId reason"
	Foreign      map[string]string // reason why the execution of a run is foreign, by run
	Heads        map[string]run.Seq
	Pending      map[string][]engine.Pending
	Hook         func() // called when a history is read
	rounds       int    // calls of Closed; each sweep makes one
}

// Change runs f under the lock of the engine.
func (e *SweptEngine) Change(f func()) {
	e.Mu.Lock()
	defer e.Mu.Unlock()
	f()
}

// endOf returns the status of a run's closed execution, or "". The caller holds mu.
func (e *SweptEngine) endOf(id run.Identity) string {
	if id.TenantID != e.ClosedTenant {
		return ""
	}
	return e.Ends[id.RunID]
}

func (e *SweptEngine) Describe(_ context.Context, id run.Identity) (engine.Description, error) {
	e.Mu.Lock()
	defer e.Mu.Unlock()
	switch as := e.endOf(id); {
	case e.Down, e.Mute:
		return engine.Description{}, engine.ErrUnavailable
	case e.Foreign[id.RunID] != "":
		return engine.Description{Open: as == "", ClosedAs: as, Foreign: e.Foreign[id.RunID],
			Ref: run.EngineRunRef{EngineRunID: "f-" + id.RunID}}, nil
	case e.Unknown[id.RunID]:
		return engine.Description{}, engine.ErrNotStarted
	case as != "":
		return engine.Description{ClosedAs: as}, nil
	}
	return engine.Description{Open: true}, nil
}

func (e *SweptEngine) ListClosed(context.Context, time.Time) iter.Seq2[engine.Description, error] {
	return func(yield func(engine.Description, error) bool) {
		e.Mu.Lock()
		defer e.Mu.Unlock()
		e.rounds++
		if e.Down {
			yield(engine.Description{}, engine.ErrUnavailable)
			return
		}
		for id, as := range e.Ends {
			if !e.Unseen && !yield(
				engine.Description{Identity: run.Identity{RunID: id, TenantID: e.ClosedTenant, ProjectID: "shop"},
					ClosedAs: as},
				nil) {
				return
			}
		}
	}
}

func (e *SweptEngine) FindOpen(_ context.Context, ids []run.Identity) (map[string]bool, error) {
	e.Mu.Lock()
	defer e.Mu.Unlock()
	if e.Down {
		return nil, engine.ErrUnavailable
	}
	open := map[string]bool{}
	for _, id := range ids {
		open[id.RunID] = !e.Unseen && e.endOf(id) == "" && !e.Unknown[id.RunID] && e.Foreign[id.RunID] == ""
	}
	return open, nil
}

func (e *SweptEngine) ListOpen(context.Context, string) ([]run.Identity, string, error) {
	e.Mu.Lock()
	defer e.Mu.Unlock()
	if e.Down {
		return nil, "", engine.ErrUnavailable
	}
	return e.Open, "", nil
}

func (e *SweptEngine) TerminateForeign(_ context.Context, id run.Identity, reason string) error {
	e.Mu.Lock()
	defer e.Mu.Unlock()
	if e.Down {
		return engine.ErrUnavailable
	}
	e.Ousted = append(e.Ousted, id.RunID+" "+reason)
	return nil
}

func (e *SweptEngine) History(_ context.Context, id run.Identity) iter.Seq2[engine.Recorded, error] {
	return func(yield func(engine.Recorded, error) bool) {
		e.Mu.Lock()
		head, hook := e.Heads[id.RunID], e.Hook
		e.Mu.Unlock()
		if hook != nil {
			hook()
		}
		yield(engine.Recorded{Head: head}, nil)
	}
}

func (e *SweptEngine) Runs(context.Context) iter.Seq2[engine.Description, error] {
	return func(func(engine.Description, error) bool) {}
}

func (e *SweptEngine) Debug(_ context.Context, id run.Identity) (engine.Debug, error) {
	e.Mu.Lock()
	defer e.Mu.Unlock()
	return engine.Debug{Pending: e.Pending[id.RunID]}, nil
}

// Sweeps waits for n complete sweeps.
func (e *SweptEngine) Sweeps(t *testing.T, n int) {
	t.Helper()
	rounds := func() int { e.Mu.Lock(); defer e.Mu.Unlock(); return e.rounds }
	from := rounds()
	Eventually(t, "more sweeps", func() bool { return rounds() > from+n })
}
