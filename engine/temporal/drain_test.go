package temporal_test

import (
	"testing"
	"time"

	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/engine/temporal"
	"github.com/dvt-engine/dvt/run"
)

// A drained worker begins nothing, its running steps end in peace, and after the drain it begins steps again.
func TestDrain_RunningStepsGoOnAndNoOthersBegin(t *testing.T) {
	t.Parallel()
	h := newHarness(t, options{workers: -1})
	h.patience = 3 * time.Minute
	first := temporal.NewExecutions()
	data := temporal.WorkerConfig{Data: []string{h.queues.Data}, DataConcurrency: 2, Executions: first}
	h.serve(temporal.WorkerConfig{Control: []string{h.queues.Control}})
	h.serve(data)

	full := &crowd{open: make(chan struct{})}
	busy := h.start(document(0, h.crowdOf(full, 3, commands)...))
	reaches(t, "two steps run", func() bool { now, _ := full.inside(); return now == 2 })
	first.Drain(true)
	report := first.Report(engine.WorkerReport{})
	if !report.Drained || report.InUse != 2 || len(report.Steps) != 2 || report.Slots != 2+2+20 {
		t.Errorf("the report of the drained worker is %+v, want it drained with 2 of 24 slots in use", report)
	}
	for _, step := range report.Steps {
		if step.RunID != busy || step.TenantID != "acme" || time.Since(step.Since) > time.Minute {
			t.Errorf("the report names the step %+v, want one of the run %s", step, busy)
		}
	}

	close(full.open)
	reaches(t, "the running steps ended", func() bool { return first.Report(engine.WorkerReport{}).InUse == 0 })
	alone := &crowd{open: make(chan struct{})}
	close(alone.open)
	waiting := h.start(document(0, h.crowdOf(alone, 1, dbts)...))
	time.Sleep(3 * time.Second)
	if began := full.begins() + alone.begins(); began != 2 {
		t.Errorf("%d steps began, want the 2 from before the drain", began)
	}

	first.Drain(false)
	for _, id := range []string{busy, waiting} {
		if st := h.waitForEnd(id); st.Status != run.Completed {
			t.Errorf("after the drain the run ended %s, want COMPLETED", st.Status)
		}
	}
}
