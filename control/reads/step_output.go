package reads

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"time"

	"github.com/dvt-engine/dvt/artifact"
	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
)

// StepOutput is what one logical attempt of a step gave.
type StepOutput struct {
	TenantID string
	run.Attempt
	Metrics StepMetrics
}

// StepMetrics are the figures of an attempt. Nil means that nobody reported the figure.
type StepMetrics struct {
	StartedAt, FinishedAt *time.Time
	DurationMS            *int64
	// RowsWritten and BytesProcessed are sums over the nodes of dbt. Without the rows of the adapter, RowsWritten has
	// those that the result of the step counts by model.
	RowsWritten, BytesProcessed *int64
}

// StepOutput reads the output of an attempt; 0 means the latest. It returns false when the attempt does not exist. The
// figures of dbt come from run_results.json: they are nil while there is none, and for one above 16 MiB. Errors:
// NOT_FOUND, BAD_USER_INPUT.
func (s *DBTReader) StepOutput(ctx context.Context, p authz.Principal, runID, stepID string, attempt int) (
	out StepOutput, ok bool, err error) {
	if attempt < 0 {
		return out, false, control.BadInput([]plan.Violation{{Path: "attempt", Code: plan.CodeRange,
			Message: "must be 1 or more"}})
	}
	r, err := s.rights.GetVisible(ctx, p, authz.Read, runID)
	if err != nil {
		return out, false, err
	}
	l, err := s.store.Load(ctx, runID)
	if err != nil {
		return out, false, control.Translate(err)
	}
	step, known := l.State.Step(stepID)
	if !known {
		return out, false, control.Refuse(run.CodeNotFound, "The run has no step %q.", stepID)
	}
	logical := cmp.Or(attempt, step.LogicalAttempt)
	i := slices.IndexFunc(step.Attempts, func(a run.Attempt) bool { return a.LogicalAttempt == logical })
	if i < 0 {
		return out, false, nil
	}
	a := step.Attempts[i]
	if a.Artifacts, err = s.expiry.Effective(ctx, &l.State, a.Artifacts); err != nil {
		return out, false, control.Translate(err)
	}
	out = StepOutput{TenantID: r.TenantID, Attempt: a,
		Metrics: StepMetrics{StartedAt: a.StartedAt, FinishedAt: a.CompletedAt}}
	if a.StartedAt != nil && a.CompletedAt != nil {
		out.Metrics.DurationMS = &a.DurationMS
	}
	id := artifact.AttemptID{TenantID: r.TenantID, RunID: runID, StepID: stepID, LogicalAttempt: logical}
	ref := ownResults(id, a)
	if ref == nil || ref.SizeBytes > maxDBTResults {
		return out, true, nil
	}
	body, err := s.blobs.Open(ctx, ref.URI)
	if errors.Is(err, artifact.ErrNotFound) {
		return out, true, nil // artifacts expire
	}
	if err != nil {
		return out, false, control.Translate(err)
	}
	defer func() { _ = body.Close() }()
	err = eachDBTNode(io.LimitReader(body, maxDBTResults), func(_ int, n dbtNode) { out.Metrics.add(n) })
	if err != nil {
		return out, false, control.Translate(err)
	}
	if out.Metrics.RowsWritten == nil {
		out.Metrics.RowsWritten = countedRows(a.Result)
	}
	return out, true, nil
}

// ownResults returns dbt's results among the artifacts of an attempt, nil without. It accepts only the URI that belongs
// to the attempt, because a worker could report the artifact of another one.
func ownResults(id artifact.AttemptID, a run.Attempt) *run.ArtifactRef {
	own := artifact.URI(artifact.Name(id, a.EngineAttempt, dbtResultsFile))
	for i, ref := range a.Artifacts {
		if ref.Kind == run.KindDBTRunResults && ref.URI == own {
			return &a.Artifacts[i]
		}
	}
	return nil
}

// add adds the figures of a node. Tests and operations write no rows.
func (m *StepMetrics) add(n dbtNode) {
	if slices.Contains([]string{"model", "seed", "snapshot"}, n.ResourceType()) {
		addTo(&m.RowsWritten, n.number("rows_affected"))
	}
	addTo(&m.BytesProcessed, n.number("bytes_processed"))
}

func addTo(sum **int64, n *int64) {
	switch {
	case n == nil:
	case *sum == nil:
		*sum = n
	default:
		**sum += *n
	}
}

// countedRows returns the sum of the rows that the result of a step counts by model, nil when it counts none.
func countedRows(result json.RawMessage) *int64 {
	var counted struct {
		Rows map[string]json.RawMessage `json:"rows"`
	}
	if json.Unmarshal(result, &counted) != nil {
		return nil
	}
	var sum *int64
	for _, raw := range counted.Rows {
		var n int64
		if json.Unmarshal(raw, &n) == nil && n >= 0 {
			addTo(&sum, &n)
		}
	}
	return sum
}
