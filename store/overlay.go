package store

import (
	"context"

	"github.com/dvt-engine/dvt/run"
)

// Overlays reads the overlays of a run: its accepted UPDATE_PARAMS, INJECT_OVERRIDE and UPDATE_TARGET signals. A
// receipt says what the overlay changes, and its AcceptedSeq from when on (contract T197). A caller that accepts an
// overlay must set run.GateOverlaid in the append of its SignalAccepted, so that attempts start only with the overlay.
type Overlays interface {
	// Overlays lists the overlays of a step and those of the whole run with AcceptedSeq in (after, upTo], in the order of
	// AcceptedSeq, at most MaxPage.
	Overlays(ctx context.Context, runID, stepID string, after, upTo run.Seq) ([]run.SignalReceipt, error)
}

// OverlayTx is the overlays of the locked run.
type OverlayTx interface {
	// CountOverlays returns the number of overlays of the run, and the AcceptedSeq of the newest overlay of the step or
	// the whole run, 0 for none.
	CountOverlays(ctx context.Context, stepID string) (count int, newest run.Seq, err error)
	// StartAttempt works like Log.StartAttempt, in this transaction, and ignores run.GateOverlaid. The caller has read
	// the overlays under the lock and sets ParamsSeq to the newest.
	StartAttempt(ctx context.Context, b StartAttempt) (AttemptStarted, error)
}
