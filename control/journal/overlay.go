package journal

import (
	"context"

	"github.com/dvt-engine/dvt/control/runs"
	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// startOverlaid starts an attempt of a run that has overlays. It holds the head lock, so that StepStarted names the
// newest overlay (contract T197).
func (j *Journal) startOverlaid(ctx context.Context, b store.StartAttempt) (begun store.AttemptStarted, err error) {
	err = j.cfg.Store.Log.InRun(ctx, b.RunID, func(tx store.RunTx) error {
		_, newest, err := tx.CountOverlays(ctx, b.StepID)
		if err != nil {
			return err
		}
		b.ParamsSeq = newest
		begun, err = tx.StartAttempt(ctx, b)
		return err
	})
	return begun, err
}

// overlay applies to a started attempt the overlays up to its StepStarted, in order. Overlays that were accepted later
// do not change a repeated answer (contract T197).
func (j *Journal) overlay(ctx context.Context, out *engine.AttemptStarted) error {
	return runs.EachOverlay(ctx, j.cfg.Store.Signals, j.cfg.Blobs, out.Identity.RunID, out.Step.StepID, out.ParamsSeq,
		out.StartedSeq,
		func(r run.SignalReceipt, o runs.Overlay) {
			out.Step.Inputs, out.Params = o.Apply(out.Step.Inputs, out.Params)
			out.ParamsSeq = r.AcceptedSeq
		})
}
