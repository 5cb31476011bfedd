package control_test

import (
	"context"
	"testing"

	"github.com/dvt-engine/dvt/control/reads"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/server/usecases"
	"github.com/dvt-engine/dvt/store"
)

func TestDebugRun_ADenialLeavesARow(t *testing.T) {
	t.Parallel()
	w := newSweptWorld(t)
	id := w.atWork("r1")
	_, err := w.DebugRun(t.Context(), w.eng(), id)
	refusal(t, err, run.CodeForbidden)
	if !w.audited("acme", "dev-engineer DEBUG DENIED FORBIDDEN "+id) {
		t.Errorf("the audit %q has no row of the denial", w.audit("acme"))
	}
	if d := must[reads.RunDebug](t)(w.DebugRun(t.Context(), w.who("dev-sre"), id)); d.RunID != id || d.Engine == nil {
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
	w := newSweptWorld(t, func(c *usecases.Config) { c.Store = manySignals{c.Store} })
	d := must[reads.RunDebug](t)(w.DebugRun(t.Context(), w.who("dev-sre"), w.atWork("r1")))
	if len(d.Open) != 1 || d.Open[0].No != store.MaxPage+1 {
		t.Errorf("the open signals are %+v, want only the last one", d.Open)
	}
}
