package journal

import (
	"bytes"
	"context"
	"encoding/json"

	"github.com/dvt-engine/dvt/control/runs"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// reusedOrds returns the ordinals of the steps whose results a rerun takes over.
func (j *Journal) reusedOrds(ctx context.Context, f *RunFacts) ([]run.Ord, error) {
	pin, err := runs.RerunOf(ctx, j.cfg.Store.Signals, f.run)
	if pin == nil || err != nil {
		return nil, err
	}
	var out []run.Ord
	for _, id := range pin.Reuse {
		if i, ok := f.Steps[id]; ok {
			out = append(out, run.Ord(i))
		}
	}
	return out, nil
}

// completeReused adds to the completions of reused steps the result and the artifacts from the earlier run. That run
// has ended, so its results do not change (contract T209).
func (j *Journal) completeReused(ctx context.Context, a store.Append) error {
	var parent *run.State
	for i := range a.Events {
		d := &a.Events[i]
		if d.Type != run.StepCompletedEvent || !bytes.Contains(d.Payload, []byte(`"reused"`)) {
			continue
		}
		p, err := run.PayloadOf[run.StepCompletedPayload](d.Payload)
		if err != nil {
			return err
		}
		if p.Reused == nil {
			continue
		}
		if parent == nil {
			if parent, err = j.parent(ctx, a.RunID); parent == nil || err != nil {
				return err
			}
		}
		step, ok := parent.Step(d.StepID)
		if !ok || step.Status != run.StepSuccess {
			continue // nothing to take over: the schema refuses the event
		}
		of := step.Attempts[len(step.Attempts)-1]
		p.Reused = &run.Reused{RunID: parent.RunID, Seq: of.EndedSeq}
		p.Result, p.ArtifactRefs = of.Result, of.Artifacts
		if d.Payload, err = json.Marshal(p); err != nil {
			return err
		}
	}
	return nil
}

// parent reads the run whose results a rerun takes over; nil for a run that is not a rerun.
func (j *Journal) parent(ctx context.Context, runID string) (*run.State, error) {
	f, err := j.facts(ctx, runID)
	if err != nil || f.run.ParentRunID == "" {
		return nil, err
	}
	l, err := j.cfg.Store.Runs.Load(ctx, f.run.ParentRunID)
	return &l.State, err
}
