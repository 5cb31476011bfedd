package store

import "context"

// Entry is one Append or one Begin of a batch: exactly one of them is set.
type Entry struct {
	Append *Append
	Begin  *Begin
}

// EntryResult is what became of an Entry: Err, or the answer of its kind.
type EntryResult struct {
	Appended Appended
	Begun    Begun
	Err      error
}

// Batcher writes several entries of one run in one transaction.
type Batcher interface {
	// Batch works as calling Append and Begin for each entry in order would, in one
	// transaction and at the price of one commit. An entry that cannot be written
	// has its own Err and leaves the others alone; an error of the call means that
	// nothing was written, or that nobody can say (see the package's doc).
	Batch(ctx context.Context, runID string, entries []Entry) ([]EntryResult, error)
}

// MaxEntries is the most entries of one Batch.
const MaxEntries = 256
