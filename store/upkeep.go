package store

import (
	"context"

	"github.com/dvt-engine/dvt/run"
)

// Upkeep is what verifying, rebuilding and exporting a store need beyond the
// other ports. It looks at every tenant and is never behind the API.
type Upkeep interface {
	// AllRuns lists runs of every tenant in the order of their ids, after the given
	// one ("" for the first), at most limit.
	AllRuns(ctx context.Context, after string, limit int) ([]Run, error)
	// Checkpoint reads a run's checkpoint as it is stored, unfolded. ErrNotFound when
	// the run has none.
	Checkpoint(ctx context.Context, runID string) (run.State, error)
	// DropCheckpoint deletes a run's checkpoint and marks the run dirty, so that a
	// projector makes a new one. The published seq stays.
	DropCheckpoint(ctx context.Context, runID string) error
	// Repaired records that a run's log was refilled after a restore, and that what
	// was not refilled up to known is lost for good: from then on an Append whose
	// MinHead is at most known is not ErrRegressed (T30, T194). It never falls.
	Repaired(ctx context.Context, runID string, known run.Seq) error
}
