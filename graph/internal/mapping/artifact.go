package mapping

import (
	"github.com/dvt-engine/dvt/control/reads"
	"github.com/dvt-engine/dvt/graph/internal/model"
	"github.com/dvt-engine/dvt/run"
)

// artifactOf returns the mapping of artifacts of a run.
func artifactOf(tenantID, runID string) func(run.ArtifactRef) model.Artifact {
	return func(ref run.ArtifactRef) model.Artifact {
		out := model.Artifact{
			URI: ref.URI, Kind: string(ref.Kind), Sha256: Text(ref.SHA256), SizeBytes: Optional(float64(ref.SizeBytes)),
			ContentType: Text(ref.ContentType), ExpiresAt: ref.ExpiresAt,
		}
		if place, ok := reads.PlaceOf(tenantID, runID, ref.URI); ok {
			at := place.DownloadPath(runID)
			out.DownloadURL, out.FileName, out.StepID, out.Attempt = &at, &place.File, &place.StepID, &place.LogicalAttempt
		}
		return out
	}
}

func (g *Graph) artifact(ref run.ArtifactRef) model.Artifact {
	return artifactOf(g.View.State.TenantID, g.View.State.RunID)(ref)
}

// ArtifactsPage maps a page of artifacts of a run, which follows the cursor after.
func ArtifactsPage(runID string, page reads.ArtifactsPage, after string) *model.ArtifactConnection {
	edges, of := make([]model.ArtifactEdge, len(page.Artifacts)), artifactOf(page.TenantID, runID)
	for i, ref := range page.Artifacts {
		node := of(ref)
		edges[i] = model.ArtifactEdge{Cursor: EncodeCursor(page.Cursors[i]), Node: &node}
	}
	return &model.ArtifactConnection{Edges: edges, Total: page.Total,
		PageInfo: PageInfo(edges, func(e model.ArtifactEdge) string { return e.Cursor }, page.HasNext, after != "")}
}

// StepOutput maps the output of an attempt of a run's step.
func StepOutput(runID string, o reads.StepOutput) *model.StepOutput {
	number := func(n *int64) *float64 {
		if n == nil {
			return nil
		}
		return new(float64(*n))
	}
	out := &model.StepOutput{
		LogicalAttemptID: o.LogicalAttempt, Status: enumOf[model.StepStatus](o.Status),
		ArtifactRefs: MapSlice(o.Artifacts, artifactOf(o.TenantID, runID)), Metadata: o.Result, Error: mapStepError(o.Error),
		Metrics: &model.StepMetrics{StartedAt: o.Metrics.StartedAt, FinishedAt: o.Metrics.FinishedAt,
			RowsWritten: number(o.Metrics.RowsWritten), BytesProcessed: number(o.Metrics.BytesProcessed)},
	}
	if o.Metrics.DurationMS != nil {
		out.Metrics.DurationMs = new(milliseconds(*o.Metrics.DurationMS))
	}
	return out
}
