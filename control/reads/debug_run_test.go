package reads_test

import (
	"context"
	"testing"

	"github.com/dvt-engine/dvt/control/controltest"
	"github.com/dvt-engine/dvt/control/reads"
	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/server/usecases"
	"github.com/dvt-engine/dvt/store"
)

// debuggableEngine is a fakeEngine that describes its internals.
type debuggableEngine struct{ *controltest.FakeEngine }

func (debuggableEngine) Debug(context.Context, run.Identity) (engine.Debug, error) {
	return engine.Debug{}, nil
}

func debuggable(c *usecases.Config) { c.Engine = debuggableEngine{c.Engine.(*controltest.FakeEngine)} }

func TestDebugRun_ADenialLeavesARow(t *testing.T) {
	t.Parallel()
	w := newWorld(t, debuggable)
	id := w.CreateRunning("r1", "s1")
	_, err := w.DebugRun(t.Context(), w.Engineer(), id)
	controltest.Refusal(t, err, run.CodeForbidden)
	if !w.HasAuditRow("acme", "dev-engineer DEBUG DENIED FORBIDDEN "+id) {
		t.Errorf("the audit %q has no row of the denial", w.AuditRows("acme"))
	}
	if d := controltest.Must[reads.RunDebug](t)(w.DebugRun(t.Context(), w.Principal("dev-sre"), id)); d.RunID != id ||
		d.Engine == nil {
		t.Errorf("an SRE gets %+v, want the run with its engine", d)
	}
}

// manySignals returns a page of applied signals before one that is not applied.
type manySignals struct{ store.Store }

func (manySignals) After(_ context.Context, runID string, no int64) (out []run.SignalReceipt, _ error) {
	receipt := func(no int64, is run.Application) run.SignalReceipt {
		return run.SignalReceipt{RunID: runID, No: no, Signal: run.Signal{ID: "s", Type: run.Pause}, Application: is}
	}
	if no == store.MaxPage {
		return []run.SignalReceipt{receipt(no+1, run.SignalPending)}, nil
	}
	for no < store.MaxPage {
		no++
		out = append(out, receipt(no, run.SignalApplied))
	}
	return out, nil
}

func TestDebugRun_ShowsWhatWaitsBehindManySignals(t *testing.T) {
	t.Parallel()
	w := newWorld(t, debuggable, func(c *usecases.Config) { c.Store = manySignals{c.Store} })
	d := controltest.Must[reads.RunDebug](t)(w.DebugRun(t.Context(), w.Principal("dev-sre"), w.CreateRunning("r1", "s1")))
	if len(d.Open) != 1 || d.Open[0].No != store.MaxPage+1 {
		t.Errorf("the open signals are %+v, want only the last one", d.Open)
	}
}
