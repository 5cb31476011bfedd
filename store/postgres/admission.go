package postgres

import (
	"context"
	"errors"

	"github.com/dvt-engine/dvt/store"
)

var errNotYet = errors.New("postgres: not built yet")

// AdmitWaiting implements store.Admissions.
func (s *Store) AdmitWaiting(context.Context, func(string, string) store.Terms, int) (store.Admitted, error) {
	return store.Admitted{}, nil
}

// ExpiredWaiting implements store.Admissions.
func (s *Store) ExpiredWaiting(context.Context, int) ([]store.QueueRow, error) { return nil, nil }

// WaitingRuns implements store.Admissions.
func (s *Store) WaitingRuns(context.Context, store.WaitingFilter) ([]store.QueueRow, error) {
	return nil, nil
}

// Usage implements store.Admissions.
func (s *Store) Usage(context.Context, string) (store.Usage, error) {
	return store.Usage{}, errNotYet
}

// ActiveRuns implements store.Admissions.
func (s *Store) ActiveRuns(context.Context) (int64, error) { return 0, errNotYet }

// Enqueue implements store.QuotaTx.
func (r runTx) Enqueue(context.Context, store.Enqueue) (store.Admission, error) {
	return store.Admission{}, errNotYet
}
