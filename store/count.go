package store

import (
	"slices"

	"github.com/dvt-engine/dvt/run"
)

// Limits of Count.
const (
	MaxParts   = 200
	MaxCounted = 100_000
)

// RunCount is a number of runs, and the number of them that are FAILED as of their checkpoints.
type RunCount struct{ Total, Failed int64 }

// CountInto implements Runs.Count for adapters. out has one element for each part of the time of f. CountInto calls
// count once for all runs and once for the failed ones; count must pass the number of runs of each part to each. Errors
// are ErrTooMany and those of count. After an error it may be called again with the same out.
func (f RunFilter) CountInto(out []RunCount, count func(f RunFilter, each func(part, n int64)) error) error {
	clear(out)
	var all int64
	err := count(f, func(part, n int64) {
		all += n
		out[part].Total = n
	})
	switch {
	case err != nil:
		return err
	case all > MaxCounted:
		return ErrTooMany
	case (len(f.Statuses) > 0 || f.AwaitingOperator) && !slices.Contains(f.Statuses, run.Failed):
		return nil
	}
	f.Statuses, f.AwaitingOperator = []run.Status{run.Failed}, false
	return count(f, func(part, n int64) { out[part].Failed = min(n, out[part].Total) })
}
