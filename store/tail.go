package store

import (
	"context"
	"time"

	"github.com/dvt-engine/dvt/run"
)

// Projection brings many runs forward at the price of one call each way. What it
// writes is what States writes, and as safe beside other projectors (T173, T189).
type Projection interface {
	// Tails reads, in one statement and one snapshot, what a projector that knows the
	// states of some runs needs to bring them to their heads. At most MaxTails runs,
	// each once; unknown runs are absent from the answer.
	Tails(ctx context.Context, known []Known) (Tails, error)
	// Advance records what was published as States.Published would, and then saves
	// checkpoints as States.Save would, each run at most once in each list, all of it
	// in one transaction where the stored checkpoints are those of Saving.Over. It
	// reports, in the order of save, which checkpoints it wrote.
	Advance(ctx context.Context, published []PublishedTo, save []Saving) ([]bool, error)
}

// Limits of Projection.
const (
	MaxTails = 256 // runs in one call
	MaxTail  = 256 // events of one run in one answer
)

// Known is a run and the seq of the state that the caller has.
type Known struct {
	RunID string
	Seq   run.Seq
}

// Tails answers Projection.Tails. Epoch is opaque and compared for equality (T194).
type Tails struct {
	Epoch string
	Now   time.Time // the store's clock
	ByRun map[string]Tail
}

// Tail is what there is of a run beyond Known.
type Tail struct {
	Head         Head
	CheckpointAt run.Seq // seq of the stored checkpoint of this program's revision, 0 for none
	PublishedSeq run.Seq
	Mark         *Mark // nil when nothing is to be published
	// Events are those with Seq > Known.Seq, ascending, at most MaxTail: when the last
	// of them is below the head, the state is to be loaded.
	Events []run.Event
}

// Mark is the dirty mark of a run: since when something waits, and how often the
// bus refused it (T189, T123).
type Mark struct {
	Since time.Time
	Refusal
	NotBefore time.Time // the bus is not to be asked again before; in the past when it never refused
}

// PublishedTo says that everything of a run up to To was published, and its
// operational state up to OpsRev.
type PublishedTo struct {
	RunID  string
	To     run.Seq
	OpsRev int64
}

// Saving is a state to keep as a run's checkpoint. Over is Tail.CheckpointAt.
type Saving struct {
	State run.State
	Over  run.Seq
}
