package store

import (
	"context"

	"github.com/dvt-engine/dvt/run"
)

// Overlays finds the overlays of a run: the accepted UPDATE_PARAMS,
// INJECT_OVERRIDE and UPDATE_TARGET signals, whose receipts say what they change
// and whose AcceptedSeq says from when on (T197). Who accepts one sets
// run.GateOverlaid in the append of its SignalAccepted.
type Overlays interface {
	// Overlays lists those that concern a step, its own and those of the whole run,
	// with AcceptedSeq in (after, upTo], in order of AcceptedSeq, at most MaxPage.
	Overlays(ctx context.Context, runID, stepID string, after, upTo run.Seq) ([]run.Receipt, error)
}

// OverlayTx is the overlays of the locked run.
type OverlayTx interface {
	// Overlaid counts the overlays of the run and returns the AcceptedSeq of the
	// newest one that concerns the step, 0 for none.
	Overlaid(ctx context.Context, stepID string) (count int, newest run.Seq, err error)
	// StartAttempt works as Log.StartAttempt, in this transaction, and passes run.GateOverlaid:
	// who calls it has read the overlays under the lock and says in ParamsSeq which
	// is the newest.
	StartAttempt(ctx context.Context, b StartAttempt) (AttemptStarted, error)
}
