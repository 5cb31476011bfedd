package store

import (
	"context"
	"errors"
	"time"

	"github.com/dvt-engine/dvt/run"
)

// ErrAlreadyRerun says that CreateRun did not create a rerun, because the chain has a newer run.
var ErrAlreadyRerun = errors.New("store: already rerun")

// Reruns finds the reruns of runs.
type Reruns interface {
	// RerunChains reads the runs of a tenant and the whole chains of reruns that they belong to: the runs that they rerun,
	// their reruns, the reruns of those, and so on. It returns each run once, in any order, and at most limit of them.
	// Unknown runs and runs of other tenants are absent.
	RerunChains(ctx context.Context, tenantID string, runIDs []string, limit int) ([]ChainRun, error)
}

// ChainRun is one run of a chain of reruns.
type ChainRun struct {
	RunID       string
	ParentRunID string // "" for the first run of a chain
	CreatedAt   time.Time
	Status      run.Status // by the checkpoint; "" when there is none
}
