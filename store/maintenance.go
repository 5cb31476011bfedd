package store

import (
	"context"

	"github.com/dvt-engine/dvt/run"
)

// Maintenance has the operations that package storeadmin needs beyond the other ports. They cross tenants, so the API
// must never call them for a request.
type Maintenance interface {
	// AllRuns lists runs of every tenant by id, strictly after the given one ("": from the first), at most limit (≤
	// MaxPage).
	AllRuns(ctx context.Context, after string, limit int) ([]Run, error)
	// Checkpoint reads a run's checkpoint as stored, without folding later events. ErrNotFound when the run has none.
	Checkpoint(ctx context.Context, runID string) (run.State, error)
	// DropCheckpoint deletes a run's checkpoint and marks the run dirty, so that a projector makes a new one. The
	// published seq does not change. ErrNotFound for an unknown run.
	DropCheckpoint(ctx context.Context, runID string) error
	// MarkRepaired records that a run's log was refilled after a restore, and that events up to known that were not
	// refilled are lost. From then on an Append whose MinHead is at most known is not refused with ErrRegressed
	// (contract T30, T194). The recorded value never decreases.
	MarkRepaired(ctx context.Context, runID string, known run.Seq) error
}
