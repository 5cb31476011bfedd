package runs

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// acceptPause accepts a PAUSE. If pausesAhead, the pause takes effect at once: the transaction that accepts it also
// writes RunPaused, closes the gate and marks the receipt APPLIED, whether or not the engine can be reached. The engine
// takes the pause over when the signal is delivered (docs/decisions/0029). Otherwise the engine applies the signal like
// any other.
func (j *judging) acceptPause(ctx context.Context, tx store.RunTx, st run.State) error {
	ahead, err := pausesAhead(ctx, tx, st)
	if err != nil {
		return err
	}
	if err := j.appendAccepted(ctx, tx, j.in.Signal, 0, true); err != nil || !ahead {
		return err
	}
	payload, err := json.Marshal(run.PausePayload{SignalID: j.in.Signal.ID, Reason: j.in.Reason,
		PauseRequestedBy: j.p.ID})
	if err != nil {
		return err
	}
	out, err := tx.Append(ctx, store.Append{
		RunID: j.in.RunID, SetGate: run.GatePaused,
		Events: []run.Draft{{
			Type: run.RunPaused, LogicalAttempt: st.PausedEpoch + 1, EngineAttempt: 1,
			EmittedAt: j.s.stopper.now(), EmittedBy: run.ByControl, Payload: payload,
		}},
		Outcomes: []store.SignalOutcome{{SignalID: j.in.Signal.ID, Application: run.SignalApplied, AppliedBy: 0}},
	})
	if err != nil {
		return err
	}
	if o := out.Outcomes[0]; o.Refused != "" || o.Deduplicated {
		return fmt.Errorf("control: %s of epoch %d was not taken: %q, duplicate %t", run.RunPaused, st.PausedEpoch+1,
			o.Refused, o.Deduplicated)
	}
	j.out.SignalReceipt, err = tx.Receipt(ctx, j.in.Signal.ID)
	return err
}

// pausesAhead reports whether a PAUSE may be applied now. It may not while another signal waits to be applied: signals
// take effect in the order of their numbers (contract T196), and the effect of the other signal may depend on whether
// the run is paused.
func pausesAhead(ctx context.Context, tx store.RunTx, st run.State) (bool, error) {
	if !st.PausesAhead() || tx.Head().Gate&(run.GatePaused|run.GateStopped) != 0 {
		return false, nil
	}
	waits, err := tx.IsUndecided(ctx)
	return !waits, err
}
