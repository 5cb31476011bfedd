package store

import "context"

// Entry is one Append or one StartAttempt of a batch: exactly one of them is set.
type Entry struct {
	Append *Append
	Start  *StartAttempt
}

// RunID is the run of the entry.
func (e Entry) RunID() string {
	if e.Start != nil {
		return e.Start.RunID
	}
	return e.Append.RunID
}

// EntryResult is what became of an Entry: Err, or the answer of its kind.
type EntryResult struct {
	Appended Appended
	Started  AttemptStarted
	Err      error
}

// Batcher writes several entries of one run in one transaction.
type Batcher interface {
	// Batch works as calling Append and StartAttempt for each entry in order would, in one
	// transaction and at the price of one commit. An entry that cannot be written
	// has its own Err and leaves the others alone; an error of the call means that
	// nothing was written, or that nobody can say (see the package's doc).
	Batch(ctx context.Context, runID string, entries []Entry) ([]EntryResult, error)
}

// MaxEntries is the most entries of one Batch or Group.
const MaxEntries = 256

// Grouper writes events of different runs in one transaction.
type Grouper interface {
	// Plain prepares an entry that is one event and needs, as far as can be told
	// without asking the database, nothing but its insertion. It reports false of any
	// other, also of an invalid one: that is for Append or StartAttempt.
	Plain(e Entry) (Plain, bool)
	// Group writes what Plain prepared, no two of one run, as Append and StartAttempt would,
	// in one transaction and at the price of one commit. The answer is nil for what it
	// found to need more: nothing was done about it, and it is for Append or StartAttempt. It
	// never waits for a head that somebody else holds: that answer is nil too. An error
	// of the call means that nothing was written, or that nobody can say. At most
	// MaxEntries.
	Group(ctx context.Context, prepared []Plain) ([]*EntryResult, error)
}

// Plain is an entry as its Grouper prepared it, and for that Grouper alone.
type Plain interface {
	RunID() string
}

// Creator makes several runs in one transaction.
type Creator interface {
	// CreateRuns works as calling CreateRun for each of runs in order would, in one transaction and at the price of
	// one commit. A run that cannot be written has its own Err and leaves the others alone; an error of the call
	// means that nothing was written, or that nobody can say. At most MaxEntries.
	CreateRuns(ctx context.Context, runs []NewRun) ([]CreatedRun, error)
}

// CreatedRun is the answer of CreateRun.
type CreatedRun struct {
	Run     Run
	Created bool
	Err     error
}
