package store

import (
	"context"
	"time"

	"github.com/dvt-engine/dvt/run"
)

// Projection advances the checkpoints of many runs with one read and one write. It has the effects of States, and like
// States it is safe beside other projectors: an older checkpoint never replaces a newer one (contract T173, T189).
type Projection interface {
	// Tails reads the events after the states that a projector knows, in one statement and one snapshot. At most MaxTails
	// runs, each once. Unknown runs are absent from the result.
	Tails(ctx context.Context, known []TailRequest) (Tails, error)
	// Advance first has the effect of States.Published for published, then that of States.Save for save. Each run is at
	// most once in each list. It returns, in the order of save, which checkpoints it wrote. All is one transaction, except
	// that it saves a checkpoint alone when the stored one is not the one in CheckpointSave.Replaces; an error may then
	// follow writes that were committed, and the caller may repeat the call.
	Advance(ctx context.Context, published []PublishedTo, save []CheckpointSave) ([]bool, error)
}

// Limits of Projection.
const (
	MaxTails = 256 // runs in one call
	MaxTail  = 256 // events of one run in one answer
)

// TailRequest is a run and the seq of the state that the caller has.
type TailRequest struct {
	RunID string
	Seq   run.Seq
}

// Tails is the result of Projection.Tails. Epoch is as in Heads.
type Tails struct {
	Epoch string
	Now   time.Time // the store's clock
	ByRun map[string]Tail
}

// Tail is the head of a run and its events after TailRequest.Seq.
type Tail struct {
	Head         Head
	CheckpointAt run.Seq // seq of the stored checkpoint of this program's reducer revision, 0 for none
	PublishedSeq run.Seq
	Mark         *Mark // nil when all changes are published
	// Events are those with Seq > TailRequest.Seq, ascending, at most MaxTail. When the last one is below Head.LastSeq,
	// the caller must Load the state instead.
	Events []run.Event
}

// Mark is the dirty mark of a run with unpublished changes.
type Mark struct {
	Since time.Time // of the oldest unpublished change
	Refusal
	NotBefore time.Time // earliest time to publish again; in the past when the bus has not refused
}

// PublishedTo says that the events of a run up to To and its operational state up to OpsRev were published.
type PublishedTo struct {
	RunID  string
	To     run.Seq
	OpsRev int64
}

// CheckpointSave is a state to save as a run's checkpoint. Replaces is the Tail.CheckpointAt that it must replace.
type CheckpointSave struct {
	State    run.State
	Replaces run.Seq
}
