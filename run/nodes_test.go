package run_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
)

// nodesReport is a report of step s1 with the counts after it, and one node.
func nodesReport(logical, engineAttempt, batch int, counts runtest.M, node ...runtest.M) run.Draft {
	d := runtest.Draft(run.StepNodesReported, "s1", logical, runtest.M{"batch": batch, "counts": counts, "nodes": node})
	d.EngineAttempt = engineAttempt
	return d
}

func nodeOf(id string, status run.NodeStatus, more ...runtest.M) runtest.M {
	out := runtest.M{"id": id, "type": "model", "status": status, "at": runtest.Epoch}
	for _, m := range more {
		for k, v := range m {
			out[k] = v
		}
	}
	return out
}

func TestFold_CountsNodesOfTheNewestBatch(t *testing.T) {
	t.Parallel()
	start, begun := runtest.Start("s1"), runtest.Draft(run.StepStartedEvent, "s1", 1)
	first := nodesReport(1, 1, 1, runtest.M{"total": 3, "running": 2})
	second := nodesReport(1, 1, 2, runtest.M{"total": 3, "running": 1, "success": 1, "failed": 1})
	again := nodesReport(1, 2, 1, runtest.M{"total": 3, "running": 1})
	done := runtest.Draft(run.StepCompletedEvent, "s1", 1)
	for _, c := range []struct {
		name string
		log  []run.Draft
		want *run.NodeProgress
	}{
		{"none", []run.Draft{start, begun}, nil},
		{"a report before the start of the attempt", []run.Draft{start, first}, nil},
		{"one batch", []run.Draft{start, begun, first}, &run.NodeProgress{EngineAttempt: 1, Batch: 1, Seq: 3,
			NodeCounts: run.NodeCounts{Total: 3, Running: 2}}},
		{"the newest batch, in any order", []run.Draft{start, begun, second, first}, &run.NodeProgress{EngineAttempt: 1,
			Batch: 2, Seq: 3, NodeCounts: run.NodeCounts{Total: 3, Running: 1, Success: 1, Failed: 1}}},
		{"the newest engine attempt", []run.Draft{start, begun, second, again, first}, &run.NodeProgress{EngineAttempt: 2,
			Batch: 1, Seq: 4, NodeCounts: run.NodeCounts{Total: 3, Running: 1}}},
		{"what runs at the end is unfinished", []run.Draft{start, begun, second, done, nodesReport(1, 1, 3,
			runtest.M{"total": 9})}, &run.NodeProgress{EngineAttempt: 1, Batch: 2, Seq: 3, Unfinished: 1,
			NodeCounts: run.NodeCounts{Total: 3, Success: 1, Failed: 1}}},
	} {
		s := run.Project(runtest.ID, runtest.Log(c.log...))
		var got *run.NodeProgress
		if attempts := s.Steps[0].Attempts; len(attempts) > 0 {
			got = attempts[0].Nodes
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}

// A repeated batch must find its event, and no other batch may.
// contract: T05
func TestKey_OfNodesHasEngineAttemptAndBatch(t *testing.T) {
	t.Parallel()
	counts := runtest.M{"total": 1}
	keys := map[run.Key]string{}
	for name, d := range map[string]run.Draft{
		"first": nodesReport(1, 1, 1, counts), "second batch": nodesReport(1, 1, 2, counts),
		"second engine attempt":  nodesReport(1, 2, 1, counts),
		"second logical attempt": nodesReport(2, 1, 1, counts),
		"eleventh batch":         nodesReport(1, 1, 11, counts), "eleventh engine attempt": nodesReport(1, 11, 1, counts),
	} {
		if other, twice := keys[d.Key(runtest.ID)]; twice {
			t.Errorf("%s has the key of %s", name, other)
		}
		keys[d.Key(runtest.ID)] = name
	}
	again := nodesReport(1, 1, 1, runtest.M{"total": 2}, nodeOf("model.a.b", run.NodeRunning))
	if keys[again.Key(runtest.ID)] != "first" {
		t.Error("the key depends on more of the payload than the number of the batch")
	}
}

func TestNodes_KeepTheNewestEngineAttempt(t *testing.T) {
	t.Parallel()
	counts := runtest.M{"total": 2}
	later := runtest.M{"at": runtest.Epoch.Add(time.Second), "durationMs": 1000, "rows": 7}
	log := runtest.Log(
		nodesReport(1, 1, 1, counts, nodeOf("model.s.a", run.NodeRunning), nodeOf("model.s.b", run.NodeRunning)),
		nodesReport(1, 1, 2, counts, nodeOf("model.s.a", run.NodeSuccess, later)),
		nodesReport(1, 1, 3, counts, nodeOf("model.s.a", run.NodeRunning)), // late, and ignored
	)
	text := func(n *run.Nodes) (out []string) {
		for _, node := range n.List {
			out = append(out, fmt.Sprintf("%s %s @%d", node.ID, node.Status, node.ChangedSeq))
		}
		return out
	}
	var n run.Nodes
	for range 2 { // events that were applied change nothing
		for i := range log {
			n.Apply(&log[i])
		}
	}
	if diff := cmp.Diff([]string{"model.s.a SUCCESS @2", "model.s.b RUNNING @1"}, text(&n)); diff != "" {
		t.Errorf("nodes (-want +got):\n%s", diff)
	}
	if a := n.List[0]; a.StartedAt == nil || a.EndedAt == nil || !a.EndedAt.After(*a.StartedAt) || *a.Rows != 7 {
		t.Errorf("model.s.a began at %v and ended at %v, want both, and 7 rows", a.StartedAt, a.EndedAt)
	}
	var quick run.Nodes
	end := runtest.Event(1, nodesReport(1, 1, 1, counts, nodeOf("model.s.a", run.NodeSuccess, later)))
	quick.Apply(&end)
	if a := quick.List[0]; a.StartedAt == nil || a.EndedAt.Sub(*a.StartedAt) != time.Second {
		t.Errorf("a node that started within the report of its end began at %v, want its duration before the end",
			a.StartedAt)
	}
	kept := n.Clone()
	again := runtest.Event(9, nodesReport(1, 2, 1, counts, nodeOf("model.s.b", run.NodeRunning)))
	n.Apply(&again)
	late := runtest.Event(10, nodesReport(1, 1, 4, counts, nodeOf("model.s.b", run.NodeFailed)))
	n.Apply(&late)
	if diff := cmp.Diff([]string{"model.s.b RUNNING @9"}, text(&n)); diff != "" {
		t.Errorf("nodes of the second engine attempt (-want +got):\n%s", diff)
	}
	if len(kept.List) != 2 {
		t.Errorf("a clone changed with its original: %v", text(&kept))
	}
}

func TestNodes_AreBounded(t *testing.T) {
	t.Parallel()
	var n run.Nodes
	for batch := range run.MaxNodes/100 + 1 {
		var nodes []runtest.M
		for i := range 100 {
			nodes = append(nodes, nodeOf(fmt.Sprintf("model.s.m%d", 100*batch+i), run.NodeRunning))
		}
		e := runtest.Event(run.Seq(batch+1), nodesReport(1, 1, batch+1, runtest.M{"total": 1}, nodes...))
		n.Apply(&e)
	}
	if len(n.List) != run.MaxNodes || n.Omitted != 100 {
		t.Errorf("%d nodes and %d omitted, want %d and 100", len(n.List), n.Omitted, run.MaxNodes)
	}
}

// An attempt that runs only some nodes begins with those of the attempt that it continues, and so does each of its
// tries with those of the try before.
func TestNodes_ContinueAnEarlierAttempt(t *testing.T) {
	t.Parallel()
	report := func(seq run.Seq, logical, engineAttempt, base int, nodes ...runtest.M) *run.Event {
		return &run.Event{Seq: seq, Type: run.StepNodesReported, StepID: "s1", LogicalAttempt: logical,
			EngineAttempt: engineAttempt, Payload: runtest.JSON(runtest.M{"batch": 1, "counts": runtest.M{"total": 3},
				"nodes": nodes, "base": base})}
	}
	var first run.Nodes
	first.Apply(report(1, 1, 1, 0, nodeOf("a", run.NodeSuccess), nodeOf("b", run.NodeFailed),
		nodeOf("c", run.NodeRunning)))
	n := first.Continue()
	check := func(name string, want ...string) {
		t.Helper()
		var got []string
		for _, node := range n.List {
			got = append(got, fmt.Sprintf("%s %s of %d", node.ID, node.Status, node.Attempt))
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	check("before the first report", "a SUCCESS of 1", "b FAILED of 1", "c UNFINISHED of 1")
	n.Apply(report(5, 2, 1, 1, nodeOf("b", run.NodeRunning)))
	check("a node runs again", "a SUCCESS of 1", "b RUNNING of 2", "c UNFINISHED of 1")
	n.Apply(report(6, 2, 1, 1, nodeOf("b", run.NodeFailed), nodeOf("c", run.NodeSkipped)))
	n.Apply(report(7, 2, 2, 1, nodeOf("b", run.NodeSuccess)))
	check("the second try keeps the first", "a SUCCESS of 1", "b SUCCESS of 2", "c SKIPPED of 2")
	if first.List[1].Status != run.NodeFailed {
		t.Errorf("the base has changed: %+v", first.List[1])
	}
	s := run.Project(runtest.ID, runtest.Log(runtest.Start("s1"), runtest.Draft(run.StepStartedEvent, "s1", 1),
		runtest.Draft(run.StepNodesReported, "s1", 1, runtest.M{"batch": 1, "counts": runtest.M{"total": 3}, "base": 1,
			"nodes": []runtest.M{}})))
	if got := s.Steps[0].Attempts[0].Nodes; got == nil || got.Base != 0 {
		t.Errorf("an attempt that says that it continues itself has %+v, want no base", got)
	}
}
