package postgres

import (
	"context"
	"errors"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// InRun implements store.Transactor.
func (s *Store) InRun(ctx context.Context, runID string, f func(store.RunTx) error) error {
	err := s.locked(ctx, "in run", runID, func(_ context.Context, t *tx) error {
		if err := f(runTx{t}); err != nil {
			return &ownError{err}
		}
		return nil
	})
	if own := (*ownError)(nil); errors.As(err, &own) {
		return own.err
	}
	return err
}

// ownError is an error of the caller's function.
type ownError struct{ err error }

func (e *ownError) Error() string { return e.err.Error() }
func (e *ownError) Unwrap() error { return e.err }

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
	l, _, err := load(ctx, r.t.conn, r.t.id.RunID, 0, atHead)
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
