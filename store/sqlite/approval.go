package sqlite

import (
	"context"

	"github.com/dvt-engine/dvt/store"
)

// Approval implements store.Approvals.
func (s *Store) Approval(context.Context, string) (store.Approval, error) {
	return store.Approval{}, store.ErrNotFound
}

// OpenApprovals implements store.Approvals.
func (s *Store) OpenApprovals(context.Context, store.ApprovalFilter) ([]store.Approval, error) {
	return nil, nil
}

// ExpiredApprovals implements store.Approvals.
func (s *Store) ExpiredApprovals(context.Context, int) ([]store.Approval, error) { return nil, nil }

// Approval implements store.ApprovalTx.
func (t *runTx) Approval(context.Context) (store.Approval, error) {
	return store.Approval{}, store.ErrNotFound
}

// Decide implements store.ApprovalTx.
func (t *runTx) Decide(context.Context, store.ApprovalDecision) error { return errNotYet }

// CloseApproval implements store.ApprovalTx.
func (t *runTx) CloseApproval(context.Context) error { return errNotYet }
