package trace_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
	"github.com/dvt-engine/dvt/run/trace"
)

// The nodes of dbt have no spans, and their reports change no other span: a step of 3,000 nodes exports as one of none.
func TestTrace_NodesOfDBTChangeNoSpan(t *testing.T) {
	t.Parallel()
	log := runtest.Log(runtest.Draft(run.RunApproved, "", 1), runtest.Start("a", "b<a"),
		runtest.Draft(run.StepStartedEvent, "a", 1),
		runtest.Draft(run.StepNodesReported, "a", 1),
		runtest.Draft(run.StepNodesReported, "a", 1, runtest.M{"batch": 2, "counts": runtest.M{"total": 3, "failed": 1},
			"nodes": []runtest.M{{"id": "model.shop.orders", "status": run.NodeFailed, "at": runtest.Epoch, "error": "boom"}}}),
		runtest.Draft(run.StepFailedEvent, "a", 1), runtest.Draft(run.RunFailed, "", 1))
	with := trace.Of(runtest.ID, runtest.Epoch, log)
	without := trace.Of(runtest.ID, runtest.Epoch, append(log[:3:3], log[5:]...))
	if diff := cmp.Diff(outline(without), outline(with)); diff != "" {
		t.Errorf("the trace (-without reports +with):\n%s", diff)
	}
	if len(with) < 3 {
		t.Errorf("the trace has %d spans, want those of the run, the step and its attempt", len(with))
	}
}
