package journal_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/dvt-engine/dvt/control/controltest"
	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// dbtPlan returns a plan whose step s1 runs dbt.
func dbtPlan(t *testing.T) []byte {
	t.Helper()
	var doc controltest.M
	if err := json.Unmarshal(controltest.Document(nil, "s1", "s2<s1"), &doc); err != nil {
		t.Fatal(err)
	}
	step := doc["steps"].([]any)[0].(controltest.M)
	step["type"], step["inputs"] = "DBT_RUN", controltest.M{"projectDir": "shop"}
	out, err := json.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// nodesOf returns a batch of nodes of an execution as evidence.
func nodesOf(e engine.End, batch int, nodes ...run.StepNode) engine.Evidence {
	out := evidenceOf(e, "")
	out.Lines = nil
	out.Nodes = &run.StepNodesPayload{Batch: batch, Counts: run.NodeCounts{Total: 9, Running: len(nodes)}, Nodes: nodes}
	return out
}

func node(id string) run.StepNode {
	return run.StepNode{ID: id, Type: "model", Status: run.NodeRunning, At: time.Now()}
}

func TestEvidence_NodesAreOneEventForEachBatch(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.CreateRunningPlan("nodes", dbtPlan(t))
	e := w.execute(id, "s1", 1)
	dirty := node("model.shop.b\x00")
	dirty.Status, dirty.Error = run.NodeFailed, strings.Repeat("é\x1b", 3_000)
	for range 2 { // safe to repeat
		for batch, n := range []run.StepNode{node("model.shop.a"), dirty} {
			if err := w.Journal.Evidence(t.Context(), nodesOf(e, batch+1, n)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if n := w.CountEvents(id, run.StepNodesReported); n != 2 {
		t.Fatalf("the log has %d reports of two batches, want 2:\n%s", n, strings.Join(w.EventLog(id), "\n"))
	}
	a := w.StateOf(id).Steps[0].Attempts[0]
	if a.Nodes == nil || a.Nodes.Batch != 2 || a.Nodes.Running != 1 || a.Nodes.Total != 9 || a.Nodes.EngineAttempt != 1 {
		t.Errorf("the attempt counts %+v, want those of batch 2", a.Nodes)
	}
	var nodes run.Nodes
	for _, event := range controltest.Must[[]run.Event](t)(w.Raw.Events(t.Context(), id, 0, store.MaxPage)) {
		nodes.Apply(&event)
	}
	if b := nodes.List[1]; len(b.Error) > run.MaxNodeText || !run.IsText(b.Error) || !run.IsText(b.ID) {
		t.Errorf("the failed node is %q with an error of %d bytes", b.ID, len(b.Error))
	}
	w.end(e)
	refusedFor(t, "nodes after the end", w.Journal.Evidence(t.Context(), nodesOf(e, 3, node("model.shop.c"))),
		"after the end")
}

func TestEvidence_NodesAreBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.CreateRunningPlan("bounds", dbtPlan(t))
	e := w.execute(id, "s1", 1)
	long := node("model.shop.long")
	long.Error = strings.Repeat("x", run.MaxNodeText)
	var many, large []run.StepNode
	for i := range run.MaxNodesOfBatch + 1 {
		many = append(many, node(fmt.Sprintf("model.shop.m%d", i)))
		large = append(large, long)
	}
	for name, ev := range map[string]engine.Evidence{
		"batch 0": nodesOf(e, 0, node("a")), "a batch beyond the bound": nodesOf(e, run.MaxNodesBatches+1, node("a")),
		"too many nodes": nodesOf(e, 1, many...), "too many bytes": nodesOf(e, 1, large[1:]...),
		"a node without an id":  nodesOf(e, 1, node("")),
		"a status of no worker": nodesOf(e, 1, run.StepNode{ID: "a", Status: run.NodeUnfinished, At: time.Now()}),
	} {
		if err := w.Journal.Evidence(t.Context(), ev); !errors.Is(err, run.ErrSchema) {
			t.Errorf("%s: %v, want a SchemaError", name, err)
		}
	}
	refusedFor(t, "a foreign key", func() error {
		ev := nodesOf(e, 1, node("a"))
		ev.LogicalAttempt = 2
		return w.Journal.Evidence(t.Context(), ev)
	}(), "the key is not that of")
	w.end(e)
	other := w.execute(id, "s2", 1) // it runs no dbt
	if err := w.Journal.Evidence(t.Context(), nodesOf(other, 1, node("a"))); !errors.Is(err, run.ErrSchema) {
		t.Errorf("nodes of a step without dbt: %v, want a SchemaError", err)
	}
	if n := w.CountEvents(id, run.StepNodesReported); n != 0 {
		t.Errorf("the log has %d reports, want none", n)
	}
}

// A worker that reports without end cannot fill the store.
func TestEvidence_NodesOfAnAttemptAreBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.CreateRunningPlan("flood", dbtPlan(t))
	e := w.execute(id, "s1", 1)
	var nodes []run.StepNode
	for i := range 50 {
		n := node(fmt.Sprintf("model.shop.m%d", i))
		n.Error = strings.Repeat("x", run.MaxNodeText)
		nodes = append(nodes, n)
	}
	accepted := 0
	for batch := 1; ; batch++ {
		err := w.Journal.Evidence(t.Context(), nodesOf(e, batch, nodes...))
		if errors.Is(err, run.ErrSchema) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if accepted++; accepted > 1_000 {
			t.Fatal("1,000 batches of 100 kB were accepted, want at most 16 MiB")
		}
	}
	if accepted < 100 {
		t.Errorf("%d batches of 100 kB were accepted, want 16 MiB", accepted)
	}
	if n := w.CountEvents(id, run.StepCompletedEvent); n != 0 {
		t.Errorf("the attempt has %d ends", n)
	}
	w.end(e) // the step goes on
}
