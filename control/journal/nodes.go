package journal

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"

	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// maxNodesBytes bounds the bytes of the reports about nodes that one engine attempt may append through this process. A
// step of 10,000 nodes needs half of it; a worker that reports without end cannot fill the store.
const maxNodesBytes = 16 << 20

// nodesBytes counts the bytes of reports by logical and engine attempt. It is safe for concurrent use. The zero value
// has none.
type nodesBytes struct {
	mu   sync.Mutex
	used map[string]int
}

// fits reports whether the attempt may append n more bytes.
func (b *nodesBytes) fits(attempt string, n int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.used[attempt]+n <= maxNodesBytes
}

// add counts n bytes of an attempt.
func (b *nodesBytes) add(attempt string, n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.used == nil {
		b.used = map[string]int{}
	}
	b.used[attempt] += n
}

// appendNodes appends the nodes of an Evidence as one event. A repeated batch finds its event in the log. The write has
// the budget of other writes of workers.
func (j *Journal) appendNodes(ctx context.Context, f *RunFacts, e engine.Evidence) error {
	payload, err := checkNodes(f, e)
	if err != nil {
		return err
	}
	attempt := fmt.Sprintf("%s/%d.%d", e.StepID, e.LogicalAttempt, e.EngineAttempt)
	if !f.nodes.fits(attempt, len(payload)) {
		return endError("/nodes", fmt.Sprintf("the reports about nodes of one attempt have at most %d bytes", maxNodesBytes))
	}
	batch := store.Append{RunID: e.RunID, Events: []run.Draft{{
		Type: run.StepNodesReported, StepID: e.StepID, LogicalAttempt: e.LogicalAttempt, EngineAttempt: e.EngineAttempt,
		EmittedAt: j.cfg.Now(), EmittedBy: run.ByEngine, Payload: payload,
	}}}
	before := f.Log.Highest()
	var out store.Appended
	key := fmt.Sprintf("%s/%s/nodes/%d", e.RunID, attempt, e.Nodes.Batch)
	err = j.writes.do(ctx, write{key: key, events: 1, bounded: true}, func(ctx context.Context) (err error) {
		out, err = j.cfg.Store.Log.Append(ctx, batch)
		return err
	})
	if err != nil {
		return err
	}
	f.Log.Observe(before, out.Head.LastSeq)
	j.writes.compare(ctx, batch, out)
	switch o := out.Outcomes[0]; {
	case o.Refused != "":
		return &refusal{reason: "run_over", text: "the run is over", recorded: true}
	case !o.Deduplicated:
		f.nodes.add(attempt, len(payload))
	}
	return nil
}

// checkNodes returns the payload of the event for an Evidence, or a *run.SchemaError for nodes beyond the bounds of
// package run and for a step that has no nodes. Texts are made safe for rows and terminals.
func checkNodes(f *RunFacts, e engine.Evidence) (json.RawMessage, error) {
	p := *e.Nodes
	switch i := f.Steps[e.StepID]; {
	case e.Hook || f.plan.Steps[i].Type.WorkloadOn("") != plan.DBTWorkload:
		return nil, endError("/nodes", "only steps of dbt report nodes")
	case p.Batch < 1 || p.Batch > run.MaxNodesBatches:
		return nil, endError("/nodes/batch", fmt.Sprintf("must be from 1 to %d", run.MaxNodesBatches))
	case p.Base < 0 || p.Base >= e.LogicalAttempt:
		return nil, endError("/nodes/base", "must be an earlier attempt of the step, or 0")
	case len(p.Nodes) > run.MaxNodesOfBatch:
		return nil, endError("/nodes/nodes", fmt.Sprintf("at most %d nodes are allowed", run.MaxNodesOfBatch))
	}
	nodes := make([]run.StepNode, len(p.Nodes))
	for i, n := range p.Nodes {
		for _, id := range []*string{&n.ID, &n.SkippedBy, &n.Relation, &n.Type} {
			*id = run.Text(*id, run.MaxNodeID)
		}
		n.Error = run.Text(n.Error, run.MaxNodeText)
		nodes[i] = n
	}
	p.Nodes, p.Warehouse = nodes, run.Text(p.Warehouse, run.MaxNodeID)
	payload, err := json.Marshal(p)
	if err != nil {
		return nil, endError("/nodes", err.Error())
	}
	if len(payload) > run.MaxNodesPayload {
		return nil, endError("/nodes", fmt.Sprintf("has %d bytes, at most %d are allowed", len(payload),
			run.MaxNodesPayload))
	}
	return payload, nil
}
