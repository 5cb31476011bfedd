package postgres

import (
	"context"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// InRun implements store.Transactor.
func (s *Store) InRun(ctx context.Context, runID string, f func(store.RunTx) error) error {
	var own error
	err := s.locked(ctx, "in run", runID, func(ctx context.Context, t *tx) error {
		own = f(runTx{t})
		return own
	})
	if own != nil {
		return own
	}
	return err
}

// runTx shows a tx to a caller of InRun.
type runTx struct{ t *tx }

var _ store.RunTx = runTx{}

// Head implements store.LogTx.
func (r runTx) Head() store.Head { return r.t.current() }

// State implements store.LogTx.
func (r runTx) State(ctx context.Context) (run.State, error) {
	if err := r.t.flush(ctx); err != nil {
		return run.State{}, translate(ctx, err)
	}
	l, err := load(ctx, r.t.conn, r.t.id.RunID)
	return l.State, translate(ctx, err)
}

// Append implements store.LogTx.
func (r runTx) Append(ctx context.Context, a store.Append) (store.Appended, error) {
	out, err := r.t.append(ctx, a)
	return out, translate(ctx, err)
}

// Audit implements store.RunTx.
func (r runTx) Audit(_ context.Context, rows ...store.AuditRow) error {
	queueAudit(&r.t.batch, rows)
	return nil
}
