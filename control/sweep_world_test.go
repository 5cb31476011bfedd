package control_test

import (
	"context"
	"fmt"
	"iter"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/dvt-engine/dvt/control/duty"
	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/server/usecases"
	"github.com/dvt-engine/dvt/store"
)

// sweptEngine is a fakeEngine with the methods that sweeps need. Tests set the state of its executions.
type sweptEngine struct {
	*fakeEngine
	mu           sync.Mutex
	down         bool
	mute         bool              // the index answers, but the engine itself does not
	ends         map[string]string // status of closed executions, by run
	closedTenant string            // tenant in the ids of closed executions
	unknown      map[string]bool
	unseen       bool              // the index shows nothing
	open         []run.Identity    // open executions, as ListOpen lists them
	ousted       []string          // terminated foreign executions, as "runId reason"
	foreign      map[string]string // reason why the execution of a run is foreign, by run
	heads        map[string]run.Seq
	pending      map[string][]engine.Pending
	hook         func() // called when a history is read
	rounds       int    // calls of Closed; each sweep makes one
}

func (e *sweptEngine) change(f func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	f()
}

// endOf returns the status of a run's closed execution, or "". The caller holds mu.
func (e *sweptEngine) endOf(id run.Identity) string {
	if id.TenantID != e.closedTenant {
		return ""
	}
	return e.ends[id.RunID]
}

func (e *sweptEngine) Describe(_ context.Context, id run.Identity) (engine.Description, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch as := e.endOf(id); {
	case e.down, e.mute:
		return engine.Description{}, engine.ErrUnavailable
	case e.foreign[id.RunID] != "":
		return engine.Description{Open: as == "", ClosedAs: as, Foreign: e.foreign[id.RunID],
			Ref: run.EngineRunRef{EngineRunID: "f-" + id.RunID}}, nil
	case e.unknown[id.RunID]:
		return engine.Description{}, engine.ErrNotStarted
	case as != "":
		return engine.Description{ClosedAs: as}, nil
	}
	return engine.Description{Open: true}, nil
}

func (e *sweptEngine) ListClosed(context.Context, time.Time) iter.Seq2[engine.Description, error] {
	return func(yield func(engine.Description, error) bool) {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.rounds++
		if e.down {
			yield(engine.Description{}, engine.ErrUnavailable)
			return
		}
		for id, as := range e.ends {
			if !e.unseen && !yield(
				engine.Description{Identity: run.Identity{RunID: id, TenantID: e.closedTenant, ProjectID: "shop"},
					ClosedAs: as},
				nil) {
				return
			}
		}
	}
}

func (e *sweptEngine) FindOpen(_ context.Context, ids []run.Identity) (map[string]bool, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.down {
		return nil, engine.ErrUnavailable
	}
	open := map[string]bool{}
	for _, id := range ids {
		open[id.RunID] = !e.unseen && e.endOf(id) == "" && !e.unknown[id.RunID] && e.foreign[id.RunID] == ""
	}
	return open, nil
}

func (e *sweptEngine) ListOpen(context.Context, string) ([]run.Identity, string, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.down {
		return nil, "", engine.ErrUnavailable
	}
	return e.open, "", nil
}

func (e *sweptEngine) TerminateForeign(_ context.Context, id run.Identity, reason string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.down {
		return engine.ErrUnavailable
	}
	e.ousted = append(e.ousted, id.RunID+" "+reason)
	return nil
}

func (e *sweptEngine) History(_ context.Context, id run.Identity) iter.Seq2[engine.Recorded, error] {
	return func(yield func(engine.Recorded, error) bool) {
		e.mu.Lock()
		head, hook := e.heads[id.RunID], e.hook
		e.mu.Unlock()
		if hook != nil {
			hook()
		}
		yield(engine.Recorded{Head: head}, nil)
	}
}

func (e *sweptEngine) Runs(context.Context) iter.Seq2[engine.Description, error] {
	return func(func(engine.Description, error) bool) {}
}

func (e *sweptEngine) Debug(_ context.Context, id run.Identity) (engine.Debug, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return engine.Debug{Pending: e.pending[id.RunID]}, nil
}

// sweptWorld is a world whose engine can be swept, with short intervals.
type sweptWorld struct {
	*world
	eye      *sweptEngine
	registry *prometheus.Registry
}

func newSweptWorld(t *testing.T, change ...func(*usecases.Config)) *sweptWorld {
	t.Helper()
	w := &sweptWorld{registry: prometheus.NewRegistry()}
	w.world = newWorld(t, append([]func(*usecases.Config){func(c *usecases.Config) {
		w.eye = &sweptEngine{
			fakeEngine: c.Engine.(*fakeEngine), ends: map[string]string{}, unknown: map[string]bool{},
			heads:   map[string]run.Seq{},
			pending: map[string][]engine.Pending{}, foreign: map[string]string{}, closedTenant: "acme",
		}
		c.Engine, c.Metrics = w.eye, w.registry
		c.Reconcile = duty.ReconcileSettings{Interval: 10 * time.Millisecond, Quiet: time.Millisecond,
			Confirm: 50 * time.Millisecond}
	}}, change...)...)
	return w
}

func (w *sweptWorld) sweep() (stop func()) { return w.spawn(w.Reconcile) }

// swept returns the counter of a kind and action, or the gauge of a kind when action is "".
func (w *sweptWorld) swept(kind, action string) (n float64) {
	w.t.Helper()
	families, err := w.registry.Gather()
	if err != nil {
		w.t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != map[bool]string{true: "dvt_swept_total", false: "dvt_sweep_open"}[action != ""] {
			continue
		}
		for _, m := range f.GetMetric() {
			labels := map[string]string{}
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			if labels["kind"] == kind && labels["action"] == action {
				n += m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
	}
	return n
}

// counted waits until the counter of a kind and action is n, because sweeps count after the commit.
func (w *sweptWorld) counted(kind, action string, n float64) {
	w.t.Helper()
	eventually(w.t, fmt.Sprintf("%s %s is counted %v times", kind, action, n),
		func() bool { return w.swept(kind, action) == n })
}

func (w *sweptWorld) alerts() (out []store.Alert) {
	w.t.Helper()
	return must[[]store.Alert](w.t)(w.raw.Alerts(w.t.Context(), store.AlertFilter{TenantID: "acme", Limit: 100}))
}

// atWork creates a run with one running step.
func (w *sweptWorld) atWork(requestID string) string {
	w.t.Helper()
	id := w.running(requestID, "s1", "s2")
	w.begin(id, "s1", 1)
	return id
}

// ends waits for the end of a run.
func (w *sweptWorld) ends(id string) run.State {
	w.t.Helper()
	eventually(w.t, "the end of "+id, func() bool { return w.state(id).Status.Terminal() })
	return w.state(id)
}

// looksOn waits for further rounds of the sweep, for longer than the time between two checks that must agree.
func (w *sweptWorld) looksOn() {
	w.t.Helper()
	w.eye.sweeps(w.t, 40)
}

// sweeps waits for n complete sweeps.
func (e *sweptEngine) sweeps(t *testing.T, n int) {
	t.Helper()
	rounds := func() int { e.mu.Lock(); defer e.mu.Unlock(); return e.rounds }
	from := rounds()
	eventually(t, "more sweeps", func() bool { return rounds() > from+n })
}
