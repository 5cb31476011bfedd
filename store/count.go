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

// RunCount is how many runs there are, and how many of them are FAILED at their checkpoints.
type RunCount struct{ Total, Failed int64 }

// CountInto is Count for adapters: it fills out, one place for each part of the time of f, by one call of
// count for all runs and one for those that failed. count is given a filter and whom to tell how many runs
// a part has. It may be called again with the same out. ErrTooMany as Count, errors of count.
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
	case len(f.Statuses) > 0 && !slices.Contains(f.Statuses, run.Failed):
		return nil
	}
	f.Statuses = []run.Status{run.Failed}
	return count(f, func(part, n int64) { out[part].Failed = min(n, out[part].Total) })
}
