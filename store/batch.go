package store

import "context"

// Entry is one Append or one StartAttempt of a batch. Exactly one of the fields is set.
type Entry struct {
	Append *Append
	Start  *StartAttempt
}

// RunID returns the id of the entry's run.
func (e Entry) RunID() string {
	if e.Start != nil {
		return e.Start.RunID
	}
	return e.Append.RunID
}

// EntryResult is the result of an Entry: Err, or Appended or Started, as the entry is an Append or a StartAttempt.
type EntryResult struct {
	Appended Appended
	Started  AttemptStarted
	Err      error
}

// Batcher writes several entries of one run in one transaction.
type Batcher interface {
	// Batch has the effect of calling Append or StartAttempt for each entry in order, in one transaction and at the cost
	// of one commit. Results are in the order of the entries. An entry that cannot be written has its own Err and does
	// not affect the others. An error of the call means that no entry was written, or that the outcome of the commit is
	// unknown; the caller then repeats the call, see the package. At most MaxEntries.
	Batch(ctx context.Context, runID string, entries []Entry) ([]EntryResult, error)
}

// MaxEntries is the most entries of one Batch, Group or CreateRuns.
const MaxEntries = 256

// Grouper writes events of different runs in one transaction.
type Grouper interface {
	// Plain prepares an entry for Group. It accepts an entry that is one event and, as far as the process knows without a
	// query, needs only an insert. It returns false for all other entries, including invalid ones; the caller passes them
	// to Append or StartAttempt.
	Plain(e Entry) (Plain, bool)
	// Group has the effect of Append or StartAttempt for each prepared entry, in one transaction and at the cost of one
	// commit. No two entries are of one run. Results are in the order of the entries. A result is nil when the entry
	// turned out to need more than an insert, or when another transaction holds the head of its run, because Group never
	// waits for a head; nothing was written for it, and the caller passes it to Append or StartAttempt. An error of the
	// call means that no entry was written, or that the outcome of the commit is unknown. At most MaxEntries.
	Group(ctx context.Context, prepared []Plain) ([]*EntryResult, error)
}

// Plain is an entry that a Grouper prepared. Only the same Grouper accepts it.
type Plain interface {
	RunID() string
}

// Creator makes several runs in one transaction.
type Creator interface {
	// CreateRuns has the effect of calling CreateRun for each of runs in order, in one transaction and at the cost of one
	// commit. Results are in the order of runs. A run that cannot be written has its own Err and does not affect the
	// others. An error of the call means that no run was written, or that the outcome of the commit is unknown. At most
	// MaxEntries.
	CreateRuns(ctx context.Context, runs []NewRun) ([]CreatedRun, error)
}

// CreatedRun is the result of CreateRun.
type CreatedRun struct {
	Run     Run
	Created bool
	Err     error
}
