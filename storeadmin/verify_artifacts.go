package storeadmin

import (
	"context"
	"encoding/json"
	"fmt"

	"golang.org/x/sync/errgroup"

	"github.com/dvt-engine/dvt/run"
)

// maxReading limits the artifacts that Verify reads at once.
const maxReading = 8

// reportedArtifact is an artifact and the event that reported it.
type reportedArtifact struct {
	seq   run.Seq
	ref   run.ArtifactRef
	wrong string
}

// collect keeps the artifacts that an event reports, when they are to be read.
func (v *verification) collect(e *run.Event) {
	if v.options.Artifact == nil || e.Type != run.StepCompletedEvent && e.Type != run.StepFailedEvent {
		return
	}
	var payload struct {
		ArtifactRefs []run.ArtifactRef `json:"artifactRefs"`
	}
	if json.Unmarshal(e.Payload, &payload) != nil {
		return // the event itself is a difference
	}
	for _, ref := range payload.ArtifactRefs {
		v.reported = append(v.reported, reportedArtifact{seq: e.Seq, ref: ref})
	}
}

// readArtifacts reads the artifacts of the run and finds those whose content differs from the report of their step.
func (v *verification) readArtifacts(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(maxReading)
	for i := range v.reported {
		a := &v.reported[i]
		g.Go(func() (err error) {
			if a.wrong, err = v.options.Artifact(ctx, &v.state, a.ref); err != nil {
				return fmt.Errorf("artifact %s: %w", a.ref.URI, err)
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	v.out.Artifacts += len(v.reported)
	for _, a := range v.reported {
		if a.wrong != "" {
			v.note(a.seq, "artifact["+a.ref.URI+"]", a.wrong, "the content that the step reported")
		}
	}
	return nil
}
