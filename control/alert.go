package control

import (
	"context"

	"github.com/google/uuid"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// acceptAlert raises an alert; the run goes on as it is (T197, R260).
func (j *judging) acceptAlert(ctx context.Context, tx store.RunTx) error {
	p, err := run.PayloadOf[escalateAlert](j.in.Payload)
	if err != nil {
		return err
	}
	if err := tx.Raise(ctx, store.Alert{
		ID: uuid.NewString(), TenantID: j.run.TenantID, ProjectID: j.run.ProjectID, RunID: j.run.RunID,
		SignalID: j.in.Signal.ID,
		Level:    p.Level, Note: p.Note, Actor: j.p.ID,
	}); err != nil {
		return err
	}
	j.raised = p.Level
	return j.appliedHere(ctx, tx, 0)
}
