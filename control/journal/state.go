package journal

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/dvt-engine/dvt/artifact"
	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/engine/ticket"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// maxGreenLooks is the number of the newest runs of a plan among which the last green one is searched, and stateReads
// the number of manifests that are read for workers at once, because each is held in memory.
const (
	maxGreenLooks = 50
	stateReads    = 2
)

// manifestName is the file name of the manifest among the artifacts of an attempt.
const manifestName = "manifest.json"

// stateFor returns the manifest with which a slim dbt step compares, without a RunID when there is none; nil for a step
// that compares with none.
func (j *Journal) stateFor(ctx context.Context, f *RunFacts, i int) (*run.StateBase, error) {
	step := &f.plan.Steps[i]
	if step.Type.WorkloadOn("") != plan.DBTWorkload || !bytes.Contains(step.Inputs, []byte(`"state"`)) {
		return nil, nil //nolint:nilnil // no comparison
	}
	in, err := plan.DecodeDBT(step.Inputs)
	if err != nil || in.State == nil {
		return nil, nil //nolint:nilnil,nilerr // the worker says what is wrong with the inputs
	}
	newest, err := j.cfg.Store.Lists.List(ctx, store.RunFilter{TenantID: f.run.TenantID,
		ProjectIDs: []string{f.run.ProjectID}, EnvironmentID: f.run.EnvironmentID, PlanID: f.plan.Metadata.PlanID,
		Limit: maxGreenLooks})
	if err != nil {
		return nil, err
	}
	for _, r := range newest {
		// The log of a run may be ahead of its row.
		if r.Header.RunID == f.run.RunID || r.Header.Status != run.Completed && r.Head == r.Header.Seq {
			continue
		}
		l, err := j.cfg.Store.Runs.Load(ctx, r.Header.RunID)
		if errors.Is(err, store.ErrNotFound) { // removed meanwhile
			continue
		}
		if err != nil {
			return nil, err
		}
		if l.State.Status != run.Completed {
			continue
		}
		if base, ok := manifestOf(f.run.TenantID, &l.State, step.StepID); ok {
			return base, nil
		}
	}
	return &run.StateBase{}, nil
}

// manifestOf returns the manifest that the successful attempt of a step stored itself. That of another attempt, which a
// rerun took over, is one of an older run, and a worker can name the artifact of anybody.
func manifestOf(tenantID string, st *run.State, stepID string) (*run.StateBase, bool) {
	step, known := st.Step(stepID)
	if !known || len(step.Attempts) == 0 {
		return nil, false
	}
	a := step.Attempts[len(step.Attempts)-1]
	own := artifact.URI(artifact.Name(artifact.AttemptID{TenantID: tenantID, RunID: st.RunID, StepID: stepID,
		LogicalAttempt: a.LogicalAttempt}, a.EngineAttempt, manifestName))
	k := slices.IndexFunc(a.Artifacts, func(ref run.ArtifactRef) bool {
		return ref.Kind == run.KindDBTManifest && ref.URI == own && ref.SHA256 != "" && ref.SizeBytes <= engine.MaxState
	})
	if k < 0 || a.Status != run.StepSuccess {
		return nil, false
	}
	return &run.StateBase{RunID: st.RunID, LogicalAttempt: a.LogicalAttempt, Manifest: &a.Artifacts[k]}, true
}

// startedState returns the manifest that the StepStarted at a position names. Every try of the attempt gets the same.
func (j *Journal) startedState(ctx context.Context, runID string, at run.Seq) (*run.StateBase, error) {
	event, err := j.eventAt(ctx, runID, at)
	if err != nil {
		return nil, err
	}
	p, err := run.PayloadOf[run.StepStartedPayload](event.Payload)
	return p.State, err
}

var _ engine.StateReader = (*attempts)(nil)

// ReadState implements engine.StateReader.
func (a *attempts) ReadState(ctx context.Context, r engine.StateRead) ([]byte, error) {
	out, err := a.readState(ctx, r)
	call := refusedCall{call: "state", actor: a.worker.ID, runID: r.RunID, stepID: r.StepID}
	return out, a.journal.refusals.record(ctx, call, err)
}

func (a *attempts) readState(ctx context.Context, r engine.StateRead) ([]byte, error) {
	j := a.journal
	if err := a.checkKey(ctx, r.Key, ticket.Execution{RunID: r.RunID, StepID: r.StepID, LogicalAttempt: r.LogicalAttempt,
		N: r.N, EngineAttempt: r.EngineAttempt, StartedSeq: r.StartedSeq}); err != nil {
		return nil, err
	}
	if _, _, err := j.openAttempt(ctx, r.RunID, r.StepID, r.LogicalAttempt, false); err != nil {
		return nil, err
	}
	base, err := j.startedState(ctx, r.RunID, r.StartedSeq)
	if err != nil {
		return nil, err
	}
	if base == nil || base.Manifest == nil {
		return nil, newRefusal("state", "the attempt compares with no manifest")
	}
	select {
	case j.states <- struct{}{}:
		defer func() { <-j.states }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	body, err := j.cfg.Blobs.Open(ctx, base.Manifest.URI)
	if errors.Is(err, artifact.ErrNotFound) {
		return nil, fmt.Errorf("%w: the manifest is no longer stored", store.ErrNotFound)
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = body.Close() }()
	var out bytes.Buffer
	packed := gzip.NewWriter(&out)
	if _, err := io.Copy(packed, io.LimitReader(body, engine.MaxState)); err != nil {
		return nil, err
	}
	if err := packed.Close(); err != nil {
		return nil, err
	}
	if out.Len() > engine.MaxStateGzip {
		return nil, fmt.Errorf("%w: the manifest is too large", store.ErrNotFound)
	}
	return out.Bytes(), nil
}
