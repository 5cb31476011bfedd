package decorate

import (
	"context"
	"time"

	"github.com/dvt-engine/dvt/store"
)

// RowSealer seals the personal fields of audit rows. It does no I/O.
type RowSealer interface {
	Seal(rows []store.AuditRow) ([]store.AuditRow, error)
}

// SealAudit returns a store that seals the personal fields of every audit row before the store below writes it. An
// error of the sealer refuses the call: an action without its audit row must not happen.
func SealAudit(s store.Store, sealer RowSealer) store.Store { return &sealing{s, sealer} }

type sealing struct {
	store.Store
	sealer RowSealer
}

func (s *sealing) one(row store.AuditRow) (store.AuditRow, error) {
	rows, err := s.sealer.Seal([]store.AuditRow{row})
	if err != nil {
		return row, err
	}
	return rows[0], nil
}

func (s *sealing) Audit(ctx context.Context, rows ...store.AuditRow) error {
	rows, err := s.sealer.Seal(rows)
	if err != nil {
		return err
	}
	return s.Store.Audit(ctx, rows...)
}

func (s *sealing) InRun(ctx context.Context, runID string, f func(store.RunTx) error) error {
	return s.Store.InRun(ctx, runID, func(t store.RunTx) error { return f(sealingTx{t, s.sealer}) })
}

type sealingTx struct {
	store.RunTx
	sealer RowSealer
}

func (t sealingTx) Audit(ctx context.Context, rows ...store.AuditRow) error {
	rows, err := t.sealer.Seal(rows)
	if err != nil {
		return err
	}
	return t.RunTx.Audit(ctx, rows...)
}

func (s *sealing) CreateRun(ctx context.Context, n store.NewRun) (_ store.Run, created bool, err error) {
	if n.Audit, err = s.sealer.Seal(n.Audit); err != nil {
		return store.Run{}, false, err
	}
	return s.Store.CreateRun(ctx, n)
}

func (s *sealing) PutBulk(ctx context.Context, b store.NewBulk) (_ store.Bulk, created bool, err error) {
	if b.Audit, err = s.one(b.Audit); err != nil {
		return store.Bulk{}, false, err
	}
	return s.Store.PutBulk(ctx, b)
}

func (s *sealing) StopBulk(ctx context.Context, id string, row store.AuditRow) (_ store.Bulk, stopped bool, err error) {
	if row, err = s.one(row); err != nil {
		return store.Bulk{}, false, err
	}
	return s.Store.StopBulk(ctx, id, row)
}

func (s *sealing) AcknowledgeAlert(ctx context.Context, id, by, note string,
	rows ...store.AuditRow) (_ store.AlertState, err error) {
	if rows, err = s.sealer.Seal(rows); err != nil {
		return store.AlertState{}, err
	}
	return s.Store.AcknowledgeAlert(ctx, id, by, note, rows...)
}

func (s *sealing) Silence(ctx context.Context, a store.AlertSilence,
	rows ...store.AuditRow) (_ store.AlertSilence, err error) {
	if rows, err = s.sealer.Seal(rows); err != nil {
		return store.AlertSilence{}, err
	}
	return s.Store.Silence(ctx, a, rows...)
}

func (s *sealing) EndSilence(ctx context.Context, tenantID, id string, rows ...store.AuditRow) (err error) {
	if rows, err = s.sealer.Seal(rows); err != nil {
		return err
	}
	return s.Store.EndSilence(ctx, tenantID, id, rows...)
}

func (s *sealing) PutView(ctx context.Context, v store.SavedView,
	rows ...store.AuditRow) (_ store.SavedView, err error) {
	if rows, err = s.sealer.Seal(rows); err != nil {
		return store.SavedView{}, err
	}
	return s.Store.PutView(ctx, v, rows...)
}

func (s *sealing) DeleteView(ctx context.Context, tenantID, owner, id string, rows ...store.AuditRow) (err error) {
	if rows, err = s.sealer.Seal(rows); err != nil {
		return err
	}
	return s.Store.DeleteView(ctx, tenantID, owner, id, rows...)
}

func (s *sealing) PutPolicy(ctx context.Context, p store.StoredPolicy,
	row store.AuditRow) (_ store.StoredPolicy, err error) {
	if row, err = s.one(row); err != nil {
		return store.StoredPolicy{}, err
	}
	return s.Store.PutPolicy(ctx, p, row)
}

func (s *sealing) PutToken(ctx context.Context, t store.StoredToken,
	row store.AuditRow) (_ store.StoredToken, created bool, err error) {
	if row, err = s.one(row); err != nil {
		return store.StoredToken{}, false, err
	}
	return s.Store.PutToken(ctx, t, row)
}

func (s *sealing) RevokeToken(ctx context.Context, tenantID, id, by string,
	row store.AuditRow) (_ store.StoredToken, revoked bool, err error) {
	if row, err = s.one(row); err != nil {
		return store.StoredToken{}, false, err
	}
	return s.Store.RevokeToken(ctx, tenantID, id, by, row)
}

func (s *sealing) PutSetting(ctx context.Context, v store.StoredSetting,
	row store.AuditRow) (_ store.StoredSetting, err error) {
	if row, err = s.one(row); err != nil {
		return store.StoredSetting{}, err
	}
	return s.Store.PutSetting(ctx, v, row)
}

func (s *sealing) SwitchDestination(ctx context.Context, x store.DestinationSwitch,
	rows ...store.AuditRow) (err error) {
	if rows, err = s.sealer.Seal(rows); err != nil {
		return err
	}
	return s.Store.SwitchDestination(ctx, x, rows...)
}

func (s *sealing) PutDestinationOrder(ctx context.Context, o store.DestinationOrder,
	rows ...store.AuditRow) (_ store.DestinationOrder, err error) {
	if rows, err = s.sealer.Seal(rows); err != nil {
		return store.DestinationOrder{}, err
	}
	return s.Store.PutDestinationOrder(ctx, o, rows...)
}

func (s *sealing) ActOnIncident(ctx context.Context, id string, note store.IncidentNote,
	rows ...store.AuditRow) (_ store.Incident, err error) {
	if rows, err = s.sealer.Seal(rows); err != nil {
		return store.Incident{}, err
	}
	return s.Store.ActOnIncident(ctx, id, note, rows...)
}

func (s *sealing) PutWorkerReports(ctx context.Context, reports []store.WorkerReport,
	rows ...store.AuditRow) (err error) {
	if rows, err = s.sealer.Seal(rows); err != nil {
		return err
	}
	return s.Store.PutWorkerReports(ctx, reports, rows...)
}

func (s *sealing) DrainWorker(ctx context.Context, d store.WorkerDrain,
	rows ...store.AuditRow) (_ store.WorkerDrain, err error) {
	if rows, err = s.sealer.Seal(rows); err != nil {
		return store.WorkerDrain{}, err
	}
	return s.Store.DrainWorker(ctx, d, rows...)
}

func (s *sealing) EndWorkerDrain(ctx context.Context, account, worker string, rows ...store.AuditRow) (err error) {
	if rows, err = s.sealer.Seal(rows); err != nil {
		return err
	}
	return s.Store.EndWorkerDrain(ctx, account, worker, rows...)
}

func (s *sealing) RequestErasure(ctx context.Context, e store.Erasure, ttl time.Duration,
	rows ...store.AuditRow) (_ store.Erasure, err error) {
	if rows, err = s.sealer.Seal(rows); err != nil {
		return store.Erasure{}, err
	}
	return s.Store.RequestErasure(ctx, e, ttl, rows...)
}

func (s *sealing) DecideErasure(ctx context.Context, tenantID, id, by string, confirm bool,
	rows ...store.AuditRow) (_ store.Erasure, err error) {
	if rows, err = s.sealer.Seal(rows); err != nil {
		return store.Erasure{}, err
	}
	return s.Store.DecideErasure(ctx, tenantID, id, by, confirm, rows...)
}

func (s *sealing) PlaceHold(ctx context.Context, h store.Hold,
	row store.AuditRow) (_ store.Hold, placed bool, err error) {
	if row, err = s.one(row); err != nil {
		return store.Hold{}, false, err
	}
	return s.Store.PlaceHold(ctx, h, row)
}

func (s *sealing) LiftHold(ctx context.Context, tenantID, id, by, reason string,
	row store.AuditRow) (_ store.Hold, lifted bool, err error) {
	if row, err = s.one(row); err != nil {
		return store.Hold{}, false, err
	}
	return s.Store.LiftHold(ctx, tenantID, id, by, reason, row)
}

func (s *sealing) PutSecretOrder(ctx context.Context, o store.SecretOrder,
	rows ...store.AuditRow) (_ store.SecretOrder, err error) {
	if rows, err = s.sealer.Seal(rows); err != nil {
		return store.SecretOrder{}, err
	}
	return s.Store.PutSecretOrder(ctx, o, rows...)
}
